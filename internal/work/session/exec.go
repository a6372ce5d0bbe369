package session

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// An Exec is a program that the user runs with golem exec.
type Exec struct {
	// Attach runs a command in a session of the jail on the user's streams.
	Attach       func(ctx context.Context, s *jail.Jail, c jail.Command) (jail.Result, error)
	Command      string   // the program, as the user typed it
	Env          []string // NAME=value
	Passed       []string // the names of those that the user passes on from their own environment
	Dir          string   // the user's current directory on the host
	Path         string   // directories of the host to search for programs
	Profile      profile.Profile
	ProfileNamed bool       // the user has named the profile
	Ports        jail.Ports // that are published while the program runs
	AtHostPath   bool       // it sees the directory with the user's current one at its path on the host, too
}

// mayLogIn refuses a program in a directory that it works on, if it would get credentials
// only because its file has the name of an agent. The author of that directory chose the
// name.
func (x *Exec) mayLogIn(program *profile.Program, name string) error {
	has := len(x.Profile.Logins) > 0 || x.Profile.HasLogin || slices.ContainsFunc(x.Profile.Keys, func(key string) bool {
		return slices.ContainsFunc(x.Env, func(e string) bool { return strings.HasPrefix(e, key+"=") })
	})
	if x.ProfileNamed || !program.Shown || !has {
		return nil
	}
	return &sandbox.Error{Op: "exec", Path: name, Code: sandbox.ErrInvalid, Hint: "it is in a directory that it works on, and would get your credentials only because of its name; --profile " +
		x.Profile.Name + " gives them to it, --profile " + profile.Plain + " runs it without"}
}

// Exec implements shell.Execer.
func (c *Commands) Exec(ctx context.Context, files *sandbox.Sandbox, command []string) (changes.Result, error) {
	program, err := profile.Find(command[0], profile.Host{Path: c.exec.Path, Dir: c.exec.Dir, Home: c.exec.Profile.Home, Single: filepath.Join(c.workspace.Session.dir, "programs")}, files)
	if err == nil {
		err = c.exec.mayLogIn(program, command[0])
	}
	if err != nil {
		return changes.Result{}, err
	}
	if err := c.prepareExec(program.Mounts); err != nil {
		return changes.Result{}, err
	}
	if err := c.mountWorkTrees(); err != nil {
		return changes.Result{}, err
	}
	shell, argv := []string{"sh", "-c", `exec "$@"`, "sh"}, program.Argv(command[1:]...)
	var names []int // the program, and the interpreter before it if there is one
	for i := range len(argv) - len(command) + 1 {
		names = append(names, len(shell)+i)
	}
	dir := workDir(files, c.exec.Dir)
	if c.exec.AtHostPath {
		if c.policy.SecondOf, c.policy.Second, dir, err = hostPath(files, c.exec.Dir); err != nil {
			return changes.Result{}, err
		}
	}
	run := jail.Command{Path: "/bin/sh", Args: append(shell, argv...), Names: names, Program: len(shell),
		Dir: dir, Env: c.networkEnv(slices.Concat(program.Env(), c.exec.Profile.Set, c.exec.Env))}
	r, err := c.runIn(files, c.Layered(), c.count(ctx, run, func(ctx context.Context, s *jail.Jail) (jail.Result, error) { return c.exec.Attach(ctx, s, run) }))
	return r, jail.CommandError(err)
}

// networkEnv removes the variables of proxies if the network of commands leads to golem,
// which uses the user's proxy itself: it cannot be reached from that network. If golem
// reads requests inside TLS, it also removes the variables that name certificates, because
// those of the jail must win.
func (c *Commands) networkEnv(env []string) []string {
	if c.policy.Egress == nil {
		return env
	}
	return slices.DeleteFunc(env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return IsReplaced(name, c.policy.Egress.Certificates != nil)
	})
}

// IsReplaced reports whether commands with a list of hosts get a variable of the user not
// at all or with another value: one of proxies or, if golem ends TLS, of certificates.
func IsReplaced(variable string, endsTLS bool) bool {
	return slices.Contains([]string{"http_proxy", "https_proxy", "all_proxy", "no_proxy"}, strings.ToLower(variable)) ||
		endsTLS && slices.Contains(jail.CertificateVariables(), variable)
}

// prepareExec gives commands the home directory, limits and mounts of the program that
// the user runs.
func (c *Commands) prepareExec(more []jail.Mount) error {
	home, err := c.workspace.Session.home(c.owner)
	if err != nil {
		return err
	}
	kept, err := c.workspace.Session.makeDir(c.owner, keptName)
	if err != nil {
		return err
	}
	if c.policy.Private, err = c.exec.Profile.Fill(home, kept); err != nil {
		return err
	}
	c.policy.Home = sandbox.Host(home)
	c.policy.Terminals = true
	c.policy.Limits = profile.Roomy(c.policy.Limits)
	for _, m := range c.exec.Profile.Mounts {
		source, err := filepath.EvalSymlinks(string(m.Source))
		if err != nil {
			return visible.FileError(string(m.Source), err)
		}
		if err := c.workspace.store.Project.Ceiling.CheckRoot("profile", source); err != nil {
			return err
		}
		more = append(more, jail.Mount{Source: sandbox.Host(source), Target: m.Target})
	}
	c.mounts = more
	return nil
}

// addMounts adds the mounts that a program has besides the files of the sandbox.
func (c *Commands) addMounts(mounts []jail.Mount) ([]jail.Mount, error) {
	owned := slices.Clip(c.mounts)
	if c.policy.Home != "" {
		owned = append(owned, jail.Mount{Target: jail.Home})
	}
	for _, m := range mounts {
		for _, own := range owned {
			if isUnder(m.Target, own.Target) || isUnder(own.Target, m.Target) {
				return nil, &sandbox.Error{Op: "mount", Path: m.Target, Code: sandbox.ErrInvalid, Hint: "programs have " + own.Target + " of their own; give the mount another target"}
			}
		}
	}
	mounts = slices.Concat(mounts, c.mounts)
	slices.SortFunc(mounts, func(a, b jail.Mount) int { return strings.Compare(a.Target, b.Target) })
	return mounts, nil
}

// isUnder reports whether a name is top or below it.
func isUnder(name, top string) bool { return name == top || strings.HasPrefix(name, top+"/") }

// hostPath returns the mount of commands that holds the user's current directory, the path of
// that mount on the host, and the path of the current directory on the host.
func hostPath(files *sandbox.Sandbox, current string) (inside, host, dir string, err error) {
	name, ok := jail.NameOf(files, current)
	m, shown := files.MountOf(name)
	if host = hostDir(m); !ok || !shown || host == "" {
		return "", "", "", &sandbox.Error{Op: "exec", Code: sandbox.ErrNotFound, Hint: "an editor names files by their paths on this machine, and the agent does not see the current directory; start it in a directory that the worker may see, or choose one with --root"}
	}
	below, err := filepath.Rel(m.Target, name)
	return jail.Inside(files, m.Target), host, filepath.Join(host, below), err
}

// workDir returns the directory where a program starts: the user's current one if the
// program sees it.
func workDir(files *sandbox.Sandbox, dir string) string {
	if name, ok := jail.NameOf(files, dir); ok {
		return jail.Inside(files, name)
	}
	if files.CanRead("/") {
		return jail.Work
	}
	return "/"
}
