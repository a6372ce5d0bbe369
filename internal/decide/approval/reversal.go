package approval

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A Reversal is a name that gets an earlier state back: by undo, or because the changes
// of a session are discarded.
type Reversal struct {
	Name      string // in the sandbox
	Now, Then overlay.State
	Sum       string // a digest of the current content, if it is known
	Step      string // identifies the undo step as a whole, if that decides about the content
	Unread    bool   // the states are not known
	Kept      bool   // the old state is in the user's directory already, and is not shown
	About     string // anything else to say
	// OnlySession is true if nothing changes in the user's directory, so that nothing
	// becomes code there.
	OnlySession bool
}

// A ReversalList collects reversals as a request carries them. See tool.Request.Items.
type ReversalList struct{ rowList }

// NewReversalList returns an empty list.
func NewReversalList() *ReversalList { return &ReversalList{newRowList()} }

// Add adds a reversal as a diff from the current state to the earlier one.
func (r *ReversalList) Add(back Reversal) { r.add(r.describe(back)) }

func (r *ReversalList) describe(back Reversal) tool.Change {
	now, then := back.Now, back.Then
	back.Unread = back.Unread || now.Unknown || then.Unknown
	c := tool.Change{Path: back.Name, Op: tool.Update}
	switch {
	case back.Unread:
	case then.Kind == overlay.Nothing:
		c.Op = tool.Delete
	case now.Kind == overlay.Nothing:
		c.Op = tool.Create
	}
	about := describeKind(then)
	if c.Op == tool.Delete {
		about = describeKind(now)
	}
	same := back.Unread || now.Kind == overlay.File && then.Kind == overlay.File && now.Mode != then.Mode && sameFile(now, then)
	if !same && !back.Kept && (now.Kind == overlay.File || then.Kind == overlay.File) {
		about = r.content(&c, now, then)
	}
	if now.Kind != then.Kind && now.Kind != overlay.Nothing && then.Kind != overlay.Nothing {
		about += ", in place of a " + now.Kind.Noun()
	}
	switch {
	case now.Kind == then.Kind && now.Kind != overlay.Symlink && now.Mode != then.Mode:
		about += fmt.Sprintf(", permission bits %04o → %04o", now.Mode, then.Mode)
	case now.Kind != then.Kind && !back.Unread && !IsUsualMode(then.Kind, then.Mode):
		about += fmt.Sprintf(", mode %04o", then.Mode)
	}
	if then.Kind == overlay.File || then.Kind == overlay.Dir {
		c.Mode = fmt.Sprintf("%04o", then.Mode)
	}
	if back.Unread {
		c.Omitted = "it cannot be read"
	}
	r.bind(&c, back)
	if c.Op != tool.Delete && then.Kind != overlay.Dir && !back.OnlySession {
		r := ReviewChange(back.Name, overlay.PathChange{Op: overlay.Modify, Kind: then.Kind, Mode: then.Mode, OldKind: now.Kind, OldMode: now.Mode, Size: then.Size, LinkTarget: then.LinkTarget}, nil, nil, c.Diff, back.Unread)
		r.Binary = c.Omitted == "binary"
		c.Flags = review.Flags(r)
	}
	c.About = strings.TrimPrefix(strings.TrimPrefix(about+"; "+back.About, ", "), "; ")
	c.About = strings.TrimSuffix(c.About, "; ")
	return c
}

// bind sets the versions that an approval is bound to.
func (r *ReversalList) bind(c *tool.Change, back Reversal) {
	stateOf := func(s overlay.State, sum string) string {
		switch s.Kind {
		case overlay.Symlink:
			return "link " + s.LinkTarget
		case overlay.File:
			return sum
		}
		return string(s.Kind)
	}
	switch {
	case back.Step != "":
		c.Base = back.Step
	case back.Unread:
		c.Base = "unread " + back.Sum
	case c.Base == "":
		c.Base = stateOf(back.Now, back.Sum)
	}
	if c.Becomes == "" {
		c.Becomes = stateOf(back.Then, "")
	}
	if c.Base == "" && back.Now.Kind == overlay.File {
		c.Base = "unread " + rand.Text() // no approval can match it
	}
}

// content adds the difference of two contents to a change, and returns a text about it.
func (r *ReversalList) content(c *tool.Change, now, then overlay.State) (about string) {
	old, oldErr := readFile(now, min(maxShown, int64(r.budget.bytes)))
	new, newErr := readFile(then, min(maxShown, int64(r.budget.bytes)))
	about = visible.Amount(now.Size) + " → " + visible.Amount(then.Size)
	switch {
	case now.Kind != overlay.File:
		about = visible.Amount(then.Size)
	case then.Kind != overlay.File:
		about = visible.Amount(now.Size)
	}
	if err := errors.Join(oldErr, newErr); err != nil {
		c.Omitted = "too large to show, or unreadable"
		return about
	}
	if now.Kind == overlay.File {
		c.Base = filecontent.Hash(old)
	}
	if then.Kind == overlay.File {
		c.Becomes = filecontent.Hash(new)
	}
	switch {
	case !filecontent.IsText(old) || !filecontent.IsText(new):
		c.Omitted = "binary"
		return about + ", binary"
	case now.Kind == overlay.File && then.Kind == overlay.File:
		changed := tool.DescribeChange(c.Path, sandbox.Version{}.With(old), old, new)
		c.Diff, c.Omitted, about = changed.Diff, changed.Omitted, changed.About
	case now.Kind == overlay.File:
		c.Diff = filecontent.Diff(c.Path, "", filecontent.Decode(old, false), "")
	default:
		c.Diff = filecontent.Diff("", c.Path, "", filecontent.Decode(new, false))
	}
	if !r.budget.addBytes(len(c.Diff)) {
		c.Diff, c.Omitted = "", "there is too much to show"
	}
	return about
}

// sameFile reports whether two files have the same content.
func sameFile(a, b overlay.State) bool {
	if a.Size != b.Size {
		return false
	}
	sum := overlay.Digest(a.Open())
	return sum != "" && sum == overlay.Digest(b.Open())
}

// readFile returns the content of a file, nil for anything else.
func readFile(s overlay.State, most int64) ([]byte, error) {
	if s.Kind != overlay.File {
		return nil, nil
	}
	f, err := s.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = errors.New("too large")
	}
	return data, err
}

// describeKind returns what a state is, in words.
func describeKind(s overlay.State) string {
	switch s.Kind {
	case overlay.Dir:
		return "a directory"
	case overlay.Symlink:
		return "a symlink to " + sandbox.Shown(s.LinkTarget)
	case overlay.Special:
		return "a pipe, socket or device"
	case overlay.File:
		return visible.Amount(s.Size)
	}
	return ""
}
