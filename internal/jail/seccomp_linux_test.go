package jail

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// A systemCall is the input of a filter.
type systemCall struct {
	arch   uint32
	number uint32
	args   [6]uint64
}

// native returns a system call with the architecture of this machine.
func native(number uint32, args ...uint64) systemCall {
	c := systemCall{arch: hereArch, number: number}
	copy(c.args[:], args)
	return c
}

// answer runs a filter as the kernel does, and returns its result.
func answer(t *testing.T, program []unix.SockFilter, c systemCall) uint32 {
	t.Helper()
	var data [64]byte
	binary.LittleEndian.PutUint32(data[atCall:], c.number)
	binary.LittleEndian.PutUint32(data[atArch:], c.arch)
	for i, arg := range c.args {
		binary.LittleEndian.PutUint64(data[atArgs+8*i:], arg)
	}
	var word uint32
	for at := 0; at < len(program); at++ {
		s := program[at]
		is := false
		switch s.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			word = binary.LittleEndian.Uint32(data[s.K:])
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			word &= s.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return s.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			is = word == s.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			is = word >= s.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			is = word&s.K != 0
		default:
			t.Fatalf("line %d: code %#x is not known", at, s.Code)
		}
		if is {
			at += int(s.Jt)
		} else {
			at += int(s.Jf)
		}
	}
	t.Fatalf("call %d: the filter ends without an answer", c.number)
	return 0
}

// someThread is the thread that the filter protects.
const someThread = 4321

// TestFilterForm checks what the kernel requires of a filter: it is short, every jump and
// every load is within bounds, and it ends with a return.
func TestFilterForm(t *testing.T) {
	program := seccomp(someThread, true)
	if len(program) == 0 || len(program) >= unix.BPF_MAXINSNS {
		t.Fatalf("%d lines", len(program))
	}
	for i, s := range program {
		switch s.Code & 7 {
		case unix.BPF_JMP:
			if i+1+int(max(s.Jt, s.Jf)) >= len(program) {
				t.Errorf("line %d jumps out of the filter", i)
			}
		case unix.BPF_LD:
			if s.K%4 != 0 || s.K > 60 {
				t.Errorf("line %d loads from %d", i, s.K)
			}
		}
	}
	if last := program[len(program)-1]; last.Code != unix.BPF_RET|unix.BPF_K {
		t.Errorf("the last line is %+v", last)
	}
}

// TestFilterDenies checks that the filter refuses every call of the list with any
// arguments.
func TestFilterDenies(t *testing.T) {
	program := seccomp(someThread, true)
	for _, number := range denied() {
		for _, arg := range []uint64{0, 1, ^uint64(0)} {
			if got := answer(t, program, native(number, arg, arg, arg, arg, arg, arg)); got != deny|uint32(unix.EPERM) {
				t.Errorf("call %d of %#x: got %#x", number, arg, got)
			}
		}
	}
}

// FuzzFilter checks that the filter never allows a call of another architecture or
// numbering, a call of the list, or a clone that makes a namespace.
func FuzzFilter(f *testing.F) {
	f.Add(uint32(hereArch), uint32(unix.SYS_CLONE), uint64(unix.CLONE_NEWUSER), uint64(0), uint64(0), uint64(0))
	f.Add(uint32(hereArch), uint32(unix.SYS_READ), uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(uint32(unix.AUDIT_ARCH_I386), uint32(unix.SYS_READ), uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(uint32(hereArch), uint32(0x40000000), uint64(0), uint64(0), uint64(0), uint64(0))
	program := seccomp(someThread, true)
	refused := map[uint32]bool{}
	for _, number := range denied() {
		refused[number] = true
	}
	f.Fuzz(func(t *testing.T, arch, number uint32, a, b, c, d uint64) {
		got := answer(t, program, systemCall{arch, number, [6]uint64{a, b, c, d}})
		switch {
		case arch != hereArch:
			if got != kill {
				t.Errorf("architecture %#x: got %#x", arch, got)
			}
		case number >= 0x40000000 || refused[number] || number == unix.SYS_CLONE && a&newNamespaces != 0:
			if got != deny|uint32(unix.EPERM) {
				t.Errorf("call %#x of %#x: got %#x", number, a, got)
			}
		case got != allow && got&0xffff0000 != deny:
			t.Errorf("call %d: got %#x", number, got)
		}
	})
}

// TestFilter checks the result of the filter for single calls.
func TestFilter(t *testing.T) {
	const yes, perm, nosys = uint32(allow), deny | uint32(unix.EPERM), deny | uint32(unix.ENOSYS)
	const high = 1 << 32
	type row struct {
		name string
		call systemCall
		want uint32
	}
	rows := []row{
		{"read", native(unix.SYS_READ), yes},
		{"write", native(unix.SYS_WRITE), yes},
		{"execve", native(unix.SYS_EXECVE), yes},
		{"wait4", native(unix.SYS_WAIT4), yes},
		{"mmap", native(unix.SYS_MMAP), yes},
		{"futex", native(unix.SYS_FUTEX), yes},
		{"exit_group", native(unix.SYS_EXIT_GROUP), yes},
		{"openat to read", native(unix.SYS_OPENAT, 0, 0, unix.O_RDONLY), yes},
		{"openat, to make", native(unix.SYS_OPENAT, 0, 0, unix.O_CREAT|unix.O_WRONLY, 0o666), yes},
		{"openat, to make one that runs as who owns it", native(unix.SYS_OPENAT, 0, 0, unix.O_CREAT, unix.S_ISUID|0o755), perm},
		{"openat, to make one without a name", native(unix.SYS_OPENAT, 0, 0, unix.O_TMPFILE|unix.O_RDWR, unix.S_ISGID|0o755), perm},
		{"openat of a folder, where the mode is not looked at", native(unix.SYS_OPENAT, 0, 0, unix.O_DIRECTORY, unix.S_ISUID), yes},
		{"fchmodat", native(unix.SYS_FCHMODAT, 0, 0, 0o755), yes},
		{"fchmodat to run as who owns it", native(unix.SYS_FCHMODAT, 0, 0, unix.S_ISUID|0o755), perm},
		{"fchmod to run as who owns it", native(unix.SYS_FCHMOD, 0, unix.S_ISGID|0o755), perm},
		{"fchmodat2 to run as who owns it", native(unix.SYS_FCHMODAT2, 0, 0, unix.S_ISUID), perm},
		{"mknodat to run as who owns it", native(unix.SYS_MKNODAT, 0, 0, unix.S_IFREG|unix.S_ISUID), perm},
		{"clone of a process", native(unix.SYS_CLONE, uint64(unix.SIGCHLD)), yes},
		{"clone of a thread", native(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_FS|unix.CLONE_FILES|unix.CLONE_SIGHAND|unix.CLONE_THREAD|unix.CLONE_SYSVSEM|unix.CLONE_SETTLS), yes},
		{"prctl", native(unix.SYS_PRCTL, unix.PR_SET_NAME), yes},
		{"prctl, to ask whether it is a command", native(unix.SYS_PRCTL, askConfined), deny | uint32(whereConfined)},
		{"clone3", native(unix.SYS_CLONE3), nosys},
		{"openat2", native(unix.SYS_OPENAT2), nosys},
		{"pidfd_send_signal", native(unix.SYS_PIDFD_SEND_SIGNAL), nosys},
		{"kill of another", native(unix.SYS_KILL, 5), yes},
		{"kill of the thread", native(unix.SYS_KILL, someThread), perm},
		{"kill of the thread, with bits that the kernel drops", native(unix.SYS_KILL, high|someThread), perm},
		{"tgkill of the thread", native(unix.SYS_TGKILL, 1, someThread), perm},
		{"tkill of the thread", native(unix.SYS_TKILL, someThread), perm},
		{"setpriority of another", native(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 5), yes},
		{"setpriority of the thread", native(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, someThread), perm},
		{"setpriority of a user", native(unix.SYS_SETPRIORITY, unix.PRIO_USER, 0), perm},
		{"ioctl", native(unix.SYS_IOCTL, 0, unix.TCGETS), yes},
		{"ioctl to type", native(unix.SYS_IOCTL, 0, unix.TIOCSTI), perm},
		{"ioctl to type, with bits that the kernel drops", native(unix.SYS_IOCTL, 0, high|unix.TIOCSTI), perm},
		{"ioctl to paste", native(unix.SYS_IOCTL, 0, unix.TIOCLINUX), perm},
		{"fcntl", native(unix.SYS_FCNTL, 0, unix.F_GETFD), yes},
		{"fcntl to have the thread signalled", native(unix.SYS_FCNTL, 0, unix.F_SETOWN, someThread), perm},
		{"fcntl to have any signalled", native(unix.SYS_FCNTL, 0, unix.F_SETOWN_EX), perm},
		{"prlimit64 of its own", native(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 1), yes},
		{"prlimit64 of another", native(unix.SYS_PRLIMIT64, 5, unix.RLIMIT_NOFILE, 1), perm},
		{"prlimit64 of core files, read", native(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, 0), yes},
		{"prlimit64 of core files, set", native(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, 1), deny},
		{"prlimit64 of core files, set from far away", native(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, high), deny},
		{"setrlimit of core files", native(unix.SYS_SETRLIMIT, unix.RLIMIT_CORE), deny},
		{"socket of the network", native(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM), yes},
		{"socket of the new network", native(unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM), yes},
		{"socket of routes", native(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), yes},
		{"socket of the kernel's audit", native(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), deny | uint32(unix.EPROTONOSUPPORT)},
		{"socket of the file system", native(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM), yes},
		{"socket of packets", native(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW), deny | uint32(unix.EAFNOSUPPORT)},
		{"socket of machines", native(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM), deny | uint32(unix.EAFNOSUPPORT)},
		{"pair of streams", native(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC), yes},
		{"pair of datagrams", native(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK), yes},
		{"ptrace", native(unix.SYS_PTRACE, unix.PTRACE_SEIZE, 77), yes},
		{"ptrace of the thread", native(unix.SYS_PTRACE, unix.PTRACE_SEIZE, someThread), perm},
		{"ptrace of the first process", native(unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1), perm},
		{"memory", native(unix.SYS_PROCESS_VM_READV, 77), yes},
		{"memory of the thread", native(unix.SYS_PROCESS_VM_WRITEV, someThread), perm},
		{"memory of the first process", native(unix.SYS_PROCESS_VM_READV, 1), perm},
		{"a descriptor of another process", native(unix.SYS_PIDFD_GETFD, 77), perm},
		{"pair of the network", native(unix.SYS_SOCKETPAIR, unix.AF_INET, unix.SOCK_STREAM), deny | uint32(unix.EAFNOSUPPORT)},
	}
	for flag, name := range map[uint64]string{unix.CLONE_NEWUSER: "user", unix.CLONE_NEWNS: "mount", unix.CLONE_NEWPID: "pid", unix.CLONE_NEWNET: "net",
		unix.CLONE_NEWIPC: "ipc", unix.CLONE_NEWUTS: "uts", unix.CLONE_NEWCGROUP: "cgroup"} {
		rows = append(rows, row{"clone with a new namespace, " + name, native(unix.SYS_CLONE, flag|uint64(unix.SIGCHLD)), perm})
	}
	program := seccomp(someThread, true)
	for _, r := range rows {
		if got := answer(t, program, r.call); got != r.want {
			t.Errorf("%s: got %#x, want %#x", r.name, got, r.want)
		}
	}
	for _, number := range []uint32{unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV} {
		if got := answer(t, seccomp(someThread, false), native(number, 77, 77)); got != perm {
			t.Errorf("call %d without namespaces: got %#x", number, got)
		}
	}
	for name, program := range map[string][]unix.SockFilter{"without namespaces": seccomp(someThread, false), "with exposed directories": noUnixSockets()} {
		for _, r := range []row{
			{"socket of the file system", native(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM), deny | uint32(unix.EAFNOSUPPORT)},
			{"socket of the network", native(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM), yes},
			{"pair of streams", native(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC), yes},
			{"pair of datagrams", native(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK), deny | uint32(unix.ESOCKTNOSUPPORT)},
			{"pair of raw sockets, which are datagrams", native(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_RAW), deny | uint32(unix.ESOCKTNOSUPPORT)},
			{"read", native(unix.SYS_READ), yes},
		} {
			if got := answer(t, program, r.call); got != r.want {
				t.Errorf("%s, %s: got %#x, want %#x", name, r.name, got, r.want)
			}
		}
	}
}
