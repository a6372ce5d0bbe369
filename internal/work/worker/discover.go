package worker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/workerfile"
	"github.com/golem-forge/golem/sandbox"
)

const (
	suffix     = workerfile.Suffix
	maxWorkers = 200 // of a program

	// typeScriptDir is the directory in which the TypeScript version looked for workers.
	typeScriptDir = ".workers"
)

// Discover finds the workers of a program: main.worker at its root, and name.worker and
// name/worker.worker in each directory of paths. In place of .worker a file may end in
// .yaml or .yml, as in llm-do, if it has a key that only worker files have. The
// directories are relative to the root and lie inside it, also after symlinks. The
// default directories may be missing. Discover skips names that start with a dot,
// symlinks to directories next to the workers, and directories that golem may not enter.
// A worker is a regular file, not a symlink, with a printable name. A program has at most
// 200.
//
// Discover returns main first and the others by name. With an error it still returns the
// workers that it could read. The error is a [strictyaml.Problems] with everything that
// is wrong in any file, including names that two files have and reserved names, such as
// those of tools.
func Discover(root string, paths []string, reserved []string) ([]*Worker, error) {
	host, err := os.OpenRoot(root)
	if err != nil {
		return nil, strictyaml.Problems{{Place: strictyaml.Place{Source: "."}, What: "the program's directory: " + reason(err),
			Hint: "name an existing directory"}}
	}
	defer host.Close()

	d := finder{root: host, seen: map[string]bool{}}
	d.readEither("main")
	for _, folder := range paths {
		d.readDirectory(folder)
	}
	d.reportElsewhere(paths)
	d.checkNames(reserved)
	isMain := func(w *Worker) bool { return Stem(w.File) == "main" }
	slices.SortStableFunc(d.found, func(a, b *Worker) int {
		if isMain(a) {
			return -1
		}
		if isMain(b) {
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return d.found, d.problems.Err()
}

// A finder collects workers and their problems.
type finder struct {
	root     *os.Root
	seen     map[string]bool
	files    int // worker files found so far
	found    []*Worker
	problems strictyaml.Problems
	onlyMain bool // report only files of the name main that are not read
}

func (d *finder) addProblem(file, what, hint string) {
	d.problems.Note(strictyaml.Problem{Place: strictyaml.Place{Source: file}, What: what, Hint: hint})
}

// readDirectory looks for workers in one directory.
func (d *finder) readDirectory(name string) {
	clean := path.Clean(filepath.ToSlash(name))
	where := "worker_paths: " + shown(name)
	if name == "" || !fs.ValidPath(clean) || strings.ContainsRune(clean, 0) {
		d.addProblem(".", where, "it is a directory inside the program, such as workers")
		return
	}
	entries, err := fs.ReadDir(d.root.FS(), clean)
	switch {
	case (clean == "workers" || clean == typeScriptDir) && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
		return
	case errors.Is(err, fs.ErrPermission):
		d.addProblem(".", where+": golem may not read this directory", "run chmod u+rx "+shown(name))
		return
	case err != nil:
		d.addProblem(".", where+": "+reason(err), "it is a directory inside the program, such as workers")
		return
	}
	for _, e := range entries {
		switch name := path.Join(clean, e.Name()); {
		case e.Name()[0] == '.':
		case strings.HasSuffix(name, suffix):
			d.readFile(name)
		case Stem(name) != "":
			d.readYAML(name)
		case Stem(strings.ToLower(name)) != "" && !e.IsDir():
			d.reportCase(name)
		case e.IsDir():
			file := path.Join(name, "worker")
			if _, err := d.root.Lstat(file + suffix); errors.Is(err, fs.ErrPermission) {
				continue
			}
			d.readEither(file)
		}
	}
}

// Stem returns the name of a worker file without its ending, "" for the name of any other
// file.
func Stem(name string) string { return workerfile.Stem(name) }

// reportCase reports a worker file whose ending is not in lower case. Without it the
// program could have no worker, and no limits of one.
func (d *finder) reportCase(name string) {
	ending := strings.ToLower(path.Ext(name))
	if ending != suffix {
		if data, err := d.readContent(name); err != nil || !workerfile.HasKey(data) {
			return
		}
	}
	if _, err := d.root.Lstat(strings.TrimSuffix(name, path.Ext(name)) + ending); err == nil { // a host that ignores case
		return
	}
	d.addProblem(sandbox.Shown(name), "this worker is not read", "a worker file ends in "+ending+", in lower case; rename it")
}

// reportElsewhere reports workers in directories that older systems read, or whose names
// are nearly those that golem reads, if the project does not name them.
func (d *finder) reportElsewhere(paths []string) {
	near := []string{typeScriptDir}
	if slices.Contains(paths, "workers") {
		near = append(near, "worker", "workers")
	}
	top, _ := fs.ReadDir(d.root.FS(), ".")
	for _, dir := range top {
		name := dir.Name()
		info, err := d.root.Lstat(name)
		isRead := func(p string) bool {
			read, err := d.root.Stat(filepath.Clean(p))
			return err == nil && os.SameFile(read, info)
		}
		if err != nil || !dir.IsDir() || !slices.Contains(near, strings.ToLower(name)) || slices.ContainsFunc(paths, isRead) {
			continue
		}
		entries, _ := fs.ReadDir(d.root.FS(), name)
		for _, e := range entries {
			if file := path.Join(name, e.Name()); e.Name()[0] != '.' && strings.HasSuffix(e.Name(), suffix) && !d.seen[file] {
				d.addProblem(name, "workers there are not read", "write worker_paths: ["+name+"] in golem-forge.config.yaml, or move them to workers")
				break
			}
		}
	}
}

// readEither reads the worker files of a name without ending.
func (d *finder) readEither(stem string) {
	d.readFile(stem + suffix)
	d.readYAML(stem + ".yaml")
	d.readYAML(stem + ".yml")
}

// readYAML reads a worker in a YAML file. It skips other YAML files, which may be
// anything.
func (d *finder) readYAML(name string) {
	if data, err := d.readContent(name); err == nil && isPrintable(name) && workerfile.HasKey(data) {
		d.readFile(name)
	}
}

// readFile reads one file, unless it is missing or was read before.
func (d *finder) readFile(name string) {
	if d.seen[name] || d.files > maxWorkers {
		return
	}
	d.seen[name] = true
	data, err := d.readContent(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if d.files++; d.files > maxWorkers {
		d.addProblem(".", fmt.Sprintf("more than %d workers", maxWorkers), fmt.Sprintf("a program has at most %d; remove some, or name fewer directories in worker_paths", maxWorkers))
		return
	}
	if !isPrintable(name) {
		d.addProblem(sandbox.Shown(name), "a file name with characters that cannot be printed", "rename it: letters, digits, _ and -")
		return
	}
	if errors.Is(err, fs.ErrPermission) {
		d.addProblem(name, "golem may not read this file", "run chmod u+r "+name)
		return
	}
	if err != nil {
		d.addProblem(name, reason(err), "a worker is a regular file inside the program, not a symlink")
		return
	}
	w, err := Parse(name, data)
	var problems strictyaml.Problems
	if errors.As(err, &problems) {
		d.problems.Note(problems...)
		return
	}
	d.found = append(d.found, w)
}

// isPrintable reports whether every part of a name can be printed in one line. A line break
// in a name could forge lines.
func isPrintable(name string) bool {
	return !slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return sandbox.Shown(part) != part })
}

var (
	errNotRegular = errors.New("not a regular file")
	errLink       = errors.New("a link")
)

// readContent returns at most one byte more than a worker file may have. It checks the file
// before it opens it, because opening a named pipe could block. It refuses symlinks:
// their targets may have other names, which are not protected.
func (d *finder) readContent(name string) ([]byte, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, errLink
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errLink // a symlink replaced the file meanwhile
	}
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// reason returns why a file could not be used, without host paths.
func reason(err error) string {
	var p *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "not found"
	case errors.Is(err, fs.ErrPermission):
		return "no permission"
	case errors.As(err, &p):
		return p.Err.Error()
	}
	return err.Error()
}

// checkNames reports names that two workers share, and reserved names.
func (d *finder) checkNames(reserved []string) {
	first := map[string]*Worker{}
	for _, w := range d.found {
		if slices.Contains(reserved, w.Name) {
			d.problems.Note(strictyaml.Problem{Place: w.Place, What: "name: " + w.Name + " is the name of a tool",
				Hint: "workers are called like tools; choose another name"})
		}
		if other, twice := first[w.Name]; twice {
			d.problems.Note(strictyaml.Problem{Place: w.Place,
				What: fmt.Sprintf("name: %s is also the name of %s", w.Name, sandbox.Shown(other.Place.String())),
				Hint: "a name calls one worker; rename one of them"})
			continue
		}
		first[w.Name] = w
	}
}
