package jail

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How commands have the host's network. They are in a network namespace of their own:
// /proc/PID/net of the host's lists every Unix socket of the machine by its path. The
// kernel asks the cell for each socket of an internet family, and the cell, which is in
// the host's network namespace, makes it and hands it over. What is asked for is
// numbers, which nobody can change after they were looked at.

// asks is what a filter answers so that the kernel asks.
const asks = unix.SECCOMP_RET_USER_NOTIF

// apartNetwork gives the calling thread a network namespace of its own.
func apartNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("a network namespace of its own: %w", err)
	}
	return loopbackUp()
}

// A socketRequest is struct seccomp_notif.
type socketRequest struct {
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

// A socketReply is struct seccomp_notif_resp.
type socketReply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// answerSockets answers the questions of a filter, until nobody is left who could ask.
// It runs in the network that sockets are to have.
func answerSockets(listener int) {
	// A signal, such as those by which Go interrupts its own threads, must not interrupt the
	// handing over: the kernel would answer with descriptor 0, which is another file of the
	// command.
	runtime.LockOSThread() // and never unlocked: the thread ends with its mask
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	if unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil) != nil {
		unix.Close(listener)
		return
	}
	for {
		var q socketRequest
		switch errno := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)); errno {
		case 0:
			q.answer(listener)
		case unix.EINTR, unix.ENOENT: // who asked is gone
		default:
			unix.Close(listener)
			return
		}
	}
}

// answer makes the socket that is asked for and hands it over.
func (q socketRequest) answer(listener int) {
	refuse := func(err error) {
		errno := unix.EACCES
		errors.As(err, &errno)
		control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&socketReply{id: q.id, errno: -int32(errno)}))
	}
	kind := int(int32(q.args[1]))
	fd, err := unix.Socket(int(int32(q.args[0])), kind|unix.SOCK_CLOEXEC, int(int32(q.args[2])))
	if err != nil {
		refuse(err)
		return
	}
	defer unix.Close(fd)
	h := fdGrant{id: q.id, flags: handAndAnswer, from: uint32(fd)}
	if kind&unix.SOCK_CLOEXEC != 0 {
		h.newFlags = unix.O_CLOEXEC
	}
	_, errno := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&h))
	if errno == unix.EINVAL { // before Linux 5.14 in two steps
		h.flags = 0
		var number uintptr
		if number, errno = ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&h)); errno == 0 {
			control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&socketReply{id: q.id, value: int64(number)}))
		}
	}
	if errno != 0 {
		refuse(errno)
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
