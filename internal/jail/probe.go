package jail

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// ErrNoSandbox is the code of the error for a machine that cannot provide the level that
// is required.
const ErrNoSandbox sandbox.Code = "no_os_sandbox"

// A Report says what a machine can do. Probe finds this by trying.
type Report struct {
	Best     Level     // the strongest level; None means that golem runs no commands
	Found    []Finding // what the machine provides
	Promises []Finding // what holds for a command at the best level, each as the end of "a command …"
}

// A Finding says how far one feature or promise holds.
type Finding struct {
	Name  string
	Holds Holds
	Why   string // what provides it, or what is missing and the cause
	Fix   string // how to fix it: lines to read or to type; "" if it holds or nothing helps
}

// Holds says how far something holds. The zero value is No.
type Holds uint8

const (
	No Holds = iota
	Part
	Yes
)

// String returns yes, part or no.
func (h Holds) String() string {
	switch h {
	case Part:
		return "part"
	case Yes:
		return "yes"
	}
	return "no"
}

// facts are the properties of a machine that golem reads without a trial.
type facts struct {
	System      string // runtime.GOOS
	Kernel      string // the release of the kernel
	Root        bool
	AppArmor    bool      // AppArmor keeps programs without a profile from using user namespaces
	CloneOff    bool      // kernel.unprivileged_userns_clone is 0
	NoneAllowed bool      // user.max_user_namespaces is 0
	Filtered    bool      // this process has a seccomp filter, as in a container
	Unreadable  string    // the file of this program, if its user may run it but not read it
	Nested      bool      // golem is in a user namespace
	NoProc      bool      // there is no /proc
	Systemd     bool      // systemd runs and starts programs for this user
	StateFS     string    // the file system of the state directory
	NoFolder    bool      // golem could not create anything in the state directory
	Held        []Held    // how a jail enforces limits; nil if none could be started
	NoSockets   string    // why a command had no Unix sockets there, "" if it had
	GPU         []string  // the devices of the GPU, nil if there is none
	NoGPU       [2]string // why commands cannot use it, and how to change that
	NoHosts     string    // why the level landlock has no list of hosts, "" if it has one
}

// An attempt is the result of one trial. The zero attempt was not made.
type attempt struct {
	Worked bool
	Errno  string // the name of the errno(3) if the kernel refused
	Text   string // the error, or what was found
	Number int    // a version that was found
}

// The trials. Each runs in its own process.
const (
	tryUser      = "user"
	tryIDs       = "ids"
	tryMount     = "mount"
	tryPID       = "pid"
	tryIPC       = "ipc"
	tryUTS       = "uts"
	tryNet       = "net"
	tryOutlet    = "outlet" // a network that leads to golem; Text says why it leads there only for some ports
	tryTree      = "tree"
	tryProc      = "proc"
	tryOverlay   = "overlay"
	tryUpper     = "upper"
	tryLandlock  = "landlock"
	trySeccomp   = "seccomp"
	tryPrivilege = "privilege"
	tryRlimits   = "rlimits"
	tryWhole     = "whole" // a command in a jail at the level namespaces
	tryBare      = "bare"  // a command in a jail at the level landlock
)

// whatIs describes in plain words what a trial tries.
func whatIs(trial string) string {
	switch trial {
	case tryUser:
		return "users of its own (a user namespace)"
	case tryIDs:
		return "a mapping of your user id (an id map)"
	case tryMount:
		return "directories of its own (a mount namespace)"
	case tryPID:
		return "processes of its own (a pid namespace)"
	case tryIPC:
		return "shared memory of its own (an ipc namespace)"
	case tryUTS:
		return "a host name of its own (a uts namespace)"
	case tryNet:
		return "a network of its own (a net namespace)"
	case tryOutlet:
		return "a network that leads only to golem"
	case tryTree:
		return "another root directory (pivot_root)"
	case tryProc:
		return "a /proc of its own"
	case tryOverlay:
		return "directories shown through an overlay"
	case tryWhole, tryBare:
		return "a command in the jail"
	}
	return trial
}

// forNamespaces returns the trials that the level namespaces needs. Trials that others
// depend on come first.
func forNamespaces() []string {
	return []string{tryUser, tryIDs, tryMount, tryPID, tryIPC, tryUTS, tryNet, tryTree, tryProc, tryOverlay, tryPrivilege, trySeccomp, tryRlimits, tryWhole}
}

// forLandlock returns the trials that the level landlock needs.
func forLandlock() []string {
	return []string{tryLandlock, tryPrivilege, trySeccomp, tryRlimits, tryBare}
}

// missing returns the first of the needed trials that failed.
func missing(tried map[string]attempt, need []string) (string, bool) {
	for _, name := range need {
		if !tried[name].Worked {
			return name, true
		}
	}
	return "", false
}

// diagnose makes a report from facts and trials.
func diagnose(f facts, tried map[string]attempt) Report {
	r := Report{}
	if f.System != "linux" {
		why, fix := notHere(f.System)
		r.Found = []Finding{{"jail", No, why, fix}}
		r.Promises = promises(None, Finding{}, Finding{})
		return r
	}
	if f.NoProc { // golem starts itself through /proc/self/exe
		tried = maps.Clone(tried)
		for name, a := range tried {
			if a.Errno == "ENOENT" {
				tried[name] = attempt{Errno: a.Errno, Text: noProc}
			}
		}
	}
	limits := foundLimits(f, tried)
	r.Found = []Finding{foundNamespaces(f, tried), foundLayers(f, tried), foundLandlock(f, tried), foundSeccomp(tried), limits, foundNetwork(f, tried), foundSockets(f, tried)}
	if _, lacks := missing(tried, forNamespaces()); !lacks {
		r.Best = Namespaces
	} else if _, lacks := missing(tried, forLandlock()); !lacks {
		r.Best = Landlock
	}
	r.Found = append(r.Found, foundGPU(f, r.Best)...)
	r.Promises = promises(r.Best, limits, r.Found[1])
	return r
}

// notHere returns why golem cannot run commands on a system other than Linux, and what to
// do.
func notHere(system string) (why, fix string) {
	fix = "run golem on Linux: in a virtual machine, or in a container"
	switch system {
	case "darwin":
		return "golem cannot run commands on macOS yet: it has no jail there", "run golem in a Linux container (Apple's container, Docker) or in a Linux virtual machine; docs/jail.md says how"
	case "windows":
		return "golem cannot run commands on Windows yet: it has no jail there", "run golem in WSL 2, which has a Linux kernel; docs/jail.md says how"
	}
	return "golem cannot run commands on " + system + ": it has no jail there", fix
}

func foundNamespaces(f facts, tried map[string]attempt) Finding {
	name, lacks := missing(tried, forNamespaces())
	if !lacks {
		return Finding{"namespaces", Yes, "user, mount, pid, ipc, uts, net", ""}
	}
	why, fix := cause(f, name, tried[name])
	return Finding{"namespaces", No, why, fix}
}

const noProc = "there is no /proc where golem runs"

// cause returns why a trial failed and how to fix it.
func cause(f facts, trial string, a attempt) (why, fix string) {
	refused := a.Errno == "EPERM" || a.Errno == "EACCES"
	lead := "no " + strings.TrimPrefix(whatIs(trial), "a ") + ": "
	if a.Text != "" {
		lead += a.Text + "; "
	}
	switch {
	case f.NoProc && a.Errno == "ENOENT":
		return strings.TrimSuffix(lead, "; "), "give golem a /proc: mount -t proc proc /proc, or start the container or chroot with one"
	case a.Errno == "EACCES" && f.Unreadable != "":
		return lead + "golem may run its own program file but not read it, and must start it again in the jail", "sudo chmod a+r " + forShell(f.Unreadable)
	case trial == tryUser && f.NoneAllowed:
		return lead + "this machine allows none (user.max_user_namespaces is 0)", setting("user.max_user_namespaces=15000")
	case trial == tryUser && refused && f.CloneOff && !f.Root:
		return lead + "only root may make them on this machine (kernel.unprivileged_userns_clone is 0)", setting("kernel.unprivileged_userns_clone=1")
	case refused && f.Filtered && (trial == tryUser || !f.AppArmor):
		return lead + "a seccomp filter around golem refuses it, as Docker's does by default", `start the container with: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …
or run golem outside of the container`
	case refused && f.AppArmor && !f.Root:
		return lead + "AppArmor stops programs without a profile from making one, as on Ubuntu since 23.10 (kernel.apparmor_restrict_unprivileged_userns is 1)", apparmorFix
	case trial == tryUser && a.Errno == "EINVAL":
		return lead + "the kernel was built without user namespaces", "use a kernel with CONFIG_USER_NS=y, as those of all large distributions"
	case trial == tryUser && a.Errno == "ENOSPC" && f.Nested:
		return lead + "golem is in a user namespace already, and that allows no other in it, as with bwrap --disable-userns", "start golem outside of it, or let it allow more"
	case trial == tryUser && a.Errno == "ENOSPC":
		return lead + "all that this machine allows are in use (user.max_user_namespaces)", setting("user.max_user_namespaces=15000")
	case trial == tryProc && refused:
		return lead + "the /proc that golem sees has parts covered, as in a container", "start the container with: docker run --security-opt systempaths=unconfined …"
	case trial == tryOverlay && older(f.Kernel, 5, 11):
		return lead + "the kernel, " + f.Kernel + ", is too old: ordinary users may use overlays since 5.11", "use a newer kernel"
	case trial == tryOverlay && a.Errno == "ENODEV":
		return lead + "the kernel has no overlayfs", "sudo modprobe overlay"
	case refused:
		return lead + "the kernel does not say why; a security module, or a chroot around golem, may be the cause", ""
	}
	return strings.TrimSuffix(lead, "; "), ""
}

// forShell quotes a name for a shell.
func forShell(name string) string { return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'" }

const apparmorFix = `golem doctor --apparmor | sudo tee /etc/apparmor.d/golem
sudo apparmor_parser -r /etc/apparmor.d/golem`

// setting returns commands that set a kernel parameter, now and at every start.
func setting(text string) string {
	return "echo " + text + " | sudo tee /etc/sysctl.d/60-golem.conf\nsudo sysctl -p /etc/sysctl.d/60-golem.conf"
}

// older reports whether a kernel's release is below a version. It returns false if it
// cannot read the release.
func older(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a < major || a == major && b < minor
}

func foundLayers(f facts, tried map[string]attempt) Finding {
	const now = "changes of commands wait in an overlay until golem applies them"
	const copies = "sessions work on copies of mounts with mode: overlay"
	const direct = "so each command works on a copy of what it may write, and " + copies
	lower, upper := tried[tryOverlay], tried[tryUpper]
	switch {
	case lower.Worked && upper.Worked:
		return Finding{"overlay", Yes, "overlayfs, with the state directory on " + f.StateFS + "; " + now, ""}
	case lower.Worked:
		why := "overlayfs, but not with an overlay in the state directory, which is on " + f.StateFS + ": " + upper.Text
		if f.NoFolder {
			return Finding{"overlay", Part, why + "; " + direct, "name a state directory that you can write: --state DIR or GOLEM_STATE"}
		}
		switch f.StateFS {
		case "overlayfs", "nfs", "cifs", "fuse", "9p", "vfat":
			why += "; that file system cannot hold one"
		}
		return Finding{"overlay", Part, why + "; " + direct, "name a state directory on a disk of this machine (ext4, xfs, btrfs, tmpfs; in a container, a volume): --state DIR or GOLEM_STATE"}
	}
	if !tried[tryTree].Worked {
		return Finding{"overlay", No, "they need namespaces; " + copies, ""}
	}
	why, fix := cause(f, tryOverlay, lower)
	return Finding{"overlay", No, why + "; " + copies, fix}
}

func foundLandlock(f facts, tried map[string]attempt) Finding {
	a := tried[tryLandlock]
	bare, alone := tried[tryBare]
	switch {
	case a.Worked && alone && !bare.Worked:
		return Finding{"landlock", Part, fmt.Sprintf("ABI %d, but no command can be run with it alone: %s", a.Number, bare.Text), ""}
	case a.Worked && a.Number >= 6:
		return Finding{"landlock", Yes, fmt.Sprintf("ABI %d", a.Number), ""}
	case a.Worked:
		return Finding{"landlock", Part, fmt.Sprintf("ABI %d: files; the kernel, %s, does not keep signals in (6.12 does)", a.Number, f.Kernel), "use a newer kernel"}
	case a.Errno == "EOPNOTSUPP":
		return Finding{"landlock", No, "the kernel has it, but it is switched off", "add landlock to the list lsm= of the kernel's command line, and start the machine again"}
	case a.Errno == "ENOSYS" && older(f.Kernel, 5, 13):
		return Finding{"landlock", No, "the kernel, " + f.Kernel + ", is too old: it came with 5.13", "use a newer kernel"}
	case a.Errno == "ENOSYS" && f.Filtered:
		return Finding{"landlock", No, "the kernel, " + f.Kernel + ", does not answer: a seccomp filter around golem hides it, or the kernel was built without it",
			"use a newer container runtime, or its seccomp=unconfined; where that is not it, a kernel with CONFIG_SECURITY_LANDLOCK=y"}
	case a.Errno == "ENOSYS":
		return Finding{"landlock", No, "the kernel, " + f.Kernel + ", was built without it", "use a kernel with CONFIG_SECURITY_LANDLOCK=y"}
	case a.Errno == "EPERM" && f.Filtered:
		return Finding{"landlock", No, "a seccomp filter around golem refuses it", "use a newer container runtime, or its seccomp=unconfined"}
	}
	return Finding{"landlock", No, a.Text, ""}
}

func foundSeccomp(tried map[string]attempt) Finding {
	filter, privilege := tried[trySeccomp], tried[tryPrivilege]
	switch {
	case !privilege.Worked:
		return Finding{"seccomp", No, "golem cannot drop privileges for good: " + privilege.Text, ""}
	case !filter.Worked:
		return Finding{"seccomp", No, "golem cannot filter a command's system calls: " + filter.Text, "use a kernel with CONFIG_SECCOMP_FILTER=y"}
	}
	return Finding{"seccomp", Yes, "golem filters system calls, and commands cannot gain privileges", ""}
}

func foundLimits(f facts, tried map[string]attempt) Finding {
	if !tried[tryRlimits].Worked {
		return Finding{"limits", No, "rlimits cannot be set: " + tried[tryRlimits].Text, ""}
	}
	if len(f.Held) == 0 {
		return Finding{"limits", No, "no command could be run within them", ""}
	}
	var full, part []string
	fix := ""
	for _, h := range f.Held {
		if h.Full || h.Limit == FileSizeLimit { // this limit is meant for each file
			full = append(full, string(h.Limit))
			continue
		}
		part = append(part, string(h.Limit)+" by "+h.How)
		if h.Limit == MemoryLimit || h.Limit == ProcessesLimit {
			fix = "golem cannot make a control group (cgroup) here; start it "
			switch {
			case !f.Systemd:
				fix += "where your user may write its cgroup, such as in a session of systemd or in a container with a cgroup of its own"
			case f.Root:
				fix += "with: systemd-run --scope golem …, or in a container with one that it may write"
			default:
				fix += "with: systemd-run --user --scope golem …"
			}
		}
	}
	if len(part) == 0 {
		return Finding{"limits", Yes, strings.Join(full, ", "), ""}
	}
	return Finding{"limits", Part, strings.Join(full, ", ") + " hold; " + strings.Join(part, "; "), fix}
}

func foundNetwork(f facts, tried map[string]attempt) Finding {
	_, lacks := missing(tried, forNamespaces())
	o := tried[tryOutlet]
	switch bare := lacks && tried[trySeccomp].Worked; {
	case bare && tried[tryBare].Worked && f.NoHosts == "":
		return Finding{"network", Part, "off, on, or a list of hosts, by refusing sockets and not by a network of its own", ""}
	case bare:
		return Finding{"network", Part, "off, by refusing sockets and not by a network of its own; on; no list of hosts" + strings.TrimSuffix(": "+f.NoHosts, ": "), ""}
	case tried[tryNet].Worked && o.Worked && o.Text == "":
		return Finding{"network", Yes, "off, on, or a list of hosts", ""}
	case tried[tryNet].Worked && o.Worked:
		return Finding{"network", Part, "off, on, or a list of hosts; golem sees only connections to the ports of the list, because nftables is missing (" + o.Text + ")",
			"load the kernel modules nf_tables and nft_chain_nat: modprobe nft_chain_nat, as root"}
	case tried[tryNet].Worked:
		return Finding{"network", Part, "off, on; no list of hosts: " + o.Text, ""}
	}
	return Finding{"network", No, "golem cannot keep a command off the network", ""}
}

// noSocketsBare is the reason why commands have no Unix sockets at the level landlock.
const noSocketsBare = "at the level landlock a command could connect to sockets of other programs"

func foundSockets(f facts, tried map[string]attempt) Finding {
	if _, lacks := missing(tried, forNamespaces()); lacks {
		return Finding{"sockets", No, "no Unix sockets: " + noSocketsBare, ""}
	}
	if f.NoSockets != "" {
		return Finding{"sockets", No, "no Unix sockets: " + f.NoSockets, ""}
	}
	return Finding{"sockets", Yes, "commands have Unix sockets of their own, and reach none of other programs; not in a session that writes your directories directly", ""}
}

// foundGPU returns whether commands can use the GPU, if the machine has one.
func foundGPU(f facts, best Level) []Finding {
	counted := slices.ContainsFunc(f.Held, func(h Held) bool { return h.Limit == MemoryLimit && h.Full })
	switch {
	case len(f.GPU) == 0:
		return nil
	case f.NoGPU[0] != "":
		return []Finding{{"gpu", No, f.NoGPU[0], f.NoGPU[1]}}
	case best < Namespaces:
		return []Finding{{"gpu", No, "it needs the level namespaces", ""}}
	case !counted:
		return []Finding{{"gpu", No, "it needs a control group around the memory of commands: see limits above", ""}}
	}
	return []Finding{{"gpu", Yes, "golem exec --gpu shows a command /dev/" + strings.Join(f.GPU, ", /dev/") + ", which lead to the driver in your kernel", ""}}
}

// promises returns what holds for a command at a level.
func promises(level Level, limits, layers Finding) []Finding {
	list := []Finding{
		{"files", Yes, "sees only the directories it is given and a fixed list of system directories", ""},
		{"own", Yes, "has a /tmp, /run, /dev and /proc of its own", ""},
		{"places", Yes, "sees no host path, and opens no named pipe of the host", ""},
		{"processes", Yes, "sees, reads and signals only its own processes", ""},
		{"privilege", Yes, "has no privilege, and no way to get one", ""},
		{"calls", Yes, "cannot make system calls that affect more than its files and processes", ""},
		{"descriptors", Yes, "has no open file descriptors except its input and output", ""},
		{"environment", Yes, "gets only the environment variables on a fixed list, and none of your tokens", ""},
		{"network", Yes, "has no network, unless you allow it", ""},
		{"limits", limits.Holds, "stays within its limits", ""},
		{"end", Yes, "ends with the call, and so does every process that it started", ""},
	}
	if limits.Holds == Part {
		list[9].Why += ": see limits above"
	}
	if layers.Holds != Yes {
		list[2].Holds, list[2].Why = Part, list[2].Why+"; it can open named pipes in directories that it may write"
	}
	if level == Namespaces {
		return list
	}
	for i := range list {
		p := &list[i]
		if level == None {
			p.Holds = No
			continue
		}
		switch p.Name {
		case "files":
			p.Holds, p.Why = Part, "opens only the directories it is given and a fixed list of system directories; it can see the names and sizes of other files"
		case "own":
			p.Holds, p.Why = Part, "has a temporary directory of its own, on your disk; of /dev a few harmless devices, of /proc nothing"
		case "places":
			p.Holds, p.Why = No, "sees no host path: it works at the real paths of its directories; /proc and /sys are closed, so it learns of no others there"
		case "processes":
			p.Holds, p.Why = Part, "signals only its own processes; it can see that there are others"
		}
	}
	return list
}

// AppArmor returns the profile that lets a program use user namespaces on a machine where
// AppArmor keeps programs without a profile from it. The profile confines nothing: golem
// itself confines the commands that it runs.
func AppArmor(program sandbox.Host) string {
	var name strings.Builder
	for _, b := range []byte(program) {
		switch {
		case b < ' ' || b == 0x7f:
			fmt.Fprintf(&name, `\%03o`, b)
		case strings.IndexByte(`"\*?[]{}^@,`, b) >= 0:
			name.WriteByte('\\')
			fallthrough
		default:
			name.WriteByte(b)
		}
	}
	return fmt.Sprintf(`# Lets golem make user namespaces, in which it confines commands.
# /etc/apparmor.d/golem; then: sudo apparmor_parser -r /etc/apparmor.d/golem
abi <abi/4.0>,
include <tunables/global>

profile golem "%s" flags=(unconfined) {
  userns,

  include if exists <local/golem>
}
`, name.String())
}
