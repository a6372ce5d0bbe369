package jail_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// renamePrelude has functions for Python programs that rename files.
const renamePrelude = `
import ctypes, errno, os, shutil, signal, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def rename(a, b, **dirs):
    try:
        os.rename(a, b, **dirs)
        return "moved"
    except OSError as e:
        return errno.errorcode[e.errno]
def rename2(a, b, flags):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), flags) == 0:
        return "moved"
    return errno.errorcode[ctypes.get_errno()]
def names(top):
    return sorted(os.path.relpath(os.path.join(d, n), top) for d, dirs, files in os.walk(top) for n in dirs + files)
def describe(top):
    for name in names(top):
        st = os.lstat(top + "/" + name)
        text = ""
        if os.path.islink(top + "/" + name):
            text = os.readlink(top + "/" + name)
        elif os.path.isfile(top + "/" + name):
            text = hash(open(top + "/" + name, "rb").read())
        attrs = [(a, os.getxattr(top + "/" + name, a, follow_symlinks=False)) for a in os.listxattr(top + "/" + name, follow_symlinks=False)]
        print(top, name, oct(st.st_mode), st.st_uid, st.st_gid, 0 if os.path.isdir(top + "/" + name) else st.st_size, st.st_blocks < 100, st.st_mtime_ns, text, attrs)
`

// renameTree makes a directory with the kinds of files that a rename has to keep. All times
// are the same.
const renameTree = `umask 022; mkdir -p src/sub/deep src/empty src/closed src/.hidden tgt vacant other top/in; cd src
echo a > a; echo b > sub/b; echo c > sub/deep/c; echo d > closed/d; echo e > .hidden/e; : > none
printf '#!/bin/sh\necho run\n' > run; chmod 755 run; echo secret > secret; chmod 600 secret; echo read > read; chmod 444 read
ln -s a link; ln -s /nowhere dangling; ln a hard; mkfifo pipe; truncate -s 3M holes; printf end >> holes; echo odd > "$(printf 'odd\nname')"
python3 -c 'import os; os.setxattr("a", "user.mark", b"1"); os.setxattr("sub/b", "user.mark", b"2"); os.setxattr("sub", "user.mark", b"3")'
chmod 2775 sub; chmod 1777 empty; chmod 555 closed; cd ..
echo t > tgt/t; echo o > other/o; echo i > top/in/i; echo f > file; ln -s top way
find src -exec touch -h -d @1000000000 {} +`

// renameProgram prints the results of renames and the tree that they make.
const renameProgram = renamePrelude + `
here = os.getcwd()
print("into itself", rename("src", "src/sub/x"), rename("src", "src"))
print("onto its parent", rename("top/in", "top"))
print("onto a full directory", rename("src", "tgt"))
print("onto a file", rename("src", "file"), rename("file", "src"))
print("to a missing directory", rename("src", "no/src"), rename("no", "src"))
print("dots", rename("src/.", "x"), rename("src/..", "x"), rename("", "x"), rename("src", ""))
print("no replace", rename2("src", "vacant", 1), rename2("src", "free", 1), rename2("free", "src", 1))
print("bad flags", rename2("src", "x", 8), rename2("src", "x", 3))
print("bad address", libc.renameat2(-100, ctypes.c_void_p(8), -100, b"x", 0), ctypes.get_errno())
print("plain", rename("src", "lib"), os.path.exists("src"))
describe("lib")
print("onto an empty directory", rename("lib/", "vacant/"), os.path.exists("lib"))
print("to a path of its own", rename("vacant", here + "/lib"))
fd = os.open("top", os.O_RDONLY)
print("by descriptors", rename("../lib", "in2", src_dir_fd=fd, dst_dir_fd=fd), os.listdir("top/in2") != [])
os.chdir("top/in")
print("from another directory", rename("../in2", "../../lib"))
os.chdir(here)
print("through a symlink", rename("way/in", "way/out"), os.listdir("top"), os.path.islink("way"))
print("a symlink", rename("way", "path"), rename("path/", "way"))
shutil.rmtree("other")
print("to a deleted name", rename("lib", "other"))
print("to the name it had", rename("other", "src"))
os.mkdir("own"); open("own/f", "w").write("own")
was = os.stat("own").st_ino, os.stat("own/f").st_ino
print("its own directory", rename("own", "mine"), was == (os.stat("mine").st_ino, os.stat("mine/f").st_ino))
log = open("src/log", "w"); old = open("src/a", "a"); reader = open("src/sub/b")
print("with open files", rename("src", "moved"))
for f in (log, old): f.write("more\n"); f.close()
print(open("moved/log").read(), open("moved/a").read(), open("moved/hard").read(), reader.read())
open("moved/sub/b", "w").write("changed"); os.unlink("moved/none"); open("moved/new", "w").write("new")
print("a changed one", rename("moved", "src"))
print("a part", rename("src/sub", "src/part"), rename("src/part/deep", "deep"))
ends = []
def go(i):
    os.makedirs("many%d/x" % i)
    ends.append(rename("tgt", "tgt%d" % i))
threads = [threading.Thread(target=go, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print("at once", sorted(ends))
for i in range(8):
    shutil.rmtree("many%d" % i)
    if os.path.exists("tgt%d" % i): rename("tgt%d" % i, "tgt")
sys.stdout.flush()
shell = os.system("mv top tip && git init -q repo && cd repo && mkdir d && echo x > d/f && git add d && git mv d e && git status --short && ls e")
print("commands", shell)
shutil.rmtree("repo")
sys.stdout.flush()
describe(".")
print([n for n in names(".") if ".golem" in n])
`

// runPython runs a program in a directory without a jail, with the hashes of one seed.
func runPython(t *testing.T, dir, program string) string {
	t.Helper()
	cmd := exec.Command("python3", "-c", program)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONHASHSEED=0", "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("outside: %v\n%s", err, out)
	}
	return string(out)
}

// withoutTimes replaces the times of directories, which depend on when they changed.
func withoutTimes(text string) string {
	var list []string
	for line := range strings.Lines(text) {
		f := strings.Split(line, " ")
		for i := range f {
			if strings.HasPrefix(f[i], "1") && len(f[i]) == 19 && f[i] != "1000000000000000000" {
				f[i] = "now"
			}
		}
		list = append(list, strings.Join(f, " "))
	}
	return strings.Join(list, "")
}

// onlyResults returns the lines with results of renames.
func onlyResults(text string) string {
	var list []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, " moved") || strings.Contains(line, " E") {
			list = append(list, line)
		}
	}
	return strings.Join(list, "")
}

// describeApplied describes what golem applies: no extended attributes of new files, and no
// set-ID bits.
func describeApplied(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", "cd "+dir+` && find . -printf '%P %m %y %l\n' | sed -E 's/ [0-7]([0-7]{3} [a-z])/ \1/' | sort && find . -type f -exec cksum {} + | sort`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// differentLines lists the lines that only one of two texts has.
func differentLines(got, want string) string {
	var list []string
	for _, side := range [][3]string{{got, want, "got  "}, {want, got, "want "}} {
		has := slices.Collect(strings.Lines(side[1]))
		for line := range strings.Lines(side[0]) {
			if !slices.Contains(has, line) {
				list = append(list, side[2]+line)
			}
		}
	}
	return strings.Join(list, "")
}

// pythonCommand returns the command for a program in the jail.
func pythonCommand(program string, args ...string) jail.Command {
	return jail.Command{Path: "/usr/bin/env", Args: append([]string{"env", "PYTHONHASHSEED=0", "python3", "-c", program}, args...), Dir: jail.Work}
}

// keptOverlay makes a session with an overlay of a directory the directories of a policy.
func keptOverlay(t *testing.T, p *jail.Policy, work, state string) *changes.Overlays {
	t.Helper()
	over := changes.Directory{Host: sandbox.Host(work), Target: "/"}
	k, err := changes.Open(sandbox.Host(state), []changes.Directory{over}, p.Network)
	check(t, err)
	t.Cleanup(func() { k.Close() })
	useOverlays(t, p, k, over)
	return k
}

func useOverlays(t *testing.T, p *jail.Policy, k *changes.Overlays, over changes.Directory) {
	t.Helper()
	f, err := k.OpenDirectory(over)
	check(t, err)
	b, err := sandbox.DirAt(f, sandbox.Traits{Host: over.Host, Through: k.Path(over)})
	check(t, err)
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: b, Access: sandbox.ReadWrite}}})
	check(t, err)
	p.Mounts, err = jail.MountsOf(s)
	check(t, err)
	p.Overlays = k
}

// openTempDir is t.TempDir for a directory in which the test leaves closed directories.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { exec.Command("chmod", "-R", "u+w", dir).Run() })
	return dir
}

// renameKinds are the ways in which commands write a directory, by name.
var renameKinds = map[string]func(t *testing.T, p *jail.Policy, work string){
	"rw": func(t *testing.T, p *jail.Policy, work string) {
		p.Mounts = []jail.Mount{{Source: sandbox.Host(work), Target: jail.Work, Write: true}}
	},
	"transaction": func(t *testing.T, p *jail.Policy, work string) {
		p.Mounts = []jail.Mount{{Source: sandbox.Host(work), Target: jail.Work, Write: true}}
		p.Recorder = changes.Recorder{Dir: sandbox.Host(openTempDir(t))}
	},
	"transaction with the network": func(t *testing.T, p *jail.Policy, work string) {
		p.Mounts, p.Network = []jail.Mount{{Source: sandbox.Host(work), Target: jail.Work, Write: true}}, true
		p.Recorder = changes.Recorder{Dir: sandbox.Host(openTempDir(t))}
	},
	"overlay": func(t *testing.T, p *jail.Policy, work string) { keptOverlay(t, p, work, openTempDir(t)) },
	"copy": func(t *testing.T, p *jail.Policy, work string) {
		over := changes.Directory{Host: sandbox.Host(work), Target: "/"}
		k, _, err := changes.OpenCopies(sandbox.Host(openTempDir(t)), []changes.Directory{over}, changes.CopyOptions{})
		check(t, err)
		t.Cleanup(func() { k.Close() })
		useOverlays(t, p, k, over)
	},
}

// TestRenameDirectory runs the same program in each kind of jail and without one. The
// results, the tree and the tree after applying the changes must be the same.
func TestRenameDirectory(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		plain := openTempDir(t)
		sh(t, plain, renameTree)
		want := withoutTimes(runPython(t, plain, renameProgram))
		for _, name := range slices.Sorted(maps.Keys(renameKinds)) {
			t.Run(name, func(t *testing.T) {
				work := openTempDir(t)
				sh(t, work, renameTree)
				p := jail.Policy{Least: jail.Namespaces}
				renameKinds[name](t, &p, work)
				s, err := jail.Start(p, time.Now)
				check(t, err)
				defer s.Close()
				r, err := changes.Finish(s.Run(context.Background(), pythonCommand(renameProgram)))
				check(t, err)
				got, want := withoutTimes(string(r.Stdout.Head)+string(r.Stderr.Head)), want
				if name == "copy" { // it lacks attributes and the times of symlinks
					got, want = onlyResults(got), onlyResults(want)
				}
				if r.Code != 0 || got != want {
					t.Errorf("code %d\n%s", r.Code, differentLines(got, want))
				}
				if p.Recorder == nil {
					return
				}
				clash, err := r.Changed.Apply(nil)
				if err != nil || clash != nil {
					t.Fatal(clash, err)
				}
				if got, want := describeApplied(t, work), describeApplied(t, plain); got != want {
					t.Errorf("after the apply:\n%s", differentLines(got, want))
				}
			})
		}
	})
}

// TestRenameDirectoryRefused checks that the jail moves no directory for a command that
// could not move it itself: one with a mount in it, one of a command with its own Landlock
// rules, and one in a read-only directory. The directory stays as it was.
func TestRenameDirectoryRefused(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		work, only := t.TempDir(), t.TempDir()
		for _, dir := range []string{work, only} {
			sh(t, dir, "mkdir -p a/hidden a/b/fixed plain/x; echo 1 > a/hidden/secret; echo 2 > a/b/fixed/f; echo 3 > plain/x/y")
		}
		layers := t.TempDir()
		s, err := jail.Start(jail.Policy{Least: jail.Namespaces, Recorder: changes.Recorder{Dir: sandbox.Host(layers)}, Mounts: []jail.Mount{
			{Source: sandbox.Host(work), Target: jail.Work, Write: true},
			{Target: jail.Work + "/a/hidden"},
			{Source: sandbox.Host(work + "/a/b/fixed"), Target: jail.Work + "/a/b/fixed"},
			{Source: sandbox.Host(only), Target: "/only"},
		}}, time.Now)
		check(t, err)
		defer s.Close()
		run := func(program string) string {
			t.Helper()
			r, err := changes.Finish(s.Run(context.Background(), pythonCommand(renamePrelude+program)))
			check(t, err)
			if r.Changed != nil {
				check(t, r.Changed.Discard())
			}
			return strings.TrimSpace(string(r.Stdout.Head) + string(r.Stderr.Head))
		}
		all := `; print(names("."), [n for n in names(".") if ".golem" in n])`
		before := run(`print()` + all)
		for program, want := range map[string]string{
			`print(rename("a", "z"), rename("a/b", "z"))`:                                                 "EXDEV EXDEV",
			`print(rename("a/hidden", "z"), rename("a/b/fixed", "z"))`:                                    "EBUSY EBUSY",
			`print(rename("/only/a", "/only/z"), rename("/only/plain", "z"), rename("plain", "/only/z"))`: "EROFS EXDEV EXDEV",
			`print(rename("/usr/lib", "/usr/z"), rename("plain", "/tmp/z"))`:                              "EROFS EXDEV",
			`print(rename2("plain", "a", 2))`:                                                             "EXDEV",
			// A ruleset that allows everything but making symlinks.
			`
attr = (ctypes.c_uint64 * 1)(1 << 12)
fd = libc.syscall(444, attr, 8, 0)
libc.prctl(38, 1, 0, 0, 0)
print(fd > 0, libc.syscall(446, fd, 0), rename("plain", "z"))`: "True 0 EXDEV",
		} {
			got := run(program + "\nprint()" + all)
			if want := want + "\n\n" + before; got != want {
				t.Errorf("%s\ngot  %s\nwant %s", program, got, want)
			}
		}
		if got, want := run(`print(rename("plain", "z"))`), "moved"; got != want {
			t.Errorf("a plain directory: got %s, want %s", got, want)
		}
	})
}

// manyFiles makes a directory with enough files that a move of it can be interrupted.
const manyFiles = `for i in $(seq 0 19); do mkdir -p src/$i; for j in $(seq 0 29); do echo "$i $j" > src/$i/$j; done; done`

// renameRounds is how often a test interrupts a move.
var renameRounds = testutil.Rounds(8)

// isWhole is Python that tells whether one of two names has all files and the other does
// not exist.
const isWhole = `
def state(src, lib):
    full = lambda top: len(names(top)) == 20 * 31
    return [n for n in os.listdir(".") if ".golem" in n] == [] and (full(src) and not os.path.exists(lib) or full(lib) and not os.path.exists(src))
`

// TestRenameDirectoryInterrupted kills and signals processes that move a directory. The
// directory must be complete at one of its names, and nothing else is left.
func TestRenameDirectoryInterrupted(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		work := t.TempDir()
		sh(t, work, manyFiles+fmt.Sprintf("; for i in $(seq 1 %d); do cp -r src $i; done; mv src 0", renameRounds+3))
		p := jail.Policy{Least: jail.Namespaces}
		keptOverlay(t, &p, work, t.TempDir())
		s, err := jail.Start(p, time.Now)
		check(t, err)
		defer s.Close()
		program := renamePrelude + isWhole + `
import random
start = time.time(); results = {rename("0", "x0")}; took = time.time() - start
count = int(sys.argv[1])
for i in range(1, count):
    src, lib = str(i), "x%d" % i
    child = os.fork()
    if child == 0:
        rename(src, lib); os._exit(0)
    time.sleep(random.random() * took)
    os.kill(child, signal.SIGKILL); os.waitpid(child, 0)
    for _ in range(3000): # the jail may still be at work
        if state(src, lib): break
        time.sleep(0.01)
    else:
        print("killed:", len(names(src)), len(names(lib)), os.listdir("."))
hits = 0
def hit(*a):
    global hits; hits += 1
signal.signal(signal.SIGALRM, hit); signal.siginterrupt(signal.SIGALRM, True); signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
for i in range(count, count + 3):
    result = "EINTR"
    while result == "EINTR": # a signal came before the jail had the call
        result = rename(str(i), "x%d" % i)
    results.add(result)
signal.setitimer(signal.ITIMER_REAL, 0)
print([i for i in range(count, count + 3) if not state(str(i), "x%d" % i)], results, hits > 0)
`
		r, err := s.Run(context.Background(), pythonCommand(program, fmt.Sprint(renameRounds)))
		check(t, err)
		if got, want := string(r.Stdout.Head)+string(r.Stderr.Head), "[] {'moved'} True\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestRenameDirectoryJailKilled kills the jail while it moves a directory of a session.
// Every file is still in the session, golem lists no unfinished copy, and the next golem
// removes it.
func TestRenameDirectoryJailKilled(t *testing.T) {
	if os.Geteuid() != 0 {
		return // an ordinary user cannot see the processes of the jail
	}
	seen := map[string]int{}
	for i := range testutil.Rounds(4) {
		work, state := t.TempDir(), t.TempDir()
		sh(t, work, manyFiles)
		p := jail.Policy{Least: jail.Namespaces}
		k := keptOverlay(t, &p, work, state)
		s, err := jail.Start(p, time.Now)
		check(t, err)
		mark := fmt.Sprintf("mark-%d-%d", os.Getpid(), i)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(context.Background(), pythonCommand(renamePrelude+`open("began", "w"); print(rename("src", "lib"))`, mark))
		}()
		upper, err := filepath.Glob(state + "/*/upper")
		check(t, err)
		if len(upper) != 1 {
			t.Fatal(upper)
		}
		for !exists(upper[0] + "/began") {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(i) * 25 * time.Millisecond)
		if pid := parentOf(mark); pid > 0 {
			unix.Kill(pid, unix.SIGKILL)
		}
		<-ended
		s.Close()
		check(t, k.Close())
		left, _ := filepath.Glob(upper[0] + "/" + overlay.UnfinishedPrefix + "*")
		seen[fmt.Sprint("unfinished copies: ", len(left))]++
		o := overlay.Overlay{Dir: work, Store: filepath.Dir(upper[0])}
		list, err := o.SessionChanges()
		check(t, err)
		for _, c := range list {
			if strings.Contains(c.Path, overlay.UnfinishedPrefix) {
				t.Errorf("the changes have %s", c.Path)
			}
		}
		again := jail.Policy{Least: jail.Namespaces}
		keptOverlay(t, &again, work, state)
		if s, err = jail.Start(again, time.Now); err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(context.Background(), pythonCommand(renamePrelude+`
both = set(names("src")) | set(names("lib"))
whole = [n for n in ("src", "lib") if len(names(n)) == 20 * 31]
print(len(both) == 20 * 31, whole != [], [n for n in names(".") if ".golem" in n])`))
		check(t, err)
		if got, want := string(r.Stdout.Head)+string(r.Stderr.Head), "True True []\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		s.Close()
	}
	t.Log(seen)
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// TestRenameDirectoryFullDisk moves directories while the disk has room for less and less.
// If the call fails, the directory is as it was.
func TestRenameDirectoryFullDisk(t *testing.T) {
	if !testutil.Mounts(t) {
		return
	}
	d := newDisk(t)
	work := t.TempDir()
	sh(t, work, manyFiles)
	results := map[string]int{}
	for _, left := range [][2]uint64{{10, plenty}, {300, plenty}, {plenty, 30}, {plenty, 630}, {plenty, 650}, {plenty, 680}, {plenty, plenty}} {
		layers := d.dir + fmt.Sprintf("/%d-%d", left[0], left[1])
		check(t, os.Mkdir(layers, 0o755))
		d.leave(plenty, plenty)
		s, err := sessionOver(work, layers)
		check(t, err)
		r, err := s.Run(context.Background(), jail.Shell("true"))
		check(t, err)
		_, err = changes.Finish(r, nil)
		check(t, err)
		d.leave(left[0], left[1])
		r, err = s.Run(context.Background(), pythonCommand(renamePrelude+isWhole+`
result = rename("src", "lib")
print(result, state("src", "lib") and os.path.exists("lib") == (result == "moved"))`))
		check(t, err)
		got := strings.TrimSpace(string(r.Stdout.Head) + string(r.Stderr.Head))
		results[got]++
		if got != "moved True" && got != "ENOSPC True" {
			t.Errorf("room for %d pages and %d files: %s", left[0], left[1], got)
		}
		d.leave(plenty, plenty)
		check(t, s.Close())
		check(t, os.RemoveAll(layers))
	}
	if results["moved True"] == 0 || results["ENOSPC True"] == 0 {
		t.Errorf("got %v", results)
	}
}
