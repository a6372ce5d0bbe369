package checks_test

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// TestRecording pastes the first sh block of README.md into a real terminal, approves
// everything that golem asks, and compares the screen with docs/demo.svg. With -update, as
// scripts/record calls it, it writes the file.
func TestRecording(t *testing.T) {
	i := slices.IndexFunc(blocks(t, "README.md"), func(b block) bool { return b.lang == "sh" })
	if i < 0 {
		t.Fatal("README.md has no sh block")
	}
	s := newStage(t, golem(t))
	s.colour = true
	var scenes []scene
	for line := range strings.Lines(blocks(t, "README.md")[i].text) {
		line = strings.TrimSpace(line)
		screen := newScreen(t)
		screen.write("\x1b[32m$\x1b[0m \x1b[1m" + line + "\x1b[0m\n")
		typed := len(screen.rows) - 1
		screen.write(s.mask(s.shell(fmt.Sprintf("stty cols %d; %s", screenWidth, line), []string{"y"})))
		scenes = append(scenes, scene{screen.rows[:typed], screen.rows[typed:]})
	}
	for name, want := range map[string]string{"index.md": "# My site\n", "Makefile": ""} {
		if got, _ := os.ReadFile(filepath.Join(s.dir, name)); string(got) != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	testutil.Golden(t, "docs/demo.svg", drawScenes(scenes))
}

// masks replace the parts of an output that differ from run to run.
var masks = []struct{ from, to string }{
	{`\bsession sh-[a-z]+`, "session sh-otter"},
	{`\b20\d\d-\d\d-\d\d \d\d:\d\d\b`, "2026-11-16 10:00"},
}

// mask makes an output the same in every run.
func (s *stage) mask(text string) string {
	text = strings.ReplaceAll(text, s.home, "~")
	for _, m := range masks {
		text = regexp.MustCompile(m.from).ReplaceAllString(text, m.to)
	}
	return text
}

// A style is how a cell of a terminal looks.
type style struct {
	bold, dim, reverse bool
	colour             int // 0 for the default, else 30 to 37 or 90 to 97
}

// A cell is one character of a terminal.
type cell struct {
	r     rune
	style style
}

// A screen interprets the escape sequences that golem uses. It grows downwards and
// never scrolls.
type screen struct {
	*testing.T
	rows     [][]cell
	row, col int
	style    style
}

func newScreen(t *testing.T) *screen { return &screen{T: t, rows: make([][]cell, 1)} }

var sequence = regexp.MustCompile(`^\x1b(?:\[([?\d;]*)([A-Za-z])|\][^\x07\x1b]*(?:\x07|\x1b\\))`)

// write prints a text on the screen.
func (s *screen) write(text string) {
	for len(text) > 0 {
		if text[0] == 0x1b {
			m := sequence.FindStringSubmatch(text)
			if m == nil {
				s.Fatalf("unknown escape sequence in %q", text[:min(len(text), 20)])
			}
			s.control(m[1], m[2])
			text = text[len(m[0]):]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch r {
		case '\r':
			s.col = 0
		case '\n':
			s.newLine()
		case '\t':
			s.col += 8 - s.col%8
		default:
			s.put(r)
		}
	}
}

func (s *screen) put(r rune) {
	if s.col == screenWidth {
		s.newLine()
	}
	line := s.rows[s.row]
	for len(line) <= s.col {
		line = append(line, cell{r: ' '})
	}
	line[s.col] = cell{r, s.style}
	s.rows[s.row] = line
	s.col++
}

func (s *screen) newLine() {
	s.row, s.col = s.row+1, 0
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, nil)
	}
}

// control acts on one CSI sequence. Modes, such as bracketed paste, show nothing.
func (s *screen) control(args, final string) {
	n := max(1, atoi(args))
	switch final {
	case "m":
		for arg := range strings.SplitSeq(args, ";") {
			s.paint(atoi(arg))
		}
	case "K":
		s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
	case "A":
		s.row = max(0, s.row-n)
	case "G":
		s.col = n - 1
	case "h", "l", "":
	default:
		s.Fatalf("unknown control sequence %q %q", args, final)
	}
}

func (s *screen) paint(code int) {
	switch {
	case code == 0:
		s.style = style{}
	case code == 1:
		s.style.bold = true
	case code == 2:
		s.style.dim = true
	case code == 7:
		s.style.reverse = true
	case code == 22:
		s.style.bold, s.style.dim = false, false
	case code == 27:
		s.style.reverse = false
	case code == 39:
		s.style.colour = 0
	case code >= 30 && code <= 37 || code >= 90 && code <= 97:
		s.style.colour = code
	default:
		s.Fatalf("unknown graphic rendition %d", code)
	}
}

func atoi(text string) int {
	n, _ := strconv.Atoi(text) // an empty argument is 0
	return n
}

// A scene is a command as it is typed, and what it prints.
type scene struct{ typed, printed [][]cell }

const (
	screenWidth = 96  // characters
	charWidth   = 8.4 // pixels, as the others
	lineHeight  = 19
	border      = 16
	titleBar    = 30
)

// drawScenes draws the scenes one below the other. Each lights up some time after the one
// before. Text that is not lit yet can be read, and a viewer without animations shows all
// of it lit.
func drawScenes(scenes []scene) string {
	var body strings.Builder
	row, columns, late := 0, 0, 0.0
	line := func(cells []cell) {
		columns = max(columns, len(cells))
		drawLine(&body, cells, row)
		row++
	}
	show := func(rows [][]cell) {
		fmt.Fprintf(&body, "<g style=\"animation-delay:%.1fs\">\n", late)
		for _, cells := range rows {
			line(cells)
		}
		body.WriteString("</g>\n")
	}
	for _, sc := range scenes {
		late += 0.5
		show(sc.typed)
		late += 0.5
		if len(sc.printed) > 1 || len(sc.printed[0]) > 0 {
			show(sc.printed)
			late += 0.1 * float64(len(sc.printed))
		}
	}
	width := int(float64(columns)*charWidth) + 2*border
	height := row*lineHeight + titleBar + border
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"A terminal session with golem\">\n", width, height, width, height)
	b.WriteString(`<!-- Made by scripts/record from the first sh block of README.md. -->
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d6dae0;white-space:pre}
g{animation:show .2s backwards}
@keyframes show{from{opacity:.25}}
@media (prefers-reduced-motion){g{animation:none}}
.b{font-weight:bold}.d{opacity:.6}
.c31,.c91{fill:#f47067}.c32,.c92{fill:#57ab5a}.c33,.c93{fill:#daaa3f}.c34,.c94{fill:#6cb6ff}.c35,.c95{fill:#dcbdfb}.c36,.c96{fill:#56d4dd}.c30,.c90{fill:#8b949e}
</style>
`)
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#1c2128\"/>\n", width, height)
	for i, colour := range []string{"#f47067", "#daaa3f", "#57ab5a"} {
		fmt.Fprintf(&b, "<circle cx=\"%d\" cy=\"15\" r=\"5\" fill=\"%s\"/>\n", 18+i*18, colour)
	}
	b.WriteString(body.String())
	b.WriteString("</svg>\n")
	return b.String()
}

// drawLine draws the cells of one row, one element for each run of the same style.
func drawLine(b *strings.Builder, cells []cell, row int) {
	y := titleBar + (row+1)*lineHeight - 5
	for from := 0; from < len(cells); {
		to := from + 1
		for to < len(cells) && cells[to].style == cells[from].style {
			to++
		}
		var text bytes.Buffer
		for _, c := range cells[from:to] {
			text.WriteRune(c.r)
		}
		if strings.TrimSpace(text.String()) != "" || cells[from].style.reverse {
			drawRun(b, text.String(), cells[from].style, border+float64(from)*charWidth, y)
		}
		from = to
	}
}

func drawRun(b *strings.Builder, text string, st style, x float64, y int) {
	var classes []string
	if st.bold {
		classes = append(classes, "b")
	}
	if st.dim {
		classes = append(classes, "d")
	}
	if st.colour != 0 {
		classes = append(classes, fmt.Sprintf("c%d", st.colour))
	}
	width := charWidth * float64(utf8.RuneCountInString(text))
	look := ""
	if len(classes) > 0 {
		look = fmt.Sprintf(" class=%q", strings.Join(classes, " "))
	}
	if st.reverse {
		fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#d6dae0\"/>\n", x, y-lineHeight+5, width, lineHeight)
		look += ` style="fill:#1c2128"`
	}
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\" textLength=\"%.1f\" lengthAdjust=\"spacingAndGlyphs\"%s>%s</text>\n",
		x, y, width, look, html.EscapeString(text))
}
