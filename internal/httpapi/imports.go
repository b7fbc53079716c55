package httpapi

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
)

// maxImportBody is room for sluice.MaxImported lines, each as long as it can be in
// practice.
const maxImportBody = 64 << 20

// importHeader may be the first line of an import.
var importHeader = []string{"buyer", "quantity", "order_id"}

// importOrders stores orders that another system has sold, before the sale opens.
func (s *Server) importOrders(w http.ResponseWriter, r *http.Request) (any, error) {
	id := saleOf(r)
	if id.Validate() != nil {
		return nil, sluice.ErrSaleNotFound
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "text/csv" {
		return nil, badRequest("Content-Type: want text/csv, with the columns buyer, quantity and order_id")
	}
	if !s.importing.TryLock() {
		return nil, faultOf(api.CodeSaleState, "this server is at another import; try again when that is done")
	}
	defer s.importing.Unlock()
	orders, err := s.earlierOrders(upload(w, r, maxImportBody))
	if err != nil {
		return nil, err
	}
	done, err := s.Control.Import(r.Context(), id, orders)
	if err != nil {
		return nil, err
	}
	return api.Imported{
		SaleID: id, Orders: done.Orders, Units: done.Units, Before: done.Before, Paused: s.saleNow(r, &done.Sale).Paused,
	}, nil
}

// earlierOrders reads the lines of an import. All that is wrong with them is named at
// once.
func (s *Server) earlierOrders(body io.Reader) (orders []sluice.EarlierOrder, err error) {
	text := bufio.NewReader(body)
	if mark, _ := text.Peek(3); string(mark) == "\xef\xbb\xbf" { // some editors begin a file so
		_, _ = text.Discard(len(mark))
	}
	lines := csv.NewReader(text)
	lines.FieldsPerRecord, lines.ReuseRecord, lines.TrimLeadingSpace = -1, true, true
	wrong := &sluice.ImportError{}
	for {
		fields, err := lines.Read()
		line := len(orders) // not known: the lines before it
		if len(fields) > 0 {
			line, _ = lines.FieldPos(0)
		}
		syntax, isSyntax := errors.AsType[*csv.ParseError](err)
		_, tooLarge := errors.AsType[*http.MaxBytesError](err)
		switch {
		case err == io.EOF && lines.InputOffset() == 0:
			return nil, badRequest("the body is empty; want lines of buyer,quantity,order_id")
		case err == io.EOF:
			return orders, wrong.OrNil()
		case isSyntax:
			wrong.Add(syntax.StartLine, "%v", syntax.Err)
			continue
		case tooLarge || err == nil && len(orders) == sluice.MaxImported:
			return nil, faultOf(api.CodeTooLarge, "an import has at most %d orders, in a body of at most %d bytes; "+
				"import the rest after it", sluice.MaxImported, maxImportBody)
		case err != nil:
			return nil, badRequest("the body breaks off after line %d: %v", line, err)
		case line == 1 && slices.Equal(fields, importHeader):
			continue
		}
		o, err := s.earlierOrder(fields)
		if o.Line = line; err != nil {
			wrong.Add(line, "%v", err)
		}
		orders = append(orders, o)
	}
}

func (s *Server) earlierOrder(fields []string) (o sluice.EarlierOrder, err error) {
	if len(fields) != len(importHeader) {
		return o, fmt.Errorf("want the columns %s, have %d", strings.Join(importHeader, ","), len(fields))
	}
	if o.Buyer, err = s.Buyers.BuyerID(sluice.BuyerID(strings.Clone(fields[0]))); err != nil {
		return o, err
	}
	if err := auth.Visible(o.Buyer); err != nil { // no token can name this buyer
		return o, fmt.Errorf("buyer id %q %w", o.Buyer, err)
	}
	o.ID = strings.Clone(fields[2]) // and not the line with it
	if o.Quantity, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
		return o, errors.New("quantity: want a whole number")
	}
	return o, o.Validate()
}
