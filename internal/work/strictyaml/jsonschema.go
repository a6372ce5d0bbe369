package strictyaml

import "encoding/json"

// A jsonSchema is a JSON Schema, draft 2020-12.
type jsonSchema map[string]any

// JSONSchema returns a JSON Schema for the values that Check accepts, as an indented JSON
// document, for editors. It is made from the same keys that Check uses. Values that need
// more than their form, such as a path that must exist, are checked only by golem.
func (k Key) JSONSchema(title string) ([]byte, error) {
	s := k.jsonSchema()
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", title
	data, err := json.MarshalIndent(s, "", "  ")
	return append(data, '\n'), err
}

func (k Key) jsonSchema() jsonSchema {
	forms := k.jsonForms()
	for _, or := range k.Or {
		forms = append(forms, or.jsonForms()...)
	}
	if k.Empty {
		forms = append(forms, jsonSchema{"type": "null"})
	}
	s := forms[0]
	if len(forms) > 1 {
		s = jsonSchema{"anyOf": forms}
	}
	if k.Doc != "" {
		s["description"] = k.Doc
	}
	return s
}

// jsonForms returns the forms that a value of the key may have, without those of Or.
func (k Key) jsonForms() []jsonSchema {
	var forms []jsonSchema
	if len(k.Words) > 0 {
		forms = append(forms, jsonSchema{"enum": k.Words})
	}
	kind := func(types ...string) { forms = append(forms, jsonSchema{"type": types}) }
	switch k.Type {
	case Word:
	case Text:
		kind("string", "number", "boolean")
	case Bool:
		kind("boolean")
	case Whole:
		forms = append(forms, jsonSchema{"type": "integer", "minimum": 0}, jsonSchema{"type": "string", "pattern": `^[1-9][0-9]*(_[0-9]+)+$`})
	case Money:
		forms = append(forms, jsonSchema{"type": "number", "minimum": 0})
	case Count:
		forms = append(forms, jsonSchema{"type": "integer", "minimum": 0}, jsonSchema{"type": "string", "pattern": `^[0-9][0-9_]* ?([KMGT]i?)?B?$`})
	case Span:
		forms = append(forms, jsonSchema{"type": "number", "minimum": 0}, jsonSchema{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`})
	case Texts:
		forms = append(forms, k.jsonList(jsonSchema{"type": []string{"string", "number", "boolean"}}))
	case Group:
		forms = append(forms, k.jsonGroup())
	case Groups:
		item := k.jsonGroup()
		if k.Short != "" {
			item = jsonSchema{"anyOf": []jsonSchema{{"type": []string{"string", "number", "boolean"}}, item}}
		}
		forms = append(forms, k.jsonList(item))
	case Named:
		each := Key{Type: Group, Keys: k.Keys, Empty: true}
		s := jsonSchema{"type": "object", "additionalProperties": each.jsonSchema()}
		if !k.Empty {
			s["minProperties"] = 1
		}
		forms = append(forms, s)
	case Free:
		forms = append(forms, jsonSchema{})
	}
	return forms
}

// jsonList returns the schema of a list.
func (k Key) jsonList(items jsonSchema) jsonSchema {
	s := jsonSchema{"type": "array", "items": items}
	if !k.Empty {
		s["minItems"] = 1
	}
	return s
}

// jsonGroup returns the schema of a map of the keys.
func (k Key) jsonGroup() jsonSchema {
	properties := make(jsonSchema, len(k.Keys))
	for _, key := range k.Keys {
		properties[key.Name] = key.jsonSchema()
	}
	return jsonSchema{"type": "object", "properties": properties, "additionalProperties": false}
}
