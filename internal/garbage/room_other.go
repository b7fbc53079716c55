//go:build !linux

package garbage

func huge([]byte) {}
