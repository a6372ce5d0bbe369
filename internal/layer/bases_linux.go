package layer

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
)

// A version is what the real folder had at a path when the session first changed
// it: the base of the change.
type version struct {
	Path  string `json:",omitempty"`
	Raw   []byte `json:",omitempty"` // the path, where it is no text
	Kind  Kind   `json:",omitempty"`
	Ino   uint64 `json:",omitempty"`
	Size  int64  `json:",omitempty"`
	Ctime int64  `json:",omitempty"`
	Mode  uint32 `json:",omitempty"`
	To    []byte `json:",omitempty"` // what a link said
	Text  int    `json:",omitempty"` // the number of the content that was kept, 0 for none

	// Unknown says that others have changed it while the session did.
	Unknown bool `json:",omitempty"`
	// Open says that both sides have a folder here, or had, and that what the session
	// has changed in it has versions of its own. What is in another one has the version
	// that follows: of a folder it is what has not changed since At, of nothing nothing.
	Open bool  `json:",omitempty"`
	At   int64 `json:",omitempty"`

	// Of what was copied: how the copy was then; that it could not be copied; that
	// another folder stands there in the session.
	Own     own  `json:",omitzero"`
	Left    bool `json:",omitempty"`
	Covered bool `json:",omitempty"`

	met bool // there still is a change
}

// versionOf returns the version that is there. What has changed since a time is not
// known: it may be before or after what the session saw.
func versionOf(name string, st unix.Stat_t, at int64) *version {
	v := &version{Path: name, Kind: kindOf(st), Ino: st.Ino, Size: st.Size, Ctime: st.Ctim.Nano(), Mode: bits(st), Unknown: st.Ctim.Nano() >= at}
	if v.Kind == Folder {
		v.Ino, v.Size, v.Ctime, v.At = 0, 0, 0, at
	}
	return v
}

// is reports whether something still is this version; of a folder what is in it is
// not looked at.
func (v *version) is(st unix.Stat_t, kind Kind) bool {
	switch {
	case v.Unknown || v.Kind != kind:
		return false
	case kind == Nothing:
		return true
	case kind == Folder:
		return bits(st) == v.Mode
	}
	return st.Ino == v.Ino && st.Size == v.Size && st.Ctim.Nano() == v.Ctime
}

// equal reports whether two are the same, of a folder.
func (v *version) equal(w *version) bool {
	return v.Kind == w.Kind && v.Mode == w.Mode && v.Unknown == w.Unknown && v.Open == w.Open
}

// bases are the versions of a layer, by path. The file has a line for each; of
// several for one path the last counts.
type bases struct {
	store string
	all   map[string]*version
	fresh []*version // not written yet
	torn  bool       // the file has what is not to be read again
	texts int        // how many contents are kept
	bytes int64
	last  int      // their highest number
	order []string // the paths in order, nil where one has come since
}

// What is kept of contents at most.
const (
	maxText  = 1 << 20
	maxTexts = 1_000
	maxBytes = 64 << 20
)

func readBases(store string) (*bases, error) {
	b := &bases{store: store, all: map[string]*version{}}
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
		b.all[v.Path] = v
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
	was := b.all[v.Path]
	if was == nil {
		b.order = nil
	} else if was != v && was.Text != v.Text {
		b.count(was, -1)
		b.torn = true
	}
	v.met = true
	b.all[v.Path] = v
	if !slices.Contains(b.fresh[max(0, len(b.fresh)-1):], v) {
		b.fresh = append(b.fresh, v)
	}
}

// drop forgets versions.
func (b *bases) drop(names ...string) {
	for _, name := range names {
		if v := b.all[name]; v != nil {
			b.count(v, -1)
			delete(b.all, name)
			b.torn = true
		}
	}
}

// paths returns the paths in order.
func (b *bases) paths() []string {
	if len(b.order) != len(b.all) {
		b.order = slices.Sorted(maps.Keys(b.all))
	}
	return b.order
}

// below returns the versions of what is in a folder.
func (b *bases) below(name string) []*version {
	order := b.order // with what was dropped since, so that it need not be made anew
	if order == nil {
		order = b.paths()
	}
	from, _ := slices.BinarySearch(order, name+"/")
	var list []*version
	for _, p := range order[from:] {
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
	var fresh []*version
	for _, v := range b.fresh {
		if b.all[v.Path] == v {
			fresh = append(fresh, v)
		}
	}
	if b.fresh = nil; len(fresh) == 0 {
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
	return writeLines(f, fresh)
}

// save writes all that is to be written.
func (b *bases) save() error {
	if !b.torn {
		return b.flush()
	}
	name := b.store + "/" + basesName
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var list []*version
	texts := map[string]bool{}
	for _, p := range b.paths() {
		v := b.all[p]
		list = append(list, v)
		texts[strconv.Itoa(v.Text)] = true
	}
	if err := errors.Join(writeLines(f, list), f.Sync(), os.Rename(name+".new", name)); err != nil {
		return err
	}
	b.fresh, b.torn = nil, false
	kept, err := os.ReadDir(b.store + "/" + textsName)
	if err != nil {
		return err
	}
	for _, e := range kept {
		if !texts[e.Name()] {
			if err := os.Remove(b.store + "/" + textsName + "/" + e.Name()); err != nil {
				return err
			}
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
