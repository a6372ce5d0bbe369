package jail

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// A plan is the tree that a cell makes for its commands, step by step. It is
// data: made from a Policy without a look at the machine, and carried out in the
// cell. Host is where the cell sees the host's tree while it works.
type plan struct {
	Steps  []step
	Stores []string // where the first command's changes are kept, of each folder that may be written

	Terminal bool // the cell is for one command, at a terminal that it opens
	Apart    bool // the cell has a network of its own: that of its holder is the host's
	Counted  bool // a control group counts the memory of commands
	Online   bool // commands have the host's network
	Direct   bool // nothing is written to layers of its commands
	Shared   bool // commands of other workers may write the same directories at the same time

	NoSockets string // why commands have no Unix sockets whatever the cell finds, "" if they may
}

// A step makes one thing. Names are those in the new tree.
type step struct {
	Do     deed
	Target string
	Source string // a path of the host, or what a link or file says
	Size   int64
	Write  bool
	Maybe  bool // the host may lack it
	Each   bool // it is made anew for every command
	Own    bool // golem made the directory: no other program has a socket in it
	Top    held // as a Mount has it
	Files  []File
	Names  []string // of /etc
}

// A held is a folder with the kernel's numbers of it, as it goes over a wire.
type held struct {
	Folder string
	Number [2]uint64
}

func heldOf(p sandbox.Place) held {
	return held{string(p.Host), [2]uint64{p.Device, p.Inode}}
}

// deed is a kind of step.
type deed string

// The deeds.
const (
	folder   deed = "folder"   // an empty folder
	file     deed = "file"     // a file with this content
	link     deed = "link"     // a symbolic link that says this
	bind     deed = "bind"     // a folder or file of the host
	veiled   deed = "layer"    // a folder of the host, through an overlay that hides where it is
	empty    deed = "empty"    // a folder with nothing in it, whatever is there
	memory   deed = "memory"   // an empty file system of so many bytes
	private  deed = "private"  // a directory in memory with files, for one command
	replaced deed = "replaced" // a file with another content, if there is one
	devices  deed = "devices"  // a few harmless ones; Source says whether with terminals
	device   deed = "device"   // one of the host, where there is no tree
	etcParts deed = "etc"      // these names of the host's /etc
	process  deed = "process"  // what the kernel tells of the cell's own processes
	sameLink deed = "samelink" // a link if the host has one there, otherwise the folder bound
)

// What devices have of terminals besides none.
const (
	ownTerminals = "terminals" // those that commands open
	ownTerminal  = "terminal"  // and /dev/tty, for the one that a command belongs to
)

// attached returns the plan of a cell for one command at a terminal.
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

// system is what every command sees of the host: programs and what they need to
// start, and of /etc nothing that is secret or says who uses the machine.
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

// shown are the parts of /proc besides those of processes that commands see.
func shown() []string {
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
				// First, because the user may have the number of nobody, who has no shell.
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
	if p.Network {
		steps = append(steps, step{Do: bind, Target: "/etc/resolv.conf", Source: "/etc/resolv.conf", Maybe: true})
	}
	var terminals string
	if p.Terminals {
		terminals = ownTerminals
	}
	steps = append(steps,
		step{Do: memory, Target: "/tmp", Size: p.Limits.filled().Temp},
		step{Do: link, Target: "/var/tmp", Source: "../tmp"},
		step{Do: memory, Target: "/run", Size: 16 << 20},
		step{Do: folder, Target: "/run/lock"},
		step{Do: folder, Target: "/run/mysqld"}, // where Debian's servers have their sockets
		step{Do: folder, Target: "/run/postgresql"},
		step{Do: link, Target: "/var/run", Source: "../run"},
		step{Do: devices, Target: "/dev", Source: terminals},
		step{Do: process, Target: "/proc"},
		step{Do: folder, Target: Work},
	)
	for i, m := range p.Mounts { // ordered: a folder comes before what is in it
		do := veiled
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
	return plan{Steps: steps, Online: p.Network}
}

// between returns the folders between a target and the mount that it stands in, if
// that may be written, as mounts of their own. What is a mount cannot be moved:
// a folder that is none would carry what is hidden or read-only in it to a name
// where it is not. Through the layer of one command no folder can be moved that was
// there before it.
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

// above returns the folders above a name, the topmost first.
func above(name string) []string {
	var list []string
	for dir := path.Dir(name); dir != "/" && dir != "."; dir = path.Dir(dir) {
		list = append([]string{dir}, list...)
	}
	return list
}

// Path is where commands look for programs.
const Path = "/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin"

// environment returns the variables that a command has: a few that all have, and
// those of the policy.
func environment(p Policy) []string {
	env := []string{"PATH=" + Path, "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8",
		"TERM=dumb", "GIT_OPTIONAL_LOCKS=0", "GIT_CONFIG_NOSYSTEM=1", "GOLEM_JAIL=1"}
	if p.Home != "" {
		env = append(env, "HOME="+Home)
	}
	for _, e := range p.Env {
		if name, _, ok := strings.Cut(e, "="); ok && name != "" {
			env = append(env, e)
		}
	}
	return env
}
