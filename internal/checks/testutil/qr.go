package testutil

import (
	"image"
	"image/color"
	"strings"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
)

// ReadQR returns the text of a QR code that lines of half blocks show, as a camera reads it. The
// colours of the terminal are black on white for lines that set them, and white on black for others.
func ReadQR(t *testing.T, lines []string) string {
	t.Helper()
	const zoom, border = 5, 4
	ink, background := color.Gray{255}, color.Gray{0}
	if strings.HasPrefix(lines[0], "\x1b[") {
		ink, background = background, ink
	}
	picture := image.NewGray(image.Rect(0, 0, 120*zoom, 120*zoom))
	for i := range picture.Pix {
		picture.Pix[i] = background.Y
	}
	for y, line := range lines {
		x := border
		for _, block := range line {
			if !strings.ContainsRune(" ▀▄█", block) { // a sequence that sets colours
				continue
			}
			for i := range 2 * zoom * zoom {
				if isLow := i >= zoom*zoom; block == '█' || block == '▄' && isLow || block == '▀' && !isLow {
					picture.SetGray(x*zoom+i%zoom, (2*y+border)*zoom+i/zoom, ink)
				}
			}
			x++
		}
	}
	bitmap, err := gozxing.NewBinaryBitmapFromImage(picture)
	if err != nil {
		t.Fatal(err)
	}
	got, err := qrcode.NewQRCodeReader().Decode(bitmap, nil)
	if err != nil {
		t.Fatalf("no QR code: %v\n%s", err, strings.Join(lines, ""))
	}
	return got.GetText()
}
