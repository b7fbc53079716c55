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
func parse(body []byte) (tree any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	err = decoder.Decode(&tree)
	return tree, err
}

// at follows a path with dots. An empty path is the tree itself.
func at(tree any, path string) (value any, found bool) {
	if path == "" {
		return tree, true
	}
	for name := range strings.SplitSeq(path, ".") {
		switch node := tree.(type) {
		case map[string]any:
			tree, found = node[name]
		case []any:
			i, err := strconv.Atoi(name)
			if found = err == nil && i >= 0 && i < len(node); found {
				tree = node[i]
			}
		default:
			found = false
		}
		if !found {
			return nil, false
		}
	}
	return tree, true
}

// field is the value at a path, as text.
func field(tree any, path string) (text string, found bool) {
	value, _ := at(tree, path)
	switch value := value.(type) {
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
		errors.Is(err, syscall.EPIPE), strings.Contains(err.Error(), "server closed idle connection"):
		return "connection lost"
	}
	return address.ReplaceAllString(err.Error(), "ADDRESS")
}
