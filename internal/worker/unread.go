package worker

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// maxUnreadDepth is how deep reportUnread looks in a directory for workers.
const maxUnreadDepth = 4

// FindUnread returns a problem for each file that was probably meant as a worker. It is for
// a program with a project file in which Discover found no worker with the same arguments.
// Such a program has only the limits of its project file, so a file that golem does not read
// must not be missing in silence.
func FindUnread(root string, paths []string) strictyaml.Problems {
	host, err := os.OpenRoot(root)
	if err != nil {
		return nil // Discover has said so
	}
	defer host.Close()
	d := finder{root: host, seen: map[string]bool{}}
	d.reportUnread(paths)
	return d.problems
}

func (d *finder) reportUnread(paths []string) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		d.addProblem(".", "golem may not list the program's directory", "run chmod u+rx on it")
		return
	}
	for _, e := range entries {
		isDir := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := d.root.Stat(e.Name())
			isDir = err == nil && info.IsDir()
		}
		if isDir && slices.Contains([]string{"worker", "workers"}, plainName(e.Name())) {
			d.reportBelow(e.Name(), 1)
		} else if !isDir {
			d.reportUnreadFile(e.Name(), plainName(Stem(strings.ToLower(e.Name()))) == "main")
		}
	}
	for _, p := range paths {
		if clean := path.Clean(filepath.ToSlash(p)); clean != "." && fs.ValidPath(clean) {
			d.reportBelow(clean, 1)
		}
	}
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
	if err != nil {
		d.addProblem(sandbox.Shown(dir), "golem cannot read this directory, and found no other worker", "run chmod u+rx "+shown(dir)+", or remove it")
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

// reportUnreadFile reports a file with the name of a worker. If isLikely, it also reports a
// YAML file that may be one: its content has a key of workers, or golem cannot read it.
func (d *finder) reportUnreadFile(name string, isLikely bool) {
	plain := plainName(path.Base(name))
	for _, more := range []string{".md", ".txt", ".yaml", ".yml", ".bak"} {
		if stem := strings.TrimSuffix(plain, more); strings.HasSuffix(stem, suffix) {
			plain = stem
		}
	}
	isWorker := strings.HasSuffix(plain, suffix)
	if isYAML := strings.HasSuffix(plain, ".yaml") || strings.HasSuffix(plain, ".yml"); isYAML && isLikely {
		data, err := d.readContent(name)
		isWorker = err != nil || likelyKey().Match(data)
	}
	if isWorker {
		d.addProblem(sandbox.Shown(name), "this worker is not read, and the program has no other", "a worker is a regular file main.worker, workers/NAME.worker or workers/NAME/worker.worker; rename it, or move it away")
	}
}

// plainName returns a name in lower case and without dots at its beginning.
func plainName(name string) string { return strings.TrimLeft(strings.ToLower(name), ".") }

// likelyKey matches a key of worker files in any form of YAML.
var likelyKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(instructions|prompt|toolsets|tool_rules|allow_workers)["']?\s*:`)
})
