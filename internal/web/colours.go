package web

import (
	"fmt"
	"math"
	"strconv"
)

// colours are a shop's accent, as it can be read on the pages' grounds.
type colours struct {
	light, dark         string // the accent
	lightSoft, darkSoft string // a ground for text in the accent
}

// The grounds of pages.css, and what it says of the accent where a shop has none.
var (
	lightGround, lightCard = rgb{0xee, 0xf3, 0xf3}, rgb{0xff, 0xff, 0xff}
	darkGround, darkCard   = rgb{0x0b, 0x13, 0x14}, rgb{0x14, 0x20, 0x22}

	ownColours = colours{light: "#0b6670", dark: "#5fd0d4"}
)

type rgb [3]float64

// readable is the least contrast of text and its ground (WCAG 2 AA).
const readable = 4.5

// coloursOf makes an accent darker until it can be read on light grounds, and lighter for dark ones.
// Buttons have white letters on it in the light, and black ones in the dark.
func coloursOf(accent string) (colours, error) {
	if accent == "" {
		return ownColours, nil
	}
	n, err := strconv.ParseUint(accent[1:], 16, 32)
	if err != nil || len(accent) != 7 || accent[0] != '#' {
		return colours{}, fmt.Errorf("%q: want a colour like #d6001c", accent)
	}
	c := rgb{float64(n >> 16), float64(n >> 8 & 0xff), float64(n & 0xff)}
	light, lightSoft := readableOn(c, rgb{}, lightGround, lightCard)
	dark, darkSoft := readableOn(c, rgb{255, 255, 255}, darkGround, darkCard)
	return colours{light.String(), dark.String(), lightSoft.String(), darkSoft.String()}, nil
}

// readableOn mixes an accent with what makes it stand out, as little as it needs.
func readableOn(accent, out, ground, card rgb) (c, soft rgb) {
	for part := 0.0; ; part += 0.02 {
		c = mix(accent, out, part)
		soft = mix(card, c, 0.12)
		if part >= 1 || min(contrast(c, ground), contrast(c, card), contrast(c, soft)) >= readable {
			return c, soft
		}
	}
}

func mix(a, b rgb, part float64) rgb {
	for i := range a {
		a[i] += (b[i] - a[i]) * part
	}
	return a
}

// contrast is WCAG's, 1 to 21.
func contrast(a, b rgb) float64 {
	l, m := a.luminance(), b.luminance()
	return (max(l, m) + 0.05) / (min(l, m) + 0.05)
}

func (c rgb) luminance() float64 {
	var parts rgb
	for i, v := range c {
		if v /= 255; v <= 0.04045 {
			parts[i] = v / 12.92
		} else {
			parts[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*parts[0] + 0.7152*parts[1] + 0.0722*parts[2]
}

func (c rgb) String() string {
	return fmt.Sprintf("#%02x%02x%02x", int(math.Round(c[0])), int(math.Round(c[1])), int(math.Round(c[2])))
}

// css is what pages.css says of the accent, said again.
func (c *colours) css() string {
	if *c == ownColours {
		return ""
	}
	return fmt.Sprintf(":root, :host { --accent: %s; }\n:root { --on-accent: #ffffff; --accent-soft: %s; }\n"+
		"@media (prefers-color-scheme: dark) { :root, :host([data-dark-too]) { --accent: %s; }\n"+
		":root { --on-accent: %s; --accent-soft: %s; } }\n", c.light, c.lightSoft, c.dark, darkGround, c.darkSoft)
}
