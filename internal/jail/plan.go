package jail

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// A plan describes the tree that a cell builds for its commands, step by step. compile
// makes it from a Policy without looking at the machine, and the cell carries it out.
type plan struct {
	Steps  []step
	Stores []string // stores for the changes of the first command, one for each directory that it may write

	Terminal   bool // the cell is for one command, and opens a terminal for it
	Apart      bool // the cell has its own network namespace, because its holder has the host's
	Counted    bool // a control group counts the memory of commands
	Online     bool // commands have the host's network
	Direct     bool // commands do not write to overlays
	Layered    bool // commands write to overlays, where the kernel moves no directory that is below
	Supervised bool // golem makes the sockets of commands, at the level landlock
	Shared     bool // commands of other workers may write the same directories at the same time

	Runsc     string // the file of the host that runs commands at the level container, "" at other levels
	Networked bool   // at the level container, commands have the network of the cell

	NoSockets string // why commands have no Unix sockets, "" if the cell may allow them
}

// A step makes one thing. Target is a path in the new tree.
type step struct {
	Do     stepKind
	Target string
	Source string // a path of the host, or the content of a symlink or file
	Size   int64
	Write  bool
	Maybe  bool // skipped if the host lacks it
	Each   bool // repeated for every command
	Own    bool // golem made the directory, so no other program has a socket in it
	Top    held // as in Mount
	Files  []File
	Names  []string // names in /etc, or devices in addition to the usual ones
}

// A held is a directory with its device and inode numbers, in the form for a wire.
type held struct {
	Folder string
	Number [2]uint64
}

func heldOf(p sandbox.Place) held {
	return held{string(p.Host), [2]uint64{p.Device, p.Inode}}
}

// A stepKind is a kind of step.
type stepKind string

// The kinds of steps.
const (
	newDir      stepKind = "folder"   // an empty directory
	file        stepKind = "file"     // a file with the content Source
	cover       stepKind = "cover"    // the file Source of the tree in place of another one, if that exists
	link        stepKind = "link"     // a symlink to Source
	bind        stepKind = "bind"     // a directory or file of the host
	overlayBind stepKind = "layer"    // a directory of the host, through an overlay that hides its path
	empty       stepKind = "empty"    // an empty directory that covers the existing one
	memory      stepKind = "memory"   // an empty file system in memory with Size bytes
	private     stepKind = "private"  // a directory in memory with Files, new for each command
	second      stepKind = "second"   // the directory Source of the tree, with all mounts inside it
	replaced    stepKind = "replaced" // a file with other content, if the file exists
	devices     stepKind = "devices"  // a few harmless devices; Source says whether commands have terminals
	device      stepKind = "device"   // a device of the host, at the level landlock
	etcParts    stepKind = "etc"      // Names of the host's /etc
	process     stepKind = "process"  // /proc with only the processes of the cell; Write is for their files
	sameLink    stepKind = "samelink" // a symlink if the host has one there, otherwise the directory of the host
)

// The values of Source for devices with terminals.
const (
	ownTerminals = "terminals" // terminals that commands open
	ownTerminal  = "terminal"  // also /dev/tty, for the controlling terminal of a command
)

// attached returns the plan of a cell for one command with a terminal.
func (p plan) attached() plan {
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		if p.Steps[i].Do == devices {
			p.Steps[i].Source = ownTerminal
		}
	}
	p.Terminal = true
	return p
}

// system returns the steps for the parts of the host that every command sees: programs
// and the files that they need to start. It shows no file of /etc that is secret or
// identifies the user.
func system(etc []string) []step {
	steps := []step{
		{Do: bind, Target: "/usr", Source: "/usr"},
	}
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		steps = append(steps, step{Do: sameLink, Target: name, Source: name, Maybe: true})
	}
	steps = append(steps,
		step{Do: etcParts, Target: "/etc", Names: append(etcNames(), etc...)},
		step{Do: file, Target: "/etc/passwd", Source: passwdFile},
		step{Do: file, Target: "/etc/group", Source: groupFile},
		step{Do: file, Target: "/etc/nsswitch.conf", Source: nsswitch},
		step{Do: file, Target: "/etc/hosts", Source: hosts},
		step{Do: file, Target: "/etc/hostname", Source: "golem\n"},
	)
	return append(steps, step{Do: sameLink, Target: "/etc/localtime", Source: "/etc/localtime", Maybe: true})
}

const (
	passwdFile = "root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
	groupFile  = "root:x:0:\nnogroup:x:65534:\n"
	nsswitch   = "passwd: files\ngroup: files\nhosts: files dns\n"
	hosts      = "127.0.0.1 localhost golem\n::1 localhost golem\n"
)

// procNames returns the names in /proc that commands see besides their processes.
func procNames() []string {
	return []string{"cgroups", "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "sysvipc", "uptime", "version", "vmstat"}
}

// compile returns the plan of a policy for commands of a user.
func compile(p Policy, uid, gid int) plan {
	if p.Home != "" {
		p.Mounts = append(slices.Clip(p.Mounts), Mount{Source: p.Home, Target: Home, Write: true, Kept: true})
	}
	steps := system(p.Etc)
	for i := range steps {
		switch steps[i].Target {
		case "/etc/passwd":
			if uid != 0 {
				// This line comes first, because the user may have the ID of nobody,
				// which has no shell.
				steps[i].Source = fmt.Sprintf("user:x:%d:%d:user:/tmp:/bin/sh\n", uid, gid) + steps[i].Source
			}
			if p.Home != "" {
				steps[i].Source = strings.ReplaceAll(steps[i].Source, ":/tmp:", ":"+Home+":")
			}
		case "/etc/group":
			if gid != 0 {
				steps[i].Source = fmt.Sprintf("user:x:%d:\n", gid) + steps[i].Source
			}
		}
	}
	switch {
	case p.Network:
		steps = append(steps, step{Do: bind, Target: "/etc/resolv.conf", Source: "/etc/resolv.conf", Maybe: true})
	case p.Egress != nil:
		steps = append(steps, step{Do: file, Target: "/etc/resolv.conf", Source: resolvConf})
		steps = append(steps, p.Egress.certificateSteps()...)
	}
	var terminals string
	if p.Terminals {
		terminals = ownTerminals
	}
	steps = append(steps,
		step{Do: memory, Target: "/tmp", Size: p.Limits.filled().Temp},
		step{Do: link, Target: "/var/tmp", Source: "../tmp"},
		step{Do: memory, Target: "/run", Size: 16 << 20},
		step{Do: newDir, Target: "/run/lock"},
		step{Do: newDir, Target: "/run/mysqld"}, // servers on Debian put their sockets here
		step{Do: newDir, Target: "/run/postgresql"},
		step{Do: link, Target: "/var/run", Source: "../run"},
		step{Do: devices, Target: "/dev", Source: terminals, Names: p.gpu},
		step{Do: process, Target: "/proc", Write: p.GPU},
		step{Do: newDir, Target: Work},
	)
	for i, m := range p.Mounts { // sorted: a directory comes before its content
		do := overlayBind
		switch {
		case m.Source == "":
			do = empty
		case m.Kept, m.Write && p.Recorder == nil:
			do = bind
		}
		steps = append(steps, between(p, p.Mounts[:i], m.Target)...)
		steps = append(steps, step{Do: do, Target: m.Target, Source: string(m.Source), Write: m.Write, Each: true, Own: m.Kept || m.Copy, Top: heldOf(m.Top)})
	}
	for _, d := range p.Private {
		steps = append(steps, step{Do: private, Target: d.Target, Files: d.Files, Size: p.Limits.filled().Temp, Write: true, Each: true})
		for _, m := range d.Keeps {
			steps = append(steps, step{Do: bind, Target: m.Target, Source: string(m.Source), Write: m.Write, Each: true, Own: true})
		}
	}
	for _, f := range p.Replaced {
		steps = append(steps, step{Do: replaced, Target: f.Name, Source: string(f.Data), Each: true})
	}
	if p.Second != "" {
		steps = append(steps, step{Do: second, Target: p.Second, Source: p.SecondOf, Each: true})
	}
	return plan{Steps: steps, Online: p.Network}
}

// certificateSteps returns the steps that show the certificates of an egress.
func (e *Egress) certificateSteps() []step {
	if e.Certificates == nil {
		return nil
	}
	steps := []step{{Do: file, Target: certificateFile, Source: string(e.Certificates)}}
	if e.Authority.Name != "" {
		steps = append(steps, step{Do: file, Target: certificateDir + "/" + e.Authority.Name, Source: string(e.Authority.Data)})
	}
	for _, name := range SystemCertificates() {
		steps = append(steps, step{Do: cover, Target: name, Source: certificateFile, Maybe: true})
	}
	if e.JavaStore == nil {
		return steps
	}
	stores := javaStores()
	if len(stores) == 0 {
		return steps
	}
	data := e.JavaStore()
	if data == nil {
		return steps
	}
	steps = append(steps, step{Do: file, Target: javaFile, Source: string(data)})
	for _, name := range stores {
		steps = append(steps, step{Do: cover, Target: name, Source: javaFile, Maybe: true})
	}
	return steps
}

// between returns mounts for the directories between a target and the mount that contains
// it, if that mount may be written. A mount cannot be moved. If such a directory were not
// a mount, a command could move it, and what is hidden or read-only in it would have a
// name where it is not. With an overlay for each command this is not needed: the kernel
// moves no directory that existed before the command, and the cell moves none with a mount
// in it.
func between(p Policy, before []Mount, target string) []step {
	var steps []step
	var in Mount
	for _, m := range before {
		if strings.HasPrefix(target, m.Target+"/") && len(m.Target) > len(in.Target) {
			in = m
		}
	}
	for _, dir := range above(target) {
		rel, ok := strings.CutPrefix(dir, in.Target+"/")
		done := slices.ContainsFunc(before, func(m Mount) bool { return strings.HasPrefix(m.Target, dir+"/") })
		if in.Write && ok && !done && (p.Recorder == nil || in.Kept) {
			steps = append(steps, step{Do: bind, Target: dir, Source: path.Join(string(in.Source), rel), Write: true, Maybe: true, Each: true, Own: in.Kept || in.Copy, Top: heldOf(in.Top)})
		}
	}
	return steps
}

// above returns the directories above a name, the topmost first.
func above(name string) []string {
	var list []string
	for dir := path.Dir(name); dir != "/" && dir != "."; dir = path.Dir(dir) {
		list = append([]string{dir}, list...)
	}
	return list
}

// Path is the search path of commands for programs.
const Path = "/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin"

// commandEnvironment returns the environment variables of a command with more of its own.
func commandEnvironment(p Policy, more []string) []string {
	env := append(environment(p), more...)
	if p.Egress != nil && p.Egress.Environment != nil {
		env = p.Egress.Environment(env)
	}
	return env
}

// environment returns the environment variables of a command: some that all commands
// have, and those of the policy.
func environment(p Policy) []string {
	env := []string{"PATH=" + Path, "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8",
		"TERM=dumb", "GIT_OPTIONAL_LOCKS=0", "GIT_CONFIG_NOSYSTEM=1", "GOLEM_JAIL=1"}
	if p.Home != "" {
		env = append(env, "HOME="+Home)
	}
	if p.Egress != nil && p.Egress.Certificates != nil {
		for _, name := range CertificateVariables() {
			at := certificateFile
			if name == certificateDirVariable {
				at = certificateDir
			}
			env = append(env, name+"="+at)
		}
	}
	for _, e := range p.Env {
		if name, _, ok := strings.Cut(e, "="); ok && name != "" {
			env = append(env, e)
		}
	}
	return env
}
