package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
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
	// Ignored are the new files that git ignores: a line for each place, as in every list.
	Ignored []Ignored `json:"ignored,omitempty"`
	// Unlisted says that there are files that golem could not list, and why.
	Unlisted string `json:"unlisted,omitempty"`
}

// Ignored are the files of one ignored place, without those that become code.
type Ignored struct {
	Path  string `json:"path"` // a directory with a slash at its end, or with /* if it has other files too
	Files int    `json:"files"`
	Hash  string `json:"hash"` // see hashFiles
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
	// Place is the ignored place that the file belongs to, if the record does not name it.
	Place string `json:"-"`
}

// IsEmpty reports whether there is nothing to record.
func (f *Files) IsEmpty() bool {
	return f == nil || len(f.List)+len(f.Ignored) == 0 && f.More == 0 && f.Unlisted == ""
}

// Count returns the number of files that are not ignored.
func (f *Files) Count() int {
	if f == nil {
		return 0
	}
	return len(f.List) + f.More
}

// maxPlaces is how many ignored places a record names. The files of others count like those that
// are not ignored.
const maxPlaces = 20

// fileRoom is the most bytes of a file in a record, besides its path.
const fileRoom = 256

// files returns files within the limits.
func (k *keeper) files(f *Files) *Files {
	if f.IsEmpty() {
		return nil
	}
	kept := &Files{List: []File{}, More: f.More, Hash: f.Hash, Unlisted: k.text(f.Unlisted)}
	var list, others []File
	places := make(map[string][]File)
	for _, file := range f.List {
		if file.Place == "" {
			list = append(list, file)
		} else {
			places[file.Place] = append(places[file.Place], file)
		}
	}
	for i, place := range slices.Sorted(maps.Keys(places)) {
		if i >= maxPlaces {
			others = append(others, places[place]...)
			continue
		}
		kept.Ignored = append(kept.Ignored, Ignored{k.text(place), len(places[place]), hashFiles(places[place])})
		k.left -= fileRoom
	}
	list = append(list, others...)
	for i, file := range list {
		room := encodedLen(shorten(file.Path)) + fileRoom
		if i == MaxFiles || room > k.left {
			kept.More, kept.Hash = kept.More+len(list)-i, hashFiles(list[i:])
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
		text := visible.LineCounts(added, removed)
		if f.More > 0 {
			text += " in " + visible.Number(len(f.List)) + " of them"
		}
		parts = append(parts, text)
	}
	if n := f.ignored(); n > 0 {
		parts = append(parts, visible.Count(n, "ignored file"))
	}
	if f.Unlisted != "" {
		parts = append(parts, visible.Line(f.Unlisted, maxUnlisted))
	}
	return strings.Join(parts, ", ")
}

// ignored returns the number of ignored files.
func (f *Files) ignored() (n int) {
	for _, place := range f.Ignored {
		n += place.Files
	}
	return n
}

// String returns the place as one line for a person: /node_modules/ (677 ignored files).
func (i Ignored) String() string {
	return visible.Name(i.Path) + " (" + visible.Count(i.Files, "ignored file") + ")"
}

// has reports whether the place has a file, or is in a directory.
func (i Ignored) has(path string) bool {
	path = strings.TrimSuffix(path, "/") + "/"
	return strings.HasSuffix(i.Path, "/") && (strings.HasPrefix(path, i.Path) || strings.HasPrefix(i.Path, path))
}

// namesAll reports whether the journal knows of each path whether it is among the files.
func (f *Files) namesAll() bool {
	return f.More == 0 && f.Unlisted == "" && !slices.ContainsFunc(f.Ignored, func(i Ignored) bool { return strings.HasSuffix(i.Path, "*") })
}

// maxUnlisted is how many characters of Files.Unlisted are shown.
const maxUnlisted = 300

// Letter returns the letter for what was done: A, D or M.
func (f File) Letter() string {
	return cmp.Or(map[string]string{"create": "A", "delete": "D"}[f.Op], "M")
}

// String returns the file as one line for a person: M src/main.c (+1 -2).
func (f File) String() string {
	if f.Place != "" {
		return f.Place
	}
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
	for _, place := range f.Ignored {
		rows = append(rows, fmt.Sprintf("%s; the hash of their list is %s", place, visible.Line(place.Hash, maxUnlisted)))
	}
	if f.More > 0 {
		rows = append(rows, fmt.Sprintf("and %s that the journal does not name; the hash of their list is %s", visible.Count(f.More, "more file"), visible.Line(f.Hash, maxUnlisted)))
	}
	if f.Unlisted != "" {
		rows = append(rows, visible.Line(f.Unlisted, maxUnlisted))
	}
	return rows
}

// Find returns the named file at a path, or the first one below it, or else the deleted directory
// or the ignored place that it was in.
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
	for _, file := range f.List {
		if file.Op == "delete" && file.Kind == "directory" && strings.HasPrefix(at, file.Path+"/") {
			return file, true
		}
	}
	for _, place := range f.Ignored {
		if place.has(path) {
			return File{Path: place.Path, Op: "create", Place: place.String()}, true
		}
	}
	return File{}, false
}
