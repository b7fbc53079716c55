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
func (s *Server) listDeadLetters(w http.ResponseWriter, r *http.Request) {
	var sale sluice.SaleID
	if !readQuery(w, r, ofSale(&sale)) {
		return
	}
	letters, err := s.Store.DeadLetters(r.Context(), sale)
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	list := api.DeadLetterList{DeadLetters: make([]api.DeadLetter, len(letters))}
	for i := range letters {
		list.DeadLetters[i] = api.NewDeadLetter(&letters[i])
	}
	writeJSON(w, http.StatusOK, list)
}

// showDeadLetter shows one, also when it has been dealt with.
func (s *Server) showDeadLetter(w http.ResponseWriter, r *http.Request) {
	letter, err := s.Store.DeadLetter(r.Context(), letterID(r))
	if err != nil {
		s.letterProblem(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, api.NewDeadLetter(&letter))
}

// replayDeadLetter stores the entry, or claims its units again.
func (s *Server) replayDeadLetter(w http.ResponseWriter, r *http.Request) {
	if !noBody(w, r) {
		return
	}
	replayed, err := s.Replay(r.Context(), letterID(r))
	if err != nil {
		s.letterProblem(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, api.NewReplayed(replayed.Saved, replayed.Lost))
}

// letterID reads the id of the path; what is no number matches none.
func letterID(r *http.Request) int64 {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

func (s *Server) letterProblem(w http.ResponseWriter, r *http.Request, err error) {
	var conflict *sluice.ConflictError
	switch {
	case errors.Is(err, sluice.ErrDeadLetterNotFound):
		problem(w, api.CodeDeadLetterNotFound, "")
	case errors.As(err, &conflict):
		problem(w, api.CodeSaleState, "it still cannot be stored: "+conflict.Error())
	default:
		s.unavailable(w, r, err)
	}
}
