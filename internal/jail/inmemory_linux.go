package jail

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/sandbox"
)

const (
	memoryWord   = "jail-memory"
	memoryPrefix = "golem-memory-" // of mount points, followed by the process that made them
)

// A memoryStart is the first message to a process that mounts a file system in memory.
type memoryStart struct {
	Dir       string
	Size      int64
	Args, Env [][]byte // with which this program then starts again; they may hold any bytes
}

// RunInMemory starts this program once more in its own mount namespace, with arguments,
// environment and standard streams. There the directory that a variable names is an empty
// file system in memory of at most size bytes. It returns the exit code. The kernel frees
// the file system when the last process of the namespace ends, also if golem is killed.
// Only an empty directory may stay then, which the next call removes.
func RunInMemory(variable string, size int64, args, env []string, streams [3]*os.File) (code int, err error) {
	defer func() {
		if err != nil {
			err = &sandbox.Error{Op: "--sandbox", Path: "memory", Code: ErrNoSandbox, Hint: "golem cannot mount a file system in memory here (" + err.Error() + "); golem doctor says which namespaces work; --sandbox DIR uses a directory instead"}
		}
	}()
	place := "/dev/shm"
	if unix.Access(place, unix.W_OK) != nil {
		place = os.TempDir()
	}
	removeLeftMounts(place)
	dir, err := os.MkdirTemp(place, memoryPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(dir)
	near, far, err := newWires()
	if err != nil {
		return 0, err
	}
	defer near.Close()
	caught := make(chan os.Signal, 8)
	if heard := slices.DeleteFunc([]os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}, signal.Ignored); len(heard) > 0 {
		signal.Notify(caught, heard...)
		defer signal.Stop(caught)
	}
	runtime.LockOSThread() // Pdeathsig ends a process with the thread that started it
	defer runtime.UnlockOSThread()
	end := os.NewFile(uintptr(far.fd), "wire")
	process, err := os.StartProcess("/proc/self/exe", []string{"golem", memoryWord}, &os.ProcAttr{Env: partEnv(memoryWord), Files: append(streams[:], end), Sys: memoryAttr()})
	end.Close()
	if err != nil {
		return 0, err
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, variable+"=") })
	err = near.send(memoryStart{Dir: dir, Size: size, Args: bytesOf(args), Env: bytesOf(append(env, variable+"="+dir))})
	if err == nil {
		err = awaitReport(near)
	}
	if err != nil {
		process.Kill()
		process.Wait()
		return 0, err
	}
	ended := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := process.Wait()
		ended <- state
	}()
	for {
		select {
		case s := <-caught:
			if s != unix.SIGINT && s != unix.SIGQUIT || !isInForeground() { // the terminal sends these to both processes
				process.Signal(s)
			}
		case state := <-ended:
			if state == nil {
				return 1, nil
			}
			if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return state.ExitCode(), nil
		}
	}
}

// memoryAttr returns the namespaces of a process that mounts a file system. An ordinary
// user needs a user namespace for that.
func memoryAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if unix.Capget(&header, &has[0]) == nil && has[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0 {
		return attr
	}
	h := holdingOf(true)
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = h.Users, h.Groups, h.Supplemental
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	return attr
}

// isInForeground reports whether the keys of the terminal send signals to this process.
func isInForeground() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// removeLeftMounts removes the mount points of processes that were killed. They are empty:
// their file systems were mounted in namespaces that are gone.
func removeLeftMounts(place string) {
	list, _ := filepath.Glob(filepath.Join(place, memoryPrefix+"*"))
	for _, dir := range list {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), memoryPrefix), "-")
		pid, err := strconv.Atoi(number)
		if err == nil && pid > 0 && unix.Kill(pid, 0) == unix.ESRCH {
			unix.Rmdir(dir)
		}
	}
}

// mountMemory is the first step of a process that RunInMemory starts: it mounts the file
// system, and starts this program again.
func mountMemory(w *wire) error {
	var start memoryStart
	if _, err := w.receive(&start); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("golem", start.Dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=0700,size=%d", start.Size)); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err := w.send(report{Pid: os.Getpid()}); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", stringsOf(start.Args), stringsOf(start.Env))
}

func bytesOf(list []string) (all [][]byte) {
	for _, s := range list {
		all = append(all, []byte(s))
	}
	return all
}

func stringsOf(list [][]byte) (all []string) {
	for _, b := range list {
		all = append(all, string(b))
	}
	return all
}

// MemoryRoom returns how many bytes are free in a file system in memory, and how many it
// has. ok is false if a directory is not the top of such a file system.
func MemoryRoom(dir string) (free, size int64, ok bool) {
	var fs unix.Statfs_t
	var at, above unix.Stat_t
	if unix.Statfs(dir, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || unix.Stat(dir, &at) != nil || unix.Stat(filepath.Dir(dir), &above) != nil || at.Dev == above.Dev {
		return 0, 0, false
	}
	return int64(fs.Bavail) * fs.Bsize, int64(fs.Blocks) * fs.Bsize, true
}
