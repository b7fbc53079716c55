package sqliteledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// The log is one table, in the order in which things happened. A sale begins
// with its load row, which replaces all earlier rows of the sale; what follows
// is added, never changed. Memory is the rows of a sale applied in order.
//
//	kind    epoch, terms, at  seq         n             body
//	load    of the sale       0           its records   JSON: terms and taken
//	loaded  epoch, at         0           its records   a line per record, see encodeRecords
//	claims  of the claims     the first's their number  the journal entry: port.AppendClaim
//	terms   of the change     0           0             JSON: the terms
//	fence   epoch, at         0           0             the reason; empty: the fence is lifted
//	handed  epoch, at         0           a row's id    empty; the journal is handed out up to it
//	ack     epoch, at         0           their number  ids of claims rows, separated by spaces
//	release epoch, at         0           their number  a line per ended claim, see encodeEndings
//	drop    at                0           0             the sale that was dropped, of whose rows none is left
//
// A claims row and its acknowledgement stay until the sale is archived: the
// row is the record of its claims (I4).
const (
	kindLoad    = "load"
	kindLoaded  = "loaded"
	kindClaims  = "claims"
	kindTerms   = "terms"
	kindFence   = "fence"
	kindHanded  = "handed"
	kindAck     = "ack"
	kindRelease = "release"
	kindDrop    = "drop"
)

// row is one row of the log.
type row struct {
	id    int64
	sale  sluice.SaleID
	kind  string
	epoch int64
	terms int64
	at    time.Time
	seq   int64
	n     int64
	node  string
	body  string

	damage error // why the file's body could not be read; body is what stands there
}

// apply makes the row true in memory. An error in a row is recorded as
// damage of its sale, which fences the sale; only a row that cannot be
// understood at all is an error.
func (all salesByID) apply(r *row) error {
	switch r.kind {
	case kindLoad:
		s, err := decodeLoad(r)
		if err != nil {
			return err
		}
		all[r.sale] = s
		return nil
	case kindDrop:
		return nil
	}
	s := all[r.sale]
	if s == nil {
		return errors.New("it belongs to a sale that was not loaded")
	}
	if r.epoch != s.epoch {
		s.lost("row %d is of epoch %d, want %d", r.id, r.epoch, s.epoch)
	}
	switch r.kind {
	case kindLoaded:
		known := s.records.n
		err := r.damage
		if err == nil {
			err = s.addLoaded(r.body)
		}
		if err != nil {
			s.lost("row %d: %v", r.id, err)
		}
		s.expect -= int64(s.records.n - known)
	case kindClaims:
		s.applyClaims(r)
	case kindTerms:
		terms, err := decodeTerms(r.body)
		if err != nil {
			return err
		}
		s.changeTerms(terms, r.at)
	case kindFence:
		s.fence = r.body
	case kindHanded:
		s.journal.handed = max(s.journal.handed, r.n)
	case kindRelease:
		s.applyRelease(r)
	case kindAck:
		s.journal.drop(decodeIDs(r.body))
	default:
		return fmt.Errorf("unknown kind %q", r.kind)
	}
	return nil
}

// applyClaims remembers the claims of a journal entry, and checks that no
// entry before it is missing.
func (s *sale) applyClaims(r *row) {
	if r.seq != s.seq+1 {
		s.lost("row %d begins at seq %d, want %d", r.id, r.seq, s.seq+1)
		s.seq = r.seq - 1
	}
	e := &entry{
		id: r.id, node: r.node, batch: &batch{epoch: r.epoch, terms: r.terms, at: r.at},
		firstSeq: r.seq, first: s.records.n,
	}
	claims, err := port.ParseClaims(r.body)
	if r.damage != nil {
		err = r.damage
	} else if err == nil && int64(len(claims)) != r.n {
		err = fmt.Errorf("%d claims, want %d", len(claims), r.n)
	}
	if err != nil {
		s.lost("row %d: %v", r.id, err)
		s.seq += r.n
		e.damage, e.raw = err, r.body
		s.journal.add(e)
		return
	}
	lines := r.body
	for i := range claims {
		var line string
		line, lines, _ = strings.Cut(lines, "\n")
		s.accept(s.account(claims[i].Buyer), &claims[i], line, e.batch)
	}
	e.count = len(claims)
	e.records = s.records
	s.journal.add(e)
}

// settle ends the reading of the log.
func (s *sale) settle() {
	for _, e := range s.journal.entries {
		if e.id <= s.journal.handed {
			e.deliveries = 1 // at least: how often it was is not in the log
		}
	}
	if s.expect != 0 {
		s.lost("%d loaded records are missing", s.expect)
	}
	if s.damage != "" && !strings.HasPrefix(s.fence, port.FenceLost) {
		s.fence = port.FenceLost + ": " + s.damage
	}
	s.publish()
}

// termsJSON is how the log has terms. Times are in milliseconds since
// 1970; limits that are absent are -1.
type termsJSON struct {
	Version     int64 `json:"version"`
	Total       int64 `json:"total"`
	MaxPerBuyer int64 `json:"max_per_buyer"`
	MaxOrders   int64 `json:"max_orders"`
	MaxUnpaid   int64 `json:"max_unpaid,omitempty"` // absent: no limit
	OpensAt     int64 `json:"opens_at"`
	ClosesAt    int64 `json:"closes_at,omitempty"` // it is after opens_at, so 0 is free to mean none
	Paused      bool  `json:"paused,omitempty"`
}

func toJSON(t sluice.Terms) termsJSON {
	j := termsJSON{
		Version: t.Version, Total: t.Total, MaxPerBuyer: t.MaxPerBuyer, MaxOrders: t.MaxOrders,
		MaxUnpaid: t.MaxUnpaid, OpensAt: t.OpensAt.UnixMilli(), Paused: t.Paused,
	}
	if !t.ClosesAt.IsZero() {
		j.ClosesAt = t.ClosesAt.UnixMilli()
	}
	return j
}

func (j *termsJSON) terms() sluice.Terms {
	t := sluice.Terms{
		Version: j.Version, Total: j.Total, MaxPerBuyer: j.MaxPerBuyer, MaxOrders: j.MaxOrders,
		MaxUnpaid: j.MaxUnpaid, OpensAt: time.UnixMilli(j.OpensAt).UTC(), Paused: j.Paused,
	}
	if j.ClosesAt != 0 {
		t.ClosesAt = time.UnixMilli(j.ClosesAt).UTC()
	}
	return t
}

func encodeTerms(t sluice.Terms) string { return encodeJSON(toJSON(t)) }

func decodeTerms(body string) (sluice.Terms, error) {
	var j termsJSON
	if err := json.Unmarshal([]byte(body), &j); err != nil {
		return sluice.Terms{}, fmt.Errorf("terms: %w", err)
	}
	return j.terms(), nil
}

// loadJSON is the body of a load row.
type loadJSON struct {
	Terms termsJSON `json:"terms"`
	Taken int64     `json:"taken"`
}

func encodeLoad(s *sale) string { return encodeJSON(loadJSON{Terms: toJSON(s.terms), Taken: s.taken}) }

func decodeLoad(r *row) (*sale, error) {
	var j loadJSON
	if err := json.Unmarshal([]byte(r.body), &j); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	s := newSale(r.sale, r.epoch, j.Terms.terms(), j.Taken)
	s.expect = r.n
	if r.epoch < 1 || r.epoch > port.MaxEpoch {
		s.lost("row %d is of epoch %d, and no server counts that far", r.id, r.epoch)
	}
	return s, nil
}

func encodeJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and booleans only
	}
	return string(text)
}

// encodeRecords writes loaded records, a line each:
//
//	epoch TAB seq TAB terms TAB at TAB life TAB claim, as port.AppendClaim has it
//
// life is 1 while the record is live, 2 if it ended unpaid, else 0.
func encodeRecords(records []port.Record) string {
	var b []byte
	for i := range records {
		r := &records[i]
		life := int64(0)
		switch {
		case r.Live:
			life = 1
		case r.Unpaid:
			life = 2
		}
		for _, n := range []int64{r.Epoch, r.Seq, r.Terms, r.At.UnixMilli(), life} {
			b = strconv.AppendInt(b, n, 10)
			b = append(b, '\t')
		}
		b = port.AppendClaim(b, &r.Claim)
	}
	return string(b)
}

// addLoaded remembers the records of a body that encodeRecords wrote.
func (s *sale) addLoaded(body string) error {
	b := &batch{}
	for len(body) > 0 {
		line, rest, ended := strings.Cut(body, "\n")
		body = rest
		if !ended {
			return errors.New("a record has no end")
		}
		var number [5]int64
		for i := range number {
			text, tail, _ := strings.Cut(line, "\t")
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("record: field %d: %w", i+1, err)
			}
			number[i], line = n, tail
		}
		buyer, tail, _ := strings.Cut(line, "\t")
		c, err := port.ParseClaimTail(sluice.BuyerID(buyer), tail)
		if err != nil {
			return fmt.Errorf("record: %w", err)
		}
		if at := time.UnixMilli(number[3]).UTC(); b.epoch != number[0] || b.terms != number[2] || !b.at.Equal(at) {
			b = &batch{epoch: number[0], terms: number[2], at: at} // neighbours often share theirs
		}
		if b.epoch == s.epoch {
			s.seq = max(s.seq, number[1])
		}
		s.remember(s.account(c.Buyer), &c, line, number[1], b, number[4] == 1, number[4] == 2)
	}
	return nil
}

func encodeIDs(ids []int64) string {
	var b []byte
	for i, id := range ids {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, id, 10)
	}
	return string(b)
}

func decodeIDs(body string) (ids []int64) {
	for text := range strings.FieldsSeq(body) {
		if id, err := strconv.ParseInt(text, 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
