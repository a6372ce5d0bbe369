package jail

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/claim"
)

// The level without namespaces. A cell is an ordinary process of the host. Landlock
// restricts which paths of the host its commands can open. A second seccomp filter
// restricts the system calls for everything that a namespace would separate.
//
// Landlock also serves to end the commands. A process inside the ruleset can signal all
// processes in it and no others, and one call of kill reaches all of them. A search for
// processes could not keep up with a command that forks without end.

// leastLandlock is the first version of Landlock that restricts signals.
const leastLandlock = 6

// online is the step of a plan that allows the host's network. At this level the cell
// builds no tree. It only reads the plan for its directories.
const online stepKind = "online"

// errWithin is the reason why Landlock without namespaces cannot enforce a policy.
var errWithin = errors.New("landlock opens everything below a directory")

// startBare starts a jail without namespaces. If it cannot limit the network to a list
// of hosts, commands have no network.
func startBare(p Policy, now func() time.Time) (*Jail, error) {
	if p.Egress == nil {
		return startBareWith(p, now)
	}
	s, err := startBareWith(p, now)
	if err == nil {
		return s, nil
	}
	p.Egress = nil
	off, other := startBareWith(p, now)
	if other != nil {
		return nil, other
	}
	off.noNetwork = "this machine cannot limit it to a list of hosts (" + inLine(err) + ")"
	return off, nil
}

// startBareWith starts a jail with exactly the network of its policy.
func startBareWith(p Policy, now func() time.Time) (*Jail, error) {
	if v := landlockVersion(); v < leastLandlock {
		return nil, fmt.Errorf("landlock of version %d is needed (Linux 6.12), and this kernel has %d", leastLandlock, v)
	}
	if err := inside(p.Mounts); err != nil {
		return nil, err
	}
	if len(p.Private) > 0 {
		if _, err := memoryDir(); err != nil {
			return nil, err
		}
	}
	if err := p.prepare(Landlock); err != nil {
		return nil, err
	}
	near, far, err := newWires()
	if err != nil {
		return nil, err
	}
	defer far.Close()
	if _, err := again(bareWord, far, &syscall.SysProcAttr{Setsid: true}); err != nil {
		near.Close()
		return nil, err
	}
	s := &Jail{policy: p, now: now, level: Landlock, plan: compile(p, os.Geteuid(), os.Getegid()), holder: &Helper{wire: near}, groups: newGroups(), cells: make(map[*wire]bool)}
	if p.Network {
		s.plan.Steps = append(s.plan.Steps, step{Do: online})
	}
	if err := awaitReport(near); err != nil {
		near.Close()
		return nil, err
	}
	if p.Egress != nil {
		if s.supervisor, err = newSupervisor(*p.Egress); err != nil {
			s.Close()
			return nil, err
		}
		s.plan.Supervised = true
	}
	return s.withCell()
}

// inside refuses mounts inside other mounts that allow more: a Landlock rule opens
// everything below a directory.
func inside(mounts []Mount) error {
	within := func(a, b string) bool { return a == b || strings.HasPrefix(a, strings.TrimSuffix(b, "/")+"/") }
	for _, m := range mounts {
		for _, over := range mounts {
			if m.Source == "" && over.Source != "" && within(m.Target, over.Target) {
				return fmt.Errorf("%s is hidden inside %s, which is shown, and %w", m.Target, over.Target, errWithin)
			}
			if m.Source != "" && !m.Write && over.Write && within(string(m.Source), string(over.Source)) {
				return fmt.Errorf("%s is read-only inside %s, which may be written, and %w", m.Target, over.Target, errWithin)
			}
		}
	}
	return nil
}

// signalFenced signals all processes in the Landlock ruleset of the calling thread,
// except its own process. If Landlock did not hold, the signal would reach all processes
// of the user. So signalFenced first checks that it cannot signal its parent process,
// which is outside, and otherwise returns an error.
func signalFenced(s syscall.Signal) error {
	if outside := os.Getppid(); outside > 0 && unix.Kill(outside, 0) != unix.EPERM {
		return errors.New("landlock does not keep signals inside")
	}
	if err := unix.Kill(-1, s); err != nil && err != unix.ESRCH && err != unix.EPERM {
		return err
	}
	return nil
}

// bareHold starts cells without namespaces. It ends all of them when golem is gone, or
// when a cell was killed and so could not end its command. They share one Landlock
// ruleset, which restricts only signals.
func bareHold(w *wire) error {
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := noPrivileges(); err != nil {
		return err
	}
	if err := closeAround(unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL}, nil); err != nil {
		return err
	}
	if err := signalFenced(0); err != nil {
		return err
	}
	if err := w.send(report{Pid: os.Getpid()}); err != nil {
		return err
	}
	asked := make(chan int)
	go func() {
		defer close(asked)
		for {
			var a ask
			files, err := w.receive(&a)
			if err != nil || len(files) != 1 {
				return
			}
			asked <- files[0]
		}
	}()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	cells := make(map[int]bool)
	for asked != nil || len(cells) > 0 {
		select {
		case fd, ok := <-asked:
			if !ok {
				asked = nil // the cells notice by themselves that golem is gone
				continue
			}
			cell, err := again(bareCellWord, &wire{fd: fd}, &syscall.SysProcAttr{Setsid: true})
			if err != nil {
				(&wire{fd: fd}).send(report{Error: "cell: " + err.Error()})
			} else {
				cells[cell.pid] = true
			}
			unix.Close(fd)
		case <-ended:
			for {
				var status unix.WaitStatus
				pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
				if err != nil || pid <= 0 {
					break
				}
				if cells[pid] && !status.Exited() {
					signalFenced(unix.SIGKILL)
				}
				delete(cells, pid)
			}
		}
	}
	signalFenced(unix.SIGKILL)
	sweepGroups(w)
	sweepPrivate()
	return nil
}

// bareCell runs commands without their own tree.
func bareCell(w *wire) error {
	startThreads()
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	var p plan
	groups, err := w.receive(&p)
	if err != nil {
		return err
	}
	var keys <-chan os.Signal
	if p.Terminal {
		if keys, err = lead(); err != nil {
			return err
		}
	}
	temp, err := makeTemp(os.TempDir())
	if err != nil {
		return err
	}
	defer removeTemp(temp)
	sweepPrivate()
	secret, err := p.makePrivate()
	if err != nil {
		return err
	}
	defer p.removePrivate(secret)
	if err := p.writeCertificates(temp); err != nil {
		return err
	}
	var give []int // to golem
	h, err := newHands(groups, func(*hands) error {
		listener, err := confineBare(bareFence(p, temp, secret), p.Supervised)
		if err != nil {
			return err
		}
		if p.Supervised {
			give = []int{listener}
		}
		if !p.Counted {
			if err := filter(noMemoryFiles()); err != nil {
				return err
			}
		}
		return signalFenced(0)
	})
	if err != nil {
		return err
	}
	h.ready, h.ahead, h.stands = func() error { return nil }, func([]string) {}, func() bool { return true }
	h.anew = h.ready // there are no overlays to refresh
	h.noSockets = noSocketsBare
	h.signal = func(s syscall.Signal) { h.do(func() error { return signalFenced(s) }) }
	h.others = processesOf(os.Getuid()) + cellThreads
	h.where = func(o order) order { return o.bare(p, temp) }
	if !p.Counted {
		h.memory = new(socketCount).of
	}
	if p.Terminal {
		go h.running.follow(keys)
	}
	return h.serve(w, give...)
}

// makeTemp makes a directory for this cell in another directory. It removes those whose
// cell was killed.
func makeTemp(in string) (string, error) {
	sweepTemps(in)
	name := filepath.Join(in, claim.Name(0))
	if err := os.Mkdir(name, 0o700); err != nil {
		return "", err
	}
	_, err := claim.Hold(name) // as long as this process lives
	return name, err
}

// sweepTemps removes directories that makeTemp made and whose cell was killed.
func sweepTemps(in string) {
	claim.Sweep(in, func(name string) error {
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil || int(st.Uid) != os.Geteuid() || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil // not made by this user
		}
		held, ok := claim.Seize(name)
		if !ok {
			return nil
		}
		defer held.Close()
		return removeTemp(name)
	})
}

// removeTemp removes a directory, even if a command has removed its permissions.
func removeTemp(name string) error {
	if root, err := os.OpenRoot(name); err == nil { // a Root follows no symlink out of the directory
		fs.WalkDir(root.FS(), ".", func(at string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				root.Chmod(at, 0o700)
			}
			return nil
		})
		root.Close()
	}
	return os.RemoveAll(name)
}

// bare replaces paths in an order with paths of the host.
func (o order) bare(p plan, temp string) order {
	if o.Dir = p.host(o.Dir, temp); o.Dir == "" {
		o.Dir = temp
	}
	args := slices.Clone(o.Args)
	for _, i := range o.Names {
		args[i] = cmp.Or(p.host(args[i], temp), args[i])
	}
	o.Args = args
	env := slices.Clone(o.Env)
	for i, e := range env {
		name, value, _ := strings.Cut(e, "=")
		list := strings.Split(value, ":")
		for n, each := range list {
			list[n] = cmp.Or(p.host(each, temp), each)
		}
		env[i] = name + "=" + strings.Join(list, ":")
	}
	o.Env = env
	return o
}

// host returns the host's path for a name in a directory of the policy or for /tmp. It
// returns "" for other names.
func (p plan) host(name, temp string) (at string) {
	switch name {
	case "/tmp":
		at = temp
	case certificateFile, certificateDir:
		at = filepath.Join(temp, filepath.Base(name))
	}
	longest := 0
	for _, s := range p.Steps {
		rest, in := strings.CutPrefix(name, s.Target)
		if in && (rest == "" || rest[0] == '/') && s.Each && s.Source != "" && len(s.Target) > longest {
			at, longest = filepath.Join(s.Source, rest), len(s.Target)
		}
	}
	return at
}

// inside returns the name that a path of the host has in the tree of the plan. It returns
// "" for paths that are in no directory of the policy.
func (p plan) inside(host string) (name string) {
	longest := 0
	for _, s := range p.Steps {
		rest, in := strings.CutPrefix(host, s.Source)
		if in && (rest == "" || rest[0] == '/') && s.Each && len(s.Source) > longest {
			name, longest = filepath.Join(s.Target, rest), len(s.Source)
		}
	}
	return name
}

// insideAll does the same as inside for the value of a variable, which may be a list of
// paths.
func (p plan) insideAll(value string) string {
	list := strings.Split(value, ":")
	for n, each := range list {
		list[n] = cmp.Or(p.inside(each), each)
	}
	return strings.Join(list, ":")
}

// bareFence returns the Landlock rules for the directories of the host that a plan names.
func bareFence(p plan, temp, secret string) fence {
	f := fence{Rules: append(deviceRules(), fenceRule{Path: temp, Access: mayWrite})}
	if secret != "" {
		f.Rules = append(f.Rules, fenceRule{Path: secret, Access: mayWrite})
	}
	for _, s := range p.Steps {
		switch s.Do {
		case bind, overlayBind, sameLink:
			access := uint64(mayRead)
			if s.Write {
				access = mayWrite
			}
			f.Rules = append(f.Rules, fenceRule{s.Source, access, s.Top})
		case etcParts:
			f.Rules = append(f.Rules, etcRules(s.Names)...)
		case device:
			f.Rules = append(f.Rules, fenceRule{Path: s.Source, Access: mayUse})
		case file: // the host's own file
			f.Rules = append(f.Rules, fenceRule{Path: s.Target, Access: unix.LANDLOCK_ACCESS_FS_READ_FILE})
		case online:
			f.Network = true
		}
	}
	return f
}

// confineBare confines the calling thread without namespaces. If golem supervises the
// network, the requests arrive at listener.
func confineBare(f fence, supervise bool) (listener int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("no new privileges: %w", err)
	}
	if err := f.close(); err != nil {
		return -1, err
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		// A process that may not drop capabilities has none and cannot get any.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL && err != unix.EPERM {
			return -1, fmt.Errorf("bounding set: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("ambient set: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return -1, fmt.Errorf("capabilities: %w", err)
	}
	if err := filter(seccomp(unix.Gettid(), false)); err != nil {
		return -1, err
	}
	if err := filter(bareSeccomp(f.Network || supervise)); err != nil || !supervise {
		return -1, err
	}
	// A signal does not interrupt a call that golem has begun to answer: the call would
	// be made twice.
	return install(supervised(), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
}

// bareSeccomp returns the filter for what namespaces would separate, and for access to
// files that Landlock does not restrict. Namespaces would separate the network, shared
// memory, message queues and other processes of the user.
func bareSeccomp(network bool) []unix.SockFilter {
	const refused = deny | uint32(unix.EPERM)
	var b filterBuilder
	b.load(atCall)
	if !network {
		b.when(unix.SYS_SOCKET, deny|uint32(unix.EAFNOSUPPORT))
	}
	for _, call := range append([]uint32{
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
		unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
		unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	}, bareDeniedHere()...) {
		b.when(call, refused)
	}
	// Landlock does not restrict reading the extended attributes of files, nor watching
	// them with inotify.
	for _, call := range []uint32{unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_GETXATTRAT, unix.SYS_LISTXATTRAT} {
		b.when(call, deny|uint32(unix.EOPNOTSUPP))
	}
	b.when(unix.SYS_INOTIFY_INIT1, deny|uint32(unix.ENOSYS))
	b.call(unix.SYS_IOCTL, func() { // requests of file systems are for the owner of a file, not for everyone who may write it
		b.load(atArgs + 8)
		b.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, 0xff00)
		for _, kind := range []uint32{'f', 'v', 'X', 0x94} {
			b.when(kind<<8, deny|uint32(unix.ENOTTY))
		}
	})
	// A command may change only itself, which is 0.
	for _, call := range []uint32{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR} {
		b.call(call, func() {
			b.load(atArgs)
			b.unless(0, refused)
		})
	}
	for _, call := range []uint32{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET} {
		b.call(call, func() {
			b.load(atArgs)
			b.over(2, refused) // 2 means all processes of a user
			b.load(atArgs + 8)
			b.unless(0, refused)
		})
	}
	// A command may change the times of open files only: the name must be NULL.
	b.call(unix.SYS_UTIMENSAT, func() {
		b.load(atArgs + 8)
		b.unless(0, refused)
		b.load(atArgs + 12)
		b.unless(0, refused)
	})
	b.always(allow)
	return b.program
}

// processesOf returns how many processes and threads a user has.
func processesOf(uid int) int64 {
	var n int64
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		var st unix.Stat_t
		if unix.Stat(name+"/task", &st) == nil && int(st.Uid) == uid {
			n += int64(st.Nlink) - 2
		}
	}
	return n
}

// Loses returns what this jail lacks, one sentence for each.
func (s *Jail) Loses() []string {
	list := losses(s.level)
	switch v := landlockVersion(); {
	case v == 0:
		list = append(list, "this kernel has no landlock, which would protect files a second time")
	case v < 6:
		list = append(list, "this kernel's landlock cannot stop a command from ending its own jail; the next command gets a new one")
	}
	return list
}
