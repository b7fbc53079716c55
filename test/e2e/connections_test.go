package e2e

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/loadgen"
)

// One client holds more connections than the server may have files, and says
// nothing. Buyers get in all the same, SQLite keeps its files, and the log says
// what is going on in a few lines.
func TestOneClientHoldsAllConnections(t *testing.T) {
	t.Parallel()
	s := newServer(t, backends{})
	s.files = 400
	s.start()
	const total, perBuyer = 200, 1
	sale := createSale(t, s, total, perBuyer)

	greedy := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}, Timeout: time.Second}
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	for range 600 {
		if conn, err := greedy.Dial("tcp", s.addr); err == nil {
			held = append(held, conn)
		}
	}
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: 400, Again: 0.5, Connections: 8}, []string{s.url}, 19)
	verify(t, s, rush, total, perBuyer)
	log := s.log()
	if n := strings.Count(log, "connections are scarce"); n != 1 {
		t.Errorf("%d lines about scarce connections, want one", n)
	}
	if strings.Contains(log, "too many open files") {
		t.Error("the server ran out of files")
	}
}
