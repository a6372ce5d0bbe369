package target

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/worker"
)

// An Env is the user's environment, for programs that run outside the jail.
type Env struct {
	Variables []string // NAME=value
	Writable  []string // the directories of the host that workers may write to
	// OnlyNamed lets pushes use only the variables that the worker's file names, never the
	// logins of the user of this machine.
	OnlyNamed bool
}

// Safe returns the environment for a program of the user that golem starts outside of the
// jail. Its PATH has no directories that workers may write to: a program there could be
// theirs. It lacks the other variables that name such a directory, as PYTHONPATH and
// NODE_OPTIONS may: the program would run code from there.
func (e Env) Safe() []string {
	var list []string
	for _, one := range e.Variables {
		name, value, _ := strings.Cut(one, "=")
		if name == "PATH" {
			safe := slices.DeleteFunc(filepath.SplitList(value), func(dir string) bool { return !filepath.IsAbs(dir) || e.CanWorkerWrite(dir) })
			one = "PATH=" + strings.Join(safe, string(os.PathListSeparator))
		} else if e.namesWritable(value) {
			continue
		}
		list = append(list, one)
	}
	return list
}

// namesWritable reports whether the value of a variable has a path that workers may write to.
func (e Env) namesWritable(value string) bool {
	words := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\n\"'=:;,@", r) })
	return slices.ContainsFunc(append(words, value), func(word string) bool {
		if i := strings.IndexByte(word, '/'); i > 0 && !filepath.IsAbs(word) { // an option with its path, such as -I/DIR
			word = word[i:]
		}
		return filepath.IsAbs(word) && e.CanWorkerWrite(word)
	})
}

// CanWorkerWrite reports whether a worker can create a file at a path of the host, now or
// when the user applies its changes.
func (e Env) CanWorkerWrite(name string) bool {
	return slices.ContainsFunc(e.Writable, func(root string) bool { return isWithin(root, name) })
}

// isWithin reports whether a path is a directory or below it. It follows symlinks and
// compares directories by identity, so that a bind mount or another case of letters hides
// nothing.
func isWithin(root, name string) bool {
	root, name = project.RealDir(root), project.RealDir(name)
	if rel, err := filepath.Rel(root, name); err == nil && filepath.IsLocal(rel) {
		return true
	}
	top, err := os.Stat(root)
	for at := name; err == nil; {
		if info, err := os.Stat(at); err == nil && os.SameFile(top, info) {
			return true
		}
		up := filepath.Dir(at)
		if up == at {
			break
		}
		at = up
	}
	return false
}

// Credentials returns the credentials that a push may use.
func (e Env) Credentials(w *worker.Worker) git.Credentials {
	var named []string
	if w != nil {
		for _, v := range w.Git.Credentials.Env {
			if v.Pass {
				if value, ok := project.LookupEnv(e.Variables, v.Name); ok {
					named = append(named, v.Name+"="+value)
				}
			}
		}
	}
	if e.OnlyNamed || w != nil && w.Git.Credentials.Mode == "explicit" {
		return git.Explicit(named)
	}
	return git.Inherit(e.Safe())
}

// Persons returns the author and the committer of a commit: those that the worker's file
// names, or the user.
func (e Env) Persons(ctx context.Context, store *git.ObjectStore, w *worker.Worker) (author, committer git.Person) {
	environment := e.Variables
	if e.OnlyNamed {
		environment = nil
	}
	if w != nil {
		if w.Git.Credentials.Mode == "explicit" {
			environment = nil
		}
		environment = slices.Clone(environment)
		for _, v := range w.Git.Credentials.Env {
			if !v.Pass {
				environment = append(environment, v.Name+"="+v.Value)
			}
		}
	}
	return store.Who(ctx, environment, git.Person{Name: "golem", Email: "golem@localhost"})
}

// OpenGit opens the private git store in the state directory of a program.
func (e Env) OpenGit(ctx context.Context, state string) (*git.ObjectStore, error) {
	return git.Open(ctx, filepath.Join(state, storeName), e.findGit())
}

// findGit returns the path of git, "" if there is none that workers cannot write.
func (e Env) findGit() string {
	folders, ok := project.LookupEnv(e.Safe(), "PATH")
	if !ok {
		folders = "/usr/bin" + string(os.PathListSeparator) + "/bin"
	}
	return git.Find(folders, e.CanWorkerWrite)
}

// Ignored returns those new files of a directory that git ignores: see git.IgnoreFinder. Without a
// git, it is as if there were no repository.
func (e Env) Ignored(ctx context.Context, dir string, names []string) (map[string]string, bool, error) {
	program := e.findGit()
	if program == "" {
		return nil, false, nil
	}
	return git.IgnoreFinder{Program: program, Environ: e.Variables}.Ignored(ctx, dir, names)
}

// UserSetting returns a setting of the user's own configuration of git, "" if it is not set: see
// git.UserSetting. Without a git there are none.
func (e Env) UserSetting(ctx context.Context, key string) (string, error) {
	program := e.findGit()
	if program == "" {
		return "", nil
	}
	return git.UserSetting(ctx, program, e.Variables, key)
}

// storeName is the directory of the store in the state directory. It has the staged commits.
const storeName = "store"

// HasGit reports whether a program has a private git store.
func HasGit(state string) bool {
	_, err := os.Lstat(filepath.Join(state, storeName))
	return err == nil
}
