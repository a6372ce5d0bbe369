package session

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/work/toolset/shell"
	"github.com/golem-forge/golem/sandbox"
)

// Commands runs the commands of a gate. It starts a session of the jail with the first
// command, and another one whenever the visible files have changed. Close ends them.
type Commands struct {
	policy    jail.Policy // without mounts
	level     policy.Level
	now       func() time.Time
	workspace *Workspace
	owner     Owner        // the owner of their home directory
	direct    bool         // they may write to files that are in no session
	exec      *Exec        // the program that the user runs, nil for none
	onlyUser  bool         // no other commands run in the session
	mounts    []jail.Mount // besides the files of the sandbox
	missing   error        // why no command can run, whatever the machine supports
	onOutput  func(data []byte)

	services *shell.Services

	mu    sync.Mutex
	jails []startedJail
	tried bool // the required level was tried, and works
}

// A startedJail is a jail with the mounts that it was started with.
type startedJail struct {
	*jail.Jail
	mounts  []jail.Mount
	layered bool
}

// CommandOptions say what commands may do.
type CommandOptions struct {
	Gate     tool.Gate    // the files they see and the limits they have
	Hosts    policy.Hosts // that they may reach
	Egress   *jail.Egress // their network if Hosts are not all hosts
	Owner    Owner
	Etc      []string          // further names of /etc that they see
	GPU      bool              // they use the machine's GPU
	Env      []string          // NAME=value
	Mounts   []jail.Mount      // that they see besides the files of the gate
	ReadOnly bool              // they write nothing outside the session
	Exec     *Exec             // the program that the user runs, nil for none
	OnlyUser bool              // no other commands run in the session
	Missing  error             // why they cannot run, whatever the machine supports
	OnOutput func(data []byte) // receives the output of commands as it arrives; may be nil
}

// Commands returns a runner of commands in the workspace. It is closed after use.
func (w *Workspace) Commands(o CommandOptions) *Commands {
	l := o.Gate.Grant.Limits
	seer, _ := o.Gate.Taint.(interface{ SeesUntrusted() bool })
	return &Commands{now: w.store.Now, level: o.Gate.Grant.Level, owner: o.Owner, workspace: w, direct: writesDirectly(o.Gate.Files) && !o.ReadOnly,
		exec: o.Exec, onlyUser: o.OnlyUser, mounts: o.Mounts, missing: o.Missing, onOutput: o.OnOutput, policy: jail.Policy{
			Network: o.Hosts.IsAll(), Egress: o.Egress, Etc: o.Etc, GPU: o.GPU, Env: o.Env, Runsc: w.store.Project.Ceiling.Runsc(), Strongest: seer != nil && seer.SeesUntrusted(),
			Limits: jail.Limits{Time: l.Time, CPU: l.CPU, Memory: l.Memory, Processes: l.Pids, FileSize: l.FileSize, Disk: l.Disk, Output: l.Output},
		}}
}

// Services returns the services of the commands. With once, none outlives the call that
// starts it. Close ends them.
func (c *Commands) Services(once bool) *shell.Services {
	c.services = shell.NewServices(c, c.now, once)
	return c.services
}

// Run implements shell.Runner.
func (c *Commands) Run(ctx context.Context, files *sandbox.Sandbox, command jail.Command, layered bool) (changes.Result, error) {
	command.OnOutput = c.onOutput
	r, err := c.runIn(files, layered, c.count(ctx, command, func(ctx context.Context, s *jail.Jail) (jail.Result, error) { return s.Run(ctx, command) }))
	if err != nil && ctx.Err() != nil {
		return r, &sandbox.Error{Op: "shell", Code: "stopped", Hint: "it was stopped before it started"}
	}
	return r, jail.CommandError(err)
}

// Serve implements shell.Server.
func (c *Commands) Serve(files *sandbox.Sandbox, command jail.Command, layered bool) (shell.Service, error) {
	var v *jail.Service
	c.workspace.beginCommand(true)
	err := c.inSession(files, layered && (!c.direct || c.workspace.canOverlay()), func(s *jail.Jail) (err error) {
		v, err = s.Serve(command)
		return err
	})
	if err != nil {
		return nil, jail.CommandError(err)
	}
	return v, nil
}

// Open implements foreign.Starter.
func (c *Commands) Open(files *sandbox.Sandbox, command jail.Command) (*jail.Process, error) {
	c.workspace.beginCommand(true)
	s, err := c.session(files, false)
	if err != nil {
		return nil, jail.CommandError(err)
	}
	p, err := s.Open(command)
	return p, jail.CommandError(err)
}

// Able implements shell.Runner. It tries the level that the program requires once,
// without mounts. If none is required, each command gets the best level that there is.
func (c *Commands) Able() error {
	if c.missing != nil {
		return c.missing
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.level == policy.AnyLevel || c.tried {
		return nil
	}
	p := c.policy
	err := c.require(&p)
	if err == nil {
		var s *jail.Jail
		if s, err = jail.Start(p, c.now); err == nil {
			err = s.Close()
		}
	}
	c.tried = err == nil
	return jail.CommandError(err)
}

// require puts the level that the program requires into a policy.
func (c *Commands) require(p *jail.Policy) error {
	least, err := jail.ParseLevel(c.level.String())
	p.Least = max(p.Least, least)
	return err
}

// mountsOf returns the mounts of commands that see these files.
func (c *Commands) mountsOf(files *sandbox.Sandbox) ([]jail.Mount, error) {
	if err := makeWritable(files); err != nil {
		return nil, err
	}
	mounts, err := jail.MountsOf(files)
	if err != nil {
		return nil, err
	}
	return c.addMounts(mounts)
}

// session returns the session of the jail for commands that see these files.
func (c *Commands) session(files *sandbox.Sandbox, layered bool) (*jail.Jail, error) {
	mounts, err := c.mountsOf(files)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jails = slices.DeleteFunc(c.jails, func(s startedJail) bool { return s.Ended() && s.Close() == nil })
	for _, s := range c.jails {
		if slices.Equal(s.mounts, mounts) && s.layered == layered {
			return s.Jail, nil
		}
	}
	s, err := c.start(mounts, layered, jail.None)
	if err != nil {
		return nil, err
	}
	c.jails = append(c.jails, startedJail{s, mounts, layered})
	return s, nil
}

// start starts a session of the jail at the given level or a stronger one.
func (c *Commands) start(mounts []jail.Mount, layered bool, least jail.Level) (*jail.Jail, error) {
	p := c.policy
	p.Mounts = mounts
	if err := c.require(&p); err != nil {
		return nil, err
	}
	p.Least = max(p.Least, least)
	if err := c.addHome(&p); err != nil {
		return nil, err
	}
	if layered && slices.ContainsFunc(mounts, func(m jail.Mount) bool { return m.Write && !m.Kept }) {
		p.Recorder, p.Least = changes.Recorder{Dir: c.workspace.pending.dir}, max(p.Least, jail.Namespaces)
	}
	if slices.ContainsFunc(mounts, func(m jail.Mount) bool { return m.Kept }) {
		p.Loopback, p.Sole = string(c.owner), c.onlyUser
		if c.workspace.changes != nil { // nil if the session has neither overlays nor copies
			p.Overlays = c.workspace.changes
		}
	}
	s, err := jail.Start(p, c.now)
	if err != nil && layered {
		c.workspace.pending.forgetProbe()
	}
	if err == nil {
		c.workspace.connectPorts(s)
	}
	return s, err
}

// addHome gives commands the home directory of their owner, if there is a session and no
// mount is at or around its path.
func (c *Commands) addHome(p *jail.Policy) error {
	there := func(m jail.Mount) bool { return isUnder(m.Target, jail.Home) || isUnder(jail.Home, m.Target) }
	if p.Home != "" || c.workspace.Session == nil || slices.ContainsFunc(p.Mounts, there) {
		return nil
	}
	home, err := c.workspace.Session.home(c.owner)
	p.Home = sandbox.Host(home)
	return err
}

// makeWritable makes the missing directories of writable mounts, as the first write of a
// file would.
func makeWritable(files *sandbox.Sandbox) error {
	for _, m := range files.Mounts() {
		if m.Access < sandbox.ReadWrite {
			continue
		}
		err := m.Backend.Mkdir(".")
		var known *sandbox.Error
		if errors.As(err, &known) && known.Hint != "" { // for example because another golem works on the session
			return err
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return &sandbox.Error{Op: "make", Path: m.Target, Code: sandbox.CodeOf(err), Hint: "the directory is missing, and golem cannot make it"}
		}
	}
	for _, root := range files.WritableRoots() {
		if err := files.MakeDir(root); err != nil {
			return err
		}
	}
	return nil
}

// Close ends all services and commands.
func (c *Commands) Close() error {
	c.services.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, s := range c.jails {
		errs = append(errs, s.Close())
	}
	c.jails = nil
	return errors.Join(errs...)
}

// Layered implements shell.Runner. A command that works on a copy does not write to the
// user's files either.
func (c *Commands) Layered() bool {
	return !c.direct || c.workspace.canOverlay() || c.workspace.canCopy()
}

// runIn calls do with a session of the jail for commands that see these files, and
// returns its result. If commands would write directly and no overlay can be mounted,
// they work on copies, and the result has their changes.
func (c *Commands) runIn(files *sandbox.Sandbox, layered bool, do func(*jail.Jail) (jail.Result, error)) (changes.Result, error) {
	c.workspace.mu.Lock()
	c.workspace.hasRun = true
	c.workspace.mu.Unlock()
	c.workspace.beginCommand(false)
	if !layered || !c.direct || c.workspace.canOverlay() {
		var r changes.Result
		err := c.inSession(files, layered, func(s *jail.Jail) (err error) {
			r, err = changes.Finish(do(s))
			return err
		})
		return r, err
	}
	mounts, err := c.mountsOf(files)
	if err != nil {
		return changes.Result{}, jail.CommandError(err)
	}
	a, err := changes.CopyForCommand(c.workspace.pending.dir, mounts, c.workspace.copyLimit)
	if err != nil {
		return changes.Result{}, jail.CommandError(copyError(err, "what the command may write"))
	}
	s, err := c.start(a.Mounts, false, jail.Namespaces)
	if err != nil {
		return changes.Result{}, jail.CommandError(errors.Join(err, a.Discard()))
	}
	ran, err := do(s)
	if closed := s.Close(); err == nil {
		err = closed
	}
	r := changes.Result{Result: ran}
	if err != nil {
		return r, errors.Join(err, a.Discard())
	}
	r.Changed, err = a.Finish()
	return r, err
}

// count returns do, which runs a command within the limit of the disk, with the hosts that
// the command asked for in vain in its result. If it failed, the result says how to allow them. golem asks nobody
// for that after a signal, because the user may be waiting for the prompt.
func (c *Commands) count(ctx context.Context, command jail.Command, do func(context.Context, *jail.Jail) (jail.Result, error)) func(*jail.Jail) (jail.Result, error) {
	e := c.policy.Egress
	return func(s *jail.Jail) (jail.Result, error) {
		watched, disk := c.watchDisk(ctx)
		end := func() (none jail.Refused) { return none }
		if e != nil {
			end = e.Count()
		}
		r, err := do(watched, s)
		disk.finish(&r)
		if r.Refused = end(); len(r.Refused.Hosts) == 0 || r.Code == 0 {
			return r, err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if r.Code > 128 || r.Stopped {
			cancel()
		}
		r.Refused.Add, r.Refused.Denied = e.Suggest(ctx, command.Args, r.Refused.Hosts)
		return r, err
	}
}

// inSession calls do with a session of the jail for commands that see these files. If the
// holder of that session was killed before the command began, it calls do again with a new
// one, but only once.
func (c *Commands) inSession(files *sandbox.Sandbox, layered bool, do func(*jail.Jail) error) error {
	for tries := 0; ; tries++ {
		s, err := c.session(files, layered)
		has := err == nil
		if has {
			err = do(s)
		}
		switch {
		case tries == 0 && errors.Is(err, jail.ErrNotBegun):
		case has:
			return err
		default:
			return jail.CommandError(err)
		}
	}
}

// writesDirectly reports whether a sandbox has writable files that are in no session.
func writesDirectly(files *sandbox.Sandbox) bool {
	for _, name := range files.Anchors() {
		m, shown := files.MountOf(name)
		if shown && m.Access >= sandbox.ReadWrite && (m.Backend == nil || m.Backend.Traits().Through == "") {
			return true
		}
	}
	return false
}
