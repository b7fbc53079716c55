package sluice

import "errors"

// ListKind names one of a sale's two lists of buyers.
type ListKind string

// The lists of a sale. A buyer on the deny list can buy nothing there. The
// allow list says who may buy at all, where the rules ask for it
// (EligibleList); otherwise it is not looked at. Deny wins.
const (
	AllowList ListKind = "allow"
	DenyList  ListKind = "deny"
)

// Errors of lists.
var (
	// ErrListSuperseded: another upload of the same list began later and has
	// taken its place.
	ErrListSuperseded = errors.New("another upload of this list, which began later, has taken its place")
	// ErrListTooLong: more buyers than a list can hold.
	ErrListTooLong = errors.New("the list is too long")
)

// Valid reports whether there is such a list.
func (k ListKind) Valid() bool { return k == AllowList || k == DenyList }
