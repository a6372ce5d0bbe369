package program

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/toolset/shell"
	"github.com/golem-forge/golem/sandbox"
)

// commands runs the commands of a door. A session is started with the first
// command and ends with the door; where what commands may see has changed, there
// is one more.
type commands struct {
	policy    jail.Policy // without mounts
	level     policy.Level
	now       func() time.Time
	workspace *workspace
	owner     owner        // whose home they have
	direct    bool         // they may write what no session keeps
	exec      *Exec        // what the user runs, nil where that is nothing
	onlyUser  bool         // no other commands run in the session
	mounts    []jail.Mount // that it has besides the sandbox
	missing   error        // why it cannot be started, whatever the machine has
	steps     undoSteps    // what file tools have changed

	services *shell.Services

	mu       sync.Mutex
	sessions []session
	tried    bool // what is required was tried, and is there
}

// A session is one of the jail, with the mounts that it was started with.
type session struct {
	*jail.Session
	mounts  []jail.Mount
	layered bool
}

// newCommands returns what runs commands with the grant of a gate.
func newCommands(g tool.Gate, o owner, w *workspace, now func() time.Time) *commands {
	l := g.Grant.Limits
	return &commands{now: now, level: g.Grant.Level, owner: o, workspace: w, direct: writesDirectly(g.Files), policy: jail.Policy{
		Network: g.HasNetwork(),
		Limits:  jail.Limits{Time: l.Time, CPU: l.CPU, Memory: l.Memory, Processes: l.Pids, FileSize: l.FileSize, Output: l.Output},
	}}
}

// Run implements shell.Runner.
func (c *commands) Run(ctx context.Context, files *sandbox.Sandbox, command jail.Command, layered bool) (jail.Result, error) {
	r, err := c.runIn(files, layered, func(s *jail.Session) (jail.Result, error) { return s.Run(ctx, command) })
	if err != nil && ctx.Err() != nil {
		return r, &sandbox.Error{Op: "shell", Code: "stopped", Hint: "it was stopped before it could begin"}
	}
	return r, asWorkerError(err)
}

// Serve implements shell.Server.
func (c *commands) Serve(files *sandbox.Sandbox, command jail.Command, layered bool) (shell.Service, error) {
	s, err := c.session(files, layered && (!c.direct || c.workspace.canOverlay()))
	if err != nil {
		return nil, asWorkerError(err)
	}
	v, err := s.Serve(command)
	if err != nil {
		return nil, asWorkerError(err)
	}
	return v, nil
}

// Able implements shell.Runner. What the program requires is tried once, with no
// folder; where it requires nothing the best is taken when a command runs.
func (c *commands) Able() error {
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
		var s *jail.Session
		if s, err = jail.Start(p, c.now); err == nil {
			err = s.Close()
		}
	}
	c.tried = err == nil
	return asWorkerError(err)
}

// require puts the level that the program requires into a policy.
func (c *commands) require(p *jail.Policy) error {
	switch c.level {
	case policy.AnyLevel:
	case policy.Landlock:
		p.Least = jail.Landlock
	case policy.Namespaces:
		p.Least = jail.Namespaces
	default:
		return &sandbox.Error{Op: "shell", Code: jail.ErrNoSandbox, Hint: "golem ran no command: require_os_sandbox requires the level " + c.level.String() + ", which this version does not have; " + noContainer}
	}
	return nil
}

// noContainer is what to do about a level above all that there are.
const noContainer = "write require_os_sandbox: namespaces, which is the strongest, or leave the key out"

// mountsOf returns what commands see of these files.
func (c *commands) mountsOf(files *sandbox.Sandbox) ([]jail.Mount, error) {
	if err := makeWritable(files); err != nil {
		return nil, err
	}
	mounts, err := jail.MountsOf(files)
	if err != nil {
		return nil, err
	}
	return c.addMounts(mounts)
}

// session returns the one for commands that see these files.
func (c *commands) session(files *sandbox.Sandbox, layered bool) (*jail.Session, error) {
	mounts, err := c.mountsOf(files)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions = slices.DeleteFunc(c.sessions, func(s session) bool { return s.Ended() && s.Close() == nil })
	for _, s := range c.sessions {
		if slices.Equal(s.mounts, mounts) && s.layered == layered {
			return s.Session, nil
		}
	}
	s, err := c.start(mounts, layered, jail.None)
	if err != nil {
		return nil, err
	}
	c.sessions = append(c.sessions, session{s, mounts, layered})
	return s, nil
}

// start starts a session of the jail, at a level that is not below the least.
func (c *commands) start(mounts []jail.Mount, layered bool, least jail.Level) (*jail.Session, error) {
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
		p.Layers, p.Least = c.workspace.pending.dir, jail.Namespaces
	}
	if slices.ContainsFunc(mounts, func(m jail.Mount) bool { return m.Kept }) {
		p.Kept, p.Loopback, p.Sole = c.workspace.changes, string(c.owner), c.onlyUser
	}
	s, err := jail.Start(p, c.now)
	if err != nil && layered {
		c.workspace.pending.forgetProbe()
	}
	return s, err
}

// addHome gives commands the home of their owner, where there is a session. Where a mount
// stands there they have none.
func (c *commands) addHome(p *jail.Policy) error {
	there := func(m jail.Mount) bool { return isUnder(m.Target, jail.Home) || isUnder(jail.Home, m.Target) }
	if p.Home != "" || c.workspace.session == nil || slices.ContainsFunc(p.Mounts, there) {
		return nil
	}
	home, err := c.workspace.session.home(c.owner)
	p.Home = sandbox.Host(home)
	return err
}

// makeWritable makes the folders that may be written and are missing, as the
// first write of a file would.
func makeWritable(files *sandbox.Sandbox) error {
	for _, m := range files.Mounts() {
		if m.Access < sandbox.ReadWrite {
			continue
		}
		err := m.Backend.Mkdir(".")
		var known *sandbox.Error
		if errors.As(err, &known) && known.Hint != "" { // such as that another golem has it
			return err
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return &sandbox.Error{Op: "make", Path: m.Target, Code: sandbox.CodeOf(err), Hint: "the folder is missing, and cannot be made"}
		}
	}
	for _, root := range files.WritableRoots() {
		if err := files.MakeDir(root); err != nil {
			return err
		}
	}
	return nil
}

// Close ends all that runs.
func (c *commands) Close() error {
	c.services.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, s := range c.sessions {
		errs = append(errs, s.Close())
	}
	c.sessions = nil
	return errors.Join(errs...)
}

// asWorkerError returns an error of the jail as a worker may read it. The jail names no
// folder of the host but those of its own making.
func asWorkerError(err error) error {
	var known *sandbox.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &sandbox.Error{Op: "shell", Code: sandbox.ErrInternal, Hint: strings.TrimPrefix(jail.Plain(err), "jail: ") + "; run golem doctor to check this machine"}
}
