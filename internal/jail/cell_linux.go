package jail

import (
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An order tells a cell to run a command.
type order struct {
	Path string
	Args []string
	Env  []string
	Dir  string
	Time time.Duration
	CPU  time.Duration
	// Memory, Processes, Files and FileSize as in Limits.
	Memory, Processes, Files, FileSize int64
	// What nothing else holds, so that the cell watches it.
	WatchMemory, WatchProcesses bool
	Stores                      []string // where the next one's changes are kept

	streams []int
}

// A verdict is what came of a command.
type verdict struct {
	Error  string // it could not be started
	Status int    // as wait(2) has it
	Late   bool   // it was ended because its time was over
	Hit    []Limit
	CPU    time.Duration
	Peak   int64 // bytes of the largest process
}

// cell is the first process of a process namespace. It makes the tree, then runs
// one command after the other.
func cell(w *wire) error {
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	var p plan
	groups, err := w.receive(&p)
	if err != nil {
		return err
	}
	tree, err := newTree(p)
	if err != nil {
		return err
	}
	// The first folders are made ready while the threads are.
	threads := make(chan error, 2)
	var h *hands
	go func() {
		brace()
		threads <- nil
	}()
	go func() {
		var err error
		h, err = newHands(groups, func() error { return tree.confine(p) })
		threads <- err
	}()
	ready := tree.refresh()
	if err := errors.Join(<-threads, <-threads, ready); err != nil {
		return err
	}
	h.ready, h.ahead, h.stands, h.signal, h.others, h.prepared = tree.refresh, tree.ahead, tree.stands, signalNamespace, cellThreads, true
	return h.serve(w)
}

// confine moves the calling thread into the tree, and takes from it what a command
// must not have.
func (t *tree) confine(p plan) error {
	if err := t.enter(); err != nil {
		return err
	}
	if err := confineThread(); err != nil {
		return err
	}
	if err := fenceOf(p).close(); err != nil && err != errNoLandlock {
		return err
	}
	return nil
}

// serve says that the cell is ready, and runs what it is told to.
func (h *hands) serve(w *wire) error {
	if err := w.send(report{}); err != nil {
		return err
	}
	orders := make(chan order)
	cancel := make(chan struct{}, 1)
	go listen(w, orders, cancel)
	for o := range orders {
		if h.where != nil {
			o = h.where(o)
		}
		v := h.run(o, cancel)
		for _, fd := range o.streams {
			unix.Close(fd)
		}
		if err := w.send(v); err != nil {
			return nil // golem is gone
		}
		h.prepare() // while golem looks at what came of it
	}
	return nil
}

// prepare makes the folders ready for a command, if they are not.
func (h *hands) prepare() error {
	if h.prepared && h.stands() {
		return nil
	}
	err := h.ready()
	h.prepared = err == nil
	return err
}

// listen reads the wire: an order, or the wish to stop the one that is carried
// out. When the wire ends, so does what runs here.
func listen(w *wire, orders chan<- order, cancel chan struct{}) {
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
			stop()
			continue
		}
		select {
		case <-cancel: // meant for the one before
		default:
		}
		o.streams = fds
		orders <- o
	}
}

// hands are the one thread that starts commands. It has given up everything that
// the others need to make a tree; what it starts inherits that.
type hands struct {
	thread
	tid    int
	ready  func() error         // makes the folders of a command ready
	ahead  func([]string)       // begins to, for the next one
	stands func() bool          // they are still ready
	where  func(order) order    // names of the order as they are here, where they differ
	signal func(syscall.Signal) // reaches all that commands have started, at once
	others int64                // processes that the kernel counts with those of commands
	set    bool                 // the limits are

	prepared bool // the folders are ready
}

// newHands starts the thread, in control groups, and confines it.
func newHands(groups []int, confine func() error) (*hands, error) {
	h := &hands{}
	var err error
	h.thread, err = newThread(func() error {
		h.tid = unix.Gettid()
		if err := joinGroups(groups); err != nil {
			return err
		}
		return confine()
	})
	return h, err
}

// signalNamespace signals every process of the namespace but the first, which
// this is. Elsewhere it would reach all that the user runs. The kernel does it at
// one go: none is forked meanwhile that gets away.
func signalNamespace(s syscall.Signal) {
	if os.Getpid() == 1 {
		unix.Kill(-1, s)
	}
}

// run runs a command, and returns when it and all that it has started are gone.
func (h *hands) run(o order, cancel <-chan struct{}) verdict {
	if !h.set {
		if o.WatchProcesses && !o.onlyUser() {
			// Who counts must get to it, however many there are.
			unix.Setpriority(unix.PRIO_PROCESS, h.tid, 10)
		}
		if err := o.limitSelf(h.others); err != nil {
			return verdict{Error: err.Error()}
		}
		h.set = true
	}
	var pid int
	err := h.prepare()
	if err == nil {
		h.prepared = false
		err = h.do(func() (err error) { pid, err = start(o); return err })
	}
	if err != nil {
		return verdict{Error: err.Error()}
	}
	h.ahead(o.Stores)
	o.limitFirst(pid)
	var v verdict
	var spent atomic.Int64
	ended := make(chan struct{})
	hit := make(chan []Limit, 1)
	go func() { hit <- h.watch(o, &spent, ended, cancel) }()
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		got, err := unix.Wait4(-1, &status, 0, &usage)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			break // ECHILD: nobody is left
		}
		v.CPU = time.Duration(spent.Add(usage.Utime.Nano() + usage.Stime.Nano()))
		v.Peak = max(v.Peak, usage.Maxrss<<10)
		if got == pid {
			v.Status = int(status)
			close(ended)
			h.signal(unix.SIGKILL) // those that it has left behind
		}
	}
	v.Hit = <-hit
	removeShared()
	v.Late = slices.Contains(v.Hit, TimeLimit)
	return v
}
