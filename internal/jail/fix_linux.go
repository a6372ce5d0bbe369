package jail

import (
	"os"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/sandbox"
)

// Fixes returns what root can change on this machine so that golem confines commands
// better. The program is golem's own file.
func Fixes(program sandbox.Host) []Fix { return fixesFor(factsHere(), program) }

// Apply makes the change.
func (f Fix) Apply() error {
	if err := durable.WriteFile(f.File, []byte(f.Content), 0o644); err != nil {
		return err
	}
	if f.Param == "" {
		return nil
	}
	return os.WriteFile(f.Param, []byte(f.Value+"\n"), 0o644)
}
