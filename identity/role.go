// Package identity says who asks: buyers by their tokens, admins by their keys.
// It decides nothing else; what a role may do stands in the API's table of
// routes.
package identity

import "fmt"

// Role is what an admin may do. Each role may do what those before it may.
type Role uint8

// The roles. The zero Role is none, and may do nothing.
const (
	Viewer   Role = iota + 1 // reads everything
	Operator                 // runs sales and orders: pause, restock, pay, refund, reconcile
	Owner                    // everything: also creates sales and rebuilds them
)

var roleNames = [...]string{Viewer: "viewer", Operator: "operator", Owner: "owner"}

// Roles lists every role, the weakest first.
func Roles() []Role { return []Role{Viewer, Operator, Owner} }

// ParseRole reads a role's name.
func ParseRole(name string) (Role, error) {
	for _, r := range Roles() {
		if roleNames[r] == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("role %q: want viewer, operator or owner", name)
}

// May reports whether somebody with role r may do what needs role needed.
func (r Role) May(needed Role) bool { return needed != 0 && r >= needed }

func (r Role) String() string {
	if r == 0 || int(r) >= len(roleNames) {
		return "none"
	}
	return roleNames[r]
}
