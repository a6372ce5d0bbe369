package sandbox

import (
	"errors"
	"os"
	"path/filepath"
)

// anchor returns the existing directory that a mount starts from, and where the
// mount stands below it.
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

// sourceError says of a source what sets it apart from other directories.
func sourceError(err error) error {
	if err == ErrLink {
		return &Error{Code: ErrOutside, Hint: "the path of the source has a symlink; name the directory that the symlink points to"}
	}
	return err
}

// realSource returns the absolute path of a source without links, and refuses
// directories whose files are not files.
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

// kernelNames are directories of the host that hold no files.
var kernelNames = []string{"/proc", "/sys", "/dev"}

// mountError makes the error of a source that cannot be mounted. It names the
// target, never the host's path.
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

// errLocked ends the wait for a directory that somebody keeps locked.
var errLocked = &Error{Code: ErrConflict, Hint: "another process has locked the directory; try again"}
