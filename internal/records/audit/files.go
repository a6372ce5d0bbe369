package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
)

// MaxFiles is how many files a record names.
const MaxFiles = 100

// Files are the files that a command changed, or that a discard or the removal of a session
// deleted. Write names the first of them, as many as fit, and replaces the others by their
// number and one hash.
type Files struct {
	List []File `json:"list"`
	More int    `json:"more,omitempty"` // how many others there are
	Hash string `json:"hash,omitempty"` // of the others, see hashFile
	// Unlisted says that there are files that golem could not list, and why.
	Unlisted string `json:"unlisted,omitempty"`
}

// A File is a changed or deleted file.
type File struct {
	Path string `json:"path"`
	// Op is create, change, delete, or mode if only the permission bits changed.
	Op      string `json:"op"`
	Kind    string `json:"kind,omitempty"` // directory, symlink, special; "" for a file
	Size    int64  `json:"size,omitempty"`
	Digest  string `json:"digest,omitempty"` // SHA-256 of the new content, "" if golem did not read it
	Added   int    `json:"added,omitempty"`  // lines
	Removed int    `json:"removed,omitempty"`
	// Uncounted is true if golem did not compare the lines.
	Uncounted bool `json:"uncounted,omitempty"`
}

// IsEmpty reports whether there is nothing to record.
func (f *Files) IsEmpty() bool {
	return f == nil || len(f.List) == 0 && f.More == 0 && f.Unlisted == ""
}

// Count returns the number of files.
func (f *Files) Count() int {
	if f == nil {
		return 0
	}
	return len(f.List) + f.More
}

// fileRoom is the most bytes of a file in a record, besides its path.
const fileRoom = 256

// files returns files within the limits.
func (k *keeper) files(f *Files) *Files {
	if f.IsEmpty() {
		return nil
	}
	kept := &Files{List: []File{}, More: f.More, Hash: f.Hash, Unlisted: k.text(f.Unlisted)}
	for i, file := range f.List {
		room := encodedLen(shorten(file.Path)) + fileRoom
		if i == MaxFiles || room > k.left {
			kept.More, kept.Hash = kept.More+len(f.List)-i, hashFiles(f.List[i:])
			break
		}
		file.Path = k.text(file.Path)
		k.left -= fileRoom
		kept.List = append(kept.List, file)
	}
	return kept
}

// hashFiles returns the SHA-256 of a line for each file: its path as a Go string, what was
// done, its kind and its size.
func hashFiles(list []File) string {
	sum := sha256.New()
	for _, f := range list {
		fmt.Fprintf(sum, "%q %s %q %d\n", f.Path, f.Op, f.Kind, f.Size)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// String says how much changed: 3 files, +10 -2.
func (f *Files) String() string {
	added, removed, counted := 0, 0, 0
	for _, file := range f.List {
		if added, removed = added+file.Added, removed+file.Removed; !file.Uncounted && file.Kind == "" && file.Op != "mode" {
			counted++
		}
	}
	var parts []string
	if n := f.Count(); n > 0 {
		parts = append(parts, visible.Count(n, "file"))
	}
	if counted > 0 {
		parts = append(parts, visible.LineCounts(added, removed))
	}
	if f.More > 0 && counted > 0 {
		parts = append(parts, visible.Number(f.More)+" not counted")
	}
	if f.Unlisted != "" {
		parts = append(parts, visible.Line(f.Unlisted, maxUnlisted))
	}
	return strings.Join(parts, ", ")
}

// maxUnlisted is how many characters of Files.Unlisted are shown.
const maxUnlisted = 300

// Letter returns the letter for what was done: A, D or M.
func (f File) Letter() string {
	return cmp.Or(map[string]string{"create": "A", "delete": "D"}[f.Op], "M")
}

// String returns the file as one line for a person: M src/main.c (+1 -2).
func (f File) String() string {
	text := f.Letter() + " " + visible.Name(f.Path)
	switch {
	case f.Kind != "":
		return text + " (" + visible.Line(f.Kind, maxUnlisted) + ")"
	case f.Op == "mode":
		return text + " (permission bits)"
	case f.Uncounted && f.Op == "delete":
		return text
	case f.Uncounted:
		return text + " (" + visible.Amount(f.Size) + ")"
	}
	return text + " (" + visible.LineCounts(f.Added, f.Removed) + ")"
}

// Rows returns a line for each named file, with its digest, and one for the others.
func (f *Files) Rows() (rows []string) {
	if f == nil {
		return nil
	}
	for _, file := range f.List {
		row := file.String()
		if file.Digest != "" {
			row += ", SHA-256 " + visible.Line(file.Digest, maxUnlisted)
		}
		rows = append(rows, row)
	}
	if f.More > 0 {
		rows = append(rows, fmt.Sprintf("and %s that the journal does not name; the hash of their list is %s", visible.Count(f.More, "more file"), visible.Line(f.Hash, maxUnlisted)))
	}
	if f.Unlisted != "" {
		rows = append(rows, visible.Line(f.Unlisted, maxUnlisted))
	}
	return rows
}

// Find returns the named file at a path, or the first one below it.
func (f *Files) Find(path string) (File, bool) {
	if f == nil {
		return File{}, false
	}
	at := strings.TrimSuffix(path, "/")
	for _, exact := range []bool{true, false} {
		for _, file := range f.List {
			if file.Path == shorten(path) || !exact && strings.HasPrefix(file.Path, at+"/") {
				return file, true
			}
		}
	}
	return File{}, false
}
