package cli

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// TestSchemasOfExamples validates all project files and worker files of the examples, and
// checks that the schemas refuse a key that no file has.
func TestSchemasOfExamples(t *testing.T) {
	resolved := make(map[string]*jsonschema.Resolved)
	for _, s := range schemas {
		data, err := s.key().JSONSchema(s.title)
		if err != nil {
			t.Fatal(err)
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if resolved[s.name], err = schema.Resolve(nil); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if err := resolved[s.name].Validate(map[string]any{"no_such_key": true}); err == nil {
			t.Errorf("the schema %s accepts an unknown key", s.name)
		}
	}
	count := map[string]int{}
	for _, top := range []string{"../../../examples", "../../work/starter/template"} {
		err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			kind := ""
			switch {
			case strings.HasPrefix(d.Name(), "golem-forge.config.y"):
				kind = "project"
			case strings.HasSuffix(d.Name(), ".worker"):
				kind = "worker"
			default:
				return nil
			}
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text := strings.ReplaceAll(string(data), "{{targets}}\n", "")
			if kind == "worker" {
				_, front, _ := strings.Cut(text, "---\n")
				body := strings.Index(front, "\n---")
				if body < 0 {
					return nil // a worker without a body
				}
				text = front[:body]
			}
			n, problems := strictyaml.Parse(name, []byte(text))
			if len(problems) > 0 {
				t.Errorf("%v", problems)
			}
			if err := resolved[kind].Validate(n.Value()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			count[kind]++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if count["project"] < 5 || count["worker"] < 5 {
		t.Errorf("found only %v files: the test checks too little", count)
	}
	for _, wrong := range []struct{ kind, text string }{
		{"project", "sandbox: {root: [a]}"}, {"project", "sandbox: {mode: rx}"}, {"project", "sandbox: {mounts: []}"}, {"project", "delegation: {max_depth: deep}"},
		{"worker", "toolsets: 5"}, {"worker", "mode: forever"}, {"policy", "network: maybe"}, {"policy", "roots: /home"}, {"policy", "approval: {mode: ask}"}, {"config", "model: [a]"},
	} {
		n, _ := strictyaml.Parse("wrong", []byte(wrong.text))
		if err := resolved[wrong.kind].Validate(n.Value()); err == nil {
			t.Errorf("the schema %s accepts %s", wrong.kind, wrong.text)
		}
	}
}
