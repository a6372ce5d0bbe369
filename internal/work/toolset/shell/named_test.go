package shell

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// TestApprovedCommandIsForItsFiles checks that the question about a command lists the files
// that its words name, and that the approval covers no later content of them.
func TestApprovedCommandIsForItsFiles(t *testing.T) {
	const script = "/in/sub/x y.sh"
	for line, want := range map[string]string{
		`sh '/in/sub/x y.sh'`:                script,
		`sh /in/sub/x\ y.sh`:                 script,
		`cd /in/sub && bash -e "x y.sh" 1`:   script,
		`cd ../in; cd sub; ./"x y.sh"`:       script,
		`sh -c "sh '/in/sub/x y.sh'"`:        script,
		`sh < "/in/sub/x y.sh"`:              script,
		`echo $(. '/in/sub/x y.sh')`:         script,
		`sh /in/sub/*.sh`:                    script,
		`sh /in/*/x?y.sh`:                    script,
		`make -f/in/sub/mk`:                  "/in/sub/mk",
		`make --file=/in/sub/mk all`:         "/in/sub/mk",
		`f=/in/sub/mk; make -f "$f"`:         "/in/sub/mk",
		`docker run -v /in/sub/mk:/mk image`: "/in/sub/mk",
		`echo see /in/sub and /in/missing`:   "",
		`cat /closed/secret`:                 "", // commands do not see it
	} {
		w := newWorld(t, append(newMounts(), sandbox.Mount{Target: "/closed", Access: sandbox.ReadOnly}), policy.Rule{Verb: policy.Read, Target: "/closed", Approval: policy.Ask})
		put := func(name, content string) {
			m, _ := w.Files.MountOf(name)
			host := filepath.Join(string(m.Source), strings.TrimPrefix(name, m.Target))
			if err := os.MkdirAll(filepath.Dir(host), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(host, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		put(script, "first\n")
		put("/in/sub/mk", "first\n")
		put("/closed/secret", "first\n")
		ask := func() tool.Request {
			w.run(t, args{Command: line})
			return w.asked.list[len(w.asked.list)-1]
		}
		first := ask()
		var names []string
		for _, c := range first.Changes {
			names = append(names, c.Path)
			if c.Op != tool.Read || c.About != "6 bytes" || c.Becomes == "" {
				t.Errorf("%s: lists %+v", line, c)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: lists %q, want %q", line, got, want)
		}
		if ask().Digest != first.Digest {
			t.Errorf("%s: the same files have another digest", line)
		}
		if want == "" {
			continue
		}
		put(want, "second\n")
		if ask().Digest == first.Digest {
			t.Errorf("%s: another content has the same digest", line)
		}
		runs := len(w.runner.command)
		w.asked.during = func() { put(want, "third\n") }
		if r := w.run(t, args{Command: line}); r.OK() || r.Err.Code != sandbox.ErrConflict || len(w.runner.command) != runs {
			t.Errorf("%s: changed while golem asked: %v, ran %d times more", line, r.Err, len(w.runner.command)-runs)
		}
		w.asked.during = nil
	}
}

// TestNamedFileAppears checks that a command does not run a file that did not exist when golem
// asked.
func TestNamedFileAppears(t *testing.T) {
	w := newWorld(t, newMounts())
	m, _ := w.Files.MountOf("/in")
	w.asked.during = func() {
		if err := os.WriteFile(filepath.Join(string(m.Source), "late.sh"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if r := w.run(t, args{Command: "sh /in/late.sh"}); r.OK() || r.Err.Code != sandbox.ErrConflict || len(w.runner.command) != 0 {
		t.Errorf("got %v, ran %d times", r.Err, len(w.runner.command))
	}
}
