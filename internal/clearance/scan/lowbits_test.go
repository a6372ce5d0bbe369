package scan

import (
	"bytes"
	"context"
	be "encoding/binary"
	"image"
	"image/color"
	jpegs "image/jpeg"
	pngs "image/png"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const pictureWidth, pictureHeight = 180, 120

// pictures are kinds of ordinary pictures, as values from 0 to 255 for each colour.
var pictures = []struct {
	name string
	draw func(r *rand.Rand) *image.NRGBA
}{
	{"photo", func(r *rand.Rand) *image.NRGBA { return landscape(r, 1+4*r.Float64()) }},
	{"photo at night", func(r *rand.Rand) *image.NRGBA {
		return each(landscape(r, 1), func(v float64) float64 { return v/8 + 1.5*r.NormFloat64() })
	}},
	{"photo with strong noise", func(r *rand.Rand) *image.NRGBA { return landscape(r, 20) }},
	{"photo that was a JPEG file", func(r *rand.Rand) *image.NRGBA {
		var b bytes.Buffer
		jpegs.Encode(&b, landscape(r, 3), &jpegs.Options{Quality: 50 + r.IntN(50)})
		m, _ := jpegs.Decode(&b)
		return whole(func(x, y int) color.Color { return m.At(x, y) })
	}},
	{"photo with more contrast", func(r *rand.Rand) *image.NRGBA {
		more := 1.1 + r.Float64()
		return each(landscape(r, 2), func(v float64) float64 { return (v-128)*more + 128 })
	}},
	{"enlarged photo", func(r *rand.Rand) *image.NRGBA {
		m := landscape(r, 3)
		return whole(func(x, y int) color.Color {
			a, b := m.NRGBAAt(x/2, y/2), m.NRGBAAt((x+1)/2, (y+1)/2)
			return color.NRGBA{byte((int(a.R) + int(b.R)) / 2), byte((int(a.G) + int(b.G)) / 2), byte((int(a.B) + int(b.B)) / 2), 255}
		})
	}},
	{"screen with text", func(r *rand.Rand) *image.NRGBA {
		back, ink, m := byte(255-r.IntN(40)), byte(r.IntN(90)), landscape(r, 0)
		return whole(func(x, y int) color.Color {
			v := back
			switch {
			case y < 12:
				return m.At(x/80*80, 0)
			case y%14 < 9 && x%8 < 6 && r.IntN(3) == 0:
				v = ink + byte(r.IntN(3))*((back-ink)/3) // letters have soft edges
			}
			return color.NRGBA{v, v, v, 255}
		})
	}},
	{"drawing with gradients", func(r *rand.Rand) *image.NRGBA {
		from, width := r.Float64()*100, 20+r.Float64()*130
		return whole(func(x, y int) color.Color {
			v := byte(from + width*float64(x+y/3)/pictureWidth)
			return color.NRGBA{v, 255 - v, byte(y), 255}
		})
	}},
	{"two colours", func(r *rand.Rand) *image.NRGBA {
		m := landscape(r, 300)
		return whole(func(x, y int) color.Color {
			return color.NRGBA{201 * (m.NRGBAAt(x, y).R >> 7), 16 + 235*(m.NRGBAAt(x, y).G>>7), 255 * (m.NRGBAAt(x, y).B >> 7), 255}
		})
	}},
	{"noise", func(r *rand.Rand) *image.NRGBA {
		return whole(func(int, int) color.Color {
			return color.NRGBA{byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256)), 255}
		})
	}},
}

func whole(at func(x, y int) color.Color) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, pictureWidth, pictureHeight))
	for y := range pictureHeight {
		for x := range pictureWidth {
			m.Set(x, y, at(x, y))
		}
	}
	return m
}

func each(m *image.NRGBA, change func(v float64) float64) *image.NRGBA {
	for i := range m.Pix {
		if i%4 != 3 {
			m.Pix[i] = byte(min(255, max(0, math.Round(change(float64(m.Pix[i]))))))
		}
	}
	return m
}

// landscape draws waves of many lengths, with the noise of a camera.
func landscape(r *rand.Rand, noise float64) *image.NRGBA {
	type wave struct{ x, y, at, high float64 }
	var waves []wave
	for i := range 12 {
		long := math.Pow(1.6, float64(i%8)) / 60
		waves = append(waves, wave{r.NormFloat64() * long, r.NormFloat64() * long, 7 * r.Float64(), 25 / (1 + 12*long)})
	}
	tint := [3]float64{0.7 + r.Float64()*0.6, 0.7 + r.Float64()*0.6, 0.7 + r.Float64()*0.6}
	return whole(func(x, y int) color.Color {
		v := 120.0
		for _, w := range waves {
			v += w.high * math.Sin(w.x*float64(x)+w.y*float64(y)+w.at)
		}
		var c [3]byte
		for i := range c {
			c[i] = byte(min(255, max(0, math.Round(v*tint[i]+noise*r.NormFloat64()))))
		}
		return color.NRGBA{c[0], c[1], c[2], 255}
	})
}

func packPNG(t *testing.T, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := (&pngs.Encoder{CompressionLevel: pngs.BestSpeed}).Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// packBMP returns a BMP file, with the last row first as usual.
func packBMP(m *image.NRGBA) []byte {
	b := append([]byte("BM"), make([]byte, 52)...)
	b[10], b[14], b[28] = 54, 40, 24
	be.LittleEndian.PutUint32(b[18:], pictureWidth)
	be.LittleEndian.PutUint32(b[22:], pictureHeight)
	for y := pictureHeight - 1; y >= 0; y-- {
		for x := range pictureWidth {
			c := m.NRGBAAt(x, y)
			b = append(b, c.B, c.G, c.R)
		}
	}
	return b
}

// suspicions returns what the scanner says about hidden data in a picture.
func suspicions(t *testing.T, name string, data []byte) string {
	t.Helper()
	found, err := metadata{}.Scan(context.Background(), of(name, data))
	if err != nil {
		t.Fatal(err)
	}
	found = slices.DeleteFunc(found, func(f Finding) bool { return !strings.Contains(f.What, "lowest bits") })
	if len(found) == 0 {
		return ""
	}
	if found[0].Hold {
		t.Errorf("%s: a suspicion holds the file: %v", name, found[0])
	}
	return found[0].What
}

// hide replaces the lowest bit of the chosen values with bits of random data.
func hide(m *image.NRGBA, r *rand.Rand, chosen func(i int) bool) *image.NRGBA {
	other := image.NewNRGBA(m.Rect)
	copy(other.Pix, m.Pix)
	for i := range other.Pix {
		if i%4 != 3 && chosen(i) {
			other.Pix[i] = other.Pix[i]&^1 | byte(r.IntN(2))
		}
	}
	return other
}

// TestHiddenInPictures hides data in the lowest bits of ordinary pictures, which must be
// found, and scans the pictures as they were.
func TestHiddenInPictures(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	alarms, missed, tries := 0, 0, 0
	for _, p := range pictures {
		for range 20 {
			m := p.draw(r)
			if what := suspicions(t, "a.png", packPNG(t, m)); what != "" {
				t.Logf("a %s without hidden data: %s", p.name, what)
				alarms++
			}
			if p.name == "noise" || p.name == "two colours" || p.name == "photo with strong noise" {
				continue // no tool could tell
			}
			tries++
			half := hide(m, r, func(int) bool { return r.IntN(4) > 0 })
			if suspicions(t, "a.png", packPNG(t, half)) == "" {
				t.Logf("a %s with data in three quarters of its values: nothing", p.name)
				missed++
			}
		}
	}
	if alarms > 2 || missed > tries/10 {
		t.Errorf("%d false alarms for %d pictures, and %d of %d with hidden data not found", alarms, 20*len(pictures), missed, tries)
	}
}

// TestHiddenForms hides data in each form of picture that is examined.
func TestHiddenForms(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	m := pictures[0].draw(r)
	gray := func(m *image.NRGBA) image.Image {
		g := image.NewGray(m.Rect)
		for i := range g.Pix {
			g.Pix[i] = m.Pix[4*i]
		}
		return g
	}
	clear := func(m *image.NRGBA) image.Image {
		c := image.NewNRGBA(m.Rect)
		copy(c.Pix, m.Pix)
		for i := 3; i < len(c.Pix); i += 4 {
			c.Pix[i] = byte(i)
		}
		return c
	}
	forms := []struct {
		name string
		pack func(m *image.NRGBA) []byte
	}{
		{"a.png", func(m *image.NRGBA) []byte { return packPNG(t, m) }},
		{"gray.png", func(m *image.NRGBA) []byte { return packPNG(t, gray(m)) }},
		{"clear.png", func(m *image.NRGBA) []byte { return packPNG(t, clear(m)) }},
		{"interlaced.png", func(m *image.NRGBA) []byte { return interlaced(m) }},
		{"a.bmp", packBMP},
	}
	for _, f := range forms {
		if what := suspicions(t, f.name, f.pack(m)); what != "" {
			t.Errorf("%s: got %q without hidden data", f.name, what)
		}
		if what := suspicions(t, f.name, f.pack(hide(m, r, func(int) bool { return true }))); !regexp.MustCompile(`in about (8\d|9\d|100) %`).MatchString(what) {
			t.Errorf("%s: got %q with data in all values", f.name, what)
		}
		if f.name != "a.png" {
			continue
		}
		first := suspicions(t, f.name, f.pack(hide(m, r, func(i int) bool { return i < 4*pictureWidth*50 })))
		if !strings.Contains(first, "first pixels") && !strings.Contains(first, "in about") {
			t.Errorf("%s: got %q with data in the first rows", f.name, first)
		}
		data := f.pack(hide(m, r, func(int) bool { return true }))
		for cut := range 40 { // cut off, or with a wrong size
			suspicions(t, f.name, data[:len(data)*cut/40])
			data[16+cut%8] ^= byte(1 << (cut % 8))
			suspicions(t, f.name, data)
		}
	}
}

// TestLargeNoise scans a picture that is noise in all bits. In a large one the estimate
// alone would be sure.
func TestLargeNoise(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	m := image.NewGray(image.Rect(0, 0, 1500, 1000))
	for i := range m.Pix {
		m.Pix[i] = byte(r.IntN(256))
	}
	if what := suspicions(t, "a.png", packPNG(t, m)); what != "" {
		t.Errorf("got %q", what)
	}
}

// interlaced returns a PNG picture with Adam7 passes, without filters.
func interlaced(m *image.NRGBA) []byte {
	var rows []byte
	for _, p := range [][4]int{{0, 8, 0, 8}, {4, 8, 0, 8}, {0, 4, 4, 8}, {2, 4, 0, 4}, {0, 2, 2, 4}, {1, 2, 0, 2}, {0, 1, 1, 2}} {
		for y := p[2]; y < pictureHeight; y += p[3] {
			rows = append(rows, 0)
			for x := p[0]; x < pictureWidth; x += p[1] {
				c := m.NRGBAAt(x, y)
				rows = append(rows, c.R, c.G, c.B)
			}
		}
	}
	header := be.BigEndian.AppendUint32(be.BigEndian.AppendUint32(nil, pictureWidth), pictureHeight)
	data := png("IHDR", string(header)+"\x08\x02\x00\x00\x01", "IDAT", deflate(string(rows)))
	return append(slices.Clone(data[:8]), data[8+25:]...) // without png's own header
}
