package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// everydayVariable is set by make everyday. Then every command runs, as root and as an
// ordinary user, and a missing program is an error.
const everydayVariable = "GOLEM_TEST_EVERYDAY"

// An everyday command is one that developers and agents run every day.
type everyday struct {
	name     string   // in the table of docs/jail.md
	programs []string // programs or files that it needs
	files    string   // the directory in testdata/everyday that it works on, an empty one by default
	before   string   // it runs with sh -e in that directory, outside of the jail
	in       string   // the directory there that golem exec runs in
	script   string   // it runs with sh -e
	command  []string // it runs in place of a script
	profile  string   // it runs with this profile, that of its program by default
	net      bool     // it runs with --net on
	want     string   // part of its output
	slow     bool     // only make everyday runs it

	// The reason why it does not work at the level landlock, at the level container, and
	// at any level as root.
	landlock, container, root string
}

// The reasons why commands do not work at the level landlock.
const (
	noSockets  = "no unix sockets"
	noLoopback = "no loopback network"
	noProc     = "no `/proc`"
	noShm      = "no `/dev/shm`"
	noTerminal = "no terminals of its own"
	noTrace    = "no ptrace"
	noModes    = "no change of permission bits"
	noTemp     = "no `/tmp` of its own"
	noInotify  = "no inotify"
)

// ordinary is the ID of a user without privileges.
const ordinary = 12345

// TestEverydayWork runs the table under golem exec, at all levels, as root and as an
// ordinary user. The level container needs runsc, which scripts/runsc builds. A command must fail where the table says so.
func TestEverydayWork(t *testing.T) {
	whole := os.Getenv(everydayVariable) != ""
	golem := everydayProgram(t)
	levels := []string{"namespaces", "landlock"}
	if runsc := testutil.FindRunsc(); runsc != "" {
		levels = append(levels, "container")
		if err := exec.Command("cp", runsc, filepath.Join(filepath.Dir(golem), "runsc")).Run(); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Log("not run at the level container: there is no runsc; scripts/runsc builds it in some minutes")
	}
	for i, e := range everydayWork {
		if (e.slow || e.net) && !whole {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range e.programs {
				_, err := exec.LookPath(p)
				if filepath.IsAbs(p) {
					_, err = os.Stat(p)
				}
				if err != nil && whole {
					t.Fatal(err)
				} else if err != nil {
					t.Skipf("%s is not installed", p)
				}
			}
			for j, level := range levels {
				// Without make everyday, root tries one half of the pairs and a user the other.
				root, mine := os.Geteuid() == 0, (i+j)%2 == 0
				if whole || mine || !root {
					t.Run("as the user of the tests, "+level, func(t *testing.T) { e.try(t, golem, level, os.Geteuid()) })
				}
				if root && (whole || !mine) {
					t.Run("as an ordinary user, "+level, func(t *testing.T) { e.try(t, golem, level, ordinary) })
				}
			}
		})
	}
}

// everydayProgram copies golem to where an ordinary user can run it.
func everydayProgram(t *testing.T) string {
	dir := everydayDir(t, os.Geteuid())
	data, err := os.ReadFile(os.Args[0])
	if err == nil {
		syscall.ForkLock.RLock() // a child would hold the file open for writing
		err = os.WriteFile(filepath.Join(dir, "golem"), data, 0o755)
		syscall.ForkLock.RUnlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "golem")
}

// everydayDir makes a directory for a user.
func everydayDir(t *testing.T, user int) string {
	dir, err := os.MkdirTemp("", "everyday")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, err := range []error{os.Chmod(dir, 0o755), os.Chown(dir, user, -1)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// try runs the command once and compares the result with the table.
func (e everyday) try(t *testing.T, golem, level string, user int) {
	dir, home := everydayDir(t, user), everydayDir(t, user)
	if e.files != "" {
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "everyday", e.files))); err != nil {
			t.Fatal(err)
		}
	}
	if e.before != "" {
		setup := exec.Command("sh", "-ec", e.before)
		setup.Dir, setup.Env, setup.SysProcAttr = dir, append(os.Environ(), "HOME="+home), asUser(user)
		if out, err := setup.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	dir = filepath.Join(dir, e.in)
	command := e.command
	if command == nil {
		if err := os.WriteFile(filepath.Join(dir, "everyday.sh"), []byte("set -e\n"+e.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		command = []string{"sh", "./everyday.sh"}
	}
	filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error { return os.Lchown(name, user, user) })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	args := []string{"exec"}
	if e.profile != "" {
		args = append(args, "--profile", e.profile)
	}
	if e.net {
		args = append(args, "--net", "on")
	}
	if level == "container" {
		args = append(args, "--jail", level)
		config := filepath.Join(home, ".config/golem/config.yaml")
		for _, err := range []error{os.MkdirAll(filepath.Dir(config), 0o755), os.WriteFile(config, []byte("jail: {runsc: "+filepath.Join(filepath.Dir(golem), "runsc")+"}\n"), 0o644)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.CommandContext(ctx, golem, append(append(args, "--"), command...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOLEM_STATE="+filepath.Join(home, "state"), "HOME="+home, "TMPDIR="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"))
	if e.net {
		cmd.Env = append(cmd.Env, everydaySettings(t, home, user)...)
	}
	cmd.SysProcAttr = asUser(user)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 10*time.Second
	run := cmd.Run
	if level == "landlock" {
		run = func() error { return withoutNamespaces(cmd.Run) }
	}
	err := run()
	// After the output of the command, golem lists the files that it changed.
	said, _, _ := strings.Cut(out.String(), "\nsession ")
	ok := err == nil && strings.Contains(said, e.want)
	switch why := e.fails(level, user); {
	case why == "" && !ok:
		t.Errorf("%v\n%s", err, said)
	case why != "" && ok:
		t.Errorf("the command works, but the table says that it does not: %s\n%s", why, said)
	case why != "":
		t.Logf("it fails: %s\n%s", why, said)
	}
}

// asUser returns the attributes that start a process as a user.
func asUser(user int) *syscall.SysProcAttr {
	if user == os.Geteuid() {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
}

// everydaySettings copies the package manager settings of the current user to another
// user, such as the addresses of registries.
func everydaySettings(t *testing.T, home string, user int) (env []string) {
	if data, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), ".npmrc")); err == nil {
		name := filepath.Join(home, ".npmrc")
		for _, err := range []error{os.WriteFile(name, data, 0o600), os.Chown(name, user, -1)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"GOPROXY", "GOSUMDB"} {
		if value, err := exec.Command("go", "env", name).Output(); err == nil {
			env = append(env, name+"="+strings.TrimSpace(string(value)))
		}
	}
	return env
}

// fails returns why the command does not work for a user at a level, or "" if it works.
func (e everyday) fails(level string, user int) string {
	if level == "landlock" && e.landlock != "" {
		return e.landlock
	}
	if level == "container" && e.container != "" && (user != 0 || !strings.HasPrefix(e.name, "unshare")) {
		return e.container
	}
	if user == 0 {
		return e.root
	}
	return ""
}

// withoutNamespaces calls a function on a thread that cannot make namespaces.
func withoutNamespaces(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with its filter
		err := refuseNamespaces()
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// TestEverydayTable compares the table in docs/jail.md with the commands.
func TestEverydayTable(t *testing.T) {
	if len(everydayWork) < 60 {
		t.Errorf("%d commands, want at least 60", len(everydayWork))
	}
	var table strings.Builder
	fmt.Fprint(&table, "| command | namespaces | container | landlock |\n|---|---|---|---|\n")
	for _, e := range everydayWork {
		namespaces := "yes"
		if e.root != "" {
			namespaces = "yes, except as root: " + e.root
		}
		container, landlock := namespaces, namespaces
		if e.container != "" {
			container = "no: " + e.container
		}
		if e.landlock != "" {
			landlock = "no: " + e.landlock
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", e.name, namespaces, container, landlock)
	}
	testutil.GoldenPart(t, "../../docs/jail.md", "<!-- everyday work -->\n", "<!-- end of everyday work -->\n", table.String())
}
