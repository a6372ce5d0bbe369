package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/golem-forge/golem/internal/people/visible"
	"golang.org/x/term"
)

// A console carries all output of golem that goes to a terminal, from both streams. While
// a question is open, in this or another golem process at the same terminal, other output
// waits. The console prints it afterwards. A stream that is no terminal gets its output
// at once and unchanged.
type console struct {
	out, errs *stream
	color     *colorFlag // nil is auto

	mu       sync.Mutex
	asking   bool    // a question owns the terminal
	waits    backlog // output to print after the question
	draining bool    // drain waits for the end of a question of another golem process
	partial  bool    // the cursor is not at the start of a line
	mark     string  // mark of the gutter whose line has not ended; "" for none
	column   int     // upper limit for the column of the cursor

	status      *stream // the stream that shows a status line; nil if there is none
	statusCells int     // the columns of the status line
	lastAsked   time.Time
}

// A stream is standard output or standard error. Text for it has passed a
// [visible.Writer], or consists of visible text and colours.
type stream struct {
	console *console
	to      io.Writer
	file    *os.File // the terminal; nil if there is none
	guard   *guard
}

// newConsole returns the console of a process.
func newConsole(stdout, stderr io.Writer) *console {
	c := &console{}
	c.out, c.errs = c.stream(stdout), c.stream(stderr)
	return c
}

func (c *console) stream(w io.Writer) *stream {
	s := &stream{console: c, to: w}
	if f, ok := w.(*os.File); ok && f != nil && term.IsTerminal(int(f.Fd())) {
		s.file, s.guard = f, openGuard(f)
	}
	return s
}

// consoleOf returns the console that a writer writes to, or nil.
func consoleOf(w io.Writer) *console {
	if s := streamOf(w); s != nil {
		return s.console
	}
	return nil
}

func streamOf(w io.Writer) *stream {
	if v, ok := w.(*visible.Writer); ok {
		w = v.Under()
	}
	s, _ := w.(*stream)
	return s
}

// Write implements io.Writer.
func (s *stream) Write(text []byte) (int, error) { return s.put("", text) }

// A guttered writes untrusted text to a stream, with a mark at the start of each line of
// the terminal. It breaks lines before the terminal does, so the text cannot reach the
// first column.
type guttered struct {
	stream *stream
	mark   string
}

// newGutter returns a writer for untrusted text, which it makes visible. If w writes to
// no terminal, newGutter returns w.
func newGutter(w io.Writer, mark string) io.Writer {
	s := streamOf(w)
	if s == nil || s.file == nil {
		return w
	}
	name := strings.Map(func(r rune) rune {
		if visible.LikeBar(r) {
			return '?'
		}
		return r
	}, visible.Line(mark, maxMark))
	return visible.NewProseWriter(guttered{s, name + gutterEnd})
}

// newAnswer returns a writer for the answer of a model or the result of a tool. At a
// terminal it is a gutter. A pipe and a file get the text as it is, except for control
// characters.
func newAnswer(w io.Writer, mark string) io.Writer {
	if to := newGutter(w, mark); to != w {
		return to
	}
	if v, ok := w.(*visible.Writer); ok {
		return v.ForData()
	}
	return w
}

const (
	gutterEnd = "│ "
	maxMark   = 40 // maximum characters of a name in a gutter
)

// Write implements io.Writer.
func (g guttered) Write(text []byte) (int, error) { return g.stream.put(g.mark, text) }

// put prints text after a mark, which may be "". While a question is open, it stores the
// text instead.
func (s *stream) put(mark string, text []byte) (int, error) {
	if s.file == nil {
		return s.to.Write(text)
	}
	c := s.console
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking || c.draining {
		c.waits.add(s, mark, text)
		return len(text), nil
	}
	release, free := s.guard.share()
	if !free {
		c.waits.add(s, mark, text)
		c.draining = true
		go c.drain(s.guard)
		return len(text), nil
	}
	defer release()
	if err := s.print(mark, string(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// print writes text to the terminal. The caller holds the lock.
func (s *stream) print(mark, text string) error {
	if text == "" {
		return nil
	}
	c := s.console
	c.eraseStatus()
	var b strings.Builder
	if c.partial && c.mark != mark {
		b.WriteByte('\n')
		c.partial = false
	}
	if mark == "" {
		c.plain(&b, visible.Barless(c.wrap(text, columnsOf(s.file))), columnsOf(s.file))
	} else {
		c.behind(&b, mark, visible.Barless(text), columnsOf(s.file))
	}
	_, err := io.WriteString(s.to, b.String())
	return err
}

// wrap breaks long messages of golem between clauses and words. A continuation is indented.
func (c *console) wrap(text string, columns int) string {
	if c.partial || len(text) <= columns || !strings.Contains(text, messagePrefix) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if message, whole := strings.CutSuffix(line, "\n"); whole && strings.HasPrefix(line, messagePrefix) {
			line = wrapClauses(message, columns) + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// messagePrefix begins every message of golem about itself.
const messagePrefix = "golem: "

// plain appends text of golem, which may contain untrusted names and words. It escapes a
// character like a bar that could be at the start of a line of the terminal.
func (c *console) plain(b *strings.Builder, text string, columns int) {
	if !c.partial {
		c.column = 0
	}
	colour := false // inside a sequence that sets a colour
	for _, r := range text {
		switch {
		case r == '\n', r == '\r':
			c.column, colour = 0, false
		case r == '\x1b':
			colour = true
		case colour:
			colour = r == '[' || r == ';' || r >= '0' && r <= '9'
		case visible.LikeBar(r) && (c.column == 0 || c.column >= columns-1):
			fmt.Fprintf(b, `\u%04x`, r)
			c.column += len(`\u2503`)
			continue
		case r == '\t':
			c.column += 8
		default:
			c.column += visible.Cells(r)
		}
		b.WriteRune(r)
	}
	c.mark, c.partial = "", !strings.HasSuffix(text, "\n")
}

// behind appends text, with a mark before each line of the terminal.
func (c *console) behind(b *strings.Builder, mark, text string, columns int) {
	shown, width := fitMark(mark, columns)
	begin := func() {
		b.WriteString(shown)
		c.mark, c.partial, c.column = mark, true, width
	}
	before := ' '
	for i, r := range text {
		if !c.partial {
			begin()
		}
		cells := visible.Cells(r)
		if before == ' ' && r != ' ' && c.column > width { // a word that fits in the next line begins there
			word := text[i:]
			if end := strings.IndexFunc(word, unicode.IsSpace); end >= 0 {
				word = word[:end]
			}
			if word := visible.Width(word); c.column+word > columns-1 && word <= (columns-width)/2 {
				b.WriteByte('\n')
				begin()
			}
		}
		before = r
		switch {
		case r == '\n':
			b.WriteByte('\n')
			c.partial = false
			continue
		case r == '\t':
			cells = 4
		}
		if c.column+cells > columns-1 && c.column > width && !unicode.IsMark(r) && cells > 0 {
			b.WriteByte('\n')
			begin()
		}
		if c.column += cells; r == '\t' {
			b.WriteString("    ")
		} else {
			b.WriteRune(r)
		}
	}
}

// fitMark shortens a mark so that most of the line is left for the text. width is the
// maximum number of columns of the result.
func fitMark(mark string, columns int) (shown string, width int) {
	name := strings.TrimSuffix(mark, gutterEnd)
	kept := 0
	for i, r := range name {
		if kept+visible.Cells(r) > columns/3 {
			name = name[:i]
			break
		}
		kept += visible.Cells(r)
	}
	return name + gutterEnd, kept + len("   ") // the line of the gutter may be wide
}

// own makes a question the owner of the terminal until release is called. partial reports
// whether the cursor is in the middle of a line.
func (c *console) own() (partial bool, release func()) {
	if c == nil {
		return false, func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eraseStatus()
	partial, c.asking = c.partial, true
	return partial, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asking, c.partial, c.mark, c.lastAsked = false, false, "", time.Now()
		c.flush()
	}
}

// flush prints waiting output. The caller holds the lock.
func (c *console) flush() {
	if c.draining { // another golem process asks
		return
	}
	for _, p := range c.waits.take() {
		p.to.print(p.mark, p.text)
	}
}

const (
	drainEvery = 20 * time.Millisecond
	// maxDrain is how long golem waits at its end for a question of another golem
	// process.
	maxDrain = 10 * time.Minute
)

// drain waits until no other golem process asks at the terminal, and prints waiting
// output.
func (c *console) drain(g *guard) {
	for {
		time.Sleep(drainEvery)
		release, free := g.share()
		if !free {
			continue
		}
		c.mu.Lock()
		c.draining = false
		if !c.asking {
			c.flush()
		}
		c.mu.Unlock()
		release()
		return
	}
}

// close prints waiting output when golem ends.
func (c *console) close() {
	for deadline := time.Now().Add(maxDrain); ; time.Sleep(drainEvery) {
		c.mu.Lock()
		c.eraseStatus()
		late := time.Now().After(deadline)
		if !c.draining || late {
			c.draining = false
			c.flush()
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// maxWaiting limits the output that waits for the end of a question. golem keeps the
// beginning and the end, half of the limit each.
const maxWaiting = 128 << 10

// A backlog holds output that waits.
type backlog struct {
	head, tail []waiting
	size       [2]int // bytes of head and tail
	lines      int    // number of lines dropped between them
	last       *stream
}

// A waiting is a piece of output of at most one line.
type waiting struct {
	to   *stream
	mark string
	text string
}

// add appends output, line by line. If there is too much of it, add drops the oldest
// lines of the tail.
func (b *backlog) add(to *stream, mark string, text []byte) {
	for line := range bytes.Lines(text) {
		w := waiting{to, mark, string(line)}
		if b.size[0]+len(line) <= maxWaiting/2 && len(b.tail) == 0 && b.lines == 0 {
			b.head, b.size[0] = append(b.head, w), b.size[0]+len(line)
			continue
		}
		b.tail, b.size[1], b.last = append(b.tail, w), b.size[1]+len(line), to
		for b.size[1] > maxWaiting/2 {
			b.size[1] -= len(b.tail[0].text)
			b.tail = b.tail[1:]
			b.lines++
		}
	}
}

// take returns the waiting output, and empties the backlog.
func (b *backlog) take() []waiting {
	all := b.head
	if b.lines > 0 {
		all = append(all, waiting{to: b.last, text: fmt.Sprintf("golem: %s of output dropped while a question was open\n", visible.Count(b.lines, "line"))})
	}
	all = append(all, b.tail...)
	*b = backlog{}
	return all
}

// columnsOf returns the number of columns of a terminal.
func columnsOf(f *os.File) int {
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 {
		return 80
	}
	return max(columns, minColumns)
}

// minColumns is the smallest width that golem breaks lines for.
const minColumns = 8

// A liveOutput prints the output of a command behind a gutter while the command runs.
type liveOutput struct {
	to    io.Writer
	wrote bool
	open  bool // a line has not ended
}

// newLiveOutput returns a liveOutput, or nil if w writes to no terminal.
func newLiveOutput(w io.Writer, mark string) *liveOutput {
	if to := newGutter(w, mark); to != w {
		return &liveOutput{to: to}
	}
	return nil
}

// write prints a piece of output.
func (o *liveOutput) write(data []byte) {
	if len(data) == 0 {
		return
	}
	o.wrote, o.open = true, data[len(data)-1] != '\n'
	o.to.Write(data)
}

// end ends the last line.
func (o *liveOutput) end() {
	if w, ok := o.to.(*visible.Writer); ok {
		w.Close() // a part of a character
	}
	if o.open {
		io.WriteString(o.to, "\n")
		o.open = false
	}
}
