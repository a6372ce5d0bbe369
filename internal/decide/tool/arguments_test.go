package tool

import (
	"errors"
	"testing"
)

type testArgs struct {
	Paths []string         `json:"paths,omitempty"`
	Parts []map[string]any `json:"parts,omitempty"`
}

func (testArgs) ToolName() string { return "put" }

// TestNewCall checks that a call has its arguments as JSON, and that text which is not
// UTF-8 is refused wherever it stands.
func TestNewCall(t *testing.T) {
	c, err := NewCall(testArgs{Paths: []string{"/a"}})
	if err != nil || c.Tool != "put" || string(c.Args) != `{"paths":["/a"]}` {
		t.Errorf("got %s %s, %v", c.Tool, c.Args, err)
	}
	for _, a := range []testArgs{{Paths: []string{"/a", "/\xff"}}, {Parts: []map[string]any{{"patch": "\xff"}}}, {Parts: []map[string]any{{"\xff": 1}}}} {
		if _, err := NewCall(a); !errors.Is(err, ErrNotText) {
			t.Errorf("%q: got %v", a, err)
		}
	}
}
