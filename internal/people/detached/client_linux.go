package detached

import (
	"net"
	"sync"
)

// A client is an attached terminal, as the host sees it.
type client struct {
	host *Host
	conn *net.UnixConn

	// The mutex of the host guards these.
	shown         bool // it gets the output
	person        bool // it is a terminal, and somebody can type there
	owns          bool
	settled       bool // the program's terminal has had its size
	rows, columns uint16

	mu     sync.Mutex
	queue  []byte // frames to send
	behind bool   // output was dropped
	ended  bool
	wake   chan struct{}
	done   chan struct{} // closed when everything is sent, or cannot be
}

func newClient(h *Host, c *net.UnixConn) *client {
	return &client{host: h, conn: c, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// send sends a frame, without waiting. It drops output that the terminal is too slow for.
func (c *client) send(kind byte, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return
	case kind == frameShown && (c.behind || len(c.queue)+len(data) > maxBehind):
		if !c.behind { // the frames that are no output remain
			c.behind, c.queue = true, withoutOutput(c.queue)
		}
	default:
		c.queue = appendFrames(c.queue, kind, data)
	}
	c.signal()
}

func (c *client) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// end sends what is in the queue, and nothing after it.
func (c *client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended = true
		c.conn.SetWriteDeadline(c.host.now().Add(lastTime))
	}
	c.signal()
}

// wait waits until the terminal has taken everything, for a limited time, and closes the
// connection.
func (c *client) wait() {
	<-c.done
	c.conn.Close()
}

// write sends the frames. If output was dropped, it draws the screen again once the terminal
// reads.
func (c *client) write() {
	defer close(c.done)
	for range c.wake {
		queue, wasBehind, ended := c.take()
		if len(queue) > 0 {
			if _, err := c.conn.Write(queue); err != nil {
				c.conn.Close()
				return
			}
		}
		if ended {
			return
		}
		if wasBehind {
			c.host.nudge(c)
		}
	}
}

// take returns the frames to send. If output was dropped, they draw the screen again.
func (c *client) take() (queue []byte, wasBehind, ended bool) {
	c.host.mu.Lock() // no output arrives between the two
	defer c.host.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	queue, wasBehind, ended = c.queue, c.behind, c.ended
	if wasBehind {
		queue = append(appendFrames(nil, frameShown, c.host.replay()), queue...)
	}
	c.queue, c.behind = nil, false
	return queue, wasBehind, ended
}

// withoutOutput returns the frames of a queue that are no output.
func withoutOutput(queue []byte) (rest []byte) {
	for len(queue) >= 5 {
		f := frame{queue[0], queue[1:5]}
		n := 5 + int(f.numberAt(0))<<16 + int(f.numberAt(1))
		if f.kind != frameShown {
			rest = append(rest, queue[:n]...)
		}
		queue = queue[n:]
	}
	return rest
}
