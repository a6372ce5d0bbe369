package taint

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// Options say what a worker sees, and where its taint is stored.
type Options struct {
	Files       *sandbox.Sandbox // the files of the worker
	Project     *project.Project
	Untrusted   []string // more files that are untrusted
	HasOverlays bool     // changes to mounts of mode overlay go to the overlays of a session

	// Marker is a file that exists once untrusted input was read. All who share the files
	// of the worker have the same one, and become tainted together.
	Marker string
}

// New returns the tracker of what a worker reads.
func New(o Options) *Tracker {
	e := &Tracker{}
	for _, m := range o.Project.Mounts {
		switch {
		case m.Mode == "rw":
			e.Direct = append(e.Direct, m.Target)
		case m.Mode == project.Overlay && o.HasOverlays:
			e.Overlaid = append(e.Overlaid, m.Target)
		}
	}
	trust := o.Project.Trust()
	for _, name := range slices.Sorted(maps.Keys(trust)) {
		switch {
		case !trust[name]:
			e.Trusted = append(e.Trusted, name)
		case canReadPart(o.Files, trust, name):
			e.Untrusted = append(e.Untrusted, name)
		}
	}
	for _, name := range o.Untrusted {
		if o.Files.CanRead(name) {
			e.Untrusted = append(e.Untrusted, name)
		}
	}
	if len(e.Untrusted) > 0 {
		e.LinkedSource = func(name string, tree bool) string { return hardLinkedIn(o.Files, e.Untrusted, name, tree) }
	}
	kept := func() string { return ReadMarker(o.Marker) }
	e.MarkTainted(kept())
	mounts := slices.Contains(slices.Collect(maps.Values(trust)), true) || len(e.Untrusted) > 0
	if web := !o.Project.Network.IsEmpty() || !o.Project.Fetch.IsEmpty(); mounts || web {
		e.SharedSource = kept
	}
	e.OnTaint = func(from string) { writeMarker(o.Marker, from) }
	return e
}

// ReadMarker returns the untrusted path that a marker names, "" if there is no marker.
func ReadMarker(file string) string {
	from, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return cmp.Or(string(from), "a mount") // on a full disk the file is empty
}

// writeMarker writes a marker. If it fails, the worker that has read untrusted input is
// tainted all the same.
func writeMarker(file, from string) {
	if durable.WriteFile(file, []byte(from), 0o600) != nil {
		os.WriteFile(file, []byte(from), 0o600) // an empty file counts too, and needs no space
	}
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

// SeesUntrusted reports whether the worker sees untrusted mounts or is tainted.
func (e *Tracker) SeesUntrusted() bool { return len(e.Untrusted) > 0 || e.Source() != "" }

// RequireNamespaces requires the level namespaces for commands of a worker that sees
// untrusted mounts or is tainted.
func (e *Tracker) RequireNamespaces(g policy.Grant) policy.Grant {
	if e.SeesUntrusted() {
		g.Level = max(g.Level, policy.Namespaces)
	}
	return g
}
