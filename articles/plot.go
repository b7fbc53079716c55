package main

import (
	"fmt"
	"html"
	"strings"
)

// chart is a picture of bars that lie, a row for each method.
type chart struct {
	title, below string
	series       []string // what the bars of a row are, or the parts of its only bar
	stacked      bool
	rows         []chartRow
}

type chartRow struct {
	label string
	own   bool
	bars  [][]float64 // each a list of parts, from the left
}

// The colours are of the same lightness for everybody's eyes, and the page's, light
// or dark, is painted, since a picture does not know it.
const chartStyle = `<style>
	text { font: 13px system-ui, sans-serif; fill: #1f2328 }
	.title { font-size: 16px; font-weight: 600 } .own { font-weight: 600 } .faint { fill: #59636e; font-size: 11px }
	.page { fill: #ffffff } .axis { stroke: #d1d9e0 }
	.a { fill: #7b8794 } .b { fill: #b6bfc9 } .c { fill: #dde2e8 } .d { fill: #c8a468 }
	.own-a { fill: #0a69da } .own-b { fill: #6cb0f5 } .own-c { fill: #bcdcfb } .own-d { fill: #c8a468 }
	@media (prefers-color-scheme: dark) {
		text { fill: #e6edf3 } .faint { fill: #9198a1 } .page { fill: #0d1117 } .axis { stroke: #3d444d }
		.a { fill: #8b949e } .b { fill: #5d656f } .c { fill: #3a414a } .d { fill: #9a7434 }
		.own-a { fill: #4493f8 } .own-b { fill: #2a62ad } .own-c { fill: #1c3f70 } .own-d { fill: #9a7434 }
	}
</style>
`

const (
	chartWidth = 860
	labelWidth = 190
	barSpace   = chartWidth - labelWidth - 90 // the rest is for figures
	barHeight  = 13
)

func (c *chart) svg() string {
	var b strings.Builder
	most := 0.0
	bars := 0
	for _, row := range c.rows {
		bars += len(row.bars)
		for _, parts := range row.bars {
			most = max(most, sum(parts))
		}
	}
	height := 74 + bars*(barHeight+2) + len(c.rows)*10 + 26
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(c.title))
	b.WriteString(chartStyle)
	fmt.Fprintf(&b, `<rect class="page" width="%d" height="%d" rx="6"/>`+"\n", chartWidth, height)
	text := func(x, y int, class, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor,
			html.EscapeString(s))
	}
	text(16, 28, "title", "start", c.title)
	x := labelWidth
	for i, name := range c.series {
		for j, prefix := range []string{"", "own-"} {
			fmt.Fprintf(&b, `<rect x="%d" y="42" width="12" height="12" class="%s%c"/>`+"\n", x+14*j, prefix, 'a'+i)
		}
		text(x+32, 53, "", "start", name)
		x += 56 + 7*len(name)
	}
	y := 74
	fmt.Fprintf(&b, `<line class="axis" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", labelWidth, y-6, labelWidth, height-26)
	for _, row := range c.rows {
		class, prefix := "", ""
		if row.own {
			class, prefix = "own", "own-"
		}
		text(labelWidth-10, y+len(row.bars)*(barHeight+2)/2+4, class, "end", row.label)
		for i, parts := range row.bars {
			x := float64(labelWidth)
			for j, value := range parts {
				width := value / max(most, 1e-9) * barSpace
				kind := 'a' + i
				if c.stacked {
					kind = 'a' + j
				}
				fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" class="%s%c"/>`+"\n", x, y, width, barHeight,
					prefix, kind)
				x += width
			}
			text(int(x)+6, y+barHeight-2, class, "start", short(sum(parts)))
			y += barHeight + 2
		}
		y += 10
	}
	text(16, height-12, "faint", "start", c.below)
	b.WriteString("</svg>\n")
	return b.String()
}

func sum(parts []float64) (total float64) {
	for _, p := range parts {
		total += p
	}
	return total
}
