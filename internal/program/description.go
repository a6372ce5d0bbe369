package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/sandbox"
)

// stateVersion is the version of the files in the state directory of a program. golem
// reads the files of every older version, and upgrades them when it uses them. State
// without a description has version 0.
const stateVersion = 1

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

// checkState returns an error if a later version of golem wrote the program's state.
func checkState(p *Program) error {
	d, err := readDescription(p.state)
	if err != nil || d.Version <= stateVersion {
		return err
	}
	return fmt.Errorf("state directory %s: a newer golem wrote it (version %d of the state, and this golem knows %d); use that golem, or name another directory with --state", p.state, d.Version, stateVersion)
}

// describeState writes the description of the program's state, if there is none or one of an
// older version.
func describeState(p *Program, folder *state.Dir) error {
	if d, err := readDescription(p.state); err != nil || d.Version == stateVersion {
		return err
	}
	return folder.Update(descriptionName, func([]byte) ([]byte, error) {
		return json.Marshal(description{stateVersion, p.root})
	})
}

// A Known is a directory that golem keeps state for.
type Known struct {
	Name      string       // the name of the directory
	State     sandbox.Host // the state directory
	Directory sandbox.Host // "" if an older golem wrote the state and did not record it
}

// KnownPrograms returns all directories that golem keeps state for, sorted by name. A
// directory appears twice if it has a program, and golem exec was used there without it.
func KnownPrograms(o Options) ([]Known, error) {
	entries, err := os.ReadDir(o.stateBase())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Known
	for _, e := range entries {
		dir := filepath.Join(o.stateBase(), e.Name())
		d, wrong := readDescription(dir)
		if !e.IsDir() || wrong == nil && d.Version == 0 && !isState(dir) {
			continue
		}
		if d.Directory == "" {
			d.Directory = findDirectory(dir)
		}
		list = append(list, Known{NameOf(dir), sandbox.Host(dir), sandbox.Host(d.Directory)})
	}
	return list, err
}

// isState reports whether a directory has the state of a program.
func isState(dir string) bool {
	return audit.IsJournal(dir) || exists(filepath.Join(dir, "sessions"))
}

// findDirectory returns the directory whose state an older golem wrote, "" if golem cannot
// find it. The name of the state directory shows whether a guess is right.
func findDirectory(dir string) string {
	list, err := session.Store{State: dir}.List()
	if err != nil {
		return ""
	}
	for _, s := range list {
		for _, m := range s.Mounts {
			if stateName(m.Source) == strings.TrimSuffix(filepath.Base(dir), bareSuffix) {
				return m.Source
			}
		}
	}
	return ""
}
