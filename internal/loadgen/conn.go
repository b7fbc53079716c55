package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// conn is a lean HTTP/1.1 connection. net/http costs several times as much a
// request, and in the demo crowd and server share one machine: what the client
// burns, the server does not get.
type conn struct {
	nc   net.Conn
	free func() bool // ends the watch over the context
	r    *bufio.Reader
	out  []byte
	body []byte
}

// maxBody is far beyond any answer to a claim.
const maxBody = 1 << 20

// dial opens a connection that lives until close or the end of ctx.
func dial(ctx context.Context, addr string, secure *tls.Config, timeout time.Duration) (*conn, error) {
	dialer := &net.Dialer{Timeout: timeout}
	var nc net.Conn
	var err error
	if secure != nil {
		nc, err = (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext(ctx, "tcp", addr)
	} else {
		nc, err = dialer.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	// When ctx ends, a request under way ends too.
	free := context.AfterFunc(ctx, func() { _ = nc.Close() })
	return &conn{nc: nc, free: free, r: bufio.NewReaderSize(nc, 4096)}, nil
}

func (c *conn) close() {
	c.free()
	_ = c.nc.Close()
}

// answer is a response; body is valid until the next exchange.
type answer struct {
	status     int
	body       []byte
	retryAfter time.Duration
	replayed   bool
	close      bool // the server will close the connection
}

// exchange sends one request, which comes in pieces, and reads its answer. After
// an error the connection is of no use.
func (c *conn) exchange(timeout time.Duration, request ...string) (answer, error) {
	if err := c.nc.SetDeadline(time.Now().Add(timeout)); err != nil {
		return answer{}, err
	}
	c.out = c.out[:0]
	for _, piece := range request {
		c.out = append(c.out, piece...)
	}
	if _, err := c.nc.Write(c.out); err != nil {
		return answer{}, err
	}
	for {
		a, err := c.read()
		if err != nil || a.status >= 200 {
			return a, err
		}
	}
}

// read reads one response, 1xx too.
func (c *conn) read() (answer, error) {
	line, err := c.line()
	if err != nil {
		return answer{}, err
	}
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[8] != ' ' {
		return answer{}, errors.New("not HTTP/1.1")
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil || status < 100 {
		return answer{}, errors.New("not HTTP/1.1")
	}
	a := answer{status: status, close: line[7] == '0'}
	length, chunked := int64(-1), false
	for {
		line, err = c.line()
		if err != nil {
			return answer{}, err
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			return answer{}, errors.New("broken header")
		}
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "content-length"):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil || length < 0 || length > maxBody {
				return answer{}, fmt.Errorf("content-length of %q", value)
			}
		case is(name, "transfer-encoding"):
			chunked = is(value, "chunked")
		case is(name, "connection"):
			a.close = a.close || is(value, "close")
		case is(name, "retry-after"):
			if seconds, err := strconv.Atoi(string(value)); err == nil {
				a.retryAfter = time.Duration(min(max(seconds, 0), 3600)) * time.Second
			}
		case is(name, "idempotent-replayed"):
			a.replayed = is(value, "true")
		}
	}
	c.body = c.body[:0]
	switch {
	case status < 200 || status == 204 || status == 304:
	case chunked:
		err = c.readChunks()
	case length >= 0:
		err = c.readN(int(length))
	default:
		a.close = true
		err = c.readToEnd()
	}
	a.body = c.body
	return a, err
}

// line returns the next line without its end; valid until the next read.
func (c *conn) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		if len(line) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

func (c *conn) readN(n int) error {
	have := len(c.body)
	if have+n > maxBody {
		return errors.New("the answer is too large")
	}
	for cap(c.body) < have+n {
		c.body = append(c.body[:cap(c.body)], 0)
	}
	c.body = c.body[:have+n]
	_, err := io.ReadFull(c.r, c.body[have:])
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (c *conn) readChunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte{';'})
		n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 31)
		if err != nil {
			return errors.New("broken chunk")
		}
		if n > 0 {
			if err := c.readN(int(n)); err != nil {
				return err
			}
		}
		// The end of the chunk, or after the last one the trailers.
		for {
			if line, err = c.line(); err != nil {
				return err
			}
			if len(line) == 0 {
				break
			}
			if n > 0 {
				return errors.New("broken chunk")
			}
		}
		if n == 0 {
			return nil
		}
	}
}

func (c *conn) readToEnd() error {
	body, err := io.ReadAll(io.LimitReader(c.r, maxBody))
	c.body = append(c.body, body...)
	return err
}

// is compares a header's name or value with a lower-case word.
func is(have []byte, word string) bool {
	if len(have) != len(word) {
		return false
	}
	for i := range have {
		b := have[i]
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		if b != word[i] {
			return false
		}
	}
	return true
}
