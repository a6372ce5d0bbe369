package parcel

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"
)

// A Tree lists what is in a directory, sorted by name. A directory comes before its content.
type Tree []Entry

// An Entry is a file, a directory, a symlink or the mark of a deleted file.
type Entry struct {
	Name     string // relative to the directory, with slashes
	Kind     Kind
	Mode     uint32    // permission bits of files and directories
	Size     int64     // of a file
	Hash     string    // SHA-256 of a file's content, in hexadecimal
	Target   string    // of a symlink
	Modified time.Time // of files and directories, in UTC

	// Attributes are extended attributes of overlayfs: Opaque and Origin.
	Attributes map[string][]byte
}

// A Kind is the kind of an Entry.
type Kind string

// The kinds.
const (
	Dir  Kind = "dir"
	File Kind = "file"
	Link Kind = "link"
	Gone Kind = "gone" // the mark by which overlayfs hides a deleted file
)

// The attributes of overlayfs that a Tree may have. Opaque marks a directory that hides the
// one below it, and has the value "y". Origin marks a copy of a file or directory below. It
// has no value: the kernel's value names a file of one machine.
const (
	Opaque = "user.overlay.opaque"
	Origin = "user.overlay.origin"
)

// attributeValues are the values that attributes may have.
var attributeValues = map[string]string{Opaque: "y", Origin: ""}

// Limits are what a Tree may have at most. A zero field stands for the default.
type Limits struct {
	Entries int   // 1,000,000
	Bytes   int64 // of all files together: 64 GiB
}

func (l Limits) entries() int {
	if l.Entries > 0 {
		return l.Entries
	}
	return 1_000_000
}

func (l Limits) bytes() int64 {
	if l.Bytes > 0 {
		return l.Bytes
	}
	return 64 << 30
}

// Limits of single entries.
const (
	maxName  = 255  // bytes of a name in its directory
	maxPath  = 4095 // bytes of a name or of the target of a symlink
	maxDepth = 256  // directories in one another
)

// emptyHash is the hash of a file without content. Nobody stores such content.
var emptyHash = hex.EncodeToString(sha256.New().Sum(nil))

// Check returns an error if Write would refuse the tree. A tree may come from a machine
// that lies.
func (t Tree) Check(l Limits) error {
	if len(t) > l.entries() {
		return fmt.Errorf("%d files and directories; at most %d are allowed", len(t), l.entries())
	}
	dirs := make(map[string]bool)
	last, room := "", l.bytes()
	for i, e := range t {
		if err := e.check(); err != nil {
			return fmt.Errorf("%.200q: %w", e.Name, err)
		}
		if i > 0 && e.Name <= last {
			return fmt.Errorf("%.200q follows %.200q; names must be sorted and different", e.Name, last)
		}
		if above := path.Dir(e.Name); above != "." && !dirs[above] {
			return fmt.Errorf("%.200q: it is in no directory of the tree", e.Name)
		}
		if e.Kind == Dir {
			dirs[e.Name] = true
		}
		if room -= e.Size; room < 0 {
			return fmt.Errorf("more than %d bytes; no more are allowed", l.bytes())
		}
		last = e.Name
	}
	return nil
}

// check checks one entry.
func (e Entry) check() error {
	if err := checkName(e.Name); err != nil {
		return err
	}
	if e.Mode&^0o777 != 0 {
		return fmt.Errorf("mode %o; only permission bits are allowed", e.Mode)
	}
	for name, value := range e.Attributes {
		want, known := attributeValues[name]
		if !known || string(value) != want || e.Kind != Dir && (e.Kind != File || name == Opaque) {
			return fmt.Errorf("attribute %.80q is not allowed here; only %s of directories and %s of files and directories are", name, Opaque, Origin)
		}
	}
	plain := Entry{Name: e.Name, Kind: e.Kind}
	switch e.Kind {
	case Dir:
		plain.Mode, plain.Modified, plain.Attributes = e.Mode, e.Modified, e.Attributes
	case File:
		hash, err := hex.DecodeString(e.Hash)
		if err != nil || len(hash) != sha256.Size || e.Hash != hex.EncodeToString(hash) {
			return fmt.Errorf("%.80q is no hash; one has 64 digits", e.Hash)
		}
		if e.Size < 0 || (e.Size == 0) != (e.Hash == emptyHash) {
			return fmt.Errorf("the size %d does not belong to its hash", e.Size)
		}
		plain.Mode, plain.Modified, plain.Attributes, plain.Size, plain.Hash = e.Mode, e.Modified, e.Attributes, e.Size, e.Hash
	case Link:
		if e.Target == "" || len(e.Target) > maxPath || strings.ContainsRune(e.Target, 0) {
			return fmt.Errorf("%.80q is no target of a symlink", e.Target)
		}
		plain.Target = e.Target
	case Gone:
	default:
		return fmt.Errorf("kind %.80q; only dir, file, link and gone are allowed", string(e.Kind))
	}
	if !e.equal(plain) {
		return fmt.Errorf("it has fields that a %s does not have", e.Kind)
	}
	return nil
}

// equal reports whether two entries are the same.
func (e Entry) equal(o Entry) bool {
	return e.Name == o.Name && e.Kind == o.Kind && e.Mode == o.Mode && e.Size == o.Size && e.Hash == o.Hash && e.Target == o.Target &&
		e.Modified.Equal(o.Modified) && equalAttributes(e.Attributes, o.Attributes)
}

func equalAttributes(a, b map[string][]byte) bool {
	for name := range attributeValues { // their values are fixed
		_, in := a[name]
		if _, too := b[name]; in != too {
			return false
		}
	}
	return true
}

// checkName checks the name of an entry.
func checkName(name string) error {
	if name == "" || name == "." || len(name) > maxPath || path.Clean(name) != name || strings.ContainsRune(name, 0) || !filepath.IsLocal(filepath.FromSlash(name)) ||
		runtime.GOOS == "windows" && strings.ContainsAny(name, `\:`) {
		return fmt.Errorf("it is no name in a tree; names are relative and clean, and have at most %d bytes", maxPath)
	}
	parts := strings.Split(name, "/")
	if len(parts) > maxDepth {
		return fmt.Errorf("it is too deep; at most %d directories in one another are allowed", maxDepth)
	}
	for _, part := range parts {
		if len(part) > maxName {
			return fmt.Errorf("a part of it is too long; at most %d bytes are allowed", maxName)
		}
	}
	return nil
}

// An encodedEntry is an Entry in JSON. Names need not be UTF-8, which JSON needs.
type encodedEntry struct {
	Name       string            `json:"name,omitempty"`
	RawName    []byte            `json:"raw_name,omitempty"`
	Kind       Kind              `json:"kind"`
	Mode       uint32            `json:"mode,omitempty"`
	Size       int64             `json:"size,omitempty"`
	Hash       string            `json:"hash,omitempty"`
	Target     string            `json:"target,omitempty"`
	RawTarget  []byte            `json:"raw_target,omitempty"`
	Modified   time.Time         `json:"modified,omitzero"`
	Attributes map[string][]byte `json:"attributes,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (e Entry) MarshalJSON() ([]byte, error) {
	out := encodedEntry{Name: e.Name, Kind: e.Kind, Mode: e.Mode, Size: e.Size, Hash: e.Hash, Target: e.Target, Modified: e.Modified, Attributes: e.Attributes}
	if !utf8.ValidString(e.Name) {
		out.Name, out.RawName = "", []byte(e.Name)
	}
	if !utf8.ValidString(e.Target) {
		out.Target, out.RawTarget = "", []byte(e.Target)
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Entry) UnmarshalJSON(data []byte) error {
	var in encodedEntry
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*e = Entry{Name: in.Name, Kind: in.Kind, Mode: in.Mode, Size: in.Size, Hash: in.Hash, Target: in.Target, Modified: in.Modified, Attributes: in.Attributes}
	if in.RawName != nil {
		e.Name = string(in.RawName)
	}
	if in.RawTarget != nil {
		e.Target = string(in.RawTarget)
	}
	return nil
}
