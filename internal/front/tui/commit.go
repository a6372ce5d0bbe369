package tui

import (
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/sandbox"
)

// A commit is a staged commit.
type commit struct{ look *git.CommitView }

// newCommitReview returns the screen of a staged commit. It begins with the findings. The
// files that become code come first.
func newCommitReview(p *program.Program, l *git.CommitView, path func(*program.Program, string) string) *review {
	v := &review{session: inbox.ProgramSession{Program: p}, commit: &commit{l}, list: &session.Review{}}
	for _, c := range l.Changes() {
		one := session.FileChange{Path: c.Path, Op: overlay.Modify, Kind: overlay.File, OldKind: overlay.File}
		switch c.Op {
		case tool.Create:
			one.Op, one.OldKind = overlay.Create, overlay.Nothing
		case tool.Delete:
			one.Op, one.Kind = overlay.Delete, overlay.Nothing
		}
		one.Added, one.Removed = filecontent.CountDiffLines(c.Diff)
		one.Binary = c.Omitted == "binary"
		f := &file{File: &choice.File{FileChange: one}, path: path(p, c.Path), loaded: true, staged: &c}
		for _, flag := range l.Flags {
			if flag.Path == c.Path {
				f.Flags = append(f.Flags, flag)
			}
		}
		f.items, f.decided = []*choice.Item{{File: f.File}}, make([]decision, 1)
		v.files = append(v.files, f)
	}
	v.makeTree()
	return v
}

// id returns the beginning of the commit's id.
func (c *commit) id() string { return sandbox.Shown(c.look.CommitID[:min(12, len(c.look.CommitID))]) }

// title describes the commit in a few words.
func (c *commit) title() string {
	return plainText("commit " + c.id() + " to " + sandbox.Shown(c.look.Target) + " " + sandbox.Shown(c.look.Branch))
}

// made says who staged the commit.
func (c *commit) made() string {
	who := visible.Each(c.look.Workers, sandbox.Shown)
	text := "staged " + c.look.CreatedAt.Local().Format("2006-01-02 15:04")
	if len(who) > 0 {
		text = "staged by " + strings.Join(who, " > ") + ", " + c.look.CreatedAt.Local().Format("2006-01-02 15:04")
	}
	if c.look.Intake > 0 {
		text += fmt.Sprintf("; they had read %s and staged %s", visible.Amount(c.look.Intake), visible.Amount(c.look.Bytes))
	}
	return text
}

// rows returns the summary of the commit as golem review prints it: findings first.
func (c *commit) rows() []visible.Row {
	rows := c.look.Summary()
	for _, name := range c.look.Held() {
		rows = append(rows, visible.Row{Mark: visible.Warning, Text: "a scanner holds back " + visible.Name(name) + ": P asks for a reason to push it"})
	}
	return rows
}

// shown returns the changes of the commit that were on the screen completely.
func (v *review) shown() choice.Shown {
	shown := make(choice.Shown)
	for _, f := range v.files {
		if f.staged != nil && f.staged.Omitted == "" && f.isViewed() {
			shown[f.Path] = *f.staged
		}
	}
	return shown
}

// push asks for a reason for each name that a scanner holds back, and then to push the
// commit.
func (m *model) push() {
	v := m.review
	c := v.commit
	var override []string
	unseen := c.look.HasUnseen()
	var ask func(held []string)
	ask = func(held []string) {
		if len(held) > 0 {
			m.typed = &input{asks: "a scanner holds back " + visible.Name(held[0]) + "; the reason to push it: ", done: func(text string) {
				if strings.TrimSpace(text) == "" {
					m.note = "not pushed: you gave no reason"
					return
				}
				override = append(override, held[0]+"="+strings.TrimSpace(text))
				ask(held[1:])
			}}
			return
		}
		begin := func() {
			m.callTool("pushing the commit", git.PushArgs{CommitID: c.look.CommitID, Override: override, Unseen: unseen}, v.shown())
		}
		if !unseen {
			begin()
			return
		}
		m.typed = &input{asks: "golem cannot show all files of this commit; type unseen to push it anyway: ", done: func(text string) {
			if strings.TrimSpace(text) != "unseen" {
				m.note = "not pushed: golem review " + c.id() + " --all prints every line"
				return
			}
			begin()
		}}
	}
	ask(c.look.Held())
}
