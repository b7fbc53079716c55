package plot

import (
	"fmt"
	"math"
	"strings"

	"github.com/sluicehq/sluice/internal/figures"
)

// Lines is a picture of lines over an axis of numbers.
type Lines struct {
	Title, Below string
	X, Y         string // what the axes count
	LogX, LogY   bool
	Lines        []Line
}

// Line has its points from left to right.
type Line struct {
	Name   string
	Own    bool // Sluice, which has colours of its own
	Points [][2]float64
}

// lineStyle: lines differ by dashes as well, for eyes that see no colours.
const lineStyle = `path { fill: none; stroke-width: 2 } .grid { stroke: #d1d9e0; stroke-dasharray: 2 4 }
	.l-a { stroke: #59636e } .l-b { stroke: #c8a468; stroke-dasharray: 7 3 } .l-c { stroke: #b6bfc9 }
	.l-own-a { stroke: #0a69da } .l-own-b { stroke: #6639ba; stroke-dasharray: 7 3 }
	.l-own-c { stroke: #1a7f37; stroke-dasharray: 2 2 }
	@media (prefers-color-scheme: dark) {
		.grid { stroke: #3d444d } .l-a { stroke: #9198a1 } .l-b { stroke: #9a7434 } .l-c { stroke: #5d656f }
		.l-own-a { stroke: #4493f8 } .l-own-b { stroke: #ab7df8 } .l-own-c { stroke: #3fb950 }
	}
	`

// Where the lines are.
const (
	left, right, top, bottom = 70, width - 24, 74, 374
	lineHeight               = bottom + 68
)

// SVG draws the picture.
func (c *Lines) SVG() string {
	b := newCanvas(c.Title, lineStyle, lineHeight)
	x, y := axis{log: c.LogX, from: left, to: right}, axis{log: c.LogY, from: bottom, to: top}
	for _, line := range c.Lines {
		for _, p := range line.Points {
			x.include(p[0])
			y.include(p[1])
		}
	}
	for _, at := range y.ticks() {
		b.shape(`<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, y.place(at), right, y.place(at))
		b.text(left-8, int(y.place(at))+4, "faint", "end", figures.Short(at))
	}
	for _, at := range x.ticks() {
		b.shape(`<line class="axis" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x.place(at), bottom, x.place(at), bottom+5)
		b.text(int(x.place(at)), bottom+19, "faint", "middle", figures.Short(at))
	}
	b.shape(`<line class="axis" x1="%d" y1="%d" x2="%d" y2="%d"/>`, left, bottom, right, bottom)
	b.text(left, top-8, "faint", "end", c.Y)
	b.text(right, bottom+35, "faint", "end", c.X)
	at, others, own := left+20, 'a', 'a'
	for _, line := range c.Lines {
		class := "l-" + string(others)
		if line.Own {
			class = "l-own-" + string(own)
			own++
		} else {
			others++
		}
		var path strings.Builder
		for i, p := range line.Points {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], x.place(p[0]), y.place(p[1]))
		}
		b.shape(`<path class="%s" d="%s"/>`, class, path.String())
		b.shape(`<path class="%s" d="M%d 48h24"/>`, class, at)
		b.text(at+30, 53, "", "start", line.Name)
		at += 54 + 7*len(line.Name)
	}
	return b.end(c.Below)
}

// axis places numbers; of a linear one the first is 0.
type axis struct {
	log      bool
	from, to float64 // on the page
	low, top float64 // numbers; 0 while there are none
}

func (a *axis) include(n float64) {
	if a.log && n > 0 && (a.low == 0 || n < a.low) {
		a.low = n
	}
	a.top = max(a.top, n)
}

func (a *axis) place(n float64) float64 {
	share := n / max(a.top, 1e-9)
	if a.log {
		share = math.Log(max(n, a.low)/a.low) / max(math.Log(a.top/a.low), 1e-9)
	}
	return a.from + share*(a.to-a.from)
}

// ticks are round numbers within the axis.
func (a *axis) ticks() (all []float64) {
	if a.top <= 0 {
		return nil
	}
	if !a.log {
		ten := math.Pow(10, math.Floor(math.Log10(a.top/6)))
		for _, step := range []float64{ten, 2 * ten, 5 * ten, 10 * ten} {
			if a.top/step <= 6 {
				for n := 0.0; n <= a.top; n += step {
					all = append(all, n)
				}
				break
			}
		}
		return all
	}
	for ten := math.Pow(10, math.Floor(math.Log10(a.low))); ten <= a.top; ten *= 10 {
		for _, n := range []float64{ten, 2 * ten, 5 * ten} {
			if n >= a.low && n <= a.top {
				all = append(all, n)
			}
		}
	}
	return all
}
