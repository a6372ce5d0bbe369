package session

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/records/secret"
	"github.com/golem-forge/golem/internal/work/toolset/shell"
)

// placeName is the file of an owner with its current directory and variables.
const placeName = "place.json"

// ShellPlace returns the directory and the variables that the commands of an owner start
// with. They are those at the end of its last command in the session. Without a session
// they last as long as the gate. golem does not store variables whose names look secret.
func (s *Session) ShellPlace(o Owner) *shell.Place {
	if s == nil {
		return shell.NewPlace(shell.Standing{}, nil)
	}
	var begin shell.Standing
	data, err := os.ReadFile(filepath.Join(s.ownerDir(o), placeName))
	if err != nil || json.Unmarshal(data, &begin) != nil {
		begin = shell.Standing{} // no command has ended yet, or the file is damaged
	}
	return shell.NewPlace(begin, func(now shell.Standing) error {
		now.Set = maps.Clone(now.Set)
		maps.DeleteFunc(now.Set, func(name, _ string) bool { return secret.IsVariable(name) })
		if _, err := s.home(o); err != nil {
			return err
		}
		return s.writeFile(filepath.Join(ownersName, string(o), placeName), now)
	})
}
