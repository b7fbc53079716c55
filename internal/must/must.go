// Package must ends a test at an error that it does not expect, in one line.
package must

// T is what a test has of *testing.T or *testing.B.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Succeed ends the test when err is not nil.
func Succeed(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns the value of a call that must succeed: must.Get(os.ReadFile(name))(t).
// Go passes two results on only as the whole list of arguments, so t comes after them.
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		Succeed(t, err)
		return v
	}
}
