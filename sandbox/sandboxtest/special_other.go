//go:build !linux && !darwin

package sandboxtest

import (
	"errors"
	"io/fs"
)

func plantSpecial(string, fs.FileMode) error { return errors.ErrUnsupported }
