package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/golem-forge/golem/internal/files/durable"
)

// fileBlobs is a directory with one file per content, named by its hash. A file gets its
// name when it is complete and synced.
type fileBlobs struct {
	folder *Dir
	name   string
}

// Blobs returns the contents of a name made of a-z, 0-9, - and _.
func (f *Dir) Blobs(name string) (Blobs, error) {
	if !plainName(name) {
		return nil, fmt.Errorf("contents %q: no name for them; use a-z, 0-9, - and _", name)
	}
	return &fileBlobs{f, name + ".blobs"}, nil
}

// Put implements Blobs.
func (b *fileBlobs) Put(content io.Reader) (string, error) {
	room, err := b.folder.room(b.name, true)
	if err != nil {
		return "", err
	}
	defer room.Close()
	file, temp, err := room.newTemp()
	if err != nil {
		return "", trouble(b.name, err)
	}
	defer room.unlock(file)
	hash := sha256.New()
	if _, err = io.Copy(io.MultiWriter(file, hash), content); err == nil {
		err = file.Sync()
	}
	name := hex.EncodeToString(hash.Sum(nil))
	if _, ok := room.at(temp, file); err == nil && !ok {
		return "", fmt.Errorf("%s: %w; put it again", b.name, errTaken)
	}
	if err == nil {
		err = durable.RenameIn(room.root, temp, name)
	}
	if err != nil {
		room.root.Remove(temp)
		return "", trouble(b.name, err)
	}
	return name, nil
}

// desks is how many contents can be written at once; other writers wait.
const desks = 64

// newTemp returns a locked, empty file to write to. It uses a fixed set of names, so that
// the files of killed writers are used again.
func (f *Dir) newTemp() (file *held, name string, err error) {
	for i := 0; file == nil; i++ {
		name = fmt.Sprintf("new-%02d", i)
		if file, err = f.lock(name, nil, i == desks-1); err != nil {
			return nil, "", err
		}
	}
	if err := file.Truncate(0); err != nil {
		f.unlock(file)
		return nil, "", err
	}
	return file, name, nil
}

// Get implements Blobs.
func (b *fileBlobs) Get(hash string, most int64) ([]byte, error) {
	if !isHash(hash) {
		return nil, fmt.Errorf("%s: %q is no hash; one has 64 digits", b.name, hash)
	}
	room, err := b.folder.room(b.name, false)
	if err != nil {
		return nil, err
	}
	defer room.Close()
	file, err := open(room.root, hash, toRead)
	if err != nil {
		return nil, trouble(b.name, err)
	}
	defer file.Close()
	is, err := file.Stat()
	if err == nil && is.Size() > most {
		return nil, fmt.Errorf("%s: %s has %d bytes; at most %d are read", b.name, hash, is.Size(), most)
	}
	data, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return nil, trouble(b.name, err)
	}
	if hexHash(string(data)) != hash {
		return nil, fmt.Errorf("%s: %s: damaged; it does not have its hash", b.name, hash)
	}
	return data, nil
}

// Remove implements Blobs.
func (b *fileBlobs) Remove(hash string) error {
	if !isHash(hash) {
		return fmt.Errorf("%s: %q is no hash; one has 64 digits", b.name, hash)
	}
	room, err := b.folder.room(b.name, false)
	if err == nil {
		defer room.Close()
		err = room.root.Remove(hash)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return trouble(b.name, err)
}

// isHash reports whether a text has the form of a hash from Put.
func isHash(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size && hex.EncodeToString(sum) == text
}
