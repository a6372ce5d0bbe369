package clearance_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// pullLines pulls, and returns the result as lines.
func (s *scene) pullLines(target string, took bool, paths ...string) string {
	s.Helper()
	p, err := s.desk.Pull(s.Context(), target, "", paths)
	if err != nil {
		return err.Error()
	}
	defer p.Close()
	var b strings.Builder
	for _, f := range p.Files {
		now, err := p.Read(f.Hash, 100)
		base, lost := p.Read(f.Base, 100)
		if err != nil || lost != nil {
			s.Errorf("%s: %v, %v", f.Path, err, lost)
		}
		fmt.Fprintf(&b, "%q %s %q from %s %q\n", f.Path, f.Mode, now, f.BaseMode, base)
		var copied bytes.Buffer
		if f.Hash != "" && (p.Copy(s.Context(), f.Hash, &copied) != nil || copied.String() != string(now)) {
			s.Errorf("%s: copied %q", f.Path, copied.String())
		}
		if took {
			if err := p.Took(f.Path); err != nil {
				s.Error(err)
			}
		}
	}
	return b.String()
}

func (s *scene) pulls(target string, took bool, want string, paths ...string) {
	s.Helper()
	if got := s.pullLines(target, took, paths...); !strings.Contains(got, want) {
		s.Errorf("pull %q: got\n%swant\n%s", paths, got, want)
	}
}

// TestPull checks that a pull returns what the branch has now, with the base that the
// tree had.
func TestPull(t *testing.T) {
	for _, way := range []string{"local", "bare", "remote", "github"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := setUp(t)
			targets := map[string]clearance.Target{
				"local":  {Type: "local", Path: sandbox.Host(s.local)},
				"bare":   {Type: "bare", Path: sandbox.Host(s.bare)},
				"remote": {Type: "remote", URL: "file://" + s.bare},
				"github": {Type: "github", Repo: "o/r"},
			}
			at := targets[way]
			at.Name, at.Branch = way, "main"
			if way == "github" {
				at.URL = newHub(t, s.bare).URL
			}
			s.desk = s.open(git.Explicit([]string{"GITHUB_TOKEN=" + hubToken}), at)
			// commit changes the branch, as somebody else does.
			commit := func(args ...string) {
				for _, a := range args {
					if name, content, ok := strings.Cut(a, "="); ok {
						writeFile(t, filepath.Join(s.local, name), content)
					} else {
						os.RemoveAll(filepath.Join(s.local, name))
					}
				}
				runGit(t, s.local, "add", "-A")
				runGit(t, s.local, "commit", "-q", "-m", "theirs")
				runGit(t, s.local, "push", "-q", s.bare, "main")
			}
			s.pulls(way, false, `"a.txt" 100644 "one\ntwo\n" from 000000 ""`, "a.txt")
			s.pulls(way, true, `"dir/b.txt" 100644 "b\n" from 000000 ""`+"\n"+`"dir/c.txt"`, "dir")
			commit("dir/b.txt=b2\n", "dir/c.txt", "n\n\xff=x", "a.txt=1\n")
			s.pulls(way, false, `"a.txt" 100644 "1\n" from 000000 ""`, "a.txt")
			s.pulls(way, true, `"dir/b.txt" 100644 "b2\n" from 100644 "b\n"`+"\n"+`"dir/c.txt" 000000 "" from 100644 "c\n"`, "dir")
			s.pulls(way, true, `"dir/b.txt" 100644 "b2\n" from 100644 "b2\n"`, "dir")
			s.pulls(way, true, `"n\n\xff" 100644 "x" from 000000`, "n\n\xff")
			s.pulls(way, false, `"n\n\xff" 100644 "x" from 100644 "x"`)
			s.pulls(way, false, "not_found", "dir/c.txt")
			s.pulls(way, false, "not_found", "nowhere")
			s.pulls(way, false, "invalid", "../x")
			s.pulls(way, false, "invalid", "--output=x/../..")
			// For files that were never pulled, the base of a waiting commit counts.
			if err := s.desk.Refresh(t.Context(), way, ""); err != nil {
				t.Fatal(err)
			}
			s.stage(way, "a.txt=mine\n")
			commit("a.txt=2\n")
			s.pulls(way, false, `"a.txt" 100644 "2\n" from 100644 "1\n"`, "a.txt")
			_, err := s.desk.Pull(t.Context(), way, "nowhere", nil)
			s.checkRefused(err, sandbox.ErrNotFound)
			_, err = s.desk.Pull(t.Context(), way, "--upload-pack=x", nil)
			s.checkRefused(err, sandbox.ErrInvalid)

			runGit(t, s.local, "branch", "drafts/x")
			runGit(t, s.local, "push", "-q", s.bare, "drafts/x")
			got, err := s.desk.Branches(t.Context(), way)
			if now := git.Hash(runGit(t, s.local, "rev-parse", "main")); err != nil || len(got) != 2 || got["main"] != now || got["drafts/x"] != now {
				t.Errorf("branches: got %v, %v", got, err)
			}
		})
	}
}

// TestPullOfALargeFile checks that Read refuses a content above its limit, and that Copy writes it.
func TestPullOfALargeFile(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	writeFile(t, s.local+"/large", strings.Repeat("0123456789", 1000))
	runGit(t, s.local, "add", "-A")
	runGit(t, s.local, "commit", "-q", "-m", "large")
	p, err := s.desk.Pull(t.Context(), "local", "", []string{"large"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = p.Read(p.Files[0].Hash, 100)
	s.checkRefused(err, sandbox.ErrLimit)
	var b bytes.Buffer
	if err := p.Copy(t.Context(), p.Files[0].Hash, &b); err != nil || b.Len() != 10_000 {
		t.Errorf("got %d bytes, %v", b.Len(), err)
	}
}
