package floor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Writer is the floor of a ledger on Redis. Its script looks for the record of each buyer,
// since no ledger can keep a limit without that, answers with it if there is one, and else
// writes what redisledger writes of a batch: a record for each and an entry of the journal. It
// decides nothing.
type Writer struct {
	client  rueidis.Client
	sha     string
	batches atomic.Int64
}

const (
	// writerPart is how many claims are one call of the script, as in redisledger.
	writerPart = 250

	// writerScript returns a position and the record there for each buyer who has one. The
	// journal has the text of all claims as it came, and those positions: nothing is cut.
	writerScript = `
local buyers = {unpack(ARGV, 2, (#ARGV + 1) / 2)} -- as long as it will be
for i = 1, #buyers do
  buyers[i] = ARGV[2 * i]
end
local held, again, answers = redis.call('HMGET', KEYS[1], unpack(buyers)), {}, {}
for i = 1, #buyers do
  if held[i] then
    again[#again + 1] = i
    answers[#answers + 1], answers[#answers + 2] = i, held[i]
  end
end
local last = #ARGV
for j = #again, 1, -1 do -- the last pairs take their places
  local i = again[j]
  ARGV[2 * i], ARGV[2 * i + 1] = ARGV[last - 1], ARGV[last]
  last = last - 2
end
if last > 1 then
  redis.call('XADD', KEYS[2], '*', 'v', '1', 'e', '1', 'n', 'bench', 't', '1', 'at', '1', 's', '1', 'c', ARGV[1],
    'x', table.concat(again, ','))
  redis.call('HSET', KEYS[1], unpack(ARGV, 2, last))
end
return answers`
)

func writerRecords(sale sluice.SaleID) string { return "{" + string(sale) + "}:buyers" }
func writerJournal(sale sluice.SaleID) string { return "{" + string(sale) + "}:journal" }

// NewWriter connects to a Redis.
func NewWriter(ctx context.Context, url string) (*Writer, error) {
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	w := &Writer{}
	if w.client, err = rueidis.NewClient(options); err != nil {
		return nil, err
	}
	if w.sha, err = w.client.Do(ctx, w.client.B().ScriptLoad().Script(writerScript).Build()).ToString(); err != nil {
		w.client.Close()
		return nil, err
	}
	return w, nil
}

// Close ends the connections.
func (w *Writer) Close() error {
	w.client.Close()
	return nil
}

// Claim implements port.Decider.
func (w *Writer) Claim(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
	decisions := make([]sluice.Decision, len(claims))
	for i := range claims {
		decisions[i] = sluice.Decision{Code: sluice.Accepted, Order: claims[i].Order, Quantity: claims[i].Quantity}
	}
	var calls rueidis.Commands
	for part := range slices.Chunk(claims, writerPart) {
		calls = append(calls, w.client.B().Evalsha().Sha1(w.sha).Numkeys(2).Key(writerRecords(sale), writerJournal(sale)).
			Arg(writerArgs("bench."+strconv.FormatInt(w.batches.Add(1), 10), part)...).Build())
	}
	for part, reply := range w.client.DoMulti(ctx, calls...) {
		again, err := reply.ToArray()
		if err != nil {
			return nil, err
		}
		for pair := range slices.Chunk(again, 2) {
			i, err := pair[0].AsInt64()
			if err != nil {
				return nil, err
			}
			record, err := pair[1].ToString()
			if err != nil {
				return nil, err
			}
			d := &decisions[part*writerPart+int(i)-1]
			d.Replayed = true
			d.Order = sluice.OrderID(strings.SplitN(record, "\t", 5)[3])
		}
	}
	return decisions, nil
}

// writerArgs are the journal's text of a batch, and pairs of a buyer and their record.
func writerArgs(batch string, claims []sluice.Claim) []string {
	var lines, records []byte
	ends := make([]int, len(claims))
	for i := range claims {
		c := &claims[i]
		from := len(lines)
		lines = port.AppendClaim(lines, c)
		records = append(records, "1\t1\n"...)
		records = append(records, lines[from:len(lines)-1]...)
		records = append(append(records, '\t'), batch...)
		records = append(strconv.AppendInt(append(records, ':'), int64(i+1), 10), "\t1"...)
		ends[i] = len(records)
	}
	text, from := string(records), 0
	args := append(make([]string, 0, 1+2*len(claims)), string(lines))
	for i, end := range ends {
		args = append(args, string(claims[i].Buyer), text[from:end])
		from = end
	}
	return args
}

// Check compares what was accepted with what Redis has.
func (w *Writer) Check(ctx context.Context, sale sluice.SaleID, accepted int64) error {
	n, err := w.client.Do(ctx, w.client.B().Hlen().Key(writerRecords(sale)).Build()).AsInt64()
	if err == nil && n != accepted {
		err = fmt.Errorf("accepted %d, but there are %d records", accepted, n)
	}
	return err
}
