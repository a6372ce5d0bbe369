package jail_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// waitForOutput waits until a service has printed a text.
func waitForOutput(t *testing.T, v *jail.Service, text string) string {
	t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if out := string(v.Output(0, 1<<20).Text); strings.Contains(out, text) {
			return out
		}
	}
	t.Fatalf("%q is not printed: %q", text, v.Output(0, 1<<20).Text)
	return ""
}

// TestService checks that a service runs while commands run, and that they reach it
// through their shared network. It ends by itself, or with all its processes when it is
// stopped.
func TestService(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		check(t, os.WriteFile(filepath.Join(p.dir, "lock"), nil, 0o666))
		v, err := p.Serve(jail.Shell("echo begun; trap 'echo ends; exit 4' TERM; (trap '' TERM; exec flock -s lock sleep 9876) & wait"))
		check(t, err)
		waitForOutput(t, v, "begun\n")
		if got := p.says("echo fine"); got != "fine" {
			t.Errorf("a command while the service runs: %s", got)
		}
		if m.level() == jail.Namespaces {
			const server = `import http.server,sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello\n")
s=http.server.HTTPServer(("127.0.0.1",8000),H)
print("ready",flush=True)
s.serve_forever()`
			web, err := p.Serve(jail.Command{Path: "/usr/bin/python3", Args: []string{"python3", "-c", server}, Dir: "/"})
			check(t, err)
			waitForOutput(t, web, "ready\n")
			p.allowed("the same network", `exec 3<>/dev/tcp/127.0.0.1/8000; printf 'GET / HTTP/1.0\r\n\r\n' >&3; grep hello <&3`)
			web.Kill()
			p.refused("one that is gone", `exec 3<>/dev/tcp/127.0.0.1/8000`)
		}
		v.Stop()
		r, err := v.Result()
		if out := string(v.Output(0, 100).Text); err != nil || r.Code != 4 || out != "begun\nends\n" || r.Level != m.level() {
			t.Errorf("got %+v, %v, %q", r, err, out)
		}
		p.allowed("nobody holds the lock", "flock -n lock true")

		v, err = p.Serve(jail.Shell("trap '' TERM; echo deaf; while :; do sleep 1; done"))
		check(t, err)
		waitForOutput(t, v, "deaf\n")
		v.Kill()
		if r, err := v.Result(); err != nil || r.Signal != "SIGKILL" || !r.Stopped {
			t.Errorf("got %+v, %v", r, err)
		}
		v, err = p.Serve(jail.Shell("echo out; echo err >&2; exit 3"))
		check(t, err)
		<-v.Done()
		if r, err := v.Result(); err != nil || r.Code != 3 || r.Stopped || string(v.Output(0, 100).Text) != "out\nerr\n" {
			t.Errorf("got %+v, %v", r, err)
		}
		v.Stop()
	})
}

// TestServiceEndsWithSession checks that closing a session ends its services.
func TestServiceEndsWithSession(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		v, err := p.Serve(jail.Shell("echo begun; sleep 9876"))
		check(t, err)
		waitForOutput(t, v, "begun\n")
		check(t, p.Close())
		<-v.Done()
		if _, err := v.Result(); err == nil {
			t.Error("the service ended without an error")
		}
		if _, err := p.Serve(jail.Shell("true")); err == nil {
			t.Error("a service started in a closed session")
		}
	})
}

// TestServiceSees checks that a service writes only directories of the session, whether
// commands write to overlays or directly, and that it sees the changes of others there.
func TestServiceSees(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		for _, layered := range []bool{false, true} {
			if layered && m.level() == jail.Landlock {
				continue
			}
			dir, home := t.TempDir(), t.TempDir()
			policy := jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(dir), Target: jail.Work, Write: true}}, Home: sandbox.Host(home)}
			if layered {
				policy.Recorder = changes.Recorder{Dir: sandbox.Host(t.TempDir())}
			}
			check(t, os.WriteFile(filepath.Join(dir, "a"), []byte("first\n"), 0o666))
			s, err := jail.Start(policy, time.Now)
			check(t, err)
			c := jail.Shell("echo x >b || echo refused; echo x >~/c && echo home; cat a; until grep -q second a; do read -t 0.05 <> <(:); done; cat a; exec sleep 9876")
			v, err := s.Serve(c)
			check(t, err)
			waitForOutput(t, v, "refused\nhome\nfirst\n")
			check(t, os.WriteFile(filepath.Join(dir, "new"), []byte("second\n"), 0o666))
			check(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "a")))
			waitForOutput(t, v, "first\nsecond\n")
			r, err := changes.Finish(s.Run(context.Background(), jail.Shell("echo y >b && cat b")))
			if err != nil || string(r.Stdout.Head) != "y\n" {
				t.Errorf("a command while the service runs: %+v, %v", r, err)
			}
			if layered {
				if r.Changed == nil {
					t.Error("the changes of the command are unknown")
				} else {
					check(t, r.Changed.Discard())
				}
			}
			v.Kill()
			check(t, s.Close())
			if _, err := os.Stat(filepath.Join(home, "c")); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestServiceOutput checks that head and tail of a service's output are kept and can be
// read from any offset.
func TestServiceOutput(t *testing.T) {
	inModes(t, everyMode[:1], func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{Output: 300})
		v, err := p.Serve(jail.Shell("for i in 1000 1001 1002 1003; do echo $i; done; head -c 1000 /dev/zero | tr '\\0' x; echo; echo last"))
		check(t, err)
		<-v.Done()
		tests := []struct {
			offset, most int64
			from         int64
			text         string
		}{
			{0, 10, 0, "1000\n1001\n"},
			{10, 10, 10, "1002\n1003\n"},
			{-5, 100, 1021, "last\n"},
			{1021, 100, 1021, "last\n"},
			{1026, 100, 1026, ""},
			{5000, 100, 1026, ""},
			{190, 100, 190, "xxxxxxxxxx"},
			{200, 3, 926, "xxx"},
			{500, 3, 926, "xxx"},
		}
		for _, test := range tests {
			got := v.Output(test.offset, test.most)
			if got.From != test.from || string(got.Text) != test.text || got.Total != 1026 {
				t.Errorf("%d, %d: got %d, %q of %d, want %d, %q", test.offset, test.most, got.From, got.Text, got.Total, test.from, test.text)
			}
		}
		all := v.Output(0, 1000)
		if rest := v.Output(all.Next(), 1000); all.Next() != 200 || rest.From != 926 || rest.Next() != 1026 {
			t.Errorf("got bytes up to %d, then %d to %d", all.Next(), rest.From, rest.Next())
		}
	})
}
