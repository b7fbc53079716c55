package httpapi

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/picture"
)

// addPicture takes a picture into a sale. Uploads and the making of pictures take memory and time
// that claims of all sales want, so both have their turns.
func (s *Server) addPicture(w http.ResponseWriter, r *http.Request) (any, error) {
	if r.ContentLength > picture.MaxBytes {
		return nil, bodyTooLarge(picture.MaxBytes)
	}
	var made sluice.Picture
	err := inTurn(r.Context(), []chan struct{}{s.limits.uploads}, func() error {
		file, err := io.ReadAll(upload(w, r, picture.MaxBytes))
		if _, beyond := errors.AsType[*http.MaxBytesError](err); beyond {
			return bodyTooLarge(picture.MaxBytes)
		}
		if err != nil {
			return badRequest("the picture cannot be read: %v", err)
		}
		return inTurn(r.Context(), []chan struct{}{s.limits.pictures}, func() error {
			if made, err = picture.Make(file); err != nil {
				return badRequest("%v", err)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	sale, err := s.Control.AddPicture(r.Context(), saleOf(r), made)
	if err != nil {
		return nil, err
	}
	return done{http.StatusCreated, s.saleNow(r, &sale)}, nil
}

// checkHosts wants the hosts of a sale's pictures to be among those that the pages may load from: a
// browser would not show others, and nobody would be told why.
func (s *Server) checkHosts(shown *sluice.Showcase) error {
	for _, name := range shown.Pictures.Names() {
		if sluice.PictureID(name) {
			continue
		}
		if u, err := url.Parse(name); err == nil && !slices.Contains(s.PictureHosts, u.Host) {
			return badRequest("pictures: %s: its host is not among picture_hosts: add it there, or upload the picture", name)
		}
	}
	return nil
}
