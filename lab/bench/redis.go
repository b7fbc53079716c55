package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/internal/servertest"
)

// startRedis starts a Redis of one round's own: empty, with an append-only file in the
// round's folder. Fsync is its appendfsync: "no" leaves the disk to the operating system,
// "always" is one fsync per turn of Redis' loop, before it answers. The file is not
// rewritten while it is measured.
func startRedis(dir, fsync string) (*servertest.RedisServer, error) {
	return servertest.NewRedis(dir, "--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0")
}

// redisConn is a connection that costs as little as one can: a command is
// bytes, written at once, and a reply that is a number is read without
// allocating. The plain sides use it, so that no client library slows them.
type redisConn struct {
	conn  net.Conn
	reply *bufio.Reader
	out   []byte
}

func dialRedis(addr string) (*redisConn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &redisConn{conn: conn, reply: bufio.NewReaderSize(conn, 16<<10)}, nil
}

func (c *redisConn) close() { c.conn.Close() }

// add puts a command into the buffer that send writes.
func (c *redisConn) add(args ...string) {
	c.open(len(args))
	for _, a := range args {
		c.out = appendBulk(c.out, a)
	}
}

// open starts a command of n arguments, which the caller appends.
func (c *redisConn) open(n int) {
	c.out = append(c.out, '*')
	c.out = strconv.AppendInt(c.out, int64(n), 10)
	c.out = append(c.out, '\r', '\n')
}

func appendBulk[T string | []byte](dst []byte, arg T) []byte {
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(arg)), 10)
	dst = append(dst, '\r', '\n')
	dst = append(dst, arg...)
	return append(dst, '\r', '\n')
}

func (c *redisConn) send() error {
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	return err
}

// number reads a reply that is an integer.
func (c *redisConn) number() (int64, error) {
	line, err := c.reply.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) == 4 && line[0] == ':' && line[1] >= '0' && line[1] <= '9' {
		return int64(line[1] - '0'), nil
	}
	text := strings.TrimSuffix(string(line), "\r\n")
	if !strings.HasPrefix(text, ":") {
		return 0, errors.New(text)
	}
	return strconv.ParseInt(text[1:], 10, 64)
}

// call sends one command and returns its reply as text.
func (c *redisConn) call(args ...string) (string, error) {
	c.add(args...)
	if err := c.send(); err != nil {
		return "", err
	}
	line, err := c.reply.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	switch line[0] {
	case '-':
		return "", errors.New(line[1:])
	case '$':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 {
			return "", fmt.Errorf("%s: no value", args[0])
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(c.reply, body); err != nil {
			return "", err
		}
		return string(body[:n]), nil
	}
	return line[1:], nil
}

// count is call for a command that answers a number, or a text that is one.
func (c *redisConn) count(args ...string) (int64, error) {
	text, err := c.call(args...)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}
