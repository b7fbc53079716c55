package httpapi

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/port"
)

// Bounds of an upload: a list is as long as it is, but it must keep coming.
const (
	maxListBody  = 1 << 30 // bytes
	maxListLine  = 2048    // bytes; an id of 128 bytes, every one escaped, is shorter
	uploadPause  = 20 * time.Second
	uploadAtMost = 15 * time.Minute
)

// listName reads which list the path names.
func listName(r *http.Request) (sluice.SaleID, sluice.ListKind, error) {
	sale, kind := saleOf(r), sluice.ListKind(r.PathValue("list"))
	switch {
	case sale.Validate() != nil:
		return "", "", sluice.ErrSaleNotFound
	case !kind.Valid():
		return "", "", faultOf(api.CodeNotFound, "a sale has two lists: allow and deny")
	}
	return sale, kind, nil
}

// putList replaces a list by the buyers in the body, which is read as it comes.
func (s *Server) putList(w http.ResponseWriter, r *http.Request) (any, error) {
	sale, kind, err := listName(r)
	if err != nil {
		return nil, err
	}
	line, err := lineReader(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	var first sluice.BuyerID
	read := func(text []byte) (sluice.BuyerID, error) {
		id, err := line(text)
		if err != nil {
			return "", err
		}
		if err := auth.Visible(id); err != nil { // no token can name this buyer
			return "", fmt.Errorf("buyer id %w", err)
		}
		if id, err = s.Buyers.BuyerID(id); err == nil && padded(id) {
			return "", fmt.Errorf("buyer id %q %s: want it as it is in the token; if tokens have such ids, "+
				"set buyer_id to trimmed", id, isPadded)
		}
		first = cmp.Or(first, id)
		return id, err
	}
	list, err := s.replaceList(r, sale, kind, buyersIn(upload(w, r, maxListBody), read))
	if err != nil {
		return nil, err
	}
	list.First = first
	return list, nil
}

// deleteList empties a list.
func (s *Server) deleteList(r *http.Request) (any, error) {
	sale, kind, err := listName(r)
	if err != nil {
		return nil, err
	}
	return s.replaceList(r, sale, kind, func(func(sluice.BuyerID, error) bool) {})
}

func (s *Server) replaceList(r *http.Request, sale sluice.SaleID, kind sluice.ListKind,
	buyers iter.Seq2[sluice.BuyerID, error],
) (message api.BuyerList, err error) {
	list, err := s.Store.ReplaceList(r.Context(), sale, kind, buyers)
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	bad, isBad := errors.AsType[*fault](err)
	switch {
	case tooLarge || errors.Is(err, sluice.ErrListTooLong):
		return message, faultOf(api.CodeTooLarge,
			"a list holds at most %d buyers, in a body of at most %d bytes; the old list stays", port.MaxListed, maxListBody)
	case isBad:
		return message, badRequest("%s; the old list stays", bad.Detail)
	case err != nil:
		return message, err
	}
	if s.Eligibility.Lists != nil { // others see it within a second
		if err := s.Eligibility.Lists.Refresh(r.Context()); err != nil {
			s.Log.Warn("the lists of buyers cannot be read", "error", err)
		}
	}
	return listMessage(&list), nil
}

// upload is a body of at most so many bytes, which may take its time.
func upload(w http.ResponseWriter, r *http.Request, most int64) io.Reader {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(uploadAtMost)) // where there are no deadlines there is nothing to put off
	body := http.MaxBytesReader(w, r.Body, most)
	return &steady{from: body, control: control, until: time.Now().Add(uploadAtMost)}
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
		return plainBuyer, nil
	case err == nil && (kind == "application/x-ndjson" || kind == "application/jsonl"):
		return ndjsonBuyer, nil
	}
	return nil, badRequest("Content-Type: want text/plain (an id a line) or application/x-ndjson (a JSON string, or an " +
		"object with buyer_id, a line)")
}

// plainBuyer takes a line for an id, unless it looks like one of a CSV file: such an id would be listed without a
// word, and name no buyer.
func plainBuyer(line []byte) (sluice.BuyerID, error) {
	id := sluice.BuyerID(line)
	if looks := looksWrong(id); looks != "" {
		return "", fmt.Errorf("it %s: want one buyer's id as it is in the token, with no quotes and no other columns "+
			"(ids that are so indeed: as application/x-ndjson)", looks)
	}
	return id, nil
}

// shortened is how spreadsheets write a long number, which is lost then.
var shortened = regexp.MustCompile(`^\d[.,]\d+E\+\d+$`)

// padded reports whether an id has white space around it, which no person sees: another buyer than the one meant.
func padded(id sluice.BuyerID) bool { return strings.TrimSpace(string(id)) != string(id) }

const isPadded = "begins or ends with white space"

// looksWrong says what in an id of a list looks like a line of a CSV file, or is padded; empty: nothing does.
func looksWrong(id sluice.BuyerID) string {
	text := string(id)
	switch i := strings.IndexAny(text, "\",;\t"); {
	case padded(id):
		return isPadded
	case shortened.MatchString(text):
		return "looks as if a spreadsheet has shortened it"
	case strings.HasPrefix(text, "sep="):
		return "looks as if it is for a spreadsheet"
	case i >= 0 && text[i] == '\t':
		return "has a tab"
	case i >= 0:
		return fmt.Sprintf("has %q", text[i])
	case len(text) > 1 && strings.HasPrefix(text, "'") && strings.HasSuffix(text, "'"):
		return "is in quotes"
	}
	return ""
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
		whole := bufio.NewReader(body)
		head, _ := whole.Peek(4) // an error comes again
		if what := noText(head); what != "" {
			yield("", badRequest("line 1: the file is %s: want text in UTF-8, an id a line", what))
			return
		}
		lines := bufio.NewScanner(whole)
		lines.Buffer(make([]byte, 0, 64<<10), maxListLine)
		n := 0
		for lines.Scan() {
			n++
			line := lines.Bytes()
			if n == 1 {
				line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // some editors begin a file so
			}
			line = bytes.TrimSpace(line)
			if len(line) == 0 {
				continue
			}
			buyer, err := read(line)
			if err != nil {
				yield("", badRequest("line %d: %v", n, err))
				return
			}
			if !yield(buyer, nil) {
				return
			}
		}
		err := lines.Err()
		_, tooLarge := errors.AsType[*http.MaxBytesError](err)
		switch {
		case err == nil, tooLarge:
		case errors.Is(err, bufio.ErrTooLong):
			err = badRequest("line %d: longer than %d bytes", n+1, maxListLine)
		default:
			err = badRequest("the body breaks off after line %d: %v", n, err)
		}
		if err != nil {
			yield("", err)
		}
	}
}

// noText says which kind of file begins so, of those that people send in place of text; empty: another one.
func noText(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return "in UTF-16"
	case bytes.Equal(head, []byte("PK\x03\x04")):
		return "a spreadsheet, or another archive"
	}
	return ""
}

// showList answers a page of a list.
func (s *Server) showList(r *http.Request) (any, error) {
	sale, kind, err := listName(r)
	if err != nil {
		return nil, err
	}
	var limit int
	var after sluice.BuyerID
	if err := readQuery(r, pageSize(&limit), buyerCursor(&after)); err != nil {
		return nil, err
	}
	if _, err := s.Store.Sale(r.Context(), sale); err != nil {
		return nil, err
	}
	page := api.BuyerPage{BuyerList: api.BuyerList{SaleID: sale, List: kind}, Buyers: []sluice.BuyerID{}}
	all, err := s.Store.Lists(r.Context())
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Sale != sale || all[i].Kind != kind {
			continue
		}
		page.BuyerList = listMessage(&all[i])
		buyers, err := s.Store.Listed(r.Context(), all[i], after, limit+1)
		if err != nil {
			return nil, err
		}
		if len(buyers) > limit {
			buyers = buyers[:limit]
			page.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(buyers[limit-1]))
		}
		page.Buyers = append(page.Buyers, buyers...)
	}
	return page, nil
}

// listMessage returns the list as the wire has it.
func listMessage(l *port.BuyerList) api.BuyerList {
	return api.BuyerList{SaleID: l.Sale, List: l.Kind, Size: l.Size, UpdatedAt: api.AtOrNull(l.UpdatedAt)}
}
