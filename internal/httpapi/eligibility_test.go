package httpapi_test

import "testing"

// Two tickets are no ticket: which of them is meant is unclear.
func TestATicketComesOnce(t *testing.T) {
	s := open(t)
	s.must(s.create("phones", `ticket={"before_s":60}`), 201)
	good := s.must(s.ticket("phones", "ann", ""), 200).text("ticket")
	place := func(tickets ...string) answer {
		t.Helper()
		headers := []string{s.auth("ann"), "Idempotency-Key: key-00000001"}
		for _, ticket := range tickets {
			headers = append(headers, "Sluice-Ticket: "+ticket)
		}
		return s.do("POST", "/v1/sales/phones/orders", `{"quantity":1}`, headers...)
	}
	s.refusedFor(place(good, good), "ticket_missing")
	s.refusedFor(place(good, "another"), "ticket_missing")
	s.refusedFor(place("", good), "ticket_missing")
	s.refusedFor(place(good+", "+good), "ticket_invalid") // as a proxy may join them
	s.must(place(good), 202)
}
