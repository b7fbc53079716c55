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
	erased.Waits = append([]sluice.ErasureWait{}, erased.Waits...) // never null
	return erased, nil
}
