package jail

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An order is a message to a cell to run a command.
type order struct {
	Path  string
	Args  []string
	Names []int // as in Command
	Env   []string
	Dir   string
	Time  time.Duration // 0 for no limit, as CPU

	Program int // as in Command

	CPU time.Duration
	// Memory, Processes, Files and FileSize as in Limits.
	Memory, Processes, Files, FileSize int64
	// The cell watches these itself if nothing else limits them.
	WatchMemory, WatchProcesses bool
	Stores                      []string // the stores for the changes of the next command

	Streams  [3]int // the number of the file for each stream, from 1; 0 for /dev/null
	Attached bool   // the cell reports when the command is stopped
	Terminal int    // the number of the file that is the controlling terminal; 0 for none
	Looks    bool   // a service, which has to see changes that others make in its directories
	Tell     int    // the number of the file that the command has at tellFD; 0 for none

	Signal int // without a Path: the signal for the running command

	streams []int
}

// A verdict is the result of a command.
type verdict struct {
	Error  string // why the command could not start
	Status int    // as returned by wait(2)
	Late   bool   // the cell ended it because its time was over
	Hit    []Limit
	CPU    time.Duration
	Peak   int64 // bytes of the largest process

	Stopped bool // no result yet: the command was stopped

	NoSockets string // why the command had no Unix sockets, "" if it had
}

// cell is the first process of a PID namespace. It builds the tree, then runs one command
// after the other.
func cell(w *wire) error {
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	var p plan
	groups, err := w.receive(&p)
	if err != nil {
		return err
	}
	var keys <-chan os.Signal
	if p.Terminal {
		if keys, err = lead(); err != nil {
			return err
		}
	}
	if p.Apart {
		if err := loopbackUp(); err != nil {
			return err
		}
	}
	tree, err := newTree(p)
	if err != nil {
		return err
	}
	// The first mounts are made while the threads start.
	threads := make(chan error, 2)
	var h *hands
	go func() {
		startThreads()
		threads <- nil
	}()
	go func() {
		var err error
		h, err = newHands(groups, func(h *hands) (err error) {
			if p.Runsc != "" {
				h.container, err = tree.contain(p)
				return err
			}
			return tree.confine(p)
		})
		threads <- err
	}()
	ready := tree.refresh()
	if err := errors.Join(<-threads, <-threads, ready); err != nil {
		return err
	}
	if !p.Counted {
		files, err := tree.countMemory()
		if err != nil {
			return err
		}
		sockets := func([]int) int64 { return socketBuffers(nil) }
		switch {
		case p.Runsc != "":
			in := runscMemory()
			sockets = func([]int) int64 { return in() }
		case p.Online: // this is the network of the host, and commands have Unix sockets in theirs
			ofHost := new(socketCount)
			sockets = func(pids []int) int64 { return ofHost.of(pids) + buffersIn(tree.sockets, nil) }
		}
		h.memory = func(pids []int) int64 { return files() + sockets(pids) }
	}
	h.ready = func() error {
		if err := tree.refresh(); err != nil {
			return err
		}
		return h.closeSockets(tree.exposed)
	}
	if err := h.closeSockets(tree.exposed); err != nil {
		return err
	}
	h.mover = tree.mover
	h.ahead, h.anew, h.stands, h.signal, h.others, h.prepared = tree.ahead, tree.anew, tree.stands, signalNamespace, cellThreads, true
	var terminal []int
	if p.Terminal {
		go h.running.follow(keys)
		person, program, err := openTerminal("/dev/ptmx", "/dev/pts")
		if err != nil {
			return fmt.Errorf("a terminal: %w", err)
		}
		terminal = []int{person, program}
	}
	return h.serve(w, terminal...)
}

// confine moves the calling thread into the tree, and removes from it all rights that a
// command must not have.
func (t *tree) confine(p plan) error {
	if err := t.enter(); err != nil {
		return err
	}
	if err := hideMounts(); err != nil {
		return err
	}
	if p.Online {
		if err := apartNetwork(); err != nil {
			return err
		}
		t.sockets, _ = openSockets() // a kernel without it counts no sockets
	}
	if err := confineThread(); err != nil {
		return err
	}
	if !p.Counted {
		if err := filter(noMemoryFiles()); err != nil {
			return err
		}
	}
	if err := fenceOf(p).close(); err != nil && err != errNoLandlock {
		return err
	}
	return t.answer(p)
}

// answer has the kernel ask the cell about some calls of the commands that the calling
// thread starts, and answers them on other threads.
func (t *tree) answer(p plan) error {
	listener, err := -1, error(nil)
	renames := p.Layered
	if renames {
		// A signal does not interrupt a rename that the cell has begun. Kernels before
		// Linux 5.19 cannot promise that. If another program supervises golem's calls,
		// golem cannot.
		listener, err = install(asking(p.Online, true), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
		renames = err == nil
	}
	if !renames {
		if !p.Online {
			return nil
		}
		if listener, err = install(asking(true, false), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER); err != nil {
			return err
		}
		go answerRequests(listener, func(q callRequest) { q.answer(listener) })
		return nil
	}
	t.mover, err = newMover(listener, t.enter, fenceOf(p))
	return err
}

// serve reports that the cell is ready, passes files to golem, and runs the commands that
// golem sends.
func (h *hands) serve(w *wire, files ...int) error {
	if err := w.send(report{}, files...); err != nil {
		return err
	}
	for _, fd := range files {
		unix.Close(fd)
	}
	orders := make(chan order)
	cancel := make(chan struct{}, 1)
	go h.listen(w, orders, cancel)
	for o := range orders {
		if h.where != nil {
			o = h.where(o)
		}
		v := h.run(o, cancel, func() { w.send(verdict{Stopped: true}) })
		for _, fd := range o.streams {
			unix.Close(fd)
		}
		if err := w.send(v); err != nil {
			return nil // golem has ended
		}
		h.prepare() // while golem reads the verdict
	}
	return nil
}

// closeSockets removes Unix sockets from all later commands if a directory is exposed.
func (h *hands) closeSockets(exposed string) error {
	if exposed == "" || h.noSockets != "" || h.container != nil { // sockets of runsc's kernel never reach the host's
		return nil
	}
	h.noSockets = exposed
	return h.do(func() error { return filter(noUnixSockets()) })
}

// prepare mounts the directories for a command, unless they are mounted already.
func (h *hands) prepare() error {
	if h.prepared && h.stands() {
		return nil
	}
	err := h.ready()
	h.prepared = err == nil
	return err
}

// listen reads messages: an order, a signal for the running command, or a request to end
// it. It also ends the command when golem closes the wire.
func (h *hands) listen(w *wire, orders chan<- order, cancel chan struct{}) {
	defer close(orders)
	stop := func() {
		select {
		case cancel <- struct{}{}:
		default:
		}
	}
	for {
		var o order
		fds, err := w.receive(&o)
		if err != nil {
			stop()
			return
		}
		if o.Path == "" {
			if o.Signal != 0 {
				h.running.pass(syscall.Signal(o.Signal))
			} else {
				stop()
			}
			continue
		}
		h.running.expect()
		select {
		case <-cancel: // for the command before
		default:
		}
		o.streams = fds
		orders <- o
	}
}

// hands are the thread that starts commands. It has dropped the privileges that the other
// threads need to build the tree, and commands inherit that.
type hands struct {
	thread
	tid    int
	ready  func() error         // mounts the directories for a command
	ahead  func([]string)       // begins to make the mounts for the next command
	anew   func() error         // refreshes overlays while a command runs
	stands func() bool          // reports whether the mounts are still there and current
	where  func(order) order    // replaces names in an order by the host's; nil if they are the same
	signal func(syscall.Signal) // signals all processes that commands have started, at once
	others int64                // processes of others that the kernel counts with those of commands
	set    bool                 // the limits are set
	memory func([]int) int64    // returns the bytes in file systems in memory and in sockets; nil if a control group counts them

	container *container // starts commands with runsc, nil at other levels

	mover     *mover // moves directories for commands; nil if they need no help
	noSockets string // why commands have no Unix sockets, "" if they have
	prepared  bool   // the directories are mounted
	running   running
	still     atomic.Bool // all processes are stopped so that they can be counted
}

// newHands starts the thread, adds it to control groups, and confines it.
func newHands(groups []int, confine func(*hands) error) (*hands, error) {
	h := &hands{}
	var err error
	h.thread, err = newThread(func() error {
		h.tid = unix.Gettid()
		if err := joinGroups(groups); err != nil {
			return err
		}
		return confine(h)
	})
	h.running.do, h.running.in = h.do, h.container
	return h, err
}

// look refreshes overlays every second until the command has ended.
func (h *hands) look(ended <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			h.anew()
		}
	}
}

// signalNamespace signals every process of the PID namespace except the cell. The kernel
// does it in one step, so that no process can fork and escape. Without a PID namespace it
// does nothing: it would signal all processes of the user.
func signalNamespace(s syscall.Signal) {
	if os.Getpid() == 1 {
		unix.Kill(-1, s)
	}
}

// run runs a command, and returns when the command and every process that it started have
// ended. It calls stopped when the command is stopped, if the order asks for that.
func (h *hands) run(o order, cancel <-chan struct{}, stopped func()) verdict {
	if !h.set {
		if o.WatchProcesses && !o.onlyUser() {
			// The threads that count processes must get processor time, however many
			// there are.
			unix.Setpriority(unix.PRIO_PROCESS, h.tid, 10)
		}
		if err := o.limitSelf(h.others, h.container != nil); err != nil {
			return verdict{Error: err.Error()}
		}
		h.set = true
	}
	var pid int
	err := h.prepare()
	if err == nil && o.Looks {
		err = h.anew() // create its thread before the command can use up all threads
	}
	if err == nil {
		h.prepared = false
		err = o.own()
	}
	if err == nil {
		err = h.do(func() (err error) {
			if pid, err = o.start(h.container); err == nil {
				o.show(pid)
			}
			return err
		})
	}
	if err != nil {
		return verdict{Error: err.Error()}
	}
	h.still.Store(false)
	h.running.begin(pid, o.terminal())
	h.ahead(o.Stores)
	o.limitFirst(pid)
	var v verdict
	var spent atomic.Int64
	ended := make(chan struct{})
	hit := make(chan []Limit, 1)
	go func() { hit <- h.watch(o, &spent, ended, cancel) }()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		if o.Looks {
			h.look(ended)
		}
	}()
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		got, err := unix.Wait4(-1, &status, o.events(), &usage)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			break // ECHILD: no process is left
		}
		if status.Stopped() {
			if h.release(got, status.StopSignal()) {
				continue
			}
			if got == pid && !h.still.Load() && h.running.stopped(status.StopSignal()) {
				stopped()
			}
			continue
		}
		v.CPU = time.Duration(spent.Add(usage.Utime.Nano() + usage.Stime.Nano()))
		v.Peak = max(v.Peak, usage.Maxrss<<10)
		if got == pid {
			v.Status = int(status)
			h.running.end()
			close(ended)
			h.signal(unix.SIGKILL) // processes that the command left behind
		}
	}
	v.Hit = <-hit
	<-looked
	h.mover.wait()
	removeShared()
	if h.container != nil {
		h.do(func() error { v.Error = h.container.failure(); return nil })
	}
	v.Late = slices.Contains(v.Hit, TimeLimit)
	v.NoSockets = h.noSockets
	return v
}
