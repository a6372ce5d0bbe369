package forge

import (
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/exposure"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/sandbox"
)

// taintName is the file of a session in which something was taken in that is not
// trusted. What was made since is in its layers, and in what its runs have said.
const taintName = "untrusted"

// exposure returns what notes what a worker takes in. In a session where others have
// taken in what is not trusted it begins with that.
func (d *Door) exposure(files *sandbox.Sandbox) *exposure.Exposure {
	e := &exposure.Exposure{}
	for _, m := range d.program.Project.Mounts {
		layered := m.Mode == project.Overlay && d.work.kept != nil
		switch {
		case m.Mode == "rw":
			e.Beyond = append(e.Beyond, m.Target)
		case layered:
			e.Layered = append(e.Layered, m.Target)
		}
		if m.Untrusted && files.CanRead(m.Target) {
			e.Untrusted = append(e.Untrusted, m.Target)
		}
	}
	s := d.work.session
	if s == nil {
		return e
	}
	marker := filepath.Join(s.dir, taintName)
	if from, err := os.ReadFile(marker); err == nil {
		e.Taint(string(from))
	}
	e.Told = func(from string) {
		// Where it cannot be kept, this worker is asked all the same.
		os.WriteFile(marker, []byte(from), 0o600)
	}
	return e
}

// untrusting asks for a tree of its own around the commands of who sees what is not
// trusted.
func untrusting(g policy.Grant, e *exposure.Exposure) policy.Grant {
	if len(e.Untrusted) > 0 || e.From() != "" {
		g.Level = max(g.Level, policy.Namespaces)
	}
	return g
}
