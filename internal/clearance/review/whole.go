package review

import (
	"maps"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
)

// The maximum number of flags of All, and how many deletions raise a flag.
const (
	maxWhole = 100
	many     = 10
)

// All returns the flags of changes as a whole, the riskiest first. Flags returns those of
// each file. All does not need the contents of the changes. The caller can also pass
// names of files that stay in the same directories.
func All(changes []FileChange, beside ...string) []Flag {
	t := tree{}
	for _, c := range changes {
		if strings.HasPrefix(c.Path, "/") {
			t.top = "/"
		}
		t.add(c.Path, c.Operation != remove, c.Operation == remove)
	}
	for _, name := range beside {
		t.add(name, false, false)
	}
	t.look(&t.root)
	list := t.flags
	if t.left > 0 {
		list = append(list, flag(Case, "", "and %d more such names and directories", t.left))
	}
	gone, emptied, largest, rest := 0, 0, 0, 0
	for _, c := range changes {
		switch {
		case c.Operation == remove || c.Files > 0:
			gone += max(1, c.Files)
			largest = max(largest, c.Files)
		case c.Emptied || c.Operation == update && c.OldSize > 0 && c.Size == 0:
			emptied++
		default:
			rest++
		}
	}
	// A directory that is deleted has a flag of its own.
	if all := gone + emptied; all > largest && (all >= many || all > 1 && rest == 0) {
		text := "DELETE " + visible.Count(gone, "file")
		switch {
		case gone == 0:
			text = "DELETE the content of " + visible.Count(emptied, "file")
		case emptied > 0:
			text += ", and the content of " + visible.Number(emptied)
		}
		list = append(list, flag(DeleteMany, "", "%s", text))
	}
	Order(list)
	return list
}

// A tree holds the names of files, as the most lenient file systems compare them.
type tree struct {
	root  directory
	top   string   // prefix of all paths
	at    []string // path of the directory being examined
	flags []Flag
	left  int // number of flags beyond the limit
}

// A directory is the names in one directory.
type directory struct {
	names  map[string]*node
	folded map[string][]*node // the spellings of each folded name
}

type node struct {
	name     string
	made     bool // a change writes it, or something in it
	gone     bool // changes delete it, or everything in it
	contents directory
}

// maxDepth limits the number of directories in a path. The rest counts as one name.
const maxDepth = 32

func (t *tree) add(name string, made, gone bool) {
	at := &t.root
	for _, part := range strings.SplitN(strings.Trim(name, "/"), "/", maxDepth) {
		n := at.names[part]
		if n == nil {
			if at.names == nil {
				at.names, at.folded = make(map[string]*node), make(map[string][]*node)
			}
			pieces := []string{part}
			if strings.Contains(part, "/") {
				pieces = strings.Split(part, "/")
			}
			for i := range pieces {
				pieces[i] = fold(pieces[i])
			}
			n = &node{name: part, gone: true}
			key := strings.Join(pieces, "/")
			at.names[part], at.folded[key] = n, append(at.folded[key], n)
		}
		n.made, n.gone = n.made || made, n.gone && gone
		at = &n.contents
	}
}

// look examines a directory and those in it.
func (t *tree) look(f *directory) {
	if parts := f.bare(); parts != "" {
		t.tell(Bare, "", func(string) string {
			return parts + ": git takes this directory for a repository, and runs what its configuration says"
		})
	}
	for _, key := range slices.Sorted(maps.Keys(f.folded)) {
		spellings := f.folded[key]
		slices.SortFunc(spellings, func(a, b *node) int { return strings.Compare(a.name, b.name) })
		t.clash(spellings)
		for _, n := range spellings {
			t.at = append(t.at, n.name)
			t.look(&n.contents)
			t.at = t.at[:len(t.at)-1]
		}
	}
}

// bare returns the files by which git reads a directory as a repository, or "" if git
// does not.
func (f *directory) bare() string {
	switch {
	case !f.has("head"):
		return ""
	case f.has("objects") && f.has("refs"):
		return "HEAD, objects and refs"
	case f.has("commondir"):
		return "HEAD and commondir"
	}
	return ""
}

// has reports whether a name is in a directory after the changes.
func (f *directory) has(key string) bool {
	for _, n := range f.folded[key] {
		if !n.gone {
			return true
		}
	}
	return false
}

// clash flags names that are equal on other systems, if a change writes one of them.
func (t *tree) clash(spellings []*node) {
	if len(spellings) < 2 {
		return
	}
	var made, stays, gone string
	for _, n := range spellings {
		switch {
		case n.gone:
			gone = n.name
		case n.made && made == "":
			made = n.name
		default:
			stays = n.name
		}
	}
	switch {
	case made == "":
	case stays != "":
		t.tell(Case, made, func(above string) string {
			return "the same as " + brief(above+stays) + " where case and accents are not told apart: one replaces the other there"
		})
	default:
		t.tell(Case, made, func(above string) string { return "RENAME-CASE " + brief(above+gone) + " -> " + brief(above+made) })
	}
}

// tell adds a flag about a name in the directory being examined, or about the directory.
func (t *tree) tell(kind Kind, name string, text func(above string) string) {
	if len(t.flags) >= maxWhole {
		t.left++
		return
	}
	above := ""
	if len(t.at) > 0 {
		above = strings.Join(t.at, "/") + "/"
	}
	t.flags = append(t.flags, flag(kind, t.top+strings.TrimSuffix(above+name, "/"), "%s", text(above)))
}
