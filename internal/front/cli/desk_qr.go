package cli

import (
	"image/color"
	"io"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// margin is how many light modules a QR code has around it.
const margin = 4

// drawQR returns lines that show a text as a QR code, two rows of modules in each. With colours it is
// black on white on every terminal. Without them it is right on a terminal with a dark
// background, and other readers have to take the inverted one.
func drawQR(text string, colours bool) ([]string, error) {
	code, err := qr.Encode(text, qr.L, qr.Auto)
	if err != nil {
		return nil, err
	}
	size := code.Bounds().Dx()
	isInk := func(x, y int) bool {
		inside := 0 <= min(x, y) && max(x, y) < size
		isDark := inside && code.At(x, y) == color.Black
		return isDark == colours
	}
	blocks := map[[2]bool]string{{}: " ", {true}: "▀", {false, true}: "▄", {true, true}: "█"}
	var lines []string
	for y := -margin; y < size+margin; y += 2 {
		var line strings.Builder
		for x := -margin; x < size+margin; x++ {
			line.WriteString(blocks[[2]bool{isInk(x, y), isInk(x, y+1)}])
		}
		if colours {
			lines = append(lines, "\x1b[38;5;16;48;5;231m"+line.String()+"\x1b[0m\n")
		} else {
			lines = append(lines, line.String()+"\n")
		}
	}
	return lines, nil
}

// showQR shows a text as a QR code, if there is a terminal with room for it.
func showQR(s screen, text string) error {
	if s.file == nil {
		return nil
	}
	lines, err := drawQR(text, !s.plain)
	if err != nil { // the address is longer than any code
		return nil
	}
	if columns, _ := s.size(); columns < 2*len(lines) {
		return nil
	}
	_, err = io.WriteString(s.w, strings.Join(lines, ""))
	return err
}
