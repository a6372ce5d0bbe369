package undo

import (
	"bufio"
	"bytes"
	"encoding/json"
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

	// sizes are the sizes of the steps that makeRoom has seen. If another process undoes the
	// newest step and saves one of the same number, its size here is the old one.
	mu    sync.Mutex
	sizes map[string]int64
}

// A step is a file with a line of JSON, followed by the saved content. A second file
// marks that an undo of the step was started. If golem or the machine stopped before all of a
// step was written, its call was not made, and the step is ignored.
const (
	stepSuffix    = ".step"
	undoingSuffix = ".undoing"
	tempSuffix    = ".new"
)

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
	data, err := encode(step, body)
	if err != nil {
		return nil, err
	}
	release, err := s.Lock()
	if err != nil {
		return nil, err
	}
	defer release()
	if err := os.Mkdir(s.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	number, err := s.makeRoom(int64(len(data)))
	if err != nil {
		return nil, err
	}
	name := filepath.Join(s.Dir, fmt.Sprintf("%09d%s", number, stepSuffix))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(data); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	startSync(f)
	return func() error { return errors.Join(f.Sync(), f.Close(), durable.SyncDir(s.Dir)) }, nil
}

// encode returns a step as it is stored. A step that is too large is stored without its
// entries.
func encode(step *Step, body []byte) ([]byte, error) {
	step.Saved = int64(len(body))
	head, err := json.Marshal(step)
	if err == nil && len(head)+1+len(body) > MaxTotal {
		step.Impossible, step.Rename, body = fmt.Sprintf("it is more than %d MiB", MaxTotal>>20), nil, nil
		step.Saved = 0
		step.Entries = []Entry{{Path: step.Entries[0].Path}}
		head, err = json.Marshal(step)
	}
	return append(append(head, '\n'), body...), err
}

// makeRoom removes old steps to make room for one of size bytes, and returns its number.
// It also removes temporary files that killed processes have left.
func (s *Store) makeRoom(size int64) (number int, err error) {
	list, err := os.ReadDir(s.Dir)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.sizes
	s.sizes = make(map[string]int64)
	var steps []string
	for _, e := range list {
		switch name := e.Name(); {
		case strings.HasSuffix(name, tempSuffix):
			if err := os.Remove(filepath.Join(s.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return 0, err
			}
		case strings.HasSuffix(name, stepSuffix):
			is, known := seen[name]
			if !known {
				info, err := e.Info()
				if err != nil {
					continue // it was removed
				}
				is = info.Size()
			}
			steps, s.sizes[name] = append(steps, name), is
			size += is
		}
	}
	for len(steps) >= MaxSteps || len(steps) > 0 && size > MaxTotal {
		if err := remove(filepath.Join(s.Dir, steps[0])); err != nil {
			return 0, err
		}
		size -= s.sizes[steps[0]]
		delete(s.sizes, steps[0])
		steps = steps[1:]
	}
	if len(steps) > 0 {
		fmt.Sscanf(steps[len(steps)-1], "%d", &number)
	}
	return number + 1, nil
}

// Steps returns the saved steps, the newest first. A step that cannot be read is returned
// as one that cannot be undone.
func (s *Store) Steps() ([]*Step, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	var steps []*Step
	for _, name := range names {
		step, err := readStep(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) {
			continue
		}
		if err != nil {
			step = &Step{Tool: "a file tool", Time: modTime(name), Impossible: "the old content that golem saved of it is damaged", file: name}
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// Newest returns when the newest step was saved, by the clock of the file system. It
// returns the zero time if there is no step.
func (s *Store) Newest() time.Time {
	names, _ := s.names()
	for _, name := range names {
		if _, err := readStep(name); !errors.Is(err, io.ErrUnexpectedEOF) {
			return modTime(name)
		}
	}
	return time.Time{}
}

// names returns the files of the steps, the newest first.
func (s *Store) names() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(s.Dir, "*"+stepSuffix))
	slices.Sort(names)
	slices.Reverse(names)
	return names, err
}

// SavedAt returns when the step was saved, by the clock of the file system.
func (st *Step) SavedAt() time.Time { return modTime(st.file) }

func modTime(name string) time.Time {
	info, err := os.Stat(name)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// readStep reads a step without its content. It returns io.ErrUnexpectedEOF if a part of the
// step is missing.
func readStep(name string) (*Step, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	head, err := bufio.NewReaderSize(f, 64<<10).ReadBytes('\n')
	if err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	step := &Step{file: name, body: int64(len(head))}
	if err := json.Unmarshal(head, step); err != nil {
		return nil, err
	}
	if info.Size() < step.body+step.Saved {
		return nil, io.ErrUnexpectedEOF
	}
	return step, nil
}

// content returns the saved content of a file.
func (st *Step) content(n Node) ([]byte, error) {
	f, err := os.Open(st.file)
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
	release, err := s.Lock()
	if err != nil {
		return err
	}
	defer release()
	s.mu.Lock()
	delete(s.sizes, filepath.Base(st.file))
	s.mu.Unlock()
	return remove(st.file)
}

// remove removes the files of a step. The mark of an undo goes first: without the step it
// means nothing.
func remove(file string) error {
	for _, name := range []string{strings.TrimSuffix(file, stepSuffix) + undoingSuffix, file} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// isUndoing reports whether an undo of the step was started.
func (st *Step) isUndoing() bool {
	_, err := os.Lstat(strings.TrimSuffix(st.file, stepSuffix) + undoingSuffix)
	return err == nil
}

// markUndoing records that an undo of the step starts.
func (st *Step) markUndoing() error {
	return durable.WriteAlone(strings.TrimSuffix(st.file, stepSuffix)+undoingSuffix, nil, 0o600)
}
