package evaluation

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// DefaultName is the usual name of a file with cases.
const DefaultName = "eval.yaml"

// A File is a file with cases.
type File struct {
	Program string // the directory of the program, absolute
	Cases   []Case
}

// A Case is an input of a program, with what the user expects of the run.
type Case struct {
	Name    string
	Place   strictyaml.Place
	Entry   string // the entry worker; "" for that of the program
	Model   string // as the user writes it, "" for the model of the program
	Input   string
	Attach  []string // files to attach, absolute
	Approve Approve
	Budget  policy.Limits
	Expect  Expect
}

// Approve says which calls that need approval a case approves.
type Approve struct {
	All   bool
	Tools []string
}

// Expect is what the user expects of a run.
type Expect struct {
	End       run.End
	Answer    []*regexp.Regexp // each matches the answer
	NotAnswer []*regexp.Regexp // none matches the answer
	Files     []ExpectedFile
	Only      []string // patterns; nil allows every change
	Unchanged []string // patterns of files that must not change
	Called    []string // tools with a call that was done
	Refused   []string // tools with a call that was refused
	NotCalled []string // tools without any call
}

// An ExpectedFile is a file that the run changes.
type ExpectedFile struct {
	Path    string
	Has     []*regexp.Regexp
	Lacks   []*regexp.Regexp
	Deleted bool
}

// ends are the ends of a run that a case can expect.
var ends = []string{string(run.Finished), string(run.Spent), string(run.Looping), string(run.Declined), string(run.Failed)}

// Schema returns all keys of a file with cases.
func Schema() strictyaml.Key {
	return strictyaml.Key{Type: strictyaml.Group, Keys: append([]strictyaml.Key{
		{Name: "program", Type: strictyaml.Text, Default: "the directory of this file", Example: "../notes",
			Doc: "The directory of the program, relative to this file."},
		{Name: "cases", Type: strictyaml.Groups, Doc: "The cases.", Keys: append([]strictyaml.Key{
			{Name: "name", Type: strictyaml.Text, Example: "adds-a-note", Doc: "The name of the case. Each has its own."},
			{Name: "input", Type: strictyaml.Text, Example: "A lamp beside the bench", Doc: "The input of the entry worker."},
			{Name: "attach", Type: strictyaml.Texts, Example: "[letter.pdf]", Doc: "Files to attach, in the directory of this file."},
			{Name: "expect", Type: strictyaml.Group, Doc: "What the run must do. Without it, the run must finish.", Keys: expectKeys()},
		}, commonKeys("this case")...)},
	}, commonKeys("all cases")...)}
}

// commonKeys returns the keys that a case and the whole file have.
func commonKeys(of string) []strictyaml.Key {
	return []strictyaml.Key{
		{Name: "model", Type: strictyaml.Text, Example: "scripted:demo.yaml", Doc: "The model of " + of + ". The file of `scripted:` and `replay:` is relative to this file. Without it, the model of the program."},
		{Name: "entry", Type: strictyaml.Text, Default: "the entry worker of the program", Example: "reviewer", Doc: "The entry worker of " + of + "."},
		{Name: "approve", Type: strictyaml.Texts, Example: "[write_file, shell]", Doc: "The tools whose calls are approved in " + of + ", if they need approval; `true` for every tool. Without it golem declines such calls.",
			Or: []strictyaml.Key{{Type: strictyaml.Bool}}},
		{Name: "budget", Type: strictyaml.Group, Doc: "The most that each run may use. A budget of the program that is lower holds.", Keys: []strictyaml.Key{
			{Name: "turns", Type: strictyaml.Whole, Example: "10", Doc: "Answers of the model."},
			{Name: "tokens", Type: strictyaml.Whole, Example: "50000", Doc: "Tokens, in and out."},
			{Name: "cost", Type: strictyaml.Money, Example: "0.10", Doc: "Dollars."},
			{Name: "time", Type: strictyaml.Span, Example: "2m", Doc: "How long it may take."},
		}},
	}
}

func expectKeys() []strictyaml.Key {
	texts := func(name, example, doc string) strictyaml.Key {
		return strictyaml.Key{Name: name, Type: strictyaml.Texts, Example: example, Doc: doc, Or: []strictyaml.Key{{Type: strictyaml.Text}}}
	}
	return []strictyaml.Key{
		{Name: "end", Type: strictyaml.Word, Words: ends, Default: string(run.Finished), Example: string(run.Spent), Doc: "How the run ends."},
		texts("answer", "[lamp, bench]", "Regular expressions that match the answer."),
		texts("answer_lacks", "(?i)sorry", "Regular expressions that do not match the answer."),
		{Name: "files", Type: strictyaml.Groups, Short: "path", Example: "[{path: /notes/ideas.md, has: lamp}]", Doc: "Files that the run creates, changes or deletes.", Keys: []strictyaml.Key{
			{Name: "path", Type: strictyaml.Text, Example: "/notes/ideas.md", Doc: "The file, as workers see it."},
			texts("has", "lamp", "Regular expressions that match its new content."),
			texts("lacks", "TODO", "Regular expressions that do not match its new content."),
			{Name: "deleted", Type: strictyaml.Bool, Default: "false", Example: "true", Doc: "The run deletes it."},
		}},
		{Name: "only", Type: strictyaml.Texts, Empty: true, Example: "[/notes/*.md]", Doc: "The files that the run may change. `[]` allows no change. `*` stands for a part of a name, `**` for any directories."},
		{Name: "unchanged", Type: strictyaml.Texts, Example: "[/src, \"*.lock\"]", Doc: "Files and directories that the run must not change."},
		{Name: "called", Type: strictyaml.Texts, Example: "[read_file]", Doc: "Tools that the run must use: at least one call of each is done."},
		{Name: "refused", Type: strictyaml.Texts, Example: "[delete_file]", Doc: "Tools of which golem must refuse at least one call."},
		{Name: "not_called", Type: strictyaml.Texts, Example: "[shell]", Doc: "Tools that the run must not call, not even in vain."},
	}
}

// Parse reads a file with cases. name is for messages, and dir is the directory of the
// file. The error is a strictyaml.Problems.
func Parse(name, dir string, data []byte) (*File, error) {
	root, problems := strictyaml.Parse(name, data)
	if len(problems) > 0 {
		return nil, problems.Err()
	}
	if root.Bounded(&problems) {
		Schema().Check(root, &problems)
	}
	if len(problems) > 0 {
		return nil, problems.Err()
	}
	r := reader{dir: dir}
	file := &File{Program: dir}
	if n, ok := root.At("program"); ok {
		if file.Program = n.Text; !filepath.IsAbs(n.Text) {
			file.Program = filepath.Join(dir, filepath.FromSlash(n.Text))
		}
	}
	cases, ok := root.At("cases")
	if !ok {
		r.problems.Add(root, "no cases", "write cases: with a list of them: cases: [{name: first, input: Hello, expect: {answer: hello}}]")
	}
	names := make(map[string]strictyaml.Place)
	for _, n := range cases.Items {
		c := r.readCase(root, n)
		if other, taken := names[c.Name]; taken && c.Name != "" {
			r.problems.Add(n, "two cases named "+sandbox.Shown(c.Name)+", the other is at "+other.String(), "give each a name of its own")
		}
		names[c.Name] = n.Place
		file.Cases = append(file.Cases, c)
	}
	return file, r.problems.Err()
}

// A reader turns checked nodes into cases, and collects problems.
type reader struct {
	dir      string
	problems strictyaml.Problems
}

func (r *reader) readCase(root, n strictyaml.Node) Case {
	at := func(key string) strictyaml.Node { // of the case, or else of the file
		if value, ok := n.At(key); ok {
			return value
		}
		value, _ := root.At(key)
		return value
	}
	c := Case{Place: n.Place, Entry: at("entry").Text, Model: at("model").Text}
	n.Decode(map[string]any{"name": &c.Name, "input": &c.Input}, nil)
	if c.Name == "" || strings.TrimSpace(c.Name) != c.Name {
		r.problems.Add(n, "a case without a name", "give it one: {name: adds-a-note, …}; --json and golem eval FILE NAME use it")
	}
	if approve := at("approve"); approve.Kind == strictyaml.List {
		c.Approve.Tools = approve.Texts()
	} else {
		c.Approve.All = approve.Bool()
	}
	at("budget").Decode(map[string]any{"turns": &c.Budget.Turns, "tokens": &c.Budget.Tokens, "cost": &c.Budget.Cost, "time": &c.Budget.Budget}, nil)
	if kind, file, ok := strings.Cut(c.Model, ":"); ok && (kind == "scripted" || kind == "replay") && !filepath.IsAbs(file) {
		c.Model = kind + ":" + filepath.Join(r.dir, filepath.FromSlash(file))
	}
	attach, _ := n.At("attach")
	for _, item := range attach.Items {
		file, err := r.inside(item.Text)
		if err != nil {
			r.problems.Add(item, "attach: "+sandbox.Shown(item.Text)+": "+err.Error(), "name a file in the directory of this file")
		}
		c.Attach = append(c.Attach, file)
	}
	expect, _ := n.At("expect")
	c.Expect = r.readExpect(expect)
	return c
}

// inside returns the path of a file in the directory of the cases, and an error if it is
// not there or elsewhere. Somebody else may have written the cases, and an attached file
// goes to the model.
func (r *reader) inside(name string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("it is not in %s", sandbox.Shown(filepath.Base(r.dir)))
	}
	file := filepath.Join(r.dir, filepath.FromSlash(name))
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return "", fmt.Errorf("there is no such file")
	}
	top, err := filepath.EvalSymlinks(r.dir)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(top, real); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("it is a symlink to a file elsewhere")
	}
	return real, nil
}

func (r *reader) readExpect(n strictyaml.Node) Expect {
	patterns := func(n strictyaml.Node, key string) []*regexp.Regexp {
		value, ok := n.At(key)
		if !ok {
			return nil
		}
		items := value.Items
		if value.Kind == strictyaml.Scalar {
			items = []strictyaml.Node{value}
		}
		var list []*regexp.Regexp
		for _, item := range items {
			pattern, err := regexp.Compile(item.Text)
			if err != nil {
				r.problems.Add(item, key+": "+err.Error(), `write a regular expression of Go's; put \ before a character that stands for itself`)
				continue
			}
			list = append(list, pattern)
		}
		return list
	}
	e := Expect{End: run.Finished, Answer: patterns(n, "answer"), NotAnswer: patterns(n, "answer_lacks")}
	n.Decode(map[string]any{"unchanged": &e.Unchanged, "called": &e.Called, "refused": &e.Refused, "not_called": &e.NotCalled}, nil)
	if end, ok := n.At("end"); ok {
		e.End = run.End(end.Text)
	}
	if only, ok := n.At("only"); ok {
		e.Only = append([]string{}, only.Texts()...)
	}
	files, _ := n.At("files")
	for _, item := range files.Items {
		f := ExpectedFile{Path: item.Text, Has: patterns(item, "has"), Lacks: patterns(item, "lacks")}
		item.Decode(map[string]any{"path": &f.Path, "deleted": &f.Deleted}, nil)
		switch {
		case !strings.HasPrefix(f.Path, "/"):
			r.problems.Add(item, "files: "+sandbox.Shown(f.Path)+" is no path of a worker's file", "write it as workers see it, such as /notes/ideas.md")
		case f.Deleted && len(f.Has)+len(f.Lacks) > 0:
			r.problems.Add(item, "files: "+sandbox.Shown(f.Path)+" is deleted, and has content", "leave out deleted, or has and lacks")
		}
		e.Files = append(e.Files, f)
	}
	return e
}

// Choose returns the cases with these names, in the order of the file; without names, all.
func (f *File) Choose(names []string) ([]Case, error) {
	if len(names) == 0 {
		return f.Cases, nil
	}
	var known []string
	for _, c := range f.Cases {
		known = append(known, c.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, &sandbox.Error{Op: "eval", Path: name, Code: sandbox.ErrNotFound, Hint: "no case has this name; there are " + strings.Join(known, ", ")}
		}
	}
	return slices.DeleteFunc(slices.Clone(f.Cases), func(c Case) bool { return !slices.Contains(names, c.Name) }), nil
}
