package undo

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/sandbox"
)

// A Store is a directory with steps. Its permissions allow only the user to read it.
type Store struct {
	Dir string
	// Lock keeps other processes from adding and removing steps until release is called.
	Lock func() (release func() error, err error)

	mu    sync.Mutex
	steps []slot // the steps, the oldest first
	turn  string // steps is right as long as the file of the same name holds this
}

// A step is in one of MaxSteps files. A new step overwrites the oldest one, because the file
// system needs less time for that than for a new file. A second file marks that an undo of
// the step was started. The file turn changes with the steps.
const (
	stepSuffix    = ".step"
	undoingSuffix = ".undoing"
	turnName      = "turn"
)

// fileOf returns the file of the step with a number.
func (s *Store) fileOf(number int) string {
	return filepath.Join(s.Dir, fmt.Sprintf("%02d%s", number%MaxSteps, stepSuffix))
}

// Save writes what a call is about to change as a new step. When wait has returned nil, the
// step is on the disk. A caller that syncs another file meanwhile waits less: the file system
// writes both together. Call wait even if the call is not made. The files must include all
// mounts of the project.
func (s *Store) Save(files *sandbox.Sandbox, call, tool string, ops []Op, now time.Time) (wait func() error, err error) {
	step, body := record(files, ops)
	if step == nil {
		return func() error { return nil }, nil
	}
	step.Time, step.Call, step.Tool = now, call, tool
	content, err := encode(step, body)
	if err != nil {
		return nil, err
	}
	err = s.change(func() error {
		number := 1
		if n := len(s.steps); n > 0 {
			number = s.steps[n-1].number + 1
		}
		file := s.fileOf(number)
		if err := s.makeRoom(file, int64(len(content))); err != nil {
			return err
		}
		wait, err = overwrite(file, seal(number, content))
		s.steps = append(s.steps, slot{file, number, int64(len(content))})
		return err
	})
	return wait, err
}

// change calls do while no other process changes the steps, with s.steps up to date.
func (s *Store) change(do func() error) error {
	release, err := s.Lock()
	if err != nil {
		return err
	}
	defer release()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Mkdir(s.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	file, err := os.OpenFile(filepath.Join(s.Dir, turnName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	next := rand.Text()
	last := make([]byte, len(next))
	if _, err := file.ReadAt(last, 0); err != nil || string(last) != s.turn {
		if s.steps, err = s.slots(); err != nil {
			return err
		}
	}
	s.turn = "" // after an error, read the steps again
	if _, err := file.WriteAt([]byte(next), 0); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	s.turn = next
	return nil
}

// makeRoom removes old steps to make room for one of size bytes in file. It leaves what is in
// that file, for the new step to overwrite.
func (s *Store) makeRoom(file string, size int64) error {
	for _, old := range s.steps {
		size += old.size
	}
	for len(s.steps) > 0 && (s.steps[0].file == file || size > MaxTotal) {
		old := s.steps[0]
		if old.file != file {
			if err := old.remove(); err != nil {
				return err
			}
		}
		size -= old.size
		s.steps = s.steps[1:]
	}
	return removeFile(slot{file: file}.mark())
}

// overwrite replaces the content of a file, or creates it. When wait has returned nil, the
// content is on the disk.
func overwrite(name string, data []byte) (wait func() error, err error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	isNew := errors.Is(err, fs.ErrNotExist)
	if isNew {
		f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil && info.Size() > int64(len(data)) {
		err = f.Truncate(int64(len(data)))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	startSync(f)
	return func() error {
		err := syncData(f)
		if err == nil {
			_, err = f.WriteAt([]byte{finished}, 0)
		}
		if isNew {
			err = errors.Join(err, durable.SyncDir(filepath.Dir(name)))
		}
		return errors.Join(err, f.Close())
	}, nil
}

// slots returns the steps, the oldest first. It also finds steps that were not written to
// their end.
func (s *Store) slots() ([]slot, error) {
	names, err := filepath.Glob(filepath.Join(s.Dir, "*"+stepSuffix))
	if err != nil {
		return nil, err
	}
	var list []slot
	for _, name := range names {
		if f, err := os.Open(name); err == nil {
			if head, err := readHead(f); err == nil {
				list = append(list, slot{name, head.number, head.length})
			}
			f.Close()
		}
	}
	slices.SortFunc(list, func(a, b slot) int { return a.number - b.number })
	return list, nil
}

// Steps returns the saved steps, the newest first. A step that is damaged is returned as one
// that cannot be undone.
func (s *Store) Steps() ([]*Step, error) {
	list, err := s.slots()
	if err != nil {
		return nil, err
	}
	var steps []*Step
	for _, at := range slices.Backward(list) {
		step, err := s.read(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUnfinished):
			continue
		case err != nil:
			step = &Step{Tool: "a file tool", Time: modTime(at.file), Impossible: "the old content that golem saved of it is damaged", slot: at}
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// Newest returns when the newest step was saved, by the clock of the file system. It
// returns the zero time if there is no step.
func (s *Store) Newest() time.Time {
	list, _ := s.slots()
	for _, at := range slices.Backward(list) {
		if _, err := s.read(at); !errors.Is(err, errUnfinished) {
			return modTime(at.file)
		}
	}
	return time.Time{}
}

// read reads a step. If it seems damaged, another process may just write it, so read looks
// again while none does.
func (s *Store) read(at slot) (*Step, error) {
	step, err := readStep(at)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUnfinished) {
		return step, err
	}
	release, e := s.Lock()
	if e != nil {
		return nil, err
	}
	defer release()
	return readStep(at)
}

// SavedAt returns when the step was saved, by the clock of the file system.
func (st *Step) SavedAt() time.Time { return modTime(st.slot.file) }

func modTime(name string) time.Time {
	info, err := os.Stat(name)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// content returns the saved content of a file.
func (st *Step) content(n Node) ([]byte, error) {
	f, err := os.Open(st.slot.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.NewSectionReader(f, st.body+n.At, n.Size)); err != nil {
		return nil, err
	}
	if v := (sandbox.Version{}).With(b.Bytes()); int64(b.Len()) != n.Size || v.String() != n.Sum {
		return nil, errors.New("the content that golem saved for undo is damaged")
	}
	return b.Bytes(), nil
}

// Remove removes a step.
func (s *Store) Remove(st *Step) error {
	return s.change(func() error {
		i := slices.Index(s.steps, st.slot)
		if i < 0 {
			return nil
		}
		s.steps = slices.Delete(s.steps, i, i+1)
		return st.slot.remove()
	})
}

// isUndoing reports whether an undo of the step was started.
func (st *Step) isUndoing() bool {
	_, err := os.Lstat(st.slot.mark())
	return err == nil
}

// markUndoing records that an undo of the step starts.
func (st *Step) markUndoing() error { return durable.WriteAlone(st.slot.mark(), nil, 0o600) }

// A slot is the place of a step.
type slot struct {
	file   string
	number int   // newer steps have higher ones
	size   int64 // bytes, without the first line
}

// mark returns the file that marks that an undo of the step was started.
func (s slot) mark() string { return strings.TrimSuffix(s.file, stepSuffix) + undoingSuffix }

// remove removes the files of a step. The mark of an undo goes first: without the step it
// means nothing.
func (s slot) remove() error {
	if err := removeFile(s.mark()); err != nil {
		return err
	}
	return removeFile(s.file)
}

// removeFile removes a file that may be missing.
func removeFile(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
