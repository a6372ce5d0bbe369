package jail

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Unix sockets of commands. The kernel finds the listener of a path by the inode of the
// socket, and an overlay has its own inodes. Through an overlay a command cannot connect
// to any socket of the host, but sockets that commands make in it work. Abstract names
// belong to a network namespace, and commands have their own. So commands have Unix
// sockets if every directory of the host is shown through an overlay. Otherwise they have
// none, and exposed says why.

// socketRight lets commands make sockets in a directory.
const socketRight = unix.LANDLOCK_ACCESS_FS_MAKE_SOCK

// noUnixSockets returns the filter for commands that could connect to a socket of the
// host. Each end of a pair of datagram sockets can send to any name.
func noUnixSockets() []unix.SockFilter {
	var b filterBuilder
	b.load(atCall)
	b.call(unix.SYS_SOCKET, func() {
		b.load(atArgs)
		b.when(unix.AF_UNIX, deny|uint32(unix.EAFNOSUPPORT))
	})
	b.call(unix.SYS_SOCKETPAIR, b.onlyStreamPairs)
	b.always(allow)
	return b.program
}

// onlyStreamPairs allows only those socket pairs whose ends reach nothing but each other.
func (b *filterBuilder) onlyStreamPairs() {
	b.load(atArgs)
	b.unless(unix.AF_UNIX, deny|uint32(unix.EAFNOSUPPORT))
	b.load(atArgs + 8)
	b.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, 0xf) // without its flags
	b.when(unix.SOCK_STREAM, allow)
	b.when(unix.SOCK_SEQPACKET, allow)
	b.always(deny | uint32(unix.ESOCKTNOSUPPORT))
}

// exposed returns which directory of a plan commands reach without an overlay, and why;
// "" for none.
func (p plan) exposed() string {
	for _, s := range p.Steps {
		if s.Each && s.Do == bind && !s.Own {
			return writtenDirectly(s.Target)
		}
	}
	if p.Shared && landlockVersion() == 0 {
		return "other workers write the same directories, and only Landlock, which this kernel lacks, keeps their sockets apart"
	}
	return p.NoSockets
}

func writtenDirectly(target string) string {
	return target + " is your own directory, not an overlay, and may hold sockets of other programs"
}

func notOverlaid(target string, err error) string {
	return fmt.Sprintf("%s cannot be shown through an overlay (%v) and may hold sockets of other programs", target, err)
}

// A systemView shows files and directories of the system to commands, read-only.
type systemView struct {
	etc     int    // the host's /etc through an overlay; 0 before the first use, -1 if there is none
	exposed string // which directory is shown without an overlay, and why
}

// show mounts a file or directory of the host in the new tree. It reports whether that is
// a directory of the overlay of /etc.
func (v *systemView) show(source, target string) (overlaid bool, err error) {
	fd, overlaid, err := v.open(source)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	at := newRoot + target
	directory := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case directory:
		err = ignoreExists(os.Mkdir(at, 0o755))
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		err = writeNew(at, nil, 0o644)
	default:
		return false, unix.ENOENT // commands get no socket, pipe or device of the host
	}
	if err != nil {
		return false, err
	}
	made := -1
	if directory && !overlaid {
		made, err = mountLower(fd)
		if err == unix.EINVAL {
			if parts, few := entriesOf(fd); few {
				return false, v.showParts(source, target, parts)
			}
		}
		if err != nil && v.exposed == "" {
			v.exposed = notOverlaid(target, err)
		}
	}
	switch {
	case overlaid: // the overlay is read-only already
		made, err = unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	case made < 0:
		made, err = clone(fd, false)
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(made)
	return overlaid, move(made, at)
}

// showParts shows the entries of a directory one by one. If something is mounted in a
// directory, an ordinary user cannot have an overlay of it, but can have overlays of its
// other parts.
func (v *systemView) showParts(source, target string, parts []fs.DirEntry) error {
	for _, e := range parts {
		from, to := path.Join(source, e.Name()), path.Join(target, e.Name())
		if e.Type() == fs.ModeSymlink {
			link, err := os.Readlink(oldRoot + from)
			if err == nil {
				err = os.Symlink(link, newRoot+to)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if _, err := v.show(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// entriesOf returns the entries of a directory, and whether they are few enough to mount
// each of them.
func entriesOf(dir int) ([]fs.DirEntry, bool) {
	const most = 100
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	list, err := f.ReadDir(most + 1)
	return list, (err == nil || err == io.EOF) && len(list) <= most
}

// open opens a file or directory of the host, and reports whether it is in the overlay of
// /etc. One overlay serves all directories of /etc.
func (v *systemView) open(source string) (fd int, overlaid bool, err error) {
	if rel, ok := strings.CutPrefix(source, "/etc/"); ok {
		if v.hasEtc() {
			fd, err = openat2(v.etc, rel, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | noLinks})
			if err == nil {
				return fd, true, nil
			}
		}
	}
	root, err := unix.Open(oldRoot, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false, err
	}
	defer unix.Close(root)
	// A symlink is resolved as on the host.
	fd, err = openat2(root, source[1:], &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	return fd, false, err
}

// hasEtc reports whether there is an overlay of /etc, and mounts it on the first call.
func (v *systemView) hasEtc() bool {
	if v.etc == 0 {
		v.etc = overlayEtc()
	}
	return v.etc > 0
}

// overlayEtc mounts an overlay of the host's /etc outside the new tree and opens it. It
// returns -1 if that fails: each directory of /etc then needs its own overlay.
func overlayEtc() int {
	const at = "/etc"
	host, err := unix.Open(oldRoot+"/etc", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	defer unix.Close(host)
	made, err := mountLower(host)
	if err != nil {
		return -1
	}
	defer unix.Close(made)
	if err := ignoreExists(os.Mkdir(at, 0o755)); err != nil {
		return -1
	}
	if _, err := put(made, at); err != nil {
		return -1
	}
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// close closes the overlay of /etc.
func (v *systemView) close() {
	if v.etc > 0 {
		unix.Close(v.etc)
	}
}
