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

// A copying tells how far the copy of a session is, if that takes long: at a terminal
// on one line, again and again, and elsewhere once it is made.
type copying struct {
	ctx    context.Context
	screen screen
	began  time.Time // zero where nothing is copied
	told   time.Time // last
	width  int       // of what was told then
	noted  bool      // a note says what was copied
	far    overlay.Progress
}

const (
	quiet = time.Second // nothing is said before
	again = time.Second / 10
)

// newCopying returns it for a copy that the user has asked for or, if not, for one that
// golem makes where no overlay can be mounted. A note of the session reports the latter.
func newCopying(ctx context.Context, w io.Writer, asked bool) *copying {
	return &copying{ctx: ctx, screen: newScreen(w), noted: !asked}
}

// tell takes note of how far it is. Where the user has enough of it that is an error.
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

// line writes over the line before.
func (c *copying) line(text string) {
	fmt.Fprintf(c.screen.w, "\r%-*s", c.width, text)
	c.width = len(text)
}

// end says what was copied, if anything was, and if it took long.
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

// wanted reports whether a variable of the environment says yes.
func wanted(value string) bool {
	switch strings.ToLower(value) {
	case "", "0", "no", "false":
		return false
	}
	return true
}
