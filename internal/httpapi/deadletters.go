package httpapi

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// listDeadLetters lists the journal entries that could not be stored and are
// not resolved.
func (s *Server) listDeadLetters(r *http.Request) (any, error) {
	var sale sluice.SaleID
	if err := readQuery(r, ofSale(&sale)); err != nil {
		return nil, err
	}
	letters, err := s.Store.DeadLetters(r.Context(), sale)
	return api.DeadLetterList{DeadLetters: each(letters, letterMessage)}, err
}

// showDeadLetter shows one, also when it has been dealt with.
func (s *Server) showDeadLetter(r *http.Request) (any, error) {
	letter, err := s.Store.DeadLetter(r.Context(), letterID(r))
	return letterMessage(&letter), err
}

// replayDeadLetter stores the entry, or claims its units again.
func (s *Server) replayDeadLetter(r *http.Request) (any, error) {
	replayed, err := s.Replay(r.Context(), letterID(r))
	if conflict, ok := errors.AsType[*sluice.ConflictError](err); ok {
		err = faultOf(api.CodeSaleState, "it still cannot be stored: %v", conflict)
	}
	return api.Replayed{ // without null lists
		Saved: append([]sluice.OrderID{}, replayed.Saved...), Lost: append([]sluice.OrderID{}, replayed.Lost...),
	}, err
}

// letterID reads the id of the path; what is no number matches none.
func letterID(r *http.Request) int64 {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// letterMessage is a dead letter as the merchant sees it.
func letterMessage(d *sluice.DeadLetter) api.DeadLetter {
	return api.DeadLetter{
		ID: d.ID, SaleID: d.Sale, EntryID: d.EntryID, Reason: d.Reason, Claims: d.Claims,
		Epoch: d.Epoch, FirstSeq: d.FirstSeq, Node: d.Node, At: api.AtOrNull(d.At), CreatedAt: api.At(d.CreatedAt),
		ResolvedAt: api.AtOrNull(d.Resolved), Resolution: d.Resolution,
	}
}
