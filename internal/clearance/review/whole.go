package review

import (
	"maps"
	"slices"
	"strings"
)

// How many flags of a kind there are about a whole, and how many deletions are many.
const (
	maxWhole = 100
	many     = 10
)

// All returns what there is to look at in changes that are made together, beside
// what Flags says of each, the riskiest first. It does not look at contents, so
// these need not be there. The names of files that stay beside them may be given
// too.
func All(changes []Change, beside ...string) []Flag {
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
		list = append(list, flag(Case, "", "and %d more of such names and folders", t.left))
	}
	gone := 0
	for _, c := range changes {
		if c.Operation == remove {
			gone++
		}
	}
	if gone >= many || gone > 1 && gone == len(changes) {
		list = append(list, flag(DeleteMany, "", "DELETE %d files", gone))
	}
	byRisk(list)
	return list
}

// A tree holds the names of files, by how the most careless system compares them.
type tree struct {
	root  folder
	top   string   // what paths begin with
	at    []string // the parts of the directory that is looked at
	flags []Flag
	left  int // flags that are not told
}

// A directory holds what is in it: the folded name, then each spelling of it.
type folder map[string]map[string]*node

type node struct {
	made     bool // a change makes it, or something in it
	gone     bool // changes delete it, or all in it
	contents folder
}

// maxDepth is how many parts of a name are directories; the rest is taken for one.
const maxDepth = 32

func (t *tree) add(name string, made, gone bool) {
	at := &t.root
	for _, part := range strings.SplitN(strings.Trim(name, "/"), "/", maxDepth) {
		if *at == nil {
			*at = make(folder)
		}
		pieces := strings.Split(part, "/")
		for i := range pieces {
			pieces[i] = folded(pieces[i])
		}
		key := strings.Join(pieces, "/")
		if (*at)[key] == nil {
			(*at)[key] = make(map[string]*node)
		}
		n := (*at)[key][part]
		if n == nil {
			n = &node{gone: true}
			(*at)[key][part] = n
		}
		n.made, n.gone = n.made || made, n.gone && gone
		at = &n.contents
	}
}

// look looks at a directory and at those in it.
func (t *tree) look(f *folder) {
	if parts := f.bare(); parts != "" {
		t.tell(Bare, "", func(string) string {
			return parts + ": git takes this directory for a repository, and runs what its configuration says"
		})
	}
	for _, key := range slices.Sorted(maps.Keys(*f)) {
		spellings := (*f)[key]
		t.clash(spellings)
		for _, name := range slices.Sorted(maps.Keys(spellings)) {
			t.at = append(t.at, name)
			t.look(&spellings[name].contents)
			t.at = t.at[:len(t.at)-1]
		}
	}
}

// bare returns the parts by which git takes a directory for a repository, "" for one that
// it does not.
func (f *folder) bare() string {
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

// has reports whether a name is in a directory when the changes are made.
func (f *folder) has(key string) bool {
	for _, n := range (*f)[key] {
		if !n.gone {
			return true
		}
	}
	return false
}

// clash flags names that are one on other systems, where a change makes one of
// them.
func (t *tree) clash(spellings map[string]*node) {
	if len(spellings) < 2 {
		return
	}
	var made, stays, gone string
	for _, name := range slices.Sorted(maps.Keys(spellings)) {
		switch n := spellings[name]; {
		case n.gone:
			gone = name
		case n.made && made == "":
			made = name
		default:
			stays = name
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

// tell raises a flag about a name in the directory that is looked at, or about the
// directory.
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
