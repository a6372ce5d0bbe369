package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How commands rename directories of an overlay. The kernel renames a directory that the
// overlay only shows, or shows together with changes, if the overlay has redirects. An
// overlay of an ordinary user cannot have them, and the call fails with EXDEV. So the
// kernel asks the cell about every rename. The cell lets the kernel carry it out, unless a
// directory is renamed. Then the cell makes the call itself, and if it fails with EXDEV, a
// [transfer] moves the content.
//
// Two threads do this. One reads the names from the memory of the command and opens the
// directories that they start from. It changes nothing. The other has the tree, the user
// and the Landlock rules of commands, and no capability. It looks up the names again, so it
// changes nothing that the command could not change itself. The names are a copy, so the
// command cannot replace them after the check. A command that has restricted itself further
// with Landlock gets no help.

// maxWaiting is the number of directories that wait to be moved. A command that has more
// processes than that gets EXDEV for the others.
const maxWaiting = 1024

// A mover moves directories for commands.
type mover struct {
	listener int
	fence    fence
	queue    chan renaming
	stricter atomic.Bool // a process of the command has its own Landlock rules

	working    sync.Mutex // held while a directory is moved
	isConfined bool       // the second thread is confined
	text       [unix.PathMax]byte
}

// newMover answers requests for renames and sockets. Each of its threads calls enter
// first, to get the tree of commands.
func newMover(listener int, enter func() error, f fence) (*mover, error) {
	m := &mover{listener: listener, fence: f, queue: make(chan renaming, maxWaiting)}
	enter = func(enter func() error) func() error {
		return func() error { return errors.Join(blockSignals(), enter()) }
	}(enter)
	for _, work := range []func(){
		func() { answerRequests(listener, m.answer) },
		func() {
			for r := range m.queue {
				m.move(r)
			}
		},
	} {
		t, err := newThread(enter)
		if err != nil {
			return nil, err
		}
		t.work <- work
	}
	// The kernel wakes the first thread on the processor of the command, which waits for
	// it. Kernels before Linux 6.6 do not know this flag.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	return m, nil
}

// wait returns when no directory is being moved. All processes of the command have ended,
// so the mover begins no other.
func (m *mover) wait() {
	if m == nil {
		return
	}
	m.working.Lock()
	defer m.working.Unlock()
	m.stricter.Store(false)
}

// answer answers one request. It runs on the first thread.
func (m *mover) answer(q callRequest) {
	switch q.call {
	case unix.SYS_SOCKET:
		q.answer(m.listener)
	case unix.SYS_LANDLOCK_RESTRICT_SELF:
		m.stricter.Store(true)
		q.proceed(m.listener)
	default:
		r, ok := m.read(q)
		if ok {
			select {
			case m.queue <- r:
				return
			default:
				r.close()
			}
		}
		q.proceed(m.listener)
	}
}

// A renaming is a request to rename a directory.
type renaming struct {
	callRequest
	from, to callPath
	flags    uint
}

func (r renaming) close() {
	r.from.close()
	r.to.close()
}

// A callPath is a path in the arguments of a call.
type callPath struct {
	number int    // the descriptor of the command that a relative path starts from, or AT_FDCWD
	at     uint64 // the address of the text
	text   string
	dir    int // the cell's own descriptor for the same directory, or AT_FDCWD if the path is absolute
}

func (p callPath) close() {
	if p.dir >= 0 {
		unix.Close(p.dir)
	}
}

// read returns the request if it is for a directory. In all other cases the kernel is to
// carry out the call.
func (m *mover) read(q callRequest) (r renaming, ok bool) {
	r = renaming{callRequest: q}
	if int(q.call) == renameCall {
		r.from, r.to = callPath{number: unix.AT_FDCWD, at: q.args[0]}, callPath{number: unix.AT_FDCWD, at: q.args[1]}
	} else {
		r.from, r.to = callPath{number: int(int32(q.args[0])), at: q.args[1]}, callPath{number: int(int32(q.args[2])), at: q.args[3]}
	}
	if q.call == unix.SYS_RENAMEAT2 {
		r.flags = uint(uint32(q.args[4]))
	}
	// An exchange has to be atomic, and a transfer is not.
	if r.flags&^unix.RENAME_NOREPLACE != 0 || !m.readText(int(q.pid), &r.from) {
		return r, false
	}
	var st unix.Stat_t
	if unix.Lstat(r.from.inProcess(q.pid), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return r, false
	}
	if m.stricter.Load() || !m.readText(int(q.pid), &r.to) || !r.from.open(q.pid) {
		return r, false
	}
	if !r.to.open(q.pid) {
		r.from.close()
		return r, false
	}
	return r, true
}

// readText reads the text of a path from the memory of a process.
func (m *mover) readText(pid int, p *callPath) bool {
	if p.at == 0 {
		return false
	}
	// The next page may be missing, and the kernel reads each part as a whole.
	page := uint64(os.Getpagesize())
	first := min(page-p.at%page, uint64(len(m.text)))
	parts := []unix.RemoteIovec{{Base: uintptr(p.at), Len: int(first)}, {Base: uintptr(p.at + first), Len: len(m.text) - int(first)}}
	n, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &m.text[0], Len: uint64(len(m.text))}}, parts, 0)
	if err != nil {
		return false // the process hides from others, or ends
	}
	end := bytes.IndexByte(m.text[:n], 0)
	if end <= 0 {
		return false
	}
	p.text = string(m.text[:end])
	return true
}

// inProcess returns a path of the file in the tree of commands.
func (p callPath) inProcess(pid uint32) string {
	if p.text[0] == '/' {
		return p.text
	}
	return p.start(pid) + "/" + p.text
}

// start returns a path of the directory that a relative path starts from.
func (p callPath) start(pid uint32) string {
	if p.number == unix.AT_FDCWD {
		return fmt.Sprintf("/proc/%d/cwd", pid)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", pid, p.number)
}

// open opens the directory that the path starts from.
func (p *callPath) open(pid uint32) bool {
	p.dir = unix.AT_FDCWD
	if p.text[0] == '/' {
		return true
	}
	fd, err := unix.Open(p.start(pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		p.dir = fd
	}
	return err == nil
}

// openParent opens the directory that contains the file, and returns the last part of the
// path, with the slashes behind it.
func (p callPath) openParent() (dir int, base string, err error) {
	i := strings.LastIndexByte(strings.TrimRight(p.text, "/"), '/') + 1
	name := p.text[:i]
	if name == "" {
		name = "."
	}
	// /proc/self would be the cell.
	dir, err = openat2(p.dir, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	return dir, p.text[i:], err
}

// move renames a directory, and answers the request. It runs on the second thread.
func (m *mover) move(r renaming) {
	defer r.close()
	m.working.Lock()
	defer m.working.Unlock()
	if m.stricter.Load() || !m.confine() || !r.isAlive(m.listener) {
		r.proceed(m.listener)
		return
	}
	fromDir, from, err := r.from.openParent()
	if err != nil {
		r.proceed(m.listener)
		return
	}
	defer unix.Close(fromDir)
	toDir, to, err := r.to.openParent()
	if err != nil {
		r.proceed(m.listener)
		return
	}
	defer unix.Close(toDir)
	switch err := unix.Renameat2(fromDir, from, toDir, to, r.flags); {
	case err == nil:
		r.reply(m.listener, nil)
	case err == unix.EXDEV && inOverlay(fromDir, toDir):
		t := transfer{fromDir: fromDir, from: strings.TrimRight(from, "/"), toDir: toDir, to: strings.TrimRight(to, "/"), flags: r.flags,
			isWanted: func() bool { return r.isAlive(m.listener) }}
		r.reply(m.listener, errorOfRename(t.run()))
	default:
		r.proceed(m.listener) // the kernel finds the same error
	}
}

// confine gives up the rights that commands do not have. It reports whether it could.
func (m *mover) confine() bool {
	if !m.isConfined {
		if dropCapabilities() != nil {
			return false
		}
		if err := m.fence.close(); err != nil && err != errNoLandlock {
			return false
		}
		m.isConfined = true
	}
	return true
}

// inOverlay reports whether two directories are in the same mount of an overlay.
func inOverlay(a, b int) bool {
	var id [2]uint64
	for i, fd := range []int{a, b} {
		var fs unix.Statfs_t
		if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.OVERLAYFS_SUPER_MAGIC {
			return false
		}
		var st unix.Statx_t
		if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st) != nil || st.Mask&unix.STATX_MNT_ID == 0 {
			return false
		}
		id[i] = st.Mnt_id
	}
	return id[0] == id[1]
}

// errorOfRename returns the error of the call. If a directory cannot be moved, it is EXDEV,
// as without the mover. Programs that copy files themselves then report their own error.
func errorOfRename(err error) error {
	for _, known := range []unix.Errno{unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR} {
		if err == nil || errors.Is(err, known) {
			return err
		}
	}
	return unix.EXDEV
}

// timesOf returns the times of a file for setTimes.
func timesOf(st unix.Stat_t) [2]unix.Timespec { return [2]unix.Timespec{st.Atim, st.Mtim} }

// setTimes sets the times of an open file.
func setTimes(fd int, times [2]unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
