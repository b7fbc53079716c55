package storetest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// How a sale is shown is kept with it, and its pictures for as long as it names them.
func testShowcase(t *testing.T, db Database) {
	s := db.Open(t)
	ctx := t.Context()
	sale := aSale("phones", 10)
	sale.Showcase = sluice.Showcase{
		Description: "# A *phone*\n\n\\ and 'quotes' \U0001F4F1", Badge: "限量",
		Titles:       sluice.Texts{ZH: "手机"},
		Descriptions: sluice.Texts{EN: "A phone", ZH: strings.Repeat("机", sluice.MaxDescription/3)},
		Pictures:     sluice.PicturesOf("https://cdn.shop.example/phone.jpg"),
	}
	create(t, s, sale)
	if got := must.Get(s.Sale(ctx, "phones"))(t).Showcase; got != sale.Showcase {
		t.Errorf("%+v, want %+v", got, sale.Showcase)
	}
	create(t, s, aSale("tablets", 10))

	// As large as one is made: with every byte escaped it must fit into a packet of 1 MiB.
	front := sluice.Picture{
		ID: strings.Repeat("a", 32), Small: []byte{0, 1, '\'', '\\'}, Large: bytes.Repeat([]byte("'"), 440<<10),
	}
	back := sluice.Picture{ID: strings.Repeat("b", 32), Small: []byte("small"), Large: []byte("large")}
	names := func(want error, names ...string) {
		t.Helper()
		_, err := s.ChangeSale(ctx, "phones", func(sale *sluice.Sale) error {
			sale.Pictures = sluice.PicturesOf(names...)
			return nil
		})
		if !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", names, err, want)
		}
	}
	names(sluice.ErrNoPicture, front.ID)
	for range 2 { // a repeat is the same
		must.Succeed(t, s.PutPicture(ctx, "phones", front))
		must.Succeed(t, s.PutPicture(ctx, "phones", back))
	}
	names(nil, back.ID, front.ID)
	for size, want := range map[int][]byte{sluice.SmallPicture: front.Small, sluice.LargePicture: front.Large} {
		if got := must.Get(s.Picture(ctx, "phones", front.ID, size))(t); !bytes.Equal(got, want) {
			t.Errorf("size %d: %d bytes, want %d", size, len(got), len(want))
		}
	}
	if _, err := s.Picture(ctx, "tablets", front.ID, sluice.SmallPicture); !errors.Is(err, sluice.ErrNoPicture) {
		t.Errorf("of another sale: %v", err)
	}
	names(nil, front.ID) // the other one is deleted
	names(sluice.ErrNoPicture, front.ID, back.ID)
	if got := must.Get(s.Sale(ctx, "phones"))(t).Pictures; got != sluice.PicturesOf(front.ID) {
		t.Errorf("after a change that was refused: %s", got)
	}

	if err := s.PutPicture(ctx, "nothing", front); !errors.Is(err, sluice.ErrSaleNotFound) {
		t.Errorf("no sale: %v", err)
	}
	var store port.Store = s
	must.Succeed(t, store.DeleteSale(ctx, "phones", must.Get(s.Sale(ctx, "phones"))(t).Version))
	if _, err := s.Picture(ctx, "phones", front.ID, sluice.SmallPicture); !errors.Is(err, sluice.ErrNoPicture) {
		t.Errorf("of a sale that is deleted: %v", err)
	}
	if _, err := s.Archive(ctx, "tablets"); err == nil {
		if err := s.PutPicture(ctx, "tablets", front); !errors.Is(err, sluice.ErrArchived) {
			t.Errorf("an archived sale: %v", err)
		}
	}
}
