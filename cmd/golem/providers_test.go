package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/scripted"
	"github.com/golem-forge/golem/internal/work/model/vendortest"
	"github.com/golem-forge/golem/internal/work/worker"
)

// replyWithScript returns a function that answers with the turns of the program's script. It
// recognises the worker by its prompt.
func replyWithScript(t *testing.T, dir string) func(model.Request) (model.Answer, error) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "demo.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := scripted.New("demo.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	prompts := make(map[string]string) // by worker
	for _, pattern := range []string{"*.worker", "workers/*.worker"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w, err := worker.Parse(filepath.Base(file), data)
			if err != nil {
				t.Fatal(err)
			}
			prompts[w.Name] = strings.TrimSpace(w.Prompt)
		}
	}
	return func(r model.Request) (model.Answer, error) {
		for name, prompt := range prompts {
			if strings.HasPrefix(r.System, prompt) {
				r.Worker = name
			}
		}
		return script.Answer(t.Context(), r, nil)
	}
}

// TestProviders runs every example against the server of each vendor. The results are the
// same, golem sends only the key of that vendor, and the journal has the requests. The
// servers refuse what the vendors refuse.
func TestProviders(t *testing.T) {
	noPDF := map[string]bool{"DeepSeek": true, "Groq": true, "xAI": true, "Ollama": true, "vLLM": true}
	for _, vendor := range vendortest.Vendors() {
		for name, files := range exampleFiles {
			t.Run(vendor.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir, golem := example(t, name)
				server := vendor.Start(replyWithScript(t, dir))
				t.Cleanup(server.Close)
				run := golem("run", ".", "Do it", "--model", vendor.Model, "--approval", "approve_all")
				for _, v := range vendortest.Vendors() {
					if v.KeyVar != "" {
						run.Env = append(run.Env, v.KeyVar+"=k-"+v.KeyVar)
					}
				}
				run.Env = append(run.Env, vendor.BaseVar+"="+server.URL)
				if out, err := golem("trust", "--yes").CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				out, err := run.CombinedOutput()
				if name == "pdf-analyser" && noPDF[vendor.Name] {
					if err == nil || !strings.Contains(string(out), "does not accept the file pump.pdf") && !strings.Contains(string(out), "unknown variant `file`") {
						t.Errorf("%v\n%s", err, out)
					}
					return
				}
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				for file, part := range files {
					text, err := os.ReadFile(filepath.Join(dir, file))
					if err != nil || !strings.Contains(string(text), part) {
						t.Errorf("%s: %v, %q\n%s", file, err, text, out)
					}
				}
				keys := server.Keys()
				requests, err := golem("audit", "show", "--net").CombinedOutput()
				host := regexp.QuoteMeta(strings.TrimPrefix(server.URL, "http://"))
				if lines := regexp.MustCompile(host+` +allowed .*golem \(model\)`).FindAll(requests, -1); err != nil || len(lines) != len(keys) {
					t.Errorf("the journal does not have the %d requests to %s: %v\n%s", len(keys), host, err, requests)
				}
				want := ""
				if vendor.KeyVar != "" {
					want = vendor.Header + ": " + vendor.Scheme + "k-" + vendor.KeyVar
				}
				for _, key := range keys {
					if key != want {
						t.Errorf("the server got the key %q, want %q", key, want)
					}
				}
			})
		}
	}
}
