package jail

import (
	"errors"
	"fmt"
	"path"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights of Landlock for files, by what commands may do.
const (
	mayRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	mayWrite = mayRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	mayUse = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// ofFiles are the rights of files; all others are rights of directories.
	ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | mayUse
)

// A fence lists what Landlock lets a thread, and every process that it starts, open. All
// other paths are closed.
type fence struct {
	Rules   []fenceRule
	Network bool // do not restrict TCP
}

// A fenceRule opens a file, or a directory with all below it.
type fenceRule struct {
	Path   string
	Access uint64
	Top    held // as a Mount has it
}

// fenceOf returns the fence for the tree of a plan. Commands may read and run all of it,
// and write to devices and file systems in memory. If the plan has a writable directory,
// the fence lets them write everywhere, and only the mounts restrict that.
func fenceOf(p plan) fence {
	f := fence{Rules: []fenceRule{{Path: "/", Access: mayRead}, {Path: "/dev/shm", Access: mayWrite | socketRight}, {Path: path.Dir(Home), Access: mayRead | socketRight}}, Network: true}
	for _, s := range p.Steps {
		switch {
		case s.Do == devices:
			if s.Source != "" {
				f.Rules = append(f.Rules, fenceRule{Path: s.Target + "/pts", Access: mayUse}, fenceRule{Path: s.Target + "/tty", Access: mayUse})
			}
			f.Rules = append(f.Rules, deviceRules(s.Names...)...)
		case s.Do == process && s.Write:
			f.Rules = append(f.Rules, fenceRule{Path: s.Target, Access: mayRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE})
		case s.Do == memory:
			f.Rules = append(f.Rules, fenceRule{Path: s.Target, Access: mayWrite | socketRight})
		case s.Write && s.Each && !p.Shared:
			// A later mount is subject only to the rules of the directories above it.
			f.Rules = append(f.Rules, fenceRule{Path: "/", Access: mayWrite | socketRight})
		case s.Write && s.Each:
			f.Rules = append(f.Rules, fenceRule{Path: "/", Access: mayWrite})
		}
	}
	return f
}

// deviceRules opens the devices that every command has, and more.
func deviceRules(more ...string) []fenceRule {
	var rules []fenceRule
	for _, name := range append([]string{"null", "zero", "full", "random", "urandom"}, more...) {
		rules = append(rules, fenceRule{Path: "/dev/" + name, Access: mayUse})
	}
	return rules
}

// landlockVersion returns the version of Landlock that the kernel has, 0 for none.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// handled returns the rights that the fence restricts with a version of Landlock.
func (f fence) handled(version int) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: mayWrite | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK}
	if version < 2 {
		attr.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version < 3 {
		attr.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 && !f.Network {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return attr
}

// errNoLandlock says that the kernel has no Landlock.
var errNoLandlock = errors.New("this kernel has no landlock")

// close restricts the calling thread, which has no_new_privs set by then. It skips rules
// for paths that do not exist.
func (f fence) close() error {
	version := landlockVersion()
	if version == 0 {
		return errNoLandlock
	}
	return closeAround(f.handled(version), f.Rules)
}

// closeAround restricts the calling thread to the rules, for all rights in attr.
func closeAround(attr unix.LandlockRulesetAttr, rules []fenceRule) error {
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Offsetof(attr.Quiet_access_fs), 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	defer unix.Close(int(set))
	for _, r := range rules {
		err := r.add(int(set), attr.Handled_access_fs)
		if err == errReplaced {
			return err
		}
		if err != nil && err != unix.ENOENT {
			return fmt.Errorf("landlock %s: %w", r.Path, err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

func (r fenceRule) open() (int, error) {
	if r.Top != (held{}) {
		return openBelow("", r.Path, r.Top)
	}
	return unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
}

func (r fenceRule) add(set int, handled uint64) error {
	fd, err := r.open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	access := r.Access & handled
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= ofFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
