package export

import (
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// FindDir returns the directory of the host that a name means. A relative name starts at
// the current directory, ~ is the home.
func FindDir(home, to string) (sandbox.Host, error) {
	rest, ok := strings.CutPrefix(to, "~")
	switch {
	case strings.TrimSpace(to) == "" || strings.Contains(to, "\x00"):
		return "", &sandbox.Error{Op: "file_export", Code: "invalid_args", Hint: "name a directory of yours: --to ~/exports"}
	case ok && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator):
		if home == "" {
			return "", &sandbox.Error{Op: "file_export", Code: "invalid_args", Hint: "your home directory is not known here; use an absolute path instead of ~"}
		}
		to = home + rest
	case ok:
		return "", &sandbox.Error{Op: "file_export", Code: "invalid_args", Hint: "golem expands only ~ itself; use an absolute path, or ./~… for a name that begins with ~"}
	}
	whole, err := filepath.Abs(to)
	return sandbox.Host(whole), err
}
