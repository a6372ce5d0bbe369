package scanners

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/work/project"
)

func TestMain(m *testing.M) {
	if code, is := changes.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestExternal runs the scanners of a project in the jail. They see the content, and not the
// user's files.
func TestExternal(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	for name, text := range map[string]string{"secret": "hunter2", "own.yar": `rule own_mark { strings: $a = "some BAD" condition: $a }`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct{ command, want string }{ // want is a part of its finding, "" for none
		"finds":   {`grep -q BAD && { echo found BAD; exit 1; }; exit 0`, "found BAD"},
		"clean":   {`cat > /dev/null; exit 0`, ""},
		"missing": {`exec there-is-no-such-program`, "not on this machine"},
		"reads":   {`cat ` + secret + ` && exit 1; exit 0`, ""},
		"beside":  {`cat ` + jail.Tools + `/*/* && exit 1; exit 0`, ""},
		"killed":  {`kill -9 $$`, "signal"},
	}
	file := "sandbox: {root: .}\nclearance:\n  scanners: [size]\n  malware: {yara: [" + filepath.Join(dir, "own.yar") + "]}\n  external:\n"
	for name, test := range tests {
		file += fmt.Sprintf("    %s: {command: [sh, -c, %q]}\n", name, test.command)
	}
	p, err := project.Parse(t.TempDir(), project.File, []byte(file), project.Env{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Project: p, Budget: scan.NewBudget(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	v := s.Scan(t.Context(), scan.Content{Path: "a.txt", Size: 14, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("some BAD text\n")), nil }})
	found := make(map[string]string)
	for _, f := range v.Findings {
		found[f.Scanner] += f.What
	}
	for name, test := range tests {
		if got := found[name]; (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	if got := found["yara"]; got != "rule own_mark" && !strings.Contains(got, "not on this machine") {
		t.Errorf("yara: got %q", got)
	}
	if !v.Held {
		t.Error("the content is not held")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestRequiredLevel checks that external scanners run at the level that the project requires.
func TestRequiredLevel(t *testing.T) {
	tests := map[string]jail.Level{
		"false": jail.Landlock, "true": jail.Landlock, "landlock": jail.Landlock,
		"namespaces": jail.Namespaces, "container": jail.Container,
	}
	for value, want := range tests {
		file := "sandbox: {root: ., require_os_sandbox: " + value + "}\nclearance: {scanners: [size]}\n"
		p, err := project.Parse(t.TempDir(), project.File, []byte(file), project.Env{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(Options{Project: p, Budget: scan.NewBudget(), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if s.policy.Least != want {
			t.Errorf("%s: got the level %v, want %v", value, s.policy.Least, want)
		}
		p.Level = "a level of a later version"
		if got := p.Jail().Least; got != jail.Container {
			t.Errorf("an unknown level: got %v, want container", got)
		}
	}
}
