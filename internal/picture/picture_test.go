package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
)

// corners is a picture whose upper left quarter is red, upper right green, lower left blue.
func corners(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.RGBA{A: 255}
			switch {
			case x < w/2 && y < h/2:
				c.R = 255
			case y < h/2:
				c.G = 255
			case x < w/2:
				c.B = 255
			}
			img.SetRGBA(x, y, c)
		}
	}
	return img
}

func jpegOf(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Succeed(t, jpeg.Encode(&b, img, nil))
	return b.Bytes()
}

// turnedChunk returns the orientation that Make reads in a chunk named so of a PNG or a WebP.
func turnedChunk(t *testing.T, file []byte, at int, name string, turn uint16) uint16 {
	t.Helper()
	exif := held(t, []byte("\xFF\xD8"), turn, binary.BigEndian, "MM")[12:] // without marker, length and "Exif"
	length := uint32(len(exif))
	var chunk []byte
	if name == "EXIF" {
		chunk = append(binary.LittleEndian.AppendUint32([]byte(name), length), exif...)
	} else {
		chunk = append(binary.BigEndian.AppendUint32(nil, length), name...)
		chunk = append(append(chunk, exif...), 0, 0, 0, 0)
	}
	return orientation(bytes.Join([][]byte{file[:at], chunk, file[at:]}, nil))
}

// held returns a JPEG whose Exif says how the camera was held, and where it was.
func held(t *testing.T, file []byte, orientation uint16, order binary.AppendByteOrder, mark string) []byte {
	t.Helper()
	exif := []byte("Exif\x00\x00" + mark)
	exif = order.AppendUint16(exif, 42)
	exif = order.AppendUint32(exif, 8)
	exif = order.AppendUint16(exif, 2)
	for _, entry := range [][2]uint16{{0x010F, 7}, {0x0112, orientation}} {
		exif = order.AppendUint16(exif, entry[0])
		exif = order.AppendUint16(exif, 3)
		exif = order.AppendUint32(exif, 1)
		exif = order.AppendUint16(exif, entry[1])
		exif = order.AppendUint16(exif, 0)
	}
	exif = append(exif, "where I live"...)
	segment := binary.BigEndian.AppendUint16([]byte{0xFF, 0xE1}, uint16(len(exif)+2))
	return bytes.Join([][]byte{file[:2], segment, exif, file[2:]}, nil)
}

func decoded(t *testing.T, file []byte) image.Image {
	t.Helper()
	img, format, err := image.Decode(bytes.NewReader(file))
	if err != nil || format != "jpeg" {
		t.Fatalf("%s, %v", format, err)
	}
	return img
}

// looks names the colours of a picture's four quarters, from the upper left one on.
func looks(img image.Image) (all string) {
	b := img.Bounds()
	for _, at := range []image.Point{{1, 1}, {3, 1}, {1, 3}, {3, 3}} {
		r, g, bl, _ := img.At(at.X*b.Dx()/4, at.Y*b.Dy()/4).RGBA()
		switch {
		case r > 0x8000 && g > 0x8000 && bl > 0x8000:
			all += "w"
		case r > 0x8000:
			all += "r"
		case g > 0x8000:
			all += "g"
		case bl > 0x8000:
			all += "b"
		default:
			all += "-"
		}
	}
	return all
}

func TestMake(t *testing.T) {
	p := must.Get(Make(held(t, jpegOf(t, corners(3000, 2000)), 1, binary.BigEndian, "MM")))(t)
	large, small := decoded(t, p.Large).Bounds(), decoded(t, p.Small).Bounds()
	if large.Dx() != sluice.LargePicture || large.Dy() != 853 || small.Dx() != sluice.SmallPicture || small.Dy() != 427 {
		t.Errorf("sizes %v, %v", large, small)
	}
	if !sluice.PictureID(p.ID) {
		t.Errorf("id %q", p.ID)
	}
	if bytes.Contains(p.Large, []byte("where I live")) || bytes.Contains(p.Large, []byte("Exif")) {
		t.Error("the metadata is still there")
	}
	if again := must.Get(Make(jpegOf(t, corners(3000, 2000))))(t); again.ID != p.ID {
		t.Error("the same pixels have another id")
	}
	if low := must.Get(Make(jpegOf(t, corners(100, 300))))(t); decoded(t, low.Large).Bounds().Dx() != 100 {
		t.Error("a small picture was enlarged")
	}
}

// A PNG or a WebP has its Exif in a chunk.
func TestOrientationInAChunk(t *testing.T) {
	var file bytes.Buffer
	must.Succeed(t, png.Encode(&file, corners(200, 120)))
	if got := turnedChunk(t, file.Bytes(), 33, "eXIf", 6); got != 6 { // behind the head
		t.Errorf("PNG: %d", got)
	}
	webp := []byte("RIFF\x00\x00\x00\x00WEBPVP8X\x03\x00\x00\x00abc\x00")
	if got := turnedChunk(t, webp, len(webp), "EXIF", 8); got != 8 { // behind a chunk of odd length
		t.Errorf("WebP: %d", got)
	}
}

// A progressive JPEG that ends between its scans would be sold as a blur.
func TestCutOff(t *testing.T) {
	whole := jpegOf(t, corners(200, 120))
	if cutOff(whole) || !cutOff(whole[:len(whole)-2]) {
		t.Errorf("whole: %v, without its end: %v", cutOff(whole), cutOff(whole[:len(whole)-2]))
	}
}

// TestOrientations: a camera that was held in any of eight ways shows the same scene.
func TestOrientations(t *testing.T) {
	want := map[uint16]string{
		0: "rgb-", 1: "rgb-", 2: "gr-b", 3: "-bgr", 4: "b-rg", 5: "rbg-", 6: "br-g", 7: "-gbr", 8: "g-rb", 9: "rgb-",
	}
	file := jpegOf(t, corners(200, 120))
	for orientation, looked := range want {
		for mark, order := range map[string]binary.AppendByteOrder{"II": binary.LittleEndian, "MM": binary.BigEndian} {
			p := must.Get(Make(held(t, file, orientation, order, mark)))(t)
			img := decoded(t, p.Large)
			if got := looks(img); got != looked {
				t.Errorf("orientation %d, %s: %s, want %s", orientation, mark, got, looked)
			}
			if lying := img.Bounds().Dx() == 120; lying != (orientation >= 5 && orientation <= 8) {
				t.Errorf("orientation %d: %v", orientation, img.Bounds())
			}
		}
	}
}

// TestTransparent: what shows through is white, not black.
func TestTransparent(t *testing.T) {
	img := corners(200, 200)
	for y := 100; y < 200; y++ {
		for x := 100; x < 200; x++ {
			img.SetRGBA(x, y, color.RGBA{})
		}
	}
	var b bytes.Buffer
	must.Succeed(t, png.Encode(&b, img))
	if got := looks(decoded(t, must.Get(Make(b.Bytes()))(t).Large)); got != "rgbw" {
		t.Error(got)
	}
}

// TestWrong: what is no picture, or says that it is a huge one, costs nothing and is named.
func TestWrong(t *testing.T) {
	huge := jpegOf(t, corners(64, 64))
	at := bytes.Index(huge, []byte{0xFF, 0xC0}) // the frame's header: precision, height, width
	binary.BigEndian.PutUint16(huge[at+5:], 60_000)
	binary.BigEndian.PutUint16(huge[at+7:], 60_000)
	progressive := bytes.Replace(huge, []byte{0xFF, 0xC0}, []byte{0xFF, 0xC2}, 1)
	binary.BigEndian.PutUint16(progressive[at+5:], 3000)
	binary.BigEndian.PutUint16(progressive[at+7:], 3000)
	var deep bytes.Buffer
	must.Succeed(t, png.Encode(&deep, image.NewGray16(image.Rect(0, 0, 3000, 3000))))
	for _, c := range []struct {
		name, want string
		file       []byte
	}{
		{"a progressive one", "3000 × 3000 pixels: want sides of 64 to 12000, and at most 8 million", progressive},
		{"one of 16 bits", "at most 8 million in all", deep.Bytes()},
		{"text", "want JPEG, PNG or WebP", []byte("no picture")},
		{"nothing", "want JPEG, PNG or WebP", nil},
		{"a huge one", "60000 × 60000 pixels: want sides of 64 to 12000", huge},
		{"a tiny one", "63 × 64 pixels", jpegOf(t, corners(63, 64))},
		{"a file that is too long", "want at most 10485760", make([]byte, MaxBytes+1)},
		{"half a picture", "the jpeg cannot be read", jpegOf(t, corners(200, 200))[:700]},
	} {
		if _, err := Make(c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// FuzzMake: no file breaks it.
func FuzzMake(f *testing.F) {
	var b bytes.Buffer
	_ = jpeg.Encode(&b, corners(64, 64), nil)
	f.Add(b.Bytes())
	f.Add([]byte("\xFF\xD8\xFF\xE1\x00\x10Exif\x00\x00MM\x00\x2A\xFF\xFF\xFF\xFF"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if p, err := Make(file); err == nil && (len(p.Small) == 0 || len(p.Large) > maxEncoded || !sluice.PictureID(p.ID)) {
			t.Errorf("%d and %d bytes, id %q", len(p.Small), len(p.Large), p.ID)
		}
	})
}
