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

	"github.com/golem-forge/golem/internal/durable"
)

// bases are the versions of a layer, by path. The file has lines of them; of several
// for one path the last counts.
type baseSet struct {
	store       string
	all         map[string]*version
	unwritten   []*version      // not written yet
	forgotten   map[string]bool // forgotten, and not written yet
	obsolete    []*version      // whose content is not needed any more
	lines       int             // of the file
	isDamaged   bool            // it has some that cannot be read
	contents    int             // how many contents are kept
	bytes       int64
	lastContent int      // their highest number
	sortedPaths []string // the paths that were there, in order
}

// What is kept of contents at most.
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
			b.isDamaged = true // what a crash has left of a line
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

// countContent counts the content of a version in or out.
func (b *baseSet) countContent(v *version, n int) {
	if v.Content > 0 {
		b.contents += n
		b.bytes += int64(n) * v.Size
		b.lastContent = max(b.lastContent, v.Content)
	}
}

// put notes a version.
func (b *baseSet) put(v *version) {
	if was := b.all[v.Path]; was != nil && was.Content != v.Content {
		b.countContent(was, -1)
		b.obsolete = append(b.obsolete, was)
	}
	v.inUse = true
	b.all[v.Path] = v
	b.unwritten = append(b.unwritten, v)
}

// forget forgets a version.
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

// startScan says that the layer is gone through.
func (b *baseSet) startScan() {
	for _, v := range b.all {
		v.inUse = false
	}
	b.sortPaths()
}

// sortPaths returns the paths that there are now, in order.
func (b *baseSet) sortPaths() []string {
	b.sortedPaths = slices.Sorted(maps.Keys(b.all))
	return b.sortedPaths
}

// below returns the versions that there were of what is in a folder.
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

// flush writes what is new. What a power failure takes of it is noted again, or is
// a clash: it is not worth waiting for the disk, with all that a command has written.
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
		if _, err := f.WriteString("\n"); err != nil { // an end to what is torn
			return err
		}
	}
	b.lines += len(list)
	return writeLines(f, list)
}

// save writes all that is to be written.
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

// rewrite writes the file anew, and removes the contents that it does not name.
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
	if err := errors.Join(writeLines(f, list), f.Sync()); err != nil {
		return err // the old one stays
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

// writeLines writes versions, a line each.
func writeLines(w io.Writer, list []*version) error {
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

// contentPath returns the file with the content of a version.
func (b *baseSet) contentPath(v *version) string {
	return b.store + "/" + contentsName + "/" + strconv.Itoa(v.Content)
}

// keepContent keeps the content of a version, where it is a file that is not too large.
// Whatever hinders that, there is none then.
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

// copyFile copies a file, but for what is beyond a size. Where the file system can
// it shares the blocks.
func copyFile(out, in *os.File, most int64) error {
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil {
		return nil
	}
	_, err := io.Copy(out, io.LimitReader(in, most))
	return err
}
