package sandboxtest

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// A world is a directory for attacks. It has the directories of mounts and, around them,
// files that no attack may read or change.
//
//	proj/         a mount, rw at "/" unless an attack says otherwise
//	proj-secret/  not a mount, though its name begins like one
//	out/          not a mount: the target of symlinks
//
// On a backend that is not on the host only the mounts are real. The rest are names in
// symlinks.
type world struct {
	t       testing.TB
	fixture Fixture
	dir     string // its path on the host, "" if it is not there
	canary  string // secret that no result may contain
	mounts  map[string]sandbox.Backend
	planted tree // initial content of the mounts, by names in the world
	before  manifest
}

// nowhere stands for the path of a world that is not on the host.
const nowhere = "/srv/world"

func newWorld(t testing.TB, f Fixture) *world {
	t.Helper()
	w := &world{t: t, fixture: f, canary: "CANARY-" + rand.Text(), mounts: map[string]sandbox.Backend{}, planted: tree{}}
	if f.OnHost {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		w.dir = dir
		Plant(t, sandbox.Host(dir), tree{
			"out/secret":         file(w.canary),
			"out/sub/deep":       file(w.canary),
			"out/" + w.canary:    file("a name to be seen by nobody"),
			"proj-secret/f":      file(w.canary),
			"home/.ssh/id":       file(w.canary),
			"out/golem.worker":   file(w.canary),
			"out/.git/config":    file(w.canary),
			"out/sub/" + "x.txt": file(w.canary),
		})
	}
	return w
}

// host returns the path of the world for symlinks and names.
func (w *world) host() string {
	if w.dir == "" {
		return nowhere
	}
	return filepath.ToSlash(w.dir)
}

// fill replaces {host} and {canary} in a text.
func (w *world) fill(text string) string {
	return strings.NewReplacer("{host}", w.host(), "{canary}", w.canary).Replace(text)
}

// mount makes a backend with a tree, in a directory of the world.
func (w *world) mount(name string, objects tree) sandbox.Backend {
	w.t.Helper()
	filled := tree{}
	for at, o := range objects {
		o.Content = w.fill(o.Content)
		filled[at] = o
		w.planted[path.Join(name, at)] = o
	}
	host := ""
	if w.dir != "" {
		host = filepath.Join(w.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(host, 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	b := w.fixture.New(w.t, sandbox.Host(host), filled)
	w.mounts[name] = b
	return b
}

// release truncates the large files of a world, so that an operation that hangs on one
// ends and does not slow down later tests.
func (w *world) release() {
	filepath.WalkDir(w.dir, func(at string, d fs.DirEntry, err error) error {
		if info, err := os.Lstat(at); err == nil && info.Mode().IsRegular() && info.Size() > 1<<30 {
			os.Truncate(at, 0)
		}
		return nil
	})
}

// restore undoes changes in the mounts, which is cheaper than a new world. It returns false if
// a new world is needed.
func (w *world) restore(list []string) bool {
	if w.dir == "" {
		return w.restoreBackends(list)
	}
	for _, change := range list {
		name := changedName(change)
		if _, ours := w.planted[name]; !ours && strings.HasPrefix(change, "changed ") || !w.mounted(name) {
			return false
		}
		if err := os.RemoveAll(filepath.Join(w.dir, filepath.FromSlash(name))); err != nil {
			return false
		}
	}
	for name, o := range w.planted {
		at := filepath.Join(w.dir, filepath.FromSlash(name))
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		if os.MkdirAll(filepath.Dir(at), 0o755) != nil || plant(at, o) != nil {
			return false
		}
	}
	was := w.before
	w.before = w.snapshot()
	return maps.EqualFunc(was, w.before, func(a, b string) bool { return timeless(a) == timeless(b) })
}

// restoreBackends undoes changes of files with the usual mode and of directories, by calls of
// the backends.
func (w *world) restoreBackends(list []string) bool {
	for _, change := range slices.Backward(list) { // what is in a directory before the directory
		name := changedName(change)
		b, rel := w.backend(name)
		if _, ours := w.planted[name]; b == nil || strings.HasPrefix(change, "changed ") && !ours {
			return false
		}
		if !strings.HasPrefix(change, "removed ") && b.Remove(rel) != nil {
			return false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.planted)) {
		b, rel := w.backend(name)
		if _, err := b.Lstat(rel); err == nil {
			continue
		}
		o := w.planted[name]
		if o.Mode != 0 && o.Mode != fs.ModeDir {
			return false
		}
		for i, c := range rel + "/" {
			dir := c == '/' && (i < len(rel) || o.Mode.IsDir())
			if _, err := b.Lstat(rel[:i]); dir && err != nil && b.Mkdir(rel[:i]) != nil {
				return false
			}
		}
		if o.Mode == 0 {
			if _, err := b.Write(rel, strings.NewReader(o.Content), sandbox.How{}); err != nil {
				return false
			}
		}
	}
	was := w.before
	w.before = w.snapshot()
	return maps.EqualFunc(was, w.before, func(a, b string) bool { return withoutID(a) == withoutID(b) })
}

// backend returns the mount of a name, and the name there; nil if it is in no mount or the
// mount itself.
func (w *world) backend(name string) (sandbox.Backend, string) {
	for m, b := range w.mounts {
		if rel, ok := strings.CutPrefix(name, m+"/"); ok {
			return b, rel
		}
	}
	return nil, ""
}

// withoutID returns a line of a manifest without the ID of a file, which a new file does not get
// again.
func withoutID(line string) string {
	head, tail, _ := strings.Cut(line, " id ")
	_, tail, _ = strings.Cut(tail, " ")
	return head + " " + tail
}

// timeless returns a line of a manifest without its time.
func timeless(line string) string {
	head, tail, _ := strings.Cut(line, " at ")
	_, tail, _ = strings.Cut(tail, " ")
	return head + " " + tail
}

// A manifest describes files by their names.
type manifest map[string]string

// snapshot describes all files in the mounts, and outside them on the host. It ignores
// the times of directories in mounts, because a temporary file changes them.
func (w *world) snapshot() manifest {
	m := manifest{}
	if w.dir == "" {
		for name, b := range w.mounts {
			m.addBackend(b, name, ".")
		}
		return m
	}
	err := filepath.WalkDir(w.dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(w.dir, at)
		name := filepath.ToSlash(rel)
		m[name], err = w.describe(at, name)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) describe(at, name string) (string, error) {
	info, err := os.Lstat(at)
	if err != nil {
		return "", err
	}
	text := info.Mode().String()
	if !info.IsDir() || !w.mounted(name) && name != "." {
		text += " " + strconv.FormatInt(info.Size(), 10) + " at " + strconv.FormatInt(info.ModTime().UnixNano(), 10)
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(at)
		return text + " " + target, err
	case info.Mode().IsRegular() && info.Size() < 1<<20:
		data, err := os.ReadFile(at)
		return text + " " + string(data), err
	}
	return text, nil
}

// mounted reports whether a name of the manifest is in a mount.
func (w *world) mounted(name string) bool {
	for m := range w.mounts {
		if name == m || strings.HasPrefix(name, m+"/") {
			return true
		}
	}
	return false
}

func (m manifest) addBackend(b sandbox.Backend, top, name string) {
	attr, err := b.Lstat(name)
	if err != nil {
		m[path.Join(top, name)] = err.Error()
		return
	}
	text := attr.Mode.String() + " " + attr.Target
	if !attr.Mode.IsDir() {
		text += " " + strconv.FormatInt(attr.Size, 10) + " id " + strconv.FormatUint(attr.ID, 10)
	}
	m[path.Join(top, name)] = text
	f, err := b.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	if attr.Mode.IsRegular() {
		data := make([]byte, f.Attr().Size)
		f.ReadAt(data, 0)
		m[path.Join(top, name)] += " " + string(data)
		return
	}
	entries, _ := f.ReadDir()
	for _, e := range entries {
		m.addBackend(b, top, path.Join(name, e.Name))
	}
}

// changes returns the differences between two manifests.
func changes(before, after manifest) []string {
	if maps.Equal(before, after) {
		return nil
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now, ok := after[name]; !ok {
			list = append(list, "removed "+name)
		} else if now != before[name] {
			list = append(list, fmt.Sprintf("changed %s: %.100q, now %.100q", name, before[name], now))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; !ok {
			list = append(list, "made "+name)
		}
	}
	return list
}

// changedName returns the name in a change.
func changedName(change string) string {
	_, name, _ := strings.Cut(change, " ")
	name, _, _ = strings.Cut(name, ": ")
	return name
}
