//go:build !linux

package httpapi

import (
	"net"
	"time"
)

// limitSilence has the system probe a silent connection. While sent data is
// unacknowledged some systems do not probe; their own limits hold then.
func limitSilence(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		const interval, count = 5 * time.Second, 3
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: true, Idle: vanishedAfter - count*interval, Interval: interval,
			Count: count,
		})
	}
}
