package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A trial is one request to the kernel, made in its own process.
type trial struct {
	name  string
	flags uintptr // the new namespaces of the process besides its user namespace
	in    placing
	do    func(dir string) (attempt, error)
}

// placing says which user namespace a trial runs in.
type placing uint8

const (
	here     placing = iota // the current one
	unmapped                // a new one without an ID map
	mapped                  // a new one as in jails
)

func trials() []trial {
	only := func(do func() error) func(string) (attempt, error) {
		return func(string) (attempt, error) { return attempt{}, do() }
	}
	nothing := only(func() error { return nil })
	return []trial{
		{tryUser, 0, unmapped, nothing},
		{tryIDs, 0, mapped, nothing},
		{tryMount, unix.CLONE_NEWNS, mapped, only(ownMounts)},
		{tryPID, unix.CLONE_NEWPID, mapped, only(firstProcess)},
		{tryIPC, unix.CLONE_NEWIPC, mapped, nothing},
		{tryUTS, unix.CLONE_NEWUTS, mapped, nothing},
		{tryNet, unix.CLONE_NEWNET, mapped, only(loopbackUp)},
		{tryOutlet, unix.CLONE_NEWNET, mapped, func(string) (attempt, error) {
			if err := loopbackUp(); err != nil {
				return attempt{}, err
			}
			files, o, err := prepareOutlet(ask{Ports: []uint16{80, 443}})
			closeAll(files)
			return attempt{Text: o.NoRedirect}, err
		}},
		{tryTree, unix.CLONE_NEWNS, mapped, only(func() error { _, err := newTree(plan{}); return err })},
		{tryProc, unix.CLONE_NEWNS | unix.CLONE_NEWPID, mapped, only(func() error { _, err := newTree(plan{Steps: []step{{Do: process, Target: "/proc"}}}); return err })},
		{tryOverlay, unix.CLONE_NEWNS, mapped, throughOverlay},
		{tryUpper, unix.CLONE_NEWNS, mapped, ontoOverlay},
		{tryLandlock, 0, here, underLandlock},
		{trySeccomp, 0, here, only(underFilter)},
		{tryPrivilege, 0, here, only(noPrivileges)},
		{tryRlimits, 0, here, only(underRlimits)},
	}
}

// A question is the message to the process that makes a trial.
type question struct{ Trial, Dir string }

// ask makes the trial.
func (t trial) ask(dir string) attempt {
	near, far, err := newWires()
	if err != nil {
		return attemptOf(err)
	}
	defer near.Close()
	attr := &syscall.SysProcAttr{Cloneflags: t.flags}
	if t.in != here {
		attr.Cloneflags |= unix.CLONE_NEWUSER
	}
	if t.in == mapped {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		// The kernel creates a directory for an overlay that its owner cannot enter
		// without CAP_DAC_OVERRIDE.
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE}
	}
	process, err := again(probeWord, far, attr)
	far.Close()
	if err != nil {
		return attemptOf(err)
	}
	late := time.AfterFunc(patience, process.kill)
	defer process.wait()
	defer late.Stop()
	var a attempt
	if err := near.send(question{t.name, dir}); err != nil {
		return attemptOf(err)
	}
	if _, err := near.receive(&a); err != nil {
		return attempt{Text: "the process that tried it ended before it could tell"}
	}
	return a
}

// probe answers one question.
func probe(w *wire) error {
	var q question
	if _, err := w.receive(&q); err != nil {
		return err
	}
	for _, t := range trials() {
		if t.name != q.Trial {
			continue
		}
		a, err := t.do(q.Dir)
		if err != nil {
			a = attemptOf(err)
		}
		a.Worked = err == nil
		return w.send(a)
	}
	return errors.New("no such trial")
}

func ownMounts() error { return unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, "") }

func firstProcess() error {
	if pid := os.Getpid(); pid != 1 {
		return fmt.Errorf("the process is number %d, not the first", pid)
	}
	return nil
}

// throughOverlay reads a file through an overlay that hides its path.
func throughOverlay(dir string) (attempt, error) {
	t, err := newTree(plan{Steps: []step{{Do: overlayBind, Target: "/layer", Source: filepath.Join(dir, "lower"), Each: true}}})
	if err == nil {
		err = t.refresh()
	}
	if err != nil {
		return attempt{}, err
	}
	_, err = os.ReadFile("/layer/file")
	return attempt{}, err
}

// ontoOverlay changes, creates and removes files in an overlay that is stored in dir.
func ontoOverlay(dir string) (attempt, error) {
	if err := ownMounts(); err != nil {
		return attempt{}, err
	}
	if err := unix.Chdir(dir); err != nil {
		return attempt{}, err
	}
	if err := unix.Mount("golem", "merged", "overlay", unix.MS_NOSUID|unix.MS_NODEV, "lowerdir=lower,upperdir=upper,workdir=work,userxattr"); err != nil {
		return attempt{}, fmt.Errorf("overlay: %w", err)
	}
	if err := os.WriteFile("merged/file", []byte("upper\n"), 0o644); err != nil {
		return attempt{}, err
	}
	if text, err := os.ReadFile("upper/file"); err != nil || string(text) != "upper\n" {
		return attempt{}, errors.New("writes do not arrive in the overlay")
	}
	if text, err := os.ReadFile("lower/file"); err != nil || string(text) != "lower\n" {
		return attempt{}, errors.New("writes arrive below the overlay")
	}
	return attempt{}, os.Remove("merged/file")
}

// underLandlock denies itself access to all files, and checks that it has lost it.
func underLandlock(string) (attempt, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return attempt{}, errno
	}
	if err := noPrivileges(); err != nil {
		return attempt{}, err
	}
	if err := (fence{}).close(); err != nil {
		return attempt{}, err
	}
	if f, err := os.Open("/"); err == nil {
		f.Close()
		return attempt{}, errors.New("it is accepted, and does nothing")
	}
	return attempt{Number: int(abi)}, nil
}

// underFilter installs the filter of commands on this thread, and checks that it refuses
// a call.
func underFilter() error {
	if err := noPrivileges(); err != nil {
		return err
	}
	if err := filter(seccomp(unix.Gettid(), false)); err != nil {
		return err
	}
	if err := unix.Unshare(0); !errors.Is(err, unix.EPERM) { // harmless, and allowed without the filter
		return errors.New("it is accepted, and does nothing")
	}
	return nil
}

// noPrivileges keeps this thread from getting new privileges.
func noPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return nil
}

// underRlimits sets a limit and reads it back.
func underRlimits() error {
	for _, resource := range []int{unix.RLIMIT_CPU, unix.RLIMIT_NOFILE, unix.RLIMIT_FSIZE, unix.RLIMIT_NPROC, unix.RLIMIT_CORE, unix.RLIMIT_DATA} {
		var had, has unix.Rlimit
		if err := unix.Getrlimit(resource, &had); err != nil {
			return err
		}
		lower := unix.Rlimit{Cur: min(had.Max, 1<<30), Max: min(had.Max, 1<<30)}
		if err := unix.Setrlimit(resource, &lower); err != nil {
			return err
		}
		if err := unix.Getrlimit(resource, &has); err != nil || has != lower {
			return errors.New("an rlimit is not what it was set to")
		}
	}
	return nil
}
