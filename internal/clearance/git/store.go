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

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/sandbox"
)

// An ObjectStore is a private bare repository, in a directory that only its user writes to. A
// second repository next to it holds the objects that were pulled from remotes. The first
// one sees the objects of the second. Many processes may use a store at once.
//
// Each stage is a separate pack that needs no other stage. So golem can drop it without
// reading the others, and never repacks.
type ObjectStore struct {
	program string // path of git
	dir     string // directory of the store
	home    string // empty directory in it

	patience time.Duration // time limit for remotes, if shorter than the usual ones
}

// Find returns the path of the first git in a list of directories such as PATH, or "" if
// there is none. It skips a git if refused reports true for its path, or for the path
// behind its symlinks.
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

// Open opens the store in a directory, and creates it if it does not exist. The program
// is the name or path of git.
func Open(ctx context.Context, dir, program string) (*ObjectStore, error) {
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
	s := &ObjectStore{program: program, dir: dir, home: filepath.Join(dir, "home")}
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		return nil, storeError(err)
	}
	for _, dir := range []string{s.pulled(), s.repository()} {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			err = s.make(ctx, dir)
			if err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, storeError(err)
		}
	}
	return s, nil
}

// repository returns the directory of the private repository.
func (s *ObjectStore) repository() string { return filepath.Join(s.dir, "store.git") }

// pulled returns the directory of the repository for what was pulled.
func (s *ObjectStore) pulled() string { return filepath.Join(s.dir, "pulled.git") }

// here returns the place of the store, with more object directories.
func (s *ObjectStore) here(more ...string) place {
	more = slices.DeleteFunc(slices.Clone(more), func(dir string) bool { return dir == "" })
	return place{s.repository(), more}
}

// make creates a repository in a temporary directory and renames it when it is complete.
// Another process may create it first.
func (s *ObjectStore) make(ctx context.Context, dir string) error {
	temp, err := os.MkdirTemp(s.dir, "new-")
	if err != nil {
		return storeError(err)
	}
	defer os.RemoveAll(temp)
	cmd := s.command(ctx, place{dir: temp}, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--initial-branch=none")
	if _, err := s.run(cmd); err != nil {
		return err
	}
	if dir == s.repository() {
		name := filepath.Join(temp, "objects/info/alternates")
		if err := os.WriteFile(name, []byte(quote(filepath.Join(s.pulled(), "objects"))+"\n"), 0o600); err != nil {
			return storeError(err)
		}
	}
	if err = durable.SyncTree(temp); err == nil {
		err = durable.Rename(temp, dir)
	}
	if _, there := os.Lstat(dir); err != nil && there != nil {
		return storeError(err)
	}
	return nil
}

// storeError returns a system error about a file of the store, without the path.
func storeError(err error) error {
	return refusal("git", "", sandbox.ErrInternal, "cannot use the store of staged commits: "+cause(err).Error()+"; check the state directory")
}
