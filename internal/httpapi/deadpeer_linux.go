package httpapi

import (
	"net"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, in milliseconds. Package
// syscall has it for some architectures only.
const tcpUserTimeout = 18

// probeAgain is how far apart the probes of keep-alive are, in seconds. Package net has the
// first one sent after 15 seconds of silence, and the next after 15 more, when the time is up:
// one that is lost would end the connection of a peer that is there.
const probeAgain = 3

// limitSilence bounds how long sent data may stay unacknowledged. With it the
// probes of keep-alive, which package net turns on, end a connection that has
// nothing to send after about as long.
func limitSilence(conn net.Conn) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // fails for what is not TCP, and needs no limit
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(vanishedAfter.Milliseconds()))
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, probeAgain)
	})
}
