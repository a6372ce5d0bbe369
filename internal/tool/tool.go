package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/golem-forge/golem/internal/policy"
)

// A Tool is something that a model, a peer or the user may ask for by its name.
// The zero Tool admits nobody.
type Tool struct {
	Name        string
	Toolset     string // what a grant names
	Description string // for a model: short, and without the name of any mount
	Mode        policy.Mode
	// Verbs are what it may do to files. Where a grant refuses one of them
	// everywhere, the tool is not offered.
	Verbs []policy.Verb
	// Asks is true of a tool that brings something into what the user trusts, or takes
	// it away: the user is asked about what it does, every time, and neither rules nor
	// files answer.
	AlwaysAsk bool
	// Yours is true of a tool that the user has by hand, though the worker was not given it.
	ForUser bool
	// Keeps is true of a tool that changes what golem keeps, and no file.
	ChangesState bool
	// Reaches is true of a tool that reaches others than this machine.
	UsesNetwork bool
	// Unlisted tools are answered and not offered: older names. Of is the tool that
	// one is a name of; rules about that hold for this.
	Unlisted bool
	AliasOf  string
	// Runs is the one program that a foreign tool runs, as its effect names it, and Rules
	// what is written of that where the tool is: each is a layer of consent, as those of
	// a Plan are.
	Program string
	Rules   []policy.Rule
	// Label and Category are for people who look through many tools; "" for most.
	Label, Category string
	// Private are the arguments that hold content. Of those the journal keeps only
	// the size.
	Private []string

	argSchema func() argumentSchema
	plan      func(ctx context.Context, names Names, raw []byte) (arguments, Plan, error)
}

// Arguments are what a call was given, with defaults: as its tool reads them, and by
// their keys. There are none where they could not be read.
type arguments struct {
	typed any
	keys  map[string]any
}

// A shape is the schema of a tool's arguments, and what is known of it beforehand.
type argumentSchema struct {
	schema   *jsonschema.Schema
	exact    *jsonschema.Resolved // to hold values against
	plain    bool                 // misfit finds all that does not fit
	defaults []byte               // a JSON object with those of all arguments; nil for none
	filled   map[string]any       // the same, to be looked at
}

func newArgumentSchema(s *jsonschema.Schema) (argumentSchema, error) {
	exact, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
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

// New returns the tool with its arguments, which are the fields of A, and its
// planner. A field has its JSON name, `jsonschema:"what it is"`, and may have
// `default:"…"`, `enum:"a,b"` and `minimum:"…"`; with omitempty it may be left
// out, and then has its default. The schema is made when it is first needed: of many
// tools few are called. A type that has none is a mistake in the program, and panics.
func New[A any](t Tool, plan func(ctx context.Context, names Names, args A) (Plan, error)) Tool {
	t.argSchema = sync.OnceValue(func() argumentSchema {
		schema, err := jsonschema.For[A](nil)
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

// Alias returns the tool under an older name, which is answered and not offered.
func (t Tool) Alias(name string) Tool {
	if t.Name != name {
		t.AliasOf = t.Name
	}
	t.Name, t.Unlisted = name, true
	return t
}

// Schema returns the JSON schema of the arguments. It is not to be changed.
func (t Tool) Schema() *jsonschema.Schema { return t.argSchema().schema }

// refine adds to an inferred schema what the tags of the fields say, and takes
// out what JSON would allow and nobody means: null for a list.
func refine(s *jsonschema.Schema, t reflect.Type) error {
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
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if p == nil {
			return fmt.Errorf("field %s has no JSON name", f.Name)
		}
		if text, ok := f.Tag.Lookup("default"); ok {
			p.Default = []byte(text)
		}
		if text, ok := f.Tag.Lookup("minimum"); ok {
			var least float64
			if _, err := fmt.Sscan(text, &least); err != nil {
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
