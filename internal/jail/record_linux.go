package jail

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// isRecorded reports whether commands write to overlays of their own.
func (s *Jail) isRecorded() bool { return s.level >= Namespaces && s.policy.Recorder != nil }

// newRecord makes a record for a command.
func (s *Jail) newRecord() (Record, error) {
	s.mu.Lock()
	s.records++
	number := s.records
	s.mu.Unlock()
	r, err := s.policy.Recorder.Prepare(s.holder, s.policy.Mounts, number)
	if err != nil {
		return nil, fmt.Errorf("a place for changes: %w", err)
	}
	return r, nil
}

// recordFirst puts the stores for the first command of a cell into its plan.
func (s *Jail) recordFirst(c *wire, p *plan) error {
	if !s.isRecorded() || p.Direct {
		return nil
	}
	r, err := s.newRecord()
	if err != nil {
		return err
	}
	if _, err := s.replaceRecord(c, r); err != nil {
		return err
	}
	p.Stores = r.Stores()
	return nil
}

// recordNext returns the record of the command that a cell gets now, and puts the stores
// for the command after it into the order.
func (s *Jail) recordNext(c *wire, o *order) (Record, error) {
	if !s.isRecorded() {
		return nil, nil
	}
	next, err := s.newRecord()
	if err != nil {
		return nil, err
	}
	r, err := s.replaceRecord(c, next)
	if err != nil {
		return nil, err
	}
	o.Stores = next.Stores()
	if err := r.Start(); err != nil {
		return nil, errors.Join(err, r.Discard())
	}
	return r, nil
}

// replaceRecord sets the record of a cell's next command, and returns the one before it.
func (s *Jail) replaceRecord(c *wire, next Record) (before Record, err error) {
	s.mu.Lock()
	ended := s.ended
	if !ended {
		before, s.next[c] = s.next[c], next
	}
	s.mu.Unlock()
	if ended {
		return nil, errors.Join(errors.New("the session has ended"), next.Discard())
	}
	return before, nil
}

// Identity returns the device and inode of the directory of a mount, 0 if any directory
// with its name will do. If another one took the place of Top, it returns an error.
func (m Mount) Identity() (device, inode uint64, err error) {
	if m.Top.Inode == 0 {
		return 0, 0, nil
	}
	fd, err := openBelow("", string(m.Source), heldOf(m.Top))
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", m.Target, err)
	}
	defer unix.Close(fd)
	is, err := number(fd)
	return is[0], is[1], err
}
