package jail

import (
	"os"

	"golang.org/x/sys/unix"
)

// A feeder writes the input of a command. It does not wait for a command that does not
// read it.
type feeder struct {
	end   int // the end of the pipe for the command
	write *os.File
	done  chan struct{}
}

// feed returns a feeder, or nil if there is no input.
func feed(data []byte) (*feeder, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fds[1], true); err != nil { // so that closing it interrupts a write
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, err
	}
	f := &feeder{end: fds[0], write: os.NewFile(uintptr(fds[1]), "input"), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.write.Write(data) // a command may end before it has read everything
		f.write.Close()
	}()
	return f, nil
}

// closeOurs closes our copy of the end that the command has.
func (f *feeder) closeOurs() {
	if f != nil && f.end >= 0 {
		unix.Close(f.end)
		f.end = -1
	}
}

// close stops writing.
func (f *feeder) close() {
	if f == nil {
		return
	}
	f.closeOurs()
	f.write.Close()
	<-f.done
}
