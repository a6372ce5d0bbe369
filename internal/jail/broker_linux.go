package jail

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel asks the cell about some calls of commands: the sockets of commands with the
// host's network, and renames ([mover]).
//
// How commands use the host's network. They have their own network namespace, because
// /proc/PID/net of the host's lists every Unix socket of the machine with its path. The
// kernel asks the cell for each socket of an internet family. The cell is in the host's
// network namespace. It opens the socket and hands it to the command. The arguments of
// the request are numbers, so the command cannot change them after the check.

// asks is the return value of a filter that makes the kernel ask the cell.
const asks = unix.SECCOMP_RET_USER_NOTIF

// asking returns the filter for the calls that the kernel asks the cell about.
func asking(sockets, renames bool) []unix.SockFilter {
	var b filterBuilder
	b.load(atCall)
	if renames {
		for _, call := range renameCalls() {
			b.when(call, asks)
		}
		b.when(unix.SYS_LANDLOCK_RESTRICT_SELF, asks)
	}
	if sockets {
		b.call(unix.SYS_SOCKET, func() {
			b.load(atArgs)
			b.when(unix.AF_INET, asks)
			b.when(unix.AF_INET6, asks)
			b.when(unix.AF_NETLINK, asks) // the first filter allows only NETLINK_ROUTE
		})
	}
	b.always(allow)
	return b.program
}

// apartNetwork moves the calling thread to a new network namespace.
func apartNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("a network namespace of its own: %w", err)
	}
	return loopbackUp()
}

// A callRequest is struct seccomp_notif.
type callRequest struct {
	id         uint64
	pid, flags uint32
	call       int32
	arch       uint32
	address    uint64
	args       [6]uint64
}

// An fdGrant is struct seccomp_notif_addfd.
type fdGrant struct {
	id           uint64
	flags, from  uint32
	to, newFlags uint32
}

// handAndAnswer is SECCOMP_ADDFD_FLAG_SEND.
const handAndAnswer = 2

// A callReply is struct seccomp_notif_resp.
type callReply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// answerRequests answers the requests of a filter until no process with that filter is
// left, and closes the listener.
func answerRequests(listener int, answer func(callRequest)) {
	defer unix.Close(listener)
	// A signal that interrupts SECCOMP_IOCTL_NOTIF_ADDFD would make the kernel answer
	// with descriptor 0, which is another file of the command.
	if blockSignals() != nil {
		return
	}
	for {
		var q callRequest
		switch errno := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)); errno {
		case 0:
			answer(q)
		case unix.EINTR:
		case unix.ENOENT: // the process that asked has ended, or all have
			poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
			if n, err := unix.Poll(poll, 0); err == nil && n > 0 && poll[0].Revents&unix.POLLHUP != 0 {
				return
			}
		default:
			return
		}
	}
}

// blockSignals locks the calling goroutine to its thread, and blocks all signals on it,
// such as those that Go sends its own threads. It is never undone: the thread ends with its
// signal mask.
func blockSignals() error {
	runtime.LockOSThread()
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	return unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil)
}

// answer opens the requested socket and hands it to the command.
func (q callRequest) answer(listener int) {
	kind := int(int32(q.args[1]))
	fd, err := unix.Socket(int(int32(q.args[0])), kind|unix.SOCK_CLOEXEC, int(int32(q.args[2])))
	if err != nil {
		q.reply(listener, err)
		return
	}
	defer unix.Close(fd)
	q.hand(listener, fd, kind)
}

// reply ends the call of the command with an error, or with 0.
func (q callRequest) reply(listener int, err error) {
	r := callReply{id: q.id}
	if err != nil {
		errno := unix.EACCES
		errors.As(err, &errno)
		r.errno = -int32(errno)
	}
	control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// proceed lets the kernel carry out the call for the command, which may have changed its
// arguments since the filter saw them.
func (q callRequest) proceed(listener int) {
	control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&callReply{id: q.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}))
}

// isAlive reports whether the command still waits for the reply. If it does, q.pid is still
// its number.
func (q callRequest) isAlive(listener int) bool {
	return control(listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&q.id)) == 0
}

// hand gives the command a socket of a kind, whose number is the result of its call.
func (q callRequest) hand(listener, fd, kind int) {
	h := fdGrant{id: q.id, flags: handAndAnswer, from: uint32(fd)}
	if kind&unix.SOCK_CLOEXEC != 0 {
		h.newFlags = unix.O_CLOEXEC
	}
	_, errno := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&h))
	if errno == unix.EINVAL { // before Linux 5.14 this takes two calls
		h.flags = 0
		var number uintptr
		if number, errno = ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&h)); errno == 0 {
			control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&callReply{id: q.id, value: int64(number)}))
		}
	}
	if errno != 0 {
		q.reply(listener, errno)
	}
}

func ioctl(fd int, request uint, arg unsafe.Pointer) (uintptr, unix.Errno) {
	value, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
	return value, errno
}

func control(fd int, request uint, arg unsafe.Pointer) unix.Errno {
	_, errno := ioctl(fd, request, arg)
	return errno
}
