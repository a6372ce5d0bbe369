package sandbox

// Host is a path on the host. It has its own type so that it cannot slip into
// an error, a result or a log: printed or marshalled it hides itself. Where a
// host path is truly wanted, on the user's side, convert it: string(h).
type Host string

const hiddenHost = "(host path)"

// String hides the path.
func (Host) String() string { return hiddenHost }

// GoString hides the path from %#v.
func (Host) GoString() string { return hiddenHost }

// MarshalText hides the path from encoders.
func (Host) MarshalText() ([]byte, error) { return []byte(hiddenHost), nil }
