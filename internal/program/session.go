package program

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A Session is work on layers over the folders of a program, or on copies of them: what
// its calls have changed there stays there until it is applied or discarded, whatever
// becomes of the process.
type Session struct {
	ID       string    `json:"id"`
	Started  time.Time `json:"begun"`
	LastUsed time.Time `json:"-"` // last: the time of its file
	Copy     bool      `json:"copy,omitempty"`
	Mounts   []Mount   `json:"bare,omitempty"` // what it was begun with, in place of a configuration
	// Command is the program that golem exec began it with, without its arguments: these may
	// hold secrets.
	Command string `json:"command,omitempty"`

	dir string
}

// The files of sessions.
const (
	sessionsName = "sessions"
	sessionName  = "session.json"
	homeName     = "home" // in the directory of an owner; in that of a session, of an older golem
)

// NewSession is the name by which a new session is asked for.
const NewSession = "new"

func (p *Program) sessionsDir() string { return filepath.Join(p.state, sessionsName) }

// Sessions returns those that there are, the one that was used last first.
func (p *Program) Sessions() ([]*Session, error) {
	entries, err := os.ReadDir(p.sessionsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, visible.FileError("the sessions", err)
	}
	var list []*Session
	for _, e := range entries {
		if s, err := p.sessionAt(e.Name()); err == nil {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *Session) int { return cmp.Or(b.LastUsed.Compare(a.LastUsed), strings.Compare(a.ID, b.ID)) })
	return list, nil
}

// Session returns the one of an id, or of the beginning of one; "" is the one that
// was used last. One that is not there is an error with those that are.
func (p *Program) Session(id string) (*Session, error) {
	list, err := p.Sessions()
	if err != nil {
		return nil, err
	}
	var found []*Session
	var ids []string
	for _, s := range list {
		ids = append(ids, s.ID)
		if s.ID == id {
			return s, nil
		}
		if strings.HasPrefix(s.ID, id) {
			found = append(found, s)
		}
	}
	switch {
	case len(list) == 0 && id == "":
		return nil, &sandbox.Error{Op: "session", Code: sandbox.ErrNotFound, Hint: "there is none yet; the first call on a mount with mode: overlay begins one"}
	case id == "":
		return list[0], nil
	case len(found) == 1:
		return found[0], nil
	}
	hint := "there is none"
	if len(ids) > 0 {
		hint = "there are " + strings.Join(ids, ", ")
	}
	return nil, &sandbox.Error{Op: "session", Path: id, Code: sandbox.ErrNotFound, Hint: hint}
}

func (p *Program) sessionAt(id string) (*Session, error) {
	s := &Session{dir: filepath.Join(p.sessionsDir(), id)}
	data, err := os.ReadFile(filepath.Join(s.dir, sessionName))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, s); err != nil || s.ID != id {
		return nil, errors.New("not as it was written")
	}
	info, err := os.Stat(filepath.Join(s.dir, sessionName))
	if err != nil {
		return nil, err
	}
	s.LastUsed = info.ModTime()
	return s, nil
}

// beginSession returns the session that a visit is for, and begins it if it is a new one. The
// result is nil if it would need overlays or copies and there are none.
func (p *Program) beginSession(v GateOptions, layers bool) (s *Session, begun bool, err error) {
	if s, err = p.findSession(v, layers); err != nil || s == nil && !v.Copy && !layers && !jail.CanCopy && v.Exec == nil && !v.Run {
		return nil, false, err
	}
	now := p.options.Now()
	if begun = s == nil; begun {
		id := strings.ToLower(rand.Text()[:6])
		s = &Session{ID: id, Started: now, Copy: v.Copy || !layers && jail.CanCopy, Mounts: p.mounts, dir: filepath.Join(p.sessionsDir(), id)}
		if v.Exec != nil {
			s.Command = v.Exec.Command
		}
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, false, visible.FileError("the session", err)
		}
		if err := s.writeFile(sessionName, s); err != nil {
			return nil, false, err
		}
	}
	s.LastUsed = now
	if err := os.Chtimes(filepath.Join(s.dir, sessionName), now, now); err != nil {
		return nil, false, visible.FileError("the session", err)
	}
	return s, begun, nil
}

// findSession returns the session that a visit means, of those that there are, nil for none.
// Who names none means the one that was used last, of those that can be worked on.
func (p *Program) findSession(v GateOptions, layers bool) (*Session, error) {
	if v.Session == NewSession {
		return nil, nil
	}
	if v.Session != "" {
		s, err := p.Session(v.Session)
		switch {
		case err != nil:
			return nil, err
		case v.Copy && !s.Copy:
			return nil, &sandbox.Error{Op: "session", Path: s.ID, Code: sandbox.ErrInvalid, Hint: "it works on a layer; --session new --copy begins one on a copy"}
		case !s.Copy && !layers:
			return nil, &sandbox.Error{Op: "session", Path: s.ID, Code: sandbox.ErrInvalid, Hint: "it works on an overlay, and none can be mounted here; --session new begins one on a copy; golem doctor says why"}
		}
		return s, nil
	}
	list, err := p.Sessions()
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if s.Copy || layers && !v.Copy {
			return s, nil
		}
	}
	return nil, nil
}

// writeFile writes a file of the session anew: it is what it was or what it is to be.
func (s *Session) writeFile(name string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
		return visible.FileError("the session", err)
	}
	return nil
}

// OpenChanges opens what a session keeps, to list, take and discard it.
func (p *Program) OpenChanges(s *Session) (*jail.Kept, error) {
	return jail.LookKept(sandbox.Host(s.dir), p.overlayMounts(), p.options.Now)
}

// Remove removes a session with all that it keeps. One that another golem works on
// is left alone. It is in the journal before it is done.
func (p *Program) Remove(s *Session, secrets []string) error {
	k, err := p.OpenChanges(s)
	if err != nil {
		return err
	}
	defer k.Close()
	records, err := p.OpenRecords()
	if err != nil {
		return err
	}
	defer records.Close()
	record := audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Decision: "revoked", By: "user", Note: "removes session " + s.ID}
	if err := records.write(record, secrets); err != nil {
		return err
	}
	if err := clearance.Forget(records.folder, s.ID); err != nil {
		return err
	}
	return k.Remove()
}

// overlayMounts are the folders of a program that are mounted as layers.
func (p *Program) overlayMounts() []jail.Over {
	var list []jail.Over
	for _, m := range p.Project.Mounts {
		if m.Mode == project.Overlay {
			list = append(list, overlayMount(m))
		}
	}
	return list
}

func overlayMount(m project.Mount) jail.Over {
	folder := string(m.Source)
	if m.Base != "" {
		folder = filepath.Join(string(m.Base), folder)
	}
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	return jail.Over{Folder: sandbox.Host(folder), Target: m.Target}
}
