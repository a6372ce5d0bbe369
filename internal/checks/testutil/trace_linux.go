package testutil

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// An Op is an operation of a traced process on a file.
type Op string

// The traced operations.
const (
	Write  Op = "write" // also truncating and creating a file
	Sync   Op = "sync"
	Rename Op = "rename"
	Link   Op = "link"
	Remove Op = "remove"
	Make   Op = "make" // a directory
	Exec   Op = "exec" // a program
)

// A FileCall is a system call of a traced process on a file. It is recorded when the call
// begins, whether or not it succeeds.
type FileCall struct {
	Op   Op
	Path string
	To   string // target of a rename or a link
}

// Trace runs a command and returns the operations of it and its children on files, in
// order. Killing a process cannot show that a sync is missing, because the kernel keeps
// what a dead process wrote. Only the calls themselves show it.
func Trace(t testing.TB, cmd *exec.Cmd) []FileCall {
	t.Helper()
	return TraceUntil(t, cmd, func(FileCall) bool { return false })
}

// TraceUntil is Trace for a command that is killed, with its children, when it begins a call
// for which stop returns true. The call is not made.
func TraceUntil(t testing.TB, cmd *exec.Cmd, stop func(FileCall) bool) []FileCall {
	t.Helper()
	runtime.LockOSThread() // ptrace works from one thread only
	defer runtime.UnlockOSThread()
	var said bytes.Buffer
	out, err := os.CreateTemp(t.TempDir(), "out-")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out // a pipe would need a goroutine that ends with the command
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tr := tracer{first: cmd.Process.Pid, inside: make(map[int]bool), stop: stop}
	code, err := tr.follow()
	out.Seek(0, io.SeekStart)
	io.Copy(&said, out)
	if err != nil || code != 0 && !tr.stopped {
		t.Fatalf("%v: exit %d, %v\n%s", cmd.Args, code, err, said.String())
	}
	return tr.calls
}

type tracer struct {
	first  int
	inside map[int]bool // threads that are in a system call
	calls  []FileCall

	stop    func(FileCall) bool
	stopped bool
}

// follow traces the command to its end, and returns its exit code.
func (tr *tracer) follow() (code int, err error) {
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
	var status unix.WaitStatus
	if _, err := unix.Wait4(tr.first, &status, unix.WALL, nil); err != nil {
		return 0, err
	}
	if err := unix.PtraceSetOptions(tr.first, options); err != nil {
		return 0, err
	}
	if err := unix.PtraceSyscall(tr.first, 0); err != nil {
		return 0, err
	}
	for {
		pid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ECHILD:
			return code, nil
		case err != nil:
			return 0, err
		}
		if status.Exited() || status.Signaled() {
			delete(tr.inside, pid)
			if pid == tr.first {
				if code = status.ExitStatus(); status.Signaled() {
					code = 128 + int(status.Signal())
				}
			}
			continue
		}
		signal := 0
		switch stop := status.StopSignal(); {
		case stop == unix.SIGTRAP|0x80:
			if tr.inside[pid] = !tr.inside[pid]; tr.inside[pid] {
				tr.enter(pid)
			}
			if tr.stopped {
				for traced := range tr.inside {
					unix.Kill(traced, unix.SIGKILL)
				}
			}
		case stop == unix.SIGTRAP && status.TrapCause() > 0: // a new thread, process or program
		case stop == unix.SIGSTOP: // the first stop of a new one
		default:
			signal = int(stop)
		}
		unix.PtraceSyscall(pid, signal) // ignore the error: it may have ended
	}
}

// enter records the system call that a thread begins.
func (tr *tracer) enter(pid int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	if err != nil {
		return
	}
	var arg []uint64
	for _, word := range strings.Fields(string(text)) {
		n, err := strconv.ParseUint(strings.TrimPrefix(word, "0x"), 16, 64)
		if err != nil {
			return
		}
		arg = append(arg, n)
	}
	if len(arg) < 7 {
		return
	}
	number, _ := strconv.Atoi(strings.Fields(string(text))[0]) // the only decimal field
	arg = arg[1:]
	add := func(op Op, path, to string) {
		call := FileCall{op, path, to}
		tr.calls, tr.stopped = append(tr.calls, call), tr.stopped || tr.stop(call)
	}
	switch number {
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_SENDFILE:
		add(Write, fdPath(pid, arg[0]), "")
	case unix.SYS_COPY_FILE_RANGE, unix.SYS_SPLICE:
		add(Write, fdPath(pid, arg[2]), "")
	case unix.SYS_OPENAT:
		if arg[2]&(unix.O_CREAT|unix.O_TRUNC) != 0 {
			add(Write, nameAt(pid, arg[0], arg[1]), "")
		}
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS:
		add(Sync, fdPath(pid, arg[0]), "")
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		add(Rename, nameAt(pid, arg[0], arg[1]), nameAt(pid, arg[2], arg[3]))
	case unix.SYS_LINKAT:
		add(Link, nameAt(pid, arg[0], arg[1]), nameAt(pid, arg[2], arg[3]))
	case unix.SYS_MKDIRAT:
		add(Make, nameAt(pid, arg[0], arg[1]), "")
	case unix.SYS_EXECVE:
		cwd := int32(unix.AT_FDCWD)
		add(Exec, nameAt(pid, uint64(uint32(cwd)), arg[0]), "")
	case unix.SYS_UNLINKAT:
		add(Remove, nameAt(pid, arg[0], arg[1]), "")
	}
}

// fdPath returns the path of an open file of a process.
func fdPath(pid int, fd uint64) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(fd)))
	return path
}

// nameAt returns the path that a process names relative to an open directory.
func nameAt(pid int, dir, address uint64) string {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return ""
	}
	defer memory.Close()
	var name []byte
	for len(name) < unix.PathMax {
		var part [256]byte
		n, err := memory.ReadAt(part[:256-(address+uint64(len(name)))%256], int64(address)+int64(len(name))) // do not read into the next page
		if end := bytes.IndexByte(part[:n], 0); end >= 0 {
			name = append(name, part[:end]...)
			break
		}
		name = append(name, part[:n]...)
		if err != nil {
			break
		}
	}
	if filepath.IsAbs(string(name)) {
		return filepath.Clean(string(name))
	}
	from := fdPath(pid, dir)
	if int32(dir) == unix.AT_FDCWD {
		from, _ = os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	}
	return filepath.Join(from, string(name))
}

// Unsynced returns what a crash of the machine could damage in a directory: files that
// were renamed before their content was synced and are still there, and names that were created without a
// sync of their directory.
func Unsynced(calls []FileCall, below string) []string {
	early := make(map[string]bool) // names of files whose content was not synced
	dirty := make(map[string]bool)
	named := make(map[string]string) // the last new name, by directory
	for _, c := range calls {
		switch {
		case c.Op == Write:
			dirty[c.Path] = true
		case c.Op == Sync:
			delete(dirty, c.Path)
			delete(named, c.Path)
		case c.Op == Remove:
			delete(dirty, c.Path)
			delete(early, c.Path)
			delete(named, c.Path)
			maps.DeleteFunc(named, func(_, name string) bool { return name == c.Path })
		case !strings.HasPrefix(c.To, below+"/"):
		default:
			for path := range dirty {
				if rest, ok := strings.CutPrefix(path, c.Path); ok && (rest == "" || rest[0] == '/') {
					early[c.To+rest] = true
					delete(dirty, path)
				}
			}
			named[filepath.Dir(c.To)] = c.To
		}
	}
	var list []string
	for name := range early {
		list = append(list, name+" got its name before its content was synced")
	}
	for dir, name := range named {
		list = append(list, name+" got its name, and "+dir+" was not synced")
	}
	slices.Sort(list)
	return list
}

// Dirty reports whether a file was written after its last sync.
func Dirty(calls []FileCall, path string) bool {
	dirty := false
	for _, c := range calls {
		if c.Path == path && (c.Op == Write || c.Op == Sync) {
			dirty = c.Op == Write
		}
	}
	return dirty
}

// Wrote reports whether a file was written.
func Wrote(calls []FileCall, path string) bool {
	return slices.ContainsFunc(calls, func(c FileCall) bool { return c.Op == Write && c.Path == path })
}
