package jail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/sandbox"
)

// patience is the time limit of a trial. A file system that hangs is a result too.
const patience = 20 * time.Second

// Probe finds out by trying what this machine can do. It tries overlays in the state
// directory, or in the nearest directory above it that exists, and removes what it made.
func Probe(stateDir sandbox.Host, now func() time.Time) Report {
	tried := map[string]attempt{}
	f := factsHere()
	where := nearest(string(stateDir))
	f.StateFS = kindOf(where)
	dir, err := makeTrialDir(where)
	if err != nil { // make the other trials in another directory
		tried[tryUpper], f.NoFolder = attemptOf(err), where != ""
		if dir, err = makeTrialDir(os.TempDir()); err != nil {
			dir, err = makeTrialDir("/tmp")
		}
	}
	if err != nil {
		tried[tryOverlay] = attempt{Text: "there is no directory to try it in: " + attemptOf(err).Text}
	} else {
		defer discard(dir)
	}
	for _, t := range trials() {
		if _, done := tried[t.name]; !done {
			tried[t.name] = t.ask(dir)
		}
	}
	held, err := wholeJail(dir, now)
	if err == nil {
		f.NoSockets, err = socketJail(dir, now)
	}
	tried[tryWhole] = attemptOf(err)
	if err != nil {
		held, f.NoHosts, err = bareJail(now)
		tried[tryBare] = attemptOf(err)
	}
	f.Held = held
	return diagnose(f, tried)
}

// nearest returns dir, or the nearest directory above it that exists. It returns "" for
// "".
func nearest(dir string) string {
	for dir != "" && dir != filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// makeTrialDir makes a directory for trials.
func makeTrialDir(where string) (string, error) {
	if where == "" {
		return "", errors.New("there is no state directory")
	}
	dir, err := os.MkdirTemp(where, ".golem-doctor-")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "lower", "file"), []byte("lower\n"), 0o644))
	if err != nil {
		os.RemoveAll(dir)
	}
	return dir, err
}

// discard removes the directory that makeTrialDir made. The kernel has created a
// directory in it that the user may not enter.
func discard(dir string) {
	os.Chmod(filepath.Join(dir, "work", "work"), 0o700)
	os.RemoveAll(dir)
}

// attemptOf returns the attempt for the error of a trial.
func attemptOf(err error) attempt {
	if err == nil {
		return attempt{Worked: true}
	}
	a := attempt{Text: err.Error()}
	var wrong *os.PathError
	if errors.As(err, &wrong) { // omit the path, which does not help
		a.Text = wrong.Op + ": " + wrong.Err.Error()
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		a.Errno = unix.ErrnoName(errno)
	}
	return a
}

// factsHere reads the facts about this machine.
func factsHere() facts {
	says := func(name, value string) bool {
		text, err := os.ReadFile(name)
		return err == nil && strings.TrimSpace(string(text)) == value
	}
	f := facts{
		System:      "linux",
		Root:        os.Geteuid() == 0,
		AppArmor:    says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
		CloneOff:    says("/proc/sys/kernel/unprivileged_userns_clone", "0"),
		NoneAllowed: says("/proc/sys/user/max_user_namespaces", "0"),
	}
	if program, err := os.Open("/proc/self/exe"); err == nil {
		program.Close()
	} else if f.NoProc = errors.Is(err, fs.ErrNotExist); errors.Is(err, fs.ErrPermission) {
		f.Unreadable, _ = os.Executable()
	}
	ids, err := os.ReadFile("/proc/self/uid_map")
	f.Nested = err == nil && !slices.Equal(strings.Fields(string(ids)), []string{"0", "0", "4294967295"})
	manager := "/run/systemd/system"
	if !f.Root {
		manager = fmt.Sprintf("/run/user/%d/systemd", os.Geteuid())
	}
	_, err = os.Stat(manager)
	f.Systemd = err == nil
	status, _ := os.ReadFile("/proc/thread-self/status")
	f.Filtered = strings.Contains(string(status), "\nSeccomp:\t2\n")
	f.GPU, f.NoGPU[0], f.NoGPU[1] = GPU()
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	return f
}

// kindOf returns the name of the file system that a directory is on.
func kindOf(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "no file system"
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.F2FS_SUPER_MAGIC:
		return "f2fs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "cifs"
	case unix.FUSE_SUPER_MAGIC:
		return "fuse"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.MSDOS_SUPER_MAGIC:
		return "vfat"
	case 0x2fc12fc1:
		return "zfs"
	}
	return fmt.Sprintf("a file system of the kind %#x", uint32(st.Type))
}

// wholeJail runs a command with the default settings. The command must be able to read
// one directory and write another, and must not be able to write the first.
func wholeJail(dir string, now func() time.Time) ([]Held, error) {
	mounts := []Mount{
		{Source: sandbox.Host(filepath.Join(dir, "lower")), Target: "/in"},
		{Source: sandbox.Host(filepath.Join(dir, "merged")), Target: "/out", Write: true},
	}
	held, _, err := runOne(startNamespaces, Policy{Mounts: mounts}, "read line < /in/file && echo > /out/made && ! echo > /in/made", now)
	if _, missing := os.Stat(filepath.Join(dir, "merged", "made")); err == nil && missing != nil {
		err = errors.New("what a command writes does not arrive")
	}
	return held, err
}

// bareJail runs a command at the level landlock. It also returns why its network
// cannot be limited to a list of hosts, or "" if it can.
func bareJail(now func() time.Time) (held []Held, noHosts string, err error) {
	held, r, err := runOne(startBare, Policy{Egress: &Egress{Open: func(func(net.Conn) string) (Server, error) { return silence{}, nil }}}, "true", now)
	return held, r.NoNetwork, err
}

// A silence is a Server that answers nobody.
type silence struct{}

func (silence) ServeDNS(net.PacketConn) error      { return nil }
func (silence) ServeDNSStreams(net.Listener) error { return nil }
func (silence) Close() error                       { return nil }

func (silence) Serve(net.Listener, func(net.Conn) (netip.AddrPort, error)) error { return nil }

// socketJail runs a command that only reads. It returns why the command had no Unix
// sockets, or "" if it had.
func socketJail(dir string, now func() time.Time) (noSockets string, err error) {
	mounts := []Mount{{Source: sandbox.Host(filepath.Join(dir, "lower")), Target: "/in"}}
	_, r, err := runOne(startNamespaces, Policy{Mounts: mounts}, "read line < /in/file", now)
	return r.NoSockets, err
}

// runOne runs a shell line, which must exit with code 0, and returns how the jail
// enforces limits.
func runOne(start func(Policy, func() time.Time) (*Jail, error), p Policy, line string, now func() time.Time) ([]Held, Result, error) {
	s, err := start(p, now)
	if err != nil {
		return nil, Result{}, err
	}
	defer s.Close()
	c := Shell(line)
	c.Time = patience
	r, err := s.Run(context.Background(), c)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("exit code %d", r.Code)
	}
	if err != nil {
		return nil, r, err
	}
	return s.Holds(), r, nil
}
