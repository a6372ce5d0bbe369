//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package cli

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// colours says whether terminals here know them.
const colours = true

// ends are the signals that end a question.
func ends() []os.Signal {
	return []os.Signal{os.Interrupt, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT}
}

// suspends are the signals that suspend golem.
func suspends() []os.Signal { return []os.Signal{syscall.SIGTSTP} }

// suspendSelf suspends golem until somebody lets it continue.
func suspendSelf() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if unix.Kill(unix.Getpid(), unix.SIGSTOP) == nil {
		<-continued // other threads may stop first
	}
}

// findTerminal returns the terminal that somebody can be asked at, for reading
// and writing; nil if there is none. What comes through standard input is never
// consent: only a terminal there is one to ask at. Where standard input was
// taken, because the user said that it holds content, the terminal that the
// process belongs to stands in for it.
func findTerminal(taken bool) *os.File {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		flags, err := unix.FcntlInt(os.Stdin.Fd(), unix.F_GETFL, 0)
		if !foreground(os.Stdin) || err != nil {
			return nil
		}
		if flags&unix.O_ACCMODE == unix.O_RDWR {
			return os.Stdin
		}
	} else if !taken {
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	if !foreground(tty) {
		tty.Close()
		return nil
	}
	return tty
}

// foreground reports whether the file is the terminal that this process belongs
// to, and its group may read from it. Reading would stop any other.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// A keyboard reads lines that somebody types at a terminal.
type keyboard struct{ file *os.File }

func newKeyboard(f *os.File) *keyboard { return &keyboard{f} }

// ready gives the terminal its usual modes, in which lines are edited and seen:
// another program may have left it without. They are put back afterwards.
func (k *keyboard) ready() (restore func(), err error) {
	if !foreground(k.file) {
		return nil, errNobody
	}
	fd := int(k.file.Fd())
	old, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	usual := *old
	usual.Iflag = usual.Iflag&^(unix.ISTRIP|unix.INLCR|unix.IGNCR) | unix.ICRNL
	usual.Oflag |= unix.OPOST | unix.ONLCR
	usual.Lflag |= unix.ICANON | unix.ISIG | unix.ECHO | unix.ECHOE | unix.ECHOK
	if usual == *old {
		return func() {}, nil
	}
	if err := unix.IoctlSetTermios(fd, setTermios, &usual); err != nil {
		return nil, err
	}
	return func() {
		if foreground(k.file) { // setting it would stop any other
			unix.IoctlSetTermios(fd, setTermios, old)
		}
	}, nil
}

// settle waits until a question was on screen for so long, throws away what was typed and
// not yet read, and reports whether something was. Meanwhile nothing typed is shown.
func (k *keyboard) settle(ctx context.Context, long time.Duration) (early bool, err error) {
	if !foreground(k.file) {
		return false, errNobody
	}
	fd := int(k.file.Fd())
	usual, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return false, errNobody
	}
	quiet := *usual
	quiet.Lflag &^= unix.ICANON | unix.ECHO
	if err := unix.IoctlSetTermios(fd, setTermios, &quiet); err != nil {
		return false, errNobody
	}
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
	if !foreground(k.file) { // setting the modes would stop us
		return false, errNobody
	}
	n, _ := unix.IoctlGetInt(fd, countInput)
	if err := unix.IoctlSetTermios(fd, setTermios, usual); err != nil {
		return false, errNobody
	}
	if err := flushInput(fd); err != nil {
		return false, errNobody
	}
	if ctx.Err() != nil {
		return false, errStopped
	}
	return n > 0, nil
}

// glance is how often it is looked whether a question is to be drawn again.
const glance = 100 * time.Millisecond

// line returns the next line. It reads only what is there, so that a question
// that ended without an answer leaves nobody behind who takes the next one. Where
// interrupted returns an error, nothing is read.
func (k *keyboard) line(ctx context.Context, wait time.Duration, interrupted func() error) (string, error) {
	ended, end, err := os.Pipe()
	if err != nil {
		return "", errNobody
	}
	defer ended.Close()
	defer end.Close()
	defer context.AfterFunc(ctx, func() { end.Close() })()
	files := []unix.PollFd{{Fd: int32(k.file.Fd()), Events: unix.POLLIN}, {Fd: int32(ended.Fd()), Events: unix.POLLIN}}
	for deadline := time.Now().Add(wait); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return "", errLate
		}
		_, err := unix.Poll(files, int(min(left, glance).Milliseconds()+1))
		again := interrupted()
		switch {
		case ctx.Err() != nil:
			return "", errStopped
		case again != nil:
			return "", again
		case err == unix.EINTR:
			continue
		case err != nil:
			return "", errNobody
		case files[0].Revents&unix.POLLHUP != 0:
			return "", errEnd
		case files[0].Revents != 0:
			if text, err := k.read(); err != unix.EINTR && err != unix.EAGAIN {
				return text, err
			}
		}
	}
}

// read reads a line that is there.
func (k *keyboard) read() (string, error) {
	if !foreground(k.file) {
		return "", errNobody
	}
	var buf [8192]byte // the system keeps no line that is longer
	n, err := unix.Read(int(k.file.Fd()), buf[:])
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
		return "", err
	case err != nil:
		return "", errEnd
	}
	text, whole := strings.CutSuffix(string(buf[:n]), "\n")
	if !whole {
		return "", errClosed // a Ctrl-D after some letters is no Enter
	}
	return text, nil
}
