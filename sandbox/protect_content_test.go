package sandbox_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// TestProtectContent checks that a rule protects content in every way to write a file, at the
// names of the rule in every spelling, and nowhere else.
func TestProtectContent(t *testing.T) {
	const evil, harmless = "x\nkey: 1\n", "x\n"
	s, err := sandbox.New(sandbox.Config{
		Mounts: []sandbox.Mount{{Target: "/", Access: sandbox.ReadWrite, Backend: sandbox.NewMemory(nil)},
			{Target: "/other", Access: sandbox.ReadWrite, Backend: sandbox.NewMemory(nil)}},
		ProtectContent: sandbox.ContentRule{Name: "a rule", Names: []string{"/w/*.y*ml", "/w/*/in.yml"}, Links: []string{"/w"},
			Matches: func(content []byte) bool { return bytes.Contains(content, []byte("key:")) }}})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		if _, err := s.Write(name, []byte(content)); err != nil {
			t.Fatal(name, err)
		}
	}
	write("/evil", evil)
	write("/d/in.yml", evil)
	write("/whole/d/in.yml", evil)
	write("/other/evil", evil)
	write("/w/old.yml", harmless)
	write("/w/x.txt", evil)
	write("/w/deep/er/in.yml", evil)
	write("/v/a.yml", evil)
	_, version, err := s.ReadVersion("/w/old.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name, act := range map[string]func() error{
		"write":                    func() error { _, err := s.Write("/w/a.yml", []byte(evil)); return err },
		"write in another case":    func() error { _, err := s.Write("/W/A.YAML", []byte(evil)); return err },
		"write in a directory":     func() error { _, err := s.Write("/w/d/in.yml", []byte(evil)); return err },
		"new":                      func() error { _, err := s.WriteNew("/w/a.yml", []byte(evil)); return err },
		"a program":                func() error { _, err := s.WriteProgram("/w/a.yml", []byte(evil)); return err },
		"if":                       func() error { _, err := s.WriteIf("/w/old.yml", []byte(evil), version); return err },
		"copy":                     func() error { _, err := s.Copy("/evil", "/w/a.yml"); return err },
		"move":                     func() error { return s.Move("/evil", "/w/a.yml") },
		"move a directory":         func() error { return s.Move("/d", "/w/d") },
		"move between mounts":      func() error { return s.Move("/other/evil", "/w/a.yml") },
		"move the place itself":    func() error { return s.Move("/w/x.txt", "/w/x.yml") },
		"long content":             func() error { _, err := s.Write("/w/a.yml", append([]byte(evil), make([]byte, 2<<20)...)); return err },
		"an invisible character":   func() error { _, err := s.Write("/w/a.y\u200cml", []byte(evil)); return err },
		"a stream of Windows":      func() error { _, err := s.Write("/w/a.yml::$DATA", []byte(evil)); return err },
		"a dot that Windows drops": func() error { _, err := s.Write("/w/a.yml.", []byte(evil)); return err },
	} {
		if err := act(); sandbox.CodeOf(err) != sandbox.ErrProtected {
			t.Errorf("%s: got %v, want protected", name, err)
		}
	}
	write("/w/a.yml", harmless)
	if err := s.Move("/v/a.yml", "/v/b.yml"); err != nil {
		t.Error(err)
	}
	open := func(text string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte(text))), nil }
	}
	if got := s.ProtectedContent("/w/n.yml", open(evil)); got != "a rule" {
		t.Errorf("protected content: got %q", got)
	}
	if got := s.ProtectedContent("/w/n.yml", func() (io.ReadCloser, error) { return nil, io.EOF }); got != "a rule" {
		t.Errorf("content that cannot be read: got %q", got)
	}
	if got := s.ProtectedContent("/w/n.yml", open(harmless)) + s.ProtectedContent("/v/n.yml", open(evil)) + s.ProtectedContent("/v", nil); got != "" {
		t.Errorf("harmless content: got %q", got)
	}
	if got := s.ProtectedContent("/W", nil); got != "a rule" {
		t.Errorf("a symlink: got %q", got)
	}
	again, err := sandbox.New(s.Config())
	if err != nil || again.ProtectedContent("/w", nil) == "" {
		t.Error("a sandbox with the same configuration lacks the rule", err)
	}
}
