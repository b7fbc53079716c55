package sqlcore

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluicehq/sluice"
)

var (
	sqlPutPicture = newStatement("Pictures.Put",
		insertInto("pictures", "sale_id, id, size, jpeg")+` ON CONFLICT (sale_id, id, size) DO NOTHING`)
	sqlSelectPicture = newStatement("Pictures.Select", `SELECT jpeg FROM pictures WHERE sale_id = ? AND id = ? AND size = ?`)
	sqlCountPicture  = newStatement("Pictures.Count", `SELECT count(*) FROM pictures WHERE sale_id = ? AND id = ?`)
	sqlDeletePicture = newStatement("Pictures.Delete", `DELETE FROM pictures WHERE sale_id = ? AND id = ?`)
)

// PutPicture keeps a picture. The lock of the sale's row keeps out what would delete it.
func (s *Store) PutPicture(ctx context.Context, id sluice.SaleID, picture sluice.Picture) (err error) {
	defer s.wrap(&err, "put picture=%s sale=%s", picture.ID, id)
	return s.changeSale(ctx, id, func(tx *conn, sale *sluice.Sale) error {
		if !sale.ArchivedAt.IsZero() {
			return sluice.ErrArchived
		}
		tx.exec(sqlPutPicture, id, picture.ID, sluice.SmallPicture, picture.Small)
		return tx.exec(sqlPutPicture, id, picture.ID, sluice.LargePicture, picture.Large)
	})
}

// Picture returns one size of a picture.
func (s *Store) Picture(ctx context.Context, id sluice.SaleID, picture string, size int) (jpeg []byte, err error) {
	defer s.wrap(&err, "read picture=%s sale=%s", picture, id)
	return one(s.reads(ctx), sluice.ErrNoPicture, sqlSelectPicture, func(r row) (jpeg []byte, err error) {
		err = r.Scan(&jpeg)
		return jpeg, err
	}, id, picture, size)
}

// keepPictures wants those that a changed sale names to be there, and deletes those that it
// names no longer.
func (q *conn) keepPictures(before, after *sluice.Sale) error {
	had, has := before.Pictures.Names(), after.Pictures.Names()
	for _, name := range has {
		if !sluice.PictureID(name) || slices.Contains(had, name) {
			continue
		}
		if n, err := only[int64](q.row(sqlCountPicture, after.ID, name)); err != nil {
			return err
		} else if n == 0 {
			return fmt.Errorf("picture %s: %w", name, sluice.ErrNoPicture)
		}
	}
	for _, name := range had {
		if sluice.PictureID(name) && !slices.Contains(has, name) {
			q.exec(sqlDeletePicture, after.ID, name)
		}
	}
	return q.err
}
