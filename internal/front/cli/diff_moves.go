package cli

import (
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/session"
)

// moves returns a row for each moved directory. If there are more than review.MostFiles, one
// row stands for all that were moved from one directory to another one.
func (v *reviewText) moves() (rows [][]string) {
	all := slices.SortedFunc(slices.Values(v.review.Moves), func(a, b changes.Move) int { return strings.Compare(a.From+"/", b.From+"/") })
	moved := make([]movedFiles, len(all))
	for _, c := range v.review.Files {
		if c.From == "" {
			continue
		}
		// No moved directory is in another one.
		i, _ := slices.BinarySearchFunc(all, c.From, func(m changes.Move, name string) int { return strings.Compare(m.From+"/", name) })
		if i > 0 && strings.HasPrefix(c.From, all[i-1].From+"/") {
			moved[i-1].add(c)
		}
	}
	type pair struct{ from, to string }
	var order []pair
	groups := make(map[pair]movedFiles)
	for i, m := range all {
		at := pair{m.From, m.To}
		if len(all) > review.MostFiles {
			at = pair{path.Dir(m.From), path.Dir(m.To)}
		}
		g, ok := groups[at]
		if !ok {
			order = append(order, at)
		}
		groups[at] = movedFiles{g.dirs + 1, g.files + m.Files, g.edited + moved[i].edited, g.asNew + m.Files - moved[i].files, m}
	}
	var rest movedFiles
	for i, at := range order {
		switch g := groups[at]; {
		case i >= review.MostFiles:
			rest = movedFiles{rest.dirs + g.dirs, rest.files + g.files, rest.edited + g.edited, rest.asNew + g.asNew, g.last}
		case g.dirs > 1:
			rows = append(rows, []string{"R", v.inside(at.from) + " → " + v.inside(at.to), visible.Number(g.dirs) + " directories with " + g.String(), ""})
		default:
			rows = append(rows, []string{"R", v.shown(g.last.From) + "/ → " + v.shown(g.last.To) + "/", g.String(), ""})
		}
	}
	if rest.dirs > 0 {
		rows = append(rows, []string{"R", visible.Number(rest.dirs) + " more directories", rest.String() + "; golem diff" + v.option() + " --json lists all", ""})
	}
	return rows
}

// inside stands for the directories in a directory.
func (v *reviewText) inside(dir string) string {
	if dir = v.shown(dir); dir == "." {
		return "*/"
	}
	return strings.TrimSuffix(dir, "/") + "/*/"
}

// movedFiles counts the files of moved directories.
type movedFiles struct {
	dirs, files, edited int
	asNew               int // listed like new files, because golem did not compare them or because they mean something else now
	last                changes.Move
}

func (m *movedFiles) add(c session.FileChange) {
	if m.files++; c.Edited {
		m.edited++
	}
}

// String describes the files: "3 files moved, 1 of them edited, 1 listed as new".
func (m movedFiles) String() string {
	text := visible.Count(m.files, "file") + " moved"
	if m.edited > 0 {
		text += ", " + visible.Number(m.edited) + " of them edited"
	}
	if m.asNew > 0 {
		text += ", " + visible.Number(m.asNew) + " listed as new"
	}
	return text
}
