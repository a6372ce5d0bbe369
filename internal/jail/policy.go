package jail

import (
	"fmt"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A Level is how strongly golem confines commands. A higher level is stronger.
type Level uint8

// The levels.
const (
	None       Level = iota // not confined
	Landlock                // a process of the host that can open only what the policy shows
	Namespaces              // its own tree, processes and network
	Container               // also its own kernel, gVisor's; only where a policy asks for it
)

// String returns the name of the level in the configuration.
func (l Level) String() string {
	switch l {
	case None:
		return "none"
	case Landlock:
		return "landlock"
	case Namespaces:
		return "namespaces"
	case Container:
		return "container"
	}
	return "invalid"
}

// ParseLevel returns the level with a name in the configuration, and None for "" and "any". For
// an unknown name it returns Container, the strongest level, and an error.
func ParseLevel(name string) (Level, error) {
	if name == "" || name == "any" {
		return None, nil
	}
	for l := Landlock; l <= Container; l++ {
		if l.String() == name {
			return l, nil
		}
	}
	return Container, &sandbox.Error{Op: "jail", Code: ErrNoSandbox, Hint: "golem ran no command: require_os_sandbox or --jail requires the level " + name + ", which this version does not have; run golem doctor to see the levels of this machine"}
}

// A Policy says what commands of a jail may see and do. The zero Policy shows no
// directory and allows no network.
type Policy struct {
	Mounts  []Mount
	Env     []string // NAME=value, in addition to the variables that every command has
	Network bool     // commands use the host's network; otherwise only their own loopback
	Egress  *Egress  // without Network, commands have a network that leads to golem; nil for none
	Limits  Limits
	Least   Level // Start returns an error if it cannot provide this level

	// Strongest means the level container if there is a runsc, for content from strangers.
	Strongest bool

	// Runsc is the file that runs commands at the level container. If it is "", golem
	// looks in the usual directories for programs.
	Runsc sandbox.Host

	// Etc are names in /etc that commands see in addition to the default ones. They do
	// not see files that are not readable for everybody.
	Etc []string

	// Home is a directory of the host that commands use as their home and write directly.
	// If it is "", their home is /tmp.
	Home sandbox.Host

	// Private are directories in the home that exist only in memory. Every command gets
	// its own copy with these files, and it is removed when the command ends.
	Private []Private

	// Replaced are files in mounts that commands see with other content, by the names
	// that commands use. Commands can neither write nor remove them. A file that does not
	// exist stays missing. The level landlock does not replace files.
	Replaced []File

	// Second is a second path for the directory that commands see at SecondOf, "" for none.
	// What is mounted inside the directory is there too, with the same access. The level
	// landlock has no second paths.
	Second, SecondOf string

	// Terminals lets commands open their own terminals, as terminal multiplexers and
	// recorders do. A command that is attached to a terminal always may. At the level
	// landlock no command may.
	Terminals bool

	// GPU shows commands the devices that [GPU] names. The level container shows none.
	GPU bool
	gpu []string // the devices, once the jail starts

	// Recorder makes the overlays that commands write to, one for each command and
	// directory. At the level landlock, and if it is nil, commands write the directories
	// of the host.
	Recorder Recorder

	// Loopback names the network of commands without the host's network. Jails with
	// the same Overlays share it if the names are the same. All jails with "" share
	// one.
	Loopback string

	// Sole says that only this jail runs commands in Overlays. If it is false,
	// commands cannot make Unix sockets there, because another worker's commands could
	// use them to pass open files.
	Sole bool

	// Overlays are the directories of a session: those of mounts with Kept set.
	Overlays Overlays
}

// A Mount is a directory of the host that commands see.
type Mount struct {
	Source sandbox.Host // "" for an empty directory
	Target string       // the path for commands
	Write  bool
	Kept   bool // it belongs to an overlay or copy of the session, and Source is where that is visible
	Copy   bool // golem made Source for the command

	// Top is the directory that is Source or contains it and that file tools hold open,
	// with its device and inode numbers. If another directory has its name now, the mount
	// is an error.
	Top sandbox.Place
}

// checkSecond returns an error if commands cannot see a directory at a path too, because they
// have other directories there.
func checkSecond(target string) error {
	own := []string{Work, Home, Tools, "/var/tmp", "/var/run"}
	for _, name := range []string{"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr"} {
		own = append(own, "/"+name)
	}
	for _, name := range own {
		if isAtOrBelow(target, name) || isAtOrBelow(name, target) {
			return &sandbox.Error{Op: "mount", Path: target, Code: sandbox.ErrInvalid, Hint: "commands have " + name + " of their own, so they cannot see a directory of yours at this path; move or copy the project to another directory"}
		}
	}
	if target == "/tmp" {
		return &sandbox.Error{Op: "mount", Path: target, Code: sandbox.ErrInvalid, Hint: "commands have /tmp of their own; move the project to a directory in it"}
	}
	return nil
}

// isAtOrBelow reports whether a path is top or below it.
func isAtOrBelow(name, top string) bool {
	return name == top || strings.HasPrefix(name, strings.TrimSuffix(top, "/")+"/")
}

// A Private is a directory of the home for files that must not be kept, such as
// credentials. A command may change it, but golem keeps no changes.
type Private struct {
	Target string // the path for commands
	Files  []File
	Keeps  []Mount // directories of the host inside it whose changes stay
}

// A File is a file in a private directory, or one that replaces another.
type File struct {
	Name string // path in the directory; for Replaced, the path for commands
	Data []byte
}

// maxPrivate is the most bytes that the files of all private directories may have.
const maxPrivate = 512 << 10

// checkPrivate returns an error if the files of private directories are too large.
func checkPrivate(list []Private) error {
	size := 0
	for _, p := range list {
		for _, f := range p.Files {
			size += len(f.Data)
		}
	}
	if size > maxPrivate {
		return &sandbox.Error{Op: "jail", Path: Home, Code: sandbox.ErrTooLarge, Hint: fmt.Sprintf("the credentials and settings of the program have %d bytes, and golem keeps at most %d in memory; make its settings smaller", size, maxPrivate)}
	}
	return nil
}

// Limits are the limits of a command. A zero field means the default.
type Limits struct {
	Time      time.Duration // default: 2 minutes
	CPU       time.Duration // default: Time
	Memory    int64         // bytes; default 2 GiB, at least 16 MiB, because hardly any program runs with less
	Processes int64         // default: 512
	Files     int64         // open files of a process; default 1024
	FileSize  int64         // bytes of one file; default 1 GiB
	Disk      int64         // bytes of the changes of a session; the caller of the jail watches it, 0 if it has a default
	Output    int64         // bytes that golem keeps of each stream; default 50 KB
	Temp      int64         // bytes of /tmp; default 512 MiB, at most half of Memory
}

// DefaultLimits returns the limits of a command that has none of its own.
func DefaultLimits() Limits { return Limits{}.filled() }

// filled returns the limits with defaults for zero fields.
func (l Limits) filled() Limits {
	or := func(v *int64, other int64) {
		if *v <= 0 {
			*v = other
		}
	}
	if l.Time <= 0 {
		l.Time = 2 * time.Minute
	}
	if l.CPU <= 0 {
		l.CPU = l.Time
	}
	or(&l.Memory, 2<<30)
	l.Memory = max(l.Memory, 16<<20)
	or(&l.Processes, 512)
	or(&l.Files, 1024)
	or(&l.FileSize, 1<<30)
	or(&l.Output, 50_000)
	or(&l.Temp, 512<<20)
	l.Temp = min(l.Temp, l.Memory/2) // /tmp is in memory
	return l
}

// Paths for commands.
const (
	Work  = "/work"       // the mount at /; commands start here
	Home  = "/home/golem" // Policy.Home
	Tools = "/opt/golem"  // programs that do not belong to the system
	Git   = "/run/git"    // git directories of work trees that are outside the mounts
)
