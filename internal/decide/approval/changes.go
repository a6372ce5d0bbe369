package approval

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// Limits on what a request carries: changes and names in directories, bytes of those
// names, bytes of diffs, and bytes of old texts. A person who approves a request that
// omits something must name its digest.
const (
	MaxRows     = 100_000
	maxNames    = 16 << 20
	maxCarried  = 8 << 20
	maxOriginal = 1 << 20
)

// maxListed is how many effects are listed by name. If there are more, their directories
// are listed.
const maxListed = 200

// maxShown is the largest file whose content is compared.
const maxShown = filecontent.MaxCompared / 2

// A ChangeSet holds the changes of a command, or of a session, sorted into those to apply
// and those to skip.
type ChangeSet struct {
	op    string // the name of the tool
	files *sandbox.Sandbox
	t     *changes.Transaction

	skipped []string             // names, in order
	notes   map[string]*skipNote // by the reason
	// lastNote is the note of the last skipped change. The content of a skipped directory
	// follows it.
	lastNote *skipNote
	entries  []entry
	emptied  map[string]bool // cache of emptiesFile, by name
	parts    map[string]string
	left     string
	refusal  error
}

// An entry is a change with its name.
type entry struct {
	changes.Change
	name string
}

// Classify sorts the changes of a transaction into changes to apply, changes to skip, and
// changes that refuse the whole transaction. A protected path is applied if it is among
// named, except in .git.
func Classify(op string, files *sandbox.Sandbox, t *changes.Transaction, named ...string) *ChangeSet {
	l := &ChangeSet{op: op, files: files, t: t, notes: make(map[string]*skipNote), emptied: make(map[string]bool)}
	if len(t.Clash) > 0 {
		l.refusal = changes.ConflictError(op, t.Clash)
	}
	if t.Unfit != "" {
		l.refusal = &sandbox.Error{Op: op, Code: sandbox.ErrInvalid,
			Hint: t.Unfit + "; nothing was applied"}
	}
	repositories, protectedBy := l.repositoryFilter(), Protection(files, t.Open)
	for _, c := range t.Changes {
		e := entry{c, c.Name()}
		pattern := protectedBy(c)
		if slices.Contains(named, e.name) && pattern != ".git" {
			pattern = ""
		}
		switch {
		case l.isSkipped(e.name):
			if c.Kind != overlay.Dir {
				l.lastNote.count++
			}
		case pattern != "":
			l.skipped = append(l.skipped, e.name)
			l.noteSkipped(explainProtected(l.op, pattern), e)
		case repositories(e.name):
			l.skipped = append(l.skipped, e.name)
			l.noteSkipped("of a git repository (golem never applies changes there)", e)
		case c.OldKind == overlay.Dir && c.Kind != overlay.Dir && l.findProtected(c) != "":
			l.skipped = append(l.skipped, e.name)
			l.noteSkipped("because protected files are in it ("+l.findProtected(c)+")", e)
		case c.Kind == overlay.Special:
			l.skipped = append(l.skipped, e.name)
			l.noteSkipped("because golem applies no pipes, sockets or devices", e)
		default:
			if l.refusal == nil {
				l.refusal = l.checkLimits(e)
			}
			l.entries = append(l.entries, e)
		}
	}
	return l
}

// SetParts names, for files of which only some hunks are applied, those hunks. See
// tool.Change.Part.
func (l *ChangeSet) SetParts(parts map[string]string) { l.parts = parts }

// SetLeft sets the sentence about changes that stay in the session, for the question and the result.
func (l *ChangeSet) SetLeft(text string) { l.left = text }

// Protection returns a function for many changes. It returns the pattern or the rule that
// protects a changed path, "" if there is none. open returns the new content of a file.
func Protection(files *sandbox.Sandbox, open func(changes.Change) (*os.File, error)) func(changes.Change) string {
	byName := files.Protection()
	return func(c changes.Change) string {
		name := c.Name()
		switch pattern := byName(name); {
		case pattern != "":
			return pattern
		case c.Kind == overlay.Symlink:
			return files.ProtectedContent(name, nil)
		case c.Kind == overlay.File:
			return files.ProtectedContent(name, func() (io.ReadCloser, error) { return open(c) })
		}
		return ""
	}
}

// explainProtected says which files are skipped because a pattern protects them.
func explainProtected(op, pattern string) string {
	switch {
	case op != "apply_changes" && pattern == ".git":
		return "in .git (only clearance changes it)"
	case pattern == ".git":
		return "in .git (golem never applies changes there)"
	case op != "apply_changes":
		return "protected by " + pattern + " (only clearance changes such files)"
	}
	return "protected by " + pattern + " (golem applies such a file only if you name it)"
}

// findProtected returns the pattern of a protected path in a directory that was deleted
// or replaced, "" for none. The content of the directory goes with it.
func (l *ChangeSet) findProtected(c changes.Change) (pattern string) {
	protectedBy := l.files.Protection()
	err := l.t.Walk(c, func(name string, _ fs.DirEntry) bool {
		pattern = protectedBy(name)
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

// isSkipped reports whether a name is below a skipped one.
func (l *ChangeSet) isSkipped(name string) bool {
	n := len(l.skipped) // the content of a directory follows it
	return n > 0 && strings.HasPrefix(name, l.skipped[n-1]+"/")
}

// A skipNote counts the changes that are skipped for one reason.
type skipNote struct {
	count int
	first string // the name of the first one
}

// noteSkipped records that a change is skipped. Why completes "skipped 3 files …".
func (l *ChangeSet) noteSkipped(why string, e entry) {
	if l.notes[why] == nil {
		l.notes[why] = &skipNote{first: e.name}
	}
	if l.lastNote = l.notes[why]; e.Kind != overlay.Dir || e.Op != overlay.Create {
		l.lastNote.count++
	}
}

// Notes say which changes are skipped, a line for each reason.
func (l *ChangeSet) Notes() []string {
	var notes []string
	for _, why := range slices.Sorted(maps.Keys(l.notes)) {
		n := l.notes[why]
		text := "skipped " + visible.Count(max(n.count, 1), "file") + " " + why
		if !strings.HasPrefix(why, "in .git") {
			text += ": " + sandbox.Shown(n.first)
			if n.count > 1 {
				text += ", …"
			}
		}
		notes = append(notes, text)
	}
	if l.left != "" {
		notes = append(notes, l.left)
	}
	return notes
}

// checkLimits returns an error if the mount of a change does not allow it. Then nothing
// is applied.
func (l *ChangeSet) checkLimits(e entry) error {
	m, _ := l.files.MountOf(e.name)
	switch {
	case m.Access < sandbox.ReadWrite:
		return &sandbox.Error{Op: "write", Path: e.name, Code: sandbox.ErrReadOnly, Hint: "nothing was applied"}
	case e.Op == overlay.Delete || e.Kind != overlay.File:
		return nil
	case len(m.Suffixes) > 0 && !slices.ContainsFunc(m.Suffixes, func(s string) bool { return strings.HasSuffix(strings.ToLower(e.name), strings.ToLower(s)) }):
		return &sandbox.Error{Op: "write", Path: e.name, Code: sandbox.ErrSuffix, Hint: "allowed: " + strings.Join(m.Suffixes, ", ") + "; nothing was applied"}
	case m.MaxFileBytes > 0 && e.Size > m.MaxFileBytes:
		return &sandbox.Error{Op: "write", Path: e.name, Code: sandbox.ErrTooLarge, Hint: fmt.Sprintf("%d bytes, and at most %d are allowed; nothing was applied", e.Size, m.MaxFileBytes)}
	}
	return nil
}

// done returns what was done if the changes are applied.
func (l *ChangeSet) done() *tool.Done {
	ops := map[overlay.Op]tool.Op{overlay.Create: tool.Create, overlay.Modify: tool.Update, overlay.Delete: tool.Delete, overlay.Mode: tool.Update}
	list := make([]tool.Change, len(l.entries))
	for i, e := range l.entries {
		list[i] = tool.Change{Path: e.name, Op: ops[e.Op], OnlyMode: e.Op == overlay.Mode, Part: l.parts[e.name]}
	}
	return tool.NewDone(list)
}

// Deferred returns the changes for the gate, nil if there is nothing to apply.
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
			l.t.Walk(e.Change, func(name string, _ fs.DirEntry) bool {
				effects = append(effects, policy.Effect{Verb: policy.Delete, Target: name})
				return true
			})
		}
	}
	return &tool.DeferredChanges{
		Effects: effects, Listed: l.listEffects(), Changes: l.changes, Refusal: l.refusal,
		Apply: l.t.Applier(l.op, l.skipped), Discard: l.t.Discard, Done: l.done(), Final: l.t.WhyFinal(),
	}
}

func (e entry) effect() policy.Effect {
	if e.Op == overlay.Delete {
		return policy.Effect{Verb: policy.Delete, Target: e.name, Tree: e.OldKind == overlay.Dir}
	}
	return policy.Effect{Verb: policy.Write, Target: e.name}
}

// replacesDirectory reports whether something else takes the place of a directory.
func (e entry) replacesDirectory() bool {
	return e.Op != overlay.Delete && e.OldKind == overlay.Dir && e.Kind != overlay.Dir
}

// deletion is the effect of deleting the directory.
func (e entry) deletion() policy.Effect {
	return policy.Effect{Verb: policy.Delete, Target: e.name, Tree: true}
}

// emptiesFile reports whether the content of a file is lost: the file is blank now, or
// something else is in its place.
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

// isBlank reports whether a changed file has no visible character.
func (l *ChangeSet) isBlank(e entry) bool {
	if e.Size == 0 {
		return true
	}
	f, err := l.t.Open(e.Change)
	if err != nil {
		return false
	}
	defer f.Close()
	blank, err := filecontent.IsBlankReader(f)
	return err == nil && blank
}

// hadContent reports whether a file that is blank now had other content before.
func (l *ChangeSet) hadContent(e entry) bool {
	old, now, err := l.t.Content(e.Change, maxShown)
	return err != nil || len(old) > 0 && !bytes.Equal(old, now)
}

// listEffects returns the effects for a reader. A new directory stands for its content.
// If there are more than maxListed effects, their directories stand for them.
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

// changes returns all changes, as far as a request carries them, the riskiest first. If
// it omits some, the last row has their digest, so that an approval is bound to all of
// them. The warnings are about the changes as a whole.
func (l *ChangeSet) changes() (list []tool.Change, warnings []string) {
	rows := newRowList()
	var flags review.Collector
	gone := l.findGone()
	at := make(map[string]int, len(l.entries))
	for i, e := range l.entries {
		if at[e.name] = i; e.IgnoredIn != "" {
			at[e.name] += len(l.entries) // behind the others
		}
	}
	for _, e := range smallestFirst(l.entries) {
		rows.add(l.describe(e, &rows.budget, &flags, gone))
	}
	slices.SortFunc(rows.list, func(x, y tool.Change) int { return at[x.Path] - at[y.Path] })
	slices.SortStableFunc(rows.list, func(x, y tool.Change) int { return gone.priority(y) - gone.priority(x) })
	moved := slices.IndexFunc(rows.list, func(c tool.Change) bool { return gone.priority(c) == 0 })
	if moved < 0 {
		moved = len(rows.list)
	}
	all := flags.Flags()
	warnings = sortByRisk(rows.list, moved, all)
	if text := l.describeIgnored(all); text != "" {
		warnings = append(warnings, text)
	}
	if l.t.WhyFinal() != "" {
		warnings = append(warnings, visible.UndoNote(l.t.WhyFinal()))
	}
	if l.left != "" {
		warnings = append(warnings, l.left)
	}
	return rows.Changes(), warnings
}

// smallestFirst returns entries by their size, and directories that are gone behind all others, so
// that a large one leaves room for the others in a request.
func smallestFirst(entries []entry) []entry {
	size := func(e entry) int64 {
		if e.OldKind == overlay.Dir && e.Kind != overlay.Dir {
			return math.MaxInt64
		}
		return e.Size
	}
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(x, y entry) int { return cmp.Compare(size(x), size(y)) })
	return entries
}

// A rowList collects changes as far as a request carries them.
type rowList struct {
	budget budget
	list   []tool.Change
	rest   hash.Hash // of the changes that the request omits
	more   int       // how many these are
}

func newRowList() rowList {
	return rowList{budget: budget{rows: MaxRows, names: maxNames, bytes: maxCarried, originals: maxOriginal}, rest: sha256.New()}
}

func (r *rowList) add(c tool.Change) {
	if r.budget.addRow(c.Path + c.To) {
		r.list = append(r.list, c)
		return
	}
	r.more++
	fmt.Fprintf(r.rest, "%q %s %s %s %s %s\n", c.Path, c.Op, c.Mode, c.To, c.Base, c.Becomes)
}

// Changes returns the list. If the request omits some, the last row has their digest.
func (r *rowList) Changes() []tool.Change {
	if r.more == 0 {
		return r.list
	}
	return append(r.list, tool.Change{Path: "/", Op: tool.Update, About: fmt.Sprintf("and %d more changes", r.more), Becomes: hex.EncodeToString(r.rest.Sum(nil)), Omitted: "too many to list"})
}

// A budget is how much a request can still carry.
type budget struct{ rows, names, bytes, originals int }

// addRow counts a row and reports whether the request can carry it. After the first row
// that it cannot carry, it carries none.
func (b *budget) addRow(name string) bool {
	if b.rows <= 0 || len(name) > b.names {
		b.rows = 0
		return false
	}
	b.rows--
	b.names -= len(name)
	return true
}

// addBytes counts bytes of content and reports whether the request can carry them.
func (b *budget) addBytes(bytes int) bool {
	if bytes > b.bytes || b.rows <= 0 {
		return false
	}
	b.bytes -= bytes
	return true
}

// unusualMode returns a note with the permission bits of something new, "" if they are
// usual.
func (e entry) unusualMode() string {
	if IsUsualMode(e.Kind, e.Mode) {
		return ""
	}
	return fmt.Sprintf(", mode %04o", e.Mode)
}

// IsUsualMode reports whether a new file or directory has the permission bits that
// programs give it with the umask 022 or 002. A symlink has none, so its bits are always
// usual.
func IsUsualMode(kind overlay.Kind, mode uint32) bool {
	switch kind {
	case overlay.File:
		return mode == 0o644 || mode == 0o664
	case overlay.Dir:
		return mode == 0o755 || mode == 0o775
	}
	return true
}

// describe describes one change, and adds its flags.
func (l *ChangeSet) describe(e entry, b *budget, flags *review.Collector, gone *goneDirectories) tool.Change {
	c, r := l.describeContent(e, b)
	c.Part = l.parts[e.name]
	if e.OldKind == overlay.Dir && e.Kind != overlay.Dir {
		gone.addTree(e, &c, &r, b)
	}
	gone.compare(e, &c, &r)
	r.Ignored = e.IgnoredIn != ""
	gone.count(e, &c)
	switch {
	case e.Kind == overlay.Dir && e.Op != overlay.Delete: // a new directory is as risky as the files in it
	case gone.onlyMoved[e.name]:
		flags.AddKnown(r, nil)
	case gone.isWhollyMoved(e.name): // all its files are in another directory
	default:
		flags.Add(r)
	}
	if l.emptiesFile(e) {
		c.Empties = true
		c.About = strings.TrimPrefix(c.About+"; its content is deleted", "; ")
	}
	return c
}

func (l *ChangeSet) describeContent(e entry, b *budget) (c tool.Change, r review.FileChange) {
	c = tool.Change{Path: e.name, Op: tool.Update}
	r = ReviewChange(e.name, e.PathChange, nil, nil, "", false)
	switch {
	case e.Op == overlay.Delete:
		c.Op, c.About = tool.Delete, e.OldKind.Noun()
		if e.OldKind == overlay.Dir {
			c.About = "a directory"
		}
		return c, r
	case e.OldKind == overlay.Nothing:
		c.Op = tool.Create
	}
	c.Mode = fmt.Sprintf("%04o", e.Mode)
	switch e.Kind {
	case overlay.Dir:
		c.About = "directory" + e.unusualMode()
		return c, r
	case overlay.Symlink:
		c.About, c.Mode = "a symlink to "+sandbox.Shown(e.LinkTarget), ""
		if e.OldKind != overlay.Nothing && e.OldKind != overlay.Symlink {
			c.About += ", in place of a " + e.OldKind.Noun()
		}
		c.Becomes = "link " + e.LinkTarget
		return c, r
	}
	if e.Op == overlay.Mode {
		c.About, c.OnlyMode = fmt.Sprintf("permission bits %04o → %s", e.OldMode, c.Mode), true
		if e.Kind == overlay.File && e.Mode&^e.OldMode&0o111 != 0 {
			_, own, _ := l.t.Content(e.Change, maxShown)
			r = ReviewChange(e.name, e.PathChange, nil, ScriptLine(own), "", false)
		}
		return c, r
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
		c.About, c.Becomes, c.Omitted = visible.Amount(e.Size)+e.unusualMode(), overlay.Digest(l.t.Open(e.Change)), why
		if e.OldKind == overlay.File && e.OldMode != e.Mode {
			c.About += fmt.Sprintf(", permission bits %04o → %04o", e.OldMode, e.Mode)
		}
		if c.Becomes == "" {
			c.Becomes = "unread " + rand.Text() // no approval can match it
		}
		r.Cut = true
		return c, r
	}
	base := sandbox.Version{}
	if e.OldKind == overlay.File {
		base = base.With(old)
	}
	shown := tool.DescribeChange(e.name, base, old, new)
	shown.Mode = c.Mode
	r = ReviewChange(e.name, e.PathChange, old, new, shown.Diff, false)
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
		shown.About += ", in place of a " + e.OldKind.Noun()
	}
	return shown, r
}
