package jail

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A collector reads the output of a command and keeps its head and tail.
type collector struct {
	end  int // the end of the pipe for the command
	read *os.File
	most int64
	tee  func(data []byte) // receives the output too; may be nil
	done chan struct{}

	mu  sync.Mutex
	out Output
}

func collect(most int64, tee func(data []byte)) (*collector, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil { // so that closing it interrupts a read
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, err
	}
	c := &collector{end: fds[1], read: os.NewFile(uintptr(fds[0]), "output"), most: most, tee: tee, done: make(chan struct{})}
	go c.collect()
	return c, nil
}

// collectors read all output streams of a command.
type collectors []*collector

// collectAll returns a collector for each stream. most is how many bytes each one keeps.
// tee, if not nil, receives the output of the first two, one call at a time.
func collectAll(tee func(data []byte), most ...int64) (collectors, error) {
	var list collectors
	var mu sync.Mutex
	locked := func(data []byte) {
		mu.Lock()
		defer mu.Unlock()
		tee(data)
	}
	for i, m := range most {
		to := locked
		if tee == nil || i > 1 {
			to = nil
		}
		c, err := collect(m, to)
		if err != nil {
			list.close()
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// ends returns the ends of the pipes for the command.
func (l collectors) ends() (fds []int) {
	for _, c := range l {
		fds = append(fds, c.end)
	}
	return fds
}

func (l collectors) closeOurs() {
	for _, c := range l {
		c.closeOurs()
	}
}

func (l collectors) close() {
	for _, c := range l {
		c.close()
	}
}

// closeOurs closes our copy of the end that the command has.
func (c *collector) closeOurs() {
	if c.end >= 0 {
		unix.Close(c.end)
		c.end = -1
	}
}

// close stops reading.
func (c *collector) close() {
	c.closeOurs()
	c.read.Close()
	<-c.done
}

// wait returns the output when all copies of the command's end are closed.
func (c *collector) wait() Output {
	<-c.done
	c.read.Close()
	return c.out
}

func (c *collector) collect() {
	defer close(c.done)
	piece := make([]byte, 32<<10)
	for {
		n, err := c.read.Read(piece)
		if c.tee != nil && n > 0 {
			c.tee(piece[:n])
		}
		c.add(piece[:n], err != nil)
		if err != nil {
			return
		}
	}
}

// add appends data to the head and the tail, and drops bytes between them.
func (c *collector) add(data []byte, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	head, tail := c.most*2/3, c.most-c.most*2/3
	if room := head - int64(len(c.out.Head)); room > 0 {
		part := data[:min(int64(len(data)), room)]
		c.out.Head = append(c.out.Head, part...)
		data = data[len(part):]
	}
	c.out.Tail = append(c.out.Tail, data...)
	if over := int64(len(c.out.Tail)) - tail; over > tail || last && over > 0 {
		c.out.Hidden += over
		c.out.Tail = append(c.out.Tail[:0], c.out.Tail[over:]...)
	}
}
