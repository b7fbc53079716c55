package auth

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/sluicehq/sluice"
)

// The spellings of a buyer's id that are one buyer (Options.BuyerID).
const (
	// ExactID: each spelling is a buyer of its own.
	ExactID = "exact"
	// TrimmedID: without White_Space (Unicode) at both ends.
	TrimmedID = "trimmed"
	// CasefoldID: trimmed, case folded in full, and in the form NFKC, again and again
	// until it stays the same; so an id that is stored stays itself.
	CasefoldID = "casefold"
)

// BuyerID returns the one spelling of a buyer's id that this shop knows, or what is
// wrong with the id. Whatever names a buyer, a token or an admin's request, passes
// through here.
func (v *Verifier) BuyerID(id sluice.BuyerID) (sluice.BuyerID, error) {
	text := string(id)
	if v.o.BuyerID == TrimmedID || v.o.BuyerID == CasefoldID {
		text = strings.TrimSpace(text)
	}
	if err := sluice.BuyerID(text).Validate(); err != nil { // which bounds the work as well
		return "", err
	}
	if v.o.BuyerID != CasefoldID {
		return sluice.BuyerID(text), nil
	}
	text, err := casefold(text)
	if err != nil {
		return "", err
	}
	return sluice.BuyerID(text), sluice.BuyerID(text).Validate() // it may have become longer
}

// folds bounds the rounds of casefold. No text is known that needs four.
const folds = 8

var errUnfolded = errors.New("the buyer id has no stable spelling")

func casefold(text string) (string, error) {
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf || unicode.IsUpper(r) }) {
		return text, nil // nearly all
	}
	for range folds {
		folded := strings.TrimSpace(norm.NFKC.String(strings.Map(cherokee, cases.Fold().String(text))))
		if folded == text {
			return text, nil
		}
		text = folded
	}
	return "", errUnfolded
}

// cherokee folds letters of that script to upper case, as Unicode's CaseFolding.txt does.
// The package cases exchanges the two cases, so that no spelling would be stable.
func cherokee(r rune) rune {
	switch {
	case '\uab70' <= r && r <= '\uabbf':
		return r - '\uab70' + '\u13a0'
	case '\u13f8' <= r && r <= '\u13fd':
		return r - '\u13f8' + '\u13f0'
	}
	return r
}
