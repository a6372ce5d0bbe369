package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/editor"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

// applyPicked asks about each change, and applies those that the user chooses. The user has
// typed paths, whose names are named.
func (f *gateFlags) applyPicked(cmd *cobra.Command, w *workSession, r *session.Review, typed, named []string) error {
	terminal := findTerminal(false)
	if terminal == nil {
		return usageError("golem apply -p asks at a terminal, and there is none; golem apply PATH… and --hunks PATH:1,3 need no terminal with --yes")
	}
	items, skipped, err := w.pickItems(r, named)
	if err != nil {
		return err
	}
	skipped = append(w.skippedBy(r), skipped...)
	if len(items) == 0 {
		note(cmd, skipped...)
		return &sandbox.Error{Op: "apply", Code: sandbox.ErrNotFound, Hint: "session " + w.label() + " has no changes to choose from; golem diff" + w.option() + " shows why"}
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	fmt.Fprintf(cmd.ErrOrStderr(), "golem: %s: %s\n", w.title(), r.Total())
	asker := newAsker(terminal, cmd.ErrOrStderr(), f.wait)
	items, err = asker.pick(ctx, w, items)
	note(cmd, skipped...)           // behind the questions, whose first is the riskiest
	if errors.Is(err, errStopped) { // the question heard the signal; it reaches ctx in a moment
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	switch caught, is := errors.AsType[signaled](context.Cause(ctx)); {
	case is:
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: stopped; nothing was applied; golem apply"+w.option()+" -p asks again")
		return caught.atQuestion()
	case err != nil:
		if errors.Is(err, errClosed) {
			err = errStopped
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: %v; nothing was applied; golem apply%s -p asks again\n", err, w.option())
		return exit(exitDenied)
	}
	parts, shown, err := choice.Parts(items)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: you chose nothing; nothing was applied; golem apply"+w.option()+" -p asks again, golem discard"+w.option()+" deletes the changes")
		return exit(exitDenied)
	}
	c := newUserCall(cmd, f, settle.ApplyArgs{Parts: parts})
	c.before = seenBefore{items: shown.Items, repeats: asker.hasScrolled(items), changed: func(r tool.Request) (paths []string) {
		for _, name := range shown.Changed(r) {
			paths = append(paths, w.pathOf(name))
		}
		return paths
	}}
	c.applies(w, r, typed, false)
	return c.run()
}

// hasScrolled reports whether an item that the user chose is no longer on screen.
func (a *asker) hasScrolled(items []*choice.Item) bool {
	const question = 8 // lines of the question that follows
	first := slices.IndexFunc(items, func(it *choice.Item) bool { return it.Chosen })
	_, height := a.screen.size()
	return first >= 0 && a.printed-items[first].Drawn+question > height
}

// pickItems returns what can be chosen, the riskiest file first. skipped says what cannot.
func (w *workSession) pickItems(r *session.Review, named []string) (items []*choice.Item, skipped []string, err error) {
	contents, err := w.program.Storage.Sessions.OpenContents(w.Session)
	if err != nil {
		return nil, nil, err
	}
	defer contents.Close()
	flags, paths := choice.FlagsOf(r), choice.PathsOf(r)
	for _, c := range r.Files {
		switch paths.ObstacleOf(c, slices.Contains(named, c.Path)) {
		case choice.Conflict:
			skipped = append(skipped, w.shown(c.Path)+" changed in your directory too; golem apply --merge "+w.shown(c.Path)+" combines both versions")
			continue
		case choice.Protected:
			skipped = append(skipped, w.shown(c.Path)+" is protected ("+c.Protected+"); golem apply -p "+w.shown(c.Path)+" asks about it")
			continue
		case choice.Holds:
			skipped = append(skipped, w.shown(c.Path)+": "+w.stays(c))
			continue
		case choice.Special:
			skipped = append(skipped, w.shown(c.Path)+" is a pipe, socket or device, which golem never applies")
			continue
		case choice.Covered:
			continue
		}
		file := choice.NewFile(c, flags)
		if err := file.Read(contents); err != nil {
			return nil, nil, err
		}
		items = append(items, file.Items()...)
	}
	return items, skipped, nil
}

// itemRows returns an item as text. number and count say which of the items it is.
func itemRows(it *choice.Item, w *workSession, number, count int, first bool) []row {
	name := w.shown(it.File.Path) + slash(it.File.FileChange)
	head := fmt.Sprintf("%d of %d: ", number, count)
	var rows []row
	diff := ""
	switch {
	case it.Mode:
		head += name + ", permission bits " + it.File.OldMode + " → " + it.File.Mode
	case it.Hunk != nil:
		added, removed := it.Hunk.Count()
		head += fmt.Sprintf("%s (+%d -%d)", name, added, removed)
		if it.Edited {
			head += ", as you edited it"
		}
		diff = it.Hunk.String()
	default:
		word := map[overlay.Op]string{overlay.Create: "new ", overlay.Delete: "delete "}[it.File.Op]
		about := what(it.File.FileChange)
		if !strings.HasPrefix(about, "(") {
			about = "(" + about + ")"
		}
		head += word + name + " " + about
		if it.File.UnusualMode {
			head += ", permissions " + it.File.Mode
		}
		switch from := it.File.From; {
		case from != "" && it.File.Edited:
			head += ", moved from " + w.shown(from) + " and edited"
		case from != "":
			head += ", only moved from " + w.shown(from)
		}
		diff = it.File.WholeDiff() // a list has no diff of a moved file; the approval covers all of it
	}
	rows = append(rows, row{Mark: visible.Header, Text: head})
	if first {
		v := reviewText{workSession: w, review: &session.Review{Files: []session.FileChange{it.File.FileChange}}}
		for _, f := range it.File.Flags {
			rows = append(rows, row{Mark: warning, Text: visible.Text(v.flag(f))})
		}
	}
	for r := range visible.Diff(diff) {
		rows = append(rows, row{Mark: r.Mark, Text: visible.Text(r.Text)})
	}
	return rows
}

// A picker asks which items to apply.
type picker struct {
	*question
	work  *workSession
	items []*choice.Item
	at    int // the item that is asked about

	rows []row
	top  spot // where the page on screen begins
	next spot // where the next page begins
	wide int  // columns of the screen
}

// A spot is a line of a row.
type spot struct{ row, line int }

// pick asks about each item. Splitting a hunk makes more items. An error means that the
// user stopped, and nothing is chosen.
func (a *asker) pick(ctx context.Context, w *workSession, items []*choice.Item) ([]*choice.Item, error) {
	q, done, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	p := &picker{question: q, work: w, items: items}
	q.redraw, q.options = p.draw, p.keysNow
	if q.partial {
		q.say("\n")
	}
	for p.at < len(p.items) {
		quit, err := p.askItem()
		if err != nil {
			return nil, err
		}
		if quit {
			break
		}
	}
	return p.items, q.failed
}

// askItem asks about the current item, and moves on to the next one to ask about.
func (p *picker) askItem() (quit bool, err error) {
	first := p.at == 0 || p.items[p.at-1].File != p.items[p.at].File
	p.items[p.at].Drawn = p.printed
	p.rows, p.top = itemRows(p.items[p.at], p.work, p.at+1, len(p.items), first), spot{}
	p.say("\n")
	p.question.draw()
	for range maxTypos {
		text, err := p.read()
		if err != nil && !errors.Is(err, errTypo) {
			return false, err
		}
		word := strings.ToLower(text)
		if errors.Is(err, errTypo) {
			word = "-"
		}
		moved, quit, err := p.answer(word)
		if moved || quit || err != nil {
			return quit, err
		}
	}
	return false, errLate
}

// answer acts on an answer. moved is true if the question about this item is over.
func (p *picker) answer(word string) (moved, quit bool, err error) {
	it := p.items[p.at]
	switch word {
	case "y", "yes":
		if !p.whole() {
			p.typo("this is not shown completely; Enter shows the next page")
			return false, false, nil
		}
		it.Chosen, it.Seen = true, true
		p.at++
	case "":
		if !p.whole() {
			p.top = p.next
			p.draw()
			return false, false, nil
		}
		p.at++
	case "n", "no":
		p.at++
	case "a", "d":
		for ; p.at < len(p.items) && p.items[p.at].File == it.File; p.at++ {
			p.items[p.at].Chosen = word == "a"
			p.items[p.at].Seen = p.items[p.at] == it && p.whole()
		}
	case "q":
		return true, true, nil
	case "?":
		p.show(help(p.explain()))
		p.typo("")
		return false, false, nil
	case "s":
		if parts := p.parts(); len(parts) > 0 {
			p.items = slices.Replace(p.items, p.at, p.at+1, parts...)
			p.show([]row{{Mark: about, Text: "split into " + visible.Count(len(parts), "hunk")}})
			return true, false, nil
		}
		p.typo("this cannot be split further")
		return false, false, nil
	case "e":
		if it.Hunk == nil {
			p.typo("only a hunk of a text can be edited")
			return false, false, nil
		}
		return p.edit(it)
	default:
		p.typo("please answer " + p.please())
		return false, false, nil
	}
	return true, false, nil
}

// whole reports whether all of the item was on screen.
func (p *picker) whole() bool { return p.next.row >= len(p.rows) }

// parts returns the current item split into smaller hunks.
func (p *picker) parts() []*choice.Item { return p.items[p.at].Split() }

// draw shows a page of the item, and the keys.
func (p *picker) draw() {
	columns, height := p.screen.size()
	room := max(1, height-2-len(p.keyLines(p.keys(false)...)))
	if columns != p.wide { // the rows have other lines now
		p.wide, p.top.line = columns, 0
	}
	at := p.top
	var b strings.Builder
	for used := 0; at.row < len(p.rows) && used < room; {
		lines := p.rows[at.row].Barred(columns, !p.screen.plain)
		b.WriteString(lines[at.line])
		used++
		if at.line++; at.line >= len(lines) {
			at = spot{row: at.row + 1}
		}
	}
	p.next = at
	p.say(b.String())
	p.showKeys(p.keysNow()...)
}

func (p *picker) keysNow() []string { return p.keys(p.whole()) }

// keys returns the keys for the item, if all or only a part of it was shown.
func (p *picker) keys(whole bool) []string {
	var keys []string
	if whole {
		keys = append(keys, "[y]es", "[n]o")
	} else {
		keys = append(keys, "[Enter] next page", "[n]o")
	}
	keys = append(keys, "[a]ll of the file", "[d]one with the file")
	if len(p.parts()) > 0 {
		keys = append(keys, "[s]plit")
	}
	if p.items[p.at].Hunk != nil {
		keys = append(keys, "[e]dit")
	}
	return append(keys, "[q]uit", "[?]")
}

// please lists the valid answers after a typo.
func (p *picker) please() string {
	answers := []string{"y", "n", "a", "d"}
	if !p.whole() {
		answers[0] = "Enter"
	}
	if len(p.parts()) > 0 {
		answers = append(answers, "s")
	}
	if p.items[p.at].Hunk != nil {
		answers = append(answers, "e")
	}
	return strings.Join(answers, ", ") + ", q or ? (help)"
}

// explain returns the explanation of each key.
func (p *picker) explain() []key {
	return []key{{"y", "apply this"}, {"n, Enter", "do not apply this; it stays in the session"},
		{"a", "apply this and the rest of the file; golem shows the rest before it applies anything"},
		{"d", "apply neither this nor the rest of the file"},
		{"s", "split this hunk into smaller ones"}, {"e", "edit this hunk in your editor (VISUAL, EDITOR)"},
		{"q", "apply what you chose so far, and nothing more"}, {"Ctrl-C, Ctrl-D", "stop, and apply nothing"}}
}

// edit opens a hunk in the user's editor. Then golem asks about the edited hunk.
func (p *picker) edit(it *choice.Item) (moved, quit bool, err error) {
	p.letGo()
	p.letGo = func() {}
	text, failed := editor.Edit(editor.Command(os.Environ()), os.Environ(), p.screen.file, "hunk.diff", it.Hunk.String()+choice.EditHelp)
	if err := p.hold(p.ctx); err != nil {
		return false, false, err
	}
	if p.ctx.Err() != nil {
		return false, false, errStopped
	}
	edited, why := it.Edit(text, failed)
	if edited == nil {
		p.typo(why)
		return false, false, nil
	}
	p.items[p.at] = edited
	return true, false, nil
}
