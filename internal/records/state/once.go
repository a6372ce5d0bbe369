package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// maxValue limits the size of a key and its value together.
const maxValue = 16 << 20

// A fileOnce is a directory with one file per key, named by the key's hash. A file gets
// its name when it is complete and synced, and never a second time.
type fileOnce struct {
	folder *Dir
	name   string
}

// Once returns the decisions of a name made of a-z, 0-9, - and _.
func (f *Dir) Once(name string) (Once, error) {
	if !plainName(name) {
		return nil, fmt.Errorf("decisions %q: no name for them; use a-z, 0-9, - and _", name)
	}
	return &fileOnce{f, name + ".once"}, nil
}

// hexHash returns the hexadecimal SHA-256 of a text.
func hexHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Decide implements Once.
func (o *fileOnce) Decide(key string, value []byte) (kept []byte, first bool, err error) {
	if len(key)+len(value) > maxValue {
		return nil, false, fmt.Errorf("%s: a value of %d bytes; at most %d are kept", o.name, len(value), maxValue)
	}
	room, err := o.folder.room(o.name, true)
	if err != nil {
		return nil, false, err
	}
	defer room.Close()
	free, err := room.guard(o.name)
	if err != nil {
		return nil, false, err
	}
	defer free()
	kept, ok, err := room.decided(key)
	if err == nil && !ok {
		kept, first, err = value, true, room.decide(key, value)
	}
	if err == nil {
		// The process that decided it may have been killed before its sync.
		err = room.sync()
	}
	if err != nil {
		return nil, false, trouble(o.name, err)
	}
	return kept, first, nil
}

// decide gives a key its value. It uses a hard link, which cannot replace a file.
func (f *Dir) decide(key string, value []byte) error {
	const temp = "decide.new"
	err := f.write(temp, decision(key, value), []byte(key), value)
	if err == nil {
		err = f.root.Link(temp, hexHash(key))
	}
	if gone := f.root.Remove(temp); err == nil {
		err = gone
	}
	return err
}

// decision returns the first line of a key's file. It covers the whole file.
func decision(key string, value []byte) []byte {
	return fmt.Appendf(nil, "once 1 %d %d %s\n", len(key), len(value), hexHash(key+string(value)))
}

// decided returns the value of a key, and whether it has one.
func (f *Dir) decided(key string) ([]byte, bool, error) {
	name := hexHash(key)
	file, err := open(f.root, name, toRead)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxValue+1024))
	if err != nil {
		return nil, false, trouble(name, err)
	}
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	value, ok := bytes.CutPrefix(rest, []byte(key))
	if !ok || !bytes.Equal(append(line, '\n'), decision(key, value)) {
		return nil, false, fmt.Errorf("%s: damaged; move it away to decide anew", name)
	}
	return value, true, nil
}

// Look implements Once.
func (o *fileOnce) Look(key string) ([]byte, bool, error) {
	room, err := o.folder.room(o.name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer room.Close()
	value, ok, err := room.decided(key)
	return value, ok, trouble(o.name, err)
}

// Forget implements Once.
func (o *fileOnce) Forget(key string) error {
	room, err := o.folder.room(o.name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer room.Close()
	if err := room.root.Remove(hexHash(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return trouble(o.name, err)
	}
	return trouble(o.name, room.sync())
}
