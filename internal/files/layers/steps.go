package layers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/files/durable"
)

// A Step is a point to which a session can go back: what it held after a command.
type Step struct {
	Number  int       `json:"number"`
	Parent  int       `json:"parent,omitempty"` // the step before it, 0 for the start of the session
	Command string    `json:"command,omitempty"`
	Time    time.Time `json:"time,omitzero"` // when the command began
	// Layers has the name of the top layer of each overlay, "" for one without changes.
	Layers []string `json:"layers,omitempty"`
}

// Steps are the steps of a session. The last step on the line is Now. Begun describes what has
// run since, which will be the next step.
type Steps struct {
	Now   int    `json:"now"`
	Begun Step   `json:"begun"`
	All   []Step `json:"steps,omitempty"`
}

// stepsName is the file in a session with its steps.
const stepsName = "steps.json"

// ReadSteps reads the steps of the session whose overlays are in dir.
func ReadSteps(dir string) (s Steps, err error) {
	data, err := os.ReadFile(filepath.Join(dir, stepsName))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: not as it was written", stepsName)
	}
	return s, nil
}

// Write replaces the steps of a session.
func (s Steps) Write(dir string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return durable.WriteAlone(filepath.Join(dir, stepsName), data, 0o600)
}

// Find returns the step with a number. 0 is the start of the session.
func (s Steps) Find(number int) (Step, bool) {
	if number == 0 {
		return Step{}, true
	}
	i := slices.IndexFunc(s.All, func(one Step) bool { return one.Number == number })
	if i < 0 {
		return Step{}, false
	}
	return s.All[i], true
}

// Line returns the steps that led to what the session holds now, the first one first.
func (s Steps) Line() (line []Step) {
	for n := s.Now; n != 0 && len(line) < len(s.All); {
		one, ok := s.Find(n)
		if !ok {
			break
		}
		line, n = append(line, one), one.Parent
	}
	slices.Reverse(line)
	return line
}

// Note makes a step of what the overlays of a session hold in frozen layers, if that is no step
// yet.
func (s *Steps) Note(names []string) {
	now, _ := s.Find(s.Now)
	changed := false
	for i, name := range names {
		changed = changed || i < len(now.Layers) && now.Layers[i] != name || i >= len(now.Layers) && name != ""
	}
	if !changed {
		return
	}
	one := s.Begun
	one.Number, one.Parent, one.Layers = 1, s.Now, names
	for _, other := range s.All {
		one.Number = max(one.Number, other.Number+1)
	}
	s.All, s.Now = append(s.All, one), one.Number
	s.forgetOld()
}

// maxSteps is how many steps of a session golem keeps.
const maxSteps = 50

// forgetOld forgets the oldest steps.
func (s *Steps) forgetOld() {
	if len(s.All) > maxSteps {
		s.All = slices.Clone(s.All[len(s.All)-maxSteps:])
	}
}

// LayersOf returns the top layers that the overlay with a number has in the steps.
func (s Steps) LayersOf(i int) (names []string) {
	for _, one := range s.All {
		if i >= 0 && i < len(one.Layers) && one.Layers[i] != "" {
			names = append(names, one.Layers[i])
		}
	}
	return names
}
