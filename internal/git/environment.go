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
	ErrStageAgain  sandbox.Code = "stage_again" // what it was made against is no longer there
	ErrUnsupported sandbox.Code = "unsupported" // a repository of a kind that is not known here
	ErrGit         sandbox.Code = "git"         // git failed
	ErrUnreachable sandbox.Code = "unreachable" // a remote does not answer, or not to us
)

// settings are the configuration of every git that runs here. What is given with
// a command comes last, and so counts more than any file.
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

// environment is that of every git that runs here.
func (s *Store) environment() []string {
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

// A place is where a git runs: the directory it takes for its repository, and the
// directories in which it finds more objects.
type place struct {
	dir  string
	more []string
}

// command makes a git that has not started. It runs in an empty directory.
func (s *Store) command(ctx context.Context, at place, args ...string) *exec.Cmd {
	all := []string{"--no-pager", "--git-dir=" + at.dir}
	for _, one := range settings {
		all = append(all, "-c", one)
	}
	program, all := limited(s.program, memoryOf(word(args)), append(all, args...))
	cmd := exec.CommandContext(ctx, program, all...)
	cmd.Dir = s.home
	cmd.Env = s.environment()
	if len(at.more) > 0 {
		cmd.Env = append(cmd.Env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+folders(at.more))
	}
	cmd.WaitDelay = time.Second // what git has started may hold its streams
	return cmd
}

// memoryOf returns how much memory a git may take for a command. Transfers keep a record
// of every object. The others answer with lists, which a hostile repository makes endless:
// a list of references, or a tree of a few objects that contain each other.
func memoryOf(command string) int64 {
	switch command {
	case "fetch", "push", "index-pack", "pack-objects", "fast-import":
		return 1 << 30
	case "diff-tree": // which holds all of its answer before it prints any
		return 128 << 20
	}
	return 256 << 20
}

// directories writes a list of directories as git reads it, whatever their names are.
func folders(list []string) string {
	quoted := make([]string, len(list))
	for i, one := range list {
		quoted[i] = quote(one)
	}
	return strings.Join(quoted, string(os.PathListSeparator))
}

// run runs a git to its end, and returns what it wrote.
func (s *Store) run(cmd *exec.Cmd) ([]byte, error) {
	var out answer
	var said tail
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if out.endless {
		return nil, refusal("read", "", sandbox.ErrLimit, fmt.Sprintf("git answers with more than %d MB, which no repository that is worked on has; name fewer files, or look at what is in it", maxOutput>>20))
	}
	if err != nil {
		return nil, s.failed(cmd, err, said)
	}
	return out.text.Bytes(), nil
}

// starved reports whether a git failed for want of memory.
func starved(said string) bool {
	return strings.Contains(said, "fatal: Out of memory") || strings.Contains(said, "out of memory") || strings.Contains(said, "fatal: mmap failed: Cannot allocate memory")
}

// maxOutput is how much a git may answer: the names of a million files. A tree of a few
// objects that are in each other many times has any number of them.
const maxOutput = 64 << 20

// An answer is what a git prints. One that does not end is not waited for.
type answer struct {
	text    bytes.Buffer
	most    int // how many zero bytes there may be; 0 for any number
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

// A tail keeps the end of what git says of its troubles.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

// A Failure is the error of a git that failed.
type Failure struct {
	Command string // of git
	Said    string // by git, without the directories of this machine
	Exit    int    // -1 if it did not come to its end
	cause   error
}

func (f *Failure) Error() string { return f.plain().Error() }

// As lets it be taken for an error whose text may be shown to anybody.
func (f *Failure) As(target any) bool { return as(target, f.plain()) }

func as(target any, e *sandbox.Error) bool {
	known, ok := target.(**sandbox.Error)
	if ok {
		*known = e
	}
	return ok
}

// plain tells it in a line: what ssh says of why it cannot reach a host, or the first
// trouble that git names.
func (f *Failure) plain() *sandbox.Error {
	said := f.cause.Error()
	for line := range strings.Lines(f.Said) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "fatal: ") || strings.HasPrefix(line, "error: ") || strings.HasPrefix(line, "ssh: ") || strings.Contains(line, "Permission denied (") {
			said = line
			break
		}
	}
	if starved(f.Said) {
		return &sandbox.Error{Op: "git " + f.Command, Code: sandbox.ErrLimit,
			Hint: fmt.Sprintf("git needs more than %d MiB, the limit for what a repository may take; look at how many branches and files it has", memoryOf(f.Command)>>20)}
	}
	return &sandbox.Error{Op: "git " + f.Command, Code: ErrGit, Hint: "git says: " + sandbox.Shown(hostPath().ReplaceAllString(said, "${1}…"))}
}

// hostPath finds a path of the machine among words.
var hostPath = late(`(^|[\s'"(=])(?:/|[A-Za-z]:\\)[^\s'":;]+`)

func (f *Failure) Unwrap() []error { return []error{f.plain().Code, f.cause} }

// failed makes the error of a git. Directories of the machine are not told: what is
// said here may reach a model.
func (s *Store) failed(cmd *exec.Cmd, err error, said tail) error {
	text := string(said.text)
	for _, arg := range cmd.Env {
		switch name, value, _ := strings.Cut(arg, "="); name {
		case "GIT_ALTERNATE_OBJECT_DIRECTORIES":
			for value != "" {
				quoted, _ := strconv.QuotedPrefix(value)
				folder, _ := strconv.Unquote(quoted)
				text = hidden(text, folder)
				value = value[min(len(value), len(quoted)+1):]
			}
		case "GIT_INDEX_FILE", "GIT_WORK_TREE":
			text = hidden(text, value)
		}
	}
	for _, arg := range cmd.Args {
		if dir, ok := strings.CutPrefix(arg, "--git-dir="); ok {
			text = hidden(text, dir)
		}
	}
	f := &Failure{Command: command(cmd), Said: hidden(text, s.dir), Exit: -1, cause: err}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		f.Exit = exit.ExitCode()
	}
	return f
}

func hidden(text, folder string) string {
	if folder == "" {
		return text
	}
	return strings.ReplaceAll(text, folder, "…")
}

// command returns which of git's commands a process runs.
func command(cmd *exec.Cmd) string {
	return word(cmd.Args[1+slices.Index(cmd.Args, "--no-pager"):])
}

// word returns which of git's commands has these arguments.
func word(args []string) string {
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

// refusal makes the error of something that is not done.
func refusal(op, path string, code sandbox.Code, hint string) error {
	return &sandbox.Error{Op: op, Path: path, Code: code, Hint: hint}
}
