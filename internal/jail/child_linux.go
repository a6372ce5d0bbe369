package jail

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The words by which this program starts itself again.
const (
	launchWord = "jail-launch"
	holdWord   = "jail-hold"
	cellWord   = "jail-cell"
	probeWord  = "jail-probe"

	bareWord     = "jail-bare"
	bareCellWord = "jail-bare-cell"
)

// wireFD is the descriptor that a started process has its wire at.
const wireFD = 3

// Child is the first thing that a program does which starts sessions: where the
// program was started as a part of one it does its work there, and returns the
// code to exit with.
func Child(args []string, stderr io.Writer) (code int, is bool) {
	if len(args) != 1 {
		return 0, false
	}
	work := map[string]func(*wire) error{launchWord: launch, holdWord: holder, cellWord: cell, probeWord: probe, bareWord: bareHold, bareCellWord: bareCell}[args[0]]
	if work == nil {
		return 0, false
	}
	w := &wire{wireFD}
	// Go's runtime may have a descriptor of its own there.
	if kind, err := unix.GetsockoptInt(wireFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		fmt.Fprintln(stderr, "golem: this is a part of a session, and is not started by hand")
		return 2, true
	}
	// Whatever else was open where golem was started stays behind.
	if err := leaveOpenFiles(); err != nil {
		w.send(report{Error: "close what else is open: " + err.Error()})
		return 1, true
	}
	if args[0] != probeWord {
		// If memory of the machine runs out, parts of a session end before others do.
		os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	}
	runtime.LockOSThread() // what is started dies with the thread that started it
	if err := work(w); err != nil {
		w.send(report{Error: err.Error()})
		return 1, true
	}
	return 0, true
}

// leaveOpenFiles keeps descriptors from the programs that this one starts, except standard
// input, output and error.
func leaveOpenFiles() error {
	err := unix.CloseRange(wireFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err != unix.ENOSYS && err != unix.EINVAL && err != unix.EPERM {
		return err
	}
	// Before Linux 5.11, or where an old filter does not know the call.
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

// A report is the first thing that a part says: that it is ready, or why not.
type report struct {
	Error string
	Pid   int
}

// again starts this program as another part of a session.
func again(word string, w *wire, attr *syscall.SysProcAttr) (*exec.Cmd, error) {
	file, err := w.file()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{"golem", word},
		Env:         []string{"GOMAXPROCS=" + processors(word)},
		Dir:         "/",
		ExtraFiles:  []*os.File{file},
		SysProcAttr: attr,
	}
	return cmd, cmd.Start()
}

// processors returns how many processors the Go runtime of a part uses. A cell watches
// its commands while it waits for the kernel; the others do one thing after the other.
func processors(word string) string {
	if word == cellWord || word == bareCellWord {
		return "2"
	}
	return "1"
}

// A holding is what the holder is told at first.
type holding struct {
	Network      bool // the host's
	Users        []syscall.SysProcIDMap
	Groups       []syscall.SysProcIDMap
	Supplemental bool // groups may be set
	Mounts       bool // it has mounts of its own, to keep layers in
}

// keepingOf is holdingOf for a holder that keeps layers.
func keepingOf(network bool) holding {
	h := holdingOf(network)
	h.Mounts = true
	return h
}

// holdingOf returns it for this process. Ids are mapped as they are: of who may
// map them, root, all that there are here; of others their own.
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

// mapsIn returns the ids that a map of the kernel has, each mapped to itself.
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

// launch starts the holder in its namespaces. It is small, so that the copy that
// a new user namespace needs is cheap, however large golem is.
func launch(w *wire) error {
	var h holding
	if _, err := w.receive(&h); err != nil {
		return err
	}
	_, err := h.start(w)
	return err // the holder speaks from here on
}

// start starts the holder in its namespaces.
func (h holding) start(w *wire) (*exec.Cmd, error) {
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
			unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, // of what is the user's own: a command may leave folders that nobody can enter
		},
		Setsid: true,

		GidMappingsEnableSetgroups: h.Supplemental,
	}
	cmd, err := again(holdWord, w, attr)
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	return cmd, nil
}

// holder owns the namespaces, starts cells, and ends when the wire does.
func holder(w *wire) error {
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err := unix.Sethostname([]byte("golem")); err != nil { // as /etc/hostname says; the host's own tells who uses it
		return fmt.Errorf("hostname: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	if err := w.send(report{Pid: os.Getpid()}); err != nil {
		return err
	}
	var started []*exec.Cmd
	var networks networks
	for {
		var a ask
		files, err := w.receive(&a)
		if err != nil {
			break
		}
		if a.Do == showLayer && len(files) == 1 {
			// The file says that layers are in use, for as long as it is open here.
			got, fd := show(a.Layer)
			w.send(got, fd...)
			continue
		}
		if a.Do != "" {
			w.send(a.carryOut())
			continue
		}
		if len(files) != 1 {
			break
		}
		attr := &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC,
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP, unix.CAP_KILL, unix.CAP_SYS_RESOURCE,
				unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, // of what is the user's own: a command may leave folders that nobody can enter
			},
			Pdeathsig: syscall.SIGKILL,
		}
		if a.Apart && a.Loopback == "" {
			attr.Cloneflags |= unix.CLONE_NEWNET
		}
		cmd, err := networks.start(a, files[0], attr)
		if err != nil {
			(&wire{files[0]}).send(report{Error: "cell: " + err.Error()})
		} else {
			started = append(started, cmd)
			go cmd.Wait()
		}
		unix.Close(files[0])
	}
	for _, cmd := range started {
		cmd.Process.Kill()
	}
	sweepGroups(w)
	return nil
}

// networks are the network namespaces of a holder by the names that cells ask for. An
// isolated holder gives its own one to the cells of the first name. The others each have
// a thread in them, which lives as long as the holder: the kernel ends a cell with the
// thread that started it.
type networks struct {
	first *string
	more  map[string]thread
}

// start starts a cell in the network that it asks for, and makes that if it is missing.
func (n *networks) start(a ask, fd int, attr *syscall.SysProcAttr) (cmd *exec.Cmd, err error) {
	name := a.Loopback
	if a.Isolated && n.first == nil {
		n.first = &name
	}
	if a.Isolated && *n.first == name || !a.Isolated && name == "" {
		return again(cellWord, &wire{fd}, attr)
	}
	in, ok := n.more[name]
	if !ok {
		in, err = newThread(apartNetwork)
		if err != nil {
			return nil, err
		}
		if n.more == nil {
			n.more = make(map[string]thread)
		}
		n.more[name] = in
	}
	err = in.do(func() (err error) {
		cmd, err = again(cellWord, &wire{fd}, attr)
		return err
	})
	return cmd, err
}

// loopbackUp gives the network namespace its own loopback, if it is ours.
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
