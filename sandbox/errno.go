package sandbox

import (
	"errors"
	"syscall"
)

// classifyErrno returns the code for an error of the system, with a hint for rare ones.
// It returns "" for other errors.
func classifyErrno(err error) (Code, string) {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return "", ""
	}
	switch errno {
	case syscall.ENOENT:
		return ErrNotFound, ""
	case syscall.EEXIST:
		return ErrExists, ""
	case syscall.ENOTEMPTY:
		return ErrNotEmpty, ""
	case syscall.ENOTDIR:
		return ErrNotDir, ""
	case syscall.EISDIR:
		return ErrIsDir, ""
	case syscall.ENXIO, syscall.ENODEV:
		return ErrNotRegular, ""
	case syscall.ENAMETOOLONG:
		return ErrInvalid, "the name is too long for the host"
	case syscall.EINVAL:
		return ErrInvalid, "the host rejects it"
	case syscall.ELOOP, syscall.EXDEV:
		return ErrOutside, ""
	case syscall.EROFS:
		return ErrReadOnly, "the host's file system is read-only"
	case syscall.EACCES, syscall.EPERM:
		return ErrOutside, "the host's permissions deny it"
	case syscall.EOVERFLOW:
		return ErrOutside, "the overlay cannot store the group of a directory; change it to your own group with chgrp"
	case syscall.EFBIG:
		return ErrTooLarge, "too large for the host's file system"
	case syscall.ENOSPC, syscall.EDQUOT:
		return ErrLimit, "no space left on the host; nothing was changed"
	case syscall.EMFILE, syscall.ENFILE:
		return ErrLimit, "too many open files on the host"
	case syscall.EAGAIN, syscall.EBUSY:
		return ErrConflict, "in use on the host; try again"
	}
	return "", ""
}

func isNotDir(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno == syscall.ENOTDIR
}
