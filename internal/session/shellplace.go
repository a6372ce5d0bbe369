package session

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/toolset/shell"
)

// placeName is the file of an owner that says where its commands go on.
const placeName = "place.json"

// loadPlace returns where commands of an owner begin: where its last one in the session ended.
// Without a session it is forgotten with the door. A value that looks like a secret is not
// written.
func (s *Session) ShellPlace(o Owner) *shell.Place {
	if s == nil {
		return shell.NewPlace(shell.Standing{}, nil)
	}
	var begin shell.Standing
	data, err := os.ReadFile(filepath.Join(s.ownerDir(o), placeName))
	if err != nil || json.Unmarshal(data, &begin) != nil {
		begin = shell.Standing{} // the first one, or not as it was written
	}
	return shell.NewPlace(begin, func(now shell.Standing) error {
		now.Set = maps.Clone(now.Set)
		maps.DeleteFunc(now.Set, func(name, _ string) bool { return audit.LooksSecret(name) })
		if _, err := s.home(o); err != nil {
			return err
		}
		return s.writeFile(filepath.Join(ownersName, string(o), placeName), now)
	})
}
