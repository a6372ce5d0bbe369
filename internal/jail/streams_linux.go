package jail

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// streams are the streams of an attached command. The command gets the ends of pipes,
// never a file of the host. A process that has a file open can change its mode. It might
// then open the file again to write it, although it should only read it.
type streams struct {
	fds   []int // descriptors for the command
	ours  []int // those of fds that do not belong to the caller
	ended *os.File
	end   *os.File // the other side of ended, closed when the command has ended
	gone  atomic.Bool
	all   sync.WaitGroup

	mu  sync.Mutex
	err error
}

// streams makes the streams and puts their numbers into an order.
func (at Attached) streams(o *order) (_ *streams, err error) {
	s := &streams{}
	if s.ended, s.end, err = os.Pipe(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.closeOurs()
			s.wait(true)
		}
	}()
	for i, f := range []*os.File{at.Stdin, at.Stdout, at.Stderr} {
		if f == nil && at.Terminal != nil {
			if o.Terminal == 0 {
				s.fds = append(s.fds, int(at.Terminal.program.Fd()))
				o.Terminal = len(s.fds)
			}
			o.Streams[i] = o.Terminal
			continue
		}
		fd, err := s.of(f, i)
		if err != nil {
			return nil, fmt.Errorf("stream %d: %w", i, err)
		}
		if fd >= 0 {
			s.fds = append(s.fds, fd)
			o.Streams[i] = len(s.fds)
		}
	}
	if at.Terminal != nil && o.Terminal == 0 {
		return nil, errors.New("no stream is left for the terminal")
	}
	return s, nil
}

// of returns the descriptor that a command gets for a file, or -1 for /dev/null.
func (s *streams) of(f *os.File, number int) (int, error) {
	if f == nil {
		return -1, nil
	}
	fd := int(f.Fd())
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs)); err != nil {
		return -1, err
	}
	if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
		return -1, errors.New("it is a terminal, and commands get one of their own")
	}
	if st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3) {
		return -1, nil // the jail has its own /dev/null, and programs can distinguish it from a pipe
	}
	if fs.Type == unix.PIPEFS_MAGIC {
		return fd, nil
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return -1, err
	}
	theirs, mine := ends[1], ends[0]
	if number == 0 {
		theirs, mine = ends[0], ends[1]
	}
	s.ours = append(s.ours, theirs)
	s.all.Go(func() {
		defer unix.Close(mine)
		var err error
		if number == 0 {
			err = s.copy(mine, fd, true)
		} else {
			err = s.copy(fd, mine, false)
		}
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.err = errors.Join(s.err, fmt.Errorf("stream %d: %w", number, err))
		}
	})
	return theirs, nil
}

// copy copies until the end of the input. If it reads input for the command, it stops
// when the command has ended, and leaves the rest for others. It returns errors only for
// the file of the caller.
func (s *streams) copy(to, from int, reads bool) error {
	piece := make([]byte, 64<<10)
	files := []unix.PollFd{{Fd: int32(from), Events: unix.POLLIN}, {Fd: int32(s.ended.Fd()), Events: unix.POLLIN}}
	for {
		if len(files) > 1 {
			if _, err := unix.Poll(files, -1); err == unix.EINTR {
				continue
			}
			if files[1].Revents != 0 {
				if reads || s.gone.Load() {
					return nil
				}
				files = files[:1] // read the rest
			}
		}
		n, err := unix.Read(from, piece)
		switch {
		case err == unix.EINTR, err == unix.EAGAIN:
			continue
		case err != nil && reads:
			return err
		case err != nil || n == 0:
			return nil
		}
		for rest := piece[:n]; len(rest) > 0; {
			n, err := unix.Write(to, rest)
			switch {
			case err == unix.EINTR:
			case err == unix.EAGAIN:
				unix.Poll([]unix.PollFd{{Fd: int32(to), Events: unix.POLLOUT}}, -1)
			case err != nil && reads:
				return nil // the command no longer reads
			case err != nil:
				return err
			default:
				rest = rest[n:]
			}
		}
	}
}

// closeOurs closes our copies of the command's descriptors.
func (s *streams) closeOurs() {
	for _, fd := range s.ours {
		unix.Close(fd)
	}
	s.ours = nil
}

// wait waits until all output of the command is copied. Call it when the command has
// ended. If unknown is true, it does not wait for the rest of the output.
func (s *streams) wait(unknown bool) error {
	s.gone.Store(unknown)
	s.end.Close()
	s.all.Wait()
	s.ended.Close()
	return s.err
}
