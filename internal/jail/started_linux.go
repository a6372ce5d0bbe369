package jail

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A started is a part of a jail that this process has started.
type started struct {
	pid int

	mu   sync.Mutex
	over bool // the kernel may have given pid to another process
}

// again starts golem as another part of a jail. It uses no os/exec, which makes a
// process only to find out whether the kernel has pidfds.
func again(word string, w *wire, attr *syscall.SysProcAttr) (*started, error) {
	const self = "/proc/self/exe"
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	defer unix.Close(null)
	pid, err := syscall.ForkExec(self, []string{"golem", word}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   partEnv(word),
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(null), wireFD: uintptr(w.fd)},
		Sys:   attr,
	})
	if err != nil {
		return nil, &os.PathError{Op: "fork/exec", Path: self, Err: err}
	}
	return &started{pid: pid}, nil
}

// partEnv returns the environment of a part. It says how many processors the Go runtime
// uses, which otherwise reads control groups to find out. A cell watches its commands
// while another thread waits for the kernel. The other parts do one thing at a time.
func partEnv(word string) []string {
	processors := "GOMAXPROCS=1"
	if word == cellWord || word == bareCellWord {
		processors = "GOMAXPROCS=2"
	}
	return []string{processors, "GODEBUG=containermaxprocs=0"}
}

// wait returns when the part has ended.
func (s *started) wait() {
	for unix.Waitid(unix.P_PID, s.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reap(0)
}

// hasEnded reports whether the part has ended. It does not wait.
func (s *started) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reap(unix.WNOHANG)
	return s.over
}

func (s *started) reap(options int) {
	for !s.over {
		pid, err := unix.Wait4(s.pid, nil, options, nil)
		if err == unix.EINTR {
			continue
		}
		s.over = pid == s.pid || err != nil
		return
	}
}

// kill ends the part, unless it has ended.
func (s *started) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		unix.Kill(s.pid, unix.SIGKILL)
	}
}
