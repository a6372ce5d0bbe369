package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// An opening says what a command opens.
type opening struct {
	strict    bool             // return every problem as an error, with the parts of the program that could be read
	filesOnly bool             // read the files of the program without the settings of flags and environment
	otherwise fallback         // what to open in a directory without a program
	mounts    []*explain.Mount // for flagMounts: the mounts of flags; they replace a program
	session   string           // for sessionMounts: the session; "" is the last used one
}

// A fallback is what a command opens in a directory without a program.
type fallback int

const (
	sessionMounts      fallback = iota // the mounts with which a session started
	sessionOrDirectory                 // as sessionMounts; without a session, the directory as an overlay
	sessionOrState                     // as sessionMounts; without a session, the state that sessions have left
	flagMounts                         // the mounts of flags, or the directory as an overlay
	emptyProgram                       // a program without files: its Content.Hash is ""
	sessionState                       // the state of sessions without a program; emptyProgram if there is none
	defaultWorker                      // the default worker, with the mounts of a session or the directory as an overlay
)

// open opens the program of a command. Every command uses it. Flags override the
// environment, which overrides the project file. Unless the opening is strict, workers
// that ask for too much are no error: the gate refuses only them. If an earlier golem was
// killed while it applied or undid changes in the directory, open completes that, and reads
// the program again: its files may have changed.
func (f *programFlags) open(how opening) (*program.Program, error) {
	p, err := f.openNow(how)
	if p != nil && session.Recover(p.Storage.Sessions) {
		return f.openNow(how)
	}
	return p, err
}

// openNow is open for a directory as it is.
func (f *programFlags) openNow(how opening) (*program.Program, error) {
	if err := checkDir(f.dir); err != nil {
		return nil, err
	}
	if how.filesOnly && (len(f.set) > 0 || f.approval != "") {
		return nil, usageError("trust is for the files as they are; do not use --set or --approval with it")
	}
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	if how.filesOnly { // a setting of today's environment could hide what the files grant tomorrow
		o.Settings = nil
	}
	if len(how.mounts) > 0 {
		return openFlagMounts(o, how.mounts)
	}
	p, err := program.Load(o)
	if err != nil && !how.strict && (p == nil || p.Project == nil || !program.IsOnlyExcess(err)) {
		return nil, err
	}
	if !how.strict {
		err = nil
	}
	if p != nil && p.Content.Hash == "" && f.profiles && how.otherwise == emptyProgram && err == nil {
		if bare, err := program.LoadMounts(o, nil); err != nil || bare.Content.Hash != "" {
			return bare, err
		}
	}
	switch {
	case p == nil || how.otherwise == emptyProgram:
		return p, err
	case how.otherwise == defaultWorker:
		return openDefault(o, p, err, how.session)
	case how.otherwise == sessionMounts, how.otherwise == sessionOrDirectory, how.otherwise == sessionOrState:
		found, err := openSessionMounts(o, p, how.session)
		var none usageError
		if !errors.As(err, &none) {
			return found, err
		}
		if how.otherwise == sessionOrDirectory {
			return openFlagMounts(o, nil)
		}
		if bare, wrong := program.LoadMounts(o, nil); wrong == nil && bare.Storage.Exists() && how.otherwise == sessionOrState {
			return bare, nil
		}
		return nil, err
	case p.Content.Hash != "":
		return p, err
	case how.otherwise == flagMounts:
		return openFlagMounts(o, nil)
	}
	if bare, wrong := program.LoadMounts(o, nil); !p.Storage.Exists() && wrong == nil && bare.Storage.Exists() {
		return bare, nil
	}
	return p, err
}

// openFlagMounts opens the mounts of flags; without any, the directory as an overlay.
func openFlagMounts(o program.Options, given []*explain.Mount) (*program.Program, error) {
	mounts, err := program.MountsFromFlags(o, given)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return program.LoadMounts(o, mounts)
}

// openDefault opens the default worker, unless there is a program. It works in the mounts of
// a session, if the id names one that started without a program, or else on the directory as an overlay.
func openDefault(o program.Options, p *program.Program, wrong error, id string) (*program.Program, error) {
	named := id != "" && id != session.New && id != lastSession
	if p.Content.Hash != "" && !named || wrong != nil {
		return p, wrong
	}
	if named {
		found, err := program.LoadDefaultSession(o, id)
		switch {
		case err == nil:
			return found, nil
		case p.Content.Hash != "":
			return p, wrong
		case sandbox.CodeOf(err) != sandbox.ErrNotFound:
			return nil, err
		}
	}
	mounts, err := program.MountsFromFlags(o, nil)
	if err != nil {
		return nil, err
	}
	return program.LoadDefault(o, mounts)
}

// openSessionMounts opens the mounts of a session that started without a program. It
// returns p if there is no such session, but p is a program.
func openSessionMounts(o program.Options, p *program.Program, id string) (*program.Program, error) {
	named := id != "" && id != session.New
	if p.Content.Hash != "" && !named {
		return p, nil
	}
	found, err := program.LoadSession(o, id)
	switch {
	case err == nil:
		return found, nil
	case p.Content.Hash != "":
		return p, nil
	case named:
		return nil, err
	}
	return nil, noProgram(p)
}

// recovered is what golem has completed because an earlier golem was killed while it
// applied or undid changes. A nil recovered has nothing.
type recovered struct {
	errs func() io.Writer
	dir  func() (string, error) // the directory of the command

	mu     sync.Mutex
	told   []string // the lines that were printed
	undone bool     // golem has completed an undo
}

// add prints what golem has completed, each line once, and the directory if the command is
// for another one.
func (d *recovered) add(r session.Recovery) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undone = d.undone || r.Undone
	in := ""
	if dir, err := d.dir(); err == nil {
		if rel, err := filepath.Rel(r.Root, dir); err != nil || !filepath.IsLocal(rel) {
			in = "in " + visible.Text(r.Root) + ": "
		}
	}
	for _, note := range r.Notes {
		note = in + note
		if !slices.Contains(d.told, note) {
			d.told = append(d.told, note)
			fmt.Fprintln(d.errs(), "golem: "+note)
		}
	}
}

// hasUndone reports whether golem has completed an undo.
func (d *recovered) hasUndone() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.undone
}
