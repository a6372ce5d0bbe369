package worker_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
)

// A place is a position of a key: the keys above it, with "[]" for an item of a list and
// "NAME" for a name that the author chooses.
type place struct {
	above []string
	key   strictyaml.Key
	among []strictyaml.Key // the keys of the same map
}

func (p place) String() string {
	return strings.ReplaceAll(strings.Join(append(p.above, p.key.Name), "."), ".[]", "[]")
}

// places returns every key of the schema, in its order.
func places() []place {
	var list []place
	var walk func(above []string, keys []strictyaml.Key)
	walk = func(above []string, keys []strictyaml.Key) {
		for _, k := range keys {
			list = append(list, place{above, k, keys})
			down := append(append([]string{}, above...), k.Name)
			switch k.Type {
			case strictyaml.Groups:
				down = append(down, "[]")
			case strictyaml.Named:
				down = append(down, "NAME")
			}
			walk(down, k.Keys)
			for _, or := range k.Or {
				if or.Type == strictyaml.Groups {
					down = append(append([]string{}, above...), k.Name, "[]")
				}
				walk(down, or.Keys)
			}
		}
	}
	walk(nil, worker.Schema().Keys)
	return list
}

// file returns a worker file with name: value at the place, and its line.
func (p place) file(name, value string) (string, int) {
	lines := []string{"---"}
	indent := ""
	dash := false
	add := func(text string) {
		if dash {
			lines = append(lines, strings.TrimSuffix(indent, "  ")+"- "+text)
			dash = false
			return
		}
		lines = append(lines, indent+text)
	}
	for _, key := range p.above {
		switch key {
		case "[]":
			indent += "  "
			dash = true
		case "NAME":
			add("any_name:")
			indent += "  "
		default:
			add(key + ":")
			indent += "  "
		}
	}
	add(name + ": " + value)
	return strings.Join(append(lines, "---", ""), "\n"), len(lines)
}

// TestTypos: Parse finds a typo in any key on its line, and names the right key.
func TestTypos(t *testing.T) {
	count := 0
	for _, p := range places() {
		name := p.key.Name
		for _, typo := range []string{name + "x", name[:len(name)-1], strings.ToUpper(name[:1]) + name[1:], "x" + name[1:], name[:1] + name} {
			if typo == name || typo == "" || isKnown(p.among, typo) {
				continue
			}
			count++
			text, line := p.file(typo, p.key.Example)
			problem, ok := onLine(problemsOf(t, text), line, typo)
			if !ok {
				t.Errorf("%s: the typo %s is not caught on line %d:\n%s\n%v", p, typo, line, text, problemsOf(t, text))
			} else if len(typo) > 4 && !strings.Contains(problem.Hint, "did you mean ") {
				t.Errorf("%s: the typo %s: got %s, want the nearest key", p, typo, problem.Error())
			}
		}
	}
	if count < 200 {
		t.Errorf("got %d typos, want one of each kind for every key", count)
	}
}

func isKnown(keys []strictyaml.Key, name string) bool {
	for _, k := range keys {
		if k.Name == name {
			return true
		}
	}
	return false
}

func onLine(problems strictyaml.Problems, line int, text string) (strictyaml.Problem, bool) {
	for _, p := range problems {
		if p.Place.Line == line && strings.Contains(p.What, text) {
			return p, true
		}
	}
	return strictyaml.Problem{}, false
}

// TestWrongForms: Parse finds a value of the wrong form on its line, under its key.
func TestWrongForms(t *testing.T) {
	for _, p := range places() {
		forms := map[string]string{"a map": "{no_such_key: 1}", "a list": "[[x]]", "a text": "no such value"}
		switch p.key.Type {
		case strictyaml.Text:
			delete(forms, "a text")
		case strictyaml.Free:
			continue
		}
		for form, value := range forms {
			text, line := p.file(p.key.Name, value)
			problems := problemsOf(t, text)
			found := false
			for _, problem := range problems {
				found = found || problem.Place.Line == line
			}
			if !found {
				t.Errorf("%s: %s is not caught on line %d: %v", p, form, line, problems)
			}
		}
	}
}

// TestExamples: the examples of the schema are valid.
func TestExamples(t *testing.T) {
	for _, p := range places() {
		if p.key.Doc == "" || p.key.Example == "" {
			t.Errorf("%s: no sentence or no example", p)
		}
		text, line := p.file(p.key.Name, p.key.Example)
		if _, err := worker.Parse("w.worker", []byte(text)); err != nil {
			// A key may need others next to it, but is not wrong itself.
			for _, problem := range err.(strictyaml.Problems) {
				need := strings.Contains(problem.What, "no ") || strings.Contains(problem.What, "without a name") || strings.Contains(problem.What, `pattern ""`) || strings.HasSuffix(problem.What, ": says nothing")
				if problem.Place.Line == line && !need {
					t.Errorf("%s: the example %s: %v", p, p.key.Example, problem)
				}
			}
		}
		if p.key.Type != strictyaml.Word {
			continue
		}
		for _, word := range p.key.Words {
			text, line := p.file(p.key.Name, word)
			if _, err := worker.Parse("w.worker", []byte(text)); err != nil {
				if problem, ok := onLine(err.(strictyaml.Problems), line, ": "+word); ok {
					t.Errorf("%s: the word %s: %v", p, word, problem)
				}
			}
		}
	}
}
