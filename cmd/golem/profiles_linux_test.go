package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGoProfile: in the jail, Go uses a module of the user without the network. golem
// reports that the user's module cache is mounted read-only.
func TestGoProfile(t *testing.T) {
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.TrimSpace(string(out))
	const needed = "github.com/spf13/pflag"
	dir := t.TempDir()
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	version := regexp.MustCompile(regexp.QuoteMeta(needed) + ` (v\S+)`).FindStringSubmatch(read("go.mod"))
	if version == nil {
		t.Fatal("go.mod does not require " + needed)
	}
	for name, text := range map[string]string{
		"go.mod":  "module example.com/user\n\ngo 1.24\n\nrequire " + needed + " " + version[1] + "\n",
		"go.sum":  read("go.sum"),
		"main.go": "package main\n\nimport _ \"" + needed + "\"\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("golem", "exec", "--", "go", "list", "-f", "{{.Dir}}", needed)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOLEM_STATE="+t.TempDir(), "HOME="+t.TempDir(), "GOMODCACHE="+modules)
	var told strings.Builder
	cmd.Stderr = &told
	out, err = cmd.Output()
	want := "/home/golem/go/pkg/mod/" + needed + "@" + version[1] + "\n"
	if err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q\n%s", out, err, want, &told)
	}
	if !strings.Contains(told.String(), " at /cache/go-mod (read-only)") {
		t.Errorf("the cache is not named:\n%s", &told)
	}
}
