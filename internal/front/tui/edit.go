package tui

import (
	"io"
	"os"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/golem-forge/golem/internal/people/editor"
	"github.com/golem-forge/golem/internal/work/choice"
)

// An editing opens a hunk in the user's editor. It implements tea.ExecCommand.
type editing struct {
	terminal *os.File
	environ  []string
	text     string
}

// SetStdin implements tea.ExecCommand.
func (*editing) SetStdin(io.Reader) {}

// SetStdout implements tea.ExecCommand.
func (*editing) SetStdout(io.Writer) {}

// SetStderr implements tea.ExecCommand.
func (*editing) SetStderr(io.Writer) {}

// Run implements tea.ExecCommand.
func (e *editing) Run() (err error) {
	e.text, err = editor.Edit(editor.Command(e.environ), e.environ, e.terminal, "hunk.diff", e.text+choice.EditHelp)
	return err
}

// edited is a hunk that the user edited.
type edited struct {
	file *file
	item *choice.Item
	text string
	err  error
}

// edit opens a hunk in the user's editor.
func edit(terminal *os.File, environ []string, f *file, it *choice.Item) tea.Cmd {
	e := &editing{terminal, environ, it.Hunk.String()}
	return tea.Exec(e, func(err error) tea.Msg { return edited{f, it, e.text, err} })
}

// takeEdited replaces a hunk by the one that the user edited. It returns what to say.
func (f *file) takeEdited(e edited) string {
	at := slices.Index(f.items, e.item)
	if at < 0 {
		return "the file has changed meanwhile; the hunk was not edited"
	}
	edited, why := e.item.Edit(e.text, e.err)
	if edited != nil {
		f.at = at
		f.replace(edited)
	}
	return why
}

// replace replaces the current item.
func (f *file) replace(items ...*choice.Item) {
	for i, it := range f.items {
		it.Seen = f.sheet != nil && f.sheet.hasSeen(i)
	}
	f.items = slices.Replace(slices.Clone(f.items), f.at, f.at+1, items...)
	f.decided = slices.Replace(slices.Clone(f.decided), f.at, f.at+1, make([]decision, len(items))...)
	f.sheet = nil // the lines are other ones
}
