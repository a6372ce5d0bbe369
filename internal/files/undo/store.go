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

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/sandbox"
)

// A History is a directory with steps. Its permissions allow only the user to read it.
type History struct {
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
func (s *History) fileOf(number int) string {
	return filepath.Join(s.Dir, fmt.Sprintf("%02d%s", number%MaxSteps, stepSuffix))
}

// Save writes what a call is about to change as a new step. When wait has returned nil, the
// step is on the disk. A caller that syncs another file meanwhile waits less: the file system
// writes both together. Call wait even if the call is not made. The files must include all
// mounts of the project.
func (s *History) Save(files *sandbox.Sandbox, call, tool string, ops []Op, now time.Time) (wait func() error, err error) {
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
		data, sum := seal(number, content)
		wait, err = overwrite(file, data)
		s.steps = append(s.steps, slot{file, number, int64(len(content)), sum})
		return err
	})
	return wait, err
}

// change calls do while no other process changes the steps, with s.steps up to date.
func (s *History) change(do func() error) error {
	release, err := s.Lock()
	if err != nil {
		return err
	}
	defer release()
	s.mu.Lock()
	defer s.mu.Unlock()
	err = os.Mkdir(s.Dir, 0o700)
	if err == nil {
		err = durable.SyncDir(filepath.Dir(s.Dir))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
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
// that file, for the new step to overwrite, unless an undo may be reading it.
func (s *History) makeRoom(file string, size int64) error {
	s.steps = slices.DeleteFunc(s.steps, func(old slot) bool { return old.file == file })
	for _, old := range s.steps {
		size += old.size
	}
	for len(s.steps) > 0 && size > MaxTotal {
		old := s.steps[0]
		if err := old.remove(); err != nil {
			return err
		}
		size -= old.size
		s.steps = s.steps[1:]
	}
	if at := (slot{file: file}); at.isUndoing() {
		return at.remove()
	}
	return nil
}

// overwrite replaces the content of the file of a step, or creates it. When wait has returned
// nil, the content is on the disk.
func overwrite(name string, data []byte) (wait func() error, err error) {
	f, isNew, err := openFinished(name)
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
		f.Close()
		os.Remove(name)
		return nil, err
	}
	startSync(f)
	return func() error {
		err := syncData(f)
		if err == nil && isNew {
			err = durable.SyncDir(filepath.Dir(name))
		}
		if err == nil {
			_, err = f.WriteAt([]byte{finished}, 0)
		}
		if closed := f.Close(); err == nil {
			err = closed
		}
		return err
	}, nil
}

// openFinished opens the file of a finished step. If there is none, it creates a new file. It
// does not return the file of an unfinished step, because the wait of that step may still
// write its letter there.
func openFinished(name string) (f *os.File, isNew bool, err error) {
	if f, err = os.OpenFile(name, os.O_RDWR, 0); err == nil {
		letter := make([]byte, 1)
		if _, err = f.ReadAt(letter, 0); err == nil && letter[0] == finished {
			return f, false, nil
		}
		f.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		err = removeFile(name)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	return f, true, err
}

// slots returns the steps, the oldest first. It also finds steps that were not written to
// their end.
func (s *History) slots() ([]slot, error) {
	names, err := filepath.Glob(filepath.Join(s.Dir, "*"+stepSuffix))
	if err != nil {
		return nil, err
	}
	var list []slot
	for _, name := range names {
		if f, err := os.Open(name); err == nil {
			if head, err := readHead(f); err == nil && name == s.fileOf(head.number) {
				list = append(list, head.slot(name))
			}
			f.Close()
		}
	}
	slices.SortFunc(list, func(a, b slot) int { return a.number - b.number })
	return list, nil
}

// Steps returns the saved steps, the newest first. A step that is damaged is returned as one
// that cannot be undone.
func (s *History) Steps() ([]*Step, error) {
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
			saved := modTime(at.file)
			step = &Step{Tool: "a file tool", Time: saved, Impossible: "the old content that golem saved of it is damaged", slot: at, saved: saved}
		}
		step.store = s
		// The time is that of the letter. Of two calls at the same time, the first may be the
		// last to write it.
		if n := len(steps); n > 0 && step.saved.After(steps[n-1].saved) {
			step.saved = steps[n-1].saved
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// read reads a step. If it seems damaged, another process may just write it, so read looks
// again while none does.
func (s *History) read(at slot) (*Step, error) {
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

// SavedAt returns when the step was saved, by the clock of the file system. It is not later
// than that of a newer step.
func (st *Step) SavedAt() time.Time { return st.saved }

func modTime(name string) time.Time {
	info, err := os.Stat(name)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// content returns the saved content of a file. f is the file of the step.
func (st *Step) content(f *os.File, n Node) ([]byte, error) {
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.NewSectionReader(f, st.body+n.At, n.Size)); err != nil {
		return nil, err
	}
	if v := (sandbox.Version{}).With(b.Bytes()); int64(b.Len()) != n.Size || v.String() != n.Sum {
		return nil, errors.New("the content that golem saved for undo is damaged")
	}
	return b.Bytes(), nil
}

// open opens the file of the step. The error is a conflict if a newer step is in it.
func (st *Step) open() (*os.File, error) {
	f, err := os.Open(st.slot.file)
	if err == nil {
		if head, e := readHead(f); e == nil && head.slot(st.slot.file) == st.slot {
			return f, nil
		}
		f.Close()
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: "golem no longer has the old content: it was undone or forgotten meanwhile, or newer calls took its place; nothing was undone; golem undo --list lists what can be undone"}
	}
	return nil, err
}

// Remove removes a step.
func (s *History) Remove(st *Step) error {
	return s.change(func() error {
		i := slices.Index(s.steps, st.slot)
		if i < 0 {
			return nil
		}
		s.steps = slices.Delete(s.steps, i, i+1)
		return st.slot.remove()
	})
}

// RemoveFailed removes the step of a call that failed, if nothing of its change is there. Such
// a step would be in the way of an undo: another call may have changed the same names.
func (s *History) RemoveFailed(files *sandbox.Sandbox, call string) error {
	list, err := s.slots()
	if err != nil {
		return err
	}
	for _, at := range slices.Backward(list) {
		if step, err := s.read(at); err == nil && step.Call == call {
			if step.Plan(files).isNothingThere() {
				return s.Remove(step)
			}
			return nil
		}
	}
	return nil
}

// beginUndo records that an undo of the step starts, and opens its file. The file keeps its
// content until it is closed: a new step does not overwrite a file with this mark.
func (st *Step) beginUndo() (*os.File, error) {
	release, err := st.store.Lock()
	if err != nil {
		return nil, err
	}
	defer release()
	f, err := st.open()
	if err != nil {
		return nil, err
	}
	if err := durable.WriteAlone(st.slot.mark(), nil, 0o600); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// A slot is the place of a step.
type slot struct {
	file   string
	number int   // newer steps have higher ones
	size   int64 // bytes, without the first line
	sum    uint32
}

// mark returns the file that marks that an undo of the step was started.
func (s slot) mark() string { return strings.TrimSuffix(s.file, stepSuffix) + undoingSuffix }

// isUndoing reports whether an undo of the step was started.
func (s slot) isUndoing() bool {
	_, err := os.Lstat(s.mark())
	return err == nil
}

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
