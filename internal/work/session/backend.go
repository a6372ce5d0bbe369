package session

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// An overlayBackend is the directory of a mount as a session sees it. It opens the
// directory at the first use: not every call uses files.
type overlayBackend struct {
	changes *changes.Overlays
	mount   changes.Directory
	traits  sandbox.Traits

	mu   sync.Mutex
	open sandbox.Backend
}

func newOverlayBackend(k *changes.Overlays, o changes.Directory) *overlayBackend {
	return &overlayBackend{changes: k, mount: o, traits: sandbox.Traits{Host: o.Host, Through: k.Path(o)}}
}

func (f *overlayBackend) backend() (sandbox.Backend, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		return f.open, nil
	}
	dir, err := f.changes.OpenDirectory(f.mount)
	if errors.Is(err, changes.ErrBusy) {
		return nil, busyError("session", f.changes)
	}
	var known *sandbox.Error
	if err != nil && !errors.As(err, &known) {
		err = &sandbox.Error{Op: "session", Code: jail.ErrNoSandbox, Hint: "the session works on an overlay, and golem cannot mount it here (" +
			strings.TrimPrefix(jail.Plain(err), "jail: ") + "); run golem doctor to see what is missing, or work on a copy with --session new --copy"}
	}
	if err != nil {
		return nil, err
	}
	f.open, err = sandbox.DirAt(dir, f.traits)
	return f.open, err
}

// BusyError returns the error for a session that another golem works on.
func BusyError(op string) error { return busyError(op, nil) }

// maxProgram is how many characters of the name of a program an error shows.
const maxProgram = 30

// busyError is BusyError for overlays that may say which golem that is.
func busyError(op string, o *changes.Overlays) error {
	hint := "another golem works on this session"
	if o != nil {
		if h, ok := o.Holder(); ok && h.Process != 0 {
			if h.Command != "" {
				hint += ": " + visible.Line(path.Base(h.Command), maxProgram)
			}
			hint += fmt.Sprintf(" (process %d)", h.Process)
		}
	}
	return &sandbox.Error{Op: op, Code: sandbox.ErrConflict, Hint: hint + "; wait for it, or start a session with --session new"}
}

// Open implements sandbox.Backend.
func (f *overlayBackend) Open(name string) (sandbox.File, error) {
	b, err := f.backend()
	if err != nil {
		return nil, err
	}
	return b.Open(name)
}

// Lstat implements sandbox.Backend.
func (f *overlayBackend) Lstat(name string) (sandbox.Attr, error) {
	b, err := f.backend()
	if err != nil {
		return sandbox.Attr{}, err
	}
	return b.Lstat(name)
}

// Write implements sandbox.Backend.
func (f *overlayBackend) Write(name string, content io.Reader, how sandbox.How) (sandbox.Attr, error) {
	b, err := f.backend()
	if err != nil {
		return sandbox.Attr{}, err
	}
	return b.Write(name, content, how)
}

// Mkdir implements sandbox.Backend.
func (f *overlayBackend) Mkdir(name string) error {
	b, err := f.backend()
	if err != nil {
		return err
	}
	return b.Mkdir(name)
}

// Rename implements sandbox.Backend.
func (f *overlayBackend) Rename(from, to string) error {
	b, err := f.backend()
	if err != nil {
		return err
	}
	return b.Rename(from, to)
}

// Remove implements sandbox.Backend.
func (f *overlayBackend) Remove(name string) error {
	b, err := f.backend()
	if err != nil {
		return err
	}
	return b.Remove(name)
}

// Traits implements sandbox.Backend.
func (f *overlayBackend) Traits() sandbox.Traits { return f.traits }
