package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/content"
)

// Bounds of what pictures cost: memory in all, and the store's connections, which orders want.
const (
	keptPictures   = 64 << 20 // bytes
	pictureReads   = 2        // at a time
	pictureWaiting = 3 * time.Second
)

// pictures keeps what it has read from the store, which is read once for a crowd.
type pictures struct {
	source Source
	kept   *otter.Cache[pictureKey, *content.Answer]
	reads  chan struct{} // a value for each
}

type pictureKey struct {
	sale sluice.SaleID
	id   string
	size int
}

func newPictures(source Source) *pictures {
	return &pictures{
		source: source, reads: make(chan struct{}, pictureReads),
		kept: otter.Must(&otter.Options[pictureKey, *content.Answer]{
			MaximumWeight: keptPictures,
			Weigher:       func(_ pictureKey, a *content.Answer) uint32 { return uint32(a.Size()) },
		}),
	}
}

// get returns a picture. One who waits for it and leaves does not end the reading for others.
func (p *pictures) get(ctx context.Context, key pictureKey) (*content.Answer, error) {
	return p.kept.Get(context.WithoutCancel(ctx), key, otter.LoaderFunc[pictureKey, *content.Answer](
		func(ctx context.Context, key pictureKey) (*content.Answer, error) {
			ctx, cancel := context.WithTimeout(ctx, pictureWaiting)
			defer cancel()
			select {
			case p.reads <- struct{}{}:
				defer func() { <-p.reads }()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			jpeg, err := p.source.Picture(ctx, key.sale, key.id, key.size)
			if err != nil {
				return nil, err
			}
			return content.New(content.Form{Type: "image/jpeg", Cache: keepForever}, jpeg), nil
		}))
}

// picture answers /s/{sale}/pictures/{id}-640.jpg. Only a name that the sale has reaches the store.
func (p *Pages) picture(w http.ResponseWriter, r *http.Request) {
	f, ok := p.find(w, r)
	if !ok {
		return
	}
	name, _ := strings.CutSuffix(r.PathValue("picture"), ".jpg")
	id, width, _ := strings.Cut(name, "-")
	size, _ := strconv.Atoi(width)
	if !sluice.PictureID(id) || !slices.Contains(f.Pictures.Names(), id) ||
		size != sluice.SmallPicture && size != sluice.LargePicture {
		noPicture(w)
		return
	}
	answer, err := p.pictures.get(r.Context(), pictureKey{f.ID, id, size})
	switch {
	case err == nil:
		// A shop's own page may show it beside its button.
		w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
		answer.ServeHTTP(w, r)
	case errors.Is(err, sluice.ErrNoPicture):
		noPicture(w)
	default:
		p.failed(w, r, err)
	}
}

// noPicture is kept by no cache: another server may have the picture a moment earlier.
func noPicture(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "the sale has no such picture", http.StatusNotFound)
}

// pictureURL is where a picture of a sale is, in one of the two sizes.
func (p *Pages) pictureURL(f facts, name string, size int) string {
	return pictureURL(p.opts.Base, &f, name, size)
}

// shareURL is the whole address of a picture, for those who have only a link to the page.
func (p *Pages) shareURL(f facts, name string) string {
	return pictureURL(p.opts.PublicURL, &f, name, sluice.LargePicture)
}

func pictureURL(base string, f *facts, name string, size int) string {
	if !sluice.PictureID(name) {
		return name
	}
	return fmt.Sprintf("%s/s/%s/pictures/%s-%d.jpg", base, f.ID, name, size)
}

// First is the picture that stands for the sale, or empty.
func (f facts) First() string {
	if names := f.Pictures.Names(); len(names) > 0 {
		return names[0]
	}
	return ""
}
