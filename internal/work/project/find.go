package project

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/workerfile"
)

// The names of the project file.
const (
	File      = "golem-forge.config.yaml"
	FileShort = "golem-forge.config.yml"
)

// EntryWorker is the name of the worker file that a program starts with.
const EntryWorker = "main.worker"

// Find returns the absolute directory of the program and the name of its project file, ""
// if it has none. It walks up from dir and takes the nearest directory with a project
// file. If there is none, it takes the nearest directory with main.worker, and otherwise
// dir itself. Both spellings of the file name in one directory are an error. So is a file
// on the way whose name is nearly that of a project file, or nearly main.worker in a program without a project
// file: its limits must not be missing in silence.
func Find(dir string) (root, file string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", "", newProblem(dir, "no such directory", "name the program's directory")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", "", newProblem(dir, "not a directory", "name the program's directory")
	}
	root = dir
	program, near := false, ""
	for at := dir; ; at = filepath.Dir(at) {
		file, err := findFile(at)
		if err != nil {
			return "", "", err
		}
		if file != "" {
			return at, file, nil
		}
		if !program {
			if program, _ = exists(filepath.Join(at, EntryWorker)); program {
				root = at
			} else if near == "" {
				near = findNearMain(at)
			}
		}
		if at == filepath.Dir(at) {
			if near != "" {
				return "", "", newProblem(quoted(near), "golem does not read this file", "the file of a program's first worker is called "+EntryWorker+"; rename it, or move it away")
			}
			return root, "", nil
		}
	}
}

// findFile returns the name of the project file in a directory, "" if there is none. A
// dangling symlink counts as a project file: a policy that cannot be read must not count
// as no policy.
func findFile(dir string) (string, error) {
	long, err := exists(filepath.Join(dir, File))
	if err != nil {
		return "", newProblem(dir, "the directory cannot be read", "a project file could be in it; check its permissions")
	}
	short, _ := exists(filepath.Join(dir, FileShort))
	if name := findMisnamed(dir); name != "" {
		hint := "rename or remove it"
		if long || short {
			hint = "remove it, or move its keys"
		}
		return "", newProblem(quoted(filepath.Join(dir, name)), "golem does not read this file", "the project file is called "+File+"; "+hint)
	}
	switch {
	case long && short:
		return "", newProblem(filepath.Join(dir, File), FileShort+" is in the same directory", "keep one of the two")
	case long:
		return File, nil
	case short:
		return FileShort, nil
	}
	return "", nil
}

// findNearMain returns the name of a regular file in a directory that was probably meant as its
// main.worker, "" if there is none.
func findNearMain(dir string) string {
	for _, name := range namesIn(dir) {
		if workerfile.IsNearMain(name) && !isOfEditor(name) && isMisnamed(dir, name, EntryWorker) && !isDir(filepath.Join(dir, name)) {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// quoted returns the path of a file for an error, in quotes if a reader cannot see each character
// of its name.
func quoted(file string) string {
	if base := filepath.Base(file); workerfile.Shown(base) != base {
		return strconv.QuoteToASCII(file)
	}
	return file
}

func exists(name string) (bool, error) {
	_, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// maxRead is one byte more than strictyaml accepts, so that strictyaml reports a larger
// file.
const maxRead = 1<<20 + 1

// readProjectFile returns the content of a project file, or the beginning of a large one. It opens
// only a regular file, because reading a named pipe could block forever.
func readProjectFile(root, file string) ([]byte, error) {
	name := file
	if !filepath.IsAbs(name) {
		name = filepath.Join(root, name)
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, newProblem(file, "not found", "it, or the target of the symlink, does not exist")
	case err == nil && !info.Mode().IsRegular():
		return nil, newProblem(file, "not a regular file", "a project file is one")
	case err != nil:
		return nil, newProblem(file, "it cannot be read", "check its permissions")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, newProblem(file, "it cannot be read", "check its permissions")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRead))
	if err != nil {
		return nil, newProblem(file, "it cannot be read", "the host failed")
	}
	return data, nil
}

func newProblem(source, what, hint string) error {
	return strictyaml.Problems{{Place: strictyaml.Place{Source: source}, What: what, Hint: hint}}
}
