package sandbox

import (
	"errors"
	"os"
	"path/filepath"
)

// findSource returns the existing directory on the host that a mount starts from, and the
// path of the mount below it.
func findSource(base, source Host) (dir, prefix string, err error) {
	if base == "" {
		dir, err = resolveSource(source)
		return dir, ".", err
	}
	if !filepath.IsLocal(string(source)) {
		return "", "", &Error{Code: ErrInvalid, Hint: "a source with a base must be a relative path that stays inside the base"}
	}
	dir, err = resolveSource(base)
	return dir, filepath.ToSlash(filepath.Clean(string(source))), err
}

// sourceError explains ErrLink for the source of a mount. It returns other errors
// unchanged.
func sourceError(err error) error {
	if err == ErrLink {
		return &Error{Code: ErrOutside, Hint: "the path of the source has a symlink; name the directory that the symlink points to"}
	}
	return err
}

// resolveSource returns the absolute path of a source without symlinks. It refuses
// directories of the kernel.
func resolveSource(dir Host) (string, error) {
	if dir == "" {
		return "", &Error{Code: ErrInvalid, Hint: "a mount needs a source directory or a backend"}
	}
	abs, err := filepath.Abs(string(dir))
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", err
	}
	for _, kernel := range kernelNames {
		if within(kernel, filepath.ToSlash(real)) {
			return "", &Error{Code: ErrInvalid, Hint: "a source under " + kernel + " has no regular files; mount another directory"}
		}
	}
	return real, nil
}

// kernelNames are directories of the host whose files are interfaces of the kernel.
var kernelNames = []string{"/proc", "/sys", "/dev"}

// mountError returns the error for a source that cannot be mounted. It names the target,
// never the path on the host.
func mountError(target string, err error) *Error {
	code, hint := classify(err)
	var known *Error
	switch {
	case errors.As(err, &known):
		hint = known.Hint
	case errors.Is(err, os.ErrNotExist):
		hint = "the source directory does not exist"
	case code == ErrNotDir:
		hint = "the source is not a directory"
	}
	return &Error{Op: "mount", Path: target, Code: code, Hint: hint}
}

// errLocked is the error if another process holds the lock of a directory for too long.
var errLocked = &Error{Code: ErrConflict, Hint: "another process has locked the directory; try again"}
