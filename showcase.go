package sluice

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Showcase is how a sale is shown to buyers. No decision depends on it. Two of them
// can be compared. The zero value shows the title alone.
type Showcase struct {
	// Description says what is sold, in Markdown: paragraphs, headings, lists, emphasis and
	// links. At most MaxDescription bytes.
	Description string `json:"description,omitempty"`
	// Titles and Descriptions take the place of Title and Description for readers of a language.
	Titles       Texts    `json:"titles,omitzero"`
	Descriptions Texts    `json:"descriptions,omitzero"`
	Badge        string   `json:"badge,omitempty"` // a few words beside the state: "Limited edition"
	Pictures     Pictures `json:"pictures,omitzero"`
}

// Texts is a text in the languages of the pages. Readers of a language without one get
// the text that the sale has for all.
type Texts struct {
	EN string `json:"en,omitempty"`
	ZH string `json:"zh,omitempty"`
}

// Bounds of a Showcase.
const (
	MaxPictures    = 8
	MaxDescription = 4000 // bytes
	maxBadge       = 48   // bytes
	maxPictureURL  = 512  // bytes
)

// Pictures names up to MaxPictures pictures, the most important one first: a picture that was
// uploaded by its id, any other one by its https address. It is their names, separated by
// spaces, so that it can be compared; JSON has a list.
type Pictures string

// PicturesOf joins names.
func PicturesOf(names ...string) Pictures { return Pictures(strings.Join(names, " ")) }

// Names returns the pictures' ids and addresses, in order.
func (p Pictures) Names() []string { return strings.Fields(string(p)) }

// MarshalJSON returns a list of names.
func (p Pictures) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]string{}, p.Names()...))
}

// UnmarshalJSON reads a list of names. What is wrong with them, Sale.Validate says.
func (p *Pictures) UnmarshalJSON(text []byte) error {
	var names []string
	if err := json.Unmarshal(text, &names); err != nil {
		return errors.New("pictures: want a list of ids and https addresses")
	}
	for _, name := range names {
		if len(strings.Fields(name)) != 1 {
			return fmt.Errorf("pictures: %q: want the id of a picture, or an https address", shorten(name))
		}
	}
	*p = PicturesOf(names...)
	return nil
}

// PictureID reports whether a picture's name is the id of one that was uploaded: 32
// hexadecimal digits, made from what is in it.
func PictureID(name string) bool {
	return len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

// Picture is a picture that was uploaded, as the server has made it: two JPEGs, upright and
// without metadata, of which no side is longer than SmallPicture and LargePicture.
type Picture struct {
	ID           string
	Small, Large []byte
}

// Pixels of a picture's longer side.
const (
	SmallPicture = 640
	LargePicture = 1280
)

// ErrNoPicture: the sale has no such picture.
var ErrNoPicture = errors.New("the sale has no such picture")

func (s *Showcase) validate() error {
	for _, text := range []struct{ name, value string }{{"titles.en", s.Titles.EN}, {"titles.zh", s.Titles.ZH}} {
		if err := validateLine(text.name, text.value, 256); err != nil {
			return err
		}
	}
	for _, text := range []struct{ name, value string }{
		{"description", s.Description}, {"descriptions.en", s.Descriptions.EN}, {"descriptions.zh", s.Descriptions.ZH},
	} {
		if len(text.value) > MaxDescription || !utf8.ValidString(text.value) {
			return fmt.Errorf("%s: want at most %d bytes of UTF-8", text.name, MaxDescription)
		}
		if strings.ContainsFunc(text.value, unprintable) {
			return fmt.Errorf("%s: want no control characters but line feeds and tabs", text.name)
		}
	}
	if err := validateLine("badge", s.Badge, maxBadge); err != nil {
		return err
	}
	return s.Pictures.validate()
}

// unprintable reports whether a text of several lines has no use for a character.
func unprintable(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) }

// validateLine wants nothing, or a line of text.
func validateLine(name, value string, most int) error {
	if len(value) > most || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return fmt.Errorf("%s: want at most %d bytes of UTF-8 without control characters", name, most)
	}
	if value != "" && !strings.ContainsFunc(value, visible) || strings.ContainsFunc(value, turns) {
		return fmt.Errorf("%s: want characters that can be seen, and none that change the direction of others", name)
	}
	return nil
}

// visible reports whether a character can be seen.
func visible(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// turns reports whether a character changes the direction of those around it, so that a text looks like
// another one.
func turns(r rune) bool { return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 }

func (p Pictures) validate() error {
	names := p.Names()
	if len(names) > MaxPictures {
		return fmt.Errorf("pictures: %d of them: want %d or fewer", len(names), MaxPictures)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("pictures: %s is there twice", shorten(name))
		}
		if PictureID(name) {
			continue
		}
		u, err := url.Parse(name)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(name) > maxPictureURL {
			return fmt.Errorf("pictures: %q: want the id of a picture that was uploaded, or an https address of at most %d "+
				"bytes", shorten(name), maxPictureURL)
		}
	}
	return nil
}
