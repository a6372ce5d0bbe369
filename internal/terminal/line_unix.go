//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package terminal

import (
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// How long it is waited: for answers of a terminal, for a shell to stop golem, and
// between looks whether a shell has given golem the terminal.
const (
	answerTime = 500 * time.Millisecond
	answerStep = 5 * time.Millisecond
	stopTime   = 300 * time.Millisecond
	lookTime   = 200 * time.Millisecond
)

// A Line is between golem's own streams and a program that has them in its stead.
type Line struct {
	// What the program is given. One that is nil is the terminal that is connected or,
	// where none is wanted, nothing.
	Stdin, Stdout, Stderr *os.File

	// Wanted says that a terminal for the program is to be connected.
	Wanted bool

	// Signals are those that golem got and that are meant for the program.
	Signals <-chan os.Signal

	in, out int        // the terminal that somebody sits at; -1 for none
	own     []*os.File // that the line has opened
	relays  []*relay
	answers answers

	mu     sync.Mutex
	keys   *relay      // to and from the program's terminal; nil before it is connected
	before *term.State // how the terminal was found; nil while it is so

	quit *os.File // closed to halt what copies
	busy sync.WaitGroup

	caught chan os.Signal
	passed chan os.Signal
	done   chan struct{}
	hears  sync.WaitGroup
}

// A relay carries what a program prints to a terminal.
type relay struct {
	from, to int
	filter   Filter
}

// Open makes a line from golem's own streams. A program is to have a terminal where
// standard output is one: somebody sees it. Where that goes elsewhere, keys are
// perhaps meant for who is shown it, as a pager.
func Open(stdin, stdout, stderr *os.File) (*Line, error) {
	l := &Line{in: -1, out: -1, done: make(chan struct{})}
	l.Wanted = is(stdout)
	if l.Wanted {
		l.in, l.out = int(stdout.Fd()), int(stdout.Fd())
		if is(stdin) {
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
		case !is(s.file):
			*s.given = s.file
		case !l.Wanted && s.file != stdin:
			// A program that had it could do more than print.
			r, w, err := os.Pipe()
			if err != nil {
				l.Close()
				return nil, err
			}
			unix.SetNonblock(int(w.Fd()), false) // it is the program's
			*s.given = w
			l.own = append(l.own, r, w)
			l.relays = append(l.relays, newRelay(int(r.Fd()), int(s.file.Fd())))
		}
	}
	l.hear()
	return l, l.start()
}

// is reports whether a file is a terminal.
func is(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

func newRelay(from, to int) *relay {
	unix.SetNonblock(from, true)
	return &relay{from: from, to: to}
}

// Connect connects the terminal that somebody sits at with the person's side of the
// program's, until the line is closed.
func (l *Line) Connect(person *os.File) error {
	if !l.Wanted || l.keys != nil {
		return errors.New("no terminal is to be connected")
	}
	l.halt()
	fd := int(person.Fd())
	if modes, err := unix.IoctlGetTermios(l.in, getTermios); err == nil && l.foreground() { // otherwise they are a shell's
		unix.IoctlSetTermios(fd, setTermios, modes)
	}
	l.mu.Lock()
	l.keys = newRelay(fd, l.out)
	l.mu.Unlock()
	l.relays = append(l.relays, l.keys)
	l.resize()
	return l.start()
}

// hear catches the signals that are meant for the program.
func (l *Line) hear() {
	l.caught, l.passed = make(chan os.Signal, 16), make(chan os.Signal, 16)
	l.Signals = l.passed
	list := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}
	if !l.Wanted { // otherwise the key that it stands for is not golem's
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
				case unix.SIGCONT: // a shell may have set the terminal meanwhile
					l.takeAgain()
					l.resize()
				case unix.SIGWINCH:
					l.resize()
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

// resize gives the program's terminal the size of the user's. The kernel tells the
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

// start lets everything be copied.
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

// halt stops that, when all that the program has printed is on the screen.
func (l *Line) halt() {
	if l.quit != nil {
		l.quit.Close()
		l.busy.Wait()
		l.quit = nil
	}
}

// foreground reports whether the terminal is golem's to use. Who reads from it, or
// changes it, in the background is stopped.
func (l *Line) foreground() bool {
	group, err := unix.IoctlGetInt(l.in, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // a terminal that golem does not belong to stops nobody
}

// take makes the terminal pass every key on, if it is golem's to use, and reports
// whether it does.
func (l *Line) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before == nil && l.foreground() {
		if state, err := term.MakeRaw(l.in); err == nil {
			l.before = state
		}
	}
	return l.before != nil
}

// takeAgain does so where somebody else has set the terminal.
func (l *Line) takeAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before != nil && l.foreground() {
		term.MakeRaw(l.in)
	}
}

// give makes it what it was. In the background it is what others have made it.
func (l *Line) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before != nil && l.foreground() {
		term.Restore(l.in, l.before)
	}
	l.before = nil
}

// ready waits until a file can be read, or written, or another one is closed. A wait
// of less than 0 is without end.
func ready(fd int, events int16, ended *os.File, wait time.Duration) (is, over bool) {
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

// read reads what there is.
func read(fd int, piece []byte) (n int, again bool) {
	n, err := unix.Read(fd, piece)
	return max(n, 0), err == unix.EINTR || err == unix.EAGAIN
}

// write writes all of something, unless nobody takes it any more.
func write(fd int, data []byte, ended *os.File) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		switch err {
		case nil:
			data = data[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			if _, over := ready(fd, unix.POLLOUT, ended, -1); over {
				return os.ErrClosed
			}
		default:
			return err
		}
	}
	return nil
}

// copyKeys passes keys on to the program, while the terminal is golem's to use.
func (l *Line) copyKeys(ended *os.File) {
	piece := make([]byte, 4<<10)
	for {
		if !l.take() {
			if _, over := ready(-1, 0, ended, lookTime); over {
				return
			}
			continue
		}
		is, over := ready(l.in, unix.POLLIN, ended, -1)
		if over {
			return
		}
		if !is {
			continue
		}
		if !l.foreground() {
			l.give()
			continue
		}
		n, again := read(l.in, piece)
		if again {
			continue
		}
		if n == 0 { // nobody sits there any more
			select {
			case l.passed <- unix.SIGHUP:
			default:
			}
			return
		}
		l.answers.read(piece[:n])
		if write(l.keys.from, piece[:n], ended) != nil {
			return
		}
	}
}

// copy carries what the program prints, and at the end what is left.
func (r *relay) copy(ended *os.File) {
	const most = 1 << 20 // more does not wait to be read
	piece, out := make([]byte, 64<<10), make([]byte, 0, 64<<10)
	left := most
	for {
		wait := time.Duration(-1)
		if ended == nil {
			wait = 0
		}
		is, over := ready(r.from, unix.POLLIN, ended, wait)
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
		out = r.filter.Pass(out[:0], piece[:n])
		write(r.to, out, nil) // where it is gone, the program continues
		if ended == nil {
			if left -= n; left <= 0 {
				return
			}
		}
	}
}

// Suspend stops golem, as a shell's user wants it that has stopped the program, and
// returns when golem continues. It does at once where no shell would continue it.
func (l *Line) Suspend() {
	l.halt()
	l.leave()
	on := make(chan os.Signal, 1)
	signal.Notify(on, unix.SIGCONT)
	stop := unix.SIGTSTP
	if !l.Wanted {
		stop = unix.SIGTTIN // the same to a shell, and Go does not let go of the other, which was caught
	}
	unix.Kill(0, stop) // all of the job
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

// Close ends the line when the program has ended. All that it has printed is on the
// screen then, and the terminal is as it was found.
func (l *Line) Close() error {
	select {
	case <-l.done:
		return nil
	default:
	}
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

// leave makes the terminal what others expect: nothing is set that the program has set,
// and nothing that it has asked for is answered to them.
func (l *Line) leave() {
	for _, r := range l.relays {
		write(r.to, r.filter.Undo(), nil)
	}
	if l.keys != nil && l.take() {
		l.drain()
	}
	l.give()
}

// drain throws away what was typed and not read. Where the program may have asked the
// terminal something, its answers are waited for: it gives them in order, and is
// asked last for one that everybody knows.
func (l *Line) drain() {
	asked, names := l.keys.filter.Asked()
	if asked && write(l.out, []byte("\x1b[c"), nil) == nil {
		piece := make([]byte, 4<<10)
		left, most := answerTime, 10_000 // somebody may lean on a key
		for ; left > 0 && most > 0 && l.answers.names <= names; most-- {
			if is, _ := ready(l.in, unix.POLLIN, nil, answerStep); !is {
				left -= answerStep
				continue
			}
			n, again := read(l.in, piece)
			if n == 0 && !again {
				break
			}
			l.answers.read(piece[:n])
		}
		l.answers.names = names // without the one for this
	}
	flushInput(l.in)
}
