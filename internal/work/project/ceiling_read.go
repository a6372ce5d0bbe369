package project

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// ReadCeiling reads the layers above a project: the administrator's policy and the user's
// configuration, which has the name config, "" for none. A missing file is no layer. It is
// an error if one of them is wrong, because golem would not know what is allowed. tools are
// the names of tools and toolsets that a layer may list.
func ReadCeiling(config, home string, tools []string) (Ceiling, error) {
	var c Ceiling
	data, err := ReadPolicy()
	if err != nil {
		return nil, err
	}
	if data != nil {
		l, err := ParsePolicy(PolicyFile, data, tools)
		if err != nil {
			return nil, err
		}
		c = append(c, l)
	}
	data, err = readConfig(config)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return c, nil
	}
	l, err := ParseConfig(config, data, home, tools)
	if err != nil {
		return nil, err
	}
	return append(c, l), nil
}

// readConfig reads the user's configuration. It returns nil if there is none, and an error
// if other users can change it.
func readConfig(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	if err := checkMisplaced(name); err != nil {
		return nil, err
	}
	if err := checkMisnamed(name); err != nil {
		return nil, err
	}
	wrong := func(what, hint string) error {
		return strictyaml.Problems{{Place: strictyaml.Place{Source: name}, What: what, Hint: hint}}
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, CheckDangling(name)
	case err != nil:
		return nil, wrong("cannot be read", "check its permissions")
	case !info.Mode().IsRegular():
		return nil, wrong("is not a file", "replace or remove it")
	case os.PathSeparator == '/' && info.Mode().Perm()&0o022 != 0:
		return nil, wrong("can be changed by other users", "chmod go-w "+name)
	case info.Size() > strictyaml.MaxFile:
		return nil, wrong("is too large", "it has at most 1 MiB")
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, wrong("cannot be read", "check its permissions")
	}
	return data, nil
}

// CheckDangling returns an error if a file is missing because it, or a directory above it, is
// a symlink whose target does not exist. The file may be on a disk that is not mounted, and
// its limits must not be missing in silence.
func CheckDangling(name string) error {
	for at := name; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if _, err := os.Stat(at); err != nil {
				return newProblem(at, "is a symlink whose target does not exist", "repair or remove it")
			}
		}
		if err == nil || at == filepath.Dir(at) {
			return nil
		}
	}
}
