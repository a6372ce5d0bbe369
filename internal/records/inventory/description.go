package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/records/state"
)

// stateVersion is the version of the files in the state directory of a program. golem
// upgrades the files of an older version when it uses them, except those of changes: they
// have other names and words since version 2. State without a description has version 0: it
// is new, or the changes in it say that golem cannot read them.
const stateVersion = 2

// ErrOlder is the error for changes that this golem cannot read.
var ErrOlder = errors.New("an older golem wrote its changes")

// changeDirs are the directories of a state directory that hold changes.
var changeDirs = []string{"sessions", "layers", "undo"}

// descriptionName is the name of the description in the state directory of a program.
const descriptionName = "state.json"

// A description says what the state directory of a program holds.
type description struct {
	Version   int    `json:"version"`
	Directory string `json:"directory"` // the directory of the program
}

// readDescription reads the description in a state directory. It is zero if there is none.
func readDescription(dir string) (d description, err error) {
	data, err := os.ReadFile(filepath.Join(dir, descriptionName))
	if err != nil {
		return d, nil // state.Open reports what is wrong with the directory
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("state directory %s: %s is damaged; move this file away, and golem writes it again", dir, descriptionName)
	}
	return d, nil
}

// Check returns an error if a later version of golem wrote a state directory, or if an earlier
// one left changes there that this golem cannot read.
func Check(dir string) error {
	d, err := readDescription(dir)
	if err != nil || d.Version == stateVersion || d.Version == 0 {
		return err
	}
	if d.Version < stateVersion {
		var old []string
		for _, name := range changeDirs {
			if entries, err := os.ReadDir(filepath.Join(dir, name)); err == nil && len(entries) > 0 {
				old = append(old, filepath.Join(dir, name))
			}
		}
		if len(old) == 0 {
			return nil
		}
		return fmt.Errorf("state directory %s: %w (version %d of the state, and this golem knows %d); apply or discard them with that golem, then type rm -r %s", dir, ErrOlder, d.Version, stateVersion, strings.Join(old, " "))
	}
	return fmt.Errorf("state directory %s: a newer golem wrote it (version %d of the state, and this golem knows %d); use that golem, or name another directory with --state", dir, d.Version, stateVersion)
}

// Describe writes the description of a state directory, if there is none, or one of an older
// version or of another directory: the state may have been moved with the program. root is
// the program's directory.
func Describe(folder *state.Dir, dir, root string) error {
	if d, err := readDescription(dir); err != nil || d.Version == stateVersion && d.Directory == root {
		return err
	}
	return folder.Update(descriptionName, func([]byte) ([]byte, error) {
		return json.Marshal(description{stateVersion, root})
	})
}
