package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/pflag"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// maxStdin limits the bytes that golem reads from standard input.
const maxStdin = 16 << 20

// toolArgs holds the arguments of a tool as flags, one for each property of its schema. A
// list of objects is given as JSON. If the list has only one entry, the fields of the
// entry are flags too.
type toolArgs struct {
	tool  tool.Tool
	whole string // --args
	flags []*toolFlag
}

// A toolFlag is the flag of one argument.
type toolFlag struct {
	key    string // the name of the property
	in     string // the list of objects that has the field; "" for a property of the top level
	schema *jsonschema.Schema
	given  []string
	taken  bool // another flag has this name, so only --args can set it
}

// items returns the schema of the entries of a list, or an empty schema.
func items(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Items == nil {
		return new(jsonschema.Schema)
	}
	return s.Items
}

func newToolArgs(t tool.Tool) *toolArgs {
	a := &toolArgs{tool: t}
	top := t.Schema()
	for _, key := range ordered(top) {
		p := top.Properties[key]
		a.flags = append(a.flags, &toolFlag{key: key, schema: p})
		if p.Type != "array" || items(p).Type != "object" {
			continue
		}
		for _, field := range ordered(p.Items) {
			if top.Properties[field] == nil {
				a.flags = append(a.flags, &toolFlag{key: field, in: key, schema: p.Items.Properties[field]})
			}
		}
	}
	return a
}

// several explains how to pass several values, if a list flag was given.
func (a *toolArgs) several() string {
	for _, f := range a.flags {
		if f.schema.Type == "array" && len(f.given) > 0 {
			return fmt.Sprintf("; several values are --%s A --%s B", f.key, f.key)
		}
	}
	return ""
}

// ordered returns the properties of an object, the required ones first.
func ordered(s *jsonschema.Schema) []string {
	var keys []string
	for key := range s.Properties {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if x, y := slices.Index(s.Required, a), slices.Index(s.Required, b); x != y && x >= 0 && y >= 0 {
			return x - y
		} else if x != y {
			return y - x
		}
		return strings.Compare(a, b)
	})
	return keys
}

// addTo adds the flags. A name may have - instead of _.
func (a *toolArgs) addTo(flags *pflag.FlagSet) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	for _, f := range a.flags {
		if f.taken = f.key == "" || flags.Lookup(f.key) != nil || strings.ReplaceAll(f.key, "_", "-") == "args"; f.taken {
			continue
		}
		added := flags.VarPF(f, f.key, "", f.usage(a.tool))
		if f.schema.Type == "boolean" {
			added.NoOptDefVal = "true"
		}
	}
	flags.StringVar(&a.whole, "args", "", "all arguments as one JSON object; - reads it from standard input")
}

// usage returns the help text of a flag.
func (f *toolFlag) usage(t tool.Tool) string {
	text := f.schema.Description
	if f.in != "" {
		text += " (of the only entry of " + f.in + ")"
	}
	if len(f.schema.Enum) > 0 {
		text += "; one of " + strings.Join(visible.Each(f.schema.Enum, func(word any) string { return fmt.Sprint(word) }), ", ")
	}
	if f.schema.Default != nil {
		text += "; " + string(f.schema.Default) + " if not given"
	}
	if f.reads(t) {
		text += "; - reads standard input"
	}
	if f.in == "" && slices.Contains(t.Schema().Required, f.key) {
		text += " (needed" + map[bool]string{true: ", or the flags of one entry"}[f.schema.Type == "array" && items(f.schema).Type == "object"] + ")"
	}
	return strings.TrimPrefix(strings.TrimSpace(text), "; ")
}

// reads reports whether - means standard input. It does for contents, and for a command,
// because - is no command. In a name, - is just a name.
func (f *toolFlag) reads(t tool.Tool) bool {
	command := f.key == "command" && slices.Contains(t.Verbs, policy.Run)
	return f.schema.Type == "string" && f.in == "" && (command || slices.Contains(t.Private, f.key))
}

// Set implements pflag.Value.
func (f *toolFlag) Set(text string) error {
	if len(f.given) > 0 && f.schema.Type != "array" {
		return fmt.Errorf("it is given twice")
	}
	f.given = append(f.given, text)
	return nil
}

// String implements pflag.Value. It is empty because usage prints the default.
func (f *toolFlag) String() string { return "" }

// Type implements pflag.Value.
func (f *toolFlag) Type() string {
	switch {
	case f.schema.Type == "boolean":
		return ""
	case f.schema.Type == "array" && items(f.schema).Type == "string":
		return "string, may be given again"
	case f.schema.Type == "array" || f.schema.Type == "object":
		return "JSON"
	}
	return f.schema.Type
}

// given holds the values of the flags, as JSON.
type given struct {
	json  []byte
	stdin bool // standard input was read
}

// read returns the arguments. The gate checks them against the schema.
func (a *toolArgs) read(stdin io.Reader) (*given, error) {
	g := &given{}
	set := slices.ContainsFunc(a.flags, func(f *toolFlag) bool { return f.given != nil })
	if a.whole != "" {
		if set {
			return nil, usageError("--args is all arguments; other flags of the tool do not go with it")
		}
		g.json = []byte(a.whole)
		if a.whole == "-" {
			text, err := g.readAll(stdin)
			g.json = []byte(text)
			return g, err
		}
		return g, nil
	}
	if err := a.missing(); err != nil {
		return nil, err
	}
	values, entries := map[string]any{}, map[string]map[string]any{}
	for _, f := range a.flags {
		if f.given == nil {
			continue
		}
		v, err := f.value(a.tool, g, stdin)
		if err != nil {
			return nil, err
		}
		if f.in == "" {
			values[f.key] = v
			continue
		}
		if entries[f.in] == nil {
			entries[f.in] = map[string]any{}
		}
		entries[f.in][f.key] = v
	}
	for key, entry := range entries {
		if values[key] != nil {
			return nil, usagef("--%s is the whole list; flags of one entry do not go with it", key)
		}
		values[key] = []any{entry}
	}
	var err error
	g.json, err = tool.EncodeArguments(values)
	return g, err
}

// missing returns an error if a required flag is not given.
func (a *toolArgs) missing() error {
	for _, key := range a.tool.Schema().Required {
		if slices.ContainsFunc(a.flags, func(f *toolFlag) bool { return f.given != nil && (f.key == key && f.in == "" || f.in == key) }) {
			continue
		}
		i := slices.IndexFunc(a.flags, func(f *toolFlag) bool { return f.key == key && f.in == "" })
		if i < 0 || a.flags[i].taken {
			return usagef("%s: invalid_args; %s is missing; give it as --args '{…}', because no flag can have this name", a.tool.Name, sandbox.Shown(key))
		}
		need := "--" + strings.ReplaceAll(key, "_", "-")
		if a.flags[i].reads(a.tool) {
			need += " (- reads standard input)"
		}
		return usagef("%s: invalid_args; %s is missing; golem tool %s --help lists the flags", a.tool.Name, need, a.tool.Name)
	}
	return nil
}

// value returns the value of a flag in the type of the schema. It passes on most values
// that do not fit, and the gate reports the error.
func (f *toolFlag) value(t tool.Tool, g *given, stdin io.Reader) (any, error) {
	last := f.given[len(f.given)-1]
	switch f.schema.Type {
	case "string":
		if last == "-" && f.reads(t) {
			return g.readAll(stdin)
		}
		return last, nil
	case "integer", "number":
		if !json.Valid([]byte(last)) {
			return last, nil
		}
		return json.RawMessage(last), nil
	case "boolean":
		if b, err := strconv.ParseBool(last); err == nil {
			return b, nil
		}
		return last, nil
	case "array":
		if items(f.schema).Type == "string" && !strings.HasPrefix(last, "[") {
			return f.given, nil
		}
	}
	if f.schema.Type == "" && !json.Valid([]byte(last)) {
		return last, nil
	}
	if len(f.given) > 1 {
		return nil, usagef("--%s is given twice; write one JSON value", f.key)
	}
	if !json.Valid([]byte(last)) {
		return nil, usagef("--%s takes JSON, such as %s", f.key, example(f.schema))
	}
	return json.RawMessage(last), nil
}

// example returns an example of a value that fits a schema.
func example(s *jsonschema.Schema) string {
	switch s.Type {
	case "array":
		return "[" + example(items(s)) + "]"
	case "object":
		var parts []string
		for _, key := range ordered(s) {
			if slices.Contains(s.Required, key) {
				parts = append(parts, strconv.Quote(key)+": "+example(s.Properties[key]))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case "string":
		return `"…"`
	case "boolean":
		return "true"
	}
	return "1"
}

// readAll reads all of standard input. It works only once.
func (g *given) readAll(stdin io.Reader) (string, error) {
	if g.stdin {
		return "", usageError("standard input can be read once; only one flag takes -")
	}
	g.stdin = true
	data, err := io.ReadAll(io.LimitReader(stdin, maxStdin+1))
	if err == nil && len(data) > maxStdin {
		err = usagef("standard input holds more than %d bytes", maxStdin)
	}
	return string(data), err
}
