package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/claim"
)

// How limits hold. Open files, the size of a file and the number of processes are
// limits of the cell itself, set before its first command: what it forks has them
// from the first instruction on, and cannot raise them. A cell needs some for
// itself: no command has less than 32 open files, and the right to the processes
// that the cell may have besides is taken from a command just after the fork. Time,
// and the processor time of all processes together, are watched, as is what no
// control group and no kernel limit holds here. So is memory: a limit of the kernel
// only keeps a process from asking for far too much.
const (
	cellFiles = 32
	cellData  = 256 << 20
	maxData   = 64 << 30 // more than this is no limit
	// threadData is what a thread asks for as its stack, nearly all of which it
	// never uses.
	threadData = 8 << 20
	// cellThreads is room for threads of holder and cells, which the kernel counts
	// as processes of the user.
	cellThreads = 48
	// glance is how often a command is looked at, and blink where nothing holds the
	// number of its processes.
	glance = 50 * time.Millisecond
	blink  = 2 * time.Millisecond
)

// brace makes ready for a command that does its worst: the threads that the cell
// will need are there before there can be too many.
func brace() {
	const n = 6
	var ready, done sync.WaitGroup
	ready.Add(n)
	done.Add(n)
	hold := make(chan struct{})
	for range n {
		go func() {
			defer done.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-hold
		}()
	}
	ready.Wait()
	close(hold)
	done.Wait()
}

// limitSelf sets the limits of an order on the cell, for all that it forks.
func (o order) limitSelf(others int64) error {
	if o.onlyUser() {
		others = neighbours(0) + cellThreads
	}
	// A control group would hold what is used. Sanitizers and race detectors ask for
	// terabytes that they never use; wide limits leave room for them.
	if most := o.Memory + o.Processes*threadData + cellData; o.WatchMemory && most <= maxData {
		if err := limit(0, unix.RLIMIT_DATA, most, most); err != nil {
			return err
		}
	}
	for _, l := range []struct {
		resource int
		most     int64
	}{{unix.RLIMIT_NOFILE, max(o.Files, cellFiles)}, {unix.RLIMIT_FSIZE, o.FileSize},
		{unix.RLIMIT_CORE, 1}, // as good as 0, and where the host gives core files to a program 0 would start it
		{unix.RLIMIT_RTPRIO, 0}, {unix.RLIMIT_NICE, 0}, {unix.RLIMIT_MSGQUEUE, 0}, {unix.RLIMIT_NPROC, o.Processes + others}} {
		if err := limit(0, l.resource, l.most, l.most); err != nil {
			return err
		}
	}
	return nil
}

// limitFirst sets what differs for the first process of a command.
func (o order) limitFirst(pid int) {
	if seconds := int64((o.CPU + time.Second - 1) / time.Second); seconds > 0 {
		limit(pid, unix.RLIMIT_CPU, seconds, seconds+1)
	}
	var most unix.Rlimit
	if o.onlyUser() && unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &most) == nil {
		limit(pid, unix.RLIMIT_NPROC, int64(most.Cur), int64(most.Cur))
	}
}

// onlyUser reports whether nothing but the limit of a user holds the number of
// processes. It does not bind root.
func (o order) onlyUser() bool { return o.WatchProcesses && os.Geteuid() != 0 }

// neighbours returns how many processes and threads the kernel counts with those of
// a command, which are n: in namespaces those of the holder and of all its cells,
// elsewhere all of the user.
func neighbours(n int64) int64 {
	found := make(chan int64)
	go func() { // on a thread that sees the host's tree: those that do not are not free
		if os.Getpid() != 1 {
			found <- max(processesOf(os.Getuid())-n, 0)
			return
		}
		var sum int64
		for _, name := range session(oldRoot + "/proc") {
			var st unix.Stat_t
			if unix.Stat(name+"/task", &st) == nil {
				sum += int64(st.Nlink) - 2
			}
		}
		if sum == 0 { // the host does not show them
			sum = cellThreads
		}
		found <- sum
	}()
	return <-found
}

// session returns the folders of the holder and its cells, as the host sees them.
func session(proc string) []string {
	self, err := os.ReadFile(proc + "/self/stat")
	f := strings.Fields(string(self[strings.LastIndexByte(string(self), ')')+1:]))
	if err != nil || len(f) < 2 {
		return nil
	}
	holder, _ := strconv.Atoi(f[1])
	var list []string
	for _, pid := range append(children(proc, holder), holder) {
		list = append(list, fmt.Sprintf("%s/%d", proc, pid))
	}
	return list
}

// limit sets a limit of a process, 0 for this one, and never raises it.
func limit(pid, resource int, soft, hard int64) error {
	var was unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &was); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	most := min(uint64(hard), was.Max)
	if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(uint64(soft), most), Max: most}, nil); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	return nil
}

// joinGroups puts the calling thread, or its process, in control groups.
func joinGroups(fds []int) error {
	for _, fd := range fds {
		_, err := unix.Write(fd, []byte("0"))
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// start starts a command on the calling thread.
func start(o order) (int, error) {
	attr := &syscall.ProcAttr{
		Dir: o.Dir, Env: o.Env,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if o.Terminal > 0 {
		// In the session of the cell, as a shell has it: who has no parent there that is of
		// another group is not stopped by a key.
		attr.Sys.Setsid, attr.Sys.Setpgid = false, true
	}
	for i, n := range o.Streams {
		if n > len(o.streams) {
			return 0, errors.New("a stream is missing")
		}
		if n > 0 {
			attr.Files = append(attr.Files, uintptr(o.streams[n-1]))
			continue
		}
		// The tree's own, which is read-only: of one that was opened outside a command of
		// root could change the mode.
		fd, err := unix.Open("/dev/null", map[bool]int{true: unix.O_RDONLY, false: unix.O_WRONLY}[i == 0]|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, err
		}
		defer unix.Close(fd)
		attr.Files = append(attr.Files, uintptr(fd))
	}
	if o.Tell > 0 && o.Tell <= len(o.streams) {
		for len(attr.Files) < tellFD {
			attr.Files = append(attr.Files, ^uintptr(0))
		}
		attr.Files = append(attr.Files, uintptr(o.streams[o.Tell-1]))
	}
	var was unix.Rlimit
	if o.onlyUser() && unix.Prlimit(0, unix.RLIMIT_NPROC, nil, &was) == nil {
		// For the command alone: the cell needs room for threads of its own.
		defer unix.Prlimit(0, unix.RLIMIT_NPROC, &was, nil)
		most := was.Max - cellThreads
		if o.Processes <= cellThreads { // threads that a busy cell has come to need would take the room of them all
			most = max(most, min(uint64(o.Processes+neighbours(0)), was.Max))
		}
		unix.Prlimit(0, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: was.Max}, nil)
		pid, err := syscall.ForkExec(o.Path, o.Args, attr)
		if err != unix.EAGAIN {
			return pid, err
		}
		// Others have come since they were counted.
		unix.Prlimit(0, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: min(uint64(o.Processes+neighbours(0)), was.Max), Max: was.Max}, nil)
	}
	return syscall.ForkExec(o.Path, o.Args, attr)
}

// removeShared removes what a command has left in shared memory, queues and
// semaphores of the old kind, which stay without a process. A cell without
// namespaces of its own has none that are its commands'.
func removeShared() {
	if os.Getpid() != 1 {
		return
	}
	for name, call := range map[string]uintptr{"shm": unix.SYS_SHMCTL, "msg": unix.SYS_MSGCTL, "sem": unix.SYS_SEMCTL} {
		if !anyShared(name, call) {
			continue
		}
		list, _ := os.ReadFile("/proc/sysvipc/" + name)
		for line := range strings.Lines(string(list)) {
			f := strings.Fields(line)
			if len(f) < 2 {
				continue
			}
			if id, err := strconv.Atoi(f[1]); err == nil { // the first line has words
				if call == unix.SYS_SEMCTL {
					unix.Syscall6(call, uintptr(id), 0, unix.IPC_RMID, 0, 0, 0)
				} else {
					unix.Syscall(call, uintptr(id), unix.IPC_RMID, 0)
				}
			}
		}
	}
}

// anyShared asks the kernel whether there is any of a kind, which is quicker than
// a list.
func anyShared(name string, call uintptr) bool {
	const shmInfo, msgInfo, semInfo = 14, 12, 19
	var info [32]int32
	switch name {
	case "shm":
		unix.Syscall(call, 0, shmInfo, uintptr(unsafe.Pointer(&info)))
		return info[0] != 0 // used_ids
	case "msg":
		unix.Syscall(call, 0, msgInfo, uintptr(unsafe.Pointer(&info)))
		return info[0] != 0 // msgpool: how many there are
	}
	unix.Syscall6(call, 0, 0, semInfo, uintptr(unsafe.Pointer(&info)), 0, 0)
	return info[7] != 0 // semusz: how many there are
}

// watch looks after a command until it has ended, and ends it when it has gone
// over a limit or is not wanted any more. Spent is the processor time of those
// processes that the cell has waited for. It returns the limits that the command
// ran into.
func (h *hands) watch(o order, spent *atomic.Int64, ended, cancel <-chan struct{}) []Limit {
	var late, look, crowd <-chan time.Time
	if o.Time > 0 {
		timer := time.NewTimer(o.Time)
		defer timer.Stop()
		late = timer.C
	}
	if o.CPU > 0 || o.WatchMemory || o.onlyUser() {
		tick := time.NewTicker(glance)
		defer tick.Stop()
		look = tick.C
	}
	if o.WatchProcesses && !o.onlyUser() {
		often := time.NewTicker(blink)
		defer often.Stop()
		crowd = often.C
	}
	first := tasks()
	e := eye{memory: h.memory}
	for {
		var over []Limit
		select {
		case <-ended:
			return e.met
		case <-cancel:
		case <-late:
			over = []Limit{TimeLimit}
		case <-look:
			if over = e.over(o, time.Duration(spent.Load())); over == nil {
				continue
			}
		case <-crowd:
			// How many there are in all is quickly known; whose they are is not, and is
			// asked while they stand still.
			more := int16(tasks() - first)
			if int64(more) <= o.Processes {
				continue
			}
			h.still.Store(true)
			h.signal(unix.SIGSTOP)
			n := 0
			for _, pid := range descendants(os.Getpid()) {
				n += threadsOf(pid)
			}
			if int64(n) <= o.Processes {
				h.signal(unix.SIGCONT)
				h.still.Store(false)
				first = tasks() - uint16(n)
				continue
			}
			over = []Limit{ProcessesLimit}
		}
		h.signal(unix.SIGKILL)
		return append(over, e.met...)
	}
}

// tasks returns how many processes and threads the machine has, in the kernel's
// own measure, which begins anew at 65,536.
func tasks() uint16 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return info.Procs
}

// An eye looks at the processes of a command now and then.
type eye struct {
	met    []Limit      // those that the command has reached, and may go on
	rest   int64        // so often their memory is not counted in full
	memory func() int64 // bytes in file systems that are memory
}

// over returns the limits that the processes of a command have gone over together.
func (e *eye) over(o order, spent time.Duration) []Limit {
	pids := descendants(os.Getpid())
	var held, n int64
	for _, pid := range pids {
		f := claim.Stat(pid)
		if len(f) < 18 {
			continue
		}
		for _, ticks := range f[11:15] { // its own, and of its children that have ended; 100 are a second
			n, _ := strconv.ParseInt(ticks, 10, 64)
			spent += time.Duration(n) * 10 * time.Millisecond
		}
		threads, _ := strconv.ParseInt(f[17], 10, 64)
		n += max(threads, 1) // one that has ended and is not waited for is counted by the kernel too
		if o.WatchMemory {
			held += ownMemory(pid)
		}
	}
	if o.WatchMemory {
		held += e.files() + oldShared()
	}
	// The kernel tells nobody when it refuses a process. That there is no room for one
	// more can be seen.
	if len(e.met) == 0 && o.onlyUser() && n > 1 && n+cellThreads >= o.Processes {
		var most unix.Rlimit
		if unix.Prlimit(pids[0], unix.RLIMIT_NPROC, nil, &most) == nil && uint64(n+neighbours(n)) >= most.Cur {
			e.met = []Limit{ProcessesLimit}
		}
	}
	switch {
	case o.CPU > 0 && spent > o.CPU:
		return []Limit{CPULimit}
	case held > o.Memory && e.exceeds(o.Memory, held, pids):
		return []Limit{MemoryLimit}
	}
	return nil
}

// threadsOf returns how many threads a process has.
func threadsOf(pid int) int {
	f := claim.Stat(pid)
	if len(f) < 18 {
		return 0
	}
	n, _ := strconv.Atoi(f[17])
	return n
}

// descendants returns the processes below one.
func descendants(pid int) []int {
	list := children("/proc", pid)
	for i := 0; i < len(list); i++ {
		list = append(list, children("/proc", list[i])...)
	}
	return list
}

// children returns the processes that one has started.
func children(proc string, pid int) []int {
	var list []int
	names, _ := filepath.Glob(fmt.Sprintf("%s/%d/task/*/children", proc, pid))
	for _, name := range names {
		data, _ := os.ReadFile(name)
		for _, word := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}

// told returns the limits that the end of a command tells of.
func told(status unix.WaitStatus) []Limit {
	signal := status.Signal()
	if status.Exited() && status.ExitStatus() > 128 { // as a shell says it
		signal = unix.Signal(status.ExitStatus() - 128)
	}
	switch signal {
	case unix.SIGXCPU:
		return []Limit{CPULimit}
	case unix.SIGXFSZ:
		return []Limit{FileSizeLimit}
	}
	return nil
}

// limit puts into an order what the cell has to watch, because nothing else holds
// it.
func (s *Session) limit(o *order, w *wire) {
	memory, pids := s.groups.holds(w)
	o.WatchMemory = !memory
	o.WatchProcesses = !pids
}

// hit returns the limits that a command ran into.
func (s *Session) hit(w *wire, v verdict, r Result) []Limit {
	var list []Limit
	for _, l := range append(append(v.Hit, told(unix.WaitStatus(v.Status))...), s.groups.hit(w)...) {
		if !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	if r.Stdout.Hidden > 0 || r.Stderr.Hidden > 0 {
		list = append(list, OutputLimit)
	}
	return list
}

// loose returns the limits that hold only in part. That of the size of a file is
// for each file by its meaning.
func (s *Session) loose() []Limit {
	var list []Limit
	for _, h := range s.Holds() {
		if !h.Full && h.Limit != FileSizeLimit {
			list = append(list, h.Limit)
		}
	}
	return list
}

// Holds says how each limit holds in this session on this machine.
func (s *Session) Holds() []Held {
	var memory, pids bool
	for _, p := range s.groups.parents() {
		memory, pids = memory || p.memory, pids || p.pids
	}
	list := []Held{
		{TimeLimit, true, "the cell ends the command"},
		{CPULimit, true, "read every 50 ms, all processes together; one that ends and that nobody waits for is not counted"},
		{MemoryLimit, true, "control group, with what is in /tmp"},
		{ProcessesLimit, true, "control group"},
		{FilesLimit, true, "rlimit, for each process"},
		{FileSizeLimit, false, "rlimit, for each file; many files are not limited"},
		{OutputLimit, true, "head and tail are kept"},
		{TempLimit, true, "size of the file system at /tmp"},
	}
	if !memory {
		list[2] = Held{MemoryLimit, false, "the sum is read every 50 ms, with shared memory, /tmp and /dev/shm, so that a burst is above it for a moment; files without a name (memfd_create) are refused; an rlimit for each process is far above"}
	}
	switch {
	case pids:
	case os.Geteuid() == 0:
		list[3] = Held{ProcessesLimit, false, "no control group, and no rlimit binds root: counted every 2 ms, and all ended when there are too many"}
	case s.level == Landlock:
		list[3] = Held{ProcessesLimit, false, "rlimit, which counts all processes of the user: as many as there are before the first command are left out"}
	default:
		list[3] = Held{ProcessesLimit, false, "rlimit, for all commands of the session together"}
	}
	if s.level == Landlock {
		list[7] = Held{TempLimit, false, "a folder on the host's disk: only the size of each file is limited"}
	}
	return list
}
