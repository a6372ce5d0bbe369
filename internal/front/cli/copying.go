package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
)

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
	c.status.advance(int64(p.Bytes), int64(p.TotalBytes), fmt.Sprintf("%d of %s, %s of %s", p.Files, visible.Count(p.TotalFiles, "file"), tool.FormatSize(p.Bytes), tool.FormatSize(p.TotalBytes)))
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
		fmt.Fprintf(c.w, "golem: copied %s, %s, in %.1f s\n", visible.Count(c.far.Files, "file"), tool.FormatSize(c.far.Bytes), took.Seconds())
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
