package sluice

import (
	"context"
	"fmt"
)

// Role is what an admin may do. Each role may do what those before it may.
type Role uint8

// The roles. The zero Role is none, and may do nothing.
const (
	Viewer   Role = iota + 1 // reads everything
	Operator                 // runs sales and orders: pause, restock, pay, refund, reconcile
	Owner                    // everything: also creates sales and rebuilds them
)

var roleNames = [...]string{Viewer: "viewer", Operator: "operator", Owner: "owner"}

// ParseRole reads a role's name.
func ParseRole(name string) (Role, error) {
	for r := Viewer; r <= Owner; r++ {
		if roleNames[r] == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("role %q: want viewer, operator or owner", name)
}

// May reports whether an admin with role r may do what needs role needed.
func (r Role) May(needed Role) bool { return needed != 0 && r >= needed }

func (r Role) String() string {
	if r == 0 || int(r) >= len(roleNames) {
		return "none"
	}
	return roleNames[r]
}

// AdminKey is one key of an admin, or of a program that acts as one: a name
// for the records, a role, and the key itself in one of three forms.
type AdminKey struct {
	Name string // 1 to 64 of A-Z a-z 0-9 . _ @ -
	Role Role

	Key    string // the key, at least 16 characters
	SHA256 string // or its SHA-256 in hexadecimal, so that the settings hold no secret
	File   string // or the path of a file that holds the key, and nothing else
}

// Control is what operators do to a sale. Every change is written to the store
// first, as a new version of the terms, and then applied to the ledger; after a
// crash in between any server repairs it.
//
// Errors of all: ErrSaleNotFound, ErrArchived, *StateError if the sale is in no
// state that allows it, *PendingError if the change is stored and not yet in the
// ledger, and those of ledger and store.
type Control interface {
	// Create adds a valid sale and loads it into the ledger. ErrSaleExists.
	Create(ctx context.Context, sale Sale) (Sale, error)
	// Open starts the sale now, by the ledger's clock.
	Open(ctx context.Context, id SaleID) (Sale, error)
	// Pause refuses claims until Resume.
	Pause(ctx context.Context, id SaleID) (Sale, error)
	Resume(ctx context.Context, id SaleID) (Sale, error)
	// Close ends the window now, by the ledger's clock. Only claims end; orders
	// keep their deadline.
	Close(ctx context.Context, id SaleID) (Sale, error)
	// Patch lets edit change the sale. What decides who may buy how much is fixed
	// from the opening on, except that the total may be raised and the closing
	// time moved: a promise made under the old limits must stay one (I1, I3). The
	// opening can be moved to later after it as well, while no claim of the sale was
	// ever accepted; one that is accepted in the same moment wins (*StateError).
	Patch(ctx context.Context, id SaleID, edit func(*Sale) error) (Sale, error)
	// AddPicture gives a sale one more picture to show, unless it has that one.
	AddPicture(ctx context.Context, id SaleID, picture Picture) (Sale, error)
	// Delete deletes a sale before it opens, if no claim of it was ever accepted, in
	// ledger and store; one that is accepted in the same moment wins (*StateError).
	Delete(ctx context.Context, id SaleID) error
	// Restock changes the total of a sale by delta units, once per restock id; a
	// repeat changes nothing more. A sale that was sold out is on again when it
	// returns.
	//
	// ErrBelowTaken if more are taken than would be left, ErrTotalUndecided if the
	// ledger does not hold the sale or has fenced it and nothing was changed, or, as
	// ErrLoweringWaits, if a lower total waits for the ledger, ErrNoTotal,
	// ErrRestockReused.
	Restock(ctx context.Context, id SaleID, restock string, delta int64) (Sale, error)
}
