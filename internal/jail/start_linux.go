package jail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
	"golang.org/x/sys/unix"
)

// A Jail runs commands with one policy. Many goroutines may use it: each command has
// its own cell while it runs.
type Jail struct {
	policy Policy
	now    func() time.Time
	level  Level
	plan   plan
	holder *Helper
	shared bool // several jails share the holder
	groups *groups

	supervisor *supervisor // the network of commands at the level landlock, nil for none
	noNetwork  string      // why commands have no network although the policy has one
	noRunsc    bool        // the runsc that the user named does not work

	mu      sync.Mutex
	idle    []*wire          // cells that wait for a command
	cells   map[*wire]bool   // all of them
	next    map[*wire]Record // the record for the next command of each cell
	records int              // the number of records so far
	ended   bool
}

// Start starts a jail at the best level that this machine provides. The caller must
// close it. If the policy requires a better level, the error is ErrNoSandbox.
func Start(p Policy, now func() time.Time) (*Jail, error) {
	noRunsc, err := p.chooseRunsc()
	if err != nil {
		return nil, err
	}
	s, err := startBest(p, now)
	if err == nil {
		s.noRunsc = noRunsc
	}
	return s, err
}

// startBest starts a jail at the best level up to namespaces, or at the level container if
// the policy requires it.
func startBest(p Policy, now func() time.Time) (*Jail, error) {
	for _, m := range p.Mounts {
		if !utf8.ValidString(string(m.Source)) {
			return nil, &sandbox.Error{Op: "jail", Path: m.Target, Code: sandbox.ErrInvalid, Hint: "the name of its directory on the host is not valid UTF-8, so commands cannot see it: rename it"}
		}
	}
	if err := checkPrivate(p.Private); err != nil {
		return nil, err
	}
	for _, name := range p.Etc {
		if err := CheckEtc(name); err != nil {
			return nil, err
		}
	}
	needs, out := "require_os_sandbox or --jail requires the level "+p.Least.String(), "run golem doctor to see what is missing"
	if p.Recorder != nil && p.Least < Container {
		needs, out = "the command writes to an overlay of your directory, which requires the level namespaces", out+", and try again"
	}
	if p.Overlays != nil && p.Overlays.Mounted() && p.Least < Container {
		p.Least = Namespaces
		needs, out = "the session works on an overlay, which requires the level namespaces", "run golem doctor to see what is missing, or work on a copy with --session new --copy"
	}
	if p.Second != "" {
		if err := checkSecond(p.Second); err != nil {
			return nil, err
		}
		if p.Least > Namespaces {
			return nil, noSandbox("the level "+p.Least.String()+" shows a directory at one path only, and an editor needs the project at its own path", "use the level namespaces for golem acp")
		}
		p.Least = Namespaces
		needs = "the command sees the directory at its own path, which requires the level namespaces"
	}
	if err := p.findGPU(&needs); err != nil {
		return nil, err
	}
	if p.Network {
		p.Egress = nil
	}
	if err := p.prepare(Namespaces); err != nil {
		return nil, err
	}
	s, err := startNamespaces(p, now)
	if err != nil && p.Egress != nil && p.Egress.NamesOnly {
		p.Egress = nil
		s, err = startNamespaces(p, now)
	}
	if err == nil {
		return s, nil
	}
	var own *sandbox.Error
	if (p.Egress != nil || p.GPU) && errors.As(err, &own) { // an error of the jail, not of the machine
		return nil, own
	}
	if p.Least > Landlock {
		return nil, noSandbox(needs+", and this machine cannot provide it ("+inLine(err)+")", out)
	}
	s, bare := startBare(p, now)
	if bare != nil {
		if errors.As(bare, &own) {
			return nil, own
		}
		if errors.Is(bare, errWithin) {
			out = "give both directories the same rules, or run golem doctor to see what the level namespaces lacks"
		}
		return nil, noSandbox("this machine cannot provide the level namespaces ("+inLine(err)+"), and the level landlock is not enough: "+inLine(bare), out)
	}
	return s, nil
}

// inLine returns the text of an error in one line, without the prefix of this package.
func inLine(err error) string {
	return strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "jail: ")), " ")
}

// launched starts a holder, either directly or through a launcher. The launcher ends
// after it has started the holder. The caller calls wait after the first report of the
// holder.
func launched(h holding) (holder *Helper, wait func(), err error) {
	near, far, err := newWires()
	if err != nil {
		return nil, nil, err
	}
	near.identifyPeer()
	holder = &Helper{wire: near, network: h.Network}
	wait = func() {}
	if h.Mounts && isSmall() {
		holder.child, err = h.start(far)
	} else {
		var launcher *started
		if launcher, err = again(launchWord, far, &syscall.SysProcAttr{}); err == nil {
			wait = launcher.wait
			err = near.send(h)
		}
	}
	far.Close()
	if err != nil {
		near.Close()
		return nil, nil, fmt.Errorf("jail: %w", err)
	}
	return holder, wait, nil
}

// isSmall reports whether this process has little memory. For a process with a user
// namespace, the kernel copies the page tables of its parent. If they are small, that
// takes less time than a launcher. Only a holder for overlays is started this way, where
// namespaces are known to work: if they do not, Go leaves a pipe open.
func isSmall() bool {
	const most = 64 << 20
	data, err := os.ReadFile("/proc/self/statm")
	var size, resident int64
	n, _ := fmt.Sscan(string(data), &size, &resident)
	return err == nil && n == 2 && resident*int64(os.Getpagesize()) <= most
}

func newJail(p Policy, now func() time.Time, holder *Helper) *Jail {
	s := &Jail{policy: p, now: now, level: Namespaces, plan: compile(p, os.Geteuid(), os.Getegid()), holder: holder,
		groups: newGroups(), next: make(map[*wire]Record), cells: make(map[*wire]bool)}
	if p.Least == Container {
		s.level, s.plan.Runsc, s.plan.Networked = Container, string(p.Runsc), p.Network || p.Egress != nil
	}
	s.plan.Layered = p.Recorder != nil || p.Overlays != nil && p.Overlays.Mounted()
	if p.Overlays != nil {
		s.plan.Shared, s.plan.NoSockets = p.Overlays.Join(p.Loopback, p.Sole)
	}
	if s.plan.Shared && p.Second != "" {
		// Below /tmp and /home commands may make sockets, and other workers would see them.
		s.plan.NoSockets = cmp.Or(s.plan.NoSockets, "other workers write the same directories")
	}
	return s
}

// startOn starts a jail whose cells come from an existing holder. It starts the first
// cell at once.
func startOn(holder *Helper, p Policy, now func() time.Time) (*Jail, error) {
	s := newJail(p, now, holder)
	s.shared = true
	s.plan.Apart = holder.network && !p.Network && p.Egress == nil
	if err := holder.openEgress(p); err != nil {
		s.Close()
		return nil, fmt.Errorf("jail: %w", err)
	}
	return s.withCell()
}

// startNamespaces starts a jail with a cell at the level namespaces.
func startNamespaces(p Policy, now func() time.Time) (*Jail, error) {
	if holder := p.helper(); holder != nil {
		if p.Network && !holder.network {
			return nil, errors.New("jail: the session's overlays were opened without the network")
		}
		return startOn(holder, p, now)
	}
	holder, wait, err := launched(holdingOf(p.Network))
	if err != nil {
		return nil, err
	}
	s := newJail(p, now, holder)
	if p.Egress != nil { // its network is made before the first cell
		return s.startWithEgress(wait)
	}
	c, err := s.newCell(s.plan) // sent before the holder runs, which then finds the request
	if wrong := awaitReport(s.holder.wire); wrong != nil {
		err = wrong // the holder's own error is the cause
	}
	wait()
	if err == nil {
		err = awaitReport(c) // the tree may fail even if the namespaces work
	}
	if err != nil {
		s.drop(c)
		s.Close()
		return nil, fmt.Errorf("jail: %w", err)
	}
	s.put(c)
	return s, nil
}

// startWithEgress starts a jail whose network leads to golem, when its holder reports.
func (s *Jail) startWithEgress(wait func()) (*Jail, error) {
	err := awaitReport(s.holder.wire)
	wait()
	if err == nil {
		err = s.holder.openEgress(s.policy)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("jail: %w", err)
	}
	return s.withCell()
}

// withCell starts the first cell of a jail.
func (s *Jail) withCell() (*Jail, error) {
	c, err := s.cell()
	if err != nil {
		s.Close()
		return nil, err
	}
	s.put(c)
	return s, nil
}

// awaitReport waits for the report of a part.
func awaitReport(w *wire) error {
	_, err := receiveReport(w)
	return err
}

// receiveReport waits for the report of a part, and returns the files that come with it.
func receiveReport(w *wire) (files []int, err error) {
	w.wait(patience)
	defer w.wait(0)
	var r report
	if files, err = w.receive(&r); err != nil {
		return nil, err
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return files, nil
}

// Close ends the jail with all its cells and commands.
func (s *Jail) Close() error {
	s.mu.Lock()
	idle, cells, next := s.idle, s.cells, s.next
	s.ended, s.idle, s.next = true, nil, nil
	for c := range cells {
		if !slices.Contains(idle, c) {
			unix.Shutdown(c.fd, unix.SHUT_RDWR) // do not wait for its command
		}
	}
	s.mu.Unlock()
	for _, c := range idle {
		c.finish()
	}
	for _, r := range next {
		r.Discard()
	}
	var err error
	if !s.shared {
		err = s.holder.Close()
	}
	if s.supervisor != nil {
		err = errors.Join(err, s.supervisor.close())
	}
	s.groups.drop(nil)
	return err
}

// waiting returns an idle cell, or nil if there is none.
func (s *Jail) waiting() (*wire, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, errors.New("jail: the session has ended")
	}
	n := len(s.idle)
	if n == 0 {
		return nil, nil
	}
	c := s.idle[n-1]
	s.idle = s.idle[:n-1]
	return c, nil
}

// cell returns an idle cell, or a new one.
func (s *Jail) cell() (*wire, error) {
	if c, err := s.waiting(); c != nil || err != nil {
		return c, err
	}
	c, _, err := s.readyCell(s.plan)
	return c, err
}

// readyCell returns a new cell with a plan when it is ready, and the files that it gives.
// The error is ErrNotBegun if the holder was killed.
func (s *Jail) readyCell(p plan) (c *wire, files []int, err error) {
	c, err = s.newCell(p)
	if err == nil {
		files, err = receiveReport(c)
	}
	if err == nil && p.Supervised {
		if len(files) == 0 {
			s.drop(c)
			return nil, nil, errors.New("jail: the jail does not ask golem for sockets")
		}
		s.supervisor.serve(files[0])
		files = files[1:]
	}
	if err == nil {
		return c, files, nil
	}
	s.drop(c)
	if (errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE)) && s.holder.endsWithin(time.Second) { // a killed holder takes a while to end
		return nil, nil, fmt.Errorf("jail: %w: %w", ErrNotBegun, err)
	}
	return nil, nil, fmt.Errorf("jail: %w", err)
}

// newCell asks the holder for a cell with a plan. The cell sends a report when it is
// ready.
func (s *Jail) newCell(p plan) (*wire, error) {
	near, far, err := newWires()
	if err != nil {
		return nil, err
	}
	defer far.Close()
	if err := s.recordFirst(near, &p); err != nil {
		return near, err
	}
	s.mu.Lock()
	s.cells[near] = true
	s.mu.Unlock()
	s.holder.asking.Lock()
	a := ask{Apart: p.Apart}
	if !s.policy.Network {
		a.Loopback, a.Isolated = s.networkName()
	}
	err = s.holder.send(a, far.fd)
	s.holder.asking.Unlock()
	if err == nil {
		groups := s.groups.make(near, s.hostLimits(s.policy.Limits.filled()))
		if p.Counted, _ = s.groups.holds(near); s.policy.GPU && !p.Counted {
			return near, errUncounted()
		}
		err = near.send(p, groups...)
	}
	return near, err
}

// networkName returns the name of the network of the jail's commands, which is not the
// host's, and whether the holder's own network may be the one.
func (s *Jail) networkName() (name string, isolated bool) {
	if s.policy.Egress != nil {
		return outletKey(s.policy), false
	}
	return s.policy.Loopback, !s.holder.network
}

// put makes a cell that has run a command idle.
func (s *Jail) put(c *wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		c.Close()
		return
	}
	s.idle = append(s.idle, c)
}

// drop closes a cell and removes its groups.
func (s *Jail) drop(w *wire) {
	if w == nil {
		return
	}
	s.mu.Lock()
	next := s.next[w]
	delete(s.next, w)
	delete(s.cells, w) // Close does not use it any more
	s.mu.Unlock()
	w.Close()
	s.groups.drop(w)
	if next != nil {
		next.Discard()
	}
}

// order sends an order for a command to a cell, and returns the cell and the record of
// the command. If the cell ended while it was idle, order uses another one.
func (s *Jail) order(o order, streams ...int) (*wire, Record, error) {
	for {
		w, err := s.cell()
		if err != nil {
			return nil, nil, err
		}
		changes, err := s.orderOf(w, o, streams...)
		if err == nil {
			return w, changes, nil
		}
		s.drop(w)
		if !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
			return nil, nil, err
		}
	}
}

// orderOf sends an order to this cell, and returns the record of the command.
func (s *Jail) orderOf(w *wire, o order, streams ...int) (Record, error) {
	s.limit(&o, w)
	changes, err := s.recordNext(w, &o)
	if err == nil {
		err = w.send(o, streams...)
	}
	if err != nil && changes != nil {
		changes.Discard()
		changes = nil
	}
	return changes, err
}

// newOrder returns the order for a command.
func (s *Jail) newOrder(c Command, l Limits) order {
	l = s.hostLimits(l)
	return order{Path: c.Path, Args: c.Args, Names: c.Names, Program: c.Program, Env: settled(commandEnvironment(s.policy, c.Env)), Dir: c.Dir, Time: l.Time, CPU: l.CPU,
		Memory: l.Memory, Processes: l.Processes, Files: l.Files, FileSize: l.FileSize}
}

// settled returns each variable once, with its last value, because programs do not agree
// which one counts. It omits a variable whose last entry has no value.
func settled(env []string) []string {
	last := make(map[string]int)
	for i, e := range env {
		name, _, _ := strings.Cut(e, "=")
		last[name] = i
	}
	var list []string
	for i, e := range env {
		if name, _, ok := strings.Cut(e, "="); ok && last[name] == i {
			list = append(list, e)
		}
	}
	return list
}

// await waits for the verdict of an order. If the context ends, it asks the cell to end
// the command. It returns an error if no verdict arrives in time.
func (w *wire) await(ctx context.Context, most time.Duration) (v verdict, err error) {
	sent := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(sent)
		w.send(order{})
	})
	w.wait(most)
	_, err = w.receive(&v)
	w.wait(0)
	if !stop() {
		<-sent // the cell would take it for the next order
	}
	return v, err
}

// Run runs a command, and returns when the command and every process that it started have
// ended.
func (s *Jail) Run(ctx context.Context, c Command) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{Stopped: true, Level: s.level}, fmt.Errorf("jail: %w", err)
	}
	limits := s.policy.Limits.filled()
	most := []int64{limits.Output, limits.Output}
	if c.Tells {
		most = append(most, maxTold)
	}
	out, err := collectAll(c.OnOutput, most...)
	if err != nil {
		return Result{}, err
	}
	in, err := feed(c.Input)
	if err != nil {
		out.close()
		return Result{}, err
	}
	defer in.close()
	o := s.newOrder(c, limits)
	o.Streams = [3]int{0, 1, 2}
	if c.Tells {
		o.Tell = 3
	}
	streams := out.ends()
	if in != nil {
		streams = append(streams, in.end)
		o.Streams[0] = len(streams)
	}
	if c.Time > 0 && c.Time < o.Time {
		o.Time = c.Time
	}
	began := s.now()
	w, changes, err := s.order(o, streams...)
	out.closeOurs()
	in.closeOurs()
	var v verdict
	if err == nil {
		v, err = w.await(ctx, o.Time+patience)
	}
	r := s.result(ctx, v, began, limits)
	if err != nil {
		s.drop(w)
		out.close()
		if changes != nil {
			changes.Discard()
		}
		if w == nil {
			return r, err
		}
		return r, fmt.Errorf("jail: the process that holds the jail has ended: %w", err)
	}
	r.Stdout, r.Stderr = out[0].wait(), out[1].wait()
	if c.Tells {
		r.Left = s.left(out[2].wait(), o.Env)
	}
	r.Hit = s.hit(w, v, r)
	s.put(w)
	return s.complete(c, v, changes, r)
}

// left returns the directory and variables that a shell reported.
func (s *Jail) left(output Output, initial []string) *Left {
	same := func(text string) string { return text }
	if s.level == Landlock { // commands see the host's paths
		return leftOf(output, initial, s.plan.inside, s.plan.insideAll)
	}
	return leftOf(output, initial, same, same)
}

// result returns the result of a command from its verdict.
func (s *Jail) result(ctx context.Context, v verdict, began time.Time, l Limits) Result {
	return Result{Level: s.level, Took: s.now().Sub(began), CPU: v.CPU, Peak: v.Peak, Late: v.Late, Stopped: ctx.Err() != nil, Loose: s.loose(), Limits: l, NoSockets: v.NoSockets, NoNetwork: s.noNetwork, NoRunsc: s.noRunsc}
}

// complete adds to the result of a command where its changes are recorded, and how it
// ended.
func (s *Jail) complete(c Command, v verdict, changes Record, r Result) (Result, error) {
	r.Record = changes
	if s.level == Container && strings.HasPrefix(v.Error, "runsc") {
		return r, noSandbox(v.Error, "install another release of gVisor's runsc; docs/jail.md says how")
	}
	if v.Error != "" {
		return r, fmt.Errorf("jail: %s: %s", c.Path, v.Error)
	}
	status := unix.WaitStatus(v.Status)
	r.Code = status.ExitStatus()
	if status.Signaled() {
		r.Code, r.Signal = 128+int(status.Signal()), unix.SignalName(status.Signal())
	}
	return r, nil
}
