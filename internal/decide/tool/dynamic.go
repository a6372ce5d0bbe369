//go:build !js

package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/golem-forge/golem/sandbox"
)

// Dynamic returns a tool whose arguments are described by a JSON schema that is not known
// at compile time. The planner gets the decoded arguments, with defaults, as one JSON
// object. Arguments that the schema does not name are refused, unless the schema allows
// more itself. A schema that refers to itself is an error, because checking a value might
// not end.
func Dynamic(t Tool, schema []byte, plan func(ctx context.Context, names Names, args json.RawMessage) (Plan, error)) (Tool, error) {
	if err := checkSchema(schema); err != nil {
		return t, err
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(schema, s); err != nil {
		return t, fmt.Errorf("no JSON schema: %w", err)
	}
	if s.Type != "object" {
		return t, errors.New(`no "type": "object": arguments are an object`)
	}
	if s.AdditionalProperties == nil && s.UnevaluatedProperties == nil && s.PatternProperties == nil && s.Ref == "" &&
		s.AllOf == nil && s.AnyOf == nil && s.OneOf == nil && s.If == nil {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	made, err := newArgumentSchema(s)
	if err != nil {
		return t, fmt.Errorf("no JSON schema: %w", err)
	}
	t.argSchema = func() argumentSchema { return made }
	t.plan = func(ctx context.Context, names Names, raw []byte) (arguments, Plan, error) {
		all := map[string]json.RawMessage{}
		keys, err := t.decode(raw, &all)
		if err != nil {
			return arguments{}, Plan{}, err
		}
		args, err := json.Marshal(all)
		if err != nil {
			return arguments{}, Plan{}, err
		}
		p, err := plan(ctx, names, args)
		return arguments{json.RawMessage(args), keys}, p, err
	}
	return t, nil
}

// maxSchema is how many values a schema may have, counting each part as many times as it
// is referred to.
const maxSchema = 20_000

// checkSchema refuses a schema that is not JSON within the limits for arguments, and one
// with a reference to itself or to another document, or with too many values.
func checkSchema(schema []byte) error {
	d := json.NewDecoder(bytes.NewReader(schema))
	parts := 0
	top, err := readValue(d, 0, &parts)
	if err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("not JSON: something follows the schema")
	}
	b := schemaWalk{top: top, left: maxSchema, within: make(map[string]bool)}
	return b.walk(top)
}

type schemaWalk struct {
	top    any
	left   int
	within map[string]bool // references that are being followed
}

func (b *schemaWalk) walk(value any) error {
	if b.left--; b.left < 0 {
		return fmt.Errorf("more than %d values, with all that it refers to", maxSchema)
	}
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if err := b.walk(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, item := range v {
			text, isText := item.(string)
			var err error
			switch {
			case !isText:
				err = b.walk(item)
			case key == "$ref":
				err = b.follow(text)
			case key == "$id", strings.HasPrefix(key, "$dynamic"), strings.HasPrefix(key, "$recursive"):
				err = fmt.Errorf("%s: parts are referred to as #/$defs/NAME only", key)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// follow walks the part that a reference names.
func (b *schemaWalk) follow(ref string) error {
	if b.within[ref] {
		return fmt.Errorf("$ref %s points to itself", sandbox.Shown(ref))
	}
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil || !strings.HasPrefix(ref, "#") || pointer != "" && pointer[0] != '/' {
		return fmt.Errorf("$ref %s: only #/$defs/NAME can be referred to", sandbox.Shown(ref))
	}
	at := b.top
	if pointer != "" {
		for part := range strings.SplitSeq(pointer[1:], "/") {
			part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
			switch v := at.(type) {
			case map[string]any:
				at = v[part]
			case []any:
				if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(v) {
					at = v[i]
				} else {
					at = nil
				}
			default:
				at = nil
			}
		}
	}
	if at == nil {
		return fmt.Errorf("$ref %s points to nothing", sandbox.Shown(ref))
	}
	b.within[ref] = true
	defer delete(b.within, ref)
	return b.walk(at)
}
