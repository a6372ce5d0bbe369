package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/sandbox"
)

// Limits on the arguments of a call.
const (
	maxArgs  = 16 << 20
	maxDepth = 32
	maxParts = 100_000 // values and keys
)

// The codes of errors that this package returns.
const (
	errUnknown  = sandbox.Code("unknown_tool")
	errArgs     = sandbox.Code("invalid_args")
	errManual   = sandbox.Code("manual_only")
	errBlocked  = sandbox.Code("blocked")
	errDeclined = sandbox.Code("declined")
	errRefused  = sandbox.Code("hook")
)

func (t Tool) argsError(format string, args ...any) error {
	return &sandbox.Error{Op: t.Name, Code: errArgs, Hint: fmt.Sprintf(format, args...)}
}

// decode reads arguments strictly, once: the same values are shown, decided about and
// run. A key must be spelled as in the schema, must be in the schema, and may occur only
// once. It also returns all arguments by their keys.
func (t Tool) decode(raw []byte, into any) (map[string]any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	if len(raw) > maxArgs {
		return nil, t.argsError("%d bytes of arguments; at most %d are allowed", len(raw), maxArgs)
	}
	if err := filecontent.CheckJSON(raw); err != nil {
		return nil, t.argsError("the arguments: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	parts := 0
	value, err := readValue(d, 0, &parts)
	if err != nil {
		return nil, t.argsError("%v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, t.argsError("something follows the arguments; they are one JSON object")
	}
	shape := t.argSchema()
	if why := findMisfit(shape.schema, "", value); why != "" {
		return nil, t.argsError("%s", why)
	}
	if !shape.plain {
		if err := shape.exact.Validate(value); err != nil {
			return nil, t.argsError("%v", err)
		}
	}
	// Decode the defaults first, and the arguments over them. Decode from the original
	// text, so that no number passes through a float.
	if len(shape.defaults) > 0 {
		if err := json.Unmarshal(shape.defaults, into); err != nil {
			return nil, t.argsError("the defaults do not fit: %v", err)
		}
	}
	err = json.Unmarshal(raw, into)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return nil, t.argsError("%s: write a whole number in digits, up to %d", argumentName(kind.Field), math.MaxInt32)
	}
	if err != nil {
		return nil, t.argsError("%v", err)
	}
	all := value.(map[string]any) // the schema of arguments is always an object
	for key, value := range shape.filled {
		if _, given := all[key]; !given {
			all[key] = value
		}
	}
	return all, nil
}

// readValue reads one value. It refuses duplicate keys, and more levels or values than
// the limits allow.
func readValue(d *json.Decoder, depth int, parts *int) (value any, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels deep", maxDepth)
	}
	if *parts++; *parts > maxParts {
		return nil, fmt.Errorf("more than %d values", maxParts)
	}
	token, err := d.Token()
	if err != nil {
		return nil, notJSON(err)
	}
	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, notJSON(err)
			}
			name := key.(string)
			if _, seen := object[name]; seen {
				return nil, fmt.Errorf("%s appears twice", sandbox.Shown(name))
			}
			if object[name], err = readValue(d, depth+1, parts); err != nil {
				return nil, err
			}
		}
		value = object
	case json.Delim('['):
		list := []any{}
		for d.More() {
			item, err := readValue(d, depth+1, parts)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		value = list
	default:
		return token, nil
	}
	if _, err := d.Token(); err != nil {
		return nil, notJSON(err)
	}
	return value, nil
}

func notJSON(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON: %v, at byte %d", err, syntax.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("not JSON: it ends too early")
	}
	return fmt.Errorf("not JSON: %v", err)
}

// findMisfit says in plain words where a value does not match its schema, "" if it finds
// nothing. If the schema is not plain, the validator checks the rest.
func findMisfit(s *jsonSchema, at string, value any) string {
	switch v := value.(type) {
	case map[string]any:
		if s.Type != "object" {
			break
		}
		return findObjectMisfit(s, at, v)
	case []any:
		if s.Type != "array" || s.Items == nil {
			break
		}
		for i, item := range v {
			if why := findMisfit(s.Items, fmt.Sprintf("%s[%d]", at, i), item); why != "" {
				return why
			}
		}
		return ""
	}
	if got := kindOf(value); s.Type != "" && got != s.Type && !(got == "integer" && s.Type == "number") {
		return fmt.Sprintf("%s: want %s, got %s", argumentName(at), addArticle(s.Type), addArticle(got))
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(word any) bool { return reflect.DeepEqual(word, value) }) {
		return fmt.Sprintf("%s: want one of %s", argumentName(at), joinWords(s.Enum))
	}
	if n, ok := value.(float64); ok && s.Minimum != nil && n < *s.Minimum {
		return fmt.Sprintf("%s: want at least %v, got %v", argumentName(at), *s.Minimum, n)
	}
	return ""
}

// isPlain reports whether findMisfit checks everything that a schema says.
func isPlain(s *jsonSchema) bool {
	if s.Type == "" || len(s.Enum) > 0 && (s.Type == "object" || s.Type == "array") {
		return false
	}
	rest := *s
	rest.Type, rest.Description, rest.Default, rest.Enum, rest.Minimum = "", "", nil, nil, nil
	rest.Properties, rest.PropertyOrder, rest.Required, rest.Items = nil, nil, nil, nil
	if rest.AdditionalProperties != nil && reflect.DeepEqual(rest.AdditionalProperties, &jsonSchema{Not: &jsonSchema{}}) {
		rest.AdditionalProperties = nil
	}
	if !reflect.DeepEqual(rest, jsonSchema{}) || s.Items != nil && !isPlain(s.Items) {
		return false
	}
	for _, p := range s.Properties {
		if !isPlain(p) {
			return false
		}
	}
	return true
}

func findObjectMisfit(s *jsonSchema, at string, v map[string]any) string {
	var known []string
	for key := range s.Properties {
		known = append(known, key)
	}
	slices.Sort(known)
	keys := make([]string, 0, len(v))
	for key := range v {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil {
		for _, key := range keys {
			if s.Properties[key] == nil {
				return fmt.Sprintf("unknown argument %s; %s", sandbox.Shown(joinKey(at, key)), listArguments(key, known))
			}
		}
	}
	for _, key := range s.Required {
		if _, ok := v[key]; !ok {
			return fmt.Sprintf("%s is missing; %s", joinKey(at, key), listArguments("", known))
		}
	}
	for _, key := range keys {
		if p := s.Properties[key]; p != nil {
			if why := findMisfit(p, joinKey(at, key), v[key]); why != "" {
				return why
			}
		}
	}
	return ""
}

func joinKey(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

func argumentName(at string) string {
	if at == "" {
		return "the arguments"
	}
	return sandbox.Shown(at)
}

// listArguments returns a hint with the arguments of the tool, and the one nearest to
// key.
func listArguments(key string, known []string) string {
	if near := sandbox.Nearest(key, known); key != "" && len(near) > 0 {
		return "did you mean " + near[0] + "? it takes " + strings.Join(known, ", ")
	}
	if len(known) == 0 {
		return "it takes none"
	}
	return "it takes " + strings.Join(known, ", ")
}

func kindOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	}
	return "object"
}

func addArticle(kind string) string {
	switch kind {
	case "null":
		return kind
	case "integer", "array", "object":
		return "an " + kind
	}
	return "a " + kind
}

func joinWords(list []any) string {
	var all []string
	for _, word := range list {
		all = append(all, fmt.Sprint(word))
	}
	return strings.Join(all, ", ")
}

// fillArguments returns the arguments that a plan has filled in.
func fillArguments(args any) (all arguments, err error) {
	text, err := json.Marshal(args)
	if err == nil {
		err = json.Unmarshal(text, &all.keys)
	}
	all.typed = args
	return all, err
}
