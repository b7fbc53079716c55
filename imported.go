package sluice

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ImportedTerms stands where an order has the version of its terms, if it was
// imported: another system sold it, so no terms of this sale let it pass, and its
// time is that of the import (I8 says nothing about it). In all else it is an order
// like the others. No sale has as many versions, and the scripts count so far.
const ImportedTerms = 1 << 40

// MaxImported is the most orders of one import; a sale may have several.
const MaxImported = 200_000

const maxEarlierID = 128

// EarlierOrder is an order that another system has sold, before it is imported.
type EarlierOrder struct {
	Line     int // of the file that it is in
	Buyer    BuyerID
	Quantity int64
	ID       string // in the other system; 1 to 128 bytes
}

// Validate says what is wrong with the order, and what would be right.
func (e *EarlierOrder) Validate() error {
	if err := e.Buyer.Validate(); err != nil {
		return err
	}
	if e.Quantity < 1 || e.Quantity > MaxQuantity {
		return fmt.Errorf("quantity %d: want 1 to %d", e.Quantity, MaxQuantity)
	}
	if len(e.ID) < 1 || len(e.ID) > maxEarlierID || !utf8.ValidString(e.ID) ||
		strings.ContainsFunc(e.ID, unicode.IsControl) {
		return fmt.Errorf("order id of %d bytes: want 1 to %d of UTF-8, without control characters", len(e.ID), maxEarlierID)
	}
	return nil
}

// Claim is the claim that the order becomes in a sale. It follows from the sale and the
// order's id, so that a repeated import meets the orders of the first one.
func (e *EarlierOrder) Claim(sale SaleID) Claim {
	suffix := e.Suffix(sale)
	var meta bytes.Buffer
	encoder := json.NewEncoder(&meta)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(earlierMeta{e.ID}) // a text can always be encoded
	return Claim{
		Buyer: e.Buyer, Key: Key("import-" + suffix), Quantity: e.Quantity, Order: sale.Order(suffix),
		Meta: strings.TrimSuffix(meta.String(), "\n"),
	}
}

// Suffix is that of the order's id in a sale (SaleID.Order).
func (e *EarlierOrder) Suffix(sale SaleID) string {
	sum := sha256.Sum256([]byte("sluice import\n" + string(sale) + "\n" + e.ID))
	return hex.EncodeToString(sum[:16])
}

type earlierMeta struct {
	Imported string `json:"imported"`
}

// EarlierID returns the id that an imported order has in the other system, by its
// meta. A buyer may write any meta, but servers make the ids of orders: so of an order
// that was sold here it returns false, whatever its meta says.
func (o OrderID) EarlierID(meta string) (id string, imported bool) {
	var m earlierMeta
	sale, ok := o.Sale()
	if !ok || json.Unmarshal([]byte(meta), &m) != nil || o != sale.Order((&EarlierOrder{ID: m.Imported}).Suffix(sale)) {
		return "", false
	}
	return m.Imported, true
}

// Imported says what an import did.
type Imported struct {
	Sale   Sale
	Orders int64 // that are new
	Units  int64 // of these
	Before int64 // orders that were there before
}

// ImportError says what is wrong with the orders of an import, which has changed
// nothing.
type ImportError struct {
	Lines []string // the first hundred, each with its number
	More  bool     // there are others
	// Conflict: the orders are right, and not for this sale as it is.
	Conflict bool
}

func (e *ImportError) Error() string { return "nothing was imported: " + e.Text("; ") }

// Text is what is wrong, with something between the lines.
func (e *ImportError) Text(between string) string {
	text := strings.Join(e.Lines, between)
	if e.More {
		text += between + "and more"
	}
	return text
}

// Add adds what is wrong with a line. Of a file that is wrong in all its lines a
// hundred say enough.
func (e *ImportError) Add(line int, format string, args ...any) {
	if len(e.Lines) == 100 {
		e.More = true
		return
	}
	e.Lines = append(e.Lines, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
}

// OrNil is the error, or nil if no line is wrong.
func (e *ImportError) OrNil() error {
	if len(e.Lines) == 0 {
		return nil
	}
	return e
}

// Import is orders to store, all at one moment.
type Import struct {
	Sale    SaleID
	Version int64     // that the sale's terms must have,
	Epoch   int64     // and its epoch
	At      time.Time // by the ledger's clock
	Fence   string    // why the sale is fenced from then on
	Orders  []EarlierOrder
}

// ImportStore keeps orders that another system has sold.
type ImportStore interface {
	// Import stores orders as paid, in one transaction, with the sale's taken raised,
	// never beyond the cap (I1), and fences the sale, as the ledger does not count
	// them before it is loaded again. The feed never has events of their being stored.
	// A *StateError, and nothing is stored, if the sale is not as the import says, if
	// the cap does not cover the orders, or if one of them is there.
	Import(ctx context.Context, orders Import) error
}
