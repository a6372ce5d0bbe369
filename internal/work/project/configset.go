package project

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A ConfigEdit sets one value of a configuration file, or adds it to a list. It changes or adds one line,
// or the two of a new group, and leaves comments and formatting as they are. It knows keys with one value
// and lists of texts, at the top and in groups there.
type ConfigEdit struct {
	Schema     strictyaml.Key
	File       string // for messages
	Key, Value string // the key with its group, such as network.allow
	Remove     bool   // remove the value from a list

	isList bool
	words  []string // the parts of the key
	lines  []string
}

// editable are the types of keys with one value.
var editable = []strictyaml.Type{strictyaml.Text, strictyaml.Word, strictyaml.Bool, strictyaml.Whole, strictyaml.Money, strictyaml.Count, strictyaml.Span}

// isTextList reports whether a list has items that one text says.
func isTextList(k strictyaml.Key) bool {
	return k.Type == strictyaml.Texts || k.Type == strictyaml.Groups && k.Short != ""
}

// EditableKeys returns the keys of a schema that a ConfigEdit knows, and whether each is a list.
func EditableKeys(schema strictyaml.Key) (names []string, lists map[string]bool) {
	lists = make(map[string]bool)
	add := func(prefix string, k strictyaml.Key) {
		if isList := isTextList(k); isList || slices.Contains(editable, k.Type) {
			names = append(names, prefix+k.Name)
			lists[prefix+k.Name] = isList
		}
	}
	for _, k := range schema.Keys {
		add("", k)
		if k.Type == strictyaml.Group {
			for _, inner := range k.Keys {
				add(k.Name+".", inner)
			}
		}
	}
	return names, lists
}

// wrong returns a problem of the edit.
func (e *ConfigEdit) wrong(what, hint string) error {
	return strictyaml.Problems{{Place: strictyaml.Place{Source: e.File}, What: what, Hint: hint}}
}

// byHand is the error of a file that the edit cannot change line by line.
func (e *ConfigEdit) byHand(what string) error {
	return e.wrong(what, "change it with golem config edit, or golem config edit --user for your own configuration")
}

// Apply returns the text with the edit. The caller checks that the text is valid as a whole. The error is
// a strictyaml.Problems.
func (e ConfigEdit) Apply(data []byte) ([]byte, error) {
	names, lists := EditableKeys(e.Schema)
	if !slices.Contains(names, e.Key) {
		hint := "golem config set knows " + strings.Join(names, ", ") + "; golem config edit changes the others"
		if near := sandbox.Nearest(e.Key, names); len(near) > 0 {
			hint = "did you mean golem config set " + near[0] + " " + sandbox.Shown(e.Value) + "? " + hint
		}
		return nil, e.wrong("no key "+sandbox.Shown(e.Key)+" that it can set", hint)
	}
	if strings.ContainsAny(e.Value, "\r\n\x00") || e.Value == "" {
		return nil, e.wrong(e.Key+": no value", "a value is one line: golem config set "+e.Key+" VALUE")
	}
	if e.isList = lists[e.Key]; e.Remove && !e.isList {
		return nil, e.wrong(e.Key+" is no list", "set another value: golem config set "+e.Key+" VALUE")
	}
	before, problems := strictyaml.Parse(e.File, data)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	e.words, e.lines = strings.Split(e.Key, "."), strings.SplitAfter(string(data), "\n")
	if last := len(e.lines) - 1; e.lines[last] == "" {
		e.lines = e.lines[:last]
	} else {
		e.lines[last] += "\n"
	}
	want, err := e.change(before)
	if err != nil {
		return nil, err
	}
	text := []byte(strings.Join(e.lines, ""))
	after, problems := strictyaml.Parse(e.File, text)
	if len(problems) > 0 || !reflect.DeepEqual(plainValue(after), want) { // the layout of the file misled the edit
		return nil, e.byHand(e.Key + " is not on lines of its own")
	}
	return text, nil
}

// change edits the lines, and returns what they must mean then.
func (e *ConfigEdit) change(tree strictyaml.Node) (want map[string]any, err error) {
	want, _ = plainValue(tree).(map[string]any)
	if want == nil {
		want = make(map[string]any)
	}
	at, in, indent := tree, want, ""
	for _, word := range e.words[:len(e.words)-1] {
		i := slices.IndexFunc(at.Fields, func(f strictyaml.Field) bool { return f.Key.Text == word })
		if i < 0 {
			if len(tree.Fields) > 0 && tree.Fields[0].Key.Place.Col != 1 {
				return nil, e.byHand("the keys are not on lines of their own")
			}
			e.lines = append(e.lines, word+":\n")
			inner := make(map[string]any)
			in[word] = inner
			return want, e.insert(len(e.lines), "  ", inner)
		}
		f := at.Fields[i]
		inner, is := in[word].(map[string]any)
		if !is || f.Value.Place.Line == f.Key.Place.Line {
			return nil, e.byHand(word + " is no group on lines of its own")
		}
		at, in, indent = f.Value, inner, strings.Repeat(" ", f.Value.Fields[0].Key.Place.Col-1)
	}
	name := e.words[len(e.words)-1]
	i := slices.IndexFunc(at.Fields, func(f strictyaml.Field) bool { return f.Key.Text == name })
	switch {
	case i >= 0 && e.isList:
		return want, e.changeList(at.Fields[i], in)
	case i >= 0:
		f := at.Fields[i]
		if f.Value.Place.Line != f.Key.Place.Line || f.Key.Place.Col-1 != len(indent) {
			return nil, e.byHand(e.Key + " is not on a line of its own")
		}
		e.lines[f.Key.Place.Line-1] = indent + name + ": " + plainScalar(e.Value) + "\n"
		in[name] = e.Value
		return want, nil
	case len(at.Fields) > 0 && indent == "" && at.Fields[0].Key.Place.Col != 1:
		return nil, e.byHand("the keys are not on lines of their own")
	case indent != "":
		return want, e.insert(at.Fields[0].Key.Place.Line-1, indent, in)
	}
	return want, e.insert(len(e.lines), "", in)
}

// insert adds the key before a line.
func (e *ConfigEdit) insert(line int, indent string, in map[string]any) error {
	name, text := e.words[len(e.words)-1], plainScalar(e.Value)
	in[name] = any(e.Value)
	if e.isList {
		if e.Remove {
			return e.wrong(e.Key+" has no "+sandbox.Shown(e.Value), "golem config shows the values that count")
		}
		text, in[name] = "["+flowScalar(e.Value)+"]", []any{e.Value}
	}
	e.lines = slices.Insert(e.lines, line, indent+name+": "+text+"\n")
	return nil
}

// changeList adds the value to a list that is there, or removes it.
func (e *ConfigEdit) changeList(f strictyaml.Field, in map[string]any) error {
	list := f.Value
	items, is := in[f.Key.Text].([]any)
	at := slices.IndexFunc(items, func(one any) bool { return one == e.Value })
	switch {
	case !is:
		return e.byHand(e.Key + " is no list")
	case e.Remove && at < 0:
		return e.wrong(e.Key+" has no "+sandbox.Shown(e.Value), "golem config shows the values that count")
	case e.Remove && len(items) == 1 && e.Key != "network.allow":
		return e.byHand(sandbox.Shown(e.Value) + " is the only value of " + e.Key)
	case !e.Remove && at >= 0:
		return e.wrong(e.Key+" has "+sandbox.Shown(e.Value)+" already", "nothing was changed")
	}
	if e.Remove {
		in[f.Key.Text] = slices.Delete(slices.Clone(items), at, at+1)
	} else {
		in[f.Key.Text] = append(slices.Clone(items), e.Value)
	}
	line := e.lines[list.Place.Line-1]
	if start := list.Place.Col - 1; start >= 0 && start < len(line) && line[start] == '[' {
		return e.changeFlow(list, start, in[f.Key.Text].([]any))
	}
	if e.Remove {
		item := list.Items[at].Place
		if len(items) == 1 || strings.TrimSpace(e.lines[item.Line-1][:item.Col-1]) != "-" {
			return e.byHand(sandbox.Shown(e.Value) + " is not on a line of its own")
		}
		e.lines = slices.Delete(e.lines, item.Line-1, item.Line)
		return nil
	}
	last := list.Items[len(list.Items)-1]
	prefix := e.lines[last.Place.Line-1][:last.Place.Col-1]
	if last.Kind != strictyaml.Scalar || strings.TrimSpace(prefix) != "-" {
		return e.byHand("the last value of " + e.Key + " is not on a line of its own")
	}
	e.lines = slices.Insert(e.lines, last.Place.Line, prefix+plainScalar(e.Value)+"\n")
	return nil
}

// changeFlow writes a list in brackets anew. It must be on one line, and have only texts.
func (e *ConfigEdit) changeFlow(list strictyaml.Node, start int, items []any) error {
	var words []string
	for _, one := range items {
		text, ok := one.(string)
		if !ok {
			return e.byHand(e.Key + " has values that are no texts")
		}
		words = append(words, flowScalar(text))
	}
	line := e.lines[list.Place.Line-1]
	from := start + 1
	for _, item := range list.Items {
		if item.Place.Line != list.Place.Line {
			return e.byHand(e.Key + " is on several lines")
		}
		from = item.Place.Col - 1
		if item.Quoted {
			from += len(item.Text) // the text is at least as long in quotes
		}
	}
	end := strings.IndexByte(line[min(from, len(line)):], ']')
	if end < 0 {
		return e.byHand(e.Key + " is on several lines")
	}
	e.lines[list.Place.Line-1] = line[:start] + "[" + strings.Join(words, ", ") + line[from+end:]
	return nil
}

// plainValue returns what a node means: a map, a list or a text.
func plainValue(n strictyaml.Node) any {
	switch n.Kind {
	case strictyaml.Map:
		made := make(map[string]any)
		for _, f := range n.Fields {
			made[f.Key.Text] = plainValue(f.Value)
		}
		return made
	case strictyaml.List:
		made := []any{}
		for _, item := range n.Items {
			made = append(made, plainValue(item))
		}
		return made
	case strictyaml.Scalar:
		return n.Text
	}
	return nil
}

// plainScalar returns a value as YAML, with quotes only if it needs them.
func plainScalar(value string) string { return scalarIn("a: ", value, "\n") }

// flowScalar is plainScalar for a list in brackets.
func flowScalar(value string) string { return scalarIn("a: [", value, "]\n") }

func scalarIn(before, value, after string) string {
	tree, problems := strictyaml.Parse("", []byte(before+value+after))
	n, _ := tree.At("a")
	if n.Kind == strictyaml.List && len(n.Items) == 1 {
		n = n.Items[0]
	}
	if len(problems) == 0 && n.Kind == strictyaml.Scalar && n.Text == value && !n.Quoted {
		return value
	}
	return strconv.Quote(value)
}
