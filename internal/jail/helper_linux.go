package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Helper is a holder, a process of golem in its own user namespace. It starts cells and
// carries out requests. It can enter every directory of the user, even one that a command
// has closed to the user. Jails may share a Helper.
type Helper struct {
	*wire
	network bool // it has the host's network
	asking  sync.Mutex
	unread  int      // replies that a stopped helper still owes
	child   *started // its process, if this one started it without a launcher

	outlets map[string]*outlet // of networks that lead to golem, by the names of these networks
}

// StartHelper starts a helper. network gives it the host's network, and mounts its own
// mount namespace.
func StartHelper(network, mounts bool) (*Helper, error) {
	h := holdingOf(network)
	h.Mounts = mounts
	helper, wait, err := launched(h)
	if err != nil {
		return nil, err
	}
	err = awaitReport(helper.wire)
	wait()
	if err != nil {
		helper.Close()
		return nil, fmt.Errorf("jail: %w", err)
	}
	return helper, nil
}

// Close ends the helper, and waits until it has ended.
func (h *Helper) Close() error {
	h.asking.Lock()
	defer h.asking.Unlock()
	h.closeOutlets()
	err := h.finish()
	if h.child != nil {
		late := time.AfterFunc(2*time.Second, h.child.kill)
		h.child.wait()
		late.Stop()
		h.child = nil
	}
	return err
}

// Process returns the process of the helper, 0 if it has sent nothing yet.
func (h *Helper) Process() int { return h.peer }

// endsWithin reports whether the helper has ended, and waits for that up to a time. The
// kernel may kill it if memory runs out.
func (h *Helper) endsWithin(most time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(h.fd)}}
	n, err := unix.Poll(poll, int(most.Milliseconds()))
	return err == nil && n > 0 && poll[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
}

// ErrEnded is the error of Ask if the helper runs no more.
var ErrEnded = errors.New("the session has ended")

// An ask is a message to a holder: it wants a cell, whose wire comes with it, a network
// that leads to golem, or a request carried out.
type ask struct {
	Apart    bool     // the cell has its own network, which reaches nothing
	Loopback string   // the cell shares the network of this name
	Isolated bool     // the holder is not in the host's network
	Outlet   bool     // make the network Loopback, which leads to golem
	Dial     bool     // make sockets in the network Loopback
	Ports    []uint16 // as in Egress, also PortsOnly

	HostPorts []uint16 // Host of an Egress
	PortsOnly bool
	NamesOnly bool
	Request   json.RawMessage `json:",omitempty"` // for a Handler
}

// Ask has the helper carry out a request, with some files, and returns the files that came
// with the reply.
func (h *Helper) Ask(request, reply any, files ...int) (received []int, err error) {
	data, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	h.asking.Lock()
	defer h.asking.Unlock()
	for ; h.unread > 0; h.unread-- {
		if err := h.awaitRunning(); err != nil {
			return nil, err
		}
		_, late, err := h.receiveBytes()
		if err != nil {
			return nil, fmt.Errorf("jail: %w: %w", ErrEnded, err)
		}
		for _, fd := range late {
			unix.Close(fd)
		}
	}
	if err := h.send(ask{Request: data}, files...); err != nil {
		return nil, fmt.Errorf("jail: %w: %w", ErrEnded, err)
	}
	if err := h.awaitRunning(); err != nil {
		h.unread++
		return nil, err
	}
	if received, err = h.receive(reply); err != nil {
		return nil, fmt.Errorf("jail: %w: %w", ErrEnded, err)
	}
	return received, nil
}

// Ended reports whether the jail can run no command any more, because its holder was
// killed.
func (s *Jail) Ended() bool { return s.holder.endsWithin(0) }
