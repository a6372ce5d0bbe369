package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/durable"
)

// A baseSet holds the versions of a session by path. Its file has a line for each. The
// last line of a path counts.
type baseSet struct {
	store       string
	all         map[string]*version
	unwritten   []*version
	forgotten   map[string]bool // forgotten paths that the file still has
	obsolete    []*version      // versions whose content is no longer needed
	lines       int             // in the file
	isDamaged   bool            // the file has lines that cannot be read
	contents    int             // number of kept contents
	bytes       int64
	lastContent int      // the highest number of a content
	sortedPaths []string // as of the last sortPaths
}

// Limits of the kept contents: bytes of one, their number, and bytes of all.
const (
	maxContent      = 1 << 20
	maxContents     = 1_000
	maxContentBytes = 64 << 20
)

func readBases(store string) (*baseSet, error) {
	b := &baseSet{store: store, all: map[string]*version{}, forgotten: map[string]bool{}}
	data, err := os.ReadFile(store + "/" + basesName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b.isDamaged = len(data) > 0 && data[len(data)-1] != '\n'
	for line := range bytes.Lines(data) {
		v := new(version)
		if json.Unmarshal(line, v) != nil {
			b.isDamaged = true // part of a line that a crash left
			continue
		}
		if v.RawPath != nil {
			v.Path = string(v.RawPath)
		}
		b.lines++
		if b.all[v.Path] = v; v.Forgotten {
			delete(b.all, v.Path)
		}
	}
	for _, v := range b.all {
		b.countContent(v, 1)
	}
	return b, nil
}

// countContent adds n times the content of a version to the counters.
func (b *baseSet) countContent(v *version, n int) {
	if v.Content > 0 {
		b.contents += n
		b.bytes += int64(n) * v.Size
		b.lastContent = max(b.lastContent, v.Content)
	}
}

// put adds a version.
func (b *baseSet) put(v *version) {
	if was := b.all[v.Path]; was != nil && was.Content != v.Content {
		b.countContent(was, -1)
		b.obsolete = append(b.obsolete, was)
	}
	v.inUse = true
	b.all[v.Path] = v
	b.unwritten = append(b.unwritten, v)
}

// forget removes the version of a path.
func (b *baseSet) forget(name string) {
	if v := b.all[name]; v != nil {
		b.countContent(v, -1)
		b.obsolete = append(b.obsolete, v)
		delete(b.all, name)
		if b.forgotten == nil {
			b.forgotten = make(map[string]bool)
		}
		b.forgotten[name] = true
	}
}

// startScan prepares for a walk of the upperdir.
func (b *baseSet) startScan() {
	for _, v := range b.all {
		v.inUse = false
	}
	b.sortPaths()
}

// sortPaths returns the paths in order.
func (b *baseSet) sortPaths() []string {
	b.sortedPaths = slices.Sorted(maps.Keys(b.all))
	return b.sortedPaths
}

// below returns the versions of paths in a directory, as of the last sortPaths.
func (b *baseSet) below(name string) []*version {
	if b.sortedPaths == nil {
		b.sortPaths()
	}
	from, _ := slices.BinarySearch(b.sortedPaths, name+"/")
	var list []*version
	for _, p := range b.sortedPaths[from:] {
		if !strings.HasPrefix(p, name+"/") {
			break
		}
		if v := b.all[p]; v != nil {
			list = append(list, v)
		}
	}
	return list
}

// forgetBelow removes the versions of paths in a directory.
func (b *baseSet) forgetBelow(name string) {
	if v := b.all[name]; v == nil || v.Kind != Dir {
		return
	}
	for _, v := range b.below(name) {
		b.forget(v.Path)
	}
}

// flush appends new versions to the file. It does not sync it: a version that a power
// failure loses is recorded again or becomes a conflict, and a sync would wait for
// everything that a command has written.
func (b *baseSet) flush() error {
	var list []*version
	for name := range b.forgotten {
		list = append(list, &version{Path: name, Forgotten: true})
	}
	for _, v := range b.unwritten {
		if b.all[v.Path] == v {
			list = append(list, v)
		}
	}
	clear(b.forgotten)
	if b.unwritten = nil; len(list) == 0 {
		return nil
	}
	f, err := os.OpenFile(b.store+"/"+basesName, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if b.isDamaged {
		if _, err := f.WriteString("\n"); err != nil { // ends the damaged line
			return err
		}
	}
	b.lines += len(list)
	return writeVersions(f, list)
}

// save writes all pending changes of the set.
func (b *baseSet) save() error {
	if b.isDamaged || b.lines > 2*len(b.all)+1000 {
		return b.rewrite()
	}
	if err := b.flush(); err != nil {
		return err
	}
	for _, v := range b.obsolete {
		if v.Content == 0 {
			continue
		}
		if err := os.Remove(b.contentPath(v)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	b.obsolete = nil
	return nil
}

// rewrite writes the whole file anew, and removes contents that no version names.
func (b *baseSet) rewrite() error {
	name := b.store + "/" + basesName
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var list []*version
	texts := map[string]bool{}
	for _, p := range slices.Sorted(maps.Keys(b.all)) {
		v := b.all[p]
		list = append(list, v)
		texts[strconv.Itoa(v.Content)] = true
	}
	if err := errors.Join(writeVersions(f, list), f.Sync()); err != nil {
		return err // the old file stays
	}
	if err := durable.Rename(name+".new", name); err != nil {
		return err
	}
	b.unwritten, b.obsolete, b.isDamaged, b.lines = nil, nil, false, len(list)
	clear(b.forgotten)
	kept, err := os.ReadDir(b.store + "/" + contentsName)
	if err != nil {
		return err
	}
	for _, e := range kept {
		if texts[e.Name()] {
			continue
		}
		if err := os.Remove(b.store + "/" + contentsName + "/" + e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// writeVersions writes a line for each version.
func writeVersions(w io.Writer, list []*version) error {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	for _, v := range list {
		line := *v
		if !utf8.ValidString(v.Path) {
			line.Path, line.RawPath = "", []byte(v.Path)
		}
		if err := e.Encode(line); err != nil {
			return err
		}
	}
	_, err := w.Write(buf.Bytes())
	return err
}

// contentPath returns the path of the kept content of a version.
func (b *baseSet) contentPath(v *version) string {
	return b.store + "/" + contentsName + "/" + strconv.Itoa(v.Content)
}

// keepContent keeps the content of a version, if it is a file within the limits. If an
// error occurs, it keeps none.
func (b *baseSet) keepContent(real *tree, v *version) {
	if v.Kind != File || v.Unknown || v.Content > 0 || v.Size > maxContent || b.contents >= maxContents || b.bytes+v.Size > maxContentBytes {
		return
	}
	fd, err := real.open(v.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return
	}
	in := os.NewFile(uintptr(fd), v.Path)
	defer in.Close()
	kept := *v
	kept.Content = b.lastContent + 1
	out, err := os.OpenFile(b.contentPath(&kept), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer out.Close()
	err = copyFile(out, in, maxContent+1)
	var st unix.Stat_t
	if err != nil || unix.Fstat(fd, &st) != nil || !v.matches(st, kindOf(st)) {
		os.Remove(out.Name())
		return
	}
	v.Content = kept.Content
	b.countContent(v, 1)
}

// copyFile copies at most so many bytes of a file. If the file system can share blocks,
// it shares all of them.
func copyFile(out, in *os.File, most int64) error {
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil {
		return nil
	}
	_, err := io.Copy(out, io.LimitReader(in, most))
	return err
}
