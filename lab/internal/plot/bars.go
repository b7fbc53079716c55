// Package plot draws figures as SVG: bars that lie, and lines.
package plot

import (
	"fmt"
	"html"
	"strings"

	"github.com/sluicehq/sluice/internal/figures"
)

// Bars is a picture of bars that lie, a row for each of what is compared.
type Bars struct {
	Title, Below string
	Series       []string // what the bars of a row are, or the parts of its only bar
	Stacked      bool
	Rows         []Row
}

// Row has the bars of one that is compared.
type Row struct {
	Label string
	Own   bool        // Sluice, which has colours of its own
	Bars  [][]float64 // each a list of parts, from the left
}

// The colours have the same lightness, for everybody's eyes, and the page's own, light
// or dark, is painted, since a picture does not know it.
const style = `<style>
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
	width      = 860
	labelWidth = 190
	barSpace   = width - labelWidth - 90 // the rest is for figures
	barHeight  = 13
)

// SVG draws the picture.
func (c *Bars) SVG() string {
	most := 0.0
	bars := 0
	for _, row := range c.Rows {
		bars += len(row.Bars)
		for _, parts := range row.Bars {
			most = max(most, sum(parts))
		}
	}
	height := 74 + bars*(barHeight+2) + len(c.Rows)*10 + 26
	b := newCanvas(c.Title, "", height)
	x := labelWidth
	for i, name := range c.Series {
		for j, prefix := range []string{"", "own-"} {
			b.shape(`<rect x="%d" y="42" width="12" height="12" class="%s%c"/>`, x+14*j, prefix, 'a'+i)
		}
		b.text(x+32, 53, "", "start", name)
		x += 56 + 7*len(name)
	}
	y := 74
	b.shape(`<line class="axis" x1="%d" y1="%d" x2="%d" y2="%d"/>`, labelWidth, y-6, labelWidth, height-26)
	for _, row := range c.Rows {
		class, prefix := "", ""
		if row.Own {
			class, prefix = "own", "own-"
		}
		b.text(labelWidth-10, y+len(row.Bars)*(barHeight+2)/2+4, class, "end", row.Label)
		for i, parts := range row.Bars {
			x := float64(labelWidth)
			for j, value := range parts {
				long := value / max(most, 1e-9) * barSpace
				kind := 'a' + i
				if c.Stacked {
					kind = 'a' + j
				}
				b.shape(`<rect x="%.1f" y="%d" width="%.1f" height="%d" class="%s%c"/>`, x, y, long, barHeight, prefix, kind)
				x += long
			}
			b.text(int(x)+6, y+barHeight-2, class, "start", figures.Short(sum(parts)))
			y += barHeight + 2
		}
		y += 10
	}
	return b.end(c.Below)
}

func sum(parts []float64) (total float64) {
	for _, p := range parts {
		total += p
	}
	return total
}

// canvas is a picture that is being drawn.
type canvas struct {
	strings.Builder
	height int
}

func newCanvas(title, moreStyle string, height int) *canvas {
	c := &canvas{height: height}
	c.shape(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`,
		width, height, width, height)
	c.shape("<title>%s</title>", html.EscapeString(title))
	c.WriteString(strings.Replace(style, "@media", moreStyle+"@media", 1))
	c.shape(`<rect class="page" width="%d" height="%d" rx="6"/>`, width, height)
	c.text(16, 28, "title", "start", title)
	return c
}

func (c *canvas) shape(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

func (c *canvas) text(x, y int, class, anchor, text string) {
	c.shape(`<text x="%d" y="%d" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(text))
}

func (c *canvas) end(below string) string {
	c.text(16, c.height-12, "faint", "start", below)
	c.WriteString("</svg>\n")
	return c.String()
}
