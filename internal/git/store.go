package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/sandbox"
)

// A Store is a private bare repository, in a directory where nobody but its user
// writes, and a second one beside it for what was pulled from remotes, whose
// objects it sees. Many processes may use it at once.
//
// Each stage is a pack of its own, which needs no other stage's: so it can be
// dropped without a look at the others, and nothing is ever packed anew.
type Store struct {
	program string // git
	dir     string // the directory of all that is here
	home    string // an empty directory in it

	patience time.Duration // with remotes, if it is less than usual
}

// Find returns the git in a list of directories, as PATH is one, "" if there is none. It
// skips a git that is refused, by its own path or by the one that its symlinks lead to.
func Find(directories string, refused func(path string) bool) string {
	for _, dir := range filepath.SplitList(directories) {
		program, err := exec.LookPath(filepath.Join(dir, "git"))
		if err != nil || !filepath.IsAbs(program) || refused(program) {
			continue
		}
		if real, err := filepath.EvalSymlinks(program); err == nil && !refused(real) {
			return program
		}
	}
	return ""
}

// Open opens the store in a directory of the state, and makes it where it is
// missing. The program is git, by its name or path.
func Open(ctx context.Context, dir, program string) (*Store, error) {
	program, err := exec.LookPath(program)
	if err != nil {
		return nil, refusal("git", "", ErrUnsupported, "no git in PATH, except in directories that workers reach; install git 2.38 or later")
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	s := &Store{program: program, dir: dir, home: filepath.Join(dir, "home")}
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		return nil, trouble(err)
	}
	for _, dir := range []string{s.pulled(), s.repository()} {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			err = s.make(ctx, dir)
			if err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, trouble(err)
		}
	}
	return s, nil
}

// repository is the directory of the private repository.
func (s *Store) repository() string { return filepath.Join(s.dir, "store.git") }

// pulled is the directory of what was pulled.
func (s *Store) pulled() string { return filepath.Join(s.dir, "pulled.git") }

// here is where git finds the store, and the objects of others.
func (s *Store) here(more ...string) place {
	more = slices.DeleteFunc(slices.Clone(more), func(dir string) bool { return dir == "" })
	return place{s.repository(), more}
}

// make makes a repository beside its place and moves it there when it is whole.
// Another process may be first.
func (s *Store) make(ctx context.Context, dir string) error {
	temp, err := os.MkdirTemp(s.dir, "new-")
	if err != nil {
		return trouble(err)
	}
	defer os.RemoveAll(temp)
	cmd := s.command(ctx, place{dir: temp}, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--initial-branch=none")
	if _, err := s.run(cmd); err != nil {
		return err
	}
	if dir == s.repository() {
		name := filepath.Join(temp, "objects/info/alternates")
		if err := os.WriteFile(name, []byte(quote(filepath.Join(s.pulled(), "objects"))+"\n"), 0o600); err != nil {
			return trouble(err)
		}
	}
	if err = durable.SyncTree(temp); err == nil {
		err = durable.Rename(temp, dir)
	}
	if _, there := os.Lstat(dir); err != nil && there != nil {
		return trouble(err)
	}
	return nil
}

// trouble tells what the system says of a file of the store, without its path.
func trouble(err error) error {
	return refusal("git", "", sandbox.ErrInternal, "the store of what is staged: "+cause(err).Error()+"; look at the state folder")
}
