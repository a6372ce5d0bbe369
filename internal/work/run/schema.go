package run

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/golem-forge/golem/internal/files/filecontent"
)

// CheckSchema refuses a schema whose references form a loop over the same value, or leave
// the schema.
func CheckSchema(schema json.RawMessage) error {
	var whole any
	if err := json.Unmarshal(schema, &whole); err != nil {
		return err
	}
	c := schemaCheck{whole: whole, state: make(map[string]int)}
	return c.all("#", whole)
}

// A schemaCheck walks through a schema. A place is a JSON pointer.
type schemaCheck struct {
	whole any
	state map[string]int // by place: 1 in progress, 2 done
}

// all checks every schema in a value.
func (c schemaCheck) all(place string, value any) error {
	switch v := value.(type) {
	case map[string]any:
		if err := c.same(place, v); err != nil {
			return err
		}
		for key, below := range v {
			if key == "const" || key == "enum" || key == "default" || key == "examples" {
				continue // values
			}
			if err := c.all(place+"/"+inPointer.Replace(key), below); err != nil {
				return err
			}
		}
	case []any:
		for i, below := range v {
			if err := c.all(fmt.Sprintf("%s/%d", place, i), below); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	inPointer   = strings.NewReplacer("~", "~0", "/", "~1")
	fromPointer = strings.NewReplacer("~1", "/", "~0", "~")
)

// same follows a schema to the schemas that apply to the same value.
func (c schemaCheck) same(place string, value any) error {
	schema, ok := value.(map[string]any)
	if !ok || c.state[place] == 2 {
		return nil
	}
	if c.state[place] == 1 {
		return fmt.Errorf("%s refers to itself without end", place)
	}
	c.state[place] = 1
	defer func() { c.state[place] = 2 }()
	for _, key := range []string{"$dynamicRef", "$recursiveRef", "$id"} {
		if _, text := schema[key].(string); text && (key != "$id" || place != "#") {
			return fmt.Errorf("%s at %s is not supported; refer by $ref: #/$defs/NAME", key, place)
		}
	}
	if ref, ok := schema["$ref"].(string); ok {
		to, found := c.find(ref)
		if !found {
			return fmt.Errorf("$ref %q at %s points to nothing; refer by $ref: #/$defs/NAME", ref, place)
		}
		if err := c.same(ref, to); err != nil {
			return err
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"} {
		below := map[string]any{}
		switch v := schema[key].(type) {
		case []any:
			for i, each := range v {
				below[fmt.Sprintf("/%d", i)] = each
			}
		case map[string]any:
			below[""] = v
			if strings.HasPrefix(key, "depend") {
				below = map[string]any{}
				for name, each := range v {
					below["/"+inPointer.Replace(name)] = each
				}
			}
		}
		for at, each := range below {
			if err := c.same(place+"/"+key+at, each); err != nil {
				return err
			}
		}
	}
	return nil
}

// find returns the target of a reference.
func (c schemaCheck) find(ref string) (any, bool) {
	keys := strings.Split(ref, "/")
	if keys[0] != "#" {
		return nil, false
	}
	at, ok := c.whole, true
	for _, key := range keys[1:] {
		switch v := at.(type) {
		case map[string]any:
			at, ok = v[fromPointer.Replace(key)]
		case []any:
			n, err := strconv.Atoi(key)
			if ok = err == nil && n >= 0 && n < len(v); ok {
				at = v[n]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return at, true
}

// matchSchema returns the JSON in an answer if it matches the schema. It accepts JSON in a code
// fence, which models like to write.
func matchSchema(text string, schema json.RawMessage) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "```"); ok {
		_, rest, _ = strings.Cut(rest, "\n")
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
	}
	var value any
	if err := filecontent.CheckJSON([]byte(text)); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	if err := resolved.Validate(value); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}
