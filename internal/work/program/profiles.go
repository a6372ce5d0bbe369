package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// maxProfiles is how many profiles a repository may have.
const maxProfiles = 100

// ReadProfiles reads the profiles of the program that a directory belongs to, or of the directory
// itself. It refuses symlinks: the files beyond one are not protected.
func ReadProfiles(dir string) (profile.Repository, error) {
	top, _, err := project.Find(dir)
	if err != nil {
		return nil, err
	}
	return readProfiles(top)
}

func readProfiles(dir string) (profile.Repository, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, visible.FileError(dir, err)
	}
	defer root.Close()
	wrong := func(name, hint string) error {
		return &sandbox.Error{Op: "profile", Path: name, Code: sandbox.ErrInvalid, Hint: hint}
	}
	for _, at := range []string{path.Dir(profile.RepositoryDir), profile.RepositoryDir} {
		info, err := root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, visible.FileError(at, err)
		case !info.IsDir():
			return nil, wrong(at, "golem reads profiles only from a directory, and not through a symlink; rename it")
		}
	}
	entries, err := fs.ReadDir(root.FS(), profile.RepositoryDir)
	if err != nil {
		return nil, visible.FileError(profile.RepositoryDir, err)
	}
	if len(entries) > maxProfiles {
		return nil, wrong(profile.RepositoryDir, fmt.Sprintf("it has %d files, and at most %d are allowed", len(entries), maxProfiles))
	}
	all := make(profile.Repository)
	for _, e := range entries {
		name := path.Join(profile.RepositoryDir, e.Name())
		if hint := profile.CheckRepositoryFile(name); hint != "" {
			return nil, wrong(name, hint)
		}
		data, err := project.ReadFileIn(root, name, strictyaml.MaxFile)
		if err != nil {
			return nil, visible.FileError(name, err)
		}
		if len(data) > strictyaml.MaxFile {
			return nil, wrong(name, fmt.Sprintf("it is too large; at most %d bytes are allowed", strictyaml.MaxFile))
		}
		all[name] = data
	}
	return all, nil
}
