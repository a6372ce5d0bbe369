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

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/profile"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// An owner is who has a home, variables and a current directory in a session: a worker
// below its callers, one of its foreign programs, or a program that the user runs by a
// profile, each with what it may reach. Nobody else sees them: what one owner leaves, such
// as a configuration of git, is run with the rights of no other.
type Owner string

// ownerOf returns the owner of commands of a gate. Kind and name tell the commands of the
// worker itself from those of programs.
func OwnerOf(g tool.Gate, network bool, kind, name string) Owner {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q network %v\n", kind, name, g.Workers, network)
	for _, anchor := range g.Files.Anchors() {
		if m, shown := g.Files.MountOf(anchor); shown {
			source := m.Source
			if m.Backend != nil {
				source = m.Backend.Traits().Host
			}
			fmt.Fprintf(h, "%q %v %q %q\n", anchor, m.Access, m.Target, string(source))
		}
	}
	return Owner(hex.EncodeToString(h.Sum(nil)[:8]))
}

// The directories of a session for owners, and in that of an owner.
const (
	ownersName = "owners"
	keptName   = "kept"     // what the private directories of a profile keep
	oldName    = "home-old" // in that of a session: a home of an older golem, without credentials
)

func (s *Session) ownerDir(o Owner) string { return filepath.Join(s.dir, ownersName, string(o)) }

// hasHome reports whether an owner has a home in the session.
func (s *Session) HasHome(o Owner) bool {
	return s != nil && exists(filepath.Join(s.ownerDir(o), homeName))
}

// home returns the directory that is the home of an owner, and makes it where it is
// missing.
func (s *Session) home(o Owner) (string, error) { return s.makeDir(o, homeName) }

func (s *Session) makeDir(o Owner, name string) (string, error) {
	dir := filepath.Join(s.ownerDir(o), name)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) // a command may have taken that away
	}
	if err != nil {
		return "", visible.FileError("the home of programs", err)
	}
	return dir, nil
}

// clearOldHomes removes the credentials from the homes that an older golem has kept in
// sessions, which every command there could read.
func (s Store) clearOldHomes() error {
	entries, err := os.ReadDir(s.dir())
	if err != nil {
		return nil // there are none
	}
	for _, e := range entries {
		dir := filepath.Join(s.dir(), e.Name())
		old := filepath.Join(dir, homeName)
		if info, err := os.Lstat(old); err != nil || !info.IsDir() {
			continue
		}
		if err := profile.Scrub(old); err != nil {
			return &sandbox.Error{Op: "session", Path: e.Name(), Code: sandbox.ErrInternal, Hint: "an older golem has left credentials in it, which cannot be removed: " + err.Error()}
		}
		if err := durable.Rename(old, filepath.Join(dir, oldName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return visible.FileError("the home of an older golem", err)
		}
	}
	return nil
}

// inherit gives an owner what a profile keeps of the home of an older golem, such as its
// conversations.
func (s *Session) inherit(profile profile.Profile, kept string) {
	for _, d := range profile.Private {
		for _, name := range d.Keeps {
			from, to := filepath.Join(s.dir, oldName, d.Dir, name), filepath.Join(kept, d.Dir, name)
			if info, err := os.Lstat(from); err != nil || !info.IsDir() || exists(to) {
				continue
			}
			if os.MkdirAll(filepath.Dir(to), 0o700) == nil {
				durable.Rename(from, to)
			}
		}
	}
}

// hasOnlyProfileFiles reports whether owners of a session keep nothing in their homes but what a
// profile has put there.
func (s *Session) hasOnlyProfileFiles(profile profile.Profile) bool {
	if exists(filepath.Join(s.dir, oldName)) {
		return false
	}
	alone := true
	top := filepath.Join(s.dir, ownersName)
	filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if name == top && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		rel, _ := filepath.Rel(top, name)
		parts := strings.SplitN(filepath.ToSlash(rel), "/", 3) // of an owner, its home, in it
		if err != nil || !d.IsDir() && (len(parts) == 3 && !profile.Brings(parts[2])) {
			alone = false
			return filepath.SkipAll
		}
		return nil
	})
	return alone
}
