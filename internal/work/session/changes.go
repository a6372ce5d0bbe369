package session

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

// A FileChange is a change that a session has made to a file, symlink or directory. It
// compares with the user's directory as it is now. A change to a new directory stands for
// all that is in it.
type FileChange struct {
	Path        string       `json:"path"`
	Op          overlay.Op   `json:"operation"`
	Kind        overlay.Kind `json:"kind,omitempty"`
	OldKind     overlay.Kind `json:"was,omitempty"`
	Size        int64        `json:"size,omitempty"`
	Mode        string       `json:"mode,omitempty"`
	OldMode     string       `json:"had,omitempty"`       // the old mode, if it is another
	Ignored     bool         `json:"ignored,omitempty"`   // git ignores the new file
	UnusualMode bool         `json:"-"`                   // it is new, and its mode is not the usual one
	LinkTarget  string       `json:"to,omitempty"`        // the target of a symlink
	Files       int          `json:"files,omitempty"`     // the number of files in a new directory, or in one that is deleted or replaced
	From        string       `json:"from,omitempty"`      // the old path of a file in a moved directory; Added, Removed and Diff compare with it
	Edited      bool         `json:"edited,omitempty"`    // it differs from the file at From
	MovedTo     string       `json:"moved_to,omitempty"`  // where the files of a deleted directory are now; Files counts those that are not there
	Conflict    bool         `json:"conflict"`            // the user's directory has changed there too
	Protected   string       `json:"protected,omitempty"` // the pattern that protects it, or with Inside something in it
	Inside      bool         `json:"holds,omitempty"`     // Protected or Git is about something in it
	Git         bool         `json:"git,omitempty"`       // it is part of a git repository, and golem never applies it
	Added       int          `json:"added"`               // lines
	Removed     int          `json:"removed"`
	Binary      bool         `json:"binary,omitempty"`
	Unread      bool         `json:"unread,omitempty"` // golem did not read it, for example because it is too large
	Enough      bool         `json:"-"`                // golem did not read it, because it had read enough others
	Diff        string       `json:"diff,omitempty"`
	GitModes    [2]string    `json:"-"` // before and after, as git writes them; 000000 if there is no file
}

// Limits on what is read to count lines: files, their bytes, and the bytes of one file.
const (
	maxCounted      = 10_000
	maxCountedBytes = 64 << 20
	maxRead         = filecontent.MaxCompared / 2
)

// A reading is how much golem still reads to count lines.
type reading struct {
	files int
	bytes int64
}

func newReading() reading { return reading{maxCounted, maxCountedBytes} }

// reads reports whether golem reads the contents of a change, if it has some.
func (r *reading) reads(c changes.Change) bool {
	return c.Kind != overlay.File && c.OldKind != overlay.File || r.take(c.Size)
}

// take reports whether golem reads a file of a size. A file that is too large takes nothing from
// the others.
func (r *reading) take(size int64) bool {
	if r.files <= 0 || size > min(maxRead, r.bytes) {
		return false
	}
	r.files--
	r.bytes -= size
	return true
}

// readable reports which of some changes golem reads to count their lines: those that wanted
// returns true for, the smallest first, so that a large file leaves room for the others.
func readable(list []changes.Change, wanted func(changes.Change) bool) []bool {
	var order []int
	for i, c := range list {
		if wanted(c) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[a].Size, list[b].Size) })
	reads, left := make([]bool, len(list)), newReading()
	for _, i := range order {
		reads[i] = left.reads(list[i])
	}
	return reads
}

// Changes lists what a session has changed at and below some names; without names, all of
// it. With diffs it adds the diffs. unfit is not "" if there are names that no sandbox
// allows.
func (s Sessions) Changes(one *Session, names []string, diffs bool) (list []FileChange, unfit string, err error) {
	l, err := s.ListChanges(one)
	if err != nil {
		return nil, "", err
	}
	defer l.Close()
	files, err := l.resolve(names)
	if err != nil {
		return nil, "", err
	}
	list = []FileChange{}
	at := make(map[string]int) // indexes of the new directories
	texts := changes.OpenTexts(l.overlays)
	defer texts.Close()
	ofGit, protectedBy := repositoriesAmong(files, l.changes), approval.Protection(files, texts.Open)
	left, lost := newReading(), newLosses(texts)
	for _, c := range l.changes {
		if len(names) > 0 && !anyWithin(names, c.Name()) {
			continue
		}
		// A new directory stands for all that is in it, except for directories with an
		// unusual mode.
		odd := c.Op == overlay.Create && !approval.IsUsualMode(c.Kind, c.Mode)
		if i, in := at[path.Join(c.Target, c.NewDir)]; in && c.NewDir != "" && !diffs && !(odd && c.Kind == overlay.Dir) {
			if c.Kind == overlay.File {
				list[i].Files++
				list[i].Size += c.Size
			}
			if pattern := protectedBy(c); pattern != "" && list[i].Protected == "" {
				list[i].Protected, list[i].Inside = pattern, true
			}
			if !list[i].Git && ofGit(c.Name()) {
				list[i].Git, list[i].Inside = true, true
			}
			continue
		}
		if c.Kind == overlay.Dir && c.Op == overlay.Create {
			at[c.Name()] = len(list)
		}
		d, _ := changedOf(texts, c, protectedBy(c), diffs || left.reads(c), diffs)
		lost.add(c, &d, files)
		d.Git = ofGit(c.Name())
		list = append(list, d)
	}
	return list, l.unfit, nil
}

// repositoriesAmong reports of changed names whether git takes a directory above them for a
// repository: see approval.Repositories.
func repositoriesAmong(files *sandbox.Sandbox, standing []changes.Change) func(name string) bool {
	after := make(map[string]bool, len(standing))
	for _, c := range standing {
		after[c.Name()] = c.Op != overlay.Delete
	}
	return approval.NewRepositoryFilter(after, func(name string) bool {
		there, err := files.Exists(name)
		return err == nil && there
	})
}

// texts are the contents of a changed file, in the user's directory and in the session,
// and their diff. Nil stands for no file, and for one that was not read.
type texts struct {
	real, own []byte
	diff      string
}

// changedOf describes a change, which a pattern may protect. Read says whether to read the
// contents, and diffs whether to compare them line by line.
func changedOf(from *changes.Texts, c changes.Change, protected string, read, diffs bool) (FileChange, texts) {
	d := FileChange{Path: c.Name(), Op: c.Op, Kind: c.Kind, OldKind: c.OldKind, Size: c.Size, LinkTarget: c.LinkTarget, Conflict: c.Conflict, Protected: protected,
		GitModes: [2]string{approval.GitMode(c.OldKind, c.OldMode), approval.GitMode(c.Kind, c.Mode)}}
	if c.Op != overlay.Delete && c.Kind != overlay.Symlink {
		d.Mode = fmt.Sprintf("%04o", c.Mode)
	}
	d.UnusualMode = (c.Op == overlay.Create || c.Op != overlay.Delete && c.OldKind != c.Kind) && !approval.IsUsualMode(c.Kind, c.Mode)
	if d.Mode != "" && c.OldKind == c.Kind && c.OldMode != c.Mode {
		d.OldMode = fmt.Sprintf("%04o", c.OldMode)
	}
	if d.Unread = !read && (c.Kind == overlay.File || c.OldKind == overlay.File) && c.Op != overlay.Mode; d.Unread || c.Kind != overlay.File && c.OldKind != overlay.File || c.Op == overlay.Mode {
		d.Enough = d.Unread && c.Size <= maxRead
		return d, texts{}
	}
	real, own, _ := from.Content(c, maxRead)
	t := texts{real: real, own: own}
	d.Unread = c.OldKind == overlay.File && real == nil || c.Kind == overlay.File && own == nil
	if real == nil && own == nil {
		return d, t
	}
	if d.Binary = !filecontent.IsText(real) || !filecontent.IsText(own); d.Binary {
		return d, t
	}
	old, new := c.Name(), c.Name()
	if real == nil {
		old = ""
	}
	if own == nil {
		new = ""
	}
	diff := filecontent.Diff(old, new, filecontent.Decode(real, false), filecontent.Decode(own, false))
	t.diff = diff
	d.Added, d.Removed = filecontent.CountDiffLines(diff)
	if diffs {
		d.Diff = diff
	}
	if diffs && settle.HasHunks(real, own) && c.Op == overlay.Modify {
		d.Diff = patch.Number(diff)
	}
	return d, t
}

// anyWithin reports whether a name is at or below one of others.
func anyWithin(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return settle.Within(n, name) })
}
