package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
)

// A statusLine is a line at a terminal that says what golem does now and for how long. It
// appears only if that takes long. The console erases it before other output and before a
// question, and draws it again afterwards. A nil statusLine does nothing.
type statusLine struct {
	stream *stream
	stop   chan struct{}
	once   sync.Once // closes stop
	ended  chan struct{}

	mu    sync.Mutex
	what  string
	since time.Time
	part  float64 // from 0 to 1, or negative if the total is not known
	about string  // the part in words: 12 of 40 files
}

// progressSteps is how fine the progress of a call is.
const progressSteps = 1000

// redrawEvery is how often golem draws the status line.
const redrawEvery = 200 * time.Millisecond

// beginStatus starts a status line at the terminal that w writes to. It returns nil if w
// writes to no terminal, or to one that cannot erase a line.
func beginStatus(w io.Writer, what string) *statusLine {
	s := streamOf(w)
	if s == nil || s.file == nil || !colours || os.Getenv("TERM") == "dumb" {
		return nil
	}
	l := &statusLine{stream: s, stop: make(chan struct{}), ended: make(chan struct{}), what: what, since: time.Now(), part: -1}
	go l.draw()
	return l
}

// beginReading starts a status line for reading the changes of a session. report says how
// many of them golem has read.
func beginReading(w io.Writer) (report func(done, total int), end func()) {
	l := beginStatus(w, "reading the changes")
	return func(done, total int) {
		l.advance(int64(done), int64(total), fmt.Sprintf("%s of %s", visible.Number(done), visible.Count(total, "change")))
	}, l.end
}

// set says what golem does from now on.
func (l *statusLine) set(what string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.what != what {
		l.what, l.since, l.part, l.about = what, time.Now(), -1, ""
	}
}

// advance says how much is done. about says it in words.
func (l *statusLine) advance(done, total int64, about string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part, l.about = -1, about
	if total > 0 {
		l.part = min(1, float64(done)/float64(total))
	}
}

// end erases the line. Nothing is drawn afterwards.
func (l *statusLine) end() {
	if l == nil {
		return
	}
	l.once.Do(func() { close(l.stop) })
	<-l.ended
}

func (l *statusLine) draw() {
	defer close(l.ended)
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	c := l.stream.console
	for {
		select {
		case <-l.stop:
			c.mu.Lock()
			c.eraseStatus()
			c.mu.Unlock()
			return
		case <-tick.C:
			l.skip(c.asked())
			c.drawStatus(l.stream, l.text(columnsOf(l.stream.file), time.Now()))
		}
	}
}

// skip starts the time again if a question was open since: golem waited for the user then.
func (l *statusLine) skip(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if asked.After(l.since) {
		l.since = asked
	}
}

// text returns the line for a terminal of a width, or "" if it is too early for one.
func (l *statusLine) text(columns int, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := now.Sub(l.since)
	if l.what == "" || took < quiet {
		return ""
	}
	text := "golem: " + l.what
	if l.about != "" {
		text += ", " + l.about
	}
	text += ", " + elapsed(took)
	const bar = 20
	if l.part >= 0 && columns > len(text)+bar+10 {
		full := int(l.part * bar)
		text += fmt.Sprintf("  [%s%s] %d%%", strings.Repeat("#", full), strings.Repeat(".", bar-full), int(l.part*100))
	}
	kept, most := 0, max(columns-2, minColumns)
	for i, r := range text {
		if kept += visible.Cells(r); kept > most {
			return text[:i] + "…"
		}
	}
	return text
}

// elapsed returns a time as a person says it: 7 s, 2 min 5 s.
func elapsed(d time.Duration) string {
	seconds := int(d.Seconds())
	if seconds < 60 {
		return fmt.Sprintf("%d s", seconds)
	}
	return fmt.Sprintf("%d min %d s", seconds/60, seconds%60)
}

// asked returns when the last question ended.
func (c *console) asked() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastAsked
}

// drawStatus draws a status line in place of the last one. It does nothing while a
// question is open, here or in another golem process, or if the cursor is in the middle of
// a line of other output.
func (c *console) drawStatus(s *stream, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking || c.draining || c.partial || text == "" && c.status == nil {
		return
	}
	release, free := s.guard.share()
	if !free {
		return
	}
	defer release()
	c.eraseStatus()
	if text == "" {
		return
	}
	if _, err := io.WriteString(s.to, text); err == nil {
		c.status, c.statusCells = s, visible.Width(text)
	}
}

// eraseStatus erases the status line. If the terminal became narrower, the line may be on
// several rows. The caller holds the lock.
func (c *console) eraseStatus() {
	if c.status == nil {
		return
	}
	columns := columnsOf(c.status.file)
	rows := max(0, c.statusCells-1) / max(columns, 1)
	io.WriteString(c.status.to, "\r\x1b[K"+strings.Repeat("\x1b[A\x1b[2K", rows))
	c.status = nil
}

// A copying reports the progress of copying directories for a session, if that takes
// long: at a terminal in a status line, and at the end in one line.
type copying struct {
	ctx    context.Context
	w      io.Writer
	status *statusLine
	began  time.Time // zero if nothing is copied
	noted  bool      // a note of the session reports the copy
	far    overlay.Progress
}

// quiet is how long golem works before it says that it does.
const quiet = time.Second

// newCopying returns a copying. asked means that the user asked for a copy. If not, golem
// copies because it cannot mount an overlay, and a note of the session reports it.
func newCopying(ctx context.Context, w io.Writer, asked bool) *copying {
	return &copying{ctx: ctx, w: w, noted: !asked}
}

// tell records and shows the progress. It returns an error if the context was cancelled.
func (c *copying) tell(p overlay.Progress) error {
	if c.began.IsZero() {
		c.began = time.Now()
		c.status = beginStatus(c.w, "copying")
	}
	c.far = p
	c.status.advance(int64(p.Bytes), int64(p.TotalBytes), fmt.Sprintf("%d of %s, %s of %s", p.Files, visible.Count(p.TotalFiles, "file"), visible.Amount(p.Bytes), visible.Amount(p.TotalBytes)))
	return context.Cause(c.ctx)
}

// end prints what was copied, if anything was and it took long.
func (c *copying) end(whole bool) {
	if c.began.IsZero() {
		return
	}
	c.status.end()
	c.status = nil
	if took := time.Since(c.began); whole && !c.noted && took >= quiet {
		fmt.Fprintf(c.w, "golem: copied %s, %s, in %.1f s\n", visible.Count(c.far.Files, "file"), visible.Amount(c.far.Bytes), took.Seconds())
	}
}

// wantsCopy reports whether a flag or the environment asks for sessions on copies.
func wantsCopy(flag bool) bool { return flag || wanted(os.Getenv("GOLEM_COPY")) }

// wanted reports whether the value of an environment variable means yes.
func wanted(value string) bool {
	switch strings.ToLower(value) {
	case "", "0", "no", "false":
		return false
	}
	return true
}
