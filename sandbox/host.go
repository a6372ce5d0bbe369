package sandbox

import (
	"fmt"
	"io"
)

// Host is a path on the host. It is a separate type so that it cannot get into an error,
// a result or a log by accident. Printing or marshalling it hides the path. To get the
// path, for the user, convert it: string(h).
type Host string

const hiddenHost = "(host path)"

// String hides the path.
func (Host) String() string { return hiddenHost }

// Format hides the path from every verb of package fmt.
func (Host) Format(w fmt.State, _ rune) { io.WriteString(w, hiddenHost) }

// MarshalText hides the path from encoders.
func (Host) MarshalText() ([]byte, error) { return []byte(hiddenHost), nil }
