package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/ignored"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// Sessions holds the sessions of one program.
type Sessions struct {
	State   string // the program's state directory
	Root    string // the program's directory
	Project *project.Project
	Given   []Mount // the mounts that the user gave instead of a configuration
	Now     func() time.Time
	// Examined, if not nil, makes repeated reviews of the same sessions faster.
	Examined  *Examined
	OnRecover func(Recovery) // called if Recover finds something to do, unless nil
	Ignored   ignored.Finder // which new files have no line of their own in a review; nil for those of package managers
	// OwnIgnored returns the directories that a trusted project ignores where git cannot say it.
	OwnIgnored func() []string
	Unfolded   bool // a review lists them like the other files, and behind those
}

// A Mount is a mount that the user gave on the command line instead of a configuration.
type Mount struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Mode   string `json:"mode"`
}

// Options choose the session of a gate.
type Options struct {
	ID   string // a name, an id or the start of one, New, or "" for the session used last
	Exec *Exec  // the program that the user runs in it, nil for none
	Run  bool   // it is for a run, which always has a session

	// Name is the name of a new session. Without one golem makes a name from the program, or
	// from Worker.
	Name   string
	Worker string

	// Copy makes the session work on copies. OnCopy receives the progress of the copying
	// and stops it by returning an error.
	Copy   bool
	OnCopy func(overlay.Progress) error

	Network bool // commands may use the network

	// Isolated says that the program has an overlay over each writable mount: see
	// project.Project.Isolated. A new session remembers it.
	Isolated bool

	// SingleCall is true if the workspace is for one call. The session then counts as used
	// only if the call runs a command or changes its files.
	SingleCall bool
}

// A Session is work on overlays over the mounts of a program, or on copies of them. Its
// changes stay until they are applied or discarded, even if the process is killed.
type Session struct {
	ID       string    `json:"id"`
	Name     string    `json:"name,omitempty"` // see package naming; an older golem did not write it
	Started  time.Time `json:"started"`
	LastUsed time.Time `json:"-"` // the time of its file
	Copy     bool      `json:"copy,omitempty"`
	Mounts   []Mount   `json:"mounts,omitempty"` // the mounts that it was started with, if there was no configuration
	// Command is the program that golem exec started it with, without the arguments:
	// these may hold secrets.
	Command string `json:"command,omitempty"`
	// Root is the directory that the program had when the session was started, maybe on
	// another machine. The names of owners are made with it. An older golem did not write
	// it.
	Root string `json:"root,omitempty"`
	// Isolated is that of Options.
	Isolated bool `json:"isolated,omitempty"`
	Begun    bool `json:"-"` // this process has started it

	dir  string
	held *os.File // marks it as started by this process: see markMaker
}

// The files of sessions.
const (
	sessionsName = "sessions"
	sessionName  = "session.json"

	// makerName is a file in a session that the golem which started it has not closed yet.
	// That golem also holds a lock on it, which the kernel releases if golem is killed.
	makerName = "maker"
)

// New as an ID asks for a new session.
const New = naming.New

// Names implements naming.Named.
func (s *Session) Names() (id, name string) { return s.ID, s.Name }

func (s Sessions) dir() string { return filepath.Join(s.State, sessionsName) }

// List returns all sessions, the one used last first. If a golem was killed while it removed
// a session, List removes the rest. If there is a session that cannot be read, the error names
// it, and List returns the others.
func (s Sessions) List() ([]*Session, error) {
	if err := state.CheckOwner(s.State); err != nil {
		return nil, fmt.Errorf("the sessions: %w", err)
	}
	Recover(s)
	entries, err := os.ReadDir(s.dir())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		err = stateError("the sessions", err)
	}
	var list []*Session
	for _, e := range entries {
		found, wrong := s.at(e.Name())
		switch {
		case wrong == nil:
			list = append(list, found)
		case errors.Is(wrong, fs.ErrPermission):
			err = stateError("session "+visible.Text(e.Name()), wrong)
		default:
			changes.FinishRemoval(sandbox.Host(filepath.Join(s.dir(), e.Name()))) // the next List tries again
		}
	}
	slices.SortFunc(list, func(a, b *Session) int { return cmp.Or(b.LastUsed.Compare(a.LastUsed), strings.Compare(a.ID, b.ID)) })
	return list, err
}

// Find returns the session that a word means: see naming.Find. "" means the one used last.
func (s Sessions) Find(word string) (*Session, error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	if word == "" && len(list) == 0 {
		return nil, &sandbox.Error{Op: "session", Code: sandbox.ErrNotFound, Hint: "there is none yet; the first call on a mount with mode: overlay starts one"}
	}
	return naming.Find(list, cmp.Or(word, naming.Last))
}

// Recent returns the sessions, the one used last first. It opens each only when it comes to it.
func (s Sessions) Recent() iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		entries, err := os.ReadDir(s.dir())
		if err != nil || state.CheckOwner(s.State) != nil {
			return
		}
		used := make(map[string]time.Time)
		for _, e := range entries {
			if info, err := os.Stat(filepath.Join(s.dir(), e.Name(), sessionName)); err == nil {
				used[e.Name()] = info.ModTime()
			}
		}
		for _, id := range slices.SortedFunc(maps.Keys(used), func(a, b string) int { return used[b].Compare(used[a]) }) {
			if one, err := s.at(id); err == nil && !yield(one) {
				return
			}
		}
	}
}

func (s Sessions) at(id string) (*Session, error) { return readSession(filepath.Join(s.dir(), id)) }

// readSession reads the session in a directory.
func readSession(dir string) (*Session, error) {
	found := &Session{dir: dir}
	data, err := os.ReadFile(filepath.Join(dir, sessionName))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, found); err != nil || found.ID != filepath.Base(dir) {
		return nil, errors.New("not as it was written")
	}
	info, err := os.Stat(filepath.Join(dir, sessionName))
	if err != nil {
		return nil, err
	}
	found.LastUsed = info.ModTime()
	if !naming.IsValid(found.Name) {
		found.Name = ""
	}
	return found, nil
}

// begin returns the session that options choose, and starts it if it is new. The session
// is nil if it would need overlays or copies, and this machine supports neither.
func (s Sessions) begin(o Options, overlays bool) (found *Session, begun bool, err error) {
	if found, err = s.choose(o, overlays); err != nil || found == nil && !o.Copy && !overlays && !changes.CanCopy && o.Exec == nil && !o.Run {
		return nil, false, err
	}
	if o.Name != "" && found != nil {
		return nil, false, &sandbox.Error{Op: "--name", Path: o.Name, Code: sandbox.ErrInvalid, Hint: "it names a new session, and this command would continue " + naming.Label(found) + "; --session new starts one"}
	}
	if found != nil {
		if !o.SingleCall {
			err = found.markUsed(s.Now())
		}
		return found, false, err
	}
	names := names{s.State}
	free, err := names.lock()
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, free()) }()
	now := s.Now()
	found = &Session{Started: now, Copy: o.Copy || !overlays && changes.CanCopy, Mounts: s.Given, Root: realPath(s.Root), Isolated: o.Isolated, Begun: true}
	from := o.Worker
	if o.Exec != nil {
		found.Command, from = o.Exec.Command, o.Exec.Command
	}
	if err := names.choose(found, o.Name, from); err != nil {
		return nil, false, err
	}
	if err := os.MkdirAll(found.dir, 0o700); err != nil {
		return nil, false, stateError("the session", err)
	}
	if err := found.markMaker(); err != nil {
		return nil, false, stateError("the session", err)
	}
	if err := found.writeFile(sessionName, found); err != nil {
		return nil, false, errors.Join(err, found.unmarkMaker())
	}
	s.uncheck(found, "")
	return found, true, found.markUsed(now)
}

// markUsed records when somebody last worked in the session.
func (s *Session) markUsed(now time.Time) error {
	s.LastUsed = now
	if err := os.Chtimes(filepath.Join(s.dir, sessionName), now, now); err != nil {
		return stateError("the session", err)
	}
	return nil
}

// choose returns the existing session that the options choose, nil if there is none.
// Without an id it is the last used session that works on this machine and with the
// mounts of this program.
func (s Sessions) choose(o Options, overlays bool) (*Session, error) {
	if o.ID == New {
		return nil, nil
	}
	if o.ID != "" {
		found, err := s.Find(o.ID)
		switch {
		case err != nil:
			return nil, err
		case o.Copy && !found.Copy:
			return nil, &sandbox.Error{Op: "session", Path: naming.Label(found), Code: sandbox.ErrInvalid, Hint: "it works on an overlay; --session new --copy starts one on a copy"}
		case !found.Copy && !overlays:
			return nil, &sandbox.Error{Op: "session", Path: naming.Label(found), Code: sandbox.ErrInvalid, Hint: "it works on an overlay, and none can be mounted here; --session new begins one on a copy; golem doctor says why"}
		}
		return found, nil
	}
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	for _, one := range list {
		if one.Isolated == o.Isolated && (one.Copy || overlays && !o.Copy) {
			return one, nil
		}
	}
	return nil, nil
}

// writeFile replaces a file of the session. After a crash it has the old content or the
// new.
func (s *Session) writeFile(name string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
		return stateError("the session", err)
	}
	return nil
}

// Open opens the changes of a session, to list, apply and discard them.
func (s Sessions) Open(one *Session) (*changes.Overlays, error) {
	return changes.Look(sandbox.Host(one.dir), storeOf(s, one).OverlayMounts())
}

// storeOf returns the store with the mounts as a session has them.
func storeOf(s Sessions, one *Session) Sessions {
	if one.Isolated {
		s.Project = s.Project.Isolated()
	}
	return s
}

// OverlayMounts returns the mounts of the program with mode: overlay.
func (s Sessions) OverlayMounts() []changes.Directory {
	var list []changes.Directory
	for _, m := range s.Project.Mounts {
		if m.Mode == project.Overlay {
			list = append(list, overlayMount(m))
		}
	}
	return list
}

func overlayMount(m project.Mount) changes.Directory {
	return changes.Directory{Host: sandbox.Host(m.RealHostDir()), Target: m.Target}
}

// realPath returns a path without symlinks, or the path itself if that fails.
func realPath(name string) string {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return name
}

// stateError returns the error of a file in the state directory. It names the path, and what
// helps.
func stateError(what string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) && errors.Is(err, fs.ErrPermission) {
		if foreign := state.CheckOwner(cause.Path); foreign != nil {
			return fmt.Errorf("%s: %w", what, foreign)
		}
	}
	if errors.As(err, &cause) && (cause.Op == "mkdir" || !errors.Is(err, fs.ErrNotExist)) {
		return fmt.Errorf("%s: golem cannot use %s in its state directory: %w; choose another state directory with --state DIR or GOLEM_STATE", what, visible.Text(cause.Path), cause.Err)
	}
	return visible.FileError(what, err)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// OpenState opens the directory of the session, for the log of a run.
func (s *Session) OpenState() (*state.Dir, error) {
	if _, err := os.Stat(s.dir); err != nil {
		return nil, err // state.Open would make the directory of a removed session again
	}
	return state.Open(s.dir)
}

// Dir returns the directory of the session, for files of other packages in it.
func (s *Session) Dir() string { return s.dir }

// TaintFile returns the file that exists once a worker of the session has read untrusted
// input.
func (s *Session) TaintFile() string { return filepath.Join(s.dir, "untrusted") }
