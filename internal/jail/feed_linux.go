package jail

import (
	"os"

	"golang.org/x/sys/unix"
)

// A feeder writes what a command has for its input. A command that does not read it
// is not waited for.
type feeder struct {
	end   int // what the command reads from
	write *os.File
	done  chan struct{}
}

// feed returns a feeder, nil for a command without input.
func feed(data []byte) (*feeder, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fds[1], true); err != nil { // so that close ends a write
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, err
	}
	f := &feeder{end: fds[0], write: os.NewFile(uintptr(fds[1]), "input"), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.write.Write(data) // one that ends before it has read all needs no more
		f.write.Close()
	}()
	return f, nil
}

// handed closes our copy of the end that the command has.
func (f *feeder) handed() {
	if f != nil && f.end >= 0 {
		unix.Close(f.end)
		f.end = -1
	}
}

// close ends it.
func (f *feeder) close() {
	if f == nil {
		return
	}
	f.handed()
	f.write.Close()
	<-f.done
}
