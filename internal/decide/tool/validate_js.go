package tool

import (
	"encoding/json"
	"errors"
	"reflect"
)

// A jsonSchema describes the arguments of a tool. It has the fields of jsonschema.Schema that
// inferPlain needs: that package would make the program for browsers too large.
type jsonSchema struct {
	Type                 string                 `json:"type,omitempty"`
	Types                []string               `json:"-"` // refine replaces it
	Description          string                 `json:"description,omitempty"`
	Default              json.RawMessage        `json:"default,omitempty"`
	Enum                 []any                  `json:"enum,omitempty"`
	Minimum              *float64               `json:"minimum,omitempty"`
	Items                *jsonSchema            `json:"items,omitempty"`
	Properties           map[string]*jsonSchema `json:"properties,omitempty"`
	PropertyOrder        []string               `json:"-"`
	Required             []string               `json:"required,omitempty"`
	AdditionalProperties *jsonSchema            `json:"additionalProperties,omitempty"`
	Not                  *jsonSchema            `json:"-"`
}

// MarshalJSON writes the schema that nothing matches as false.
func (s *jsonSchema) MarshalJSON() ([]byte, error) {
	if s.Not != nil {
		return []byte("false"), nil
	}
	type plain jsonSchema
	return json.Marshal((*plain)(s))
}

// A validator refuses every value.
type validator struct{}

// newValidator refuses a schema that needs more than findMisfit.
func newValidator(s *jsonSchema) (validator, error) {
	if !isPlain(s) {
		return validator{}, errors.New("the schema says more than golem can check in a browser")
	}
	return validator{}, nil
}

// Validate implements the validator of other systems.
func (validator) Validate(any) error { return errors.New("golem cannot check it in a browser") }

// infer returns the schema of a type.
func infer(t reflect.Type) (*jsonSchema, error) { return inferPlain(t) }
