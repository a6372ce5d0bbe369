package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// FuzzArguments checks that a tool runs with exactly the arguments that a strict JSON
// reader finds, or not at all.
func FuzzArguments(f *testing.F) {
	type entry struct {
		Old string `json:"old"`
		New string `json:"new"`
	}
	type args struct {
		Path  string   `json:"path"`
		N     int      `json:"n,omitempty"`
		Edits []entry  `json:"edits,omitempty"`
		Names []string `json:"names,omitempty"`
		On    bool     `json:"on,omitempty"`
	}
	for _, seed := range []string{`{"path": "/a"}`, `{"path":"/a","n":3,"edits":[{"old":"a","new":"b"}],"names":["x"],"on":true}`, `{"Path":"/a"}`,
		`{"path":"/a","path":"/b"}`, `{"path":"/a","edits":[{"old":"a","OLD":"b","new":""}]}`, `{"path":"\ud800"}`, `{"path":"/a"}x`, `[[[[`, `null`, ``,
		`{"path":"/a","n":1e3}`, `{"path":"/a","n":-9223372036854775808}`, `{"path":"\u0000"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var ran *args
		probe := tool.New(tool.Tool{Name: "probe", Toolset: "filesystem", Mode: policy.Both}, func(_ context.Context, _ tool.Names, a args) (tool.Plan, error) {
			ran = &a
			return tool.NewReadPlan(func(context.Context, *sandbox.Sandbox) (tool.Result, error) { return tool.Result{Text: "ran"}, nil }), nil
		})
		r := newRoom(t, nil, probe)
		got := r.Do(context.Background(), policy.Model, tool.Call{Tool: "probe", Args: raw})
		if got.OK() != (ran != nil) {
			t.Fatalf("got %+v, ran: %v", got, ran)
		}
		if ran == nil {
			if got.Err.Code != "invalid_args" {
				t.Fatalf("got %v, want invalid_args", got.Err)
			}
			return
		}
		// The library's lenient decoder must read the same values: strict decoding
		// refuses texts, but never reads something else.
		var lenient args
		if len(bytes.TrimSpace(raw)) > 0 {
			if err := json.Unmarshal(raw, &lenient); err != nil {
				t.Fatalf("the tool ran with %+v, but its JSON is invalid: %v", ran, err)
			}
		}
		if !reflect.DeepEqual(*ran, lenient) {
			t.Fatalf("the tool ran with %+v, but its JSON is %+v", *ran, lenient)
		}
		var keys map[string]json.RawMessage
		json.Unmarshal(raw, &keys)
		for key := range keys {
			if !strings.Contains(" path n edits names on ", " "+key+" ") {
				t.Fatalf("the tool ran with an unknown key %q", key)
			}
		}
	})
}
