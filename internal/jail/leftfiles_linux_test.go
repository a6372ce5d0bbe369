package jail_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
)

// A leftFile is something that a command leaves for the host, as in threats.md.
type leftFile struct {
	name, line string
	unfit      bool                                 // golem must apply none of the changes
	check      func(t *testing.T, dir, host string) // checks the directory and the files next to it
}

// leftFiles returns the files that commands try to leave. The directory has a file f, a
// hard link hard to a file outside, a setuid file suid, and a directory sub/deep with a
// file.
func leftFiles() []leftFile {
	lines := func(want ...string) func(*testing.T, string, string) {
		return func(t *testing.T, dir, _ string) {
			t.Helper()
			got := describeDir(t, dir, false)
			for _, line := range want {
				if !strings.Contains(got, line+"\n") {
					t.Errorf("no %q in\n%s", line, got)
				}
			}
		}
	}
	only := func(names ...string) func(*testing.T, string, string) {
		return func(t *testing.T, dir, _ string) {
			t.Helper()
			entries, err := os.ReadDir(dir)
			check(t, err)
			var got []string
			for _, e := range entries {
				got = append(got, e.Name())
			}
			if want := append([]string{}, names...); strings.Join(got, "\x00") != strings.Join(want, "\x00") {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	return []leftFile{
		{name: "P15 P17 P18 P19 links", line: `ln -s /etc/shadow l; ln -s ../outside/f out; ln -s loop loop; ln -s ../../../.. up; ln -s nowhere/new dangling; echo x > dangling 2>/dev/null; rm -r sub; ln -s ../outside sub`,
			check: lines(`/l 120777 "/etc/shadow" ""`, `/out 120777 "../outside/f" ""`, `/loop 120777 "loop" ""`, `/sub 120777 "../outside" ""`)},
		{name: "P24 a hard link with a name outside", line: `echo evil >> hard; ln hard again; echo evil >> again; chmod 600 again`, check: lines(`/again 100600 "outside\nevil\nevil\n" ""`)},
		{name: "P26 magic links", line: `ln -s /proc/self/root r; ln -s /proc/self/fd/3 fd; ln -s /proc/1/cwd c; mkdir d; ln -s /proc/self/root d/r`,
			check: lines(`/r 120777 "/proc/self/root" ""`, `/d/r 120777 "/proc/self/root" ""`)},
		{name: "P27 pipes and sockets", line: `mkfifo p; mkdir d; mkfifo d/p; rm f; mkfifo f; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")'`,
			check: func(t *testing.T, dir, host string) {
				only("d", "f", "hard", "sub", "suid")(t, dir, host)
				lines(`/f 100644 "own\n" ""`)(t, dir, host)
			}},
		{name: "S26 devices", line: `for d in 'c 1 3' 'c 0 0' 'b 7 0' 'c 5 0' 'b 254 0'; do mknod "x$d" $d; mkdir -p n; mknod "n/x$d" $d; done 2>/dev/null; true`, check: only("f", "hard", "n", "sub", "suid")},
		{name: "P31 S29 bits by which a file runs as another", line: `cp /bin/true su; chmod 4755 su; chmod 2755 su; chmod u+s su; chmod 1777 sub; cp -p suid copy; cp -rp suid sub/copy; install -m 6755 su in; echo x >> suid; mkdir -m 7777 d; python3 -c '
import os
os.close(os.open("o", os.O_CREAT, 0o6755)); os.mkdir("e", 0o3777); os.mkdir("n"); os.close(os.open("n/o", os.O_CREAT, 0o4755))' ; true`,
			check: func(t *testing.T, dir, _ string) {
				check(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
					if err != nil {
						return err
					}
					info, err := d.Info()
					if err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
						t.Errorf("%s has %v", name, info.Mode())
					}
					return err
				}))
				lines(`/suid 100755 "own\nx\n" ""`)(t, dir, "")
			}},
		{name: "P39 names", line: `for n in "$(printf 'a\nb')" "$(printf '\033[2K')" -rf ' ' 'x"y' '\' '<img>' "$(printf '\342\200\256gpj')" ... moves landed upper .golem-landing-x '*' "$(printf 'new\n\nline')"; do echo "$n" > "./$n"; done; mkdir "$(printf 'd\nx')"; echo x > "$(printf 'd\nx/\t')"; mv f "$(printf 'f\r')"`,
			check: lines(`/a
b 100644 "a\nb\n" ""`, "/\x1b[2K 100644 \"\\x1b[2K\\n\" \"\"", `/-rf 100644 "-rf\n" ""`, `/\ 100644 "\\\n" ""`, `/moves 100644 "moves\n" ""`, "/f\r 100644 \"own\\n\" \"\"", "/d\nx/\t 100644 \"x\\n\" \"\"")},
		{name: "names that are no text", line: `echo x > kept; echo x > "$(printf 'a\377')"`, unfit: true},
		// A depth of 100,000 makes no difference, but takes half a minute here.
		{name: "a folder too deep for a name", line: `echo x > kept; python3 -c '
import os
top, end = os.open(".", os.O_RDONLY), None
for i in range(10): # what is deep is slow: pieces are put together
	os.fchdir(top); os.mkdir("piece"); os.chdir("piece")
	for _ in range(249): os.mkdir("d"); os.chdir("d")
	here = os.open(".", os.O_RDONLY)
	if end: os.rename("piece", "d", src_dir_fd=top, dst_dir_fd=end); os.close(end)
	else: os.rename("piece", "deep", src_dir_fd=top, dst_dir_fd=top)
	end = here'`, unfit: true},
		{name: "as deep as names go", line: `python3 -c '
import os
for _ in range(1900): os.mkdir("d"); os.chdir("d")
open("f", "w")'`, check: only("d", "f", "hard", "sub", "suid")},
		{name: "S04 moved parents", line: `mv sub was; mkdir -p sub/deep; echo evil > sub/deep/g; mv was/deep/g was/g; mkdir t; mv sub t/; mv was sub; mv sub/deep ../work/t/other`,
			check: lines(`/sub/g 100644 "deep\n" ""`, `/t/sub/deep/g 100644 "evil\n" ""`)},
		{name: "folders that nobody can enter", line: `mkdir -p n/m; echo x > n/m/f; chmod 000 n/m/f n/m n f`, check: func(t *testing.T, dir, _ string) {
			for _, name := range []string{"/n", "/f"} {
				if info, err := os.Lstat(dir + name); err != nil || info.Mode().Perm() != 0 {
					t.Errorf("%s: %v, %v", name, info, err)
				}
			}
		}},
		{name: "marks of the kernel's own", line: `mkdir n; python3 -c '
import os
for f in "n", "sub", "f":
	for a in "opaque", "origin", "redirect", "metacopy", "impure", "whiteout", "overlay.opaque":
		try: os.setxattr(f, "user.overlay." + a, b"y")
		except OSError: pass
	try: os.setxattr(f, "user.planted", b"x")
	except OSError: pass'; echo x >> f; echo x > sub/x`, check: lines(`/n 40755 "" ""`, `/f 100644 "own\nx\n" ""`, `/sub 40755 "" ""`, `/sub/deep/g 100644 "deep\n" ""`)},
		{name: "P29 large and empty", line: `truncate -s 900M big; truncate -s 900M f`, check: func(t *testing.T, dir, _ string) {
			for _, name := range []string{"/big", "/f"} {
				var st unix.Stat_t
				check(t, unix.Stat(dir+name, &st))
				if st.Size != 900<<20 || st.Blocks > 100 {
					t.Errorf("%s has %d bytes in %d blocks", name, st.Size, st.Blocks)
				}
			}
		}},
		{name: "nothing at all", line: `rm -rf ./* ; touch f hard; cp f sub; mkdir -p sub; rm -r sub; true`, check: only("f", "hard")},
	}
}

// TestLeftFiles checks that golem applies only plain files, directories and symlinks, and
// only where the command made them. Files next to the directory stay as they are, and
// applied changes can be undone to the byte.
func TestLeftFiles(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		host := t.TempDir()
		g := &ground{t: t, work: host + "/work", layers: t.TempDir()}
		sh(t, host, `umask 022; mkdir -p work/sub/deep outside/deep; echo outside > outside/f; echo outside > outside/deep/g; ln outside/f work/hard; echo own > work/f; echo deep > work/sub/deep/g; echo own > work/suid; chmod 4755 work/suid`)
		s := g.session()
		defer s.Close()
		g.exact = describeDir(t, g.work, true)
		outside := describeDir(t, host+"/outside", true)
		for _, l := range leftFiles() {
			r, err := changes.Finish(s.Run(context.Background(), jail.Shell("umask 022\n"+l.line)))
			if err != nil || r.Changed == nil {
				t.Fatalf("%s: %v, %s", l.name, err, r.Stderr.Head)
			}
			if l.unfit != (r.Changed.Unfit != "") {
				t.Errorf("%s: unfit: %q", l.name, r.Changed.Unfit)
			}
			if l.unfit {
				check(t, r.Changed.Discard())
				g.checkRestored(l.name)
				continue
			}
			if clash, err := r.Changed.Apply(nil); err != nil || clash != nil {
				t.Errorf("%s: %v, %v", l.name, clash, err)
				check(t, r.Changed.Discard())
				continue
			}
			t.Run(l.name, func(t *testing.T) { l.check(t, g.work, host) })
			if got := describeDir(t, host+"/outside", true); got != outside {
				t.Errorf("%s: the outside directory is\n%s", l.name, got)
			}
			g.undo(l.name)
		}
		check(t, s.Close())
		g.checkClean("at last")
	})
}
