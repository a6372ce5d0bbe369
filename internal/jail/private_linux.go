package jail

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memory returns a file system in memory with the files of a private directory. It is not
// mounted yet.
func (s step) memory() (int, error) {
	fd, err := fileSystem("tmpfs", 0, [2]string{"mode", "0700"}, [2]string{"size", strconv.FormatInt(s.Size, 10)})
	if err != nil {
		return -1, err
	}
	for _, f := range s.Files {
		if err := writePrivate(fd, f); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// writePrivate writes a file below an open directory.
func writePrivate(dir int, f File) error {
	for _, up := range above("/" + f.Name) {
		if err := unix.Mkdirat(dir, up[1:], 0o700); err != nil && err != unix.EEXIST {
			return err
		}
	}
	fd, err := unix.Openat(dir, f.Name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), path.Base(f.Name))
	_, err = file.Write(f.Data)
	return errors.Join(err, file.Close())
}

// replacement returns a file in memory with the content that a step names. It is not
// mounted yet.
func (s step) replacement() (int, error) {
	dir, err := fileSystem("tmpfs", 0, [2]string{"mode", "0755"}, [2]string{"size", "64k"})
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	const name = "file"
	if err := writePrivate(dir, File{name, []byte(s.Source)}); err != nil {
		return -1, err
	}
	if err := unix.Fchmodat(dir, name, 0o644, 0); err != nil {
		return -1, err
	}
	file, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(file)
	return clone(file, false)
}

// isFile reports whether name is a regular file and no part of the path is a symlink.
func isFile(name string) bool {
	fd, err := openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: noLinks})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// memoryDir returns a directory of the host that is in memory. The level landlock needs
// it for files that must not be written to a disk.
func memoryDir() (string, error) {
	const tmpfs = 0x01021994
	for _, dir := range []string{"/dev/shm", "/run/user/" + strconv.Itoa(os.Geteuid())} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == tmpfs && unix.Access(dir, unix.W_OK|unix.X_OK) == nil {
			return dir, nil
		}
	}
	return "", errors.New("credentials are kept in memory only, and neither /dev/shm nor /run/user is a directory in memory here")
}

// sweepPrivate removes directories in memory whose cell was killed.
func sweepPrivate() {
	if dir, err := memoryDir(); err == nil {
		sweepTemps(dir)
	}
}

// makePrivate makes the private directories of a plan at the level landlock. They are in
// one directory in memory, which the cell removes at its end, and the home has symlinks
// to them. makePrivate returns that directory, or "" if the plan has no private
// directories.
func (p plan) makePrivate() (secret string, err error) {
	for i, s := range p.Steps {
		if s.Do != private {
			continue
		}
		if secret == "" {
			dir, err := memoryDir()
			if err != nil {
				return "", err
			}
			if secret, err = makeTemp(dir); err != nil {
				return "", err
			}
		}
		if err := p.placePrivate(s, filepath.Join(secret, strconv.Itoa(i))); err != nil {
			p.removePrivate(secret)
			return "", fmt.Errorf("%s: %w", s.Target, err)
		}
	}
	return secret, nil
}

// placePrivate makes one private directory and the symlink to it.
func (p plan) placePrivate(s step, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, f := range s.Files {
		if err := writePrivate(fd, f); err != nil {
			return err
		}
	}
	for _, kept := range p.Steps {
		if name, in := strings.CutPrefix(kept.Target, s.Target+"/"); in && kept.Do == bind {
			at := filepath.Join(dir, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.Symlink(kept.Source, at)); err != nil {
				return err
			}
		}
	}
	home, name, err := p.homeOf(s)
	if err != nil {
		return err
	}
	defer home.Close()
	if err := errors.Join(home.MkdirAll(path.Dir(name), 0o700), home.RemoveAll(name)); err != nil {
		return err
	}
	return home.Symlink(dir, name)
}

// homeOf opens the home directory that a private directory is in, and returns the name of
// the private directory there.
func (p plan) homeOf(s step) (*os.Root, string, error) {
	for _, h := range p.Steps {
		if name, in := strings.CutPrefix(s.Target, Home+"/"); in && h.Target == Home && h.Source != "" {
			home, err := os.OpenRoot(h.Source)
			return home, name, err
		}
	}
	return nil, "", errors.New("a private directory is one of the home")
}

// removePrivate removes the private directories and the symlinks to them.
func (p plan) removePrivate(secret string) {
	if secret == "" {
		return
	}
	for i, s := range p.Steps {
		if s.Do != private {
			continue
		}
		if home, name, err := p.homeOf(s); err == nil {
			if to, err := home.Readlink(name); err == nil && to == filepath.Join(secret, strconv.Itoa(i)) {
				home.Remove(name)
			}
			home.Close()
		}
	}
	removeTemp(secret)
}
