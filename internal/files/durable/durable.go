// Package durable replaces files so that a crash of the process or the machine leaves the
// old content or the new content, never a mix. It syncs the content before the file gets
// its name, and the directory afterwards. A change that a function has reported as done
// survives a crash.
package durable

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces the file name with data, or creates it. Several processes may write
// the same name at once: one of them wins.
func WriteFile(name string, data []byte, mode fs.FileMode) error {
	return Replace(name, filepath.Base(name)+"-"+rand.Text()[:8]+".new", mode, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// WriteAlone is WriteFile for the only writer of name. Its temporary file is name.new. If
// a writer is killed, the next one replaces that file.
func WriteAlone(name string, data []byte, mode fs.FileMode) error {
	return Replace(name, filepath.Base(name)+".new", mode, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Replace replaces the file name with a temporary file in the same directory, after write
// has filled it.
func Replace(name, temp string, mode fs.FileMode, write func(*os.File) error) error {
	dir, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return ReplaceIn(dir, filepath.Base(name), temp, mode, write)
}

// ReplaceIn is Replace in an open directory.
func ReplaceIn(dir *os.Root, name, temp string, mode fs.FileMode, write func(*os.File) error) (err error) {
	if err := dir.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			dir.Remove(temp)
		}
	}()
	err = write(file)
	if is, e := file.Stat(); err == nil && e == nil && is.Mode().Perm() != mode.Perm() {
		err = file.Chmod(mode) // the umask had removed some bits
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return RenameIn(dir, temp, name)
}

// RenameIn renames a file or a directory whose content is synced, and syncs dir.
func RenameIn(dir *os.Root, from, to string) error {
	if err := dir.Rename(from, to); err != nil {
		return err
	}
	return SyncIn(dir)
}

// SyncIn syncs the names in an open directory.
func SyncIn(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return syncDir(f)
}

// Move syncs the content of a file, renames it, and syncs the directories of both names.
func Move(from, to string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	if err := errors.Join(syncFile(file), file.Close()); err != nil {
		return err
	}
	return Rename(from, to)
}

// Rename renames a file or a directory whose content is synced, and syncs the directories
// of both names.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if filepath.Dir(from) != filepath.Dir(to) {
		if err := SyncDir(filepath.Dir(from)); err != nil {
			return err
		}
	}
	return SyncDir(filepath.Dir(to))
}

// SyncDir syncs the names in a directory.
func SyncDir(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return syncDir(f)
}

// SyncFiles syncs a directory and the files in it, but no subdirectories.
func SyncFiles(name string) error {
	list, err := os.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !e.Type().IsRegular() {
			continue
		}
		file, err := os.Open(filepath.Join(name, e.Name()))
		if err != nil {
			return err
		}
		if err := errors.Join(syncFile(file), file.Close()); err != nil {
			return err
		}
	}
	return SyncDir(name)
}

// SyncTree syncs every file and directory at and below name. Use it before you rename a
// finished directory.
func SyncTree(name string) error {
	return filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return SyncDir(path)
		case !e.Type().IsRegular():
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(syncFile(file), file.Close())
	})
}
