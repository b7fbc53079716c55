// Package sluice is the domain of Sluice, a flash-sale engine: the nouns and the
// rules that every ledger, store and server keeps. It imports only the standard
// library; everything else imports it.
//
// # The way of a claim
//
// A buyer's claim passes the gate and the batcher (package admission), is
// decided by a ledger together with hundreds of others in one atomic step,
// and, when accepted, is in the ledger's journal from that instant on. The
// pipeline carries journal entries into a store, where each becomes exactly
// one order. The audit recomputes the invariants from both.
//
// # Invariants
//
// Code, scripts, SQL, tests and the audit cite them by number.
//
//   - I1 No oversell: taken <= total at every instant, and the store refuses
//     to hold more than total whatever the ledger says.
//   - I2 Conservation: total = available + taken; every unit is in one place.
//   - I3 Limit: a buyer's live units <= the sale's limit.
//   - I4 Same answer: an accepted claim gives the same order, for ever, on
//     every server, also after that order has ended.
//   - I5 One order: every accepted claim becomes exactly one order, and every
//     order has one accepted claim.
//   - I6 One end: an order ends at most once, and its units return at most once.
//   - I7 No undersell: "sold out" is said only when available is 0; released
//     units can be sold again.
//   - I8 Window: nothing is accepted before opens_at, from closes_at on, or
//     while paused, by the ledger's clock.
//
// Without a total, I1, I2 and I7 do not apply.
package sluice
