package tool

import (
	"encoding/json"
	"errors"
	"reflect"
	"unicode/utf8"
)

// ErrNotText is the error for arguments that are not UTF-8.
var ErrNotText = errors.New("the arguments are not UTF-8 text, and golem takes only UTF-8; rename the file, or let a shell find it: golem exec sh -c 'ls b*'")

// Arguments are the arguments of one tool, for the parts of golem that call it themselves.
type Arguments interface {
	ToolName() string
}

// NewCall returns a call with arguments.
func NewCall(a Arguments) (Call, error) {
	data, err := EncodeArguments(a)
	return Call{Tool: a.ToolName(), Args: data}, err
}

// EncodeArguments returns arguments as JSON. It refuses text that is not UTF-8: the encoder
// would replace bytes, and the call would be about another name or content.
func EncodeArguments(values any) ([]byte, error) {
	if !isUTF8(reflect.ValueOf(values)) {
		return nil, ErrNotText
	}
	return json.Marshal(values)
}

// isUTF8 reports whether every string in structs, maps and lists is UTF-8. It does not look
// into JSON, which is checked when it is decoded.
func isUTF8(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Interface:
		return isUTF8(v.Elem())
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Struct:
		for i := range v.NumField() {
			if !isUTF8(v.Field(i)) {
				return false
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if !isUTF8(key) || !isUTF8(v.MapIndex(key)) {
				return false
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if !isUTF8(v.Index(i)) {
				return false
			}
		}
	}
	return true
}
