package session

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/naming"
)

// names knows the names of the sessions of a state directory. A file for each name has the id
// of the last session with it, so that a new session takes the same time however many there
// are.
type names struct{ state string }

// lock excludes other processes that begin a session, until free is called. So no two sessions
// get one name.
func (n names) lock() (free func() error, err error) {
	if err := os.MkdirAll(n.state, 0o700); err != nil {
		return nil, stateError("the session", err)
	}
	dir, err := state.Open(n.state)
	if err != nil {
		return nil, err
	}
	release, err := dir.Lock(context.Background(), "names of sessions", strconv.Itoa(os.Getpid()))
	if errors.Is(err, fs.ErrPermission) { // the error names a file that means nothing to the user
		err = stateError("the session", &fs.PathError{Op: "lock", Path: n.state, Err: fs.ErrPermission})
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return func() error { return errors.Join(release(), dir.Close()) }, nil
}

// choose gives a new session an id and a name that no other one has. The name is the one that
// the user gave, or golem makes it from a program or a worker.
func (n names) choose(one *Session, name, from string) error {
	if name != "" {
		if err := naming.Check(name); err != nil {
			return err
		}
		if n.has(name) {
			return naming.Taken(name)
		}
	}
	for one.ID == "" || n.has(one.ID) || one.ID == name {
		one.ID = strings.ToLower(rand.Text()[:6])
	}
	if one.Name = name; name == "" {
		one.Name = naming.Make(from, func(word string) bool { return word == one.ID || n.has(word) })
	}
	one.dir = n.session(one.ID)
	err := os.MkdirAll(filepath.Dir(n.file(one.Name)), 0o700)
	if err == nil {
		err = os.WriteFile(n.file(one.Name), []byte(one.ID), 0o600)
	}
	if err != nil {
		return stateError("the session", err)
	}
	return nil
}

// has reports whether a session has a word as its id or its name. It opens at most one session.
func (n names) has(word string) bool {
	if _, err := os.Lstat(n.session(word)); err == nil {
		return true
	}
	id, err := os.ReadFile(n.file(word))
	if err != nil {
		return false
	}
	other, err := readSession(n.session(filepath.Base(string(id))))
	return err == nil && other.Name == word
}

// forget removes the file for the name of a session that was removed, unless another session has
// the name.
func (n names) forget(one *Session) error {
	if one.Name == "" {
		return nil
	}
	free, err := n.lock()
	if err != nil {
		return err
	}
	if id, err := os.ReadFile(n.file(one.Name)); err == nil && string(id) == one.ID {
		err = os.Remove(n.file(one.Name))
		return errors.Join(err, free())
	}
	return free()
}

// ForgetName frees the name of a session that was removed.
func ForgetName(s Sessions, one *Session) error { return names{s.State}.forget(one) }

func (n names) session(id string) string { return filepath.Join(n.state, sessionsName, id) }
func (n names) file(name string) string  { return filepath.Join(n.state, "names", name) }
