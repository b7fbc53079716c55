package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// erasing bounds one request, so that it is answered before its client gives up; the
// next one goes on.
const erasing = 10 * time.Second

// eraseBuyer erases a buyer from what is archived.
func (s *Server) eraseBuyer(r *http.Request, message *api.EraseBuyer) (any, error) {
	if err := message.BuyerID.Validate(); err != nil {
		return nil, badRequest("buyer_id: %v", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), erasing)
	defer cancel()
	erased, err := s.Store.EraseBuyer(ctx, message.BuyerID)
	if errors.Is(err, sluice.ErrNoErasureKey) {
		err = badRequest("%v", sluice.ErrNoErasureKey)
	}
	if err != nil {
		return nil, err
	}
	return erasedMessage(&erased), nil
}

// erasedMessage never has a null list.
func erasedMessage(e *sluice.Erased) api.Erased {
	out := api.Erased{Orders: e.Orders, DeadLetters: e.DeadLetters, AdminActions: e.Actions, Waiting: []api.ErasureWait{}}
	for _, w := range e.Waits {
		out.Waiting = append(out.Waiting, api.ErasureWait{SaleID: w.Sale, Reason: w.Why})
	}
	return out
}
