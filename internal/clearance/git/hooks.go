package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// ErrRejected is the code of a push that a hook of the target rejected.
const ErrRejected sandbox.Code = "rejected"

// The hooks that git runs in a repository that somebody pushes to. The hooks before the
// branch moves can reject the push.
var (
	hooksBefore = []string{"pre-receive", "update"}
	hooksAfter  = []string{"post-receive", "post-update"}
)

// otherHooks can also reject a push, but only the git that changes the reference can run
// them.
var otherHooks = []string{"proc-receive", "reference-transaction"}

// maxHook limits how long a hook may run.
const maxHook = 10 * time.Minute

// hookVariables are the variables that a hook gets from the user's environment.
var hookVariables = []string{"HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", "PATH"}

// RunHooks makes Move and Advance run the hooks before a push, and Announce those after it.
func (t *Target) RunHooks(c Credentials) {
	t.hooks = []string{"PATH=/usr/bin" + string(os.PathListSeparator) + "/bin", "GIT_DIR=" + t.dir}
	for _, one := range c.env {
		if name, _, _ := strings.Cut(one, "="); slices.Contains(hookVariables, name) {
			t.hooks = append(t.hooks, one) // for a repeated name the last value counts
		}
	}
}

// Hooks returns the names of the hooks that a push runs, none without RunHooks. It is an
// error if somebody other than the user could have written them, because hooks run as the
// user.
func (t *Target) Hooks(ctx context.Context) ([]string, error) {
	if t.hooks == nil {
		return nil, nil
	}
	if err := t.ownHooks(ctx); err != nil {
		return nil, err
	}
	var list []string
	for _, name := range slices.Concat(hooksBefore, hooksAfter, otherHooks) {
		info, err := os.Lstat(t.hook(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, refusal("target", "", sandbox.ErrInternal, "the hook "+name+" of the target cannot be read: "+cause(err).Error())
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, refusal("target", "", ErrUnsupported, "the hook "+name+" of the target is a symlink; copy the file into its hooks directory, or remove hooks: run")
		case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
			continue // git skips it, too
		case !isOwned(info) || info.Mode().Perm()&0o022 != 0:
			return nil, refusal("target", "", ErrUnsupported, "others can write the hook "+name+" of the target; make it yours and run chmod go-w on it, or remove hooks: run")
		case slices.Contains(otherHooks, name):
			return nil, refusal("target", "", ErrUnsupported, "the target has the hook "+name+", which golem cannot run; push there with git, or remove hooks: run")
		}
		list = append(list, name)
	}
	return list, nil
}

func (t *Target) hook(name string) string { return filepath.Join(t.dir, "hooks", name) }

// ownHooks refuses a repository of another user, and hooks outside of the hooks directory
// of the repository. Only that directory is protected from workers.
func (t *Target) ownHooks(ctx context.Context) error {
	for _, dir := range []string{t.dir, filepath.Join(t.dir, "hooks")} {
		info, err := os.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return refusal("target", "", sandbox.ErrInternal, "the hooks of the target cannot be read: "+cause(err).Error())
		case !info.IsDir():
			return refusal("target", "", ErrUnsupported, "the hooks directory of the target is not a directory; make it one, or remove hooks: run")
		case !isOwned(info):
			return refusal("target", "", ErrUnsupported, "the target's repository belongs to another user, and golem runs only your own hooks; remove hooks: run")
		case dir != t.dir && info.Mode().Perm()&0o022 != 0:
			return refusal("target", "", ErrUnsupported, "others can write to the hooks directory of the target; run chmod go-w on it, or remove hooks: run")
		}
	}
	cmd := t.store.command(ctx, t.store.here(), "config", "--file", filepath.Join(t.dir, "config"), "--includes", "--get", "core.hooksPath")
	_, err := t.store.run(cmd)
	var failure *failure
	switch {
	case err == nil:
		return refusal("target", "", ErrUnsupported, "core.hooksPath of the target names another directory, and golem runs only hooks in the repository's own; move them there, or remove hooks: run")
	case errors.As(err, &failure) && failure.Exit == 1:
		return nil // it is not set
	}
	return err
}

// runHooksBefore runs the hooks that can reject a push.
func (t *Target) runHooksBefore(ctx context.Context, branch string, old, to Hash) error {
	present, err := t.Hooks(ctx)
	if err != nil {
		return err
	}
	for _, name := range hooksBefore {
		if !slices.Contains(present, name) {
			continue
		}
		printed, err := t.runHook(ctx, name, branch, old, to)
		var exit *exec.ExitError
		switch {
		case err == nil:
		case ctx.Err() == nil && errors.As(err, &exit) && exit.Exited():
			return refusal("push", branch, ErrRejected, "the hook "+name+" of the target rejected the push, and nothing was pushed"+lastLines(printed))
		default:
			return refusal("push", branch, ErrGit, "the hook "+name+" of the target could not be run to its end ("+cause(err).Error()+"), and nothing was pushed"+lastLines(printed))
		}
	}
	return nil
}

// Announce runs the hooks after a push. Like git, it ignores their exit codes.
func (t *Target) Announce(ctx context.Context, branch string, old, to Hash) {
	present, err := t.Hooks(ctx)
	if err != nil {
		return
	}
	for _, name := range hooksAfter {
		if slices.Contains(present, name) {
			t.runHook(ctx, name, branch, old, to)
		}
	}
}

// runHook runs a hook as git does: in the directory of the repository, with the change of
// the reference on stdin or as arguments. It returns the last part of what the hook
// printed.
func (t *Target) runHook(ctx context.Context, name, branch string, old, to Hash) (string, error) {
	ref, err := branchRef("push", branch)
	if err != nil {
		return "", err
	}
	was := string(old)
	if old == "" {
		was = nothing
	}
	ctx, cancel := context.WithTimeout(ctx, maxHook)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.hook(name))
	switch name {
	case "update":
		cmd.Args = append(cmd.Args, ref, was, string(to))
	case "post-update":
		cmd.Args = append(cmd.Args, ref)
	default:
		cmd.Stdin = strings.NewReader(was + " " + string(to) + " " + ref + "\n")
	}
	cmd.Dir, cmd.Env, cmd.WaitDelay = t.dir, t.hooks, time.Second
	var printed tail
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the hook succeeded, and left a process that holds its streams
	}
	return string(printed.text), err
}

// lastLines returns the last lines that a hook printed, or "" if it printed none.
func lastLines(printed string) string {
	var lines []string
	for line := range strings.Lines(printed) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, sandbox.Shown(line))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "; it says: " + strings.Join(lines[max(0, len(lines)-3):], " / ")
}
