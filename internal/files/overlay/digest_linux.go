package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxDigest is how much content digest reads at most.
const maxDigest = 64 << 20

// digest returns a digest of everything at and below a path: names, kinds, permission bits,
// contents and targets of symlinks, but no times. It returns "" if something cannot be read
// or if there is too much of it.
func (t *tree) digest(name string) string {
	h, left := sha256.New(), int64(maxDigest)
	if err := t.addDigest(h, name, ".", &left); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// addDigest adds one path to a digest, which knows it as at.
func (t *tree) addDigest(h hash.Hash, name, at string, left *int64) error {
	st, err := t.stat(name)
	if err != nil {
		return err
	}
	kind, mode, size, to := kindOf(st), permissions(st), int64(0), ""
	switch kind {
	case Symlink:
		mode = 0
		if to, err = t.readLink(name); err != nil {
			return err
		}
	case File:
		size = st.Size
		if *left -= size; *left < 0 {
			return errors.New("too much content")
		}
	case Dir:
	default:
		return errors.New("a special file")
	}
	fmt.Fprintf(h, "%q %s %o %d %q\n", at, kind, mode, size, to)
	switch kind {
	case File:
		fd, err := t.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), name)
		defer f.Close()
		n, err := io.Copy(h, io.LimitReader(f, size))
		if err == nil && n < size {
			err = io.ErrUnexpectedEOF
		}
		return err
	case Dir:
		names, err := t.list(name)
		if err != nil {
			return err
		}
		for _, base := range names {
			if err := t.addDigest(h, joinName(name, base), joinName(at, base), left); err != nil {
				return err
			}
		}
	}
	return nil
}

// namesBelow returns a digest of the names in a directory and below it, with the permission
// bits of directories and the inodes of everything else. The digest is "" if something else than a directory
// changed since a time, or cannot be read. isOlder is true if no directory changed since.
func (t *tree) namesBelow(dir string, since int64) (sum string, isOlder bool) {
	h, isOlder := sha256.New(), true
	var add func(name, at string) bool
	add = func(name, at string) bool {
		st, err := t.stat(name)
		if err != nil {
			return false
		}
		if kindOf(st) != Dir {
			fmt.Fprintf(h, "%q %d\n", at, st.Ino)
			return st.Ctim.Nano() < since
		}
		fmt.Fprintf(h, "%q dir %o\n", at, permissions(st))
		isOlder = isOlder && st.Ctim.Nano() < since
		names, err := t.list(name)
		if err != nil {
			return false
		}
		for _, base := range names {
			if !add(joinName(name, base), joinName(at, base)) {
				return false
			}
		}
		return true
	}
	if !add(dir, ".") {
		return "", false
	}
	return hex.EncodeToString(h.Sum(nil)), isOlder
}
