package jail

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The arguments with which golem starts itself as a part of a jail.
const (
	launchWord = "jail-launch"
	holdWord   = "jail-hold"
	cellWord   = "jail-cell"
	probeWord  = "jail-probe"

	bareWord     = "jail-bare"
	bareCellWord = "jail-bare-cell"
)

// wireFD is the file descriptor of the wire in a started part.
const wireFD = 3

// Child does the work of a part if this process was started as one, and then returns the
// exit code. A program that starts jails calls it before anything else.
// A Helper carries out requests with handle.
func Child(args []string, stderr io.Writer, handle Handler) (code int, is bool) {
	if len(args) != 1 {
		return 0, false
	}
	work := map[string]func(*wire) error{launchWord: launch, holdWord: func(w *wire) error { return holder(w, handle) }, cellWord: cell, probeWord: probe, bareWord: bareHold, bareCellWord: bareCell, memoryWord: mountMemory}[args[0]]
	if work == nil {
		return 0, false
	}
	w := &wire{fd: wireFD}
	// The descriptor may be one of Go's runtime.
	if kind, err := unix.GetsockoptInt(wireFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		fmt.Fprintln(stderr, "golem: this is an internal part of golem; start golem exec or golem run instead")
		return 2, true
	}
	// Commands do not inherit other files that were open when golem started.
	if err := leaveOpenFiles(); err != nil {
		w.send(report{Error: "close what else is open: " + err.Error()})
		return 1, true
	}
	if args[0] != probeWord && args[0] != memoryWord {
		// If the machine runs out of memory, the kernel ends parts of a jail before
		// other processes.
		os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	}
	runtime.LockOSThread() // Pdeathsig ends a process with the thread that started it
	if err := work(w); err != nil {
		w.send(report{Error: err.Error()})
		return 1, true
	}
	return 0, true
}

// checkStarter returns an error if golem started this process as a part, and the process
// starts a jail itself. Then its program does not call Child first. Without the error
// each part would run the whole program, which starts the next part, without end. In a
// part, wireFD is a socket whose other end another process made.
func checkStarter() error {
	kind, err := unix.GetsockoptInt(wireFD, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_SEQPACKET {
		return nil
	}
	peer, err := unix.GetsockoptUcred(wireFD, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || int(peer.Pid) == os.Getpid() {
		return nil
	}
	return errors.New("the program must call jail.Child before anything else, because the jail starts the program again")
}

// leaveOpenFiles marks all descriptors close-on-exec, except stdin, stdout and stderr.
func leaveOpenFiles() error {
	err := unix.CloseRange(wireFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err != unix.ENOSYS && err != unix.EINVAL && err != unix.EPERM {
		return err
	}
	// The kernel is older than Linux 5.11, or an old seccomp filter does not know the
	// call.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= wireFD {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// A report is the first message of a part: it is ready, or the error says why not.
type report struct {
	Error string
	Pid   int
}

// A holding is the first message to the launcher of a holder: the namespaces and ids of
// the holder.
type holding struct {
	Network      bool // the holder has the host's network
	Users        []syscall.SysProcIDMap
	Groups       []syscall.SysProcIDMap
	Supplemental bool // the holder may set supplementary groups
	Mounts       bool // the holder has a mount namespace, for overlays
}

// holdingOf returns the holding for this process. It maps ids to themselves: all ids of
// the user namespace if this process may map them, as root, and otherwise its own.
func holdingOf(network bool) holding {
	h := holding{Network: network,
		Users:  []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		Groups: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if unix.Capget(&header, &has[0]) != nil || has[0].Effective&(1<<unix.CAP_SETUID) == 0 || has[0].Effective&(1<<unix.CAP_SETGID) == 0 {
		return h
	}
	users, groups := mapsIn("/proc/self/uid_map"), mapsIn("/proc/self/gid_map")
	if users != nil && groups != nil {
		set, _ := os.ReadFile("/proc/self/setgroups")
		h.Users, h.Groups, h.Supplemental = users, groups, strings.TrimSpace(string(set)) == "allow"
	}
	return h
}

// mapsIn returns the ids in an id map of the kernel, each mapped to itself.
func mapsIn(name string) []syscall.SysProcIDMap {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	var list []syscall.SysProcIDMap
	for line := range strings.Lines(string(data)) {
		var first, outside, count int
		if n, _ := fmt.Sscan(line, &first, &outside, &count); n != 3 {
			return nil
		}
		list = append(list, syscall.SysProcIDMap{ContainerID: first, HostID: first, Size: count})
	}
	return list
}

// launch starts the holder in its namespaces. Go cannot use vfork for a new user
// namespace, and the kernel copies the page tables of the parent. Those of the launcher
// are small, however large golem is.
func launch(w *wire) error {
	var h holding
	if _, err := w.receive(&h); err != nil {
		return err
	}
	_, err := h.start(w)
	return err // the holder sends the report
}

// start starts the holder in its namespaces.
func (h holding) start(w *wire) (*started, error) {
	flags := uintptr(unix.CLONE_NEWUSER | unix.CLONE_NEWUTS)
	if !h.Network {
		flags |= unix.CLONE_NEWNET
	}
	if h.Mounts {
		flags |= unix.CLONE_NEWNS
	}
	attr := &syscall.SysProcAttr{
		Cloneflags:  flags,
		UidMappings: h.Users,
		GidMappings: h.Groups,
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP, unix.CAP_KILL, unix.CAP_SYS_RESOURCE,
			unix.CAP_NET_BIND_SERVICE,        // for the sockets of outlets
			unix.CAP_SETUID, unix.CAP_SETGID, // runsc makes user namespaces
			unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, // for files of the user, because a command may leave directories that the user cannot enter
		},
		Setsid: true,

		GidMappingsEnableSetgroups: h.Supplemental,
	}
	process, err := again(holdWord, w, attr)
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	return process, nil
}

// limitInstances limits how many inotify instances the commands of a jail have. The user
// usually has 128, which programs outside need, too. The limit is one of the holder's user
// namespace. Where /proc cannot be written, there is none.
func limitInstances() {
	const most = "32"
	os.WriteFile("/proc/sys/user/max_inotify_instances", []byte(most), 0)
}

// holder owns the namespaces of a jail and starts its cells. It ends when golem closes
// the wire.
func holder(w *wire, handle Handler) error {
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err := unix.Sethostname([]byte("golem")); err != nil { // the same as in /etc/hostname; the host's own name may identify the user
		return fmt.Errorf("hostname: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	limitInstances()
	if err := w.send(report{Pid: os.Getpid()}); err != nil {
		return err
	}
	var cells []*started
	var networks networks
	for {
		var a ask
		files, err := w.receive(&a)
		if err != nil {
			break
		}
		// Without a goroutine for each cell, the holder needs no further threads.
		cells = slices.DeleteFunc(cells, (*started).hasEnded)
		if a.Request != nil {
			reply, give := handle(a.Request, files) // the files stay open as long as this process runs
			w.send(reply, give...)
			continue
		}
		if a.Outlet {
			sockets, reply := networks.open(a)
			w.send(reply, sockets...)
			closeAll(sockets)
			continue
		}
		if a.Dial {
			sockets, reply := networks.sockets(a)
			w.send(reply, sockets...)
			closeAll(sockets)
			continue
		}
		if len(files) != 1 {
			break
		}
		attr := &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC,
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP, unix.CAP_KILL, unix.CAP_SYS_RESOURCE,
				unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, // for files of the user, because a command may leave directories that the user cannot enter
				unix.CAP_SETUID, unix.CAP_SETGID, // runsc makes user namespaces
			},
			Pdeathsig: syscall.SIGKILL,
		}
		if a.Apart && a.Loopback == "" {
			attr.Cloneflags |= unix.CLONE_NEWNET
		}
		cell, err := networks.start(a, files[0], attr)
		if err != nil {
			(&wire{fd: files[0]}).send(report{Error: "cell: " + err.Error()})
		} else {
			cells = append(cells, cell)
		}
		unix.Close(files[0])
	}
	for _, cell := range cells {
		cell.kill()
	}
	sweepGroups(w)
	return nil
}

// networks are the network namespaces of a holder, by the names that cells ask for. An
// isolated holder gives its own namespace to the cells of the first name. Each other
// namespace has a thread, which lives as long as the holder, because Pdeathsig ends a
// cell with the thread that started it.
type networks struct {
	first *string
	more  map[string]thread
}

// start starts a cell in the network that it asks for, and creates the network if needed.
func (n *networks) start(a ask, fd int, attr *syscall.SysProcAttr) (cell *started, err error) {
	name := a.Loopback
	in, ok := n.more[name]
	if !ok && a.Isolated && n.first == nil {
		n.first = &name
	}
	if !ok && (a.Isolated && *n.first == name || !a.Isolated && name == "") {
		return again(cellWord, &wire{fd: fd}, attr)
	}
	if !ok {
		in, err = newThread(apartNetwork)
		if err != nil {
			return nil, err
		}
		n.add(name, in)
	}
	err = in.do(func() (err error) {
		cell, err = again(cellWord, &wire{fd: fd}, attr)
		return err
	})
	return cell, err
}

// loopbackUp enables the loopback interface if the network namespace belongs to the jail.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}
