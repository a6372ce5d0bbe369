//go:build !js

package tool

import (
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// A jsonSchema describes the arguments of a tool.
type jsonSchema = jsonschema.Schema

// A validator checks a value against all that a schema says.
type validator = *jsonschema.Resolved

// newValidator returns the validator of a schema. It checks the defaults of the schema, too.
func newValidator(s *jsonSchema) (validator, error) {
	return s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
}

// infer returns the schema of a type.
func infer(t reflect.Type) (*jsonschema.Schema, error) { return jsonschema.ForType(t, nil) }
