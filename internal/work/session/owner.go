package session

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/people/visible"
)

// An Owner owns a home directory, variables and a current directory in a session. It is a
// worker with its callers, one of its foreign programs, or a program that the user runs
// by a profile, each with its permissions. No other owner sees them. So files that one
// owner leaves, such as a configuration of git, never run with the permissions of
// another.
type Owner string

// OwnerOf returns the owner of the commands of a gate. Kind and name distinguish the
// commands of the worker itself from those of programs. Hosts are those that they reach.
// An owner stays the same if the session and the program move to another machine.
func (w *Workspace) OwnerOf(g tool.Gate, hosts policy.Hosts, kind, name string) Owner {
	h := sha256.New()
	network := "false"
	switch {
	case hosts.IsAll():
		network = "true"
	case !hosts.IsEmpty():
		network = fmt.Sprintf("%q", hosts.Patterns())
	}
	fmt.Fprintf(h, "%q %q %q network %s\n", kind, name, g.Workers, network)
	for _, anchor := range g.Files.Anchors() {
		if m, shown := g.Files.MountOf(anchor); shown {
			source := m.Source
			if m.Backend != nil {
				source = m.Backend.Traits().Host
			}
			fmt.Fprintf(h, "%q %v %q %q\n", anchor, m.Access, m.Target, w.firstPath(string(source)))
		}
	}
	return Owner(hex.EncodeToString(h.Sum(nil)[:8]))
}

// firstPath returns the path that a directory of the program had where the session was
// started.
func (w *Workspace) firstPath(dir string) string {
	if w.Session == nil || w.Session.Root == "" {
		return dir
	}
	if rel, err := filepath.Rel(realPath(w.store.Root), dir); err == nil && filepath.IsLocal(rel) {
		return filepath.Join(w.Session.Root, rel)
	}
	return dir
}

// The directories of owners in a session, and the directories of one owner.
const (
	ownersName = "owners"
	homeName   = "home"
	keptName   = "kept" // files that the private directories of a profile keep
)

func (s *Session) ownerDir(o Owner) string { return filepath.Join(s.dir, ownersName, string(o)) }

// HasHome reports whether an owner has a home directory in the session.
func (s *Session) HasHome(o Owner) bool {
	return s != nil && exists(filepath.Join(s.ownerDir(o), homeName))
}

// home returns the home directory of an owner, and makes it if it is missing.
func (s *Session) home(o Owner) (string, error) { return s.makeDir(o, homeName) }

func (s *Session) makeDir(o Owner, name string) (string, error) {
	dir := filepath.Join(s.ownerDir(o), name)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) // a command may have changed it
	}
	if err != nil {
		return "", visible.FileError("the home of programs", err)
	}
	return dir, nil
}

// hasOnlyProfileFiles reports whether the homes of a session hold only files that a
// profile puts there.
func (s *Session) hasOnlyProfileFiles(profile profile.Profile) bool {
	alone := true
	top := filepath.Join(s.dir, ownersName)
	filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if name == top && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		rel, _ := filepath.Rel(top, name)
		parts := strings.SplitN(filepath.ToSlash(rel), "/", 3) // owner, home, name in it
		if err != nil || !d.IsDir() && (len(parts) == 3 && !profile.Brings(parts[2])) {
			alone = false
			return filepath.SkipAll
		}
		return nil
	})
	return alone
}
