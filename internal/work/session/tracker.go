package session

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/ignored"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
)

// A tracker finds out what each command changed in the overlays of a session, for the
// journal. It lists the changes of the session at the end of a command, and compares them with
// the list from its start. A new session has none at its start. If several commands run at the
// same time, the one that ends first has the changes of all.
type tracker struct {
	mu     sync.Mutex
	isNew  bool               // the session began with this workspace, and no command has run
	ran    bool               // a command ran since the last report
	serves bool               // a service or server may change files at any time
	before map[string]tracked // by name; what the session had changed before the command
	unfit  string             // a name before the command that no list can have
	wrong  error              // why before is not known
	ended  *listed            // the list of the last report, until somebody may have changed files
}

// A listed is a list of all changes of a session.
type listed struct {
	changes []changes.Change
	unfit   string
}

// A tracked is a changed file at one time.
type tracked struct {
	changes.Change
	digest string // "" if golem has not read it
	text   []byte // nil if golem does not keep it
}

// Limits on the contents that a tracker reads at the end of a command, and that it keeps for the
// next one.
const (
	maxTrackedBytes = 64 << 20
	maxKeptFiles    = 1_000
	maxKeptBytes    = 16 << 20
)

// isSame reports whether a file did not change between two times. The time of a directory
// changes with the files in it.
func (t tracked) isSame(c changes.Change) bool {
	return t.Kind == c.Kind && t.Mode == c.Mode && t.LinkTarget == c.LinkTarget && (t.Kind == overlay.Dir || t.Size == c.Size && t.Ctime == c.Ctime)
}

// beginCommand notes that a command begins, or with serves a service.
func (w *Workspace) beginCommand(serves bool) {
	if w.changes == nil {
		return
	}
	t := &w.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serves, t.ended = t.serves || serves, nil
	if t.ran {
		return
	}
	t.ran = true
	if t.isNew {
		t.isNew, t.before = false, nil
		return
	}
	t.relist(w.changes)
}

// relist sets what the session has changed by now.
func (t *tracker) relist(o *changes.Overlays) {
	list, unfit, err := o.Changes()
	if t.unfit, t.wrong = unfit, err; err != nil {
		t.before = nil
		return
	}
	t.keep(o, list)
}

// keep makes list what the session had changed before the next command. It reads the files
// that it does not know yet, within limits.
func (t *tracker) keep(o *changes.Overlays, list []changes.Change) {
	texts := changes.OpenTexts(o)
	defer texts.Close()
	known, left := t.before, reading{maxKeptFiles, maxKeptBytes}
	t.before = make(map[string]tracked, len(list))
	for _, c := range list {
		now := tracked{Change: c}
		if c.Kind == overlay.File && left.take(c.Size) {
			if was, ok := known[c.Name()]; ok && was.isSame(c) && was.text != nil {
				now.digest, now.text = was.digest, was.text
			} else {
				now.read(texts)
			}
		}
		t.before[c.Name()] = now
	}
}

// read reads the session's version of a file.
func (t *tracked) read(from *changes.Texts) {
	c := t.Change
	c.OldKind = overlay.Nothing
	if _, own, err := from.Content(c, maxRead); err == nil && own != nil {
		t.text, t.digest = own, fmt.Sprintf("%x", sha256.Sum256(own))
	}
}

// CommandChanges returns what commands have changed in the session since the last call, for
// the journal: nil if no command ran, or none changed something.
func (w *Workspace) CommandChanges() *audit.Files {
	if w.changes == nil {
		return nil
	}
	t := &w.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isNew, t.ended = false, nil
	if !t.ran {
		return nil
	}
	t.ran = false
	list, unfit, err := w.changes.Changes()
	if err = cmp.Or(t.wrong, err); err != nil {
		t.before, t.wrong = nil, nil
		return &audit.Files{Unlisted: "golem could not list what the command changed"}
	}
	if !t.serves {
		t.ended = &listed{list, unfit}
	}
	texts := changes.OpenTexts(w.changes)
	defer texts.Close()
	found := t.compare(list, w.changes)
	w.findIgnored(found, list)
	slices.SortFunc(found, func(a, b trackedChange) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), settle.CompareFiles(a.file, b.file))
	})
	files, left := &audit.Files{List: make([]audit.File, 0, len(found))}, int64(maxTrackedBytes)
	for i, f := range found {
		if i < audit.MaxFiles && f.file.Place == "" {
			if !f.describe(texts, &left) {
				continue // the command only touched it
			}
			t.remember(f)
		}
		files.List = append(files.List, f.file)
	}
	if unfit != t.unfit { // otherwise an earlier command made it
		files.Unlisted = unlisted(unfit)
	}
	t.unfit = unfit
	if t.serves { // it may change files before the next call
		t.ran = true
		t.keep(w.changes, list)
	}
	if files.IsEmpty() {
		return nil
	}
	return files
}

// findIgnored finds out which changed files are new ones in ignored places.
func (w *Workspace) findIgnored(found []trackedChange, list []changes.Change) {
	marked := make([]changes.Change, 0, len(found))
	for _, f := range found {
		if f.now.Kind == overlay.Nothing && f.was != nil { // a new file of an earlier command
			f.now = f.was.Change
		}
		marked = append(marked, f.now)
	}
	for _, c := range list {
		if c.Kind == overlay.Dir && c.Op != overlay.Create { // it may be in the place of a symlink
			marked = append(marked, c)
		}
	}
	ignored.Mark(marked, w.store.sourceOf, w.store.Ignored, w.store.OwnIgnored)
	for i := range found {
		f := &found[i]
		f.file.Place = settle.Place(marked[i])
		f.rank = settle.Rank(f.file)
	}
}

// A trackedChange is what a command did to a file.
type trackedChange struct {
	file audit.File
	was  *tracked // how the session had changed the file before, nil if it had not
	now  changes.Change
	rank int

	isReal bool   // the new content is that of the user's directory
	text   []byte // the new content, if describe has read it
}

// compare returns what differs from the list before the command. It leaves out new directories
// with something in them.
func (t *tracker) compare(list []changes.Change, o *changes.Overlays) (found []trackedChange) {
	filled, there := make(map[string]bool), make(map[string]bool, len(list))
	for _, c := range list {
		name := c.Name()
		there[name] = true
		filled[name[:max(0, strings.LastIndexByte(name, '/'))]] = true
	}
	add := func(c changes.Change, op overlay.Op, was *tracked) {
		found = append(found, trackedChange{now: c, was: was, file: settle.FileOf(c, op)})
	}
	for _, c := range list {
		was, had := t.before[c.Name()]
		switch isNewDir := c.Kind == overlay.Dir && c.Op == overlay.Create; {
		case had && was.isSame(c) || isNewDir && filled[c.Name()]:
		case !had:
			add(c, c.Op, nil)
		case c.Op == overlay.Delete:
			add(c, overlay.Delete, &was)
		case was.Op == overlay.Delete:
			add(c, overlay.Create, &was)
		case was.Kind == overlay.Dir && c.Kind == overlay.Dir:
			add(c, overlay.Mode, &was)
		default:
			add(c, overlay.Modify, &was)
		}
	}
	for name := range t.before {
		filled[name[:max(0, strings.LastIndexByte(name, '/'))]] = true
	}
	for name, was := range t.before {
		if there[name] || was.Kind == overlay.Dir && filled[name] {
			continue
		}
		// The session has no change there any more. If the directory has the file, golem applied
		// the change, or the command restored the file.
		c := was.Change
		c.Op, c.OldKind = overlay.Delete, overlay.File
		_, real, err := o.States(c)
		c.Kind, c.OldKind, c.Size = overlay.Nothing, was.Kind, 0
		switch {
		case err != nil:
		case was.Op == overlay.Mode:
			if real.Kind == was.Kind && real.Mode != was.Mode {
				c.Kind, c.Size, c.Mode, c.Ctime = real.Kind, real.Size, real.Mode, 0
				add(c, overlay.Mode, &was)
				found[len(found)-1].isReal = true
			}
		case was.Op == overlay.Create && real.Kind == overlay.Nothing:
			add(c, overlay.Delete, &was)
		case real.Kind == overlay.File && (was.Op == overlay.Delete || was.digest != "" && was.digest != overlay.Digest(real.Open())):
			c.Kind, c.Size, c.Mode, c.Ctime = overlay.File, real.Size, real.Mode, 0
			add(c, map[overlay.Op]overlay.Op{overlay.Delete: overlay.Create, overlay.Modify: overlay.Modify}[was.Op], &was)
			found[len(found)-1].isReal = true
		}
	}
	return found
}

// remember keeps what golem has read of a changed file for the next command.
func (t *tracker) remember(f trackedChange) {
	if t.before == nil {
		t.before = make(map[string]tracked)
	}
	t.before[f.file.Path] = tracked{f.now, f.file.Digest, f.text}
}

// describe reads a changed file, if enough bytes are left. It adds the digest, and how many
// lines the command added and removed. It returns false if the command did not change the
// file.
func (f *trackedChange) describe(texts *changes.Texts, left *int64) bool {
	if f.file.Kind != "" {
		return true
	}
	isGone := f.file.Op == string(overlay.Delete)
	if f.file.Uncounted = true; f.now.Size > *left {
		return true
	}
	*left -= f.now.Size
	real, own := f.now, f.now // to read one version at a time
	real.Kind, real.OldKind, own.OldKind = overlay.Nothing, overlay.File, overlay.Nothing
	var old []byte
	hadFile := f.now.OldKind == overlay.File
	if f.was != nil {
		old, hadFile = f.was.text, f.was.Kind == overlay.File
	} else if hadFile {
		old, _, _ = texts.Content(real, maxRead)
	}
	switch {
	case isGone:
	case f.isReal:
		f.text, _, _ = texts.Content(real, maxRead)
	default:
		_, f.text, _ = texts.Content(own, maxRead)
	}
	switch {
	case f.text != nil:
		f.file.Digest = fmt.Sprintf("%x", sha256.Sum256(f.text))
	case !isGone && !f.isReal: // too large to compare
		file, err := texts.Open(own)
		f.file.Digest = overlay.Digest(file, err)
	}
	if f.was != nil && f.file.Digest != "" && f.was.digest == f.file.Digest {
		f.file.Op, f.file.Uncounted = string(overlay.Mode), false
		return f.was.Mode != f.now.Mode
	}
	if f.file.Op == string(overlay.Mode) {
		f.file.Uncounted = false
	} else if isRead := (old != nil || !hadFile) && (f.text != nil || isGone); isRead && filecontent.IsText(old) && filecontent.IsText(f.text) {
		f.file.Added, f.file.Removed = filecontent.CountDiffLines(filecontent.Diff("a", "b", filecontent.Decode(old, false), filecontent.Decode(f.text, false)))
		f.file.Uncounted = false
	}
	return true
}

// Files returns the changes for the journal, before golem deletes them.
func (l *ChangeList) Files() *audit.Files {
	texts := changes.OpenTexts(l.overlays)
	defer texts.Close()
	left := int64(maxTrackedBytes)
	ignored.Mark(l.changes, l.store.sourceOf, l.store.Ignored, l.store.OwnIgnored)
	files := settle.FilesOf(l.changes, func(c changes.Change) string {
		if left -= c.Size; left < 0 {
			return ""
		}
		f, err := texts.Open(c)
		return overlay.Digest(f, err)
	})
	files.Unlisted = unlisted(l.unfit)
	if others := l.overlays.OtherTargets(); len(others) > 0 {
		files.Unlisted = strings.TrimPrefix(files.Unlisted+"; changes of directories that are not mounted now: "+strings.Join(others, ", "), "; ")
	}
	return files
}

// unlisted says that there are names that no list has.
func unlisted(unfit string) string {
	if unfit == "" {
		return ""
	}
	return "names that golem cannot apply, such as " + unfit
}
