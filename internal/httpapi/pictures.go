package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/picture"
)

// addPicture takes a picture into a sale. To make one takes memory and time that claims of
// all sales want, so the server makes one at a time; others wait.
func (s *Server) addPicture(w http.ResponseWriter, r *http.Request) (any, error) {
	if r.ContentLength > picture.MaxBytes {
		return nil, bodyTooLarge(picture.MaxBytes)
	}
	file, err := io.ReadAll(upload(w, r, picture.MaxBytes))
	if _, beyond := errors.AsType[*http.MaxBytesError](err); beyond {
		return nil, bodyTooLarge(picture.MaxBytes)
	}
	if err != nil {
		return nil, badRequest("the picture cannot be read: %v", err)
	}
	made, err := s.makePicture(r.Context(), file)
	if err != nil {
		return nil, err
	}
	sale, err := s.Control.AddPicture(r.Context(), saleOf(r), made)
	if err != nil {
		return nil, err
	}
	return done{http.StatusCreated, s.saleNow(r, &sale)}, nil
}

func (s *Server) makePicture(ctx context.Context, file []byte) (sluice.Picture, error) {
	select {
	case s.limits.pictures <- struct{}{}:
		defer func() { <-s.limits.pictures }()
	case <-ctx.Done():
		return sluice.Picture{}, ctx.Err()
	}
	made, err := picture.Make(file)
	if err != nil {
		return sluice.Picture{}, badRequest("%v", err)
	}
	return made, nil
}
