package program

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/taint"
	"github.com/golem-forge/golem/sandbox"
)

// taintName is the file of a session in which something was taken in that is not
// trusted. What was made since is in its layers, and in what its runs have said.
const taintName = "untrusted"

// taintFile returns that file. Without a session it is the program's: an agent that is served
// may remember what it has read when it is served again. It goes when somebody asks for a
// new session.
func taintFile(state string, s *session.Session) string {
	if s == nil {
		return filepath.Join(state, taintName)
	}
	return s.TaintFile()
}

// newTracker returns what notes what a worker takes in. What others of the session take in
// counts from then on, for it shares their files.
func (d *Gate) newTracker(files *sandbox.Sandbox) *taint.Tracker {
	e := &taint.Tracker{}
	for _, m := range d.program.Project.Mounts {
		layered := m.Mode == project.Overlay && d.work.HasOverlays()
		switch {
		case m.Mode == "rw":
			e.Direct = append(e.Direct, m.Target)
		case layered:
			e.Overlaid = append(e.Overlaid, m.Target)
		}
	}
	trust := d.program.Project.Trust()
	for _, name := range slices.Sorted(maps.Keys(trust)) {
		switch {
		case !trust[name]:
			e.Trusted = append(e.Trusted, name)
		case canReadPart(files, trust, name):
			e.Untrusted = append(e.Untrusted, name)
		}
	}
	if len(e.Untrusted) > 0 {
		e.LinkedSource = func(name string, tree bool) string { return hardLinkedIn(files, e.Untrusted, name, tree) }
	}
	marker := taintFile(d.program.state, d.work.Session)
	kept := func() string {
		from, err := os.ReadFile(marker)
		if errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		return cmp.Or(string(from), "a mount") // on a full disk there is the name alone
	}
	e.MarkTainted(kept())
	if slices.Contains(slices.Collect(maps.Values(trust)), true) { // there is something to be taken in
		e.SharedSource = kept
	}
	e.OnTaint = func(from string) {
		// Where it cannot be kept, this worker is asked all the same.
		if durable.WriteFile(marker, []byte(from), 0o600) != nil {
			os.WriteFile(marker, []byte(from), 0o600) // an empty file taints too, and needs no room
		}
	}
	return e
}

// canReadPart reports whether something may be read at a name, or below it before trust changes
// again: a worker may be given a folder of a mount, and not the mount.
func canReadPart(files *sandbox.Sandbox, trust map[string]bool, name string) bool {
	return files.CanRead(name) || slices.ContainsFunc(files.ReadableRoots(), func(root string) bool {
		for ; root != name; root = path.Dir(root) {
			if _, changes := trust[root]; changes || root == "/" {
				return false
			}
		}
		return true
	})
}

// requireNamespaces asks for a tree of its own around the commands of who sees what is not
// trusted.
func requireNamespaces(g policy.Grant, e *taint.Tracker) policy.Grant {
	if len(e.Untrusted) > 0 || e.Source() != "" {
		g.Level = max(g.Level, policy.Namespaces)
	}
	return g
}

// maxLooked is how many names of a place are looked at for those that are elsewhere too.
const maxWalked = 10_000

// hardLinkedIn returns the place in which a file has another name, or with tree one of the files
// in a folder; "" for none. Where there are too many files to be looked at, it is taken for
// one of them.
func hardLinkedIn(files *sandbox.Sandbox, places []string, name string, tree bool) string {
	var names map[sandbox.Version]bool // of what is asked about; nil where that is not looked at yet
	all := true
	if !tree {
		info, err := files.Stat(name)
		if err != nil || !info.Mode().IsRegular() || info.Links() < 2 {
			return ""
		}
		names = map[sandbox.Version]bool{info.Version(): true}
	}
	for _, place := range places {
		there, whole := hardLinks(files, place)
		if (len(there) > 0 || !whole) && names == nil {
			names, all = hardLinks(files, name)
		}
		if !whole && len(names) > 0 || len(there) > 0 && !all {
			return place
		}
		for version := range there {
			if names[version] {
				return place
			}
		}
	}
	return ""
}

// hardLinks returns the files of a folder that have more than one name, and whether that are
// all. Of what is not shown to this worker there are none.
func hardLinks(files *sandbox.Sandbox, folder string) (found map[sandbox.Version]bool, all bool) {
	found = make(map[sandbox.Version]bool)
	list, err := files.Walk(context.Background(), folder, func(_ string, e sandbox.Entry) (keep, enter bool) { return e.Type.IsRegular(), true },
		sandbox.Budget{Entries: maxWalked, Results: maxWalked})
	if err != nil {
		return found, true
	}
	for _, f := range list.Found {
		if info, err := files.Stat(f.Path); err == nil && info.Links() > 1 {
			found[info.Version()] = true
		}
	}
	return found, list.Cut == ""
}
