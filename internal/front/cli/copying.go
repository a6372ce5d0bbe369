package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/visible"
)

// A copying reports the progress of copying directories for a session, if that takes
// long. At a terminal it updates one line. Elsewhere it prints one line at the end.
type copying struct {
	ctx    context.Context
	screen screen
	began  time.Time // zero if nothing is copied
	told   time.Time // time of the last update
	width  int       // length of the last update
	noted  bool      // a note of the session reports the copy
	far    overlay.Progress
}

const (
	quiet = time.Second // print nothing before this
	again = time.Second / 10
)

// newCopying returns a copying. asked means that the user asked for a copy. If not, golem
// copies because it cannot mount an overlay, and a note of the session reports it.
func newCopying(ctx context.Context, w io.Writer, asked bool) *copying {
	return &copying{ctx: ctx, screen: newScreen(w), noted: !asked}
}

// tell records and prints the progress. It returns an error if the context was cancelled.
func (c *copying) tell(p overlay.Progress) error {
	now := time.Now()
	if c.began.IsZero() {
		c.began = now
	}
	c.far = p
	if c.screen.file != nil && now.Sub(c.began) >= quiet && now.Sub(c.told) >= again {
		c.told = now
		c.line(fmt.Sprintf("copying: %d of %s, %s of %s", p.Files, visible.Count(p.TotalFiles, "file"), tool.FormatSize(p.Bytes), tool.FormatSize(p.TotalBytes)))
	}
	return context.Cause(c.ctx)
}

// line overwrites the line that it printed before.
func (c *copying) line(text string) {
	fmt.Fprintf(c.screen.w, "\r%-*s", c.width, text)
	c.width = len(text)
}

// end prints what was copied, if anything was and it took long.
func (c *copying) end(whole bool) {
	took := time.Since(c.began)
	switch {
	case c.width > 0 && (!whole || c.noted):
		c.line("")
		fmt.Fprint(c.screen.w, "\r")
	case c.began.IsZero() || took < quiet || !whole || c.noted:
	default:
		text := fmt.Sprintf("golem: copied %s, %s, in %.1f s", visible.Count(c.far.Files, "file"), tool.FormatSize(c.far.Bytes), took.Seconds())
		if c.width > 0 {
			c.line(text)
			text = ""
		}
		fmt.Fprintln(c.screen.w, text)
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
