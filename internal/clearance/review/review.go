package review

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
)

// A FileChange is the change of one file.
type FileChange struct {
	Path          string // relative to the root of the repository, with or without a leading slash
	Operation     string // create, update or delete
	OldMode, Mode string // as git writes them; 000000 means no file
	// Old and New are the contents. They are nil if there is none. If the change is Cut,
	// they hold the beginning or nothing.
	Old, New      []byte
	OldSize, Size int64
	Cut           bool
	Binary        bool
	Encoding      string // of a text that was converted to UTF-8, with the old encoding if it differs; "" for others
	Diff          string // unified diff, empty for binary files, with the bytes of the files
	Sum           string // SHA-256 of the new content; computed if "" and New is complete
	Passed        string // path of a file with the same bytes that the worker read, "" for none
	Links         int    // number of hard links of the staged file, 0 if unknown
	Files         int    // number of files in a directory that is deleted or replaced
	Ignored       bool   // git ignores the new file
	Emptied       bool   // the file lost its content: it is blank now, or something else is in its place
}

// The modes.
const (
	none       = "000000"
	plain      = "100644"
	executable = "100755"
	link       = "120000"
	submodule  = "160000"
)

// The operations.
const (
	create = "create"
	update = "update"
	remove = "delete"
)

// A Kind is the reason of a flag.
type Kind string

// The kinds, the riskiest first.
const (
	Bare       Kind = "bare repository" // git would read a directory as a repository
	Becomes    Kind = "code"            // the file becomes code when it is trusted
	Bidi       Kind = "bidi"            // a text is shown in another order than programs read it
	Invisible  Kind = "invisible"       // a text has invisible characters
	Control    Kind = "control"         // characters that control a terminal
	DeleteMany Kind = "delete many"
	Submodule  Kind = "submodule"
	Lookalike  Kind = "lookalike" // letters that look like others
	Case       Kind = "case"      // names that are equal on other systems
	Windows    Kind = "windows"   // a name that Windows cannot store, or reads differently
	Mode       Kind = "mode"
	Unshown    Kind = "headers"       // a commit has lines that git shows nowhere
	Ignores    Kind = "ignore rules"  // rules by which git hides files
	NotSeen    Kind = "not looked at" // too large to examine
	Link       Kind = "link"
	Hardlink   Kind = "hardlink"  // the file has several hard links
	Unmerged   Kind = "unmerged"  // conflict markers of an unfinished merge
	Binary     Kind = "binary"    // not readable for people
	Minified   Kind = "minified"  // lines too long to read
	Large      Kind = "large"     // too long to read
	Unchanged  Kind = "unchanged" // the same bytes as a file that was read
	Ratio      Kind = "ratio"     // more bytes leave than the limit allows for the bytes read
)

// risks is the risk of each kind, from 0 to 100. A single flag may have another risk.
var risks = map[Kind]int{
	Bare: 99, Becomes: 95, Bidi: 90, Invisible: 87, Control: 87, DeleteMany: 83, Submodule: 80, Lookalike: 75, Case: 75, Windows: 72, Unshown: 72, Mode: 70,
	NotSeen: 65, Link: 60, Hardlink: 60, Unmerged: 55, Ratio: 55, Binary: 50, Minified: 45, Large: 40, Ignores: 35, Unchanged: 30,
}

// A Flag is something to look at.
type Flag struct {
	Kind Kind   `json:"kind"`
	Path string `json:"path,omitempty"` // as in the change; "" for the whole
	Line int    `json:"line,omitempty"` // of the new file; 0 for the file itself
	Text string `json:"text"`           // safe to print
	Risk int    `json:"risk"`
	// Deleted is true if the change deletes the file.
	Deleted bool `json:"deleted,omitempty"`
	// Installed is true if the file is new, and git ignores it or a package manager fills its
	// directory.
	Installed bool `json:"installed,omitempty"`

	times int // how many flags it stands for in a short list; 0 for itself
}

// String returns the flag as one line that is safe to print.
func (f Flag) String() string {
	if f.Path == "" {
		return f.At("")
	}
	return f.At(shown(f.Path))
}

// At returns the flag as one line. where is the path as the reader knows it, safe to
// print.
func (f Flag) At(where string) string {
	if where != "" && f.Line > 0 {
		where += fmt.Sprintf(":%d", f.Line)
	}
	if where != "" {
		where += ": "
	}
	kind := string(f.Kind)
	if f.BecomesCode() {
		kind = "becomes code"
	}
	if kind += ": "; f.times > 1 {
		kind += fmt.Sprintf("%d × ", f.times)
	}
	return where + kind + f.Text
}

// BecomesCode reports whether the flag is about a file that becomes code and is not
// deleted.
func (f Flag) BecomesCode() bool { return f.Kind == Becomes && !f.Deleted }

func flag(kind Kind, path, format string, args ...any) Flag {
	return Flag{Kind: kind, Path: path, Text: fmt.Sprintf(format, args...), Risk: risks[kind]}
}

// shown returns the full path of a change, safe to print.
func shown(path string) string { return visible.Name("/" + strings.TrimPrefix(path, "/")) }

// brief returns a shortened path, safe to print, for sentences and long lists.
func brief(path string) string { return visible.Cut(shown(path), 200) }

// Flags returns the flags of one file, in the order of Order.
func Flags(c FileChange) []Flag {
	list := slices.Concat(code(c), modes(c), name(c))
	if c.Operation != remove {
		list = append(list, slices.Concat(texts(c), contents(c))...)
	}
	if path.Base(c.Path) == ".gitignore" {
		list = append(list, flag(Ignores, c.Path, "it decides which files git hides; golem goes by the rules of your directory"))
	}
	if c.Files > 0 {
		text := "DELETE a directory with " + visible.Count(c.Files, "file")
		if c.Operation != remove {
			text += ", and put a file or symlink in its place"
		}
		list = append(list, flag(DeleteMany, c.Path, "%s", text))
	}
	if c.Operation == create && (c.Ignored || IsInstalled(c.Path)) {
		for i := range list {
			list[i].Installed = true
		}
	}
	Order(list)
	return list
}

// Handed returns a flag if out has more than most bytes for each byte of in. A worker
// that reads little and writes much has its content from elsewhere, or hides something.
// There is no limit if most is 0 or less.
func Handed(in, out int64, most float64) (Flag, bool) {
	if most <= 0 || float64(out) <= most*float64(max(in, 1)) {
		return Flag{}, false
	}
	return flag(Ratio, "", "%s leave, and %s were read: more than %g for each byte", visible.Amount(out), visible.Amount(in), most), true
}
