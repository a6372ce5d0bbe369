package jail

import (
	"os"
	"runtime"
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
	brace()
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	var p plan
	groups, err := w.receive(&p)
	if err != nil {
		return err
	}
	if err := p.carryOut(); err != nil {
		return err
	}
	h, err := newHands(groups, func() error {
		if err := confineThread(); err != nil {
			return err
		}
		if err := fenceOf(p).close(); err != nil && err != errNoLandlock {
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.signal, h.others = signalNamespace, cellThreads
	return h.serve(w)
}

// serve says that the cell is ready, and runs what it is told to.
func (h *hands) serve(w *wire) error {
	if err := w.send(report{}); err != nil {
		return err
	}
	orders := make(chan order)
	files := make(chan []int)
	cancel := make(chan struct{}, 1)
	go listen(w, orders, files, cancel)
	for o := range orders {
		if h.where != nil {
			o = h.where(o)
		}
		v := h.run(o, <-files, cancel)
		if err := w.send(v); err != nil {
			return nil // golem is gone
		}
	}
	return nil
}

// listen reads the wire: an order, or the wish to stop the one that is carried
// out. When the wire ends, so does what runs here.
func listen(w *wire, orders chan<- order, files chan<- []int, cancel chan<- struct{}) {
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
		orders <- o
		files <- fds
	}
}

// hands are the one thread that starts commands. It has given up everything that
// the others need to make a tree; what it starts inherits that.
type hands struct {
	work chan func()

	where  func(order) order    // names of the order as they are here, where they differ
	signal func(syscall.Signal) // reaches all that commands have started, at once
	others int64                // processes that the kernel counts with those of commands
	set    bool                 // the limits are
}

// newHands starts the thread, in control groups, and confines it.
func newHands(groups []int, confine func() error) (*hands, error) {
	h := &hands{work: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := joinGroups(groups)
		if err == nil {
			err = confine()
		}
		ready <- err
		if err != nil {
			return
		}
		for do := range h.work {
			do()
		}
	}()
	return h, <-ready
}

// do lets the thread do something, and waits for it.
func (h *hands) do(what func()) {
	done := make(chan struct{})
	h.work <- func() {
		what()
		close(done)
	}
	<-done
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
func (h *hands) run(o order, fds []int, cancel <-chan struct{}) verdict {
	for len(cancel) > 0 {
		<-cancel // meant for an earlier one
	}
	if !h.set {
		if err := o.limitSelf(h.others); err != nil {
			return verdict{Error: err.Error()}
		}
		h.set = true
	}
	var pid int
	var err error
	h.do(func() { pid, err = start(o, fds) })
	if err != nil {
		return verdict{Error: err.Error()}
	}
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
	v.Late = slices.Contains(v.Hit, TimeLimit)
	return v
}
