// Package table writes tables for people.
package table

import (
	"fmt"
	"strings"
)

// Write aligns rows in columns; the first row names them, with '>' before the
// names of those that are numbers, set to the right.
func Write(b *strings.Builder, rows [][]string) {
	right := make([]bool, len(rows[0]))
	width := make([]int, len(rows[0]))
	for i, name := range rows[0] {
		rows[0][i], right[i] = strings.CutPrefix(name, ">")
	}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			if right[i] {
				fmt.Fprintf(&line, "%*s", width[i], cell)
			} else {
				fmt.Fprintf(&line, "%-*s", width[i], cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}
