package jail

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confineThread removes from the calling thread, and from all processes that it starts,
// capabilities and the means to get them. It also installs a filter for system calls that
// reach beyond a process and its files.
func confineThread() error {
	// With a cgroup namespace, /proc does not show the path of the host's control group.
	// A kernel that lacks such namespaces returns EINVAL.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil && err != unix.EINVAL {
		return fmt.Errorf("cgroups of its own: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	return filter(seccomp(unix.Gettid(), true))
}

// dropCapabilities removes from the calling thread capabilities and the means to get them.
func dropCapabilities() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("bounding set: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient set: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

// filter installs a seccomp filter for the calling thread.
func filter(program []unix.SockFilter) error {
	_, err := install(program, 0)
	return err
}

// install installs a seccomp filter with flags, and returns the result of the system
// call.
func install(program []unix.SockFilter, flags uintptr) (int, error) {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	value, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, 1 /* SECCOMP_SET_MODE_FILTER */, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return -1, fmt.Errorf("seccomp: %w", errno)
	}
	return int(value), nil
}
