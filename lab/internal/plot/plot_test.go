package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func contains(t *testing.T, svg string, all ...string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range all {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
}

func TestBarsEscapeAndScale(t *testing.T) {
	c := Bars{Title: "a < b", Series: []string{"one"}, Rows: []Row{
		{Label: "x & y", Bars: [][]float64{{50}}}, {Label: "own", Own: true, Bars: [][]float64{{100}}},
	}}
	contains(t, c.SVG(), "a &lt; b", "x &amp; y", `width="290.0" height="13" class="a"`,
		`width="580.0" height="13" class="own-a"`)
}

func TestLines(t *testing.T) {
	c := Lines{Title: "a < b", Lines: []Line{
		{Name: "bare", Points: [][2]float64{{0, 0}, {50, 2}}}, {Name: "own", Own: true, Points: [][2]float64{{100, 8}}},
	}}
	contains(t, c.SVG(), `class="l-a" d="M70.0 374.0L453.0 299.0"`, `class="l-own-a" d="M836.0 74.0"`,
		">20<", ">8<")
	c.LogX, c.LogY = true, true
	c.Lines[0].Points[0] = [2]float64{1, 0.08}
	contains(t, c.SVG(), `d="M70.0 374.0L720.7 `, ">0.10<", ">5<")
	contains(t, (&Lines{}).SVG()) // a run without figures
}
