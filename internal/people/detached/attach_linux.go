package detached

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/people/terminal"
)

// Dial connects with the host in a directory. It refuses a host of another user.
func Dial(dir string) (*os.File, error) {
	path, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer path.Close()
	c, err := net.DialUnix("unix", nil, addressIn(path))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if !isOwn(c, os.Geteuid()) {
		return nil, fmt.Errorf("the socket %s belongs to another user", filepath.Join(dir, socketName))
	}
	return c.File()
}

// An attachment connects a person's terminal with a host.
type attachment struct {
	Options
	conn   net.Conn
	filter terminal.Filter // drops questions while another terminal answers them
	ending Ending

	once sync.Once
	over chan struct{} // closed when the attachment ends
}

// Attach connects a terminal with the host at the other end of a connection, until the
// person leaves, the program ends or a signal arrives. The terminal is then as before.
func Attach(conn *os.File, o Options) (Ending, error) {
	c, err := net.FileConn(conn)
	conn.Close()
	if err != nil {
		return Ending{}, err
	}
	a := &attachment{Options: o, conn: c, over: make(chan struct{})}
	if o.Out == nil {
		err = a.print()
	} else {
		err = a.connect()
	}
	return a.ending, err
}

// print writes the output without a terminal. Nobody can type.
func (a *attachment) print() error {
	defer a.conn.Close()
	if _, err := a.conn.Write(appendFrames(nil, frameWatch, nil)); err != nil {
		return err
	}
	a.receive(withoutReturns{a.Plain}, true)
	return nil
}

// withoutReturns writes lines of a terminal as lines of a text.
type withoutReturns struct{ w io.Writer }

func (w withoutReturns) Write(data []byte) (int, error) {
	_, err := w.w.Write(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
	return len(data), err
}

// connect connects the terminal.
func (a *attachment) connect() (err error) {
	defer a.conn.Close()
	line, err := terminal.Open(a.In, a.Out, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, line.Close()) }()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	far := os.NewFile(uintptr(pair[1]), "keys")
	defer far.Close()
	unix.SetNonblock(pair[0], true)
	near := os.NewFile(uintptr(pair[0]), "output")
	if err := line.Connect(far); err != nil {
		near.Close()
		return err
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH, unix.SIGCONT)
	defer signal.Stop(changed)
	frames := make(chan []byte, 256)
	var work, sending sync.WaitGroup
	sending.Go(func() { a.sendFrames(frames) })
	work.Go(func() { a.receive(near, false); a.finish() })
	work.Go(func() { a.readKeys(near, frames) })
	frames <- a.size()
	for ended := false; !ended; {
		select {
		case <-changed:
			a.queue(frames, a.size())
		case s := <-line.Signals:
			a.ending.Signal = s
			ended = true
		case <-a.over:
			ended = true
		}
	}
	a.finish()
	late := time.AfterFunc(writeTime, func() { a.conn.Close() }) // the host may not read
	sending.Wait()
	late.Stop()
	a.conn.Close()
	line.Close() // shows the last output, which near still has
	near.Close()
	work.Wait()
	return nil
}

// finish ends the attachment.
func (a *attachment) finish() { a.once.Do(func() { close(a.over) }) }

// size returns a frame with the size of the terminal.
func (a *attachment) size() []byte {
	size, err := unix.IoctlGetWinsize(int(a.Out.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		size = &unix.Winsize{}
	}
	return appendFrames(nil, frameSize, numbersFrame(size.Row, size.Col))
}

// queue queues a frame. Keys are lost if the host does not read: the keys to leave must work
// then, too.
func (a *attachment) queue(frames chan<- []byte, data []byte) {
	select {
	case frames <- data:
	default:
	}
}

// sendFrames sends the queued frames.
func (a *attachment) sendFrames(frames <-chan []byte) {
	for {
		select {
		case data := <-frames:
			if _, err := a.conn.Write(data); err != nil {
				return // receive notices the end
			}
		case <-a.over:
			for { // what the person typed before they left
				select {
				case data := <-frames:
					a.conn.Write(data)
				default:
					return
				}
			}
		}
	}
}

// readKeys passes on keys, until the person leaves.
func (a *attachment) readKeys(near *os.File, frames chan<- []byte) {
	piece, keys := make([]byte, 4<<10), leaver{}
	for {
		n, err := near.Read(piece)
		out, leaves := keys.pass(piece[:n])
		if len(out) > 0 {
			a.queue(frames, appendFrames(nil, frameKeys, out))
		}
		if leaves {
			a.finish()
		}
		if leaves || err != nil {
			return
		}
	}
}

// receive handles the frames of the host until it ends. plain is true if the output does not
// go to a terminal.
func (a *attachment) receive(to io.Writer, plain bool) {
	for {
		f, err := readFrame(a.conn)
		if err != nil {
			select {
			case <-a.over:
			default:
				a.ending.Lost = !a.ending.Ended
			}
			return
		}
		switch f.kind {
		case frameShown:
			data := f.data
			if !plain {
				data = a.filter.Pass(nil, data)
			}
			to.Write(data) // without a reader the attachment ends soon
		case frameOwner:
			a.filter.Quiet = len(f.data) > 0 && f.data[0] == 0
		case frameBegun:
			a.ending.Session, a.ending.Begun = string(f.data), true
			if a.UntilBegun {
				return
			}
		case frameEnd:
			a.ending.Ended, a.ending.Code = true, int(f.numberAt(0))
		}
	}
}
