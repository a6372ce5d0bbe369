//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package terminal

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Wait times: for answers of a terminal, for a shell to stop golem, between checks whether
// a shell has given golem the terminal, and for a program to notice the size of its
// terminal.
const (
	answerTime = 500 * time.Millisecond
	answerStep = 5 * time.Millisecond
	stopTime   = 300 * time.Millisecond
	lookTime   = 200 * time.Millisecond
	redrawTime = 50 * time.Millisecond

	idleTime    = time.Second     // without keys, before golem takes the terminal
	composeTime = 4 * time.Second // the same in a line that the user has not ended
)

// A Line connects golem's own streams with those of a program.
type Line struct {
	// Streams for the program. A nil stream is the connected terminal or, if none is
	// wanted, nothing.
	Stdin, Stdout, Stderr *os.File

	// Wanted is true if the program should get a terminal.
	Wanted bool

	// Signals delivers the signals that golem got for the program.
	Signals <-chan os.Signal

	in, out int        // the user's terminal; -1 if there is none
	own     []*os.File // files that the line has opened
	relays  []*relay
	answers answers

	idle, compose time.Duration // idleTime and composeTime
	quiet         *time.Timer   // fires when the user has not typed for a while; nil before the first key; mu guards it

	turn   sync.Mutex // held while the line is interrupted
	mu     sync.Mutex
	lent   bool        // somebody else has the terminal
	keys   *relay      // to and from the program's terminal; nil before it is connected
	before *term.State // the state of the terminal before golem changed it; nil if it is unchanged

	quit *os.File // closed to stop copying
	busy sync.WaitGroup

	caught chan os.Signal
	passed chan os.Signal
	ending chan struct{} // closed when Close begins
	end    sync.Once
	done   chan struct{}
	hears  sync.WaitGroup
}

// A relay copies the output of a program to a terminal.
type relay struct {
	from, to int
	filter   Filter
	readOnly atomic.Bool // the program printed that a place is read-only
}

// Open makes a line from golem's own streams. The program should get a terminal only if
// stdout is one, because then the user sees its output. If stdout goes elsewhere, the
// keys may be meant for another program, such as a pager.
func Open(stdin, stdout, stderr *os.File) (*Line, error) {
	l := &Line{in: -1, out: -1, ending: make(chan struct{}), done: make(chan struct{}), idle: idleTime, compose: composeTime}
	l.Wanted = isTerminal(stdout)
	if l.Wanted {
		l.in, l.out = int(stdout.Fd()), int(stdout.Fd())
		if isTerminal(stdin) {
			l.in = int(stdin.Fd())
		} else if flags, err := unix.FcntlInt(stdout.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_ACCMODE != unix.O_RDWR {
			tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
			if err != nil {
				return nil, err
			}
			l.own = append(l.own, tty)
			l.in = int(tty.Fd())
		}
	}
	for _, s := range []struct {
		file  *os.File
		given **os.File
	}{{stdin, &l.Stdin}, {stdout, &l.Stdout}, {stderr, &l.Stderr}} {
		switch {
		case !isTerminal(s.file):
			*s.given = s.file
		case !l.Wanted && s.file != stdin:
			// With the terminal itself, the program could do more than print.
			r, w, err := os.Pipe()
			if err != nil {
				l.Close()
				return nil, err
			}
			unix.SetNonblock(int(w.Fd()), false) // the program uses it
			*s.given = w
			l.own = append(l.own, r, w)
			l.relays = append(l.relays, newRelay(int(r.Fd()), int(s.file.Fd())))
		}
	}
	l.catchSignals()
	return l, l.start()
}

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

func newRelay(from, to int) *relay {
	unix.SetNonblock(from, true)
	return &relay{from: from, to: to}
}

// Connect connects the user's terminal with the outer side of the program's terminal,
// until the line is closed.
func (l *Line) Connect(person *os.File) error {
	if !l.Wanted || l.keys != nil {
		return errors.New("no terminal is to be connected")
	}
	l.halt()
	fd := int(person.Fd())
	if modes, err := unix.IoctlGetTermios(l.in, getTermios); err == nil && l.isForeground() { // otherwise the modes are those of a shell
		unix.IoctlSetTermios(fd, setTermios, modes)
	}
	l.mu.Lock()
	l.keys = newRelay(fd, l.out)
	l.mu.Unlock()
	l.relays = append(l.relays, l.keys)
	l.resize()
	return l.start()
}

// catchSignals catches the signals that are meant for the program.
func (l *Line) catchSignals() {
	l.caught, l.passed = make(chan os.Signal, 16), make(chan os.Signal, 16)
	l.Signals = l.passed
	list := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}
	if !l.Wanted { // otherwise the key for this signal is not for golem
		list = append(list, unix.SIGTSTP)
	}
	signal.Notify(l.caught, append(slices.DeleteFunc(list, signal.Ignored), unix.SIGWINCH, unix.SIGCONT)...)
	l.hears.Go(func() {
		for {
			select {
			case <-l.done:
				return
			case s := <-l.caught:
				switch s {
				case unix.SIGCONT: // a shell may have changed the terminal meanwhile
					l.takeAgain()
					l.resize()
				case unix.SIGWINCH:
					l.resize()
				case unix.SIGINT, unix.SIGQUIT:
					if l.isLent() { // the keys for them were not for the program
						continue
					}
					fallthrough
				default:
					select {
					case l.passed <- s:
					case <-l.done:
						return
					}
				}
			}
		}
	})
}

// resize gives the program's terminal the size of the user's. The kernel notifies the
// program.
func (l *Line) resize() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys == nil {
		return
	}
	if size, err := unix.IoctlGetWinsize(l.out, unix.TIOCGWINSZ); err == nil {
		unix.IoctlSetWinsize(l.keys.from, unix.TIOCSWINSZ, size)
	}
}

// start starts copying keys and output.
func (l *Line) start() error {
	ended, quit, err := os.Pipe()
	if err != nil {
		return err
	}
	l.quit = quit
	var all sync.WaitGroup
	if l.keys != nil {
		l.take()
		all.Go(func() { l.copyKeys(ended) })
	}
	for _, r := range l.relays {
		all.Go(func() { r.copy(ended) })
	}
	l.busy.Go(func() {
		all.Wait()
		ended.Close()
	})
	return nil
}

// halt stops copying after all output of the program is on the screen.
func (l *Line) halt() {
	if l.quit != nil {
		l.quit.Close()
		l.busy.Wait()
		l.quit = nil
	}
}

// isForeground reports whether golem may use the terminal. The kernel stops a background
// process that reads from the terminal or changes it.
func (l *Line) isForeground() bool {
	group, err := unix.IoctlGetInt(l.in, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // a terminal that golem does not belong to stops no process
}

// take makes the terminal pass on every key, if golem may use it. It reports whether
// golem does.
func (l *Line) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before == nil && l.isForeground() {
		if state, err := term.MakeRaw(l.in); err == nil {
			l.before = state
		}
	}
	return l.before != nil
}

// takeAgain calls take after another program may have changed the terminal.
func (l *Line) takeAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before != nil && l.isForeground() {
		term.MakeRaw(l.in)
	}
}

// restore restores the state of the terminal. In the background it leaves the state that
// others have set.
func (l *Line) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before != nil && l.isForeground() {
		term.Restore(l.in, l.before)
	}
	l.before = nil
}

// waitReady waits until a file can be read or written, or until ended is closed. A negative
// wait has no limit.
func waitReady(fd int, events int16, ended *os.File, wait time.Duration) (is, over bool) {
	files := []unix.PollFd{{Fd: int32(fd), Events: events}}
	if ended != nil {
		files = append(files, unix.PollFd{Fd: int32(ended.Fd()), Events: unix.POLLIN})
	}
	milliseconds := -1
	if wait >= 0 {
		milliseconds = int(wait.Milliseconds())
	}
	for {
		if _, err := unix.Poll(files, milliseconds); err != unix.EINTR {
			break
		}
	}
	return files[0].Revents != 0, len(files) > 1 && files[1].Revents != 0
}

// read reads the available input.
func read(fd int, piece []byte) (n int, again bool) {
	n, err := unix.Read(fd, piece)
	return max(n, 0), err == unix.EINTR || err == unix.EAGAIN
}

// write writes all of data, unless ended is closed first.
func write(fd int, data []byte, ended *os.File) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		switch err {
		case nil:
			data = data[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			if _, over := waitReady(fd, unix.POLLOUT, ended, -1); over {
				return os.ErrClosed
			}
		default:
			return err
		}
	}
	return nil
}

// copyKeys copies keys to the program while golem may use the terminal.
func (l *Line) copyKeys(ended *os.File) {
	piece := make([]byte, 4<<10)
	for {
		if !l.take() {
			if _, over := waitReady(-1, 0, ended, lookTime); over {
				return
			}
			continue
		}
		is, over := waitReady(l.in, unix.POLLIN, ended, -1)
		if over {
			return
		}
		if !is {
			continue
		}
		if !l.isForeground() {
			l.restore()
			continue
		}
		n, again := read(l.in, piece)
		if again {
			continue
		}
		if n == 0 { // the terminal is gone
			select {
			case l.passed <- unix.SIGHUP:
			default:
			}
			return
		}
		l.answers.read(piece[:n])
		l.noteKeys(piece[n-1])
		if write(l.keys.from, piece[:n], ended) != nil {
			return
		}
	}
}

// copy copies the output of the program, and at the end what is left of it.
func (r *relay) copy(ended *os.File) {
	const most = 1 << 20 // limit of the output that is read at the end
	piece, out := make([]byte, 64<<10), make([]byte, 0, 64<<10)
	left := most
	for {
		wait := time.Duration(-1)
		if ended == nil {
			wait = 0
		}
		is, over := waitReady(r.from, unix.POLLIN, ended, wait)
		if over {
			ended = nil
		}
		if !is {
			if ended == nil && !over {
				return
			}
			continue
		}
		n, again := read(r.from, piece)
		if n == 0 && !again {
			return
		}
		if bytes.Contains(piece[:n], []byte("Read-only file system")) || bytes.Contains(piece[:n], []byte("EROFS")) {
			r.readOnly.Store(true)
		}
		out = r.filter.Pass(out[:0], piece[:n])
		write(r.to, out, nil) // if the terminal is gone, the program continues
		if ended == nil {
			if left -= n; left <= 0 {
				return
			}
		}
	}
}

// SawReadOnly reports whether the program printed the system's error for a read-only place.
func (l *Line) SawReadOnly() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys != nil && l.keys.readOnly.Load()
}

// Suspend stops golem after the user has stopped the program, and returns when golem
// continues. If golem does not stop, because no shell would continue it, Suspend returns
// after a short wait.
func (l *Line) Suspend() {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.halt()
	l.leave()
	on := make(chan os.Signal, 1)
	signal.Notify(on, unix.SIGCONT)
	stop := unix.SIGTSTP
	if !l.Wanted {
		stop = unix.SIGTTIN // equal for a shell; Go does not reset SIGTSTP once it was caught
	}
	unix.Kill(0, stop) // the whole job
	soon := time.NewTimer(stopTime)
	select {
	case <-on:
	case <-soon.C:
	}
	soon.Stop()
	signal.Stop(on)
	l.resize()
	l.start()
}

// Lend lends the terminal to golem itself while f runs, and then gives it back. Meanwhile
// the terminal has its usual modes, an empty alternate screen, and none of the program's
// settings. The program's output waits. Then the screen and the settings are as before.
// If the program draws on the alternate screen itself, Lend makes it do so again. Lend
// returns false, without a call of f, if the program has no terminal, or golem is in the
// background. Lend waits until the user pauses, so that words for the program do not
// become an answer.
func (l *Line) Lend(f func()) bool {
	l.turn.Lock()
	defer l.turn.Unlock()
	select {
	case <-l.done:
		return false
	default:
	}
	if !l.Wanted || l.keys == nil || !l.isForeground() || !l.waitIdle() {
		return false
	}
	l.halt()
	defer l.start()
	left := l.keys.filter.left
	write(l.out, left.pause(), nil)
	if l.take() {
		l.drain()
	}
	l.restore()
	l.setLent(true)
	f()
	l.setLent(false)
	if !l.isForeground() {
		return true
	}
	flushInput(l.in) // more keys than the answer needed are not for the program
	write(l.out, left.resume(), nil)
	if left.isFullScreen() {
		l.redraw()
	}
	return true
}

// noteKeys notes that the user typed something that ends with a key.
func (l *Line) noteKeys(last byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait := l.idle
	if last != '\r' && last != '\n' {
		wait = l.compose
	}
	if l.quiet == nil {
		l.quiet = time.NewTimer(wait)
		return
	}
	l.quiet.Reset(wait)
}

// waitIdle waits until the user has not typed for a while. It returns false if the program
// ends first.
func (l *Line) waitIdle() bool {
	l.mu.Lock()
	quiet := l.quiet
	l.mu.Unlock()
	if quiet == nil {
		return true
	}
	select {
	case <-quiet.C:
	case <-l.ending:
		return false
	}
	quiet.Reset(0) // it stays quiet until the next key
	return true
}

// redraw makes the program draw its screen again, by another size for a moment. Many
// programs do not draw if the size is the same.
func (l *Line) redraw() {
	if size, err := unix.IoctlGetWinsize(l.out, unix.TIOCGWINSZ); err == nil && size.Row > 1 {
		size.Row--
		unix.IoctlSetWinsize(l.keys.from, unix.TIOCSWINSZ, size)
		time.Sleep(redrawTime)
	}
	l.resize()
}

func (l *Line) isLent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lent
}

func (l *Line) setLent(lent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent = lent
}

// Close closes the line after the program has ended. Then all its output is on the
// screen, and the terminal is as before.
func (l *Line) Close() error {
	select {
	case <-l.done:
		return nil
	default:
	}
	l.end.Do(func() { close(l.ending) })
	l.turn.Lock()
	defer l.turn.Unlock()
	l.halt()
	l.leave()
	for _, f := range l.own {
		f.Close()
	}
	signal.Stop(l.caught)
	close(l.done)
	l.hears.Wait()
	return nil
}

// leave resets the terminal for others: it undoes the program's settings and drops
// answers to its questions.
func (l *Line) leave() {
	for _, r := range l.relays {
		write(r.to, r.filter.Undo(), nil)
	}
	if l.keys != nil && l.take() {
		l.drain()
	}
	l.restore()
}

// drain discards typed input that nobody read. If the program may have asked the terminal
// something, drain waits for the answers. A terminal answers in order, so drain asks a
// last question that every terminal answers.
func (l *Line) drain() {
	asked, names := l.keys.filter.Asked()
	if asked && write(l.out, []byte("\x1b[c"), nil) == nil {
		piece := make([]byte, 4<<10)
		left, most := answerTime, 10_000 // a key may be held down
		for ; left > 0 && most > 0 && l.answers.names <= names; most-- {
			if is, _ := waitReady(l.in, unix.POLLIN, nil, answerStep); !is {
				left -= answerStep
				continue
			}
			n, again := read(l.in, piece)
			if n == 0 && !again {
				break
			}
			l.answers.read(piece[:n])
		}
		l.answers.names = names // without the answer to this question
	}
	flushInput(l.in)
}
