package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A Description holds the schema file of a custom tool.
type Description struct {
	Text            string      // for a model
	Mode            policy.Mode // default llm
	Approval        policy.Rule // default ask
	Label, Category string
	Schema          json.RawMessage // of the arguments, without golem's own keys
}

// MaxDescription is the largest size of a schema file in bytes.
const MaxDescription = 64 << 10

// golemKey returns the schema of golem's own key in a schema file.
func golemKey() strictyaml.Key {
	return strictyaml.Key{Name: "x-golem", Type: strictyaml.Group, Empty: true, Keys: []strictyaml.Key{
		{Name: "mode", Type: strictyaml.Word, Words: []string{"llm", "manual", "both"}},
		{Name: "approval", Type: strictyaml.Word, Words: approvalWords()},
		{Name: "label", Type: strictyaml.Text},
		{Name: "category", Type: strictyaml.Text},
	}}
}

// Describe reads the schema file of a custom tool. The error is a [strictyaml.Problems]
// with everything that is wrong.
func Describe(file string, data []byte) (Description, error) {
	d := Description{Mode: policy.LLM, Approval: policy.Rule{Verb: policy.Run, Approval: policy.Ask, From: file}}
	var problems strictyaml.Problems
	j := jsonReader{file: file, data: data, d: json.NewDecoder(bytes.NewReader(data))}
	top, err := j.document()
	if err != nil {
		problems.Add(strictyaml.Node{Place: j.at(j.d.InputOffset())}, err.Error(), "it is a JSON schema, as {\"description\": \"…\", \"type\": \"object\", \"properties\": {…}}")
		return d, problems.Err()
	}
	if top.Kind != strictyaml.Map {
		problems.Add(top, "not a schema: "+top.Kind.String(), "it is a JSON object that describes the arguments")
		return d, problems.Err()
	}
	if d.Text = textOf(top, "description"); d.Text == "" {
		problems.Add(top, "no description", "write \"description\" and what the tool does, for the model")
	}
	if kind, ok := top.At("type"); !ok || kind.Text != "object" {
		problems.Add(top, `no "type": "object"`, "arguments are an object")
	}
	own, _ := top.At("x-golem")
	golemKey().Check(own, &problems)
	for _, m := range []policy.Mode{policy.LLM, policy.Manual, policy.Both} {
		if textOf(own, "mode") == m.String() {
			d.Mode = m
		}
	}
	if n, ok := own.At("approval"); ok {
		d.Approval.From = n.Place.String()
		d.Approval.Approval, _ = policy.ParseApproval(n.Text)
	}
	own.Decode(map[string]any{"label": &d.Label, "category": &d.Category}, nil)
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return d, err
	}
	delete(all, "x-golem")
	delete(all, "description")
	if d.Schema, err = json.Marshal(all); err != nil {
		return d, err
	}
	return d, problems.Err()
}

// A jsonReader turns JSON into nodes that have their places.
type jsonReader struct {
	file string
	data []byte
	d    *json.Decoder
}

// at returns the place of the next value at or after an offset.
func (j *jsonReader) at(offset int64) strictyaml.Place {
	for offset < int64(len(j.data)) && bytes.IndexByte([]byte(" \t\r\n,:"), j.data[offset]) >= 0 {
		offset++
	}
	before := j.data[:min(offset, int64(len(j.data)))]
	line := bytes.LastIndexByte(before, '\n') + 1
	return strictyaml.Place{Source: j.file, Line: bytes.Count(before, []byte("\n")) + 1, Col: utf8.RuneCount(before[line:]) + 1}
}

func (j *jsonReader) document() (strictyaml.Node, error) {
	if len(j.data) > MaxDescription {
		return strictyaml.Node{}, fmt.Errorf("more than %d bytes", MaxDescription)
	}
	if !utf8.Valid(j.data) {
		return strictyaml.Node{}, errors.New("not UTF-8")
	}
	j.d.UseNumber()
	n, err := j.value(0)
	if err != nil {
		return n, err
	}
	if _, err := j.d.Token(); err != io.EOF {
		return n, errors.New("something follows the schema")
	}
	return n, nil
}

func (j *jsonReader) value(depth int) (n strictyaml.Node, err error) {
	const most = 32
	n.Place = j.at(j.d.InputOffset())
	token, err := j.d.Token()
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends too early")
		}
		return n, fmt.Errorf("not JSON: %w", err)
	}
	if depth > most {
		return n, fmt.Errorf("more than %d levels deep", most)
	}
	switch v := token.(type) {
	case nil:
		return n, nil
	case string:
		n.Kind, n.Text, n.Quoted = strictyaml.Scalar, v, true
		return n, nil
	case json.Delim:
		if v == '[' {
			return j.list(n, depth)
		}
		return j.fields(n, depth)
	}
	n.Kind, n.Text = strictyaml.Scalar, fmt.Sprint(token)
	return n, nil
}

func (j *jsonReader) list(n strictyaml.Node, depth int) (strictyaml.Node, error) {
	n.Kind = strictyaml.List
	for j.d.More() {
		item, err := j.value(depth + 1)
		if err != nil {
			return n, err
		}
		n.Items = append(n.Items, item)
	}
	_, err := j.d.Token()
	return n, err
}

func (j *jsonReader) fields(n strictyaml.Node, depth int) (strictyaml.Node, error) {
	n.Kind = strictyaml.Map
	seen := make(map[string]bool)
	for j.d.More() {
		key, err := j.value(depth + 1)
		if err != nil {
			return n, err
		}
		if seen[key.Text] {
			return n, fmt.Errorf("%s appears twice", sandbox.Shown(key.Text))
		}
		seen[key.Text] = true
		value, err := j.value(depth + 1)
		if err != nil {
			return n, err
		}
		n.Fields = append(n.Fields, strictyaml.Field{Key: key, Value: value})
	}
	_, err := j.d.Token()
	return n, err
}
