package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/vendortest"
)

// TestProvidersDefaultWorker runs the default worker with the model of each vendor: two calls at
// once, a third one, and the answer. The user's file changes only when the user applies.
func TestProvidersDefaultWorker(t *testing.T) {
	call := func(tool, args string) model.Part { return model.Part{Call: &model.Call{Tool: tool, Args: args}} }
	for _, vendor := range vendortest.Vendors() {
		t.Run(vendor.Name, func(t *testing.T) {
			t.Parallel()
			server := vendor.Start(func(r model.Request) (model.Answer, error) {
				var results []string
				for _, m := range r.Messages {
					for _, p := range m.Parts {
						if p.Result != nil {
							results = append(results, p.Result.Text)
						}
					}
				}
				switch len(results) {
				case 0:
					return model.Answer{Parts: []model.Part{{Text: "I look."}, call("read_file", `{"path":"/greeting.txt"}`), call("list_files", `{"path":"/"}`)}}, nil
				case 2:
					return model.Answer{Parts: []model.Part{call("write_file", `{"path":"/greeting.txt","content":"hello\n"}`)}}, nil
				}
				return model.Answer{Parts: []model.Part{{Text: "Fixed: " + strings.TrimSpace(results[0])}}}, nil
			})
			t.Cleanup(server.Close)
			dir, state, home := t.TempDir(), t.TempDir(), t.TempDir()
			file := filepath.Join(dir, "greeting.txt")
			if err := os.WriteFile(file, []byte("helo\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			golem := func(args ...string) string {
				cmd := exec.Command("golem", args...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state, "HOME="+home, vendor.BaseVar+"="+server.URL)
				if vendor.KeyVar != "" {
					cmd.Env = append(cmd.Env, vendor.KeyVar+"=k")
				}
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("golem %q: %v\n%s", args, err, out)
				}
				return string(out)
			}
			if out := golem("run", "fix the greeting", "--model", vendor.Model); !strings.Contains(out, "Fixed: ") || !strings.Contains(out, "helo") || !strings.Contains(out, "3 calls (3 ok") {
				t.Errorf("got\n%s\nrefused: %q", out, server.Refused())
			}
			if text, _ := os.ReadFile(file); string(text) != "helo\n" {
				t.Errorf("the file has changed: %q", text)
			}
			golem("apply", "--yes")
			if text, _ := os.ReadFile(file); string(text) != "hello\n" {
				t.Errorf("after golem apply: %q", text)
			}
		})
	}
}
