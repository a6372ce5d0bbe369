package jail

import (
	"fmt"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A Level is a boundary around commands, the weaker the lower.
type Level uint8

// The levels.
const (
	None       Level = iota // no boundary
	Landlock                // a process that can open only what is shown
	Namespaces              // a tree, processes and a network of its own
)

// String returns the word that configuration has for it.
func (l Level) String() string {
	switch l {
	case None:
		return "none"
	case Landlock:
		return "landlock"
	case Namespaces:
		return "namespaces"
	}
	return "invalid"
}

// A Policy is all that commands of a session may see and do. The zero Policy
// shows no folder and reaches no network.
type Policy struct {
	Mounts  []Mount
	Env     []string // NAME=value; the only ones besides those that every command has
	Network bool     // the host's network; otherwise none but its own loopback
	Limits  Limits
	Least   Level // a weaker boundary is an error

	// Etc are names in /etc that commands see besides those that all do. Of files that not
	// everybody may read they see none.
	Etc []string

	// Home is a folder of the host that commands have for a home and write directly; ""
	// is their /tmp.
	Home sandbox.Host

	// Private are directories of the home that are in memory only. Every command has its
	// own, with these files in it, and it is gone when the command ends.
	Private []Private

	// Replaced are files of mounts that commands see with another content, by the names
	// that commands have for them. They can be neither written nor removed. One that is not
	// there stays missing. At the level landlock files are as they are.
	Replaced []File

	// Terminals lets commands open terminals of their own, as programs do that show
	// others in a window or record them. A command that is attached to one always may.
	// At the level landlock none can.
	Terminals bool

	// Recorder makes the overlays that commands write to, one for each command and
	// directory. At the level landlock, and if it is nil, commands write the directories of
	// the host.
	Recorder Recorder

	// Loopback names the network of commands that reach no other: sessions with the same
	// Overlays share it if they name the same. "" is one for all of them.
	Loopback string

	// Sole says that nobody else runs commands in Overlays. Otherwise commands make no Unix
	// socket there: those of another worker could hand them open files.
	Sole bool

	// Overlays are the directories that a session works in: those of mounts with Kept set.
	Overlays Overlays
}

// A Mount is a folder of the host that commands see.
type Mount struct {
	Source sandbox.Host // "" for an empty folder
	Target string       // as commands name it
	Write  bool
	Kept   bool // it is of a layer or copy that the session keeps, and Source where that is seen
	Copy   bool // golem made Source for the command

	// Top is the folder that Source is, or lies in, and that file tools hold open, with
	// the kernel's numbers of it. Where another one has its name the mount is an error.
	Top sandbox.Place
}

// A Private is a directory of the home for what must not be kept, such as credentials.
// A command may change it; nothing of that is kept.
type Private struct {
	Target string // as commands name it
	Files  []File
	Keeps  []Mount // directories of the host in it that are kept
}

// A File is one that a command finds in a private directory, or in place of another.
type File struct {
	Name string // in the directory
	Data []byte
}

// maxPrivate is how many bytes the files of private directories have in all.
const maxPrivate = 512 << 10

// checkPrivate returns an error if private directories hold too much.
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

// Limits bound a command. Zero is the default of the field.
type Limits struct {
	Time      time.Duration // 2 minutes
	CPU       time.Duration // as Time
	Memory    int64         // bytes; 2 GiB, and at least 16 MiB, for hardly a program runs with less
	Processes int64         // 512
	Files     int64         // open ones of a process; 1024
	FileSize  int64         // bytes of one; 1 GiB
	Output    int64         // bytes that are kept of each stream; 50 KB
	Temp      int64         // bytes of /tmp; 512 MiB, and at most half of Memory
}

// filled returns the limits with defaults in place of zeros.
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
	l.Temp = min(l.Temp, l.Memory/2) // it is memory
	return l
}

// Where things stand for commands.
const (
	Work  = "/work"       // the mount at /; commands begin there
	Home  = "/home/golem" // a home that they are given
	Tools = "/opt/golem"  // programs that are none of the system's
	Git   = "/run/git"    // the git directories of work trees whose own is not in a mount
)
