package tool

import (
	"fmt"
	"reflect"
	"strings"
)

// inferPlain returns the schema of a type, as jsonschema.ForType does, for structs, lists,
// texts, whole numbers and booleans. Other types are an error. It is for browsers, because
// ForType needs 200 kB of code for the types that tools do not have.
func inferPlain(t reflect.Type) (s *jsonSchema, err error) {
	s = new(jsonSchema)
	switch t.Kind() {
	case reflect.Bool:
		s.Type = "boolean"
	case reflect.Int, reflect.Int64:
		s.Type = "integer"
	case reflect.String:
		s.Type = "string"
	case reflect.Slice:
		s.Types = []string{"null", "array"}
		s.Items, err = inferPlain(t.Elem())
	case reflect.Struct:
		s.Type = "object"
		s.AdditionalProperties = &jsonSchema{Not: &jsonSchema{}}
		err = inferFields(s, t)
	default:
		err = fmt.Errorf("the type %v has no schema in a browser", t)
	}
	return s, err
}

// inferFields adds the fields of a struct to its schema.
func inferFields(s *jsonSchema, t reflect.Type) error {
	s.Properties = map[string]*jsonSchema{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || f.Anonymous {
			return fmt.Errorf("field %s has no JSON name", f.Name)
		}
		p, err := inferPlain(f.Type)
		if err != nil {
			return err
		}
		p.Description = f.Tag.Get("jsonschema")
		s.Properties[name] = p
		s.PropertyOrder = append(s.PropertyOrder, name)
		if options == "" {
			s.Required = append(s.Required, name)
		}
	}
	return nil
}
