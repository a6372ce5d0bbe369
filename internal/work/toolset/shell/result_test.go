package shell

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

func newOutput(text string) jail.Output { return jail.Output{Head: []byte(text)} }

func newLimits() jail.Limits {
	return jail.Limits{Time: 2 * time.Second, CPU: time.Second / 2, Memory: 2 << 30, Processes: 512, Files: 1024, FileSize: 3e6, Output: 50_000, Temp: 1<<20 + 1}
}

// TestResult checks that the text says how the command ended and what it printed, and
// that the data says the same.
func TestResult(t *testing.T) {
	tests := []struct {
		says jail.Result
		want string
	}{
		{jail.Result{Stdout: newOutput("a\nb\n")}, "exit 0 in 0.0 s (namespaces, network off)\na\nb"},
		{jail.Result{Code: 2, Took: 2 * time.Second, Stderr: newOutput("bad\n")}, "exit 2 in 2.0 s (namespaces, network off)\nstderr:\nbad"},
		{jail.Result{Stdout: newOutput("a"), Stderr: newOutput("b")}, "exit 0 in 0.0 s (namespaces, network off)\na\nstderr:\nb"},
		{jail.Result{Code: 137, Signal: "SIGKILL", Hit: []jail.Limit{jail.MemoryLimit}},
			"ended by SIGKILL after 0.0 s (namespaces, network off); it reached its limit of memory, 2 GiB (limits.memory)"},
		{jail.Result{Code: 137, Signal: "SIGKILL", Late: true, Hit: []jail.Limit{jail.TimeLimit}, Took: time.Second},
			"timed out; golem ended it and all its processes after 1.0 s (namespaces, network off); it reached its limit of time, the timeout of the call"},
		{jail.Result{Code: 137, Signal: "SIGKILL", Late: true, Hit: []jail.Limit{jail.TimeLimit}, Took: 2010 * time.Millisecond},
			"timed out; golem ended it and all its processes after 2.0 s (namespaces, network off); it reached its limit of time, 2 s (limits.time)"},
		{jail.Result{Hit: []jail.Limit{jail.ProcessesLimit, jail.OutputLimit}},
			"exit 0 in 0.0 s (namespaces, network off); it reached its limit of processes, 512 with their threads (limits.pids), and of output, 50 kB of each stream (limits.output)"},
		{jail.Result{Code: 153, Signal: "SIGXFSZ", Hit: []jail.Limit{jail.FileSizeLimit}},
			"ended by SIGXFSZ after 0.0 s (namespaces, network off); it reached its limit of file size, 3 MB (limits.file_size)"},
		{jail.Result{Code: 152, Signal: "SIGXCPU", Hit: []jail.Limit{jail.CPULimit}},
			"ended by SIGXCPU after 0.0 s (namespaces, network off); it reached its limit of cpu, 0.5 s (limits.cpu)"},
		{jail.Result{Code: 137, Signal: "SIGKILL", Stopped: true}, "stopped after 0.0 s (namespaces, network off)"},
		{jail.Result{Stdout: jail.Output{Head: []byte("head"), Tail: []byte("tail"), Hidden: 10}},
			"exit 0 in 0.0 s (namespaces, network off)\nhead\n… 10 bytes omitted …\ntail"},
	}
	for _, test := range tests {
		w := newWorld(t, newMounts())
		test.says.Level, test.says.Limits = jail.Namespaces, newLimits()
		w.runner.says = test.says
		r := w.run(t, args{Command: "x"})
		if r.Words() != test.want {
			t.Errorf("got  %q\nwant %q", r.Words(), test.want)
		}
		ran, ok := r.Data.(Ran)
		if !ok || ran.ExitCode != test.says.Code || ran.TimedOut != test.says.Late || ran.Stopped != test.says.Stopped || ran.HiddenStdout != test.says.Stdout.Hidden ||
			ran.Level != "namespaces" || ran.Network != "off" || ran.Seconds != test.says.Took.Seconds() {
			t.Errorf("got %+v", r.Data)
		}
	}
}

// TestReadableOutput checks that the text of any output is valid UTF-8, that no character is cut
// in two, and that the number of hidden bytes is right.
func TestReadableOutput(t *testing.T) {
	long := []byte("aä€😀")
	for cut := range len(long) + 1 {
		text, hidden := (jail.Output{Head: long[:cut], Tail: long[cut:], Hidden: 5}).Text()
		if !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) {
			t.Errorf("cut at %d: %q", cut, text)
		}
		note := fmt.Sprintf("\n… %d bytes omitted …\n", hidden)
		if !strings.Contains(text, note) || len(text)-len(note)+int(hidden) != len(long)+5 {
			t.Errorf("cut at %d: %q, %d hidden", cut, text, hidden)
		}
		if text, hidden = (jail.Output{Head: long[:cut], Tail: long[cut:]}).Text(); text != string(long) || hidden != 0 {
			t.Errorf("whole, in two at %d: %q", cut, text)
		}
	}
	if text, _ := newOutput("a\xff\xfe\x00b").Text(); text != "a\uFFFD\x00b" {
		t.Errorf("got %q", text)
	}
}

func FuzzLegible(f *testing.F) {
	f.Add([]byte("a\xc3"), []byte("\xa4b"), int64(3))
	f.Fuzz(func(t *testing.T, head, tail []byte, hidden int64) {
		if text, more := (jail.Output{Head: head, Tail: tail, Hidden: max(hidden, 0) >> 1}).Text(); !utf8.ValidString(text) || more < max(hidden, 0)>>1 {
			t.Errorf("%q, %d", text, more)
		}
	})
}

// TestHints checks that a command that was refused something gets one note about what is
// allowed.
func TestHints(t *testing.T) {
	w := newWorld(t, append(newMounts(), sandbox.Mount{Target: "/", Access: sandbox.ReadOnly}))
	top, err := w.Files.Resolve("/")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(string(top)+"/a.txt", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const allowed = "commands here may read /work, /in, /out, the system's programs; write /out, /tmp; network off"
	const elsewhere = "; the user can let them write elsewhere: golem config edit, mode: overlay of a mount"
	const (
		offline  = "commands here have no network"
		local    = "localhost here is private to commands; run the server in the same command line, or as a service"
		root     = "no command here can become root or change the system; use installed programs, or install into the project or the home directory"
		terminal = "commands here have no terminal, and nobody answers prompts; give the answers as options (-y, -m, --batch)"
	)
	for output, want := range map[string]string{
		"all is well": "",
		"sh: /in/x: Read-only file system\nx: Permission denied": allowed + elsewhere,
		"rm: Operation not permitted":                            allowed,
		"bash: gcc: command not found":                           allowed,
		"curl: (6) Could not resolve host: example.com":          "commands here have no network",
		"connect: Network is unreachable":                        "commands here have no network",
		"npm error code EAI_AGAIN":                               "commands here have no network",
		"lookup modules.example.com on [::1]:53: read udp [::1]:37->[::1]:53: read: connection refused":    "commands here have no network",
		"x: Temporary failure in name resolution":                                                          "commands here have no network",
		"curl: (7) Failed to connect to 10.0.0.1 port 80":                                                  "commands here have no network",
		"bash: connect: Connection refused":                                                                "commands here have no network",
		"dd: error writing 'x': File too large":                                                            "the largest file that a command here may write: 3 MB (limits.file_size)",
		"bash: line 1:     7 File size limit exceeded head":                                                "the largest file that a command here may write: 3 MB (limits.file_size)",
		"cp: error writing '/tmp/x': No space left on device":                                              "/dev/shm has 64 MiB, other directories what is free on the disk, /tmp 1048577 bytes (no key sets it; it is at most half of limits.memory)",
		"OSError: [Errno 24] Too many open files: 'x'":                                                     "open files: 1024 in each process (no key sets it)",
		"fork: Cannot allocate memory":                                                                     "memory limit of commands here: 2 GiB (limits.memory)",
		"MemoryError":                                                                                      "memory limit of commands here: 2 GiB (limits.memory)",
		"RuntimeError: can't start new thread":                                                             "limit of processes for a command here: 512 with their threads (limits.pids)",
		"sh: 1: Cannot fork":                                                                               "limit of processes for a command here: 512 with their threads (limits.pids)",
		"bash: fork: retry: Resource temporarily unavailable":                                              "limit of processes for a command here: 512 with their threads (limits.pids)",
		"cat: /a.txt: No such file or directory":                                                           allowed + "; in commands /a.txt is /work/a.txt; relative paths are the same everywhere",
		"FileNotFoundError: [Errno 2] No such file or directory: '/a.txt'":                                 allowed + "; in commands /a.txt is /work/a.txt; relative paths are the same everywhere",
		"Error: ENOENT: no such file or directory, open '/a.txt'":                                          allowed + "; in commands /a.txt is /work/a.txt; relative paths are the same everywhere",
		"fatal: unable to access 'https://github.com/x/y/': Could not resolve host: github.com":            offline,
		"npm error code ENOTFOUND":                                                                         offline,
		"wget: unable to resolve host address 'example.com'":                                               offline,
		"ERROR: No matching distribution found for requests":                                               offline,
		"java.net.UnknownHostException: repo.maven.apache.org":                                             offline,
		"  hostname: 'example.com', code: 'EAI_AGAIN', syscall: 'getaddrinfo'":                             offline,
		"error: failed to lookup address information: Temporary failure in name resolution":                offline,
		"W: Failed to fetch http://mirror.example.org/x  Temporary failure resolving 'mirror.example.org'": offline,
		"curl: (7) Failed to connect to localhost port 3000 after 0 ms: Couldn't connect to server":        local,
		"Error: connect ECONNREFUSED 127.0.0.1:5432":                                                       local,
		"E: Unable to acquire the dpkg frontend lock, are you root?":                                       root,
		"sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.":           root,
		"bash: line 1: sudo: command not found":                                                            allowed + "; " + root,
		"stty: 'standard input': Inappropriate ioctl for device":                                           terminal,
		"Vim: Warning: Input is not from a terminal":                                                       terminal,
		"fatal: could not read Username for 'https://x.example': No such device or address":                terminal,
		"Cannot connect to the Docker daemon at unix:///var/run/docker.sock.":                              "commands here cannot reach a daemon or display of the machine",
		"[0101/000000:FATAL:zygote] No usable sandbox! Update your kernel":                                 "programs cannot create their own sandbox here; turn it off (--no-sandbox), golem already runs them in one",
		"fatal: detected dubious ownership in repository at '/work'":                                       "golem runs as a different user than the owner of the directory; run it as the owner",
		"npm error code EROFS":                                                                             allowed + elsewhere,
		"bash: line 1:     7 CPU time limit exceeded":                                                      "limit of processor time for a command here: 0.5 s (limits.cpu)",
		"cat: /b.txt: No such file or directory":                                                           allowed,
	} {
		w.runner.says = jail.Result{Code: 1, Stderr: newOutput(output), Level: jail.Namespaces, Limits: newLimits()}
		r := w.run(t, args{Command: "x"})
		if got := strings.Join(r.Notes, "; "); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", output, got, want)
		}
		if strings.Contains(r.String(), string(top)) {
			t.Errorf("a path of the host: %s", r)
		}
	}
	// A note must not reveal whether a file exists that commands do not see.
	blind := view{files: w.Files, Result: changes.Result{Result: jail.Result{Level: jail.Namespaces}}, from: &startPoint{}, effects: []policy.Effect{{Verb: policy.Read, Target: "/in", Tree: true}}}
	if got := blind.suggestPath("cat: /a.txt: No such file or directory"); got != nil {
		t.Errorf("got %q, want nothing", got)
	}
}

// TestNoHint checks that a limit in the first line gets no second note, and that a /tmp
// on the disk gets none. If there is a network, no note mentions it.
func TestNoHint(t *testing.T) {
	w := newWorld(t, newMounts())
	for _, test := range []struct {
		says jail.Result
		net  bool
		not  string
	}{
		{jail.Result{Stderr: newOutput("MemoryError"), Hit: []jail.Limit{jail.MemoryLimit}, Level: jail.Namespaces}, false, "memory"},
		{jail.Result{Stderr: newOutput("No space left on device"), Level: jail.Landlock}, false, "/tmp"},
		{jail.Result{Stderr: newOutput("Connection refused"), Level: jail.Namespaces}, true, "network"},
		{jail.Result{Stdout: newOutput("README: sudo: not found, Could not resolve host"), Level: jail.Namespaces}, false, "here"}, // the command was asked to print this
	} {
		test.says.Limits = newLimits()
		v := view{files: w.Files, Result: changes.Result{Result: test.says}, from: &startPoint{}}
		if test.net {
			v.effects = []policy.Effect{{Verb: policy.Connect}}
		}
		if got := strings.Join(v.result().Notes, "; "); strings.Contains(got, test.not) {
			t.Errorf("%s: got %s", test.says.Stderr.Head, got)
		}
	}
}
