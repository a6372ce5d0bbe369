package scripted

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// maxTimes limits how often one turn is repeated.
const maxTimes = 10_000

var (
	stops    = []string{string(model.Done), string(model.Calls), string(model.Length), string(model.Refused)}
	failures = []string{string(model.Overloaded), string(model.Broken), string(model.TimedOut), string(model.Denied), string(model.Unknown), string(model.TooLong), string(model.Bad)}
)

// keys are the keys of a turn.
var keys = []strictyaml.Key{
	{Name: "expect", Type: strictyaml.Text, Doc: "A regular expression that matches the last message to the model: the results of its calls, or the input."},
	{Name: "thinking", Type: strictyaml.Text, Doc: "What it thinks."},
	{Name: "text", Type: strictyaml.Text, Doc: "What it says."},
	{Name: "calls", Type: strictyaml.Groups, Doc: "The tools that it asks for.", Keys: []strictyaml.Key{
		{Name: "tool", Type: strictyaml.Text, Doc: "The name of the tool."},
		{Name: "args", Type: strictyaml.Free, Empty: true, Doc: "Its arguments. Without it, none: {}."},
		{Name: "raw", Type: strictyaml.Text, Doc: "The text of its arguments, which need not be JSON; in place of args."},
	}},
	{Name: "stop", Type: strictyaml.Word, Words: stops, Doc: "Why the answer ends. Without it, calls where there are any, else done."},
	{Name: "usage", Type: strictyaml.Group, Doc: "The tokens it took.", Keys: []strictyaml.Key{
		{Name: "input", Type: strictyaml.Whole}, {Name: "output", Type: strictyaml.Whole}, {Name: "cache_read", Type: strictyaml.Whole}, {Name: "cache_write", Type: strictyaml.Whole},
	}},
	{Name: "wait", Type: strictyaml.Span, Doc: "How long it takes."},
	{Name: "fail", Type: strictyaml.Word, Words: failures, Doc: "The error in place of an answer."},
	{Name: "times", Type: strictyaml.Whole, Doc: "How often the turn is played in a row."},
}

// New parses a script. file is its name, for errors. The error is strictyaml.Problems.
func New(file string, data []byte) (*Model, error) {
	m := &Model{name: "scripted:" + file, file: file, scripts: map[string]script{}, next: map[string]int{}}
	root, problems := strictyaml.Parse(file, data)
	r := reader{name: m.name, problems: problems}
	switch {
	case len(problems) > 0:
	case root.Kind == strictyaml.List:
		m.anybody = true
		m.scripts[""] = script{turns: r.turns("script", root)}
	case root.Kind != strictyaml.Map || len(root.Fields) == 0:
		r.problems.Add(root, root.Kind.String()+" with no turns", "a script is a list of turns, or a map from the names of workers to theirs")
	}
	for _, f := range root.Fields {
		name := f.Key.Text
		if f.Value.Kind != strictyaml.Map {
			m.scripts[name] = script{turns: r.turns(name, f.Value)}
			continue
		}
		strictyaml.Key{Name: name, Type: strictyaml.Group, Keys: []strictyaml.Key{{Name: "each", Type: strictyaml.Free, Empty: true}}}.Check(f.Value, &r.problems)
		each, ok := f.Value.At("each")
		if !ok {
			r.problems.Add(f.Value, name+": a map without each", "write a list of turns, or {each: [turns]} to play them in every conversation")
			continue
		}
		m.scripts[name] = script{each: true, turns: r.turns(name+".each", each)}
	}
	if err := r.problems.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// A reader builds turns and collects errors.
type reader struct {
	name     string // name of the model
	problems strictyaml.Problems
}

func (r *reader) turns(name string, list strictyaml.Node) []turn {
	before := len(r.problems)
	strictyaml.Key{Name: name, Type: strictyaml.Groups, Keys: keys}.Check(list, &r.problems)
	if len(r.problems) > before {
		return nil
	}
	var turns []turn
	for _, n := range list.Items {
		t := r.turn(n)
		times := int64(1)
		if at, ok := n.At("times"); ok {
			times, _ = at.Int()
			if times < 1 || times > maxTimes {
				r.problems.Add(at, "times: "+at.Text, fmt.Sprintf("from 1 to %d", maxTimes))
			}
		}
		for range min(times, maxTimes) {
			t.number = len(turns) + 1
			turns = append(turns, t)
		}
	}
	return turns
}

// turn converts a turn whose keys and types are checked.
func (r *reader) turn(n strictyaml.Node) turn {
	t := turn{line: n.Place.Line}
	text := func(key string) string {
		value, _ := n.At(key)
		return value.Text
	}
	if expect, ok := n.At("expect"); ok {
		pattern, err := regexp.Compile(expect.Text)
		if err != nil {
			r.problems.Add(expect, "expect: "+err.Error(), "write a regular expression of Go's; a backslash goes before what is meant as it stands")
		}
		t.expect = pattern
	}
	if fail, ok := n.At("fail"); ok {
		for _, key := range []string{"thinking", "text", "calls", "stop", "usage"} {
			if n.Has(key) {
				r.problems.Add(fail, "fail beside "+key, "a turn that fails says nothing; make two of it")
			}
		}
		t.fail = &model.Error{Class: model.Class(fail.Text), Model: r.name, What: fmt.Sprintf("%s:%d: the script fails here", fail.Place.Source, fail.Place.Line)}
	}
	t.answer = model.Answer{Model: r.name, Stop: model.Done}
	used := &t.answer.Usage
	n.Decode(map[string]any{"wait": &t.wait, "usage.input": &used.Input, "usage.output": &used.Output, "usage.cache_read": &used.CacheRead, "usage.cache_write": &used.CacheWrite}, nil)
	if thinking := text("thinking"); thinking != "" {
		t.answer.Parts = append(t.answer.Parts, model.Part{Thinking: &model.Thinking{Text: thinking}})
	}
	if said := text("text"); said != "" {
		t.answer.Parts = append(t.answer.Parts, model.Part{Text: said})
	}
	calls, _ := n.At("calls")
	for _, call := range calls.Items {
		t.answer.Parts = append(t.answer.Parts, model.Part{Call: r.call(call)})
		t.answer.Stop = model.Calls
	}
	if stop := text("stop"); stop != "" {
		t.answer.Stop = model.Stop(stop)
	}
	if t.answer.Stop == model.Calls && len(calls.Items) == 0 {
		stop, _ := n.At("stop")
		r.problems.Add(stop, "stop: calls, and there are none", "add calls, or leave stop out")
	}
	return t
}

func (r *reader) call(n strictyaml.Node) *model.Call {
	tool, _ := n.At("tool")
	if tool.Text == "" {
		r.problems.Add(n, "a call without a tool", "name the tool: {tool: read_file, args: {path: /a}}")
	}
	args, given := n.At("args")
	raw, text := n.At("raw")
	call := &model.Call{Tool: tool.Text, Args: raw.Text}
	switch {
	case given && text:
		r.problems.Add(raw, "raw beside args", "keep one")
	case given:
		call.Args = string(value(args))
	case !text:
		call.Args = "{}"
	}
	return call
}

// number matches a JSON number.
var number = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
})

// value converts a value to JSON and keeps the order of keys. Unquoted numbers, true,
// false and null keep their type. Everything else becomes a string.
func value(n strictyaml.Node) []byte {
	text := func(s string) []byte {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(s) // a string can always be encoded
		return []byte(strings.TrimSuffix(b.String(), "\n"))
	}
	switch n.Kind {
	case strictyaml.Scalar:
		if !n.Quoted && (n.Text == "true" || n.Text == "false" || number().MatchString(n.Text)) {
			return []byte(n.Text)
		}
		return text(n.Text)
	case strictyaml.List:
		b := []byte{'['}
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, value(item)...)
		}
		return append(b, ']')
	case strictyaml.Map:
		b := []byte{'{'}
		for i, f := range n.Fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, text(f.Key.Text)...), ':'), value(f.Value)...)
		}
		return append(b, '}')
	}
	return []byte("null")
}
