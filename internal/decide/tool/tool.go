package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// A Tool can be called by its name: by a model, a peer or the user. The zero Tool admits
// nobody.
type Tool struct {
	Name        string
	Toolset     string // the name in a grant
	Description string // for a model: short, and without the name of a mount
	Mode        policy.Mode
	// Verbs are the effects that the tool may have on files. If the grant blocks one of
	// them everywhere, the tool is not offered.
	Verbs []policy.Verb
	// AlwaysAsk is true for a tool that changes what the user trusts. The user is asked
	// about every call, and neither rules nor files can approve it.
	AlwaysAsk bool
	// ForUser is true for a tool that the user can call even if the worker was not
	// granted it.
	ForUser bool
	// ChangesState is true for a tool that changes golem's state, and no files.
	ChangesState bool
	// UsesNetwork is true for a tool that connects to other machines.
	UsesNetwork bool
	// Unlisted tools can be called, but are not offered.
	Unlisted bool
	// AliasOf is the current name of a tool with an older name and other arguments. The
	// journal and the approver get the current name.
	AliasOf string
	// RulesOf is another tool, whose rules hold for this one, too.
	RulesOf string
	// Program is the one program that a foreign tool runs, as the target of its effect.
	// Rules are the rules written in the definition of the tool: each is one more layer,
	// as those of a Plan are.
	Program string
	Rules   []policy.Rule
	// Label and Category help people to browse many tools; most tools have none.
	Label, Category string
	// Private are the arguments that contain content. The journal records only their
	// size.
	Private []string

	argSchema func() argumentSchema
	plan      func(ctx context.Context, names Names, raw []byte) (arguments, Plan, error)
}

// arguments are the arguments of a call, with defaults: as the tool's type, and by key.
// They are empty if they could not be decoded.
type arguments struct {
	typed any
	keys  map[string]any
}

// An argumentSchema is the schema of a tool's arguments, with values derived from it.
type argumentSchema struct {
	schema   *jsonSchema
	exact    validator
	plain    bool           // findMisfit checks everything that the schema says
	defaults []byte         // a JSON object with all defaults; nil for none
	filled   map[string]any // the same, decoded
}

func newArgumentSchema(s *jsonSchema) (argumentSchema, error) {
	exact, err := newValidator(s)
	if err != nil {
		return argumentSchema{}, err
	}
	given := make(map[string]json.RawMessage)
	for key, p := range s.Properties {
		if p.Default != nil {
			given[key] = p.Default
		}
	}
	made := argumentSchema{schema: s, exact: exact, plain: isPlain(s)}
	if len(given) > 0 {
		made.defaults, err = json.Marshal(given)
	}
	if err == nil && made.defaults != nil {
		err = json.Unmarshal(made.defaults, &made.filled)
	}
	return made, err
}

// New returns a tool whose arguments are the fields of A. A field has a JSON name,
// `jsonschema:"what it is"`, and may have `default:"…"`, `enum:"a,b"` and
// `minimum:"…"`. A field with omitempty is optional, and then has its default. The
// schema is made when it is first needed, because most tools are not called. New panics
// if A has no schema: that is a bug in golem.
func New[A any](t Tool, plan func(ctx context.Context, names Names, args A) (Plan, error)) Tool {
	t.argSchema = sync.OnceValue(func() argumentSchema {
		schema, err := infer(reflect.TypeFor[A]())
		if err == nil {
			err = refine(schema, reflect.TypeFor[A]())
		}
		var made argumentSchema
		if err == nil {
			made, err = newArgumentSchema(schema)
		}
		if err != nil {
			panic(fmt.Sprintf("tool %s: %v", t.Name, err))
		}
		return made
	})
	t.plan = func(ctx context.Context, names Names, raw []byte) (arguments, Plan, error) {
		var args A
		keys, err := t.decode(raw, &args)
		if err != nil {
			return arguments{}, Plan{}, err
		}
		p, err := plan(ctx, names, args)
		return arguments{args, keys}, p, err
	}
	return t
}

// Alias returns the tool as an older form of another one, which can be called but is not
// offered.
func (t Tool) Alias(of string) Tool {
	t.AliasOf, t.Unlisted = of, true
	return t
}

// RuleNames returns the names under which a rule may name the tool: its own, its current
// one, and those of its toolset and of the tool whose rules hold for it.
func (t Tool) RuleNames() []string {
	return slices.DeleteFunc([]string{t.Name, t.AliasOf, t.RulesOf, t.Toolset}, func(name string) bool { return name == "" })
}

// currentName returns the name for the journal and the approver.
func (t Tool) currentName() string { return cmp.Or(t.AliasOf, t.Name) }

// Schema returns the JSON schema of the arguments. The caller must not change it.
func (t Tool) Schema() *jsonSchema { return t.argSchema().schema }

// refine adds the tags of the fields to an inferred schema, and disallows null for a
// list.
func refine(s *jsonSchema, t reflect.Type) error {
	switch t.Kind() {
	case reflect.Slice:
		s.Type, s.Types = "array", nil
		return refine(s.Items, t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			if err := refine(s, f.Type); err != nil {
				return err
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if p == nil {
			return fmt.Errorf("field %s has no JSON name", f.Name)
		}
		if text, ok := f.Tag.Lookup("default"); ok {
			p.Default = []byte(text)
		}
		if text, ok := f.Tag.Lookup("minimum"); ok {
			least, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return err
			}
			p.Minimum = &least
		}
		if text, ok := f.Tag.Lookup("enum"); ok {
			for word := range strings.SplitSeq(text, ",") {
				p.Enum = append(p.Enum, word)
			}
		}
		if err := refine(p, f.Type); err != nil {
			return err
		}
	}
	return nil
}
