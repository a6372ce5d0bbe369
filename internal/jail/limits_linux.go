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

	"github.com/golem-forge/golem/internal/files/claim"
)

// How limits are enforced. The cell sets the limits for open files, file size and the
// number of processes on itself before its first command. Its child processes inherit
// them and cannot raise them. The cell needs some of this for itself. So a command always
// has at least 32 open files. Right after the fork the cell lowers the hard limit for
// processes of the command by its own share.
//
// The cell watches the time, and the processor time of all processes together. It also
// watches each limit that neither a control group nor the kernel enforces here. Memory is
// one of them, because the rlimit only stops a process that asks for far too much.
const (
	cellFiles = 32
	cellData  = 256 << 20
	maxData   = 64 << 30 // a larger limit is not set
	// threadData is the usual size of a thread's stack. A thread uses only a small part
	// of it.
	threadData = 8 << 20
	// cellThreads is the room for threads of holder and cells, which the kernel counts as
	// processes of the user.
	cellThreads = 48
	// checkInterval is the interval at which the cell checks a command. countInterval is the interval at
	// which it counts processes if nothing else limits their number.
	checkInterval = 50 * time.Millisecond
	countInterval = 2 * time.Millisecond
)

// startThreads starts the threads that the cell will need, before a command can use up the limit
// for processes.
func startThreads() {
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

// limitSelf sets the limits of an order on the cell. Its child processes inherit them. At
// the level container, the kernel of commands enforces those for each process.
func (o order) limitSelf(others int64, contained bool) error {
	if o.onlyUser() {
		others = otherTasks(0) + cellThreads
	}
	// A control group limits the memory that is used. Sanitizers and race detectors
	// reserve terabytes that they never use, so this rlimit is set only if it is small
	// enough.
	if most := o.Memory + o.Processes*threadData + cellData; o.WatchMemory && most <= maxData && !contained {
		if err := limit(0, unix.RLIMIT_DATA, most, most); err != nil {
			return err
		}
	}
	type rlimit struct {
		resource int
		most     int64
	}
	var each []rlimit
	if !contained {
		each = []rlimit{{unix.RLIMIT_NOFILE, max(o.Files, cellFiles)}, {unix.RLIMIT_FSIZE, o.FileSize}}
	}
	for _, l := range append(each, []rlimit{
		{unix.RLIMIT_CORE, 1}, // practically 0; with 0 the kernel would still start the program that the host has for core files
		{unix.RLIMIT_RTPRIO, 0}, {unix.RLIMIT_NICE, 0}, {unix.RLIMIT_MSGQUEUE, 0}, {unix.RLIMIT_NPROC, o.Processes + others}}...) {
		if err := limit(0, l.resource, l.most, l.most); err != nil {
			return err
		}
	}
	return nil
}

// limitFirst sets the limits that only the first process of a command has.
func (o order) limitFirst(pid int) {
	if seconds := int64((o.CPU + time.Second - 1) / time.Second); seconds > 0 {
		limit(pid, unix.RLIMIT_CPU, seconds, seconds+1)
	}
	var most unix.Rlimit
	if o.onlyUser() && unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &most) == nil {
		limit(pid, unix.RLIMIT_NPROC, int64(most.Cur), int64(most.Cur))
	}
}

// onlyUser reports whether only RLIMIT_NPROC limits the number of processes. The kernel
// does not apply it to root.
func (o order) onlyUser() bool { return o.WatchProcesses && os.Geteuid() != 0 }

// otherTasks returns how many processes and threads the kernel counts together with the n
// of a command. In namespaces these are the tasks of the holder and all its cells,
// otherwise those of the user.
func otherTasks(n int64) int64 {
	found := make(chan int64)
	go func() { // a new goroutine runs on a thread that sees the host's tree: the others are locked
		if os.Getpid() != 1 {
			found <- max(processesOf(os.Getuid())-n, 0)
			return
		}
		var sum int64
		for _, name := range sessionDirs(oldRoot + "/proc") {
			var st unix.Stat_t
			if unix.Stat(name+"/task", &st) == nil {
				sum += int64(st.Nlink) - 2
			}
		}
		if sum == 0 { // the host's /proc does not show them
			sum = cellThreads
		}
		found <- sum
	}()
	return <-found
}

// sessionDirs returns the directories of the holder and its cells in the host's /proc.
func sessionDirs(proc string) []string {
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

// limit sets a limit of a process, or of this process if pid is 0. It never raises a
// limit.
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

// joinGroups moves the calling thread, or its process, into control groups.
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

// start starts a command from the calling thread, with runsc if c is not nil.
func (o order) start(c *container) (int, error) {
	attr := &syscall.ProcAttr{
		Dir: o.Dir, Env: o.Env,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if o.Terminal > 0 {
		// The command stays in the session of the cell, as under a shell. The kernel
		// ignores stop keys for a process group whose members have no parent in another
		// group of the session.
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
		// Open /dev/null in the tree, where it is read-only. A command of root could
		// change the mode of one that was opened outside.
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
	execute := o.execute
	if c != nil {
		execute = func(attr *syscall.ProcAttr) (int, error) { return c.execute(o, attr) }
	}
	var was unix.Rlimit
	if o.onlyUser() && unix.Prlimit(0, unix.RLIMIT_NPROC, nil, &was) == nil {
		// Set a lower limit for the command only: the cell needs room for its own
		// threads.
		defer unix.Prlimit(0, unix.RLIMIT_NPROC, &was, nil)
		most := was.Max - cellThreads
		if o.Processes <= cellThreads { // the threads of a busy cell could use up the whole limit
			most = max(most, min(uint64(o.Processes+otherTasks(0)), was.Max))
		}
		unix.Prlimit(0, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: was.Max}, nil)
		pid, err := execute(attr)
		if err != unix.EAGAIN {
			return pid, err
		}
		// More processes have started since they were counted.
		unix.Prlimit(0, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: min(uint64(o.Processes+otherTasks(0)), was.Max), Max: was.Max}, nil)
	}
	return execute(attr)
}

// execute starts the program of an order. If the order has a shell that only executes a
// program, it starts that program. If the kernel refuses to, it starts the shell, which
// reports the error, and runs scripts that name no interpreter.
func (o order) execute(attr *syscall.ProcAttr) (pid int, err error) {
	if file := o.program(); file != "" {
		direct := *attr
		direct.Env = settled(append(slices.Clip(o.Env), "PWD="+o.Dir)) // as the shell sets it
		pid, err = syscall.ForkExec(file, o.Args[o.Program:], &direct)
		if err == nil || err == unix.EAGAIN {
			return pid, err
		}
	}
	return syscall.ForkExec(o.Path, o.Args, attr)
}

// program returns the file that the shell of an order would execute, "" if only the shell
// can tell. It runs in the tree of the command.
func (o order) program() string {
	if o.Program <= 0 || o.Program >= len(o.Args) {
		return ""
	}
	name := o.Args[o.Program]
	if strings.Contains(name, "/") {
		return name
	}
	i := slices.IndexFunc(o.Env, func(e string) bool { return strings.HasPrefix(e, "PATH=") })
	if name == "" || i < 0 {
		return ""
	}
	for _, dir := range filepath.SplitList(strings.TrimPrefix(o.Env[i], "PATH=")) {
		if !filepath.IsAbs(dir) {
			return ""
		}
		var st unix.Stat_t
		file := dir + "/" + name
		if unix.Stat(file, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && unix.Access(file, unix.X_OK) == nil {
			return file
		}
	}
	return ""
}

// removeShared removes the System V shared memory, message queues and semaphores that a
// command left: they exist without a process. A cell without its own IPC namespace
// removes nothing.
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
			if id, err := strconv.Atoi(f[1]); err == nil { // skips the heading
				if call == unix.SYS_SEMCTL {
					unix.Syscall6(call, uintptr(id), 0, unix.IPC_RMID, 0, 0, 0)
				} else {
					unix.Syscall(call, uintptr(id), unix.IPC_RMID, 0)
				}
			}
		}
	}
}

// anyShared reports whether any System V object of a kind exists. This is faster than
// reading the list.
func anyShared(name string, call uintptr) bool {
	const shmInfo, msgInfo, semInfo = 14, 12, 19
	var info [32]int32
	switch name {
	case "shm":
		unix.Syscall(call, 0, shmInfo, uintptr(unsafe.Pointer(&info)))
		return info[0] != 0 // used_ids
	case "msg":
		unix.Syscall(call, 0, msgInfo, uintptr(unsafe.Pointer(&info)))
		return info[0] != 0 // msgpool: the number of queues
	}
	unix.Syscall6(call, 0, 0, semInfo, uintptr(unsafe.Pointer(&info)), 0, 0)
	return info[7] != 0 // semusz: the number of sets
}

// watch waits until a command has ended. It kills the command if it exceeds a limit or is
// canceled. spent is the processor time of processes that the cell has waited for. watch
// returns the limits that the command reached.
func (h *hands) watch(o order, spent *atomic.Int64, ended, cancel <-chan struct{}) []Limit {
	var late, look, crowd <-chan time.Time
	if o.Time > 0 {
		timer := time.NewTimer(o.Time)
		defer timer.Stop()
		late = timer.C
	}
	if o.CPU > 0 || o.WatchMemory || o.onlyUser() {
		tick := time.NewTicker(checkInterval)
		defer tick.Stop()
		look = tick.C
	}
	if o.WatchProcesses && !o.onlyUser() {
		often := time.NewTicker(countInterval)
		defer often.Stop()
		crowd = often.C
	}
	first := tasks()
	e := checker{memory: h.memory}
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
			// The number of all tasks on the machine is cheap to read. To count those of
			// the command, stop them first.
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

// tasks returns how many processes and threads the machine has, as a 16-bit number that
// wraps around.
func tasks() uint16 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return info.Procs
}

// A checker checks the processes of a command from time to time.
type checker struct {
	met    []Limit                // limits that the command reached without being ended
	rest   int64                  // how many of the next checks skip the exact count of memory
	memory func(pids []int) int64 // returns the bytes in file systems that are in memory, and in sockets
}

// over returns the limits that the processes of a command exceed together.
func (e *checker) over(o order, spent time.Duration) []Limit {
	pids := descendants(os.Getpid())
	var held, n int64
	for _, pid := range pids {
		f := claim.Stat(pid)
		if len(f) < 18 {
			continue
		}
		for _, ticks := range f[11:15] { // its own time and that of children that have ended, in ticks of 10 ms
			n, _ := strconv.ParseInt(ticks, 10, 64)
			spent += time.Duration(n) * 10 * time.Millisecond
		}
		threads, _ := strconv.ParseInt(f[17], 10, 64)
		n += max(threads, 1) // the kernel also counts a zombie
		if o.WatchMemory {
			held += ownMemory(pid)
		}
	}
	if o.WatchMemory {
		held += e.files(pids) + oldShared()
	}
	// The kernel does not report that it refused a new process. Check whether there is
	// room for one more.
	if len(e.met) == 0 && o.onlyUser() && n > 1 && n+cellThreads >= o.Processes {
		var most unix.Rlimit
		if unix.Prlimit(pids[0], unix.RLIMIT_NPROC, nil, &most) == nil && uint64(n+otherTasks(n)) >= most.Cur {
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

func threadsOf(pid int) int {
	f := claim.Stat(pid)
	if len(f) < 18 {
		return 0
	}
	n, _ := strconv.Atoi(f[17])
	return n
}

// descendants returns the children of a process, their children, and so on.
func descendants(pid int) []int {
	list := children("/proc", pid)
	for i := 0; i < len(list); i++ {
		list = append(list, children("/proc", list[i])...)
	}
	return list
}

// children returns the child processes of a process.
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

// limitsOf returns the limits that the exit status of a command reveals.
func limitsOf(status unix.WaitStatus) []Limit {
	signal := status.Signal()
	if status.Exited() && status.ExitStatus() > 128 { // the exit code of a shell
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

// limit sets in an order what the cell has to watch because no control group limits it.
func (s *Jail) limit(o *order, w *wire) {
	memory, pids := s.groups.holds(w)
	o.WatchMemory = !memory
	o.WatchProcesses = !pids
}

// hit returns the limits that a command reached.
func (s *Jail) hit(w *wire, v verdict, r Result) []Limit {
	var list []Limit
	for _, l := range append(append(v.Hit, limitsOf(unix.WaitStatus(v.Status))...), s.groups.hit(w)...) {
		if !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	if r.Stdout.Hidden > 0 || r.Stderr.Hidden > 0 {
		list = append(list, OutputLimit)
	}
	return list
}

// loose returns the limits that hold only in part. It leaves out the limit for file size,
// which is meant for each file.
func (s *Jail) loose() []Limit {
	var list []Limit
	for _, h := range s.Holds() {
		if !h.Full && h.Limit != FileSizeLimit {
			list = append(list, h.Limit)
		}
	}
	return list
}

// Holds returns how this jail enforces each limit on this machine.
func (s *Jail) Holds() []Held {
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
		list[2] = Held{MemoryLimit, false, "reading the sum every 50 ms, so a burst can exceed it for a moment; buffers of sockets count only without the network of the host"}
	}
	switch {
	case pids:
	case os.Geteuid() == 0:
		list[3] = Held{ProcessesLimit, false, "no control group, and no rlimit binds root: counted every 2 ms, and all ended when there are too many"}
	case s.level == Landlock:
		list[3] = Held{ProcessesLimit, false, "rlimit, which counts all processes of the user: it is raised by the number that run before the first command"}
	default:
		list[3] = Held{ProcessesLimit, false, "rlimit, for all commands of the session together"}
	}
	if s.level == Landlock {
		list[7] = Held{TempLimit, false, "a directory on the host's disk: only the size of each file is limited"}
	}
	return list
}
