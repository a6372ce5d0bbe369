package program

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// MountsFromFlags returns the mounts that flags give; without any, the directory of the
// options as an overlay.
func MountsFromFlags(o Options, given []*explain.Mount) ([]session.Mount, error) {
	if len(given) == 0 {
		source, err := filepath.Abs(o.Dir)
		return []session.Mount{{Source: source, Target: "/", Mode: project.Overlay}}, err
	}
	var list []session.Mount
	for _, g := range given {
		source, err := filepath.Abs(string(g.Source))
		if err != nil {
			return nil, err
		}
		if !exists(source) && g.From != "" { // a misspelt name must not create a directory
			return nil, &explain.MountError{Mount: g, Err: &sandbox.Error{Op: "mount", Path: g.Target, Code: sandbox.ErrNotFound, Hint: "the source directory does not exist; make it first"}}
		}
		if slices.ContainsFunc(list, func(f session.Mount) bool { return f.Target == g.Target }) {
			return nil, &explain.MountError{Mount: g, Err: &sandbox.Error{Op: "mount", Path: g.Target, Code: sandbox.ErrExists, Hint: "two mounts at one target; give each its own"}}
		}
		list = append(list, session.Mount{Source: source, Target: g.Target, Mode: g.Mode()})
	}
	return list, nil
}

// LoadMounts returns a program that has only these mounts and no files. The user gave
// them, so there is nothing to trust but profiles, if the options ask for them.
func LoadMounts(o Options, folders []session.Mount) (*Program, error) {
	root, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, visible.FileError(o.Dir, err)
	}
	p, err := newProgram(o, root, inventory.BareSuffix) // apart from the state of a program in the same directory
	if err != nil {
		return nil, err
	}
	p.complete, p.Storage.Sessions.Given = true, folders
	if o.Profiles {
		if p.profiles, err = ReadProfiles(o.Dir); err != nil {
			return nil, err
		}
		p.Content = trust.NewContent("", nil, nil, nil, p.profiles)
	}
	err = p.readProject("", nil, append(session.SettingsFor(folders), o.Settings...))
	p.bindStorage()
	return p, err
}

// CheckMounts returns an error if a mount shows a directory that no mount may show.
func CheckMounts(o Options, given []*explain.Mount) error {
	env := o.projectEnv()
	for _, g := range given {
		source := string(g.Source)
		if !filepath.IsAbs(source) {
			source = filepath.Join(o.Dir, source)
		}
		real, err := filepath.EvalSymlinks(source)
		if err == nil {
			real, err = filepath.Abs(real)
		}
		if err != nil {
			return visible.FileError(string(g.Source), err)
		}
		if why, hint := env.Hides(real); why != "" {
			return &sandbox.Error{Op: "--root", Path: string(g.Source), Code: sandbox.ErrInvalid, Hint: "it " + why + "; " + hint}
		}
	}
	return nil
}

// LoadForUndo returns the program whose last changes are undone: p, or the mounts that
// golem exec was given in its place, if they were changed last. p may be nil.
func LoadForUndo(o Options, p *Program) (*Program, error) {
	bare, err := LoadMounts(o, nil)
	if err != nil {
		return p, err
	}
	if p != nil && p.Storage.Sessions.LastChange().After(bare.Storage.Sessions.LastChange()) {
		return p, nil
	}
	folders, err := bare.Storage.Sessions.UndoMounts()
	if errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	if err != nil || len(folders) == 0 {
		return p, nil
	}
	o.Homes, o.Configs = nil, nil // an older golem may have applied changes there
	return LoadMounts(o, folders)
}

// LoadSession returns the program that a session without a configuration was started
// with; with an empty id, of the session used last. The error is not_found if there is
// none.
func LoadSession(o Options, id string) (*Program, error) {
	mounts, err := o.sessionMounts(id)
	if err != nil {
		return nil, err
	}
	return LoadMounts(o, mounts)
}

// sessionMounts returns the mounts of LoadSession.
func (o Options) sessionMounts(id string) ([]session.Mount, error) {
	p, err := LoadMounts(o, nil)
	if err != nil {
		return nil, err
	}
	s, err := p.Storage.Sessions.Find(id)
	if err == nil && len(s.Mounts) == 0 {
		err = &sandbox.Error{Op: "session", Path: naming.Label(s), Code: sandbox.ErrNotFound, Hint: "its program is not there any more"}
	}
	if err != nil {
		return nil, err
	}
	return s.Mounts, nil
}
