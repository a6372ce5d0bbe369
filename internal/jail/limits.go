package jail

// A Limit names one field of Limits.
type Limit string

// The limits of a command.
const (
	TimeLimit      Limit = "time"
	CPULimit       Limit = "cpu"
	MemoryLimit    Limit = "memory"
	ProcessesLimit Limit = "processes"
	FilesLimit     Limit = "files"
	FileSizeLimit  Limit = "file size"
	DiskLimit      Limit = "disk"
	OutputLimit    Limit = "output"
	TempLimit      Limit = "temp"
)

// A Held describes how a jail enforces a limit.
type Held struct {
	Limit Limit
	Full  bool   // the limit holds for all processes of a command together
	How   string // what enforces it and, if Full is false, what it does not cover
}

// losses returns what a level lacks compared with Namespaces, one sentence for each.
func losses(l Level) []string {
	switch l {
	case Namespaces, Container:
		return nil
	case Landlock:
		return []string{
			"commands see the host's paths, the names, sizes, times and link targets of files that they cannot open, and the host's passwd and hostname",
			"commands share the host's process ids; they see that a process is there, not what it does",
			"nothing can be hidden inside a directory that commands see",
			"permission bits, owners and extended attributes cannot be changed, not even where files may be written: git init and clone, cp -p, install and gzip fail, and gcc makes programs that cannot be run",
			"there is no /dev/shm, no terminal of its own and no inotify, so programs that need those do not work",
			"commands can use a device in a directory that they see, if the user may use it",
			"commands can change the times of files that they may only read",
			"/proc cannot be read, so ps and its like do not work",
			"the temporary directory is on the host's disk, and its size is not limited",
			"without a network there is no loopback either; with it, all of the host's is reached, its loopback too",
			"commands can read pipes in directories that they see",
			"no overlays: a command writes directly to your directories",
		}
	}
	return []string{"there is no jail"}
}
