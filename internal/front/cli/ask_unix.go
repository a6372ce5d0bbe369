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

// colours reports whether terminals on this system support colours.
const colours = true

// ends returns the signals that end a question.
func ends() []os.Signal {
	return []os.Signal{os.Interrupt, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT}
}

// suspends returns the signals that suspend golem.
func suspends() []os.Signal { return []os.Signal{syscall.SIGTSTP} }

// suspendSelf suspends golem until it gets SIGCONT.
func suspendSelf() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if unix.Kill(unix.Getpid(), unix.SIGSTOP) == nil {
		<-continued // other threads may stop first
	}
}

// findTerminal returns a terminal to ask at, open for reading and writing, or nil. Data
// from standard input never counts as approval, so standard input must be a terminal. If
// taken is set, standard input holds content, and golem uses the controlling terminal
// instead.
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

// foreground reports whether f is the controlling terminal of this process, and its
// process group may read from it. Reading would stop any other process.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// A keyboard reads lines that a person types at a terminal.
type keyboard struct{ file *os.File }

func newKeyboard(f *os.File) *keyboard { return &keyboard{f} }

// ready sets the usual modes of the terminal, with line editing and echo. Another program
// may have changed them. restore sets the old modes again.
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
		if foreground(k.file) { // setting the modes would stop a background process
			unix.IoctlSetTermios(fd, setTermios, old)
		}
	}, nil
}

// settle waits until the question was on screen for long. Then it discards unread input,
// and reports whether there was any. The terminal does not echo input meanwhile.
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
	if !foreground(k.file) { // setting the modes would stop this process
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

// glance is how often golem checks whether to draw a question again.
const glance = 100 * time.Millisecond

// line returns the next line. It reads only available input. So a question that ends
// without an answer leaves no pending read that could take the next line. If interrupted
// returns an error, line returns that error without reading.
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

// read reads an available line.
func (k *keyboard) read() (string, error) {
	if !foreground(k.file) {
		return "", errNobody
	}
	var buf [8192]byte // the system stores no line that is longer
	n, err := unix.Read(int(k.file.Fd()), buf[:])
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
		return "", err
	case err != nil:
		return "", errEnd
	}
	text, whole := strings.CutSuffix(string(buf[:n]), "\n")
	if !whole {
		return "", errClosed // Ctrl-D after some letters is not Enter
	}
	return text, nil
}
