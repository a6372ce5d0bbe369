package export

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// A scene is a gate with a user who may do something before the approval.
type scene struct {
	*testing.T
	gate    tool.Gate
	dir     string // directory of the files
	before  func() // the approval
	asked   []tool.Request
	journal []audit.Record
	copied  string

	mu       sync.Mutex
	received []*http.Request
	bodies   []string
}

const token = "canary-4711-token"

func (s *scene) Approve(_ context.Context, r tool.Request) tool.Answer {
	s.asked = append(s.asked, r)
	if s.before != nil {
		s.before()
	}
	return tool.Answer{Verdict: tool.Approved, By: "user", Seen: r.FollowRule()}
}

func (s *scene) Write(r audit.Record, wait audit.Wait) error {
	if wait < r.Least() {
		return errors.New("the journal is not waited for")
	}
	s.journal = append(s.journal, r)
	return nil
}

// newScene returns a scene with files, and a service that answers.
func newScene(t *testing.T, files map[string]string, answer http.HandlerFunc) (*scene, *Set) {
	s := &scene{T: t, dir: t.TempDir()}
	for name, content := range files {
		s.put(name, content)
	}
	box, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Source: sandbox.Host(s.dir), Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.received, s.bodies = append(s.received, r), append(s.bodies, string(body))
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	set := &Set{
		Locate: func(to string) (sandbox.Host, error) { return sandbox.Host(to), nil },
		Own:    []sandbox.Host{sandbox.Host(s.dir)},
		Copy:   func(_ context.Context, text string) (string, error) { s.copied = text; return "by hand", nil },
		Endpoints: []Endpoint{{Name: "tracker", URL: server.URL + "/notes", Method: "POST", Type: "application/json",
			Headers: []Header{{Name: "Authorization", Shown: "Bearer (from TOKEN)", Value: "Bearer " + token}}}},
		Client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	s.gate = tool.Gate{Files: box, Approver: s, Journal: s, Workers: []string{"main"}, Grant: policy.Grant{Files: policy.AllFiles(), Tools: policy.All()}}
	return s, set
}

func (s *scene) put(name, content string) {
	s.Helper()
	file := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		s.Fatal(err)
	}
}

// call makes a call as the user. It checks that no token is in the result.
func (s *scene) call(set *Set, name string, args any) tool.Result {
	s.Helper()
	s.gate.Tools = set.Tools()
	text, err := json.Marshal(args)
	if err != nil {
		s.Fatal(err)
	}
	r := s.gate.Do(s.Context(), policy.User, tool.Call{Tool: name, Args: text})
	all, err := json.Marshal([]any{r, s.journal, s.asked})
	if err != nil {
		s.Fatal(err)
	}
	if strings.Contains(string(all)+r.String(), token) {
		s.Errorf("%s: a secret is told: %s", name, all)
	}
	return r
}

type args map[string]any

// TestSend checks what a service gets, and the errors.
func TestSend(t *testing.T) {
	for _, test := range []struct {
		name, content string
		answer        http.HandlerFunc
		code, want    string
	}{
		{"done", `{"a": 1}`, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, "made \x1b[2J")
		},
			"", `8 bytes of /a.json were sent to tracker, which answered 201 Created:` + "\n" + `made \x1b[2J`},
		{"refused", `{}`, func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no: "+r.Header.Get("Authorization"), http.StatusForbidden)
		}, "network", "no: [a secret of the user's]"},
		{"elsewhere", `{}`, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://elsewhere.invalid/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "network", "it redirects to another address"},
		{"endless", `{}`, func(w http.ResponseWriter, _ *http.Request) { w.Write(bytes.Repeat([]byte("x"), 1<<20)) }, "", "longer than the part that is shown"},
		{"cut off", `{}`, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "network", "golem does not know whether it arrived"},
		{"compressed", `{}`, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			io.WriteString(packed, "the key is "+r.Header.Get("Authorization")+strings.Repeat("\x00", 50<<20))
			packed.Close()
		}, "", "golem does not show the answer: the service compressed it (gzip)"},
		{"no JSON", `hello`, nil, "invalid", "takes application/json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, set := newScene(t, map[string]string{"a.json": test.content}, test.answer)
			r := s.call(set, "api_send", args{"endpoint": "tracker", "path": "/a.json"})
			code := ""
			if r.Err != nil {
				code = string(r.Err.Code)
			}
			if code != test.code || !strings.Contains(r.String(), test.want) || len(r.String()) > 100_000 {
				t.Errorf("got %s %.500s, want %s %s", code, r, test.code, test.want)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			sent := 1
			if test.answer == nil {
				sent = 0
			}
			if len(s.received) != sent || sent == 1 && (s.bodies[0] != test.content || s.received[0].Header.Get("Authorization") != "Bearer "+token || s.received[0].Header.Get("Content-Type") != "application/json") {
				t.Errorf("the service got %q", s.bodies)
			}
		})
	}
}

// TestSendByModel: a model sends only to services that are for models, only with the
// toolset, and always with the approval of the exact body. It cannot override a scanner.
func TestSendByModel(t *testing.T) {
	s, set := newScene(t, map[string]string{"a.json": `{"a": 1}`, "key.json": `{}`}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "made") })
	manual := set.Endpoints[0]
	manual.Name = "private"
	set.Endpoints = append(set.Endpoints, manual)
	call := func(name, endpoint string, origin policy.Origin, more args) tool.Result {
		s.gate.Tools = set.Tools()
		all := args{"endpoint": endpoint, "path": "/a.json"}
		for key, value := range more {
			all[key] = value
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return s.gate.Do(t.Context(), origin, tool.Call{Tool: name, Args: text})
	}
	refused := func(want sandbox.Code, endpoint string, more args) {
		t.Helper()
		for _, origin := range []policy.Origin{policy.Model, policy.Peer} {
			if r := call("api_send", endpoint, origin, more); r.OK() || r.Err.Code != want {
				t.Errorf("%s by the %s: got %v, want %s", endpoint, origin, r, want)
			}
		}
		if len(s.asked) != 0 || len(s.received) != 0 {
			t.Errorf("%s: asked %d times, sent %d times", endpoint, len(s.asked), len(s.received))
		}
	}
	refused("manual_only", "tracker", nil) // no service is for models yet

	set.Endpoints[0].ForModels = true
	refused("manual_only", "private", nil)
	refused(sandbox.ErrNotFound, "elsewhere", nil)
	refused("manual_only", "tracker", args{"override": []string{"/a.json=because"}})
	s.gate.Grant.Tools = policy.SetOf("filesystem")
	refused("unknown_tool", "tracker", nil)
	if r := call("api_send", "private", policy.User, nil); !r.OK() {
		t.Errorf("the user: got %v", r)
	}

	s.gate.Grant.Tools = policy.SetOf("clearance")
	s.asked, s.received, s.bodies = nil, nil, nil
	s.gate.Grant.Approvals = s.gate.Grant.Approvals.With(policy.Rule{Verb: policy.Use, Target: "api_send", Approval: policy.PreApproved})
	if r := call("api_send", "tracker", policy.Model, nil); !r.OK() || !strings.Contains(r.String(), "made") {
		t.Errorf("got %v", r)
	}
	if len(s.asked) != 1 || !s.asked[0].OnlyUser || len(s.bodies) != 1 || s.bodies[0] != `{"a": 1}` || !strings.Contains(s.asked[0].Changes[0].Diff, `{"a": 1}`) {
		t.Errorf("asked %+v, sent %q", s.asked, s.bodies)
	}
	// A body that changes after it was shown is not sent.
	s.before = func() { s.put("a.json", `{"a": 2}`) }
	if r := call("api_send", "tracker", policy.Model, nil); r.OK() || r.Err.Code != sandbox.ErrConflict || len(s.bodies) != 1 {
		t.Errorf("changed: got %v, sent %q", r, s.bodies)
	}
	for _, name := range []string{"file_export", "clipboard_copy"} {
		if i := slices.IndexFunc(s.gate.Tools, func(t tool.Tool) bool { return t.Name == name }); s.gate.Tools[i].Mode != policy.Manual {
			t.Errorf("%s is for models", name)
		}
	}
}

// TestSendLarge checks the limit on the size of a request.
func TestSendLarge(t *testing.T) {
	large := `"` + strings.Repeat("x", 3<<20) + `"`
	s, set := newScene(t, map[string]string{"a.json": large, "b.json": `"` + strings.Repeat("x", maxBody) + `"`}, func(http.ResponseWriter, *http.Request) {})
	if r := s.call(set, "api_send", args{"endpoint": "tracker", "path": "/a.json"}); !r.OK() || s.bodies[0] != large {
		t.Errorf("3 MB: got %v", r)
	}
	if r := s.call(set, "api_send", args{"endpoint": "tracker", "path": "/b.json"}); r.OK() || r.Err.Code != sandbox.ErrTooLarge {
		t.Errorf("over the limit: got %v", r)
	}
	if r := s.call(set, "api_send", args{"endpoint": "other", "path": "/a.json"}); r.OK() || r.Err.Code != sandbox.ErrNotFound {
		t.Errorf("another endpoint: got %v", r)
	}
}

// TestChangedMeanwhile checks that only what was shown leaves, whatever happens between
// the prompt and the approval.
func TestChangedMeanwhile(t *testing.T) {
	for _, name := range []string{"api_send", "clipboard_copy", "file_export"} {
		s, set := newScene(t, map[string]string{"a.json": `{"a": 1}`, "b.json": `{}`}, func(http.ResponseWriter, *http.Request) {})
		to := filepath.Join(t.TempDir(), "new")
		s.before = func() { s.put("a.json", `{"a": 2}`) }
		call := map[string]args{
			"api_send": {"endpoint": "tracker", "path": "/a.json"}, "clipboard_copy": {"path": "/a.json"}, "file_export": {"paths": []string{"/b.json", "/a.json"}, "to": to},
		}[name]
		r := s.call(set, name, call)
		if r.OK() || r.Err.Code != sandbox.ErrConflict || len(s.asked) != 1 || !strings.Contains(s.asked[0].Changes[len(s.asked[0].Changes)-1].Diff, `+{"a": 1}`) {
			t.Errorf("%s: got %v, asked %v", name, r, s.asked)
		}
		if len(s.received) > 0 || s.copied != "" {
			t.Errorf("%s: the content was sent", name)
		}
		if _, err := os.Lstat(to); err == nil {
			t.Errorf("%s: the target file exists", name)
		}
	}
}

// TestClipboard checks what is copied, and the errors.
func TestClipboard(t *testing.T) {
	s, set := newScene(t, map[string]string{"a": "x\u202ey\n", "b": "\x00", "c": "\xff", "d": strings.Repeat("x", MaxClipboard+1)}, nil)
	if r := s.call(set, "clipboard_copy", args{"path": "/a"}); !r.OK() || s.copied != "x\u202ey\n" || !strings.Contains(r.Text, "6 bytes of /a are in the clipboard (by hand)") {
		t.Errorf("got %v, copied %q", r, s.copied)
	}
	if warned := s.asked[0].Warnings; len(warned) != 1 || !strings.HasPrefix(warned[0], "/a:1: bidi: U+202E right-to-left override") {
		t.Errorf("warned of %q", warned)
	}
	s.put("empty", "")
	if r := s.call(set, "clipboard_copy", args{"path": "/empty"}); !r.OK() || s.copied != "" {
		t.Errorf("got %v, copied %q", r, s.copied)
	}
	for _, name := range []string{"/b", "/c", "/d"} {
		if r := s.call(set, "clipboard_copy", args{"path": name}); r.OK() || r.Err.Code != sandbox.ErrInvalid {
			t.Errorf("%s: got %v", name, r)
		}
	}
}

// TestRiskiestFirst checks that the riskiest warning comes first, however many files
// there are.
func TestRiskiestFirst(t *testing.T) {
	files := map[string]string{"z.txt": "x\u202ey\n"}
	for i := range 2 * maxWarnings {
		files[fmt.Sprintf("a%02d/Makefile", i)] = "all:\n"
	}
	s, set := newScene(t, files, nil)
	if r := s.call(set, "file_export", args{"path": "/", "to": t.TempDir()}); !r.OK() {
		t.Fatal(r)
	}
	warned := s.asked[0].Warnings
	if len(warned) != maxWarnings+1 || s.asked[0].MoreWarnings != maxWarnings+1 || !slices.Contains(s.asked[0].Omitted(), tool.ItemMore) || !slices.ContainsFunc(warned, func(w string) bool { return strings.HasPrefix(w, "/z.txt:1: bidi: ") }) {
		t.Errorf("warned of %q", warned)
	}
}

// TestNotShown checks that an export says for each file whether the request carries its
// content, and why not.
func TestNotShown(t *testing.T) {
	files := map[string]string{"binary": "a\x00b", "large": strings.Repeat("x\n", maxText), "z": "last\n", "empty": ""}
	for i := range 1 + maxShown/(maxText/2) {
		files[fmt.Sprintf("m%d", i)] = strings.Repeat("x\n", maxText/4)
	}
	s, set := newScene(t, files, nil)
	if r := s.call(set, "file_export", args{"path": "/", "to": t.TempDir()}); !r.OK() {
		t.Fatal(r)
	}
	about := make(map[string]string)
	for _, c := range s.asked[0].Changes {
		about[c.Path] = c.Omitted
		if (c.Omitted == "") != (c.Diff != "" || c.Path == "/empty") {
			t.Errorf("%s: omitted is %q, with a diff of %d bytes", c.Path, c.Omitted, len(c.Diff))
		}
	}
	for name, want := range map[string]string{"/binary": "binary", "/large": "too large to show", "/z": "there is too much"} {
		if !strings.Contains(about[name], want) {
			t.Errorf("%s: got %q, want %q", name, about[name], want)
		}
	}
}

// TestFolderMeanwhile checks that an export does not replace a file that appears in the
// directory before the approval.
func TestFolderMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		overwrite bool
		before    func(to string) error
		want      sandbox.Code
	}{
		"appeared":          {false, func(to string) error { return os.WriteFile(filepath.Join(to, "a"), []byte("mine"), 0o644) }, sandbox.ErrConflict},
		"appeared anyway":   {true, func(to string) error { return os.WriteFile(filepath.Join(to, "a"), []byte("mine"), 0o644) }, sandbox.ErrConflict},
		"a link":            {false, func(to string) error { return os.Symlink("/etc/passwd", filepath.Join(to, "a")) }, sandbox.ErrExists},
		"a link in the way": {false, func(to string) error { return os.Symlink(t.TempDir(), filepath.Join(to, "sub")) }, sandbox.ErrNotDir},
		"nothing":           {false, func(string) error { return nil }, ""},
	} {
		s, set := newScene(t, map[string]string{"a": "new", "sub/b": "b"}, nil)
		to := t.TempDir()
		s.before = func() {
			if err := test.before(to); err != nil {
				t.Fatal(err)
			}
		}
		r := s.call(set, "file_export", args{"paths": []string{"/a", "/sub"}, "to": to, "overwrite": test.overwrite})
		code := sandbox.Code("")
		if r.Err != nil {
			code = r.Err.Code
		}
		if code != test.want {
			t.Errorf("%s: got %v, want %s", name, r, test.want)
		}
		if left, _ := filepath.Glob(filepath.Join(to, ".golem-export-*")); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
		if got, _ := os.ReadFile(filepath.Join(to, "a")); strings.HasPrefix(name, "appeared") && string(got) != "mine" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestReplacedMode checks that the new file has no more read permissions for others than
// the file it replaces.
func TestReplacedMode(t *testing.T) {
	s, set := newScene(t, map[string]string{"a": "new"}, nil)
	to := t.TempDir()
	if err := os.WriteFile(filepath.Join(to, "a"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.call(set, "file_export", args{"path": "/a", "to": to, "overwrite": true}); r.Err != nil {
		t.Fatal(r.Err)
	}
	info, err := os.Stat(filepath.Join(to, "a"))
	if err != nil || info.Size() != 3 || info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		t.Errorf("got %v, %v", info, err)
	}
}

// TestAboveOwn checks that an export into a directory refuses files that would go into one
// below it that workers see.
func TestAboveOwn(t *testing.T) {
	s, set := newScene(t, map[string]string{"x/b": "b"}, nil)
	if err := os.Mkdir(filepath.Join(s.dir, "own"), 0o755); err != nil {
		t.Fatal(err)
	}
	set.Own = []sandbox.Host{sandbox.Host(filepath.Join(s.dir, "own")), sandbox.Host(filepath.Join(s.dir, "missing"))}
	for _, name := range []string{"own", "missing"} {
		s.put(filepath.Join("from", name, "b"), "b")
		if r := s.call(set, "file_export", args{"path": "/from/" + name, "to": s.dir}); r.OK() || r.Err.Code != sandbox.ErrOutside {
			t.Errorf("%s: got %v", name, r)
		}
	}
}

// TestScan checks that golem does not ask for approval of files that scanners hold back,
// and that such a file passes only with a reason.
func TestScan(t *testing.T) {
	eicar := `X5O!P%@AP[4\PZX54(P^)7CC)7}` + `$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*`
	s, set := newScene(t, map[string]string{"a.txt": eicar, "b.txt": "x"}, nil)
	scanners, err := scan.New(scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set.Scanners = func() (*scan.Set, error) { return scanners, nil }
	for _, test := range []struct {
		path     string
		override []string
		want     sandbox.Code
	}{
		{"/a.txt", nil, "scan"},
		{"/a.txt", []string{"/a.txt="}, "invalid_args"},
		{"/a.txt", []string{"/b.txt=why not"}, "invalid_args"},
		{"/a.txt", []string{"/a.txt=it is a test"}, ""},
		{"/b.txt", []string{"/b.txt=why not"}, "invalid_args"},
		{"/b.txt", nil, ""},
		{"/", nil, "scan"},
	} {
		for _, name := range []string{"file_export", "clipboard_copy"} {
			call := args{"path": test.path, "override": append([]string{}, test.override...)}
			if name == "file_export" {
				call["to"] = t.TempDir()
			} else if test.path == "/" {
				continue
			}
			s.asked = nil
			r := s.call(set, name, call)
			code := sandbox.Code("")
			if r.Err != nil {
				code = r.Err.Code
			}
			if code != test.want || (test.want == "") != (len(s.asked) == 1) {
				t.Errorf("%s %v: got %v, asked %v", name, call, r, s.asked)
			}
			if test.override != nil && test.want == "" && !strings.HasPrefix(s.asked[0].Warnings[0], "overridden: /a.txt: malware") {
				t.Errorf("%s: warned of %q", name, s.asked[0].Warnings)
			}
		}
	}
	set.Scanners = func() (*scan.Set, error) { return nil, errors.New("no") }
	if r := s.call(set, "clipboard_copy", args{"path": "/b.txt"}); r.OK() || r.Err.Code != "scan" {
		t.Errorf("without scanners: got %v", r)
	}
}

// TestScanMeanwhile checks that a file which changes while scanners read it is not handed
// on, and that no verdict is cached.
func TestScanMeanwhile(t *testing.T) {
	eicar := `X5O!P%@AP[4\PZX54(P^)7CC)7}` + `$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*`
	s, set := newScene(t, map[string]string{"a.txt": eicar}, nil)
	scanners, err := scan.New(scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set.Scanners = func() (*scan.Set, error) {
		s.put("a.txt", strings.Repeat("x", len(eicar)))
		return scanners, nil
	}
	s.before = func() { s.put("a.txt", eicar) }
	to := t.TempDir()
	if r := s.call(set, "file_export", args{"path": "/a.txt", "to": to}); r.Err == nil || r.Err.Code != "scan" || len(s.asked) > 0 {
		t.Errorf("got %v, asked %v", r, s.asked)
	}
	if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
		t.Errorf("exported %v, %v", left, err)
	}
}

// TestBadName checks which names are refused.
func TestBadName(t *testing.T) {
	for name, want := range map[string]string{
		"a/b.md": "", ".bashrc": "", "ü/漢": "", "console.txt": "", "com.txt": "", "com10": "", "a b": "", "-x": "", "nul-x": "",
		"nul": "device", "a/NUL.tar.gz": "device", "Con": "device", "com1.txt": "device", "LPT9": "device", "com¹": "device", "aux .c": "device",
		"a.": "drop", "a ": "drop", " a": "drop", "a./b": "drop", "a\x1bb": "invisible", "a\nb": "invisible", "a\u202eb": "invisible", "a\xffb": "invisible",
		`a\b`: "Windows", ".git/config": "git", "a/.GIT": "git", "git~1": "git", "../a": "a part", "a//b": "a part",
	} {
		if got := badName(name, false); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"a:b", "a?b", `a"b`, "a|b", "a*b", "a<b"} {
		if badName(name, true) == "" || badName(name, false) != "" {
			t.Errorf("%q: got %q and %q", name, badName(name, true), badName(name, false))
		}
	}
}
