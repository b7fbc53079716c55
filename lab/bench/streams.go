package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/lab/bench/machine"
)

// Event streams: some thousand listeners of one sale, on loopback. A unit is
// bought, and every listener must hear of it.

const (
	streamsName   = "event streams, an update to all"
	streamUpdates = 5 // per round
	// hearing is how long all listeners are waited for before the run fails.
	hearing = 30 * time.Second
)

func openStreamsGroup(_ context.Context, o *options) ([]side, func(), error) {
	most, _ := httpapi.MostConnections() // the server has the same limit of open files
	streams := min(o.streams, most/2)
	does := fmt.Sprintf(
		"%d connections to GET /v1/sales/{sale}/events; a unit is bought %d times; a second is the slowest listener's",
		streams, streamUpdates)
	run := func(ctx context.Context, r *round) (figure, error) { return runStreams(ctx, r, streams) }
	return []side{{name: streamsName, own: true, does: does, run: run}}, func() {}, nil
}

func runStreams(ctx context.Context, r *round, streams int) (figure, error) {
	k, err := embedded.open(ctx, r, poolSecret, nil)
	if err != nil {
		return figure{}, err
	}
	k.config.Streams = streams
	p, err := k.start(ctx, soldOutUnits, longOpen)
	if err != nil {
		return figure{}, err
	}
	defer p.stop()
	before, err := p.memory(ctx)
	if err != nil {
		return figure{}, err
	}
	crowd := &listeners{count: int64(streams), heard: make(chan struct{}, 1), failed: make(chan error, 1)}
	defer crowd.close()
	crowd.want(soldOutUnits)
	for range streams {
		if err := crowd.connect(ctx, strings.TrimPrefix(p.URL, "http://")); err != nil {
			return figure{}, err
		}
	}
	if _, err := crowd.await(ctx); err != nil {
		return figure{}, err
	}
	after, err := p.memory(ctx)
	if err != nil {
		return figure{}, err
	}
	var slowest, median time.Duration
	for n := range int64(streamUpdates) {
		crowd.want(soldOutUnits - 1 - n)
		buyer, key := r.crowd.attempt(n)
		token, err := loadgen.Mint([]byte(poolSecret), buyer, time.Now(), tokenLife)
		if err != nil {
			return figure{}, err
		}
		start := time.Now()
		status, text, err := request(ctx, http.MethodPost, p.URL+ordersPath, token, string(key), `{"quantity":1}`)
		if err != nil || status != http.StatusAccepted {
			return figure{}, fmt.Errorf("an order was answered %d %s: %w", status, text, err)
		}
		half, err := crowd.await(ctx)
		if err != nil {
			return figure{}, err
		}
		slowest, median = max(slowest, time.Since(start)), max(median, half.Sub(start))
	}
	return figure{perSecond: float64(streams) / slowest.Seconds(), also: map[string]float64{
		"slowest_ms": float64(slowest.Microseconds()) / 1000, "half_heard_ms": float64(median.Microseconds()) / 1000,
		"memory_kB_per_stream":  (after.resident - before.resident) / float64(streams) / 1000,
		"heap_kB_per_stream":    (after.heap - before.heap) / float64(streams) / 1000,
		"goroutines_per_stream": (after.goroutines - before.goroutines) / float64(streams),
	}}, nil
}

// listeners are connections that each wait for the same news.
type listeners struct {
	count  int64
	conns  []net.Conn
	news   atomic.Pointer[[]byte] // what all wait for
	left   atomic.Int64           // how many have not heard it
	heard  chan struct{}          // gets a value when all have
	half   atomic.Int64           // when half had, in Unix nanoseconds
	failed chan error             // gets the first error of a stream
}

func (l *listeners) want(available int64) {
	text := []byte(`"available":` + strconv.FormatInt(available, 10) + ",")
	l.left.Store(l.count)
	l.news.Store(&text)
}

func (l *listeners) connect(ctx context.Context, addr string) error {
	var d net.Dialer
	if more := len(l.conns) / 20_000; more > 0 { // one address of this machine has no more than some 28,000 ports
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+more))}
	}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	l.conns = append(l.conns, conn)
	if _, err := io.WriteString(conn, "GET "+salePath+"/events HTTP/1.1\r\nHost: shop.example\r\n\r\n"); err != nil {
		return err
	}
	go l.listen(conn)
	return nil
}

// listen reads a stream until it ends or the connection is closed. The first error
// of all streams ends the waiting.
func (l *listeners) listen(conn net.Conn) {
	lines := bufio.NewReaderSize(conn, 1024)
	line, err := lines.ReadSlice('\n')
	if err == nil && !bytes.Contains(line, []byte(" 200 ")) {
		err = fmt.Errorf("it is answered %q", line)
	}
	for known := (*[]byte)(nil); err == nil; line, err = lines.ReadSlice('\n') {
		if news := l.news.Load(); news != known && bytes.Contains(line, *news) {
			known = news
			switch left := l.left.Add(-1); left {
			case l.count / 2:
				l.half.Store(time.Now().UnixNano())
			case 0:
				l.heard <- struct{}{}
			}
		}
	}
	select {
	case l.failed <- fmt.Errorf("a stream ended: %w", err):
	default:
	}
}

// await waits until all have heard the news, and says when half of them had.
func (l *listeners) await(ctx context.Context) (half time.Time, err error) {
	select {
	case <-l.heard:
		return time.Unix(0, l.half.Load()), nil
	case <-ctx.Done():
		return half, ctx.Err()
	case err = <-l.failed:
		return half, err
	case <-time.After(hearing):
		return half, fmt.Errorf("%d of %d listeners have not heard it after %s", l.left.Load(), l.count, hearing)
	}
}

func (l *listeners) close() {
	for _, conn := range l.conns {
		conn.Close()
	}
}

// memory is what a server uses, in bytes.
type memory struct{ resident, heap, goroutines float64 }

func (p *process) memory(ctx context.Context) (memory, error) {
	// For a second a server answers with the same metrics, and a second after it was opened it
	// gives back what opening has left.
	pause(ctx, 2*time.Second)
	status, text, err := request(ctx, http.MethodGet, p.URL+"/metrics", "", "", "")
	if err != nil || status != http.StatusOK {
		return memory{}, fmt.Errorf("/metrics: status %d: %w", status, err)
	}
	value := func(name string) (v float64) {
		for line := range strings.Lines(text) {
			if rest, found := strings.CutPrefix(line, name+" "); found {
				v, _ = strconv.ParseFloat(strings.TrimSpace(rest), 64)
			}
		}
		return v
	}
	m := memory{
		resident:   machine.Resident(p.cmd.Process.Pid),
		heap:       value("go_memstats_heap_inuse_bytes") + value("go_memstats_stack_inuse_bytes"),
		goroutines: value("go_goroutines"),
	}
	return m, nil
}
