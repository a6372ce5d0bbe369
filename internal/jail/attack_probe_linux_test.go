package jail_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
	"golang.org/x/sys/unix"
)

// probeWord is the environment variable that turns this test program into a small hostile
// one. It tries something and prints one line for each result.
const probeWord = "JAIL_PROBE"

// probe does what the variable says, if it is set.
func probe(args []string) bool {
	try := map[string]func([]string){"calls": tryCalls, "families": tryFamilies, "dial": tryDial, "names": tryNames, "descriptors": tryDescriptors,
		"typing": tryTyping, "modes": tryModes, "writeproc": tryWriteProc, "foreign": tryForeign, "ids": tryIDs, "program": tryProgram, "limits": tryLimits, "powers": tryPowers, "signals": trySignals,
		"rights": tryRights, "others": tryOthers, "attributes": tryAttributes, "hang": tryHang, "listen": tryListen, "search": trySearch, "meet": tryMeet, "asked": tryAsked, "serve": tryServe, "trace": tryTrace, "cell": tryCell, "traced": tryTraced, "get": tryGet, "udp": tryUDP, "bind": tryBind, "ask much": tryAskMuch, "leave": tryLeave, "swap": trySwap, "open much": tryOpenMuch, "golem": actAsGolem, "below": actAsGolemAboveMounts}[os.Getenv(probeWord)]
	if try == nil {
		return false
	}
	try(args)
	return true
}

// printResult prints the result of a system call.
func printResult(name string, errno error) {
	answer := "done"
	if e := syscall.Errno(0); errors.As(errno, &e) && e != 0 {
		answer = unix.ErrnoName(e)
	} else if errno != nil && !errors.As(errno, &e) {
		answer = errno.Error()
	}
	fmt.Println(name, answer)
}

// call makes a system call.
func call(name string, number uintptr, args ...uintptr) {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	printResult(name, errno)
}

const nowhere = ^uintptr(0) // no valid descriptor or address

// tryCalls makes the system calls that no command may make. If possible, it makes them so
// that the kernel itself would not answer EPERM.
func tryCalls([]string) {
	self := uintptr(os.Getpid())
	var ring [120]byte
	call("unshare", unix.SYS_UNSHARE, 0)
	call("unshare-user", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	call("setns", unix.SYS_SETNS, nowhere, 0)
	call("mount", unix.SYS_MOUNT, 0, nowhere, 0, 0, 0)
	call("umount2", unix.SYS_UMOUNT2, nowhere, 0)
	call("pivot_root", unix.SYS_PIVOT_ROOT, nowhere, nowhere)
	call("chroot", unix.SYS_CHROOT, nowhere)
	call("fsopen", unix.SYS_FSOPEN, nowhere, 0)
	call("fsconfig", unix.SYS_FSCONFIG, nowhere, 99, 0, 0, 0)
	call("fsmount", unix.SYS_FSMOUNT, nowhere, 0, 0)
	call("fspick", unix.SYS_FSPICK, nowhere, nowhere, 0)
	call("move_mount", unix.SYS_MOVE_MOUNT, nowhere, nowhere, nowhere, nowhere, 0)
	call("open_tree", unix.SYS_OPEN_TREE, nowhere, nowhere, 0)
	call("open_tree_attr", unix.SYS_OPEN_TREE_ATTR, nowhere, nowhere, 0, 0, 0)
	call("mount_setattr", unix.SYS_MOUNT_SETATTR, nowhere, nowhere, 0, 0, 0)
	call("ptrace", unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1, 0, 0)
	call("process_vm_readv", unix.SYS_PROCESS_VM_READV, 1, 0, 0, 0, 0, 0)
	call("process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, 1, 0, 0, 0, 0, 0)
	call("process_madvise", unix.SYS_PROCESS_MADVISE, nowhere, 0, 0, 0, 0)
	call("pidfd_getfd", unix.SYS_PIDFD_GETFD, nowhere, 0, 0)
	call("kcmp", unix.SYS_KCMP, self, self, 0, 0, 0)
	call("io_uring_setup", unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&ring)))
	call("io_uring_enter", unix.SYS_IO_URING_ENTER, nowhere, 0, 0, 0, 0, 0)
	call("io_uring_register", unix.SYS_IO_URING_REGISTER, nowhere, 0, 0, 0)
	call("bpf", unix.SYS_BPF, 999, 0, 0)
	call("perf_event_open", unix.SYS_PERF_EVENT_OPEN, nowhere, 0, 0, nowhere, 0)
	call("userfaultfd", unix.SYS_USERFAULTFD, 1 /* of its own memory only: not a privilege */)
	call("keyctl", unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2) /* the session's */, 1)
	call("add_key", unix.SYS_ADD_KEY, nowhere, nowhere, 0, 0, 0)
	call("request_key", unix.SYS_REQUEST_KEY, nowhere, nowhere, 0, 0)
	call("open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, nowhere, nowhere, 0)
	call("name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, nowhere, nowhere, 0, 0, 0)
	call("quotactl", unix.SYS_QUOTACTL, 99, 0, 0, 0)
	call("fanotify_init", unix.SYS_FANOTIFY_INIT, unix.FAN_REPORT_FID, 0)
	call("reboot", unix.SYS_REBOOT, 0, 0, 0, 0)
	call("swapon", unix.SYS_SWAPON, nowhere, 0)
	call("init_module", unix.SYS_INIT_MODULE, nowhere, 0, nowhere)
	call("kexec_load", unix.SYS_KEXEC_LOAD, 0, 0, 0, nowhere)
	call("syslog", unix.SYS_SYSLOG, 10 /* the size of the log */, 0, 0)
	call("clock_settime", unix.SYS_CLOCK_SETTIME, 99, 0)
	call("sethostname", unix.SYS_SETHOSTNAME, nowhere, 4)
	call("memfd_secret", unix.SYS_MEMFD_SECRET, 0)
	call("x32", 0x40000000+unix.SYS_GETPID)
	call("clone3", unix.SYS_CLONE3, nowhere, 0)
	call("openat2", unix.SYS_OPENAT2, nowhere, nowhere, 0, 0)
	for name, flag := range map[string]uintptr{"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
		"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP} {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|flag|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		printResult("clone-"+name, errno)
	}
}

// trySignals signals all threads that it finds, or those in args, in every way except its
// own threads, and tries to slow them down. One of them may be the cell's.
func trySignals(args []string) {
	runtime.LockOSThread()
	signal.Ignore(unix.SIGIO, unix.SIGTERM)
	self := os.Getpid()
	var tids []int
	for tid := 1; tid < 64 && len(args) == 0; tid++ {
		tids = append(tids, tid)
	}
	for _, arg := range args {
		tid, _ := strconv.Atoi(arg)
		tids = append(tids, tid)
	}
	first := tids[0] // the cell
	for _, tid := range tids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", self, tid)); err == nil {
			continue
		}
		for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
			unix.Kill(tid, s)
			unix.Tgkill(first, tid, s)
			unix.Tgkill(tid, tid, s)
			unix.RawSyscall(unix.SYS_TKILL, uintptr(tid), uintptr(s), 0)
			var info [128]byte
			*(*int32)(unsafe.Pointer(&info[0])) = int32(s)
			*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
			unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(tid), uintptr(s), uintptr(unsafe.Pointer(&info)))
			unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(first), uintptr(tid), uintptr(s), uintptr(unsafe.Pointer(&info)), 0, 0)
			for _, flags := range []int{0, unix.O_EXCL /* PIDFD_THREAD */} {
				if fd, err := unix.PidfdOpen(tid, flags); err == nil {
					unix.PidfdSendSignal(fd, s, nil, 0)
					unix.Close(fd)
				}
			}
			if fd, err := unix.Open(fmt.Sprintf("/proc/%d", tid), unix.O_DIRECTORY, 0); err == nil {
				unix.PidfdSendSignal(fd, s, nil, 0)
				unix.Close(fd)
			}
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				continue
			}
			unix.FcntlInt(uintptr(pair[0]), unix.F_SETSIG, int(s))
			for _, own := range []func(){
				func() { unix.FcntlInt(uintptr(pair[0]), unix.F_SETOWN, tid) },
				func() {
					owner := [2]int32{0 /* F_OWNER_TID */, int32(tid)}
					unix.RawSyscall(unix.SYS_FCNTL, uintptr(pair[0]), unix.F_SETOWN_EX, uintptr(unsafe.Pointer(&owner)))
				},
				func() { unix.IoctlSetPointerInt(pair[0], 0x8901 /* FIOSETOWN */, tid) },
				func() { unix.IoctlSetPointerInt(pair[0], unix.SIOCSPGRP, tid) },
			} {
				own()
				unix.FcntlInt(uintptr(pair[0]), unix.F_SETFL, unix.O_ASYNC)
				unix.Write(pair[1], []byte("x"))
				unix.FcntlInt(uintptr(pair[0]), unix.F_SETFL, 0)
			}
			unix.Close(pair[0])
			unix.Close(pair[1])
		}
		unix.Setpriority(unix.PRIO_PROCESS, tid, 19)
	}
	if len(args) == 0 { // without namespaces they would be the host's
		unix.Setpriority(unix.PRIO_USER, os.Getuid(), 19)
	}
	unix.Setpriority(unix.PRIO_PGRP, first, 19)
	fmt.Println("tried")
}

// tryFamilies prints which sockets it can create.
func tryFamilies([]string) {
	for family := range 64 {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET, unix.SOCK_PACKET} {
			if fd, err := unix.Socket(family, kind, 0); err == nil {
				fmt.Println("socket", family, kind)
				unix.Close(fd)
			}
			if fds, err := unix.Socketpair(family, kind|unix.SOCK_CLOEXEC, 0); err == nil {
				fmt.Println("pair", family, kind)
				unix.Close(fds[0])
				unix.Close(fds[1])
			}
		}
	}
	for protocol := range 32 {
		if fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, protocol); err == nil {
			fmt.Println("netlink", protocol)
			unix.Close(fd)
		}
	}
}

// tryDial sends a word to addresses: network, address, and so on.
func tryDial(args []string) {
	for ; len(args) >= 2; args = args[2:] {
		c, err := net.DialTimeout(args[0], args[1], 2*time.Second)
		if err == nil {
			_, err = c.Write([]byte("out"))
			c.Close()
		}
		printResult(args[0], err)
	}
}

// tryNames sends a word to Unix sockets. The names of abstract sockets begin with @. It
// uses a socket, and one end of a pair, which a filter of socket(2) does not see.
func tryNames(names []string) {
	for _, name := range names {
		to := &unix.SockaddrUnix{Name: name}
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
			fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
			if err == nil {
				if err = unix.Connect(fd, to); err == nil {
					err = unix.Sendto(fd, []byte("out"), 0, nil)
				}
			}
			printResult("socket", err)
		}
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
			fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
			if err == nil {
				unix.Sendto(fds[0], []byte("out"), 0, to)
				err = unix.Connect(fds[1], to)
				unix.Write(fds[1], []byte("out"))
			}
			printResult("pair", err)
		}
	}
}

// tryDescriptors prints the open descriptors besides the three streams.
func tryDescriptors([]string) {
	for fd := 3; fd < 4096; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			continue
		}
		to, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if !strings.HasPrefix(to, "anon_inode:[event") { // skips those of the Go runtime
			fmt.Println("open", fd, to)
		}
	}
}

// tryTyping types into a terminal, and tries to change its kind.
func tryTyping([]string) {
	letter := byte('x')
	for name, request := range map[string]uintptr{"TIOCSTI": unix.TIOCSTI, "TIOCLINUX": unix.TIOCLINUX, "TIOCSETD": unix.TIOCSETD, "TIOCCONS": unix.TIOCCONS,
		"TIOCSTI-high": unix.TIOCSTI | 1<<32} {
		call(name, unix.SYS_IOCTL, 0, request, uintptr(unsafe.Pointer(&letter)))
	}
	_, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	printResult("tty", err)
}

// tryModes makes setuid and setgid files in a directory in every way, and changes the
// host's null device through its stream.
func tryModes(args []string) {
	dir := args[0]
	name := func(s string) string { return filepath.Join(dir, s) }
	os.WriteFile(name("plain"), nil, 0o755)
	for _, bit := range []uint32{unix.S_ISUID, unix.S_ISGID} {
		printResult("chmod", unix.Chmod(name("plain"), 0o755|bit))
		printResult("fchmodat", unix.Fchmodat(unix.AT_FDCWD, name("plain"), 0o755|bit, 0))
		printResult("fchmodat2", unix.Fchmodat(unix.AT_FDCWD, name("plain"), 0o755|bit, unix.AT_SYMLINK_NOFOLLOW))
		fd, err := unix.Open(name("plain"), unix.O_RDWR, 0)
		if err == nil {
			printResult("fchmod", unix.Fchmod(fd, 0o755|bit))
		}
		_, err = unix.Open(name(fmt.Sprint("new", bit)), unix.O_CREAT|unix.O_RDWR, 0o755|bit)
		printResult("openat", err)
		_, err = unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o755|bit)
		printResult("tmpfile", err)
		_, err = unix.Openat2(unix.AT_FDCWD, name(fmt.Sprint("new2", bit)), &unix.OpenHow{Flags: unix.O_CREAT | unix.O_RDWR, Mode: uint64(0o755 | bit)})
		printResult("openat2", err)
		printResult("mknod", unix.Mknod(name(fmt.Sprint("node", bit)), unix.S_IFREG|0o755|bit, 0))
	}
	printResult("plain", unix.Chmod(name("plain"), 0o1700))
	_, err := os.OpenFile(name("other"), os.O_CREATE|os.O_RDWR, 0o644)
	printResult("other", err)
}

// tryWriteProc opens files in /proc for writing, or the files named in args. It writes
// nothing.
func tryWriteProc(args []string) {
	n := 0
	for _, list := range args {
		text, _ := os.ReadFile(list)
		for name := range strings.FieldsSeq(string(text)) {
			n++
			if fd, err := unix.Open(name, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
				unix.Close(fd)
				fmt.Println("writable", name)
			}
		}
	}
	filepath.WalkDir("/proc", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if d.IsDir() {
			if name := d.Name(); name == "fd" || name == "map_files" || name == "task" || name == "cwd" || name == "root" {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		n++
		if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			unix.Close(fd)
			fmt.Println("writable", path)
		}
		return nil
	})
	fmt.Println("tried", n > 100)
}

// tryForeign makes a system call as a 32-bit program would.
func tryForeign([]string) {
	if runtime.GOARCH != "amd64" {
		unix.Kill(os.Getpid(), unix.SIGSYS) // this architecture has no such calls
		return
	}
	code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		printResult("mmap", err)
		return
	}
	copy(code, []byte{0xb8, 20, 0, 0, 0 /* mov eax, getpid */, 0xcd, 0x80 /* int 0x80 */, 0xc3 /* ret */})
	at := &code[0]
	entry := &at
	(*(*func())(unsafe.Pointer(&entry)))()
	fmt.Println("foreign done")
}

// tryIDs prints its user and group IDs.
func tryIDs([]string) { fmt.Println("ids", os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid()) }

// tryProgram prints the path of its own program, and opens it for writing.
func tryProgram([]string) {
	fmt.Println(os.Readlink("/proc/self/exe"))
	_, err := os.OpenFile("/proc/self/exe", os.O_WRONLY, 0)
	fmt.Println("written", err)
}

// tryLimits sets limits of the cell, and the limit that keeps the kernel from starting
// the host's crash handler.
func tryLimits([]string) {
	var none, core unix.Rlimit
	printResult("cell", unix.Prlimit(1, unix.RLIMIT_NOFILE, &none, nil))
	printResult("other", unix.Prlimit(os.Getppid(), unix.RLIMIT_NOFILE, &none, nil))
	for _, set := range []func() error{
		func() error { return unix.Prlimit(0, unix.RLIMIT_CORE, &none, nil) },
		func() error {
			_, _, errno := unix.RawSyscall(unix.SYS_SETRLIMIT, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&none)), 0)
			return syscall.Errno(errno)
		},
	} {
		set()
		err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &core)
		fmt.Println("core", core.Cur, core.Max, err)
	}
	files := unix.Rlimit{Cur: 64, Max: 64}
	printResult("own", unix.Prlimit(0, unix.RLIMIT_NOFILE, &files, nil))
}

// tryPowers tries operations that only root may do.
func tryPowers(args []string) {
	dir := args[0]
	os.WriteFile(dir+"/own", nil, 0o644)
	printResult("chown", unix.Chown(dir+"/own", 4321, 4321))
	printResult("setuid", unix.Setuid(4321))
	printResult("setgid", unix.Setgid(4321))
	printResult("setgroups", unix.Setgroups([]int{4321}))
	printResult("mknod-char", unix.Mknod(dir+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	printResult("mknod-block", unix.Mknod(dir+"/disk", unix.S_IFBLK|0o666, int(unix.Mkdev(8, 0))))
	printResult("mknod-temp", unix.Mknod("/tmp/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	printResult("nice", unix.Setpriority(unix.PRIO_PROCESS, 0, -20))
	priority := int32(1)
	call("fifo", unix.SYS_SCHED_SETSCHEDULER, 0, 1 /* SCHED_FIFO */, uintptr(unsafe.Pointer(&priority)))
	printResult("capability", unix.Setxattr(dir+"/own", "security.capability", []byte("\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00"), 0))
	printResult("raw", func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP); return err }())
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		printResult("chmod-"+name, unix.Chmod("/dev/"+name, 0o666)) // sets the mode that it already has, so nothing changes
		printResult("times-"+name, unix.Utimes("/dev/"+name, make([]unix.Timeval, 2)))
	}
	printResult("fchmod-stdin", unix.Fchmod(0, 0o666))               // sets the mode that it already has, so nothing changes
	printResult("chmod-stdin", unix.Chmod("/proc/self/fd/0", 0o666)) // sets the mode that it already has, so nothing changes
}

// tryRights prints the privileges of a process.
func tryRights([]string) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	unix.Capget(&header, &has[0])
	fmt.Println("capabilities", has[0].Effective|has[1].Effective, has[0].Permitted|has[1].Permitted, has[0].Inheritable|has[1].Inheritable)
	prctl := func(option, arg, arg3 uintptr) int {
		n, _, _ := unix.RawSyscall6(unix.SYS_PRCTL, option, arg, arg3, 0, 0, 0)
		return int(n)
	}
	bounding, ambient := 0, 0
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		bounding += max(prctl(unix.PR_CAPBSET_READ, c, 0), 0)
		ambient += max(prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, c), 0)
	}
	fmt.Println("bounding", bounding)
	fmt.Println("ambient", ambient)
	fmt.Println("no new privileges", prctl(unix.PR_GET_NO_NEW_PRIVS, 0, 0))
	fmt.Println("filter", prctl(unix.PR_GET_SECCOMP, 0, 0))
}

// tryOthers tries what the kernel allows among processes of the same user. If possible,
// it does so in a way that changes nothing.
func tryOthers(args []string) {
	pid, _ := strconv.Atoi(args[0])
	other := uintptr(pid)
	var limits unix.Rlimit
	var mask [128]byte
	mask[0] = 3
	room := uintptr(unsafe.Pointer(&mask))
	call("prlimit", unix.SYS_PRLIMIT64, other, unix.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&limits)))
	call("sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, other, 128, room)
	call("sched_setscheduler", unix.SYS_SCHED_SETSCHEDULER, other, 99, 0)
	call("sched_setparam", unix.SYS_SCHED_SETPARAM, other, 0)
	call("sched_setattr", unix.SYS_SCHED_SETATTR, other, 0, 0)
	call("setpriority", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, other, 0)
	call("setpriority-group", unix.SYS_SETPRIORITY, unix.PRIO_PGRP, other, 0)
	call("setpriority-user", unix.SYS_SETPRIORITY, unix.PRIO_USER, 54321, 0)
	call("ioprio_set", unix.SYS_IOPRIO_SET, 1, other, 2<<13|4)
	call("ioprio_set-group", unix.SYS_IOPRIO_SET, 2, other, 2<<13|4)
	call("ioprio_set-user", unix.SYS_IOPRIO_SET, 3, 54321, 2<<13|4)
	call("migrate_pages", unix.SYS_MIGRATE_PAGES, other, 0, 0, 0)
	call("move_pages", unix.SYS_MOVE_PAGES, other, 0, 0, 0, 0, 0)
	call("get_robust_list", unix.SYS_GET_ROBUST_LIST, other, room, room)
	call("kill", unix.SYS_KILL, other, 0)
	call("tkill", unix.SYS_TKILL, other, 0)
	call("tgkill", unix.SYS_TGKILL, other, other, 0)
	call("shmget", unix.SYS_SHMGET, 0, 4096, 0o1600)
	call("shmat", unix.SYS_SHMAT, nowhere, 0, 0)
	call("shmctl", unix.SYS_SHMCTL, nowhere, 99, 0)
	call("msgget", unix.SYS_MSGGET, 0x601e, 0)
	call("msgsnd", unix.SYS_MSGSND, nowhere, 0, 0, 0)
	call("msgrcv", unix.SYS_MSGRCV, nowhere, 0, 0, 0, 0)
	call("msgctl", unix.SYS_MSGCTL, nowhere, 99, 0)
	call("semget", unix.SYS_SEMGET, 0x601e, 1, 0)
	call("semop", unix.SYS_SEMOP, nowhere, 0, 1)
	call("semtimedop", unix.SYS_SEMTIMEDOP, nowhere, 0, 1, 0)
	call("semctl", unix.SYS_SEMCTL, nowhere, 0, 99, 0)
	call("mq_open", unix.SYS_MQ_OPEN, nowhere, 0, 0, 0)
	call("mq_unlink", unix.SYS_MQ_UNLINK, nowhere)
}

// tryAttributes changes the attributes of a file that it sees and of one that it does not
// see, by name and by descriptor.
func tryAttributes(names []string) {
	times := [2]unix.Timespec{{Sec: 5}, {Sec: 5}}
	at, empty, here := uintptr(unsafe.Pointer(&times)), uintptr(unsafe.Pointer(&[1]byte{})), uintptr(0xffffff9c) // AT_FDCWD
	word := [128]byte{1}
	room := uintptr(unsafe.Pointer(&word))
	key, _ := unix.BytePtrFromString("user.golem")
	attribute, dot := uintptr(unsafe.Pointer(key)), uintptr(unsafe.Pointer(&[2]byte{'.'}))
	for _, name := range names {
		pointer, err := unix.BytePtrFromString(name)
		if err != nil {
			continue
		}
		file := uintptr(unsafe.Pointer(pointer))
		place, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		printResult("place", err)
		open, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			open = place
		}
		call("fchmodat", unix.SYS_FCHMODAT, here, file, 0o777)
		call("fchmodat2", unix.SYS_FCHMODAT2, here, file, 0o777, 0)
		call("fchmodat2-place", unix.SYS_FCHMODAT2, uintptr(place), empty, 0o777, unix.AT_EMPTY_PATH)
		call("fchmod", unix.SYS_FCHMOD, uintptr(open), 0o777)
		call("fchownat", unix.SYS_FCHOWNAT, here, file, uintptr(os.Getuid()), uintptr(os.Getgid()), 0)
		call("fchownat-place", unix.SYS_FCHOWNAT, uintptr(place), empty, uintptr(os.Getuid()), uintptr(os.Getgid()), unix.AT_EMPTY_PATH)
		call("fchown", unix.SYS_FCHOWN, uintptr(open), uintptr(os.Getuid()), uintptr(os.Getgid()))
		call("utimensat", unix.SYS_UTIMENSAT, here, file, at, 0)
		call("utimensat-place", unix.SYS_UTIMENSAT, uintptr(place), empty, at, unix.AT_EMPTY_PATH)
		call("utimensat-no-name", unix.SYS_UTIMENSAT, uintptr(place), 0, at, unix.AT_EMPTY_PATH)
		call("utimensat-path", unix.SYS_UTIMENSAT, uintptr(place), 0, at, 0)
		call("setxattr", unix.SYS_SETXATTR, file, attribute, room, 1, 0)
		call("lsetxattr", unix.SYS_LSETXATTR, file, attribute, room, 1, 0)
		call("fsetxattr", unix.SYS_FSETXATTR, uintptr(open), attribute, room, 1, 0)
		call("setxattrat", unix.SYS_SETXATTRAT, uintptr(place), empty, unix.AT_EMPTY_PATH, attribute, room, 16)
		call("removexattr", unix.SYS_REMOVEXATTR, file, attribute)
		call("lremovexattr", unix.SYS_LREMOVEXATTR, file, attribute)
		call("fremovexattr", unix.SYS_FREMOVEXATTR, uintptr(open), attribute)
		call("removexattrat", unix.SYS_REMOVEXATTRAT, uintptr(place), empty, unix.AT_EMPTY_PATH, attribute)
		call("file_setattr", unix.SYS_FILE_SETATTR, uintptr(place), empty, room, 24, unix.AT_EMPTY_PATH)
		call("flags", unix.SYS_IOCTL, uintptr(open), unix.FS_IOC_SETFLAGS, room)
		call("project", unix.SYS_IOCTL, uintptr(open), 0x401c5820 /* FS_IOC_FSSETXATTR */, room)
		call("truncate", unix.SYS_TRUNCATE, file, 0)
		call("ftruncate", unix.SYS_FTRUNCATE, uintptr(open), 0)
		call("fallocate", unix.SYS_FALLOCATE, uintptr(open), 0, 0, 100)
		call("open-truncate", unix.SYS_OPENAT, here, file, unix.O_TRUNC)
		call("open-append", unix.SYS_OPENAT, here, file, unix.O_WRONLY|unix.O_APPEND)
		call("temporary", unix.SYS_OPENAT, uintptr(folderOf(name)), dot, unix.O_TMPFILE|unix.O_RDWR, 0o600)
		call("copy_file_range", unix.SYS_COPY_FILE_RANGE, 0, 0, uintptr(open), 0, 1, 0)
		call("sendfile", unix.SYS_SENDFILE, uintptr(open), 0, 0, 1)
		call("splice", unix.SYS_SPLICE, 1, 0, uintptr(open), 0, 1, 0)
		mine, _ := unix.BytePtrFromString(fmt.Sprint("mine", place))
		call("link", unix.SYS_LINKAT, here, file, here, uintptr(unsafe.Pointer(mine)), 0)
		call("link-place", unix.SYS_LINKAT, uintptr(place), empty, here, uintptr(unsafe.Pointer(mine)), unix.AT_EMPTY_PATH)
		call("rename", unix.SYS_RENAMEAT2, here, file, here, uintptr(unsafe.Pointer(mine)), 0)
		os.WriteFile("other", nil, 0o644)
		other, _ := unix.BytePtrFromString("other")
		call("exchange", unix.SYS_RENAMEAT2, here, file, here, uintptr(unsafe.Pointer(other)), unix.RENAME_EXCHANGE)
		call("replace", unix.SYS_RENAMEAT2, here, uintptr(unsafe.Pointer(other)), here, file, 0)
		call("unlink", unix.SYS_UNLINKAT, here, file, 0)
		call("run", unix.SYS_EXECVEAT, uintptr(place), empty, 0, 0, unix.AT_EMPTY_PATH)
	}
}

// folderOf opens the directory of a file with O_PATH.
func folderOf(name string) int {
	fd, _ := unix.Open(filepath.Dir(name), unix.O_PATH|unix.O_CLOEXEC, 0)
	return fd
}

func tryHang([]string) {
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

// tryListen writes its port on the loopback to a file, and waits for a word.
func tryListen(args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		printResult("listen", err)
		return
	}
	os.WriteFile(args[0]+".new", []byte(l.Addr().String()), 0o644)
	os.Rename(args[0]+".new", args[0])
	c, err := l.Accept()
	if err == nil {
		word := make([]byte, 3)
		c.Read(word)
		fmt.Println("heard", string(word))
	}
}

// actAsGolem starts a session, runs a line a number of times, two at once, and waits for the
// end of its input.
func actAsGolem(args []string) {
	work, line, times := args[0], args[1], 0
	fmt.Sscan(args[2], &times)
	before := describeResources()
	s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(work), Target: jail.Work, Write: true}}, Env: []string{"MARK=" + os.Getenv("MARK")}, Least: levelHere(), Runsc: sandbox.Host(os.Getenv(testutil.RunscEnv))}, time.Now)
	if err != nil {
		fmt.Println("start", err)
		return
	}
	var wait sync.WaitGroup
	for range 2 { // at once
		wait.Go(func() {
			for range times / 2 {
				r, err := s.Run(context.Background(), jail.Shell(line))
				if err != nil || r.Code != 0 {
					fmt.Println("run", err, r.Code, string(r.Stderr.Head))
					return
				}
			}
		})
	}
	wait.Wait()
	if err := s.Close(); err != nil {
		fmt.Println("close", err)
	}
	after := describeResources()
	if before != after {
		fmt.Printf("before:\n%s\nafter:\n%s\n", before, after)
	}
	fmt.Println("ended")
	os.Stdin.Read(make([]byte, 1))
}

// actAsGolemAboveMounts mounts file systems in two directories, and shows both directories to a
// command.
func actAsGolemAboveMounts(args []string) {
	in, work := args[0], args[1]
	for _, dir := range []string{in + "/sub", work + "/sub"} {
		if err := unix.Mount("below", dir, "tmpfs", 0, ""); err != nil {
			fmt.Println("mount", err)
			return
		}
		os.WriteFile(dir+"/below", []byte("seen\n"), 0o666)
	}
	s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(in), Target: "/in"}, {Source: sandbox.Host(work), Target: jail.Work, Write: true}}, Least: jail.Namespaces}, time.Now)
	if err != nil {
		fmt.Println("start", err)
		return
	}
	defer s.Close()
	r, err := s.Run(context.Background(), jail.Shell(`ls /in /in/sub /work/sub; cat /work/sub/below; echo x 2>/dev/null > /in/sub/new; echo x > /work/sub/new && cat /work/sub/new; grep -v nosuid /proc/self/mountinfo`))
	fmt.Println(string(r.Stdout.Head)+string(r.Stderr.Head), err)
}

// describeResources describes the resources of this process: descriptors, temporary files and,
// for root, mounts. Root has a mount namespace of its own here. An ordinary user sees the mounts
// of all tests that run at the time, and cannot add any to them.
func describeResources() string {
	var mounts []byte
	if os.Geteuid() == 0 {
		mounts, _ = os.ReadFile("/proc/self/mountinfo")
	}
	var b strings.Builder
	for fd := range 4096 {
		if to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && !strings.HasPrefix(to, "anon_inode:[event") {
			fmt.Fprintln(&b, fd, to)
		}
	}
	list, _ := filepath.Glob(os.TempDir() + "/*")
	return b.String() + string(mounts) + strings.Join(list, "\n")
}
