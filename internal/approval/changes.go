package approval

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// How much a request carries: so many changes and names in directories by name, and so
// many bytes of diffs and of old texts in all. A person who has not seen the rest must
// say so.
const (
	MaxRows     = 100_000
	maxNames    = 16 << 20 // bytes of the names in these
	maxCarried  = 8 << 20
	maxOriginal = 1 << 20
)

// maxListed is how many effects are listed by name. Of more, their directories are.
const maxListed = 200

// maxShown is the size of a file that is compared.
const maxShown = tool.MaxCompared / 2

// A Landing is what a command has changed, or what was taken of a session, on its
// way to the folders.
type ChangeSet struct {
	op    string // the tool
	files *sandbox.Sandbox
	t     *jail.Transaction

	skipped []string        // as commands name them
	notes   map[string]bool // that something in a folder is left out, and why
	entries []entry
	emptied map[string]bool // whether files were emptied, as far as that was looked at
	refusal error
}

// An entry is a change with the name that the file tools have for it.
type entry struct {
	jail.Change
	name string
}

// Classify sorts a transaction: what lands, what is left out, and what refuses all of it.
// A protected name lands where it is among those that the user has named.
func Classify(op string, files *sandbox.Sandbox, t *jail.Transaction, named ...string) *ChangeSet {
	l := &ChangeSet{op: op, files: files, t: t, notes: make(map[string]bool), emptied: make(map[string]bool)}
	if len(t.Clash) > 0 {
		l.refusal = l.conflictError(t.Clash)
	}
	if t.Unfit != "" {
		l.refusal = &sandbox.Error{Op: op, Code: sandbox.ErrInvalid,
			Hint: t.Unfit + ": names are text, with at most 255 bytes a part and 4,096 in all; nothing of it has landed"}
	}
	repositories := l.repositoryFilter()
	for _, c := range t.Changes {
		inside := path.Join(c.Target, c.Path)
		e := entry{c, jail.Outside(inside)}
		pattern := files.ProtectedBy(e.name)
		if slices.Contains(named, e.name) && pattern != ".git" {
			pattern = ""
		}
		switch {
		case l.isSkipped(inside):
		case pattern != "":
			l.skipped = append(l.skipped, inside)
			l.noteSkipped("is protected ("+pattern+") and "+l.explainProtected(pattern), e.name)
		case repositories(e.name):
			l.skipped = append(l.skipped, inside)
			l.noteSkipped("is part of what git would take for a repository, and never lands", e.name)
		case c.OldKind == overlay.Dir && c.Kind != overlay.Dir && l.findProtected(c) != "":
			l.skipped = append(l.skipped, inside)
			l.noteSkipped("holds what is protected ("+l.findProtected(c)+") and is not deleted", e.name)
		case c.Kind == overlay.Special:
			l.skipped = append(l.skipped, inside)
			l.noteSkipped("is a pipe, socket or device, which never lands", e.name)
		default:
			if l.refusal == nil {
				l.refusal = l.checkLimits(e)
			}
			l.entries = append(l.entries, e)
		}
	}
	return l
}

// explainProtected says when something that is protected changes.
func (l *ChangeSet) explainProtected(pattern string) string {
	switch {
	case l.op != "apply_changes":
		return "changes only by clearing"
	case pattern == ".git":
		return "never changes by applying"
	}
	return "is applied only where it is named itself"
}

// findProtected returns the pattern of a protected name in a folder that was deleted or
// replaced, "" for none. What goes with the folder is among the effects.
func (l *ChangeSet) findProtected(c jail.Change) (pattern string) {
	err := l.t.Below(c, func(inside string) bool {
		name := jail.Outside(inside)
		pattern = l.files.ProtectedBy(name)
		if pattern == "" && !l.files.CanWrite(name) {
			pattern = sandbox.Shown(name)
		}
		return pattern == ""
	})
	if err != nil && pattern == "" {
		return "it cannot be looked into"
	}
	return pattern
}

// isSkipped reports whether a name is in something that is left out.
func (l *ChangeSet) isSkipped(inside string) bool {
	n := len(l.skipped) // in order: what is in a folder comes behind it
	return n > 0 && strings.HasPrefix(inside, l.skipped[n-1]+"/")
}

// noteSkipped remembers that something is left out, by the folder it is in.
func (l *ChangeSet) noteSkipped(why, name string) {
	l.notes["left out: something in "+sandbox.Shown(path.Dir(name))+" "+why] = true
}

// Notes say what is left out, a line for each folder.
func (l *ChangeSet) Notes() []string {
	notes := slices.Sorted(maps.Keys(l.notes))
	if len(notes) > 20 {
		notes = append(notes[:20], fmt.Sprintf("left out: something in %d more folders", len(notes)-20))
	}
	return notes
}

// checkLimits returns why a change refuses all: limits of its mount.
func (l *ChangeSet) checkLimits(e entry) error {
	m, _ := l.files.MountOf(e.name)
	switch {
	case m.Access < sandbox.ReadWrite:
		return &sandbox.Error{Op: "write", Path: e.name, Code: sandbox.ErrReadOnly, Hint: "nothing of it has landed"}
	case e.Op == overlay.Delete || e.Kind != overlay.File:
		return nil
	case len(m.Suffixes) > 0 && !slices.ContainsFunc(m.Suffixes, func(s string) bool { return strings.HasSuffix(strings.ToLower(e.name), strings.ToLower(s)) }):
		return &sandbox.Error{Op: "write", Path: e.name, Code: sandbox.ErrSuffix, Hint: "allowed: " + strings.Join(m.Suffixes, ", ") + "; nothing of it has landed"}
	case m.MaxFileBytes > 0 && e.Size > m.MaxFileBytes:
		return &sandbox.Error{Op: "write", Path: e.name, Code: sandbox.ErrTooLarge, Hint: fmt.Sprintf("%d bytes, and %d are the most; nothing of it has landed", e.Size, m.MaxFileBytes)}
	}
	return nil
}

// conflictError is the error of names that others have changed meanwhile.
func (l *ChangeSet) conflictError(inside []string) *sandbox.Error {
	return &sandbox.Error{Op: l.op, Code: sandbox.ErrConflict,
		Hint: "changed by others meanwhile: " + ListNames(inside) + "; nothing of it has landed; run it again"}
}

// ListNames lists some names that commands have, as the file tools have them.
func ListNames(inside []string) string {
	var names []string
	for _, name := range inside {
		names = append(names, sandbox.Shown(jail.Outside(name)))
	}
	if len(names) > 10 {
		return strings.Join(names[:10], ", ") + " and " + Count(len(names)-10, "more")
	}
	return strings.Join(names, ", ")
}

// Count says how many of something there are.
func Count(n int, what string) string {
	if n == 1 || what == "more" {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// summary says in one line what has landed.
func (l *ChangeSet) summary() string {
	var first []string
	for _, e := range l.entries {
		word := map[overlay.Op]string{overlay.Create: "created", overlay.Modify: "changed", overlay.Delete: "deleted", overlay.Mode: "permissions of"}[e.Op]
		if len(first) < 8 {
			first = append(first, word+" "+sandbox.Shown(e.name))
		}
	}
	text := strings.Join(first, ", ")
	if more := len(l.entries) - len(first); more > 0 {
		text += " and " + Count(more, "more")
	}
	return text
}

// Deferred returns it as the gate takes it, nil where nothing is left to land.
func (l *ChangeSet) Deferred() *tool.DeferredChanges {
	if len(l.entries) == 0 && l.refusal == nil {
		return nil
	}
	var effects []policy.Effect
	for _, e := range l.entries {
		effects = append(effects, e.effect())
		if e.replacesDirectory() {
			effects = append(effects, e.deletion())
		}
		if l.emptiesFile(e) {
			effects = append(effects, policy.Effect{Verb: policy.Delete, Target: e.name})
		}
		if e.OldKind == overlay.Dir && e.Kind != overlay.Dir {
			l.t.Below(e.Change, func(inside string) bool {
				effects = append(effects, policy.Effect{Verb: policy.Delete, Target: jail.Outside(inside)})
				return true
			})
		}
	}
	return &tool.DeferredChanges{
		Effects: effects, Listed: l.listEffects(), Changes: l.changes, Refusal: l.refusal,
		Apply: func(context.Context) error {
			inside, err := l.t.Land(l.skipped)
			var known *sandbox.Error
			if errors.As(err, &known) {
				return known
			}
			if err != nil {
				return &sandbox.Error{Op: l.op, Code: sandbox.ErrInternal, Hint: "the changes could not be brought in: " + jail.Plain(err) + "; nothing of it has landed"}
			}
			if len(inside) > 0 {
				return l.conflictError(inside)
			}
			return nil
		},
		Discard: l.t.Drop, Summary: l.summary(),
	}
}

func (e entry) effect() policy.Effect {
	if e.Op == overlay.Delete {
		return policy.Effect{Verb: policy.Delete, Target: e.name, Tree: e.OldKind == overlay.Dir}
	}
	return policy.Effect{Verb: policy.Write, Target: e.name}
}

// replacesDirectory reports whether a folder went for something else.
func (e entry) replacesDirectory() bool {
	return e.Op != overlay.Delete && e.OldKind == overlay.Dir && e.Kind != overlay.Dir
}

// deletion is the effect that a folder is not there any more.
func (e entry) deletion() policy.Effect {
	return policy.Effect{Verb: policy.Delete, Target: e.name, Tree: true}
}

// emptiesFile reports whether what was in a file is gone: it is left without anything that can
// be seen, or something else stands in its place.
func (l *ChangeSet) emptiesFile(e entry) bool {
	switch {
	case e.OldKind != overlay.File || e.Op == overlay.Delete || e.Op == overlay.Mode:
		return false
	case e.Kind != overlay.File:
		return true
	}
	if known, ok := l.emptied[e.name]; ok {
		return known
	}
	l.emptied[e.name] = l.isBlank(e) && l.hadContent(e)
	return l.emptied[e.name]
}

// isBlank reports whether nobody can see anything in a changed file.
func (l *ChangeSet) isBlank(e entry) bool {
	if e.Size == 0 {
		return true
	}
	f, err := l.t.Open(e.Change)
	if err != nil {
		return false
	}
	defer f.Close()
	blank, err := tool.IsBlankReader(f)
	return err == nil && blank
}

// hadContent reports whether a file that is blank now held something else before.
func (l *ChangeSet) hadContent(e entry) bool {
	old, now, err := l.t.Content(e.Change, maxShown)
	return err != nil || len(old) > 0 && !bytes.Equal(old, now)
}

// listEffects returns the effects for who reads them: a new folder stands for what is in
// it, and where there are many the folder that they are in.
func (l *ChangeSet) listEffects() []policy.Effect {
	var list []policy.Effect
	known := make(map[policy.Effect]bool)
	alone := 0
	for _, e := range l.entries {
		if e.NewDir == "" {
			alone++
		}
	}
	for _, e := range l.entries {
		effect := e.effect()
		switch {
		case e.NewDir != "":
			continue
		case alone > maxListed:
			effect.Target, effect.Tree = path.Dir(e.name), true
		case e.Kind == overlay.Dir && e.Op != overlay.Mode:
			effect.Tree = true
		}
		if e.replacesDirectory() {
			list = append(list, e.deletion())
		}
		if !known[effect] {
			list, known[effect] = append(list, effect), true
		}
		if emptied := (policy.Effect{Verb: policy.Delete, Target: effect.Target, Tree: effect.Tree}); l.emptiesFile(e) && !known[emptied] {
			list, known[emptied] = append(list, emptied), true
		}
	}
	return list
}

// changes returns all changes, as far as a request carries them. The row after the last
// has a digest of the rest: an answer is bound to all of it.
func (l *ChangeSet) changes() []tool.Change {
	b := budget{rows: MaxRows, names: maxNames, bytes: maxCarried, originals: maxOriginal}
	var list []tool.Change
	rest, more := sha256.New(), 0
	for _, e := range l.entries {
		c := l.describe(e, &b)
		if b.addRow(c.Path + c.To) {
			list = append(list, c)
			continue
		}
		more++
		fmt.Fprintf(rest, "%q %s %s %s %s\n", c.Path, c.Op, c.Mode, c.To, c.Becomes)
	}
	if more > 0 {
		list = append(list, omittedChanges(more, hex.EncodeToString(rest.Sum(nil))))
	}
	return list
}

// omittedChanges returns the change that stands for those that a request does not carry.
func omittedChanges(more int, digest string) tool.Change {
	return tool.Change{Path: "/", Op: tool.Update, About: fmt.Sprintf("and %d more changes", more), Becomes: digest, Omitted: "too many to list"}
}

// A budget is how much a request still carries.
type budget struct{ rows, names, bytes, originals int }

// addRow reports whether a row with a name is carried, and counts it. After the first that
// is not, none is.
func (b *budget) addRow(name string) bool {
	if b.rows <= 0 || len(name) > b.names {
		b.rows = 0
		return false
	}
	b.rows--
	b.names -= len(name)
	return true
}

// addBytes reports whether a change of so many bytes is carried, and counts it.
func (b *budget) addBytes(bytes int) bool {
	if bytes > b.bytes || b.rows <= 0 {
		return false
	}
	b.bytes -= bytes
	return true
}

// unusualMode returns the permission bits of something new that are not the usual ones.
func (e entry) unusualMode() string {
	if IsUsualMode(e.Kind, e.Mode) {
		return ""
	}
	return fmt.Sprintf(", mode %04o", e.Mode)
}

// IsUsualMode reports whether a new file or directory has the permission bits that programs
// give them with the umask 022 or 002. Links have none.
func IsUsualMode(kind overlay.Kind, mode uint32) bool {
	switch kind {
	case overlay.File:
		return mode == 0o644 || mode == 0o664
	case overlay.Dir:
		return mode == 0o755 || mode == 0o775
	}
	return true
}

// describe describes one change. That a file becomes code when it is trusted is told with
// it: what lands is trusted.
func (l *ChangeSet) describe(e entry, b *budget) tool.Change {
	c := l.describeContent(e, b)
	if l.emptiesFile(e) {
		c.Empties = true
		c.About = strings.TrimPrefix(c.About+"; what was in it is gone", "; ")
	}
	if e.OldKind == overlay.Dir && e.Kind != overlay.Dir {
		l.addTree(e, &c, b)
	}
	if why, code := review.Code(e.name); code && c.Op != tool.Delete && e.Kind != overlay.Dir {
		c.About = strings.TrimPrefix(c.About+"; becomes code: "+why, "; ")
	}
	if why := review.NotOnWindows(e.name); why != "" && c.Op == tool.Create {
		c.About = strings.TrimPrefix(c.About+"; "+why, "; ")
	}
	return c
}

// addTree names what is in a directory that is deleted or replaced.
func (l *ChangeSet) addTree(e entry, c *tool.Change, b *budget) {
	sum, names := sha256.New(), 0
	err := l.t.Below(e.Change, func(inside string) bool {
		name := jail.Outside(inside)
		fmt.Fprintf(sum, "%q\n", name)
		if names++; b.addRow(name) {
			c.Tree = append(c.Tree, name)
		}
		return true
	})
	if names > 0 {
		c.About += fmt.Sprintf(", with %s", Count(names, "name"))
		c.Base = hex.EncodeToString(sum.Sum(nil))
	}
	switch more := names - len(c.Tree); {
	case err != nil:
		c.Omitted = "the directory cannot be read"
	case more > 0:
		c.Omitted = Count(more, "name") + " of the directory, too many to list"
	}
}

func (l *ChangeSet) describeContent(e entry, b *budget) tool.Change {
	c := tool.Change{Path: e.name, Op: tool.Update}
	switch {
	case e.Op == overlay.Delete:
		c.Op, c.About = tool.Delete, string(e.OldKind)
		if e.OldKind == overlay.Dir {
			c.About = "a folder, with all in it"
		}
		return c
	case e.OldKind == overlay.Nothing:
		c.Op = tool.Create
	}
	c.Mode = fmt.Sprintf("%04o", e.Mode)
	switch e.Kind {
	case overlay.Dir:
		c.About = "folder" + e.unusualMode()
		return c
	case overlay.Symlink:
		c.About, c.Mode = "a link to "+sandbox.Shown(e.LinkTarget), ""
		if e.OldKind != overlay.Nothing && e.OldKind != overlay.Symlink {
			c.About += ", in place of a " + string(e.OldKind)
		}
		c.Becomes = "link " + e.LinkTarget
		return c
	}
	if e.Op == overlay.Mode {
		c.About = fmt.Sprintf("permission bits %04o → %s", e.OldMode, c.Mode)
		return c
	}
	why := "there is too much to show"
	var old, new []byte
	if e.Size > maxShown {
		why = "too large to show"
	} else if b.addBytes(int(e.Size)) { // a diff is about as large
		var err error
		if old, new, err = l.t.Content(e.Change, maxShown); err == nil {
			why = ""
		} else {
			why = "it cannot be shown: too large before, or unreadable"
		}
	}
	if why != "" {
		c.About, c.Becomes, c.Omitted = tool.FormatSize(e.Size)+e.unusualMode(), l.t.Hash(e.Change), why
		if e.OldKind == overlay.File && e.OldMode != e.Mode {
			c.About += fmt.Sprintf(", permission bits %04o → %04o", e.OldMode, e.Mode)
		}
		if c.Becomes == "" {
			c.Becomes = "unread " + rand.Text() // no other answer is for it
		}
		return c
	}
	base := sandbox.Version{}
	if e.OldKind == overlay.File {
		base = base.With(old)
	}
	shown := tool.DescribeChange(e.name, base, old, new)
	shown.Mode = c.Mode
	if more := len(shown.Diff) - int(e.Size); more > 0 && !b.addBytes(more) {
		shown.Diff, shown.Omitted = "", "there is too much to show"
	}
	if shown.Original != nil {
		if b.originals -= len(*shown.Original); b.originals < 0 {
			shown.Original = nil
		}
	}
	if e.OldKind == overlay.File && e.OldMode != e.Mode {
		shown.About += fmt.Sprintf(", permission bits %04o → %04o", e.OldMode, e.Mode)
	}
	if e.OldKind != overlay.File {
		shown.About += e.unusualMode()
	}
	if e.OldKind != overlay.File && e.OldKind != overlay.Nothing {
		shown.About += ", in place of a " + string(e.OldKind)
	}
	return shown
}
