package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
	"golang.org/x/text/width"
	"pgregory.net/rapid"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/run"
)

// splitRows returns the rows that output fills on a terminal with so many columns. With
// wide, characters of ambiguous width take two columns, except Greek and Cyrillic
// letters.
func splitRows(output string, columns int, wide bool) []string {
	rows := []string{""}
	at := 0
	colour := false
	for _, r := range strings.ReplaceAll(output, "\r\n", "\n") {
		switch {
		case r == '\x1b':
			colour = true
			continue
		case colour:
			colour = r != 'm'
			continue
		case r == '\n':
			rows, at = append(rows, ""), 0
			continue
		}
		cells := 1
		kind := width.LookupRune(r).Kind()
		switch {
		case unicode.IsMark(r) || r >= 0xe0000:
			cells = 0
		case r == '\t':
			cells = 8 - at%8
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			cells = 2
		case kind == width.EastAsianAmbiguous && wide && r >= 0x530:
			cells = 2
		}
		if at+cells > columns && cells > 0 {
			rows, at = append(rows, ""), 0
		}
		rows[len(rows)-1] += string(r)
		at += cells
	}
	return rows
}

// openConsole returns a console at a terminal, and a function that returns all its output.
func openConsole(t interface{ Fatal(...any) }, columns int) (c *console, output func() string, done func()) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	master := os.NewFile(uintptr(fd), "ptmx")
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	all := make(chan string)
	go func() {
		var text []byte
		buf := make([]byte, 64<<10)
		for {
			n, err := master.Read(buf)
			if text = append(text, buf[:n]...); err != nil {
				all <- string(text)
				return
			}
		}
	}()
	c = newConsole(slave, slave)
	return c, func() string {
		for _, s := range []*stream{c.out, c.errs} {
			s.guard.file.Close()
		}
		slave.Close()
		return strings.ReplaceAll(<-all, "\r\n", "\n")
	}, func() { master.Close() }
}

const forgedQuestion = "┃ main › summarise wants to create /out/readme.txt (1 line)   (tool write_file, asked by default)\n┃ + hello\n┃ [y]es  [n]o  [?]\n┃ > "

// TestModelCannotForgeAQuestion checks that a question printed by a model, a tool or a
// command stays behind the gutter, at any width. No output contains the bar, so a
// narrower window shows none either. Text of golem never begins a line with a character
// like the bar.
func TestModelCannotForgeAQuestion(t *testing.T) {
	for columns := 20; columns <= 200; columns += 9 {
		pad := strings.Repeat(" ", max(0, columns-1))
		shifted := ""
		for i := range columns + 2 {
			shifted += strings.Repeat("x", i) + "┃│|▌❙｜ [y]es\n"
		}
		text := forgedQuestion + "\n" + pad + forgedQuestion + "\n" + shifted + strings.ReplaceAll(forgedQuestion, "┃", "│")
		c, output, done := openConsole(t, columns)
		out, errs := visible.NewWriter(c.out), visible.NewWriter(c.errs)
		ok := true
		r := &report{out: out, errs: errs, stream: true, args: map[string]run.Event{}}
		for _, piece := range strings.SplitAfter(text, "w") {
			r.tell(run.Event{Type: run.Piece, Worker: "main", Chain: []string{"main"}, Text: piece})
		}
		r.tell(run.Event{Type: run.Message, Worker: "main", Chain: []string{"main"}, Text: text, Calls: 1})
		r.tell(run.Event{Type: run.Message, Worker: "kid", Chain: []string{"main", "kid"}, Text: pad + text, Calls: 1})
		r.tell(run.Event{Type: run.ToolCall, Worker: "kid", Chain: []string{"main", "kid"}, Call: "1", Tool: "┃ wants to create /out/readme.txt", Args: []byte(`{"command":"│ ┃"}`)})
		r.tell(run.Event{Type: run.ToolResult, Worker: "kid", Chain: []string{"main", "kid"}, Call: "1", Tool: "┃ wants to create /out/readme.txt", OK: &ok, Text: text})
		r.tell(run.Event{Type: run.ToolResult, Worker: "kid", Chain: []string{"main", "kid"}, Call: "2", Tool: "shell", OK: &ok, Text: "exit 1 \nstderr:\n" + text})
		fmt.Fprintln(newGutter(out, ""), text)
		golems := "golem: " + strings.ReplaceAll(text, "\n", " ")
		fmt.Fprintln(errs, golems)
		fmt.Fprintln(errs, strings.Repeat("y", columns)+"│ [y]es")
		fmt.Fprint(errs, strings.Repeat("y", columns))
		fmt.Fprintln(errs, "▌ [y]es")
		fmt.Fprintln(errs, "| [y]es")
		screen := output()
		done()
		if strings.ContainsAny(screen, "┃❙") || !strings.Contains(screen, `\u2503`) {
			t.Fatalf("%d columns: a bar:\n%s", columns, screen)
		}
		plain := strings.Index(screen, "golem: ")
		for _, wide := range []bool{false, true} {
			for _, row := range splitRows(screen[:plain], columns, wide) {
				if row != "" && !strings.HasPrefix(row, "main│ ") && !strings.HasPrefix(row, "  kid│ ") && !strings.HasPrefix(row, "│ ") {
					t.Fatalf("%d columns: text of others begins a line: %q", columns, row)
				}
			}
			for _, row := range splitRows(screen[plain:], columns, wide) {
				if first := []rune(row + " ")[0]; visible.LikeBar(first) {
					t.Fatalf("%d columns: a line begins with what looks like a bar: %q", columns, row)
				}
			}
		}
	}
}

// TestNothingLooksLikeTheBar checks any output, in any pieces, at any width. No line of
// the terminal begins with the bar or a similar character, except the lines of gutters.
func TestNothingLooksLikeTheBar(t *testing.T) {
	letters := rapid.SampledFrom([]rune("ab ┃│|▌❙｜❚┇║ 漢한😀éжλ\u0301\t\n\r\x1b\u202e\U0001f3f4·±"))
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(8, 90).Draw(t, "columns")
		c, output, done := openConsole(t, columns)
		defer done()
		out, errs := visible.NewWriter(c.out), visible.NewWriter(c.errs)
		others := newGutter(out, rapid.StringOfN(letters, 0, 12, -1).Draw(t, "name"))
		worker := newGutter(errs, "kid")
		for range rapid.IntRange(1, 12).Draw(t, "writes") {
			text := rapid.StringOfN(letters, 0, 3*columns, -1).Draw(t, "text")
			switch rapid.IntRange(0, 3).Draw(t, "to") {
			case 0:
				fmt.Fprint(others, text)
			case 1:
				fmt.Fprint(worker, text)
			case 2:
				fmt.Fprint(out, text)
			case 3:
				fmt.Fprint(errs, text)
			}
		}
		screen := output()
		if strings.ContainsAny(screen, "┃❙❚┇") {
			t.Fatalf("the bar is in %q", screen)
		}
		for _, wide := range []bool{false, true} {
			for _, row := range splitRows(screen, columns, wide) {
				first := []rune(row + " ")[0]
				if visible.LikeBar(first) && !strings.HasPrefix(row, "│ ") {
					t.Fatalf("%d columns: %q begins a line of %q", columns, row, screen)
				}
			}
		}
	})
}

// TestQuestionHasTheBarAtAnyWidth checks that every line of a question begins with the
// bar at any width, and contains no other bar.
func TestQuestionHasTheBarAtAnyWidth(t *testing.T) {
	r := newRequest("/out/" + forgedQuestion)
	r.Workers = []string{"main", "┃ kid"}
	r.Why, r.Warnings = forgedQuestion, []string{forgedQuestion}
	r.Changes[0].Diff = "@@ -0,0 +1,4 @@\n+" + strings.ReplaceAll(forgedQuestion, "\n", "\n+") + "\n"
	for columns := uint16(20); columns <= 200; columns += 20 {
		s := startScript(t, terminalScript{Questions: []scriptedQuestion{{Request: r}}}, setting{columns: columns, rows: 60})
		s.until("┃\x1b[0m > ")
		s.types("n\r")
		o, screen := s.end()
		if o.Replies[0].Verdict != tool.Declined {
			t.Errorf("got %+v", o.Replies[0])
		}
		for _, row := range splitRows(strings.TrimSpace(screen), int(columns), true) {
			if !strings.HasPrefix(row, "┃ ") || strings.Count(row, "┃") != 1 {
				t.Errorf("%d columns: %q", columns, row)
			}
		}
		if !strings.Contains(screen, "\x1b[1m┃\x1b[0m \x1b[7mmain") {
			t.Errorf("%d columns: the header is not in reverse video:\n%q", columns, screen)
		}
	}
}

// TestPipesStayPlain checks that a pipe gets results unchanged.
func TestPipesStayPlain(t *testing.T) {
	read, write, err := os.Pipe()
	must(t, err)
	c := newConsole(write, write)
	_, release := c.own()
	out := visible.NewWriter(c.out)
	const text = "┃ │ a long line that nobody breaks: "
	fmt.Fprintln(newGutter(out, "main"), text+strings.Repeat("x", 300))
	must(t, write.Close())
	must(t, read.SetReadDeadline(time.Now().Add(10*time.Second)))
	buf := make([]byte, 1000)
	n, _ := read.Read(buf)
	release()
	if got, want := string(buf[:n]), text+strings.Repeat("x", 300)+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
