// Package tickets makes and checks what stands between a crowd of machines and
// a sale: purchase tickets, the proof of work that may be asked before one, and
// the question to the merchant's own risk service.
//
// Tickets and proofs are stateless. A ticket or a challenge is a short text that names its
// format, its key and its expiry, and ends with an HMAC-SHA256 over all of that
// and over the sale and the buyer it is for. Any server that has the key can
// check it, and nothing is stored or shared. So a ticket cannot be made up,
// passed on to another buyer or another sale, or kept for later; and handing
// it out only shortly before the opening leaves no time to prepare.
//
// Nothing here decides about units: the invariants are the ledger's. A claim
// that comes without a good ticket may still be the repeat of an accepted one
// (I4), so the gate asks the ledger for that before it refuses.
//
// An Asker asks the merchant's risk service (a captcha, a risk score) whether a
// buyer may have a ticket. The service may be slow, down or wrong: the time, the
// memory and the concurrent requests spent on it are bounded, and each sale says
// what happens to a buyer whom the service has not judged.
package tickets
