package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/visible"
)

// A Change is what becomes of one file.
type Change struct {
	Path          string // from the root of the repository; a slash before it may be left out
	Operation     string // create, update or delete
	OldMode, Mode string // as git writes them; 000000 is no file
	// Old and New are the contents: nil where there is none, and the beginning or
	// nothing where the change is Cut.
	Old, New      []byte
	OldSize, Size int64
	Cut           bool
	Binary        bool
	Encoding      string // of a text that is shown in UTF-8 and is not, "" for others; what it was, too, if that is another
	Diff          string // unified, of what is not binary; its bytes are those of the files
	Sum           string // the SHA-256 of the new content; it is computed where New is all of it
	Passed        string // the path of what was read and has the same bytes, "" for none
	Links         int    // how many names the file had that was staged; 0 is not known
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

// A Kind says why a flag is raised.
type Kind string

// The kinds, the riskiest first.
const (
	Bare       Kind = "bare repository" // git takes a directory for a repository
	Bidi       Kind = "bidi"            // a text is read in another order than it is shown
	Invisible  Kind = "invisible"       // a text holds what is not shown
	Control    Kind = "control"         // a terminal obeys it
	Becomes    Kind = "code"            // the file becomes code when it is trusted
	Link       Kind = "link"
	Submodule  Kind = "submodule"
	Lookalike  Kind = "lookalike" // letters that are taken for others
	Case       Kind = "case"      // names that are one on other systems
	Windows    Kind = "windows"   // a name that Windows cannot keep, or takes for another
	Mode       Kind = "mode"
	NotSeen    Kind = "not looked at" // there was too much of it
	DeleteMany Kind = "delete many"
	Hardlink   Kind = "hardlink"  // the file has other names
	Unmerged   Kind = "unmerged"  // markers of a merge that nobody has finished
	Binary     Kind = "binary"    // nobody can read it
	Minified   Kind = "minified"  // lines that nobody reads
	Large      Kind = "large"     // more than anybody reads
	Unchanged  Kind = "unchanged" // the bytes of something that was read
	Ratio      Kind = "ratio"     // more is handed out than is usual for what was taken in
)

// risks is how much there is to fear, from 0 to 100; a flag may have more or less
// than its kind.
var risks = map[Kind]int{
	Bare: 95, Bidi: 95, Invisible: 90, Control: 90, Becomes: 85, Link: 60, Submodule: 80, Lookalike: 75, Case: 75, Windows: 72, Mode: 70,
	NotSeen: 65, DeleteMany: 60, Hardlink: 60, Unmerged: 55, Binary: 50, Minified: 45, Large: 40, Unchanged: 30, Ratio: 55,
}

// A Flag is something to look at.
type Flag struct {
	Kind Kind   `json:"kind"`
	Path string `json:"path,omitempty"` // as the change has it; "" is all of them
	Line int    `json:"line,omitempty"` // of the new file; 0 is the file itself
	Text string `json:"text"`           // plain: it may be printed as it is
	Risk int    `json:"risk"`
}

// String returns a flag as one line that may be printed.
func (f Flag) String() string {
	where := ""
	if f.Path != "" {
		where = shown(f.Path)
		if f.Line > 0 {
			where += fmt.Sprintf(":%d", f.Line)
		}
		where += ": "
	}
	return fmt.Sprintf("%s%s: %s", where, f.Kind, f.Text)
}

func flag(kind Kind, path, format string, args ...any) Flag {
	return Flag{Kind: kind, Path: path, Text: fmt.Sprintf(format, args...), Risk: risks[kind]}
}

// shown returns the path of a change as it may be printed, whole.
func shown(path string) string { return visible.Name("/" + strings.TrimPrefix(path, "/")) }

// brief returns a path as it may be printed in a sentence, or in a list of many.
func brief(path string) string { return visible.Cut(shown(path), 200) }

// Flags returns what there is to look at in one file, the riskiest first.
func Flags(c Change) []Flag {
	list := slices.Concat(code(c), modes(c), name(c))
	if c.Operation != remove {
		list = append(list, slices.Concat(texts(c), contents(c))...)
	}
	byRisk(list)
	return list
}

func byRisk(list []Flag) {
	slices.SortStableFunc(list, func(a, b Flag) int { return b.Risk - a.Risk })
}

// Sort sorts whatever belongs to files by their flags: the file with the riskiest
// flag first, then the one with more flags; what is equal stays as it was.
func Sort[T any](files []T, path func(T) string, flags []Flag) {
	type weight struct{ risk, count int }
	weights := make(map[string]weight)
	for _, f := range flags {
		w := weights[f.Path]
		weights[f.Path] = weight{max(w.risk, f.Risk), w.count + 1}
	}
	// A flag of a directory is one of all that is in it.
	of := func(name string) weight {
		sum := weights[name]
		for i := len(name) - 1; i > 0; i-- {
			if w, ok := weights[name[:i]]; ok && name[i] == '/' {
				sum = weight{max(sum.risk, w.risk), sum.count + w.count}
			}
		}
		return sum
	}
	slices.SortStableFunc(files, func(a, b T) int {
		x, y := of(path(a)), of(path(b))
		return cmp.Or(y.risk-x.risk, y.count-x.count)
	})
}

// Handed holds what is handed out against what was taken in: more than most bytes
// for each byte is a flag. A worker that takes in little and hands out much has it
// from elsewhere, or hides something. Without most there is no limit.
func Handed(in, out int64, most float64) (Flag, bool) {
	if most <= 0 || float64(out) <= most*float64(max(in, 1)) {
		return Flag{}, false
	}
	return flag(Ratio, "", "%s are handed out, and %s were taken in: more than %g for one", visible.Amount(out), visible.Amount(in), most), true
}
