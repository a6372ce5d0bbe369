package program

import (
	"fmt"
	"path"
	"strings"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/explain"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/toolset/changes"
	"github.com/golem-forge/golem/sandbox"
)

// A Changed is something that a session has changed, over what is in the folder
// now. What is in a new folder is told with the folder.
type FileChange struct {
	Path        string       `json:"path"`
	Op          overlay.Op   `json:"operation"`
	Kind        overlay.Kind `json:"kind,omitempty"`
	OldKind     overlay.Kind `json:"was,omitempty"`
	Size        int64        `json:"size,omitempty"`
	Mode        string       `json:"mode,omitempty"`
	OldMode     string       `json:"had,omitempty"`       // the mode before, where it was another
	UnusualMode bool         `json:"-"`                   // it is new, and its mode is not the usual one
	LinkTarget  string       `json:"to,omitempty"`        // what a link says
	Files       int          `json:"files,omitempty"`     // in a new folder
	Conflict    bool         `json:"conflict"`            // it was changed in the folder too
	Protected   string       `json:"protected,omitempty"` // the pattern that keeps it, or something in it, from being applied with the rest
	Inside      bool         `json:"holds,omitempty"`     // it is something in it
	Git         bool         `json:"git,omitempty"`       // git would take its directory for a repository, and it is never applied; with Holds, something in it
	Added       int          `json:"added"`               // lines
	Removed     int          `json:"removed"`
	Binary      bool         `json:"binary,omitempty"`
	Diff        string       `json:"diff,omitempty"`
}

// maxCounted is how many files are read for the number of their lines.
const maxCounted = 1000

// Changes lists what a session has changed at and below some names, all of it where
// there are none; with the diffs if they are wanted. The text says that there are
// names which can be none.
func (p *Program) Changes(s *Session, names []string, diffs bool) (list []FileChange, unfit string, err error) {
	k, err := p.OpenChanges(s)
	if err != nil {
		return nil, "", err
	}
	defer k.Close()
	return p.changes(k, names, diffs)
}

// Changes lists what the session of the door has changed, like Program.Changes.
func (d *Gate) Changes() (list []FileChange, unfit string, err error) {
	if d.work.changes == nil {
		return d.program.Changes(d.Session, nil, false)
	}
	return d.program.changes(d.work.changes, nil, false)
}

func (p *Program) changes(k *jail.Kept, names []string, diffs bool) (list []FileChange, unfit string, err error) {
	files, err := p.Project.Sandbox(explain.Folder)
	if err != nil {
		return nil, "", err
	}
	for i := range names {
		if names[i], err = files.Canonical(names[i]); err != nil {
			return nil, "", err
		}
	}
	standing, unfit, err := k.Changes()
	if err != nil {
		return nil, "", asWorkerError(err)
	}
	list = []FileChange{}
	at := make(map[string]int) // where the new folders are
	after := make(map[string]bool, len(standing))
	for _, c := range standing {
		after[c.Name()] = c.Op != overlay.Delete
	}
	ofGit := approval.Repositories(after, func(name string) bool {
		there, err := files.Exists(name)
		return err == nil && there
	})
	for _, c := range standing {
		if len(names) > 0 && !anyWithin(names, c.Name()) {
			continue
		}
		// A new directory stands for what is in it, but not for a directory with another mode.
		odd := c.Op == overlay.Create && !approval.UsualMode(c.Kind, c.Mode)
		if i, in := at[path.Join(c.Target, c.NewDir)]; in && c.NewDir != "" && !diffs && !(odd && c.Kind == overlay.Dir) {
			if c.Kind == overlay.File {
				list[i].Files++
				list[i].Size += c.Size
			}
			if pattern := files.ProtectedBy(c.Name()); pattern != "" && list[i].Protected == "" {
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
		d := changedOf(k, files, c, diffs || len(list) < maxCounted, diffs)
		d.Git = ofGit(c.Name())
		list = append(list, d)
	}
	return list, unfit, nil
}

func changedOf(k *jail.Kept, files *sandbox.Sandbox, c jail.Standing, read, diffs bool) FileChange {
	d := FileChange{Path: c.Name(), Op: c.Op, Kind: c.Kind, OldKind: c.OldKind, Size: c.Size, LinkTarget: c.LinkTarget, Conflict: c.Conflict, Protected: files.ProtectedBy(c.Name())}
	if c.Op != overlay.Delete && c.Kind != overlay.Symlink {
		d.Mode = fmt.Sprintf("%04o", c.Mode)
	}
	d.UnusualMode = (c.Op == overlay.Create || c.Op != overlay.Delete && c.OldKind != c.Kind) && !approval.UsualMode(c.Kind, c.Mode)
	if d.Mode != "" && c.OldKind == c.Kind && c.OldMode != c.Mode {
		d.OldMode = fmt.Sprintf("%04o", c.OldMode)
	}
	if !read || c.Kind != overlay.File && c.OldKind != overlay.File || c.Op == overlay.Mode {
		return d
	}
	real, own := k.Texts(c, tool.MaxCompared/2)
	if real == nil && own == nil {
		return d
	}
	if d.Binary = !tool.IsText(real) || !tool.IsText(own); d.Binary {
		return d
	}
	from, to := c.Name(), c.Name()
	if real == nil {
		from = ""
	}
	if own == nil {
		to = ""
	}
	diff := tool.Unified(from, to, tool.Legible(real, false), tool.Legible(own, false))
	d.Added, d.Removed = tool.Lines(diff)
	if diffs {
		d.Diff = diff
	}
	if diffs && changes.HasHunks(real, own) && c.Op == overlay.Modify {
		d.Diff = changes.Numbered(diff)
	}
	return d
}

// anyWithin reports whether a name is at or below one of others.
func anyWithin(names []string, name string) bool {
	for _, n := range names {
		if n == "/" || name == n || strings.HasPrefix(name, n+"/") {
			return true
		}
	}
	return false
}
