package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// A scene is a real directory with the files of a worker. A sibling directory is outside
// and holds a canary. The approver approves everything.
type scene struct {
	t    *testing.T
	gate tool.Gate
	top  string // proj is mounted at /, out is outside

	mu    sync.Mutex
	asked []tool.Request
	kept  []audit.Record
	// during runs while the prompt is open.
	during func()
}

func newScene(t *testing.T, files map[string]string, more ...sandbox.Mount) *scene {
	t.Helper()
	s := &scene{t: t, top: t.TempDir()}
	for _, dir := range []string{"proj", "out"} {
		check(t, os.Mkdir(s.host(dir), 0o777))
	}
	s.put("out/secret", "CANARY\n")
	for name, content := range files {
		s.put("proj/"+name, content)
	}
	mounts := append([]sandbox.Mount{{Target: "/", Source: sandbox.Host(s.host("proj")), Access: sandbox.ReadWrite}}, more...)
	box, err := sandbox.New(sandbox.Config{Mounts: mounts})
	check(t, err)
	s.over(box)
	return s
}

// over replaces the gate with one for other files.
func (s *scene) over(box *sandbox.Sandbox) {
	s.gate = tool.Gate{Tools: Tools(), Files: box, Approver: s, Journal: s, Workers: []string{"main"},
		Grant: policy.Grant{Files: policy.AllFiles(), Tools: policy.All()}}
}

func (s *scene) Approve(_ context.Context, r tool.Request) tool.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r)
	if s.during != nil {
		s.during()
	}
	return tool.Answer{Verdict: tool.Approved, By: "user", Seen: r.FollowRule()}
}

func (s *scene) Write(r audit.Record, wait audit.Wait) error {
	if wait < r.Least() {
		return errors.New("the journal is not waited for")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, r)
	return nil
}

// do makes a call and encodes its arguments as JSON.
func (s *scene) do(name string, args any) tool.Result {
	s.t.Helper()
	raw, err := json.Marshal(args)
	check(s.t, err)
	r := s.gate.Do(context.Background(), policy.Model, tool.Call{Tool: name, Args: raw})
	if text := r.String() + fmt.Sprint(r.Data); strings.Contains(text, s.top) || strings.Contains(text, "CANARY") {
		s.t.Errorf("%s %s reveals an outside file: %s", name, raw, text)
	}
	return r
}

// must makes a call that must succeed.
func (s *scene) must(name string, args any) tool.Result {
	s.t.Helper()
	r := s.do(name, args)
	if r.Err != nil {
		s.t.Fatalf("%s %v: %v", name, args, r.Err)
	}
	return r
}

// fails makes a call that must fail with a code and an error that contains all words.
func (s *scene) fails(code sandbox.Code, name string, args any, words ...string) {
	s.t.Helper()
	r := s.do(name, args)
	if r.Err == nil || r.Err.Code != code {
		s.t.Errorf("%s %v: %s, want the code %s", name, args, r, code)
		return
	}
	for _, word := range words {
		if !strings.Contains(r.String(), word) {
			s.t.Errorf("%s %v: %s\nwant it to say %q", name, args, r, word)
		}
	}
}

func (s *scene) host(name string) string { return filepath.Join(s.top, filepath.FromSlash(name)) }

func (s *scene) put(name, content string) {
	s.t.Helper()
	check(s.t, os.MkdirAll(filepath.Dir(s.host(name)), 0o777))
	check(s.t, os.WriteFile(s.host(name), []byte(content), 0o666))
}

func (s *scene) link(target, name string) {
	s.t.Helper()
	check(s.t, os.MkdirAll(filepath.Dir(s.host(name)), 0o777))
	check(s.t, os.Symlink(target, s.host(name)))
}

func (s *scene) get(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(s.host(name))
	if err != nil {
		return "(" + errors.Unwrap(err).Error() + ")"
	}
	return string(data)
}

func (s *scene) want(name, content string) {
	s.t.Helper()
	if got := s.get(name); got != content {
		s.t.Errorf("%s: %q, want %q", name, got, content)
	}
}

// tree describes everything below a directory: names, modes, contents and symlink
// targets.
func (s *scene) tree(name string) string {
	s.t.Helper()
	var b strings.Builder
	check(s.t, filepath.WalkDir(s.host(name), func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(s.top, p)
		fmt.Fprintf(&b, "%s %v", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			data, _ := os.ReadFile(p)
			fmt.Fprintf(&b, " %q", data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			fmt.Fprintf(&b, " -> %s", target)
		}
		b.WriteString("\n")
		return nil
	}))
	return b.String()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// args is short for the arguments of a call.
type args = map[string]any

func oneEdit(path, old, new string) args {
	return args{"path": path, "edits": []args{{"old": old, "new": new}}}
}

func encoded(t testing.TB, args any) []byte {
	t.Helper()
	raw, err := json.Marshal(args)
	check(t, err)
	return raw
}
