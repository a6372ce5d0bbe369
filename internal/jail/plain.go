package jail

import (
	"errors"
	"io/fs"
	"os"
)

// Plain returns the text of an error without the host's paths that errors of the system
// contain.
func Plain(err error) string {
	var of *fs.PathError
	var between *os.LinkError
	switch {
	case errors.As(err, &of):
		return of.Op + ": " + of.Err.Error()
	case errors.As(err, &between):
		return between.Op + ": " + between.Err.Error()
	}
	return err.Error()
}
