package export

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/sandbox"
)

// A targetDir is a directory of the user's that files are written into.
type targetDir struct {
	path string
	own  []sandbox.Host // directories that nothing is written into
}

// check refuses a directory that nothing may be written into. It also refuses one that does
// not exist and whose parent does not exist.
func (f *targetDir) check(op string) error {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(f.path))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &sandbox.Error{Op: op, Code: sandbox.ErrNotFound, Hint: "the directory to export to does not exist, and neither does the one above it; make it first"}
	case err != nil:
		return hostError(op, err)
	case !info.IsDir():
		return &sandbox.Error{Op: op, Code: sandbox.ErrNotDir, Hint: "--to names something that is not a directory"}
	}
	f.path = resolveLinks(f.path)
	own := make([]sandbox.Host, len(f.own))
	for i, h := range f.own {
		own[i] = sandbox.Host(resolveLinks(string(h)))
	}
	f.own = own
	for dir := f.path; ; dir = filepath.Dir(dir) {
		if f.isOwn(dir) {
			return ownDirError(op)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// resolveLinks resolves the symlinks of the part of a path that exists.
func resolveLinks(name string) string {
	if at, err := filepath.EvalSymlinks(name); err == nil {
		return at
	}
	if above := filepath.Dir(name); above != name {
		return filepath.Join(resolveLinks(above), filepath.Base(name))
	}
	return name
}

func ownDirError(op string) error {
	return &sandbox.Error{Op: op, Code: sandbox.ErrOutside,
		Hint: "workers can see that directory, or golem keeps its state there; name another one, or use golem apply or golem tool git_push"}
}

// isOwn reports whether a directory is one that nothing is written into.
func (f *targetDir) isOwn(dir string) bool {
	info, err := os.Stat(dir)
	return slices.ContainsFunc(f.own, func(h sandbox.Host) bool {
		if string(h) == dir {
			return true
		}
		own, bad := os.Stat(string(h))
		return err == nil && bad == nil && os.SameFile(info, own)
	})
}

// hashAt returns the hash of the file at a name, or "" if there is none. Anything else at
// the name is an error.
func (f *targetDir) hashAt(op, name string) (sum string, err error) {
	root, err := os.OpenRoot(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", hostError(op, err)
	}
	defer root.Close()
	if err := f.checkPath(op, root, path.Dir(name)); err != nil {
		return "", err
	}
	return fileSum(op, root, name)
}

// checkPath refuses a path through a symlink, or into a directory of golem's.
func (f *targetDir) checkPath(op string, root *os.Root, dir string) error {
	at := ""
	for part := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, part)
		info, err := root.Lstat(filepath.FromSlash(at))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if f.isOwn(filepath.Join(f.path, filepath.FromSlash(at))) {
				return ownDirError(op)
			}
			continue
		case err != nil:
			return hostError(op, err)
		case !info.IsDir():
			return &sandbox.Error{Op: op, Code: sandbox.ErrNotDir, Hint: sandbox.Shown(at) + " in that directory is a file or a symlink, not a directory; move it away first"}
		case f.isOwn(filepath.Join(f.path, filepath.FromSlash(at))):
			return ownDirError(op)
		}
	}
	return nil
}

func fileSum(op string, root *os.Root, name string) (string, error) {
	name = filepath.FromSlash(name)
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", hostError(op, err)
	case !info.Mode().IsRegular():
		return "", &sandbox.Error{Op: op, Code: sandbox.ErrExists, Hint: sandbox.Shown(name) + " in that directory is not a file; move it away first"}
	}
	file, err := root.Open(name)
	if err != nil {
		return "", hostError(op, err)
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", hostError(op, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// writeAll writes files. It first writes all of them under temporary names. Only if each is as
// it was shown, it gives them their final names, one after the other. It returns how many
// have theirs.
func (f *targetDir) writeAll(ctx context.Context, op string, list []exported, open func(name string) (io.ReadCloser, error)) (written int, err error) {
	var made []string // directories to remove after a failure
	if err := os.Mkdir(f.path, 0o777); err == nil {
		defer func() {
			if written == 0 {
				os.Remove(f.path)
			}
		}()
	} else if !errors.Is(err, fs.ErrExist) {
		return 0, hostError(op, err)
	}
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return 0, hostError(op, err)
	}
	defer root.Close()
	temporary := make([]string, len(list))
	defer func() {
		for _, name := range temporary {
			if name != "" {
				root.Remove(name)
			}
		}
		if written == 0 {
			for _, dir := range slices.Backward(made) {
				root.Remove(dir)
			}
		}
	}()
	for i, file := range list {
		if err := f.makeDirs(op, root, path.Dir(file.to), &made); err != nil {
			return 0, err
		}
		temporary[i] = filepath.FromSlash(path.Join(path.Dir(file.to), ".golem-export-"+rand.Text()[:12]))
		if err := write(ctx, op, root, temporary[i], file, open); err != nil {
			return 0, err
		}
	}
	for i, file := range list {
		if err := settle(op, root, temporary[i], file); err != nil {
			return written, err
		}
		temporary[i] = ""
		written++
	}
	return written, nil
}

// makeDirs creates the directories of a file.
func (f *targetDir) makeDirs(op string, root *os.Root, dir string, made *[]string) error {
	if err := f.checkPath(op, root, dir); err != nil || dir == "." {
		return err
	}
	at := ""
	for part := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, part)
		switch err := root.Mkdir(filepath.FromSlash(at), 0o777); {
		case err == nil:
			*made = append(*made, filepath.FromSlash(at))
		case !errors.Is(err, fs.ErrExist):
			return hostError(op, err)
		}
	}
	return nil
}

// write writes a file under a temporary name, and compares it with the content that was
// shown.
func write(ctx context.Context, op string, root *os.Root, name string, file exported, open func(string) (io.ReadCloser, error)) error {
	from, err := open(file.name)
	if err != nil {
		return changedError(op, file.name)
	}
	defer from.Close()
	mode := fs.FileMode(0o666)
	if file.executable {
		mode = 0o777
	}
	if old, err := root.Lstat(filepath.FromSlash(file.to)); err == nil && file.was != "" {
		// Only users who could read or write the old file may read or write the new one.
		mode &= old.Mode().Perm() | old.Mode().Perm()&0o444>>2
	}
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return hostError(op, err)
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(to, h), contextual{ctx, from})
	if err == nil {
		err = to.Sync()
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return hostError(op, err)
	}
	if hex.EncodeToString(h.Sum(nil)) != file.sum {
		return changedError(op, file.name)
	}
	return nil
}

// settle gives a written file its final name. It replaces only the file that was shown as
// replaced.
func settle(op string, root *os.Root, temporary string, file exported) error {
	name := filepath.FromSlash(file.to)
	now, err := fileSum(op, root, file.to)
	if err != nil {
		return err
	}
	if now != file.was {
		return &sandbox.Error{Op: op, Code: sandbox.ErrConflict, Hint: sandbox.Shown(file.to) + " in that directory has changed since golem showed it; look at it, and make the call again"}
	}
	if file.was == "" {
		err := root.Link(temporary, name) // a hard link never replaces a file
		if err == nil {
			root.Remove(temporary)
			return syncParent(op, root, name)
		}
		if errors.Is(err, fs.ErrExist) {
			return &sandbox.Error{Op: op, Code: sandbox.ErrExists, Hint: sandbox.Shown(file.to) + " has just appeared in that directory; look at it, and make the call again"}
		}
		claim, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // a disk without hard links
		if err != nil {
			return hostError(op, err)
		}
		claim.Close()
	}
	if err := root.Rename(temporary, name); err != nil {
		return hostError(op, err)
	}
	return syncParent(op, root, name)
}

// syncParent syncs the directory that holds a name.
func syncParent(op string, root *os.Root, name string) error {
	dir, err := root.OpenRoot(filepath.Dir(name))
	if err != nil {
		return hostError(op, err)
	}
	defer dir.Close()
	if err := durable.SyncIn(dir); err != nil {
		return hostError(op, err)
	}
	return nil
}

// hostError returns an error of the host without its paths.
func hostError(op string, err error) error {
	var known *sandbox.Error
	if errors.As(err, &known) {
		return err
	}
	code := sandbox.ErrInternal
	switch {
	case errors.Is(err, fs.ErrPermission):
		code = sandbox.ErrReadOnly
	case errors.Is(err, fs.ErrNotExist):
		code = sandbox.ErrNotFound
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		code = "timeout"
	}
	var at *fs.PathError
	var two *os.LinkError
	switch {
	case errors.As(err, &at):
		err = at.Err
	case errors.As(err, &two):
		err = two.Err
	}
	return &sandbox.Error{Op: op, Code: code, Hint: "the directory to export to: " + err.Error() + "; look at it, or name another"}
}

// hint returns the hint of an error.
func hint(err error) string {
	var known *sandbox.Error
	if errors.As(err, &known) {
		return known.Hint
	}
	return "the host failed"
}
