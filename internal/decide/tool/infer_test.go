package tool

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// TestInferPlain checks that a tool has the same schema in a browser.
func TestInferPlain(t *testing.T) {
	type edit struct {
		Old string `json:"old" jsonschema:"text to replace"`
		All bool   `json:"all,omitempty"`
	}
	type arguments struct {
		Path  string   `json:"path" jsonschema:"the file"`
		Edits []edit   `json:"edits"`
		Names []string `json:"names,omitempty" jsonschema:"more"`
		N     int      `json:"n,omitempty"`
		Depth int64    `json:"depth,omitempty"`
	}
	type withFloat struct {
		F float64 `json:"f"`
	}
	type unnamed struct{ A string }
	want, err := jsonschema.ForType(reflect.TypeFor[arguments](), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := inferPlain(reflect.TypeFor[arguments]())
	if err != nil {
		t.Fatal(err)
	}
	gotText, _ := json.Marshal(got)
	wantText, _ := json.Marshal(want)
	if string(gotText) != string(wantText) {
		t.Errorf("got  %s\nwant %s", gotText, wantText)
	}
	for _, wrong := range []reflect.Type{reflect.TypeFor[withFloat](), reflect.TypeFor[unnamed](), reflect.TypeFor[map[string]string](), reflect.TypeFor[*string]()} {
		if _, err := inferPlain(wrong); err == nil {
			t.Errorf("%v: it has a schema", wrong)
		}
	}
}
