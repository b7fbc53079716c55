package sqlcore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

const (
	newActionColumns = `acted_at, actor, route, path, sale_id, order_id, status, code, request_id, address, node`
	actionColumns    = `id, ` + newActionColumns
)

var (
	sqlAddAdminAction     = newStatement("Admin.AddAdminAction", insertInto("admin_actions", newActionColumns))
	sqlSelectAdminActions = newStatement("Admin.SelectAdminActions",
		`SELECT `+actionColumns+` FROM admin_actions WHERE id < ? ORDER BY id DESC LIMIT ?`)
)

// RecordAdminAction adds one.
func (s *Store) RecordAdminAction(ctx context.Context, a port.AdminAction) (err error) {
	defer s.wrap(&err, "record what %s did: %s", a.By, a.Route)
	return s.change(ctx, func(tx *conn) error {
		return tx.set(sqlAddAdminAction, storeNow, recordable(a.By), recordable(a.Route), recordable(a.Path),
			recordable(string(a.Sale)), recordable(string(a.Order)), a.Status, recordable(a.Code), recordable(a.Request),
			recordable(a.Address), recordable(a.Node))
	})
}

// recordable makes a text that a request brought fit for every column: valid
// UTF-8 of at most maxShort bytes without NUL.
func recordable(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= maxShort {
		return text
	}
	return strings.ToValidUTF8(text[:maxShort], "") // without half a letter at the end
}

const ofActions cursorList = "actions"

// AdminActions returns a page of them, the newest first.
func (s *Store) AdminActions(ctx context.Context, limit int, cursor string) (
	page []port.AdminAction, next string, err error,
) {
	defer s.wrap(&err, "list what admins did")
	if limit < 1 || limit > sluice.MaxPage {
		return nil, "", fmt.Errorf("limit %d: want 1 to %d", limit, sluice.MaxPage)
	}
	before, err := ofActions.position(cursor)
	if err != nil {
		return nil, "", err
	}
	before = cmp.Or(before, math.MaxInt64)
	page, err = all(s.reads(ctx), sqlSelectAdminActions, scanAction, before, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(page) > limit {
		page = page[:limit]
		next = ofActions.at(page[limit-1].ID)
	}
	return page, next, nil
}

func scanAction(r row) (a port.AdminAction, err error) {
	err = r.Scan(&a.ID, moment{&a.At}, &a.By, &a.Route, &a.Path, &a.Sale, &a.Order, &a.Status, &a.Code, &a.Request,
		&a.Address, &a.Node)
	return a, err
}
