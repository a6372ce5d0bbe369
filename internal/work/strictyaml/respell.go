package strictyaml

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Respelling is a key that a file writes in another form than the schema: maxDepth or
// max-depth for max_depth.
type Respelling struct {
	Place    Place // of the key
	From, To string
}

// Respell returns a node with the names of its keys as the schema writes them. It also
// returns the keys that are written in another form. Only keys of several words have other
// forms. It leaves a key alone if both forms
// are in one map, and Check reports that key.
func (k Key) Respell(n Node) (Node, []Respelling) {
	var list []Respelling
	n = k.respell(n, &list)
	return n, list
}

func (k Key) respell(n Node, list *[]Respelling) Node {
	if !k.fits(n) {
		for _, or := range k.Or {
			if or.fits(n) {
				return or.respell(n, list)
			}
		}
		return n
	}
	switch k.Type {
	case Group:
		return k.respellGroup(n, list)
	case Groups:
		n.Items = slices.Clone(n.Items)
		for i, item := range n.Items {
			if item.Kind == Map {
				n.Items[i] = k.respellGroup(item, list)
			}
		}
	case Named:
		each := Key{Type: Group, Keys: k.Keys, Instead: k.Instead}
		n.Fields = slices.Clone(n.Fields)
		for i, f := range n.Fields {
			if f.Value.Kind == Map {
				n.Fields[i].Value = each.respellGroup(f.Value, list)
			}
		}
	}
	return n
}

func (k Key) respellGroup(n Node, list *[]Respelling) Node {
	n.Fields = slices.Clone(n.Fields)
	find := func(name string) int {
		return slices.IndexFunc(k.Keys, func(known Key) bool { return known.Name == name })
	}
	for i, f := range n.Fields {
		at := find(f.Key.Text)
		if _, foreign := k.Instead[f.Key.Text]; at < 0 && !foreign {
			if name := SnakeCase(f.Key.Text); strings.Contains(name, "_") && find(name) >= 0 && !n.Has(name) {
				at = find(name)
				*list = append(*list, Respelling{f.Key.Place, f.Key.Text, name})
				n.Fields[i].Key.Text = name
			}
		}
		if at >= 0 {
			n.Fields[i].Value = k.Keys[at].respell(f.Value, list)
		}
	}
	return n
}

// maxRespelled is the longest key that can be another spelling.
const maxRespelled = 64

// SnakeCase returns a name in snake_case: max_depth for maxDepth and max-depth. It returns
// any other name as it is: Max_Depth is no known form, but a typo.
func SnakeCase(name string) string {
	if name == "" || len(name) > maxRespelled || strings.Contains(name, "_") || name[0] < 'a' || name[0] > 'z' {
		return name
	}
	var b strings.Builder
	letters := []rune(name)
	for i, r := range letters {
		if unicode.IsUpper(r) && i > 0 {
			before, next := letters[i-1], rune(0)
			if i+1 < len(letters) {
				next = letters[i+1]
			}
			if unicode.IsLower(before) || unicode.IsDigit(before) || unicode.IsUpper(before) && unicode.IsLower(next) {
				b.WriteByte('_')
			}
		}
		if r == '-' {
			r = '_'
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// ApplyRespellings returns a file with its keys respelled. It changes nothing else. skipped
// are the keys that are not written plainly, such as keys with escapes.
func ApplyRespellings(data []byte, list []Respelling) (changed []byte, skipped []Respelling) {
	lines := strings.SplitAfter(string(data), "\n")
	ordered := slices.Clone(list)
	slices.SortFunc(ordered, func(a, b Respelling) int { return b.Place.Col - a.Place.Col }) // from the end of a line to its start
	for _, r := range ordered {
		if r.Place.Line < 1 || r.Place.Line > len(lines) {
			skipped = append(skipped, r)
			continue
		}
		line := lines[r.Place.Line-1]
		at := 0
		for range r.Place.Col - 1 {
			_, size := utf8.DecodeRuneInString(line[at:])
			at += size
		}
		rest := line[at:]
		for _, quote := range []string{"", `"`, "'"} {
			if after, ok := strings.CutPrefix(rest, quote+r.From+quote); ok {
				lines[r.Place.Line-1] = line[:at] + quote + r.To + quote + after
				rest = ""
				break
			}
		}
		if rest != "" {
			skipped = append(skipped, r)
		}
	}
	return []byte(strings.Join(lines, "")), skipped
}
