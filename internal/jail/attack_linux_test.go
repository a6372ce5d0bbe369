package jail_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
	"golang.org/x/sys/unix"
)

// An attack is something that a hostile command tries, with its number in threats.md.
// Attacks on limits (S21, S22, S24 and the loops of S38) are with the tests of limits.
//
// These tests do not cover directories of the host that commands write directly. They do
// not check that protected names stay as they are (S03, S04, S06), that no file is
// planted for the host to run (S30), and that a named pipe there leads nowhere.
type attack struct {
	name string
	try  func(*testing.T, *attackEnv)
}

// TestAttacks tries all attacks as the user that runs the tests, at the level namespaces.
// TestAttacksAsUser runs it again as an ordinary user, and TestAttacksBare as both at the
// level landlock. Attacks that lostBare names are not tried there.
func TestAttacks(t *testing.T) {
	lost := map[string]string{}
	if levelHere() == jail.Landlock {
		lost = lostBare()
	}
	self := copyOfSelf(t, t.TempDir())
	for _, list := range [][]attack{fileAttacks(), wayAttacks(), powerAttacks(), cellAttacks(), bareAttacks(), outletAttacks()} {
		for _, a := range list {
			if loss, is := lost[a.name]; is {
				if !slices.Contains(jail.Losses(jail.Landlock), loss) {
					t.Errorf("%s is not tried, and Loses does not have %q", a.name, loss)
				}
				continue
			}
			t.Run(a.name, func(t *testing.T) {
				y := newAttackEnv(t, self)
				y.gvisor = y.level == jail.Container && slices.Contains(answeredByGVisor(), a.name)
				a.try(t, y)
			})
		}
	}
}

// answeredByGVisor returns the attacks on a kernel. At the level container that is gVisor's,
// which answers many of them as if they had worked. Nothing outside of the command changes,
// and the tests check only that.
func answeredByGVisor() []string {
	return []string{"the kernel cannot be set", "S07 kinds of sockets", "S18 typing into a terminal", "S14 S17 S25 S28 system calls", "S14 calls of another architecture", "S17 the cell itself",
		"S17 limits of the cell", "S25 shells and tools", "S26 devices", "S28 S38 powers of root", "S17 a command that ends its own cell", "what a file is besides its content", "the program that made a connection"}
}

// copyOfSelf copies the test program to a directory that can be mounted for commands.
func copyOfSelf(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	data, err := os.ReadFile(self)
	check(t, err)
	name := filepath.Join(dir, "probe")
	check(t, os.WriteFile(name, data, 0o755))
	check(t, os.Chmod(name, 0o755))
	return name
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An attackEnv is the environment of an attack: directories that commands see, and one outside
// that they must neither read nor change.
type attackEnv struct {
	t       *testing.T
	level   jail.Level
	gvisor  bool   // the answers are those of gVisor's kernel, and only effects on the host count
	host    string // the name of the directory that contains all of them
	outside string
	in      string // at /in, read-only
	work    string // at /work, writable
	canary  string // a secret that no command may see
	policy  jail.Policy
	session *jail.Jail
	was     string // the state of the outside before the attack
}

func newAttackEnv(t *testing.T, self string) *attackEnv {
	y := &attackEnv{t: t, level: levelHere(), host: filepath.Join(t.TempDir(), "hostfolder"), canary: "canary" + rand.Text()}
	y.outside, y.in, y.work = y.host+"/outside", y.host+"/in", y.host+"/work"
	for _, dir := range []string{y.outside + "/.ssh", y.outside + "/.config/autostart", y.outside + "/bin", y.in + "/sub", y.work} {
		check(t, os.MkdirAll(dir, 0o755))
	}
	for _, name := range []string{"/.ssh/id_ed25519", "/.netrc", "/.bashrc", "/.config/autostart/x", "/bin/git"} {
		check(t, os.WriteFile(y.outside+name, []byte(y.canary), 0o644))
	}
	check(t, os.WriteFile(y.in+"/sub/file", []byte("to be read\n"), 0o644))
	check(t, os.WriteFile(y.work+"/file", []byte("to be written\n"), 0o644))
	y.policy = jail.Policy{Mounts: []jail.Mount{
		{Source: sandbox.Host(y.in), Target: "/in"},
		{Source: sandbox.Host(filepath.Dir(self)), Target: "/probe"},
		{Source: sandbox.Host(y.work), Target: jail.Work, Write: true},
	}, Least: levelHere(), Runsc: sandbox.Host(os.Getenv(testutil.RunscEnv))}
	y.was = y.describe()
	t.Cleanup(func() {
		if y.session != nil {
			y.session.Close()
		}
		if got := y.describe(); got != y.was {
			t.Errorf("the outside directory is\n%s, was\n%s", got, y.was)
		}
	})
	return y
}

// describe describes everything that must not change.
func (y *attackEnv) describe() string {
	var b strings.Builder
	for _, dir := range []string{y.outside, y.in} {
		check(y.t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(name, &st); err != nil {
				return err
			}
			var data []byte
			if d.Type().IsRegular() {
				data, err = os.ReadFile(name)
			}
			fmt.Fprintln(&b, strings.TrimPrefix(name, y.host), st.Mode, st.Uid, st.Gid, st.Nlink, st.Mtim, st.Ctim, string(data))
			return err
		}))
	}
	return b.String()
}

// try runs a command and checks that it learned no secret.
func (y *attackEnv) try(c jail.Command) (jail.Result, string) {
	y.t.Helper()
	if y.session == nil {
		s, err := jail.Start(y.policy, time.Now)
		check(y.t, err)
		y.session = s
	}
	r, err := y.run(c)
	if err != nil {
		y.t.Fatalf("run %q: %v", c.Args, err)
	}
	if r.Level != y.level {
		y.t.Errorf("level %v, want %v", r.Level, y.level)
	}
	return r, y.outputOf(r)
}

// run runs a command with the names that directories have for it.
func (y *attackEnv) run(c jail.Command) (jail.Result, error) {
	if y.bare() {
		c.Path, c.Args = y.names(c.Path), slices.Clone(c.Args)
		for i := range c.Args {
			c.Args[i] = y.names(c.Args[i])
		}
	}
	return y.session.Run(context.Background(), c)
}

// outputOf returns what a command printed.
func (y *attackEnv) outputOf(r jail.Result) string {
	y.t.Helper()
	if r.Stdout.Hidden+r.Stderr.Hidden > 0 {
		y.t.Fatal("too much output to check")
	}
	out := string(slices.Concat(r.Stdout.Head, r.Stdout.Tail, r.Stderr.Head, r.Stderr.Tail))
	if strings.Contains(out, y.canary) {
		y.t.Errorf("the canary was revealed:\n%s", out)
	}
	return out
}

// sh runs a line of shell, and returns everything that it printed.
func (y *attackEnv) sh(line string, args ...any) string {
	y.t.Helper()
	_, out := y.try(jail.Shell(fmt.Sprintf(line, args...)))
	return out
}

// probe runs this program with a word, in the jail.
func (y *attackEnv) probe(word string, args ...string) (jail.Result, string) {
	y.t.Helper()
	return y.try(probeCommand(word, args...))
}

func probeCommand(word string, args ...string) jail.Command {
	return jail.Command{Path: "/probe/probe", Args: append([]string{"probe"}, args...), Env: []string{probeWord + "=" + word}, Dir: jail.Work}
}

// answers checks that a probe printed so many lines, and that each line ends in one of
// the wanted words.
func (y *attackEnv) answers(out string, lines int, want ...string) {
	y.t.Helper()
	if y.gvisor {
		return
	}
	n := 0
	for line := range strings.Lines(out) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || !slices.Contains(want, words[len(words)-1]) {
			y.t.Errorf("got %q, want one of %v", strings.TrimSpace(line), want)
		}
	}
	if n != lines {
		y.t.Errorf("got %d answers, want %d:\n%s", n, lines, out)
	}
}

// is compares the complete output.
func (y *attackEnv) is(got, want string) {
	y.t.Helper()
	if got != want && !y.gvisor {
		y.t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// sys returns the line of a list for the directory that gVisor's kernel adds to the root.
func (y *attackEnv) sys() string {
	if y.level == jail.Container {
		return "sys\n"
	}
	return ""
}

// fileAttacks try to reach files that commands do not see.
func fileAttacks() []attack {
	return []attack{
		{"S01 read secrets", func(t *testing.T, y *attackEnv) {
			check(t, os.Symlink(y.outside, y.work+"/link"))
			check(t, os.Symlink(y.outside+"/.netrc", y.in+"/sub/link"))
			y.was = y.describe()
			out := y.sh(`for f in .ssh/id_ed25519 .netrc; do cat %[1]s/$f /proc/1/root%[1]s/$f /proc/1/cwd%[1]s/$f /work/link/$f; done; cat /in/sub/link /work/../../../../%[1]s/.netrc`, y.outside)
			if got := strings.Count(out, "No such file") + strings.Count(out, "Permission denied"); got != 10 {
				t.Errorf("got %d refusals, want 10:\n%s", got, out)
			}
			if y.bare() {
				y.is(y.sh(`(ls -A / /run /tmp /var /var/tmp /root /home /etc /proc /sys /dev /boot; find / -type f) 2>/dev/null; true`), "")
				y.is(y.sh(`for f in shadow gshadow sudoers sudoers.d ssh machine-id fstab crypttab krb5.keytab ssl/private pki/tls/private NetworkManager environment; do (cat /etc/$f || ls -A /etc/$f/) 2>/dev/null; done; true`), "")
				return
			}
			y.is(y.sh(`ls -A /`), "bin\ndev\netc\nin\n"+libs()+"probe\nproc\nrun\nsbin\n"+y.sys()+"tmp\nusr\nvar\nwork\n")
			y.is(y.sh(`ls -A /run /tmp /var /var/tmp/`), "/run:\nlock\nmysqld\npostgresql\n\n/tmp:\n\n/var:\nrun\ntmp\n\n/var/tmp/:\n")
			y.is(y.sh(`for f in shadow gshadow sudoers sudoers.d ssh machine-id fstab crypttab krb5.keytab ssl/private pki/tls/private NetworkManager environment; do test -e /etc/$f && echo $f; done; true`), "")
			y.is(y.sh(`find / -xdev -type f -perm /0400 ! -perm /0004 2>/dev/null; find /etc -type f ! -perm /0004 2>/dev/null; true`), "")
		}},
		{"S01 tree cannot be changed", func(t *testing.T, y *attackEnv) {
			out := y.sh(`for f in / /etc /usr /usr/local/bin /bin/ /var /run /dev /proc /in /in/sub; do touch $f/%s; done`, y.canary[:9])
			for _, dir := range []string{"/", "/etc", "/usr", "/usr/local/bin", "/usr/bin", "/var", "/run", "/dev"} {
				if name := filepath.Join(dir, y.canary[:9]); os.Remove(name) == nil {
					t.Errorf("%s was created on the host", name)
				}
			}
			want := 11
			if !y.bare() {
				want-- // /run is the command's own
			}
			if y.level == jail.Container && os.Geteuid() == 0 {
				want-- // so is /dev
			}
			if got := strings.Count(out, "touch: "); got != want || strings.Count(out, "Read-only file system")+strings.Count(out, "No such file")+strings.Count(out, "Permission denied") != want {
				t.Errorf("got\n%s", out)
			}
		}},
		{"S02 start-up files and folders of programs", func(t *testing.T, y *attackEnv) {
			y.sh(`echo x >> ~/.bashrc; echo x >> ~/.profile; mkdir -p ~/.config/autostart ~/.local/bin; echo x > ~/.local/bin/git; echo x >> %[1]s/.bashrc; echo x > %[1]s/bin/git; echo x > /usr/local/bin/%[2]s; echo x > /etc/profile.d/%[2]s; mkdir -p /etc/cron.d /var/spool/cron; crontab -l; true`, y.outside, y.canary[:9])
			for _, dir := range []string{"/usr/local/bin/", "/etc/profile.d/"} {
				if name := dir + y.canary[:9]; os.Remove(name) == nil {
					t.Errorf("%s was created on the host", name)
				}
			}
			if y.bare() {
				y.is(y.sh(`echo $HOME; pwd`), y.temp()+"\n"+y.work+"\n")
				return
			}
			y.is(y.sh(`echo $HOME; pwd`), "/tmp\n/work\n")
		}},
		{"read-only folders stay as they are", func(t *testing.T, y *attackEnv) {
			out := y.sh(`cd /in/sub; echo x > file; echo x >> file; echo x > new; mkdir dir; rm file; mv file other; mv /in/sub /in/other; chmod 777 file; chown 0:0 file; touch file; ln file hard; ln file /work/hard; ln -s file soft; truncate -s 0 file; mknod fifo p; setfattr -n user.x -v y file 2>&1 || echo Read-only file system`)
			want := 16
			if y.level == jail.Container { // gVisor makes a named pipe that only this command sees, and changes no owner to the same one
				want = 13
			}
			if got := strings.Count(out, "Read-only file system") + strings.Count(out, "cross-device") + strings.Count(out, "Permission denied") + strings.Count(out, "Operation not permitted"); got < want {
				t.Errorf("got %d refusals, want %d:\n%s", got, want, out)
			}
			if _, err := os.Lstat(y.work + "/hard"); err == nil {
				t.Error("a read-only file got a writable name")
			}
			y.is(y.sh(`cat /in/sub/file`), "to be read\n")
		}},
		{"folders that may be written are", func(t *testing.T, y *attackEnv) {
			y.is(y.sh(`echo more >> file; mkdir -p a/b; echo x > a/b/c; mv a d; ln file hard; chmod 700 d 2>/dev/null; rm hard; cat file d/b/c`), "to be written\nmore\nx\n")
			data, err := os.ReadFile(y.work + "/d/b/c")
			check(t, err)
			y.is(string(data), "x\n")
		}},
		{"no host path is told", noHostPath},
		{"the kernel cannot be set", func(t *testing.T, y *attackEnv) {
			if y.bare() {
				names, _ := filepath.Glob("/proc/sys/*/*")
				more, _ := filepath.Glob("/proc/*[a-z]")
				check(t, os.WriteFile(y.work+"/names", []byte(strings.Join(append(names, more...), "\n")), 0o644))
				_, out := y.probe("writeproc", "/work/names")
				y.is(out, "tried true\n")
				y.is(y.sh(`(cat /proc/cpuinfo /proc/sys/kernel/hostname /proc/kcore /proc/keys /proc/mounts /sys/kernel/notes; ls /proc/sys /sys) 2>/dev/null; true`), "")
				return
			}
			_, out := y.probe("writeproc")
			y.is(out, "tried true\n")
			y.is(y.sh(`for f in kcore keys key-users kmsg kallsyms timer_list sched_debug sysrq-trigger swaps cmdline modules kpageflags iomem; do test -e /proc/$f && cat /proc/$f; done; ls -A /proc/acpi /proc/bus /proc/fs /proc/irq /proc/scsi /proc/driver 2>/dev/null | grep -v : | tr -d '\n'; true`), "")
			// Commands cannot write the replacements of the other files either.
			out = y.sh(`for f in bus fs irq cmdline swaps; do chmod 777 /proc/$f && echo changed; done 2>&1; echo x 2>/dev/null > /proc/bus/new && echo written`)
			if !y.gvisor && (strings.Contains(out, "changed") || strings.Contains(out, "written") || strings.Count(out, "chmod: ") != 5) {
				t.Errorf("got\n%s", out)
			}
			y.is(y.sh(`cat /proc/cpuinfo /proc/meminfo /proc/stat /proc/sys/vm/overcommit_memory | grep -c '^MemTotal\|^btime'`), "2\n")
		}},
	}
}

// libs returns the library directories in the root of this machine, as ls lists them
// between in and probe.
func libs() string {
	var b strings.Builder
	for _, name := range []string{"lib", "lib32", "lib64", "libx32"} {
		if _, err := os.Lstat("/" + name); err == nil {
			b.WriteString(name + "\n")
		}
	}
	return b.String()
}

// noHostPath reads everything that a command can learn about its environment. It must not
// contain the name of the top directory of the attackEnv, nor of the directory of this program.
func noHostPath(t *testing.T, y *attackEnv) {
	self, err := os.Executable()
	check(t, err)
	name, err := os.Hostname()
	check(t, err)
	y.policy.Limits.Output = 8 << 20
	everything := `cat /etc/* /etc/ssl/* /proc/self/environ; for p in 1 self; do for f in mountinfo mounts mountstats maps smaps cmdline environ cgroup stat status comm wchan auxv limits numa_maps; do cat /proc/$p/$f; done; done; cat /proc/net/* /proc/net/*/* /proc/sysvipc/* /proc/mounts; ls -l /proc/[0-9]*/ /proc/[0-9]*/fd /proc/[0-9]*/task/*; readlink /proc/[0-9]*/exe /proc/[0-9]*/cwd /proc/[0-9]*/root; hostname; cat /nowhere; /nowhere; cd /in; pwd -P; df; cat /proc/sys/kernel/hostname`
	secrets := []string{"hostfolder", filepath.Dir(self), filepath.Base(filepath.Dir(filepath.Dir(y.host))), "golem-"}
	told := func(out string, secrets ...string) {
		t.Helper()
		for line := range strings.Lines(out) {
			for _, s := range secrets {
				if strings.Contains(line, s) {
					t.Errorf("%q is told: %q", s, line)
				}
			}
		}
	}
	work := y.policy.Mounts[2]
	y.policy.Mounts = y.policy.Mounts[:2]
	out := y.sh("cd /; %s", everything)
	told(out, secrets...)
	if len(out) < 10_000 {
		t.Errorf("too little output to check:\n%s", out)
	}
	for line := range strings.Lines(y.sh("cd /; cat /proc/self/cgroup")) {
		if !strings.HasSuffix(line, ":/\n") {
			t.Errorf("cgroup: %q", line)
		}
	}
	y.is(y.sh("cd /; cat /proc/sys/kernel/hostname"), "golem\n")
	if name != "golem" && len(name) > 4 {
		told(out, name)
	}
	y.session.Close()
	y.session, y.policy.Mounts = nil, append(y.policy.Mounts, work)
	told(y.sh("%s", everything), secrets...)
	_, err = y.session.Run(context.Background(), jail.Command{Path: "/nowhere", Args: []string{"x"}, Dir: jail.Work})
	if err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("got %v, want an error that names the command", err)
	}
	told(fmt.Sprint(err), secrets...)
}

// wayAttacks try sockets, descriptors, variables and terminals.
func wayAttacks() []attack {
	// Either there is no such socket, or it is connected only to the other end of its
	// pair.
	noSocket := []string{"EAFNOSUPPORT", "ESOCKTNOSUPPORT", "EISCONN", "EPROTOTYPE", "ECONNREFUSED", "ENOENT"}
	return []attack{
		{"S07 network", func(t *testing.T, y *attackEnv) {
			e := newListeners(t)
			out := ""
			for _, a := range e.addresses {
				_, o := y.probe("dial", a[0], a[1])
				out += o
			}
			if strings.Contains(out, "tcp done") || strings.Count(out, "\n") != len(e.addresses) {
				t.Errorf("got\n%s", out)
			}
			y.sh(`getent hosts name.example; exec 3<>/dev/tcp/127.0.0.1/%s; true`, e.port)
			e.checkHeard(t, "")
			if !y.bare() {
				y.is(y.sh(`ls /etc/resolv.conf 2>&1 | wc -l; tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route`), "1\n    lo\n")
			}
			// With the network on, the same probe gets through, so the attack itself
			// works.
			y.session.Close()
			y.session, y.policy.Network = nil, true
			y.probe("dial", "tcp", e.addresses[0][1])
			e.checkHeard(t, "tcp out ")
		}},
		{"S07 kinds of sockets", func(t *testing.T, y *attackEnv) {
			pairs := fmt.Sprintf("pair %d %d\npair %d %d\n", unix.AF_UNIX, unix.SOCK_STREAM, unix.AF_UNIX, unix.SOCK_SEQPACKET)
			sockets := "socket 2 1\nsocket 2 2\nsocket 10 1\nsocket 10 2\nsocket 16 2\nsocket 16 3\nnetlink 0\n"
			for _, y.policy.Network = range []bool{false, true} {
				_, got := y.probe("families")
				want := pairs + sockets
				if y.bare() && !y.policy.Network {
					want = pairs // the level landlock has no loopback network
				}
				y.is(got, want)
				y.session.Close()
				y.session = nil
			}
		}},
		{"S12 unix sockets of the host", func(t *testing.T, y *attackEnv) {
			e := newListeners(t)
			var inside []string
			for _, dir := range []string{y.in, y.work, y.outside} {
				e.listen(t, "unix", dir+"/stream")
				e.listen(t, "unixpacket", dir+"/packet")
				e.listen(t, "unixgram", dir+"/gram")
				inside = append(inside, dir+"/stream", dir+"/packet", dir+"/gram")
			}
			y.was = y.describe()
			for _, dir := range []string{"/in", "/work"} {
				inside = append(inside, dir+"/stream", dir+"/packet", dir+"/gram")
			}
			_, out := y.probe("names", inside...)
			y.answers(out, len(inside)*7, noSocket...)
			e.checkHeard(t, "")
		}},
		{"S12 named pipes of the host", func(t *testing.T, y *attackEnv) {
			check(t, unix.Mkfifo(y.in+"/fifo", 0o666))
			check(t, os.Chmod(y.in+"/fifo", 0o666))
			y.was = y.describe()
			fd, err := unix.Open(y.in+"/fifo", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			check(t, err)
			defer unix.Close(fd)
			y.sh(`(timeout 0.2 sh -c 'echo out > /in/fifo' & timeout 0.2 sh -c 'echo out 1<> /in/fifo'; wait) 2>&1; true`)
			if n, _ := unix.Read(fd, make([]byte, 9)); n > 0 {
				t.Error("output of a command reached a pipe on the host")
			}
			if y.bare() {
				return // Loses says that it can be read
			}
			unix.Write(fd, []byte(y.canary))
			y.was = y.describe()
			y.sh(`timeout 0.2 head -c 6 /in/fifo; true`)
		}},
		{"S13 abstract sockets", func(t *testing.T, y *attackEnv) {
			e := newListeners(t)
			e.listen(t, "unix", "@"+y.canary+"s")
			e.listen(t, "unixpacket", "@"+y.canary+"p")
			e.listen(t, "unixgram", "@"+y.canary+"g")
			for _, y.policy.Network = range []bool{false, true} {
				_, out := y.probe("names", "@"+y.canary+"s", "@"+y.canary+"p", "@"+y.canary+"g")
				y.answers(out, 21, noSocket...)
				y.session.Close()
				y.session = nil
			}
			e.checkHeard(t, "")
		}},
		{"S15 inherited descriptors", func(t *testing.T, y *attackEnv) {
			for _, at := range []int{9, 57, 300} {
				fd, err := unix.Open(y.outside+"/.netrc", unix.O_RDONLY, 0) // open across exec
				check(t, err)
				check(t, unix.Dup3(fd, at+200, 0))
				dir, err := unix.Open(y.outside, unix.O_RDONLY|unix.O_DIRECTORY, 0)
				check(t, err)
				defer unix.Close(fd)
				defer unix.Close(at + 200)
				defer unix.Close(dir)
			}
			_, out := y.probe("descriptors")
			y.is(out, "")
			y.sh(`i=3; while [ $i -lt 600 ]; do cat /dev/fd/$i; i=$((i+1)); done 2>/dev/null; true`)
			// A descriptor of the cell must not work as a working directory.
			for fd := range 32 {
				c := jail.Shell("pwd -P; cat .netrc ../.netrc; ls")
				c.Dir = fmt.Sprintf("/proc/self/fd/%d", fd)
				r, err := y.session.Run(context.Background(), c)
				if err == nil && y.bare() {
					y.is(strings.SplitAfter(y.outputOf(r), "\n")[0], y.temp()+"\n")
				} else if err == nil {
					t.Errorf("a command used descriptor %d as its directory: %s", fd, y.outputOf(r))
				}
			}
		}},
		{"S16 environment", func(t *testing.T, y *attackEnv) {
			t.Setenv("AWS_SECRET_ACCESS_KEY", y.canary)
			t.Setenv("LD_PRELOAD_X", y.canary)
			y.policy.Env = []string{"GIVEN=yes", "=odd", "odd"}
			_, got := y.try(jail.Command{Path: "/usr/bin/env", Args: []string{"env"}, Dir: "/"})
			lines := slices.Sorted(strings.Lines(got))
			if y.bare() {
				for i := range lines {
					lines[i] = strings.ReplaceAll(lines[i], y.temp(), "/tmp")
				}
			}
			y.is(strings.Join(lines, ""), "GIT_CONFIG_NOSYSTEM=1\nGIT_OPTIONAL_LOCKS=0\nGIVEN=yes\nGOLEM_JAIL=1\nHOME=/tmp\nLANG=C.UTF-8\nPATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin\nTERM=dumb\nTMPDIR=/tmp\n")
			y.sh(`cat /proc/*/environ /proc/*/task/*/environ; true`)
		}},
		{"S18 typing into a terminal", func(t *testing.T, y *attackEnv) {
			_, out := y.probe("typing")
			none := map[jail.Level]string{jail.Namespaces: "tty ENOENT\n", jail.Landlock: "tty EACCES\n"}[y.level]
			before, after, ok := strings.Cut(out, none)
			if !ok {
				t.Errorf("the command has a terminal:\n%s", out)
			}
			y.answers(before+after, 5, "EPERM")
			// A terminal of the host, by its name.
			terminal := newTerminal(t)
			out = y.sh(`echo typed > %[1]s; cat < %[1]s; exec 3<>/dev/ptmx; cat /dev/console; setsid -c true < %[1]s; true`, terminal)
			if got := strings.Count(out, "No such file") + strings.Count(out, "Permission denied") + strings.Count(out, "Read-only file system"); got != 5 && !y.gvisor {
				t.Errorf("got %d refusals, want 5:\n%s", got, out)
			}
			if !y.bare() {
				y.is(y.sh(`ps -o tty= -p $$; ls /dev/pts /dev/ptmx /dev/console 2>/dev/null; true`), "?\n")
			}
		}},
		{"S34 hostile programs first on the path", func(t *testing.T, y *attackEnv) {
			for _, dir := range []string{y.outside + "/bin", y.work} {
				for _, name := range []string{"sh", "bash", "bwrap", "git", "unshare", "newuidmap", "golem"} {
					check(t, os.WriteFile(dir+"/"+name, []byte("#!/bin/sh\necho "+y.canary+"; touch "+y.host+"/ran /work/ran\n"), 0o755))
				}
			}
			y.was = y.describe()
			t.Setenv("PATH", ".:"+y.outside+"/bin:"+y.work+":"+os.Getenv("PATH"))
			t.Chdir(y.work)
			y.is(y.sh(`sh -c 'echo plain'; command -v sh`), "plain\n/usr/bin/sh\n")
			for _, name := range []string{y.host + "/ran", y.work + "/ran"} {
				if _, err := os.Lstat(name); err == nil {
					t.Errorf("%s is there", name)
				}
			}
		}},
	}
}
