package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// The codes that this package adds to those of the sandbox.
const (
	ErrStageAgain  sandbox.Code = "stage_again" // the commit it builds on no longer exists
	ErrUnsupported sandbox.Code = "unsupported" // a kind of repository that golem does not support
	ErrGit         sandbox.Code = "git"         // git failed
	ErrUnreachable sandbox.Code = "unreachable" // a remote does not answer, or refuses us
)

// settings are the configuration of every git that runs here. Git reads settings on the
// command line last, so they override every file.
var settings = []string{
	"core.hooksPath=" + os.DevNull, "core.attributesFile=" + os.DevNull, "core.excludesFile=" + os.DevNull,
	"core.fsmonitor=false", "core.untrackedCache=false", "core.splitIndex=false", "core.commitGraph=false", "core.multiPackIndex=false",
	"core.protectNTFS=true", "core.protectHFS=true", "core.autocrlf=false", "core.bigFileThreshold=16m",
	"core.fsync=loose-object,pack,pack-metadata,reference", "core.fsyncMethod=batch", "core.alternateRefsCommand=true",
	"core.pager=cat", "core.editor=false",
	"gc.auto=0", "maintenance.auto=false", "submodule.recurse=false", "diff.ignoreSubmodules=all",
	"pack.useBitmaps=false", "pack.writeReverseIndex=false", "fastimport.unpackLimit=0", "fetch.unpackLimit=1",
	"fetch.fsckObjects=true", "transfer.fsckObjects=true", "fetch.writeCommitGraph=false",
	"fetch.recurseSubmodules=false", "push.recurseSubmodules=no", "push.followTags=false", "push.gpgSign=false",
	"protocol.allow=never", "http.followRedirects=false", "http.lowSpeedLimit=1", "http.lowSpeedTime=120", "commit.gpgSign=false", "advice.detachedHead=false",
}

// environment returns the environment of every git that runs here.
func (s *ObjectStore) environment() []string {
	null := os.DevNull
	return []string{
		"PATH=" + filepath.Dir(s.program) + string(os.PathListSeparator) + "/usr/bin" + string(os.PathListSeparator) + "/bin",
		"HOME=" + s.home, "XDG_CONFIG_HOME=" + s.home, "LC_ALL=C", "TZ=UTC", "TERM=dumb",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=" + null, "GIT_CONFIG_GLOBAL=" + null, "GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_CEILING_DIRECTORIES=" + s.dir, "GIT_LITERAL_PATHSPECS=1", "GIT_PROTOCOL_FROM_USER=0",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_SEQUENCE_EDITOR=false",
	}
}

// A place says where a git runs: its repository directory, and the directories in which
// it finds more objects.
type place struct {
	dir  string
	more []string
}

// command returns a git command that has not started. It runs in an empty directory.
func (s *ObjectStore) command(ctx context.Context, at place, args ...string) *exec.Cmd {
	all := []string{"--no-pager", "--git-dir=" + at.dir}
	for _, one := range settings {
		all = append(all, "-c", one)
	}
	program, all := limitMemory(s.program, memoryOf(subcommand(args)), append(all, args...))
	cmd := exec.CommandContext(ctx, program, all...)
	cmd.Dir = s.home
	cmd.Env = s.environment()
	if len(at.more) > 0 {
		cmd.Env = append(cmd.Env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+quoteList(at.more))
	}
	cmd.WaitDelay = 10 * time.Second // others hold its streams, too: every process that starts now, until its exec
	return cmd
}

// memoryOf returns the memory limit of a git command. Transfers keep a record of every
// object. The others print lists, which a hostile repository makes endless: a list of
// references, or a tree of a few objects that contain each other.
func memoryOf(command string) int64 {
	switch command {
	case "fetch", "push", "index-pack", "pack-objects", "fast-import":
		return 1 << 30
	case "diff-tree": // which holds its whole output before it prints any
		return 128 << 20
	}
	return 256 << 20
}

// quoteList joins directories as git reads them from an environment variable, with each
// one quoted.
func quoteList(list []string) string {
	quoted := make([]string, len(list))
	for i, one := range list {
		quoted[i] = quote(one)
	}
	return strings.Join(quoted, string(os.PathListSeparator))
}

// run runs a git to its end, and returns what it printed.
func (s *ObjectStore) run(cmd *exec.Cmd) ([]byte, error) {
	var out answer
	var stderr tail
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if out.endless {
		return nil, refusal("read", "", sandbox.ErrLimit, fmt.Sprintf("git answers with more than %d MB, which no repository that is worked on has; name fewer files, or look at what is in it", maxOutput>>20))
	}
	if err != nil {
		return nil, s.failed(cmd, err, stderr)
	}
	return out.text.Bytes(), nil
}

// isOutOfMemory reports whether the stderr of a git says that it ran out of memory.
func isOutOfMemory(stderr string) bool {
	return strings.Contains(stderr, "fatal: Out of memory") || strings.Contains(stderr, "out of memory") || strings.Contains(stderr, "fatal: mmap failed: Cannot allocate memory")
}

// maxOutput limits the output of a git: room for the names of a million files. A tree of
// a few objects that contain each other many times can list any number of files.
const maxOutput = 64 << 20

// An answer keeps what a git prints. It fails when the output passes a limit.
type answer struct {
	text    bytes.Buffer
	most    int // limit on the number of zero bytes; 0 for no limit
	zeros   int
	endless bool
}

func (a *answer) Write(p []byte) (int, error) {
	if a.most > 0 {
		a.zeros += bytes.Count(p, []byte{0})
	}
	if a.endless = a.text.Len()+len(p) > maxOutput || a.most > 0 && a.zeros > a.most; a.endless {
		return 0, errors.New("too much")
	}
	return a.text.Write(p)
}

// A tail keeps the last bytes that are written to it, for the stderr of git.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

// A failure is the error of a git that failed.
type failure struct {
	Command string // the git command
	Said    string // stderr of git, without directories of this machine
	Exit    int    // exit code, -1 if it did not exit by itself
	cause   error
}

func (f *failure) Error() string { return f.plain().Error() }

// As converts the failure to an error whose text may be shown to anybody.
func (f *failure) As(target any) bool { return as(target, f.plain()) }

func as(target any, e *sandbox.Error) bool {
	known, ok := target.(**sandbox.Error)
	if ok {
		*known = e
	}
	return ok
}

// plain returns the failure as one line: the first line of stderr in which git or ssh
// reports an error.
func (f *failure) plain() *sandbox.Error {
	stderr := f.cause.Error()
	for line := range strings.Lines(f.Said) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "fatal: ") || strings.HasPrefix(line, "error: ") || strings.HasPrefix(line, "ssh: ") || strings.Contains(line, "Permission denied (") {
			stderr = line
			break
		}
	}
	if isOutOfMemory(f.Said) {
		return &sandbox.Error{Op: "git " + f.Command, Code: sandbox.ErrLimit,
			Hint: fmt.Sprintf("git needs more than %d MiB, the limit for what a repository may take; look at how many branches and files it has", memoryOf(f.Command)>>20)}
	}
	return &sandbox.Error{Op: "git " + f.Command, Code: ErrGit, Hint: "git says: " + sandbox.Shown(hostPath().ReplaceAllString(stderr, "${1}…"))}
}

// hostPath matches an absolute path in a text.
var hostPath = lazyPattern(`(^|[\s'"(=])(?:/|[A-Za-z]:\\)[^\s'":;]+`)

func (f *failure) Unwrap() []error { return []error{f.plain().Code, f.cause} }

// failed returns the error of a git that failed. It hides directories of the machine,
// because the text may reach a model.
func (s *ObjectStore) failed(cmd *exec.Cmd, err error, stderr tail) error {
	text := string(stderr.text)
	for _, arg := range cmd.Env {
		switch name, value, _ := strings.Cut(arg, "="); name {
		case "GIT_ALTERNATE_OBJECT_DIRECTORIES":
			for value != "" {
				quoted, _ := strconv.QuotedPrefix(value)
				dir, _ := strconv.Unquote(quoted)
				text = hide(text, dir)
				value = value[min(len(value), len(quoted)+1):]
			}
		case "GIT_INDEX_FILE", "GIT_WORK_TREE":
			text = hide(text, value)
		}
	}
	for _, arg := range cmd.Args {
		if dir, ok := strings.CutPrefix(arg, "--git-dir="); ok {
			text = hide(text, dir)
		}
	}
	f := &failure{Command: subcommandOf(cmd), Said: hide(text, s.dir), Exit: -1, cause: err}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		f.Exit = exit.ExitCode()
	}
	return f
}

func hide(text, dir string) string {
	if dir == "" {
		return text
	}
	return strings.ReplaceAll(text, dir, "…")
}

// subcommandOf returns the git command that a process runs.
func subcommandOf(cmd *exec.Cmd) string {
	return subcommand(cmd.Args[1+slices.Index(cmd.Args, "--no-pager"):])
}

// subcommand returns the git command in a list of arguments.
func subcommand(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-c":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i]
		}
	}
	return "?"
}

// refusal returns the error of an operation that this package refuses.
func refusal(op, path string, code sandbox.Code, hint string) error {
	return &sandbox.Error{Op: op, Path: path, Code: code, Hint: hint}
}
