package redisledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// errDeleted marks an entry that is pending but not in the stream any more.
var errDeleted = errors.New("the entry was deleted")

// decodeEntry reads a journal entry as commit.lua wrote it: v format, e epoch,
// n server, t version of the terms, at (ms), s first sequence, c claims, one
// line each. An entry that cannot be read comes back with Damage.
func decodeEntry(sale sluice.SaleID, raw rueidis.XRangeEntry) port.Entry {
	if raw.FieldValues == nil {
		return port.Entry{ID: raw.ID, Sale: sale, Damage: errDeleted}
	}
	entry, err := decodeFields(raw.FieldValues)
	if entry.Sale = sale; err == nil {
		err = entry.Validate()
	}
	if err != nil {
		entry = port.Entry{Damage: err, Raw: rawText(raw.FieldValues)}
	}
	entry.ID, entry.Sale = raw.ID, sale
	return entry
}

func decodeFields(fields map[string]string) (port.Entry, error) {
	if v := fields["v"]; v != strconv.Itoa(port.JournalFormat) {
		return port.Entry{}, fmt.Errorf("journal format %q, want %d", v, port.JournalFormat)
	}
	numbers := parser{text: []string{fields["e"], fields["t"], fields["s"], fields["at"]}}
	entry := port.Entry{
		Epoch: numbers.number(0), Terms: numbers.number(1), FirstSeq: numbers.number(2), At: numbers.time(3),
		Node: fields["n"],
	}
	if numbers.err != nil {
		return entry, numbers.err
	}
	if entry.Node == "" {
		return entry, errors.New("the server is missing")
	}
	var err error
	if entry.Claims, err = port.ParseClaims(fields["c"]); err != nil {
		return entry, err
	}
	if len(entry.Claims) == 0 {
		return entry, errors.New("no claims")
	}
	return entry, nil
}

// rawText writes the fields of an entry that cannot be read, one a line, for a
// person.
func rawText(fields map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&b, "%s=%s\n", name, fields[name])
	}
	return b.String()
}
