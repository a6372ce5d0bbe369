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

// taintName is the file that exists once untrusted input was read. Overlays and logs of
// the session may hold what was made of it.
const taintName = "untrusted"

// taintFile returns that file of a session. Without a session it is the program's: an
// agent that is served again may remember what it has read. Asking for a new session
// removes it.
func taintFile(state string, s *session.Session) string {
	if s == nil {
		return filepath.Join(state, taintName)
	}
	return s.TaintFile()
}

// newTracker returns the tracker of what a worker reads. If another worker of the session
// becomes tainted, this one does too, because they share files.
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
		return cmp.Or(string(from), "a mount") // on a full disk the file is empty
	}
	e.MarkTainted(kept())
	if slices.Contains(slices.Collect(maps.Values(trust)), true) { // there are untrusted mounts
		e.SharedSource = kept
	}
	e.OnTaint = func(from string) {
		// If the file cannot be written, this worker is tainted all the same.
		if durable.WriteFile(marker, []byte(from), 0o600) != nil {
			os.WriteFile(marker, []byte(from), 0o600) // an empty file counts too, and needs no space
		}
	}
	return e
}

// canReadPart reports whether a worker can read something at a name, or below it where
// trust is the same: it may see a directory of a mount, and not the whole mount.
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

// requireNamespaces requires the level namespaces for commands of a worker that sees
// untrusted mounts or is tainted.
func requireNamespaces(g policy.Grant, e *taint.Tracker) policy.Grant {
	if len(e.Untrusted) > 0 || e.Source() != "" {
		g.Level = max(g.Level, policy.Namespaces)
	}
	return g
}

// maxWalked is how many files of a mount are checked for hard links.
const maxWalked = 10_000

// hardLinkedIn returns the mount in which a file has another hard link, or with tree one
// of the files in a directory; "" for none. If there are too many files to check, it
// assumes one.
func hardLinkedIn(files *sandbox.Sandbox, places []string, name string, tree bool) string {
	var names map[sandbox.Version]bool // the files asked about, nil if not collected yet
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

// hardLinks returns the files in a directory that have several hard links, and whether it
// checked all files. For a directory that the worker does not see it returns none.
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
