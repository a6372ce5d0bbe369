package git_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
)

// A hostile is a tree that makes an ordinary git run a command, $RUN, which leaves a
// mark.
type hostile struct {
	id     string // ID of the threat
	name   string
	config string            // configuration of the repository
	files  map[string]string // in the work tree or, with .git/, in the repository
	more   func(t *testing.T, dir, run string)
	silent bool // not every ordinary git runs it; the target must be safe all the same
}

var hooks = strings.Fields("pre-commit post-commit prepare-commit-msg commit-msg pre-push reference-transaction post-index-change " +
	"post-checkout post-merge pre-receive update post-receive post-update proc-receive fsmonitor-watchman pre-auto-gc post-rewrite " +
	"applypatch-msg pre-rebase sendemail-validate push-to-checkout")

func hostiles() []hostile {
	attribute := func(line string) map[string]string { return map[string]string{".gitattributes": line} }
	gitHooks := map[string]string{}
	treeHooks := map[string]string{}
	for _, h := range hooks {
		gitHooks[".git/hooks/"+h] = "#!/bin/sh\n$RUN\n"
		treeHooks["hk/"+h] = "#!/bin/sh\n$RUN\n"
	}
	return []hostile{
		{id: "G01", name: "fsmonitor", config: "[core]\nfsmonitor = $RUN;false\n"},
		{id: "G02", name: "hooks", files: gitHooks},
		{id: "G02", name: "hooksPath", config: "[core]\nhooksPath = hk\n", files: treeHooks},
		{id: "G03", name: "external diff", config: "[diff]\nexternal = $RUN;true\n"},
		{id: "G04", name: "textconv", config: "[diff \"zz\"]\ntextconv = $RUN;cat\n", files: attribute("* diff=zz\n")},
		{id: "G04", name: "diff command", config: "[diff \"zz\"]\ncommand = $RUN;true\n", files: attribute("* diff=zz\n")},
		{id: "G04", name: "attributes of the repository", config: "[diff \"zz\"]\ncommand = $RUN;true\n", files: map[string]string{".git/info/attributes": "* diff=zz\n"}},
		{id: "G05", name: "attributes file", config: "[core]\nattributesFile = evil\n[filter \"zz\"]\nclean = $RUN;cat\n", files: map[string]string{"evil": "* filter=zz\n"}},
		{id: "G05", name: "clean", config: "[filter \"zz\"]\nclean = $RUN;cat\n", files: attribute("* filter=zz\n")},
		{id: "G05", name: "smudge", config: "[filter \"zz\"]\nsmudge = $RUN;cat\n", files: attribute("* filter=zz\n")},
		{id: "G05", name: "process", config: "[filter \"zz\"]\nprocess = $RUN\n", files: attribute("* filter=zz\n")},
		{id: "G05", name: "merge driver", config: "[merge \"zz\"]\ndriver = $RUN\n[merge]\ndefault = zz\n", files: attribute("* merge=zz\n"), silent: true},
		{id: "G06", name: "ssh", config: "[core]\nsshCommand = $RUN;\n[remote \"origin\"]\nurl = ssh://localhost/x\nfetch = +refs/heads/*:refs/remotes/origin/*\n"},
		{id: "G07", name: "askpass and credentials", config: "[core]\naskPass = $RUN\n[credential]\nhelper = !$RUN\n"},
		{id: "G08", name: "ext", config: "[protocol \"ext\"]\nallow = always\n[remote \"origin\"]\nurl = ext::$RUN\n"},
		{id: "G08", name: "insteadOf", config: "[protocol \"ext\"]\nallow = always\n[url \"ext::$RUN \"]\ninsteadOf = https://example.org/\n[remote \"origin\"]\nurl = https://example.org/x\n"},
		{id: "G08", name: "upload and receive pack", config: "[remote \"origin\"]\nurl = .\nuploadpack = $RUN;git-upload-pack\nreceivepack = $RUN;git-receive-pack\nfetch = +refs/heads/*:refs/remotes/origin/*\n"},
		{id: "G09", name: "include", config: "[include]\npath = ../evil.cfg\n", files: map[string]string{"evil.cfg": "[core]\nfsmonitor = $RUN;false\n"}},
		{id: "G09", name: "includeIf", config: "[includeIf \"gitdir:**\"]\npath = ../evil.cfg\n", files: map[string]string{"evil.cfg": "[core]\nfsmonitor = $RUN;false\n"}},
		{id: "G09", name: "worktree config", config: "[core]\nrepositoryformatversion = 1\n[extensions]\nworktreeConfig = true\n",
			files: map[string]string{".git/config.worktree": "[core]\nfsmonitor = $RUN;false\n"}},
		{id: "G10", name: "editor", config: "[core]\neditor = $RUN;true\n[sequence]\neditor = $RUN;true\n"},
		{id: "G10", name: "pager", config: "[core]\npager = $RUN;cat\n[pager]\nlog = $RUN;cat\ndiff = true\n", silent: true},
		{id: "G10", name: "alias", config: "[alias]\nst = !$RUN\nfast-import = !$RUN\ncat-file = !$RUN\ndiff-tree = !$RUN\nupdate-ref = !$RUN\n"},
		{id: "G10", name: "signing", config: "[commit]\ngpgSign = true\n[gpg]\nprogram = $PROGRAM\n[user]\nsigningKey = x\n"},
		{id: "G10", name: "verifying", config: "[log]\nshowSignature = true\n[gpg]\nprogram = $PROGRAM\n", silent: true},
		{id: "G10", name: "alternate refs", config: "[core]\nalternateRefsCommand = $RUN\n", silent: true},
		{id: "G08", name: "lazy objects", config: "[core]\nrepositoryformatversion = 1\n[extensions]\npartialClone = origin\n[remote \"origin\"]\npromisor = true\nurl = .\nuploadpack = $RUN;git-upload-pack\n"},
		{id: "G08", name: "pack objects hook", config: "[uploadpack]\npackObjectsHook = $RUN;\n[remote \"origin\"]\nurl = .\n", silent: true},
		{id: "G24", name: "submodule update", config: "[submodule \"s\"]\nurl = .\nupdate = !$RUN\nactive = true\n[submodule]\nrecurse = true\n",
			files: map[string]string{".gitmodules": "[submodule \"s\"]\npath = s\nurl = -u$RUN\nupdate = !$RUN\n"}, silent: true},
		{id: "G24", name: "a repository as a submodule", more: func(t *testing.T, dir, run string) {
			sub := filepath.Join(dir, "sub")
			writeFile(t, filepath.Join(sub, "f"), "f")
			runGit(t, sub, "init", "-q")
			runGit(t, sub, "add", "f")
			runGit(t, sub, "commit", "-q", "-m", "x")
			runGit(t, dir, "add", "sub")
			runGit(t, dir, "commit", "-q", "-m", "with a submodule")
			runGit(t, sub, "config", "core.fsmonitor", run+";false")
			writeFile(t, filepath.Join(sub, "f"), "changed")
		}},
		{id: "G10", name: "trailer", config: "[trailer \"x\"]\ncommand = $RUN\nifmissing = add\n", silent: true},
		{id: "G10", name: "browser and tools", config: "[diff]\ntool = x\n[difftool \"x\"]\ncmd = $RUN\n[difftool]\nprompt = false\n[web]\nbrowser = x\n[browser \"x\"]\ncmd = $RUN\n", silent: true},
		{id: "G02", name: "gc and maintenance", config: "[gc]\nauto = 1\nrecentObjectsHook = $RUN\n[maintenance]\nauto = true\n", files: map[string]string{".git/hooks/pre-auto-gc": "#!/bin/sh\n$RUN\n"}, silent: true},
		{id: "G18", name: "core.worktree", config: "[core]\nworktree = /etc\n", silent: true},
		{id: "G31", name: "replaced objects and grafts", silent: true, more: func(t *testing.T, dir, _ string) {
			head := runGit(t, dir, "rev-parse", "HEAD")
			other := runGit(t, dir, "commit-tree", "-m", "replaced", "4b825dc642cb6eb9a060e54bf8d69288fbee4904")
			runGit(t, dir, "replace", "-f", head, other)
			writeFile(t, filepath.Join(dir, ".git/info/grafts"), head+" "+other+"\n")
		}},
		{id: "G31", name: "garbage beside the packs", silent: true, more: func(t *testing.T, dir, _ string) {
			runGit(t, dir, "repack", "-q", "-a", "-d", "-b")
			for _, name := range []string{"info/commit-graph", "pack/multi-pack-index", "info/packs", "info/commit-graphs/commit-graph-chain", "pack/pack-x.bitmap", "pack/pack-x.keep"} {
				writeFile(t, filepath.Join(dir, ".git/objects", name), "garbage\x00\xff")
			}
		}},
		{id: "G18", name: "alternates", silent: true, more: func(t *testing.T, dir, _ string) {
			writeFile(t, filepath.Join(dir, ".git/objects/info/alternates"), "# none\n\n")
			writeFile(t, filepath.Join(dir, ".git/objects/info/http-alternates"), "http://localhost/\n")
			writeFile(t, filepath.Join(dir, ".git/commondir"), "/nowhere\n")
		}},
		{id: "G16", name: "a repository in a directory", silent: true, more: func(t *testing.T, dir, run string) {
			for name, content := range map[string]string{"HEAD": "ref: refs/heads/main\n", "objects/x": "", "refs/x": "", "config": "[core]\nbare = false\nworktree = .\nfsmonitor = " + run + ";false\n"} {
				writeFile(t, filepath.Join(dir, "dir", name), content)
			}
		}},
	}
}

// TestTreeRunsNothing checks that a hostile tree makes an ordinary git run a command,
// and that nothing this package does with the tree runs it.
func TestTreeRunsNothing(t *testing.T) {
	var fired atomic.Int32
	t.Cleanup(func() { t.Logf("%d of %d trees make an ordinary git run a command", fired.Load(), len(hostiles())) })
	for _, h := range hostiles() {
		t.Run(h.id+" "+h.name, func(t *testing.T) {
			t.Parallel()
			s, dir := openStore(t), newRepository(t)
			mark := filepath.Join(t.TempDir(), "mark")
			program := filepath.Join(t.TempDir(), "program")
			writeFile(t, program, "#!/bin/sh\ntouch "+mark+"\nexit 1\n")
			os.Chmod(program, 0o755)
			run := "touch " + mark
			fill := strings.NewReplacer("$RUN", run, "$PROGRAM", program).Replace
			if h.more != nil {
				h.more(t, dir, run)
			}
			for name, content := range h.files {
				writeFile(t, filepath.Join(dir, name), fill(content))
				os.Chmod(filepath.Join(dir, name), 0o755)
			}
			config, err := os.OpenFile(filepath.Join(dir, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(config, fill(h.config))
			config.Close()

			callEverything(t, s, dir)
			if _, err := os.Lstat(mark); err == nil {
				t.Fatal("a command of the tree was run")
			}
			runOrdinaryGit(dir)
			if _, err := os.Lstat(mark); err == nil {
				fired.Add(1)
			} else if !h.silent {
				t.Error("an ordinary git runs no command either: the row checks nothing")
			}
		})
	}
}

// callEverything calls all operations of this package on a target.
func callEverything(t *testing.T, s *git.ObjectStore, dir string) {
	t.Helper()
	target, base := openWithBase(t, s, dir)
	if _, err := target.Branches(t.Context()); err != nil {
		t.Error(err)
	}
	if head, err := target.Head(); err != nil || head != "main" {
		t.Errorf("head: got %q, %v", head, err)
	}
	hash, _ := stageCommit(t, s, target, newCommit(base, newFile("a.txt", "hostile\n"), newFile("new.txt", "new\n"), deleteFile("dir/b.txt")))
	changes, err := s.Changes(t.Context(), target.Objects(), base, hash)
	if err != nil || len(changes) != 3 {
		t.Errorf("changes: got %v, %v", changes, err)
	}
	r, err := s.Reader(t.Context(), target.Objects())
	if err != nil {
		t.Fatal(err)
	}
	if content, _, err := r.Blob(changes[0].Old, 100); err != nil || string(content) != "one\ntwo\n" {
		t.Errorf("old content: got %q, %v", content, err)
	}
	if _, _, err := r.Blob("1234567890123456789012345678901234567890", 100); err == nil {
		t.Error("a missing object was found")
	}
	r.Close()
	if err := target.Take(t.Context(), base, hash); err != nil {
		t.Error(err)
	}
	if err := target.Move(t.Context(), "side", "", hash); err != nil {
		t.Error(err)
	}
	if now, err := target.Branch(t.Context(), "side"); err != nil || now != hash {
		t.Errorf("the branch: got %s, %v, want %s", now, err, hash)
	}
	if made, err := target.Reached(t.Context(), "side", base); err != nil || !made {
		t.Errorf("Reached for the base of a branch: got %v, %v", made, err)
	}
	if err := target.Move(t.Context(), "side", hash, base); err != nil {
		t.Error(err)
	}
	if err := target.Advance(t.Context(), "main", base, hash, changes); err != nil {
		t.Error(err)
	}
	if err := target.Resume(t.Context(), "main", hash, changes); err != nil {
		t.Error(err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(content) != "hostile\n" {
		t.Errorf("the work tree: got %q, %v", content, err)
	}
}

// runOrdinaryGit runs the git commands that a user runs.
func runOrdinaryGit(dir string) {
	os.WriteFile(filepath.Join(dir, "a.txt"), []byte("changed\n"), 0o644)
	for _, line := range []string{
		"st", "status", "diff", "add -A", "diff --cached", "-c core.editor= commit -q -m x", "commit --amend", "log -p -1", "checkout -q HEAD~1 -- .",
		"fetch origin", "push origin HEAD:refs/heads/other", "ls-remote origin", "cat-file -e 1234567890123456789012345678901234567890", "checkout -q -b other",
	} {
		tryGit(dir, strings.Fields(line)...)
	}
	// This runs a credential helper without a server that asks for a password.
	question := filepath.Join(dir, "question")
	os.WriteFile(question, []byte("protocol=https\nhost=example.org\n\n"), 0o644)
	runGitWithInput(dir, question, "credential", "fill")
}
