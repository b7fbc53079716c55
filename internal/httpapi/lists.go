package httpapi

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// Bounds of an upload: a list is as long as it is, but it must keep coming.
const (
	maxListBody  = 1 << 30 // bytes
	maxListLine  = 2048    // bytes; an id of 128 bytes, every one escaped, is shorter
	uploadPause  = 20 * time.Second
	uploadAtMost = 15 * time.Minute
)

// listName reads which list the path names, or answers.
func listName(w http.ResponseWriter, r *http.Request) (sluice.SaleID, sluice.ListKind, bool) {
	sale, kind := sluice.SaleID(r.PathValue("sale")), sluice.ListKind(r.PathValue("list"))
	switch {
	case sale.Validate() != nil:
		problem(w, sluice.SaleNotFound.String(), "")
	case !kind.Valid():
		problem(w, api.CodeNotFound, "a sale has two lists: allow and deny")
	default:
		return sale, kind, true
	}
	return "", "", false
}

// putList replaces a list by the buyers in the body, which is read as it comes.
func (s *Server) putList(w http.ResponseWriter, r *http.Request) {
	sale, kind, ok := listName(w, r)
	if !ok {
		return
	}
	line, err := lineReader(r.Header.Get("Content-Type"))
	if err != nil {
		problem(w, api.CodeBadRequest, err.Error())
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(uploadAtMost)) // where there are no deadlines there is nothing to put off
	body := &steady{
		from: http.MaxBytesReader(w, r.Body, maxListBody), control: control,
		until: time.Now().Add(uploadAtMost),
	}
	s.replaceList(w, r, sale, kind, buyersIn(body, line))
}

// deleteList empties a list.
func (s *Server) deleteList(w http.ResponseWriter, r *http.Request) {
	sale, kind, ok := listName(w, r)
	if !ok || !noBody(w, r) {
		return
	}
	s.replaceList(w, r, sale, kind, func(func(sluice.BuyerID, error) bool) {})
}

func (s *Server) replaceList(w http.ResponseWriter, r *http.Request, sale sluice.SaleID, kind sluice.ListKind,
	buyers iter.Seq2[sluice.BuyerID, error],
) {
	list, err := s.Store.ReplaceList(r.Context(), sale, kind, buyers)
	var bad *badRequest
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge), errors.Is(err, sluice.ErrListTooLong):
		problem(w, api.CodeTooLarge,
			fmt.Sprintf("a list holds at most %d buyers, in a body of at most %d bytes; the old list stays", sluice.MaxListed,
				maxListBody))
	case errors.As(err, &bad):
		problem(w, api.CodeBadRequest, bad.Error()+"; the old list stays")
	case errors.Is(err, sluice.ErrListSuperseded):
		problem(w, api.CodeSaleState, sluice.ErrListSuperseded.Error())
	case err != nil:
		s.changeProblem(w, r, err)
	default:
		if s.Eligibility.Lists != nil { // others see it within a second
			if err := s.Eligibility.Lists.Refresh(r.Context()); err != nil {
				s.Log.Warn("the lists of buyers cannot be read", "error", err)
			}
		}
		writeJSON(w, http.StatusOK, api.NewBuyerList(&list))
	}
}

// steady reads a body for as long as it keeps coming.
type steady struct {
	from    io.Reader
	control *http.ResponseController
	until   time.Time
}

func (s *steady) Read(p []byte) (int, error) {
	now := time.Now()
	if now.After(s.until) {
		return 0, fmt.Errorf("the upload takes longer than %s", uploadAtMost)
	}
	_ = s.control.SetReadDeadline(now.Add(uploadPause))
	return s.from.Read(p)
}

// lineReader chooses how a line becomes a buyer's id.
func lineReader(contentType string) (func([]byte) (sluice.BuyerID, error), error) {
	kind, _, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && kind == "text/plain":
		return func(line []byte) (sluice.BuyerID, error) { return sluice.BuyerID(line), nil }, nil
	case err == nil && (kind == "application/x-ndjson" || kind == "application/jsonl"):
		return ndjsonBuyer, nil
	}
	return nil, errors.New("Content-Type: want text/plain (an id a line) or application/x-ndjson (a JSON string, or an " +
		"object with buyer_id, a line)")
}

func ndjsonBuyer(line []byte) (sluice.BuyerID, error) {
	if line[0] == '"' {
		var id string
		if err := json.Unmarshal(line, &id); err != nil {
			return "", errors.New("want a JSON string")
		}
		return sluice.BuyerID(id), nil
	}
	var object struct {
		Buyer sluice.BuyerID `json:"buyer_id"`
	}
	err := api.Decode(line, &object)
	return object.Buyer, err
}

// buyersIn reads a line at a time. Empty lines are skipped; a wrong one ends
// the upload, with its number.
func buyersIn(body io.Reader, read func([]byte) (sluice.BuyerID, error)) iter.Seq2[sluice.BuyerID, error] {
	return func(yield func(sluice.BuyerID, error) bool) {
		lines := bufio.NewScanner(body)
		lines.Buffer(make([]byte, 0, 64<<10), maxListLine)
		n := 0
		for lines.Scan() {
			n++
			line := bytes.TrimSuffix(lines.Bytes(), []byte("\r"))
			if n == 1 {
				line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // some editors begin a file so
			}
			if len(line) == 0 {
				continue
			}
			buyer, err := read(line)
			if err == nil {
				err = buyer.Validate()
			}
			if err != nil {
				yield("", &badRequest{fmt.Errorf("line %d: %w", n, err)})
				return
			}
			if !yield(buyer, nil) {
				return
			}
		}
		err := lines.Err()
		var tooLarge *http.MaxBytesError
		switch {
		case err == nil, errors.As(err, &tooLarge):
		case errors.Is(err, bufio.ErrTooLong):
			err = &badRequest{fmt.Errorf("line %d: longer than %d bytes", n+1, maxListLine)}
		default:
			err = &badRequest{fmt.Errorf("the body breaks off after line %d: %w", n, err)}
		}
		if err != nil {
			yield("", err)
		}
	}
}

// showList answers a page of a list.
func (s *Server) showList(w http.ResponseWriter, r *http.Request) {
	sale, kind, ok := listName(w, r)
	if !ok {
		return
	}
	var limit int
	var after sluice.BuyerID
	if !readQuery(w, r, pageSize(&limit), buyerCursor(&after)) {
		return
	}
	if _, err := s.Store.Sale(r.Context(), sale); err != nil {
		s.changeProblem(w, r, err)
		return
	}
	page := api.BuyerPage{BuyerList: api.BuyerList{SaleID: sale, List: kind}, Buyers: []sluice.BuyerID{}}
	all, err := s.Store.Lists(r.Context())
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	for i := range all {
		if all[i].Sale != sale || all[i].Kind != kind {
			continue
		}
		page.BuyerList = api.NewBuyerList(&all[i])
		buyers, err := s.Store.Listed(r.Context(), all[i], after, limit+1)
		if err != nil {
			s.unavailable(w, r, err)
			return
		}
		if len(buyers) > limit {
			buyers = buyers[:limit]
			page.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(buyers[limit-1]))
		}
		page.Buyers = append(page.Buyers, buyers...)
	}
	writeJSON(w, http.StatusOK, page)
}
