package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"
)

// A peer that vanishes, like a phone out of coverage, says nothing: a write to
// it succeeds as long as the socket's buffer has room, which heartbeats alone
// would not fill for hours, and the system itself gives up after a quarter of an
// hour. These limits are for connections; a stream's Patience is for readers
// who are there and do not read.
const (
	// vanishedAfter is how long a peer may leave unacknowledged what was sent to
	// it, which for a reader of a stream is the next heartbeat at the latest: a
	// vanished one keeps its place for 25 to 40 seconds. It is more than one
	// heartbeat, since readers who come out of a tunnel should not have to come back,
	// and less than two.
	vanishedAfter = 25 * time.Second

	// An HTTP/2 peer that has sent nothing for pingAfter is asked for a sign of
	// life, and has pingPatience for it. That also finds peers who are gone behind
	// something that acknowledges in their name.
	pingAfter, pingPatience = 15 * time.Second, 15 * time.Second

	// stuckAfter is how long an HTTP/2 connection may take nothing at all of what
	// is to be sent. While it is stuck no stream on it can be ended.
	stuckAfter = 10 * time.Second
)

// shedVanished has a connection closed when its peer has vanished, as far as the
// system can. It is for http.Server.ConnContext.
func shedVanished(ctx context.Context, conn net.Conn) context.Context {
	socket := bottom(conn)
	limitSilence(socket)
	if c, ok := socket.(interface{ SetWriteBuffer(n int) error }); ok {
		_ = c.SetWriteBuffer(answerBuffer)
	}
	return ctx
}

func http2Limits() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingPatience, WriteByteTimeout: stuckAfter}
}
