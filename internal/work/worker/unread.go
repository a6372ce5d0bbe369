package worker

import (
	"errors"
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
	maxUnreadDepth = 4    // how deep reportBelow looks in a directory for workers
	maxUnreadNames = 4000 // how many names reportDeep looks at in all; a directory counts as five
	maxNamesInDir  = 1000 // and how many in one directory
)

// FindUnread returns a problem for each file that was probably meant as a worker. The read
// workers are those that Discover found with the same arguments. Without any, a program has
// only the limits of its project file. With others, but without a main.worker, another worker
// may be the entry in place of main, so FindUnread looks for files of the name main. A file
// that golem does not read must not be missing in silence.
func FindUnread(root string, paths []string, read []*Worker) strictyaml.Problems {
	host, err := os.OpenRoot(root)
	if err != nil {
		return nil // Discover has said so
	}
	defer host.Close()
	d := finder{root: host, seen: map[string]bool{}, onlyMain: len(read) > 0}
	for _, w := range read {
		if d.seen[w.File] = true; Stem(w.File) == "main" {
			return nil
		}
	}
	d.reportUnread(paths)
	return d.problems
}

func (d *finder) reportUnread(paths []string) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		d.addProblem(".", "golem may not list the program's directory", "run chmod u+rx on it")
		return
	}
	var others []string
	for _, e := range entries {
		isDir := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := d.root.Stat(e.Name())
			isDir = err == nil && info.IsDir()
		}
		if isDir && slices.Contains([]string{"worker", "workers"}, meantFor(e.Name())) {
			d.reportBelow(e.Name(), 1)
		} else if !isDir {
			d.reportUnreadFile(e.Name(), meantFor(e.Name()) == "main")
		} else if e.IsDir() {
			others = append(others, e.Name())
		}
	}
	for _, p := range paths {
		if clean := path.Clean(filepath.ToSlash(p)); clean != "." && fs.ValidPath(clean) {
			d.reportBelow(clean, 1)
		}
	}
	if !d.onlyMain {
		d.reportDeep(others)
	}
}

// reportDeep reports files with the name of a worker in and below other directories. It
// begins with the upper ones, and skips those of other programs and of packages.
func (d *finder) reportDeep(dirs []string) {
	for left := maxUnreadNames; len(dirs) > 0 && left > 0; dirs = dirs[1:] {
		dir := dirs[0]
		if d.seen[dir] || slices.Contains([]string{".git", "node_modules"}, path.Base(dir)) {
			continue
		}
		entries := d.listSome(dir, min(left, maxNamesInDir))
		left -= len(entries) + 5
		if slices.ContainsFunc(entries, isProjectFile) {
			continue
		}
		for _, e := range entries {
			if name := path.Join(dir, e.Name()); e.IsDir() {
				dirs = append(dirs, name)
			} else {
				d.reportUnreadFile(name, false)
			}
		}
	}
}

// listSome returns at most n entries of a directory, none if golem cannot read it.
func (d *finder) listSome(dir string, n int) []fs.DirEntry {
	f, err := d.root.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(n)
	return entries
}

func isProjectFile(e fs.DirEntry) bool {
	return e.Name() == "golem-forge.config.yaml" || e.Name() == "golem-forge.config.yml"
}

// reportBelow does the same for a directory for workers.
func (d *finder) reportBelow(dir string, depth int) {
	if d.seen[dir] || depth > maxUnreadDepth {
		return
	}
	d.seen[dir] = true
	entries, err := fs.ReadDir(d.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil && d.onlyMain && depth > 1 && meantFor(dir+"/worker") != "main" {
		return
	}
	if err != nil {
		d.addProblem(sandbox.Shown(dir), "golem cannot read this directory, and the program has no other worker"+d.missing(), "run chmod u+rx "+shown(dir)+", or remove it")
		return
	}
	for _, e := range entries {
		if name := path.Join(dir, e.Name()); e.IsDir() {
			d.reportBelow(name, depth+1)
		} else {
			d.reportUnreadFile(name, true)
		}
	}
}

// reportUnreadFile reports a file with the name of a worker. If isLikely, it also reports
// another file that may be one: it has the keys of a worker, or golem cannot read it.
func (d *finder) reportUnreadFile(name string, isLikely bool) {
	worker, isWorker := workerfile.Meant(name)
	if d.seen[name] || d.onlyMain && worker != "main" {
		return
	}
	if isLikely && !isWorker && d.files < maxUnreadNames {
		d.files++
		isWorker = d.hasWorker(name)
	}
	if isWorker {
		d.addProblem(workerfile.Shown(name), "this worker is not read, and the program has no other"+d.missing(), "a worker is a regular file main.worker, workers/NAME.worker or workers/NAME/worker.worker; rename it, move it away, or write its directory in worker_paths")
	}
}

// hasWorker reports whether the content of a file is that of a worker: YAML with its keys, or
// front matter with them, as in workers/x.md.
func (d *finder) hasWorker(name string) bool {
	data, err := d.readContent(name)
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml":
		return err != nil || workerfile.LikelyHasKey(data) || hasKeysOfWorker(data)
	}
	if err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	r := &reader{w: &Worker{File: name}}
	page, ok := r.split(data)
	return ok && page.above > 0 && hasHeadOfWorker(page.head)
}

// missing completes what a program lacks if golem does not read a file.
func (d *finder) missing() string {
	if d.onlyMain {
		return " that is its main.worker"
	}
	return ""
}

// meantFor returns the name of the worker that a file is meant to hold.
func meantFor(name string) string {
	worker, _ := workerfile.Meant(name)
	return worker
}

// hasKeysOfWorker reports whether all keys of a YAML file are those of workers, and not only
// keys that many files have.
func hasKeysOfWorker(data []byte) bool {
	node, _ := strictyaml.Parse("", data)
	isOwn := false
	for _, f := range node.Fields {
		if !isKey(f.Key.Text) {
			return false
		}
		isOwn = isOwn || !slices.Contains([]string{"name", "description", "mode", "model"}, plainKey(f.Key.Text))
	}
	return isOwn
}

// hasHeadOfWorker reports whether front matter may be that of a worker: it is empty, or has a
// key of workers that pages of documents lack.
func hasHeadOfWorker(head string) bool {
	node, _ := strictyaml.Parse("", []byte(head))
	return len(node.Fields) == 0 || slices.ContainsFunc(node.Fields, func(f strictyaml.Field) bool {
		return isKey(f.Key.Text) && plainKey(f.Key.Text) != "description"
	})
}

func plainKey(key string) string { return strings.ToLower(strictyaml.SnakeCase(key)) }

func isKey(key string) bool {
	return slices.ContainsFunc(Schema().Keys, func(k strictyaml.Key) bool { return k.Name == plainKey(key) })
}
