package jail

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A process with published ports serves them to other processes of the user at a socket,
// in a directory that no command sees. So no command can publish a port.

// portsPrefix begins the names of such sockets.
const portsPrefix = "ports-"

// portsTime limits a request and its answer.
const portsTime = 2 * time.Second

// A PortsRequest asks a process to publish a port, to close one, or only to list them.
type PortsRequest struct {
	Add    *Port  `json:"add,omitempty"`
	Remove uint16 `json:"remove,omitempty"` // a port of the host
}

// A portsAnswer has the published ports after a request.
type portsAnswer struct {
	Ports   []Port `json:"ports"`
	Removed bool   `json:"removed,omitempty"`
	Error   string `json:"error,omitempty"` // why the port could not be published
}

// A PortServer serves published ports at a socket. Close removes it.
type PortServer struct {
	ports    *Ports
	listener net.Listener
	done     func() error // after the last use of the socket's path
	work     sync.WaitGroup
}

// ServePorts serves ports at a new socket in a directory, which only the user may enter.
func ServePorts(dir string, ports *Ports) (*PortServer, error) {
	at, done, err := socketDir(dir)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", filepath.Join(at, portsPrefix+strings.ToLower(rand.Text()[:6])))
	if err != nil {
		return nil, errors.Join(err, done())
	}
	s := &PortServer{ports: ports, listener: l, done: done}
	s.work.Go(s.accept)
	return s, nil
}

// Close removes the socket.
func (s *PortServer) Close() error {
	err := s.listener.Close()
	s.work.Wait()
	return errors.Join(err, s.done())
}

// accept answers requests, one after the other.
func (s *PortServer) accept() {
	for {
		c, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(10 * time.Millisecond) // golem has too many open files
		default:
			s.answer(c)
		}
	}
}

// answer answers one request.
func (s *PortServer) answer(c net.Conn) {
	defer closeAfter(c, portsTime)()
	var r PortsRequest
	if json.NewDecoder(io.LimitReader(c, 4096)).Decode(&r) != nil {
		return
	}
	var a portsAnswer
	if r.Add != nil {
		if err := s.ports.Publish(context.Background(), *r.Add); err != nil {
			a.Error = err.Error()
		}
	}
	if r.Remove != 0 {
		a.Removed = s.ports.withdraw(r.Remove)
	}
	a.Ports = s.ports.List()
	json.NewEncoder(c).Encode(a)
}

// AskPorts sends a request to the processes that serve ports in a directory, and returns
// their answers. Only one of them publishes a port. It removes the sockets of processes
// that were killed.
func AskPorts(dir string, r PortsRequest) (answers []portsAnswer) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), portsPrefix) })
	if len(entries) == 0 {
		return nil
	}
	at, done, err := socketDir(dir)
	if err != nil {
		return nil
	}
	defer done()
	for _, e := range entries {
		c, err := net.DialTimeout("unix", filepath.Join(at, e.Name()), portsTime)
		if errors.Is(err, syscall.ECONNREFUSED) {
			os.Remove(filepath.Join(dir, e.Name()))
		}
		if err != nil {
			continue
		}
		var a portsAnswer
		if exchangePorts(c, r, &a) != nil {
			continue
		}
		answers = append(answers, a)
		if r.Add != nil {
			break
		}
	}
	return answers
}

// exchangePorts sends a request and reads the answer.
func exchangePorts(c net.Conn, r PortsRequest, a *portsAnswer) error {
	defer closeAfter(c, portsTime)()
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return err
	}
	return json.NewDecoder(c).Decode(a)
}

// closeAfter closes a connection after a time, or when end is called.
func closeAfter(c net.Conn, most time.Duration) (end func()) {
	timer := time.AfterFunc(most, func() { c.Close() })
	return func() { timer.Stop(); c.Close() }
}

// socketDir returns a short path of a directory, because the path of a socket has at most
// 107 bytes. It is valid until done is called.
func socketDir(dir string) (short string, done func() error, err error) {
	if runtime.GOOS != "linux" {
		return dir, func() error { return nil }, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d", f.Fd()), f.Close, nil
}
