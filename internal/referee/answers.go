package referee

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// parse reads JSON, with numbers as they are written.
func parse(body []byte) (tree any) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	_ = decoder.Decode(&tree) // what is not JSON has no fields
	return tree
}

// at follows a path with dots. An empty path is the tree itself.
func at(tree any, path string) any {
	if path == "" {
		return tree
	}
	for name := range strings.SplitSeq(path, ".") {
		switch node := tree.(type) {
		case map[string]any:
			tree = node[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(node) {
				return nil
			}
			tree = node[i]
		default:
			return nil
		}
	}
	return tree
}

// field is the value at a path, as text.
func field(tree any, path string) (text string, found bool) {
	switch value := at(tree, path).(type) {
	case nil, map[string]any, []any:
		return "", false
	case string:
		return value, true
	default:
		return fmt.Sprint(value), true
	}
}

var address = regexp.MustCompile(`[0-9.]+:[0-9]+|\[[0-9a-f:]+\]:[0-9]+`)

// inShort is an error of the network without what differs each time.
func inShort(err error) string {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.EPIPE):
		return "connection lost"
	}
	return address.ReplaceAllString(err.Error(), "ADDRESS")
}
