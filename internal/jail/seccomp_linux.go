package jail

import "golang.org/x/sys/unix"

// The return values of a filter.
const (
	allow = 0x7fff0000         // SECCOMP_RET_ALLOW
	deny  = 0x00050000         // SECCOMP_RET_ERRNO, with the errno in the low half
	kill  = uint32(0x80000000) // SECCOMP_RET_KILL_PROCESS
)

// Offsets in the input of a filter, struct seccomp_data.
const (
	atCall = 0
	atArch = 4
	atArgs = 16 // eight bytes each, low half first (all supported machines are little-endian)
)

// denied returns the system calls that no command needs and that reach beyond its own
// processes and files. They reach other namespaces and mounts, the memory of other
// processes or the kernel itself, or they bypass this filter.
func denied() []uint32 {
	return append([]uint32{
		unix.SYS_UNSHARE, unix.SYS_SETNS,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOUNT_SETATTR,
		unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_FANOTIFY_INIT,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_MEMFD_SECRET,
	}, deniedHere()...)
}

// newNamespaces are the flags with which clone makes a namespace.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// seccomp returns the filter for commands that a thread starts. If apart is true, commands
// have their own namespaces and their own tree. They may then use Unix sockets and trace
// one another.
func seccomp(thread int, apart bool) []unix.SockFilter {
	var b filterBuilder
	b.load(atArch)
	b.unless(hereArch, kill)
	b.load(atCall)
	b.over(0x40000000, deny|uint32(unix.EPERM)) // the x32 numbers, which the list below does not have
	for _, call := range denied() {
		b.when(call, deny|uint32(unix.EPERM))
	}
	// Their arguments are in memory, where a filter cannot read them. Programs fall back
	// to clone and openat.
	b.when(unix.SYS_CLONE3, deny|uint32(unix.ENOSYS))
	b.when(unix.SYS_OPENAT2, deny|uint32(unix.ENOSYS))
	// They reveal the host paths of mounts. Programs fall back to /proc.
	b.when(unix.SYS_LISTMOUNT, deny|uint32(unix.ENOSYS))
	b.when(unix.SYS_STATMOUNT, deny|uint32(unix.ENOSYS))
	b.tracing(thread, apart)
	b.call(unix.SYS_PRCTL, func() {
		b.load(atArgs)
		b.when(askConfined, deny|uint32(whereConfined))
	})
	b.call(unix.SYS_CLONE, func() {
		b.load(atArgs)
		b.any(newNamespaces, deny|uint32(unix.EPERM))
	})
	// The thread has the same Landlock rules as commands. Only this filter keeps them
	// from signalling it, which would end the cell, and from slowing it down. If the call
	// names the target by a descriptor or a pointer, the filter cannot see which process
	// it is.
	for _, c := range []struct{ call, arg uint32 }{{unix.SYS_KILL, 0}, {unix.SYS_TKILL, 0}, {unix.SYS_TGKILL, 1}, {unix.SYS_RT_SIGQUEUEINFO, 0}, {unix.SYS_RT_TGSIGQUEUEINFO, 1},
		{unix.SYS_SCHED_SETAFFINITY, 0}, {unix.SYS_SCHED_SETSCHEDULER, 0}, {unix.SYS_SCHED_SETPARAM, 0}, {unix.SYS_SCHED_SETATTR, 0}} {
		b.call(c.call, func() {
			b.load(atArgs + 8*c.arg)
			b.when(uint32(thread), deny|uint32(unix.EPERM))
		})
	}
	// A command may not set the priority of all processes of the user or of a group.
	for call, one := range map[uint32]uint32{unix.SYS_SETPRIORITY: unix.PRIO_PROCESS, unix.SYS_IOPRIO_SET: 1 /* IOPRIO_WHO_PROCESS */} {
		b.call(call, func() {
			b.load(atArgs)
			b.unless(one, deny|uint32(unix.EPERM))
			b.load(atArgs + 8)
			b.when(uint32(thread), deny|uint32(unix.EPERM))
		})
	}
	b.when(unix.SYS_PIDFD_SEND_SIGNAL, deny|uint32(unix.ENOSYS))
	b.call(unix.SYS_FCNTL, func() {
		b.load(atArgs + 8)
		b.when(unix.F_SETOWN_EX, deny|uint32(unix.EPERM))
		b.when(unix.F_SETLEASE, deny|uint32(unix.EPERM)) // others would have to wait for a file that the command can only read
		b.when(unix.F_NOTIFY, deny|uint32(unix.EPERM))
		b.call(unix.F_SETOWN, func() {
			b.load(atArgs + 16)
			b.when(uint32(thread), deny|uint32(unix.EPERM))
		})
	})
	// Requests that type into a terminal, change its kind, or make the kernel send
	// signals.
	b.call(unix.SYS_IOCTL, func() {
		b.load(atArgs + 8)
		for _, request := range []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, unix.TIOCCONS, fioSetOwn, unix.SIOCSPGRP} {
			b.when(request, deny|uint32(unix.EPERM))
		}
	})
	b.modes()
	// A command may change only its own limits: the next command would inherit those of
	// the cell. It cannot change the limit for core files, which keeps the kernel from
	// starting the host's crash handler. Programs that try continue as if they had set
	// it.
	b.call(unix.SYS_PRLIMIT64, func() {
		b.load(atArgs)
		b.unless(0, deny|uint32(unix.EPERM))
		b.load(atArgs + 8)
		b.unless(unix.RLIMIT_CORE, allow)
		b.load(atArgs + 16)
		b.unless(0, deny)
		b.load(atArgs + 20)
		b.unless(0, deny)
	})
	b.call(unix.SYS_SETRLIMIT, func() {
		b.load(atArgs)
		b.when(unix.RLIMIT_CORE, deny)
	})
	// Allow only the network of the namespace. Allow Unix sockets only if commands cannot
	// reach any of the host.
	b.call(unix.SYS_SOCKET, func() {
		b.load(atArgs)
		b.when(unix.AF_INET, allow)
		b.when(unix.AF_INET6, allow)
		if apart {
			b.when(unix.AF_UNIX, allow)
		}
		b.call(unix.AF_NETLINK, func() {
			b.load(atArgs + 16)
			b.unless(unix.NETLINK_ROUTE, deny|uint32(unix.EPROTONOSUPPORT))
			b.always(allow)
		})
		b.always(deny | uint32(unix.EAFNOSUPPORT))
	})
	pairs := b.onlyStreamPairs
	if apart {
		pairs = func() {
			b.load(atArgs)
			b.unless(unix.AF_UNIX, deny|uint32(unix.EAFNOSUPPORT))
		}
	}
	b.call(unix.SYS_SOCKETPAIR, pairs)
	b.always(allow)
	return b.program
}

// noMemoryFiles returns the filter for commands whose memory no control group counts. The
// content of a file without a name belongs to no process. It can be in a message that
// nobody has read, where the cell cannot find it. Programs fall back to /dev/shm.
func noMemoryFiles() []unix.SockFilter {
	var b filterBuilder
	b.load(atCall)
	b.when(unix.SYS_MEMFD_CREATE, deny|uint32(unix.ENOSYS))
	b.always(allow)
	return b.program
}

// fioSetOwn is FIOSETOWN.
const fioSetOwn = 0x8901

// A modeCall is a system call that sets the mode of a file. mode is the index of the
// argument with the mode. flags is the index of the argument that says whether there is a
// mode, or -1.
type modeCall struct {
	call        uint32
	mode, flags int
}

// noSetID returns the filter for the processes of runsc. They carry out the system calls
// of commands that concern files.
func noSetID() []unix.SockFilter {
	var b filterBuilder
	b.load(atCall)
	b.modes()
	b.always(allow)
	return b.program
}

// modes refuses setuid and setgid files in all calls that set a mode.
func (b *filterBuilder) modes() {
	for _, m := range append([]modeCall{{unix.SYS_FCHMOD, 1, -1}, {unix.SYS_FCHMODAT, 2, -1}, {unix.SYS_FCHMODAT2, 2, -1},
		{unix.SYS_MKNODAT, 2, -1}, {unix.SYS_OPENAT, 3, 2}}, modesHere()...) {
		b.mode(m)
	}
}

// mode refuses setuid and setgid files. In a directory of the host they would run with
// the rights of their owner for every user of the host.
func (b *filterBuilder) mode(m modeCall) {
	b.call(m.call, func() {
		if m.flags >= 0 {
			b.load(atArgs + 8*uint32(m.flags))
			b.without(unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY, allow)
		}
		b.load(atArgs + 8*uint32(m.mode))
		b.any(unix.S_ISUID|unix.S_ISGID, deny|uint32(unix.EPERM))
	})
}

// A filterBuilder builds a filter, one instruction at a time.
type filterBuilder struct{ program []unix.SockFilter }

func (b *filterBuilder) add(code uint16, jt, jf uint8, k uint32) {
	b.program = append(b.program, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

// load loads a word of the input.
func (b *filterBuilder) load(at uint32) { b.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, at) }

func (b *filterBuilder) always(answer uint32) { b.add(unix.BPF_RET|unix.BPF_K, 0, 0, answer) }

// when returns the answer if the loaded word equals word, and unless if it does not. over
// returns it if the loaded word is at least word, any if one of the bits is set, and
// without if none is.
func (b *filterBuilder) when(word, answer uint32) {
	b.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, word)
	b.always(answer)
}

func (b *filterBuilder) unless(word, answer uint32) {
	b.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, word)
	b.always(answer)
}

func (b *filterBuilder) over(word, answer uint32) {
	b.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, word)
	b.always(answer)
}

func (b *filterBuilder) any(bits, answer uint32) {
	b.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, bits)
	b.always(answer)
}

func (b *filterBuilder) without(bits, answer uint32) {
	b.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 1, 0, bits)
	b.always(answer)
}

// call adds instructions for one system call. For other calls the filter continues after
// them.
func (b *filterBuilder) call(number uint32, judge func()) {
	b.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 0, number)
	from := len(b.program)
	judge()
	b.always(allow)
	b.program[from-1].Jf = uint8(len(b.program) - from)
}
