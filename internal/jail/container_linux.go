package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/golem-forge/golem/sandbox"
	"golang.org/x/sys/unix"
)

// The level container. A cell builds the same tree as at the level namespaces, and starts
// runsc in it. The kernel of commands is then gVisor's, a process of the host without
// rights. runsc and all of its processes are in the PID namespace of the cell, and end
// with it.
//
// The thread that starts commands has a small root directory of its own. The tree of
// commands is in it at treeDir and receives all later mounts.
const (
	treeDir   = "/tree"   // the tree of commands
	runscFile = "/runsc"  // the program
	bundleDir = "/bundle" // the configuration of the next command
	runscDir  = "/state"  // runsc's own files

	runscLog = runscDir + "/log"
	runscPid = runscDir + "/pid" // runsc writes it when the sandbox stands
)

// containerTasks is the room for threads and processes of runsc, which the kernel counts
// with those of commands, and containerMemory that for its memory.
const (
	containerTasks  = 192
	containerMemory = 256 << 20
)

// A container starts commands with runsc. Its methods run on the thread that starts
// commands.
type container struct {
	network  bool // commands have the network of the cell
	ids      holding
	commands int
}

// contain moves the calling thread into the root directory for runsc.
func (t *tree) contain(p plan) (*container, error) {
	var mounts []int
	defer func() { closeAll(mounts) }()
	err := t.outside.do(func() error {
		for _, name := range []string{"/proc", oldRoot + "/dev/null", oldRoot + p.Runsc} {
			fd, err := unix.OpenTree(unix.AT_FDCWD, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
			if err != nil {
				return fmt.Errorf("%s: %w", strings.TrimPrefix(name, oldRoot), err)
			}
			mounts = append(mounts, fd)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := t.enter(); err != nil {
		return nil, err
	}
	root := "/tmp" // as in settle
	for _, do := range []func() error{
		func() error { return unix.Unshare(unix.CLONE_NEWNS) },
		func() error { return unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, "") },
		func() error {
			return unix.Mount("golem", root, "tmpfs", unix.MS_NOSUID, "mode=0755,size=16m")
		},
		func() error { return os.Mkdir(root+treeDir, 0o755) },
		func() error { return unix.PivotRoot(root, root+treeDir) },
		func() error { return unix.Chdir("/") },
	} {
		if err := do(); err != nil {
			return nil, fmt.Errorf("a place for runsc: %w", err)
		}
	}
	for _, dir := range []string{"/proc", "/dev", "/tmp", bundleDir, runscDir} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	for i, name := range []string{"/proc", "/dev/null", runscFile} {
		if i > 0 {
			if err := writeNew(name, nil, 0o755); err != nil {
				return nil, err
			}
		}
		if err := unix.MoveMount(mounts[i], "", unix.AT_FDCWD, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return nil, fmt.Errorf("a place for %s: %w", name, err)
		}
	}
	// A command of root could otherwise change the mode of the host's device.
	if err := restrict("/dev/null", 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("no new privileges: %w", err)
	}
	if err := filter(noSetID()); err != nil {
		return nil, err
	}
	return &container{network: p.Networked, ids: holdingOf(false)}, nil
}

// runscLine returns the arguments with which runsc runs a command.
func (c *container) runscLine(o order) []string {
	network, access := "none", "shared"
	if c.network {
		network = "host" // that of the cell, which leads to golem
	}
	if len(o.Stores) > 0 { // nobody else writes to the overlays of one command
		access = "exclusive"
	}
	line := []string{"runsc", "--rootless", "--root=" + runscDir, "--log=" + runscLog, "--network=" + network, "--ignore-cgroups", "--overlay2=none",
		"--host-uds=none", "--host-fifo=none", "--file-access=" + access, "run", "--bundle=" + bundleDir, "--pid-file=" + runscPid}
	if o.Tell > 0 {
		line = append(line, fmt.Sprintf("--pass-fd=%d:%d", tellFD, tellFD))
	}
	return append(line, c.name())
}

// execute starts an order with runsc.
func (c *container) execute(o order, attr *syscall.ProcAttr) (int, error) {
	if err := o.exists(); err != nil {
		return 0, err
	}
	for _, name := range []string{runscLog, runscPid} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, fmt.Errorf("runsc: %w", err)
		}
	}
	c.commands++
	data, err := json.Marshal(c.config(o))
	if err == nil {
		err = os.WriteFile(bundleDir+"/config.json", data, 0o600)
	}
	if err != nil {
		return 0, fmt.Errorf("runsc: its configuration: %w", err)
	}
	attr.Dir, attr.Env = "/", []string{"PATH=" + Path, "TMPDIR=/tmp"}
	pid, err := syscall.ForkExec(runscFile, c.runscLine(o), attr)
	if err != nil {
		return 0, fmt.Errorf("runsc: %w", err)
	}
	return pid, nil
}

// exists returns an error if the tree lacks the program of an order. The symlinks in its
// path are those of the tree.
func (o order) exists() error {
	tree, err := unix.Open(treeDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	fd, err := openat2(tree, o.Path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// pass passes a signal on to the first process of the running command. It returns false
// if the caller has to signal runsc itself, which passes signals on only with a terminal.
func (c *container) pass(s syscall.Signal, terminal bool) bool {
	switch {
	case terminal || s == unix.SIGKILL:
		return false
	case s == unix.SIGSTOP || s == unix.SIGCONT:
		signalNamespace(s) // runsc and its processes
		return true
	}
	for range 400 { // runsc cannot pass on a signal before the command runs
		if _, err := os.Stat(runscPid); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	_, err := syscall.ForkExec(runscFile, []string{"runsc", "--rootless", "--root=" + runscDir, "--log=" + runscLog, "kill", c.name(), strconv.Itoa(int(s))},
		&syscall.ProcAttr{Dir: "/", Env: []string{"PATH=" + Path}, Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}})
	return err == nil
}

// name returns runsc's name for the newest command. A killed runsc leaves its name taken.
func (c *container) name() string { return "command-" + strconv.Itoa(c.commands) }

// failure returns why the last command did not run, "" if it ran. It begins with runsc if
// any command would fail.
func (c *container) failure() string {
	const start = "running container: starting container: "
	why := "it ended before it ran the command"
	if f, err := os.Open(runscLog); err == nil {
		var entry struct{ Msg string }
		if json.NewDecoder(io.LimitReader(f, 64<<10)).Decode(&entry) == nil && entry.Msg != "" {
			why = strings.Map(func(r rune) rune {
				if !sandbox.Plain(r) {
					return ' '
				}
				return r
			}, entry.Msg)
		}
		f.Close()
	}
	const most = 400
	why = why[:min(len(why), most)]
	_, err := os.Stat(runscPid)
	switch text, is := strings.CutPrefix(why, start); {
	case is:
		return "gVisor cannot start it: " + text
	case err != nil:
		return "runsc did not run the command: " + why
	}
	return ""
}

type object = map[string]any

// config returns the configuration of a command for runsc, in the format of the Open
// Container Initiative.
func (c *container) config(o order) object {
	args := append([]string{o.Path}, o.Args[min(1, len(o.Args)):]...)
	var mappings [2][]object
	for i, list := range [][]syscall.SysProcIDMap{c.ids.Users, c.ids.Groups} {
		for _, m := range list {
			mappings[i] = append(mappings[i], object{"containerID": m.ContainerID, "hostID": m.HostID, "size": m.Size})
		}
	}
	var namespaces []object
	for _, kind := range []string{"pid", "ipc", "uts", "mount", "user"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	if !c.network {
		namespaces = append(namespaces, object{"type": "network"})
	}
	limit := func(kind string, n int64) object { return object{"type": kind, "soft": n, "hard": n} }
	return object{
		"ociVersion": "1.0.0",
		"process": object{
			"terminal": o.Terminal > 0, "user": object{"uid": os.Geteuid(), "gid": os.Getegid()},
			"args": args, "env": o.Env, "cwd": o.Dir, "noNewPrivileges": true,
			"rlimits": []object{limit("RLIMIT_NOFILE", max(o.Files, cellFiles)), limit("RLIMIT_FSIZE", o.FileSize), limit("RLIMIT_CORE", 0), limit("RLIMIT_NPROC", o.Processes-containerTasks)},
		},
		"root":     object{"path": treeDir},
		"hostname": "golem",
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
			{"destination": "/dev/pts", "type": "devpts", "source": "devpts"},
			{"destination": "/dev/shm", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "nodev", "mode=1777", "size=64m"}},
		},
		"linux": object{"namespaces": namespaces, "uidMappings": mappings[0], "gidMappings": mappings[1]},
	}
}

// runscMemory returns a function that counts the memory of commands. runsc keeps it in a
// file in memory, which it need not map.
func runscMemory() func() int64 {
	const name = "/memfd:runsc-memory"
	found := ""
	is := func(file string) bool {
		link, err := os.Readlink(file)
		return err == nil && strings.HasPrefix(link, name)
	}
	return func() int64 {
		if !is(found) {
			found = ""
			for _, pid := range descendants(os.Getpid()) {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if !strings.HasPrefix(string(line), "runsc-sandbox\x00") {
					continue
				}
				all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
				if i := slices.IndexFunc(all, is); i >= 0 {
					found = all[i]
				}
			}
		}
		var st unix.Stat_t
		if found == "" || unix.Stat(found, &st) != nil {
			return 0
		}
		return st.Blocks * 512
	}
}

// hostLimits returns the limits that the host's kernel or the cell enforces. At the level
// container they include what runsc itself needs.
func (s *Jail) hostLimits(l Limits) Limits {
	if s.level == Container {
		l.Processes += containerTasks
		l.Memory += containerMemory
	}
	return l
}
