package detached

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/golem-forge/golem/internal/files/durable"
)

// MaxOutput is how many bytes each of the two files with output has at most.
const MaxOutput = 8 << 20

// An output is the end of a program's output on the disk: two files, of which the newer
// one grows.
type output struct {
	dir  string
	file *os.File // nil if it cannot be written
	size int64
}

// newOutput makes an empty output.
func newOutput(dir string) (*output, error) {
	o := &output{dir: dir}
	if err := os.Remove(filepath.Join(dir, olderName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return o, o.begin()
}

// begin begins a new file. A reader of the former one keeps it open.
func (o *output) begin() (err error) {
	name := filepath.Join(o.dir, outputName)
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.size = 0
	o.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return err
}

// write appends output. If the disk is full, that part is missing: the program continues.
func (o *output) write(data []byte) {
	if o == nil || o.file == nil {
		return
	}
	if o.size+int64(len(data)) > MaxOutput {
		o.close()
		name := filepath.Join(o.dir, outputName)
		if durable.Rename(name, filepath.Join(o.dir, olderName)) != nil || o.begin() != nil {
			return
		}
	}
	n, _ := o.file.Write(data)
	o.size += int64(n)
}

func (o *output) close() {
	if o != nil && o.file != nil {
		o.file.Close()
		o.file = nil
	}
}

// followStep is how often Follow looks for more output.
const followStep = 50 * time.Millisecond

// Follow writes the kept output of the program in a directory to w, and what it prints from
// now on, until the program or ctx ends. It reads only files, so the program does not wait
// for w. lost is called if the program printed more than the files hold since the last look.
func Follow(ctx context.Context, dir string, w io.Writer, lost func() error) error {
	older, err := os.Open(filepath.Join(dir, olderName))
	newer, e := os.Open(filepath.Join(dir, outputName))
	if err != nil {
		older = nil
	}
	if e != nil { // the files are just being exchanged, or there are none
		newer = nil
	}
	defer func() { closeFiles(older, newer) }()
	if older != nil {
		if _, err := io.Copy(w, older); err != nil {
			return err
		}
	}
	for {
		running := isHeld(dir)
		if newer != nil {
			if _, err := io.Copy(w, newer); err != nil {
				return err
			}
		}
		next, skipped := nextFile(dir, newer)
		if next != nil {
			if newer != nil {
				if _, err := io.Copy(w, newer); err != nil { // its last output
					next.Close()
					return err
				}
				newer.Close()
			}
			if newer = next; skipped {
				if err := lost(); err != nil {
					return err
				}
			}
			continue
		}
		if !running {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followStep):
		}
	}
}

// nextFile opens the file after the one that was read, nil if there is none. skipped is
// true if the files between them are gone.
func nextFile(dir string, last *os.File) (next *os.File, skipped bool) {
	is := func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || last == nil {
			return false
		}
		read, err := last.Stat()
		return err == nil && os.SameFile(info, read)
	}
	if is(outputName) {
		return nil, false
	}
	next, err := os.Open(filepath.Join(dir, outputName))
	if err != nil {
		return nil, false
	}
	return next, last != nil && !is(olderName)
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
