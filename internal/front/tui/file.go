package tui

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/editor"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
)

// A decision about an item is what the user chose.
type decision int

// The decisions.
const (
	undecided decision = iota
	chosen
	declined
)

// A file is a changed file on the screen.
type file struct {
	*choice.File
	path     string // as the user types it
	obstacle choice.Obstacle
	loading  bool
	loaded   bool
	problem  string // why it cannot be shown
	items    []*choice.Item
	decided  []decision   // for each item
	at       int          // the current item
	sheet    *sheet       // nil before it was drawn
	top      int          // the first line on the screen
	made     layout       // of the sheet
	was      *file        // the same file before the changes were read again
	hit      int          // the line that the last search found
	staged   *tool.Change // the change, if it is one of a staged commit
}

// take adds the contents that were read, or the reason why there are none.
func (f *file) take(msg loaded) {
	f.loading = false
	if msg.err != nil {
		f.problem = visible.Line(msg.err.Error(), maxNote)
		return
	}
	f.setContents(msg.real, msg.own)
}

// setContents adds the contents. If they are those of the same file before, the user's
// choice counts further, and so does what was on the screen.
func (f *file) setContents(real, own []byte) {
	f.Real, f.Own, f.loaded, f.loading = real, own, true, false
	if w := f.was; w != nil && w.loaded && w.Op == f.Op && w.Kind == f.Kind && w.Mode == f.Mode && bytes.Equal(w.Real, real) && bytes.Equal(w.Own, own) {
		f.items, f.decided, f.at, f.sheet, f.top, f.made = w.items, w.decided, w.at, w.sheet, w.top, w.made
		for _, it := range f.items {
			it.File = f.File
		}
	} else {
		f.items = f.Items()
		f.decided = make([]decision, len(f.items))
	}
	f.was = nil
}

// arrange makes the lines for a layout, if it has others.
func (f *file) arrange(l layout) {
	if f.sheet != nil && f.made == l || !f.loaded {
		return
	}
	var lines []line
	row := 0
	for i, it := range f.items {
		lines = append(lines, line{row: row, item: i, head: true, find: f.path})
		row++
		for _, r := range f.notes(i) {
			lines = l.appendRow(lines, row, i, painted{Row: r})
			row++
		}
		diff := ""
		switch {
		case it.Hunk != nil:
			diff = it.Hunk.String()
		case f.staged != nil:
			diff = f.staged.Diff
		case !it.Mode:
			diff = f.WholeDiff()
		}
		lines, row = l.appendDiff(lines, row, i, l.paintRows(f.path, diff))
	}
	old, was := f.sheet, f.made
	f.sheet, f.made = newSheet(lines), l
	f.top = min(f.top, max(0, len(lines)-1))
	switch {
	case old == nil:
		for i, l := range lines {
			if f.items[l.item].Seen {
				f.sheet.mark(i, i+1)
			}
		}
	case was.isWide() == l.isWide():
		f.sheet.markRows(old.rowsSeen())
	default: // the rows are other ones
		for i, l := range lines {
			if old.hasSeen(l.item) {
				f.sheet.mark(i, i+1)
			}
		}
	}
}

// notes returns what to say about an item before its lines.
func (f *file) notes(i int) (rows []visible.Row) {
	warn := func(text string) { rows = append(rows, visible.Row{Mark: visible.Warning, Text: text}) }
	it := f.items[i]
	if f.staged != nil {
		if f.staged.About != "" {
			rows = append(rows, visible.Row{Mark: visible.Detail, Text: f.staged.About})
		}
		if f.staged.Omitted != "" {
			rows = append(rows, visible.Row{Mark: visible.Hidden, Text: "golem does not show the content: " + f.staged.Omitted})
		}
		return rows
	}
	if it.Mode {
		rows = append(rows, visible.Row{Mark: visible.Detail, Text: "permission bits " + f.OldMode + " → " + f.Mode})
		return rows
	}
	if i == 0 || i == 1 && f.items[0].Mode {
		switch f.obstacle {
		case choice.Conflict:
			warn("changed in your directory too: golem apply --merge combines both versions, golem apply --overwrite takes the session's")
		case choice.Protected:
			warn("protected (" + f.Protected + "): A applies it only if you choose it here with y or a")
		case choice.Holds:
			warn(choice.Stays(f.FileChange) + "; delete it yourself, or discard the change")
		case choice.Special:
			warn("a pipe, socket or device, which golem never applies")
		}
	}
	if it.Hunk != nil {
		return rows
	}
	switch {
	case f.Op == overlay.Mode:
		rows = append(rows, visible.Row{Mark: visible.Detail, Text: "permission bits " + f.OldMode + " → " + f.Mode})
	case f.Kind == overlay.Symlink:
		rows = append(rows, visible.Row{Mark: visible.Detail, Text: "a symlink to " + visible.Name(f.LinkTarget)})
	case f.Kind == overlay.Dir:
		rows = append(rows, visible.Row{Mark: visible.Detail, Text: "a directory"})
	case f.Op == overlay.Delete && f.OldKind == overlay.Dir:
		rows = append(rows, visible.Row{Mark: visible.Detail, Text: "a directory with its contents"})
	case f.Binary:
		rows = append(rows, visible.Row{Mark: visible.Hidden, Text: "binary, " + visible.Amount(f.Size) + "; golem cannot show it"})
	case f.Op == overlay.Create && f.Own != nil && len(f.Own) == 0:
		rows = append(rows, visible.Row{Mark: visible.Detail, Text: "an empty file"})
	case f.Real == nil && f.Own == nil && f.Kind == overlay.File:
		rows = append(rows, visible.Row{Mark: visible.Hidden, Text: "too large to compare, " + visible.Amount(f.Size)})
	}
	if f.UnusualMode {
		warn("permissions " + f.Mode)
	}
	return rows
}

// headOf returns the first line of an item.
func (f *file) headOf(i int) string {
	it := f.items[i]
	text := ""
	hunks, number := 0, 0
	for k, other := range f.items {
		if other.Hunk != nil {
			if hunks++; k == i {
				number = hunks
			}
		}
	}
	switch {
	case it.Mode:
		text = "permissions"
	case it.Hunk != nil:
		added, removed := it.Hunk.Count()
		text = fmt.Sprintf("hunk %d of %d, %s", number, hunks, visible.LineCounts(added, removed))
		if it.Edited {
			text += ", as you edited it"
		}
	default:
		text = map[overlay.Op]string{overlay.Create: "new", overlay.Delete: "deleted"}[f.Op]
		if text == "" {
			text = "changed"
		}
	}
	switch f.decided[i] {
	case chosen:
		text += "  [yes]"
	case declined:
		text += "  [no]"
	}
	return text
}

// counts returns how many lines are added and removed, as short as possible.
func (f *file) counts() string {
	switch {
	case f.Binary:
		return "bin"
	case f.Kind == overlay.Symlink:
		return "link"
	case f.Op == overlay.Mode:
		return "mode"
	case f.Unread:
		return "?"
	}
	var parts []string
	if f.Added > 0 {
		parts = append(parts, fmt.Sprintf("+%d", f.Added))
	}
	if f.Removed > 0 {
		parts = append(parts, fmt.Sprintf("-%d", f.Removed))
	}
	return strings.Join(parts, " ")
}

// isViewed reports whether all of the file was on the screen.
func (f *file) isViewed() bool { return f.loaded && f.sheet != nil && f.sheet.left == 0 }

// state returns two letters: whether the file was viewed, and what the user chose of it.
func (f *file) state() string {
	viewed, choice := " ", " "
	if f.isViewed() {
		viewed = "v"
	}
	yes, no := 0, 0
	for _, d := range f.decided {
		switch d {
		case chosen:
			yes++
		case declined:
			no++
		}
	}
	switch {
	case yes > 0 && yes == len(f.decided):
		choice = "y"
	case no > 0 && no == len(f.decided):
		choice = "n"
	case yes+no > 0:
		choice = "p"
	}
	return viewed + choice
}

// scroll moves the first line on the screen. The current item stays on the screen.
func (f *file) scroll(by, room int) {
	if f.sheet == nil {
		return
	}
	f.top = min(max(0, f.top+by), max(0, len(f.sheet.lines)-room))
	visible := func(item int) bool {
		for i := f.top; i < min(f.top+room, len(f.sheet.lines)); i++ {
			if f.sheet.lines[i].item == item {
				return true
			}
		}
		return false
	}
	if !visible(f.at) && f.top < len(f.sheet.lines) {
		f.at = max(0, f.sheet.lines[f.top].item)
	}
}

// moveTo makes an item the current one, and shows its beginning.
func (f *file) moveTo(item, room int) {
	if f.sheet == nil || item < 0 || item >= len(f.items) {
		return
	}
	f.at = item
	first, last := f.sheet.firstOf(item), f.sheet.firstOf(item)
	for last+1 < len(f.sheet.lines) && f.sheet.lines[last+1].item == item {
		last++
	}
	if first < f.top || last >= f.top+room {
		f.top = min(first, max(0, len(f.sheet.lines)-room))
	}
}

// pick returns the items to apply. explicit says whether the user chose something with y
// or a. If not, everything counts as chosen that the user did not decline.
func (f *file) pick(explicit bool) (items []*choice.Item) {
	if !f.loaded {
		if w := f.was; w != nil && w.loaded {
			return nil // its content is being read
		}
		if !explicit && f.obstacle == choice.None {
			return []*choice.Item{{File: f.File, Chosen: true}}
		}
		return nil
	}
	for i, it := range f.items {
		it.Chosen = f.decided[i] == chosen || !explicit && f.obstacle == choice.None && f.decided[i] != declined
		it.Seen = f.sheet != nil && f.sheet.hasSeen(i)
		items = append(items, it)
	}
	return items
}

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
