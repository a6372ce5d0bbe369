package sandbox

import (
	"errors"
	"os"
	"path/filepath"
)

// anchor returns the existing directory that a mount starts from, and where the
// mount stands below it.
func anchor(base, source Host) (folder, prefix string, err error) {
	if base == "" {
		folder, err = realSource(source)
		return folder, ".", err
	}
	if !filepath.IsLocal(string(source)) {
		return "", "", &Error{Code: ErrInvalid, Hint: "a source with a base is relative to it and does not leave it"}
	}
	folder, err = realSource(base)
	return folder, filepath.ToSlash(filepath.Clean(string(source))), err
}

// sourceError says of a source what sets it apart from other directories.
func sourceError(err error) error {
	if err == ErrLink {
		return &Error{Code: ErrOutside, Hint: "a link stands where the source folder should; name the folder it leads to"}
	}
	return err
}

// realSource returns the absolute path of a source without links, and refuses
// directories whose files are not files.
func realSource(folder Host) (string, error) {
	if folder == "" {
		return "", &Error{Code: ErrInvalid, Hint: "a mount needs a source folder or a backend"}
	}
	abs, err := filepath.Abs(string(folder))
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", err
	}
	for _, kernel := range kernelNames {
		if within(kernel, filepath.ToSlash(real)) {
			return "", &Error{Code: ErrInvalid, Hint: "a source under " + kernel + " holds no files; mount a real folder"}
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
		hint = "the source folder does not exist"
	case code == ErrNotDir:
		hint = "the source is not a folder"
	}
	return &Error{Op: "mount", Path: target, Code: code, Hint: hint}
}

// errLocked ends the wait for a directory that somebody keeps locked.
var errLocked = &Error{Code: ErrConflict, Hint: "somebody holds the folder locked; try again"}
