package file

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// listNameUses returns all ways to pass a name to a tool that changes files. The file /a exists
// and /free does not.
func listNameUses(name string) []struct {
	tool string
	args args
} {
	return []struct {
		tool string
		args args
	}{
		{"write_file", args{"path": name, "content": "attack"}},
		{"sandbox_write_text", args{"path": name, "content": "attack"}},
		{"edit_file", oneEdit(name, "CANARY", "attack")},
		{"make_directory", args{"path": name}},
		{"move_file", args{"from": name, "to": "/free"}},
		{"move_file", args{"from": "/a", "to": name}},
		{"copy_file", args{"from": name, "to": "/free"}},
		{"copy_file", args{"from": "/a", "to": name}},
		{"delete_file", args{"path": name}},
		{"delete_file", args{"path": name, "recursive": true}},
	}
}

// TestNamesThatLeadOutside checks that every tool refuses names that lead outside.
// Nothing changes inside or outside: P01, P15, P16, P17.
func TestNamesThatLeadOutside(t *testing.T) {
	for _, row := range []struct {
		why   string
		names []string
		link  string // the target of the symlink /d
		code  sandbox.Code
	}{
		{"P01", []string{"/../out/secret", "/d/../../out/secret", "../out/secret", "/d/e/../../../out/secret"}, "", sandbox.ErrInvalid},
		{"P16", []string{"/d/secret", "/d/new", "/d/new/deeper"}, "../out", sandbox.ErrOutside},
		{"P16 absolute", []string{"/d/secret", "/d/new"}, "TOP/out", sandbox.ErrOutside},
		{"P16 by two links", []string{"/e/secret", "/e/new"}, "../out", sandbox.ErrOutside},
	} {
		for _, name := range row.names {
			for _, h := range listNameUses(name) {
				s := newScene(t, map[string]string{"a": "one"})
				if row.link != "" {
					s.link(strings.ReplaceAll(row.link, "TOP", s.top), "proj/d")
					s.link("d", "proj/e")
				}
				before := s.tree(".")
				s.fails(row.code, h.tool, h.args)
				if after := s.tree("."); after != before || len(s.asked) > 0 {
					t.Errorf("%s: %s %v: asked %d times, and\n%s\nbecame\n%s", row.why, h.tool, h.args, len(s.asked), before, after)
				}
			}
		}
	}
	for why, target := range map[string]string{"P15": "../out/secret", "P15 absolute": "TOP/out/secret", "P17": "../out/new", "P17 folder": "../out"} {
		for _, h := range listNameUses("/link") {
			s := newScene(t, map[string]string{"a": "one"})
			s.link(strings.ReplaceAll(target, "TOP", s.top), "proj/link")
			outside := s.tree("out")
			r := s.do(h.tool, h.args)
			// A symlink itself is inside and can be moved and deleted.
			if itself := h.tool == "delete_file" || h.tool == "move_file" && h.args["from"] == "/link"; itself != r.OK() {
				t.Errorf("%s: %s %v: %s", why, h.tool, h.args, r)
			}
			if after := s.tree("out"); after != outside {
				t.Errorf("%s: %s %v: %s\nbecame\n%s", why, h.tool, h.args, outside, after)
			}
		}
	}
}

// TestSymlinkSwapAtThePrompt: during the prompt, the target or its directory becomes
// a symlink that leads outside: A03.
func TestSymlinkSwapAtThePrompt(t *testing.T) {
	swaps := map[string]func(s *scene){
		"file": func(s *scene) {
			check(s.t, os.RemoveAll(s.host("proj/d/f")))
			s.link("../../out/secret", "proj/d/f")
		},
		"folder": func(s *scene) {
			check(s.t, os.Rename(s.host("proj/d"), s.host("proj/was")))
			s.link("../out", "proj/d")
		},
	}
	for what, swap := range swaps {
		for _, name := range []string{"/d/f", "/d/new"} {
			for _, h := range listNameUses(name) {
				s := newScene(t, map[string]string{"a": "one", "d/f": "a CANARY inside"})
				s.put("out/f", "CANARY")
				outside, swapped := s.tree("out"), ""
				s.during = func() { swap(s); swapped = s.tree("proj") }
				raw := s.do(h.tool, h.args)
				if after := s.tree("out"); after != outside {
					t.Errorf("%s: %s %v: %s\nbecame\n%s", what, h.tool, h.args, outside, after)
				}
				switch inside := s.tree("proj"); {
				case len(s.asked) == 0 && raw.Err == nil:
					t.Errorf("%s: %s %v: nobody was asked", what, h.tool, h.args)
				case len(s.asked) > 0 && what == "folder" && (raw.Err == nil || inside != swapped),
					len(s.asked) > 0 && name == "/d/f" && (raw.Err == nil || inside != swapped):
					t.Errorf("%s: %s %v: %s; %s\nbecame\n%s", what, h.tool, h.args, raw, swapped, inside)
				}
			}
		}
	}
}

// TestHardLinksAndModes: a change of a file with a hard link outside does not change the
// content there: P24. A changed or copied file loses its setuid, setgid and sticky bits:
// P31.
func TestHardLinksAndModes(t *testing.T) {
	for _, h := range []struct {
		tool string
		args args
	}{
		{"write_file", args{"path": "/f", "content": "new"}},
		{"edit_file", oneEdit("/f", "CANARY", "new")},
		{"copy_file", args{"from": "/f", "to": "/free"}},
		{"move_file", args{"from": "/f", "to": "/free"}},
		{"delete_file", args{"path": "/f"}},
	} {
		s := newScene(t, nil)
		check(t, os.Link(s.host("out/secret"), s.host("proj/f")))
		// The worker may use the content under its name inside.
		r := s.gate.Do(context.Background(), policy.Model, tool.Call{Tool: h.tool, Args: encoded(t, h.args)})
		if r.Err != nil {
			t.Errorf("%s: %v", h.tool, r.Err)
		}
		s.want("out/secret", "CANARY\n")
	}
	for _, h := range listNameUses("/f") {
		s := newScene(t, map[string]string{"f": "a CANARY", "a": "one"})
		check(t, os.Chmod(s.host("proj/f"), 0o755|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
		if h.tool == "move_file" {
			continue // the same file under another name
		}
		s.gate.Do(context.Background(), policy.Model, tool.Call{Tool: h.tool, Args: encoded(t, h.args)})
		for _, name := range []string{"proj/f", "proj/free"} {
			info, err := os.Stat(s.host(name))
			if untouched := err == nil && name == "proj/f" && h.tool != "write_file" && h.tool != "sandbox_write_text" && h.tool != "edit_file"; err != nil || untouched {
				continue
			}
			if info.Mode() != 0o755 {
				t.Errorf("%s %v: %s has %v", h.tool, h.args, name, info.Mode())
			}
		}
	}
}

// TestMountsStay checks that mounts and the directories above them stay. Nothing moves
// from or to a read-only mount: P36, P37.
func TestMountsStay(t *testing.T) {
	s := newScene(t, map[string]string{"d/x": "x", "a": "one"})
	for _, dir := range []string{"in", "rw"} {
		check(t, os.Mkdir(s.host(dir), 0o777))
		s.put(dir+"/a", dir)
	}
	box, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/", Source: sandbox.Host(s.host("proj")), Access: sandbox.ReadWrite},
		{Target: "/in", Source: sandbox.Host(s.host("in")), Access: sandbox.ReadOnly},
		{Target: "/m/rw", Source: sandbox.Host(s.host("rw")), Access: sandbox.ReadWrite},
	}})
	check(t, err)
	s.over(box)
	before := s.tree(".")
	for _, name := range []string{"/", "/.", "/d/..", "/m", "/m/rw", "/m/rw/"} {
		s.fails(sandbox.ErrInvalid, "delete_file", args{"path": name}, "mount")
		s.fails(sandbox.ErrInvalid, "delete_file", args{"path": name, "recursive": true}, "mount")
		s.fails(sandbox.ErrInvalid, "move_file", args{"from": name, "to": "/free"}, "mount")
	}
	s.fails(sandbox.ErrReadOnly, "delete_file", args{"path": "/in", "recursive": true})
	s.fails(sandbox.ErrReadOnly, "delete_file", args{"path": "/in/a"})
	s.fails(sandbox.ErrReadOnly, "move_file", args{"from": "/in/a", "to": "/m/rw/b"})
	s.fails(sandbox.ErrReadOnly, "move_file", args{"from": "/m/rw/a", "to": "/in/b"}, "writable: /")
	s.fails(sandbox.ErrReadOnly, "copy_file", args{"from": "/m/rw/a", "to": "/in/b"})
	s.fails(sandbox.ErrReadOnly, "write_file", args{"path": "/in/a", "content": "x"})
	s.fails(sandbox.ErrReadOnly, "edit_file", oneEdit("/in/a", "in", "x"))
	s.fails(sandbox.ErrReadOnly, "make_directory", args{"path": "/in/b"})
	if len(s.asked) > 0 {
		t.Errorf("asked about %v", s.asked[0].Effects)
	}
	s.fails(sandbox.ErrInvalid, "move_file", args{"from": "/d", "to": "/m/rw/d"}, "only files move between mounts")
	if after := s.tree("."); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
	s.must("copy_file", args{"from": "/in/a", "to": "/m/rw/b"})
	s.must("move_file", args{"from": "/m/rw/b", "to": "/c"})
	s.want("proj/c", "in")
}

// TestPolicyIsNotChanged checks that a worker cannot change the files that define its
// permissions. This holds for every tool, even if a file does not exist: P44. golem does
// not ask for approval either.
func TestPolicyIsNotChanged(t *testing.T) {
	for _, name := range []string{"/golem-forge.config.yaml", "/golem-forge.config.yml", "/GOLEM-FORGE.CONFIG.YAML", "/w/self.worker", "/.git/config", "/.git", "/sub/.Git/hooks/x"} {
		for _, there := range []bool{true, false} {
			for _, h := range listNameUses(name) {
				s := newScene(t, map[string]string{"a": "one"})
				if there {
					s.put("proj"+name, "a policy")
				}
				if h.tool == "copy_file" && h.args["from"] == name {
					continue // a copy under another name is not a policy
				}
				before := s.tree(".")
				s.fails(sandbox.ErrProtected, h.tool, h.args)
				if after := s.tree("."); after != before || len(s.asked) > 0 {
					t.Errorf("%s %v: asked %d times, and\n%s\nbecame\n%s", h.tool, h.args, len(s.asked), before, after)
				}
			}
		}
	}
	s := newScene(t, map[string]string{"d/sub/x.worker": "a policy", "d/y": "y"})
	before := s.tree("proj")
	s.fails(sandbox.ErrProtected, "delete_file", args{"path": "/d", "recursive": true})
	s.fails(sandbox.ErrProtected, "move_file", args{"from": "/d", "to": "/e"})
	if after := s.tree("proj"); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}

// TestPredictableNames puts symlinks at names that a careless writer would use for
// temporary files: P45.
func TestPredictableNames(t *testing.T) {
	s := newScene(t, map[string]string{"f": "one"})
	for _, name := range []string{".f.tmp", "f.tmp", "f~", ".f.swp", "f.new", "f.bak", ".golem-tmp-f", ".golem-tmp-0", ".tmp"} {
		s.link("../out/secret", "proj/"+name)
	}
	outside := s.tree("out")
	s.must("write_file", args{"path": "/f", "content": "two"})
	s.must("edit_file", oneEdit("/f", "two", "three"))
	s.must("copy_file", args{"from": "/f", "to": "/g"})
	s.want("proj/f", "three")
	left, err := filepath.Glob(s.host("proj/.golem-tmp-*"))
	if after := s.tree("out"); after != outside || err != nil || len(left) != 2 {
		t.Errorf("%s\nbecame\n%s; left behind: %v, %v", outside, after, left, err)
	}
}

// TestUnknownArguments checks that a call cannot approve itself: A26.
func TestUnknownArguments(t *testing.T) {
	for _, h := range listNameUses("/a") {
		for _, field := range []string{"approved", "remember", "sandbox", "mode", "overwrite", "Path", "force"} {
			s := newScene(t, map[string]string{"a": "a CANARY"})
			h.args[field] = true
			s.fails("invalid_args", h.tool, h.args, field)
			delete(h.args, field)
			if s.want("proj/a", "a CANARY"); len(s.asked) > 0 {
				t.Errorf("%s: asked", h.tool)
			}
		}
	}
	s := newScene(t, map[string]string{"a": "one"})
	s.fails("invalid_args", "edit_file", args{"path": "/a", "edits": []args{{"old": "one", "new": "x", "regex": true}}}, "regex")
	s.fails("invalid_args", "write_file", args{"path": "/a"}, "content is missing")
	s.fails("invalid_args", "delete_file", args{"path": "/a", "recursive": "yes"}, "recursive")
	s.want("proj/a", "one")
}

// TestUndeclaredEffects: a tool that does more than it has declared fails, and nothing
// changes. It runs only with the declared effects.
func TestUndeclaredEffects(t *testing.T) {
	on := func(verb policy.Verb) policy.Effect { return policy.Effect{Verb: verb, Target: "/a"} }
	for _, row := range []struct {
		why     string
		effects []policy.Effect
		run     func(ctx context.Context, files *sandbox.Sandbox) error
	}{
		{"writes another file", []policy.Effect{on(policy.Write)}, func(_ context.Context, f *sandbox.Sandbox) error { _, err := f.Write("/b", nil); return err }},
		{"writes a new file", []policy.Effect{on(policy.Write)}, func(_ context.Context, f *sandbox.Sandbox) error { _, err := f.WriteNew("/c", nil); return err }},
		{"copies to another name", []policy.Effect{on(policy.Write)}, func(_ context.Context, f *sandbox.Sandbox) error { _, err := f.Copy("/a", "/c"); return err }},
		{"deletes what it may write", []policy.Effect{on(policy.Write)}, func(_ context.Context, f *sandbox.Sandbox) error { return f.Delete("/a") }},
		{"deletes all of it", []policy.Effect{on(policy.Write)}, func(ctx context.Context, f *sandbox.Sandbox) error { return f.DeleteAll(ctx, "/a") }},
		{"moves what it may write", []policy.Effect{on(policy.Write), {Verb: policy.Write, Target: "/c"}}, func(_ context.Context, f *sandbox.Sandbox) error { return f.Move("/a", "/c") }},
		{"writes what it may delete", []policy.Effect{on(policy.Delete)}, func(_ context.Context, f *sandbox.Sandbox) error { _, err := f.Write("/a", nil); return err }},
		{"writes what it may read", []policy.Effect{on(policy.Read)}, func(_ context.Context, f *sandbox.Sandbox) error { _, err := f.Write("/a", nil); return err }},
		{"deletes what it may read", []policy.Effect{on(policy.Read)}, func(_ context.Context, f *sandbox.Sandbox) error { return f.Delete("/a") }},
		{"reads without a word", nil, func(_ context.Context, f *sandbox.Sandbox) error { _, err := f.Read("/a"); return err }},
		{"writes without a word", nil, func(_ context.Context, f *sandbox.Sandbox) error { _, err := f.Write("/a", nil); return err }},
	} {
		for _, when := range []string{"prepare", "run"} {
			s := newScene(t, map[string]string{"a": "one", "b": "two"})
			before := s.tree("proj")
			met := false
			lie := func(ctx context.Context, at string, files *sandbox.Sandbox) error {
				if at != when {
					return nil
				}
				met = true
				err := row.run(ctx, files)
				if err == nil {
					t.Errorf("%s in %s: it works", row.why, when)
				}
				return err
			}
			s.gate.Tools = []tool.Tool{tool.New(tool.Tool{Name: "liar", Toolset: toolset, Mode: policy.Both},
				func(context.Context, tool.Names, struct{}) (tool.Plan, error) {
					return tool.NewChangePlan(func(ctx context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
						if err := lie(ctx, "prepare", files); err != nil {
							return tool.Preparation{}, err
						}
						return tool.NewPreparation(func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
							return tool.Result{Text: "done"}, lie(ctx, "run", files)
						}), nil
					}, row.effects...), nil
				})}
			r := s.do("liar", args{})
			if after := s.tree("proj"); after != before || !met || r.Err == nil {
				t.Errorf("%s in %s: %s; met: %v\n%s\nbecame\n%s", row.why, when, r, met, before, after)
			}
		}
	}
}
