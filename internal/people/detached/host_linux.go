package detached

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/claim"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/people/terminal"
)

// Limits of a Host.
const (
	maxRecent   = 64 << 10 // bytes of output that a new terminal gets
	maxBehind   = 1 << 20  // bytes that a terminal may be behind
	maxClients  = 32
	writeTime   = time.Second           // for keys that the program does not read
	lastTime    = 2 * time.Second       // for terminals to take the last output
	redrawTime  = 50 * time.Millisecond // for a program to notice the size of its terminal
	defaultRows = 24
	defaultCols = 80
)

// A Host has the outer side of the terminal on which this golem runs in the background.
type Host struct {
	outer *os.File
	now   func() time.Time

	mu      sync.Mutex
	recent  []byte // the end of the output
	filter  terminal.Filter
	clients []*client // the last one attached or typed last
	settled int       // how many terminals have attached so far
	session []byte
	begun   bool // the program runs
	ended   bool
	output  *output // nil before Publish
	mark    []byte  // ends the output, nil before Close

	dir      string
	record   Record
	lock     *os.File
	listener *net.UnixListener
	path     *os.File // the directory, for the path of the socket

	reading sync.WaitGroup
	serving sync.WaitGroup
}

// NewHost makes a host. outer is the outer side of a terminal, and first is connected with
// the process that started this one.
func NewHost(outer, first *os.File, now func() time.Time) (*Host, error) {
	h := &Host{outer: outer, now: now}
	unix.IoctlSetWinsize(int(outer.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: defaultRows, Col: defaultCols})
	c, err := net.FileConn(first)
	first.Close()
	if err != nil {
		return nil, err
	}
	// Only a pollable file has deadlines.
	fd, err := unix.FcntlInt(outer.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	outer.Close()
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	h.outer = os.NewFile(uintptr(fd), "terminal")
	h.reading.Go(h.read)
	h.serving.Go(func() { h.serve(c.(*net.UnixConn)) })
	return h, nil
}

// Open opens the ends for a golem in the background.
func Open() (e Ends, err error) {
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	if e.Outer, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return e, err
	}
	fd := int(e.Outer.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return e, err
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return e, err
	}
	if e.Inner, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return e, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return e, err
	}
	e.Ours, e.Theirs = os.NewFile(uintptr(pair[0]), "attachment"), os.NewFile(uintptr(pair[1]), "attachment")
	return e, nil
}

// TakeTerminal makes the terminal the controlling one of this process, and its standard
// input. Standard output already is the terminal.
func (h *Host) TakeTerminal() error {
	if err := unix.IoctlSetInt(1, unix.TIOCSCTTY, 0); err != nil {
		return err
	}
	return unix.Dup3(1, 0, 0)
}

// Publish makes the host reachable for terminals in a directory, and keeps the end of the
// output there.
func (h *Host) Publish(dir, session, command string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700)
	}
	if err == nil {
		h.lock, err = seize(dir)
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dir, h.session, h.record = dir, []byte(session), Record{Command: command, Process: os.Getpid(), Started: h.now()}
	if err := h.writeRecord(); err != nil {
		return err
	}
	if h.output, err = newOutput(dir); err != nil {
		return err
	}
	h.output.write(h.recent)
	if err := os.Remove(filepath.Join(dir, socketName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if h.path, err = os.Open(dir); err != nil {
		return err
	}
	if h.listener, err = net.ListenUnix("unix", addressIn(h.path)); err != nil {
		return err
	}
	h.serving.Go(h.accept)
	return os.Chmod(filepath.Join(dir, socketName), 0o600)
}

// addressIn returns the address of the socket in an open directory: the path of a socket has
// at most 107 bytes.
func addressIn(dir *os.File) *net.UnixAddr {
	return &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketName), Net: "unix"}
}

// seize locks a directory. A process that only looks holds it for a moment.
func seize(dir string) (*os.File, error) {
	for range 100 {
		if f, ok := claim.Seize(dir); ok {
			return f, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, errors.New("another golem runs in the background of this session; golem ps stop ends it, and --session new starts another session")
}

// isHeld reports whether a golem runs in the background of a directory.
func isHeld(dir string) bool {
	f, err := claim.Hold(dir)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, unix.EWOULDBLOCK)
}

func (h *Host) writeRecord() error {
	data, err := json.Marshal(h.record)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(h.dir, recordName), data, 0o600)
}

// Begin says that the program of the published session runs now.
func (h *Host) Begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun = true
	unix.Write(1, []byte(beginMark))
	for _, c := range h.clients {
		c.send(frameBegun, h.session)
	}
}

// End says that the program has ended. What golem prints afterwards is its own.
func (h *Host) End() { unix.Write(1, []byte(endMark)) }

// Attached returns the number of the terminal that attached last, 0 if none is attached and has
// its size.
func (h *Host) Attached() (terminal int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.ContainsFunc(h.clients, func(c *client) bool { return c.settled }) {
		return h.settled
	}
	return 0
}

// Close ends the host with the exit code of this golem. It takes the standard streams of this
// process away from the terminal.
func (h *Host) Close(code int) error {
	h.stopReading()
	if h.listener != nil {
		h.listener.Close()
	}
	h.mu.Lock()
	h.ended = true
	clients := slices.Clone(h.clients)
	for _, c := range clients {
		c.send(frameEnd, numbersFrame(uint16(code)))
		c.end()
	}
	h.output.close()
	var err error
	if h.dir != "" {
		h.record.Ended, h.record.Code = h.now(), code
		err = h.writeRecord()
	}
	h.mu.Unlock()
	for _, c := range clients {
		c.wait()
	}
	h.serving.Wait()
	closeFiles(h.path, h.lock)
	h.outer.Close()
	return err
}

// stopReading reads all output of this golem, and takes its standard streams away from the
// terminal. Other descriptors of the terminal may stay open, so a mark ends the output.
func (h *Host) stopReading() {
	mark := "\x1b_" + rand.Text() + "\x1b\\" // terminals show nothing for it
	h.mu.Lock()
	h.mark = []byte(mark)
	h.mu.Unlock()
	h.outer.SetReadDeadline(h.now().Add(lastTime))
	unix.SetNonblock(1, true)
	unix.Write(1, h.mark)
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			unix.Dup3(int(null.Fd()), fd, 0)
		}
		null.Close()
	}
	h.reading.Wait()
}

// read reads the output until the mark, or until the other side of the terminal is closed
// everywhere.
func (h *Host) read() {
	piece, held := make([]byte, maxFrame), 0
	for {
		n, err := h.outer.Read(piece[held:])
		all := piece[:held+n]
		h.mu.Lock()
		mark := h.mark
		h.mu.Unlock()
		end, marked := len(all), false
		if i := bytes.Index(all, mark); mark != nil && i >= 0 {
			end, marked = i, true
		} else if mark != nil && err == nil {
			end = max(0, len(all)-len(mark)) // the rest may begin the mark
		}
		h.show(all[:end])
		if marked || err != nil {
			return
		}
		held = copy(piece, all[end:])
	}
}

// show keeps output, and sends it to all terminals.
func (h *Host) show(data []byte) {
	if len(data) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.output.write(data)
	h.recent = append(h.recent, data...)
	if len(h.recent) > 2*maxRecent {
		h.recent = append(h.recent[:0], h.recent[len(h.recent)-maxRecent:]...)
	}
	h.filter.Pass(nil, data)
	for _, c := range h.clients {
		if c.shown {
			c.send(frameShown, data)
		}
	}
}

// accept serves terminals of the user.
func (h *Host) accept() {
	for {
		c, err := h.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(10 * time.Millisecond) // golem has too many open files
		case !isOwn(c, os.Geteuid()):
			c.Close()
		default:
			h.serving.Go(func() { h.serve(c) })
		}
	}
}

// serve serves one terminal until it leaves.
func (h *Host) serve(c *net.UnixConn) {
	one := newClient(h, c)
	h.mu.Lock()
	if h.ended || len(h.clients) >= maxClients {
		h.mu.Unlock()
		c.Close()
		return
	}
	h.clients = slices.Insert(h.clients, 0, one)
	if h.begun {
		one.send(frameBegun, h.session)
	}
	h.mu.Unlock()
	written := make(chan struct{})
	go func() {
		defer close(written)
		one.write()
	}()
	for {
		f, err := readFrame(c)
		if err != nil {
			break
		}
		h.receive(one, f)
	}
	h.mu.Lock()
	was := h.owner()
	h.clients = slices.DeleteFunc(h.clients, func(other *client) bool { return other == one })
	if is := h.owner(); is != nil && was == one {
		h.own(is)
	}
	h.mu.Unlock()
	one.end()
	<-written
	c.Close()
}

// receive handles a frame of a terminal. The terminal that attached or typed last sets the
// size.
func (h *Host) receive(c *client, f frame) {
	h.mu.Lock()
	isNew := false
	if (f.kind == frameSize || f.kind == frameWatch) && !c.shown {
		c.shown = true
		c.send(frameShown, h.replay())
	}
	switch {
	case f.kind == frameSize:
		isNew = !c.person
		c.person, c.rows, c.columns = true, f.numberAt(0), f.numberAt(1)
		if isNew {
			h.own(c)
		} else if h.owner() == c {
			h.resize(c)
		}
	case f.kind == frameKeys && c.person:
		h.own(c)
	}
	h.mu.Unlock()
	switch {
	case f.kind == frameKeys && c.person:
		h.outer.SetWriteDeadline(h.now().Add(writeTime))
		h.outer.Write(f.data) // keys that the program does not read are lost
	case isNew:
		h.nudge(c)
		h.mu.Lock()
		c.settled = true // a question would be drawn again for each size
		h.settled++
		h.mu.Unlock()
	}
}

// owner returns the terminal that sets the size, nil for none.
func (h *Host) owner() *client {
	for _, c := range slices.Backward(h.clients) {
		if c.person {
			return c
		}
	}
	return nil
}

// own makes a terminal the one that sets the size, and answers questions of the program.
func (h *Host) own(c *client) {
	was := h.owner()
	if was == c && c.owns {
		return
	}
	h.clients = append(slices.DeleteFunc(h.clients, func(other *client) bool { return other == c }), c)
	if was != nil && was != c {
		was.owns = false
		was.send(frameOwner, []byte{0})
	}
	c.owns = true
	c.send(frameOwner, []byte{1})
	h.resize(c)
}

// resize gives the program's terminal the size of the user's. The kernel notifies the
// program if it differs.
func (h *Host) resize(c *client) { h.setSize(c.rows, c.columns) }

func (h *Host) setSize(rows, columns uint16) {
	if rows == 0 || columns == 0 {
		rows, columns = defaultRows, defaultCols
	}
	unix.IoctlSetWinsize(int(h.fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
}

// fd returns the descriptor of the terminal. File.Fd would make it blocking.
func (h *Host) fd() (fd uintptr) {
	if raw, err := h.outer.SyscallConn(); err == nil {
		raw.Control(func(is uintptr) { fd = is })
	}
	return fd
}

// nudge makes the program draw its screen again, by another size for a moment.
func (h *Host) nudge(c *client) {
	h.mu.Lock()
	nudges := h.begun && h.owner() == c && c.rows > 1
	if nudges {
		h.setSize(c.rows-1, c.columns)
	}
	h.mu.Unlock()
	if !nudges {
		return
	}
	time.Sleep(redrawTime)
	h.mu.Lock()
	defer h.mu.Unlock()
	if is := h.owner(); is != nil {
		h.resize(is)
	}
}

// replay returns what a terminal shows that attaches now.
func (h *Host) replay() []byte {
	recent := h.recent
	if len(recent) > maxRecent {
		recent = recent[len(recent)-maxRecent:]
		for i, b := range recent { // not in the middle of a line
			if b == '\n' {
				recent = recent[i+1:]
				break
			}
		}
	}
	return h.filter.Replay(recent)
}
