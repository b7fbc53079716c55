//go:build !unix

package httpapi

// descriptors is how many files and connections the system lets this process
// have open, 0 if it does not say.
func descriptors() int { return 0 }
