// Package picture makes what buyers are shown of the pictures that merchants upload: two JPEGs
// of known sizes, upright, without the metadata of the original (a phone writes down where its
// owner lives). Make computes all pixels anew, so no server serves a byte of an uploaded file.
package picture

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	_ "image/png" // a format that is read
	"io"
	"iter"
	"math"
	"slices"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // a format that is read

	"github.com/sluicehq/sluice"
)

// Bounds of a file. A small file may say that it has a billion pixels: what it says is
// judged before any of them takes memory.
const (
	MaxBytes  = 10 << 20
	maxPixels = 24_000_000 // the cameras of most phones
	// maxHeavy is for files of which a decoder keeps more than four bytes a pixel: progressive JPEGs
	// (their coefficients, up to sixteen) and PNGs with 16 bits a colour.
	maxHeavy = 8_000_000
	minSide  = 64
	maxSide  = 12_000
)

// maxEncoded fits, with every byte escaped, into the smallest packet that a database may be
// configured for, of 1 MiB.
const maxEncoded = 440 << 10

// Make reads a JPEG, PNG or WebP. The error says what is wrong with it and what would be right.
func Make(file []byte) (sluice.Picture, error) {
	if len(file) > MaxBytes {
		return sluice.Picture{}, fmt.Errorf("the picture has %d bytes: want at most %d", len(file), MaxBytes)
	}
	head, format, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return sluice.Picture{}, errors.New("this is no picture that can be read: want JPEG, PNG or WebP")
	}
	most, kind := maxPixels, format
	if heavy(file, head.ColorModel) {
		most, kind = maxHeavy, "progressive JPEG or PNG of 16 bits"
	}
	if w, h := head.Width, head.Height; w < minSide || h < minSide || w > maxSide || h > maxSide || w*h > most {
		return sluice.Picture{}, fmt.Errorf("the picture has %d × %d pixels: want sides of %d to %d, and at most %d million "+
			"in all for a %s", w, h, minSide, maxSide, most/1_000_000, kind)
	}
	original, _, err := image.Decode(bytes.NewReader(file))
	if err == nil && format == "jpeg" && cutOff(file) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return sluice.Picture{}, fmt.Errorf("the %s cannot be read: %w", format, err)
	}
	large := turned(within(original, sluice.LargePicture), orientation(file))
	p := sluice.Picture{Large: encoded(large), Small: encoded(within(large, sluice.SmallPicture))}
	sum := sha256.Sum256(p.Large)
	p.ID = hex.EncodeToString(sum[:16])
	return p, nil
}

// within returns the picture on white, with its longer side of at most so many pixels. It is halved
// as often as possible, each pixel the mean of four, so that nothing is skipped and no memory is
// needed beside the two pictures.
func within(original image.Image, side int) *image.RGBA {
	for longer(original) >= 2*side {
		original = scaled(original, 0.5)
	}
	return scaled(original, min(1, float64(side)/float64(longer(original))))
}

func longer(img image.Image) int { return max(img.Bounds().Dx(), img.Bounds().Dy()) }

func scaled(original image.Image, by float64) *image.RGBA {
	b := original.Bounds()
	out := image.NewRGBA(image.Rect(0, 0, scale(b.Dx(), by), scale(b.Dy(), by)))
	draw.Draw(out, out.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.ApproxBiLinear.Scale(out, out.Bounds(), original, b, draw.Over, nil)
	return out
}

func scale(n int, by float64) int { return max(1, int(math.Round(float64(n)*by))) }

// encoded is a JPEG as good as fits.
func encoded(img image.Image) []byte {
	for quality := 84; ; quality -= 14 {
		var b bytes.Buffer
		if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: quality}); err != nil {
			panic(err) // of a buffer
		}
		if b.Len() <= maxEncoded || quality < 30 {
			return b.Bytes()
		}
	}
}

// turned is a picture as its camera was held: orientation is Exif's, 1 to 8.
func turned(img *image.RGBA, orientation uint16) *image.RGBA {
	if orientation < 2 || orientation > 8 {
		return img
	}
	w, h := img.Rect.Dx(), img.Rect.Dy()
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	if orientation >= 5 { // lying on its side
		out = image.NewRGBA(image.Rect(0, 0, h, w))
	}
	for y := range h {
		for x := range w {
			tx, ty := x, y
			switch orientation {
			case 2:
				tx = w - 1 - x
			case 3:
				tx, ty = w-1-x, h-1-y
			case 4:
				ty = h - 1 - y
			case 5:
				tx, ty = y, x
			case 6:
				tx, ty = h-1-y, x
			case 7:
				tx, ty = h-1-y, w-1-x
			case 8:
				tx, ty = y, w-1-x
			}
			out.SetRGBA(tx, ty, img.RGBAAt(x, y))
		}
	}
	return out
}

// heavy reports whether a decoder needs much memory for each pixel of a file.
func heavy(file []byte, model color.Model) bool {
	const progressive = 0xFFC2
	for marker := range segments(file) {
		if marker == progressive {
			return true
		}
	}
	return slices.Contains([]color.Model{color.NRGBA64Model, color.RGBA64Model, color.Gray16Model, color.CMYKModel}, model)
}

// cutOff reports whether a JPEG has no end after its last scan. Its decoder takes a progressive one for
// whole, though scans are missing. Neither marker can be among the pixels: a zero follows every 0xFF there.
func cutOff(file []byte) bool {
	scan, end := bytes.LastIndex(file, []byte{0xFF, 0xDA}), bytes.LastIndex(file, []byte{0xFF, 0xD9})
	return end < scan
}

// orientation is what the Exif block of a file says, or 0.
func orientation(file []byte) uint16 {
	const app1, mark = 0xFFE1, "Exif\x00\x00"
	for marker, content := range segments(file) {
		if exif, ok := bytes.CutPrefix(content, []byte(mark)); ok && marker == app1 {
			return orientationOf(exif)
		}
	}
	for name, content := range chunks(file) {
		if name == "eXIf" || name == "EXIF" {
			return orientationOf(bytes.TrimPrefix(content, []byte(mark)))
		}
	}
	return 0
}

// chunks yields those of a PNG: a length, a name, the content and a checksum; and of a WebP: a name, a length,
// and the content up to an even place.
func chunks(file []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		rest, png := bytes.CutPrefix(file, []byte("\x89PNG\r\n\x1a\n"))
		if !png {
			if len(file) < 12 || string(file[8:12]) != "WEBP" {
				return
			}
			rest = file[12:]
		}
		for len(rest) >= 8 {
			name, length := rest[:4], int(binary.LittleEndian.Uint32(rest[4:]))
			behind := length % 2
			if png {
				name, length, behind = rest[4:8], int(binary.BigEndian.Uint32(rest)), 4
			}
			if length > len(rest)-8 || !yield(string(name), rest[8:8+length]) {
				return
			}
			rest = rest[min(8+length+behind, len(rest)):]
		}
	}
}

// segments yields those of a JPEG before its pixels. They stand one after the other: a marker of two
// bytes, a length that counts itself, and the content.
func segments(file []byte) iter.Seq2[uint16, []byte] {
	const start, scan = 0xFFD8, 0xFFDA
	return func(yield func(uint16, []byte) bool) {
		if len(file) < 2 || binary.BigEndian.Uint16(file) != start {
			return
		}
		for rest := file[2:]; len(rest) >= 4; {
			marker, length := binary.BigEndian.Uint16(rest), int(binary.BigEndian.Uint16(rest[2:]))
			if marker == scan || length < 2 || 2+length > len(rest) || !yield(marker, rest[4:2+length]) {
				return
			}
			rest = rest[2+length:]
		}
	}
}

// orientationOf reads Exif's block: a byte order, 42, where the first directory is; there a
// count, and entries of 12 bytes, of which the tag is the first two, and a short value the ninth
// and tenth.
func orientationOf(exif []byte) uint16 {
	const tag = 0x0112
	var order binary.ByteOrder = binary.BigEndian
	if bytes.HasPrefix(exif, []byte("II")) {
		order = binary.LittleEndian
	}
	if len(exif) < 8 {
		return 0
	}
	at := uint64(order.Uint32(exif[4:]))
	if at+2 > uint64(len(exif)) {
		return 0
	}
	entries := exif[at+2:]
	for range order.Uint16(exif[at:]) {
		if len(entries) < 12 {
			return 0
		}
		if order.Uint16(entries) == tag {
			return order.Uint16(entries[8:])
		}
		entries = entries[12:]
	}
	return 0
}
