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
type bases struct {
	store string
	all   map[string]*version
	fresh []*version      // not written yet
	gone  map[string]bool // forgotten, and not written yet
	dead  []*version      // whose content is not needed any more
	lines int             // of the file
	torn  bool            // it has some that cannot be read
	texts int             // how many contents are kept
	bytes int64
	last  int      // their highest number
	order []string // the paths that were there, in order
}

// What is kept of contents at most.
const (
	maxText  = 1 << 20
	maxTexts = 1_000
	maxBytes = 64 << 20
)

func readBases(store string) (*bases, error) {
	b := &bases{store: store, all: map[string]*version{}, gone: map[string]bool{}}
	data, err := os.ReadFile(store + "/" + basesName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b.torn = len(data) > 0 && data[len(data)-1] != '\n'
	for line := range bytes.Lines(data) {
		v := new(version)
		if json.Unmarshal(line, v) != nil {
			b.torn = true // what a crash has left of a line
			continue
		}
		if v.Raw != nil {
			v.Path = string(v.Raw)
		}
		b.lines++
		if b.all[v.Path] = v; v.Gone {
			delete(b.all, v.Path)
		}
	}
	for _, v := range b.all {
		b.count(v, 1)
	}
	return b, nil
}

// count counts the content of a version in or out.
func (b *bases) count(v *version, n int) {
	if v.Text > 0 {
		b.texts += n
		b.bytes += int64(n) * v.Size
		b.last = max(b.last, v.Text)
	}
}

// put notes a version.
func (b *bases) put(v *version) {
	if was := b.all[v.Path]; was != nil && was.Text != v.Text {
		b.count(was, -1)
		b.dead = append(b.dead, was)
	}
	v.met = true
	b.all[v.Path] = v
	b.fresh = append(b.fresh, v)
}

// drop forgets a version.
func (b *bases) drop(name string) {
	if v := b.all[name]; v != nil {
		b.count(v, -1)
		b.dead = append(b.dead, v)
		delete(b.all, name)
		if b.gone == nil {
			b.gone = make(map[string]bool)
		}
		b.gone[name] = true
	}
}

// begin says that the layer is gone through.
func (b *bases) begin() {
	for _, v := range b.all {
		v.met = false
	}
	b.paths()
}

// paths returns the paths that there are now, in order.
func (b *bases) paths() []string {
	b.order = slices.Sorted(maps.Keys(b.all))
	return b.order
}

// below returns the versions that there were of what is in a folder.
func (b *bases) below(name string) []*version {
	if b.order == nil {
		b.paths()
	}
	from, _ := slices.BinarySearch(b.order, name+"/")
	var list []*version
	for _, p := range b.order[from:] {
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
func (b *bases) flush() error {
	var list []*version
	for name := range b.gone {
		list = append(list, &version{Path: name, Gone: true})
	}
	for _, v := range b.fresh {
		if b.all[v.Path] == v {
			list = append(list, v)
		}
	}
	clear(b.gone)
	if b.fresh = nil; len(list) == 0 {
		return nil
	}
	f, err := os.OpenFile(b.store+"/"+basesName, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if b.torn {
		if _, err := f.WriteString("\n"); err != nil { // an end to what is torn
			return err
		}
	}
	b.lines += len(list)
	return writeLines(f, list)
}

// save writes all that is to be written.
func (b *bases) save() error {
	if b.torn || b.lines > 2*len(b.all)+1000 {
		return b.rewrite()
	}
	if err := b.flush(); err != nil {
		return err
	}
	for _, v := range b.dead {
		if v.Text == 0 {
			continue
		}
		if err := os.Remove(b.text(v)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	b.dead = nil
	return nil
}

// rewrite writes the file anew, and removes the contents that it does not name.
func (b *bases) rewrite() error {
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
		texts[strconv.Itoa(v.Text)] = true
	}
	if err := errors.Join(writeLines(f, list), f.Sync()); err != nil {
		return err // the old one stays
	}
	if err := durable.Rename(name+".new", name); err != nil {
		return err
	}
	b.fresh, b.dead, b.torn, b.lines = nil, nil, false, len(list)
	clear(b.gone)
	kept, err := os.ReadDir(b.store + "/" + textsName)
	if err != nil {
		return err
	}
	for _, e := range kept {
		if texts[e.Name()] {
			continue
		}
		if err := os.Remove(b.store + "/" + textsName + "/" + e.Name()); err != nil {
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
			line.Path, line.Raw = "", []byte(v.Path)
		}
		if err := e.Encode(line); err != nil {
			return err
		}
	}
	_, err := w.Write(buf.Bytes())
	return err
}

// text returns the file with the content of a version.
func (b *bases) text(v *version) string {
	return b.store + "/" + textsName + "/" + strconv.Itoa(v.Text)
}

// keepText keeps the content of a version, where it is a file that is not too large.
// Whatever hinders that, there is none then.
func (b *bases) keepText(real *tree, v *version) {
	if v.Kind != File || v.Unknown || v.Text > 0 || v.Size > maxText || b.texts >= maxTexts || b.bytes+v.Size > maxBytes {
		return
	}
	fd, err := real.open(v.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return
	}
	in := os.NewFile(uintptr(fd), v.Path)
	defer in.Close()
	kept := *v
	kept.Text = b.last + 1
	out, err := os.OpenFile(b.text(&kept), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer out.Close()
	err = copyFile(out, in, maxText+1)
	var st unix.Stat_t
	if err != nil || unix.Fstat(fd, &st) != nil || !v.is(st, kindOf(st)) {
		os.Remove(out.Name())
		return
	}
	v.Text = kept.Text
	b.count(v, 1)
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
