package cli

import (
	"encoding/json"
	"path"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// meant suggests the sandbox name of a file that the user named by its host path, or
// returns "". Names begin at the top of the program, no matter where golem starts. Only
// the user may see this text.
func meant(p *program.Program, args json.RawMessage, wrong *sandbox.Error) string {
	var given struct {
		Path  string   `json:"path"`
		Paths []string `json:"paths"`
		Files []string `json:"files"`
	}
	if wrong == nil || wrong.Code != sandbox.ErrNotFound || json.Unmarshal(args, &given) != nil {
		return ""
	}
	for _, one := range slices.Concat(given.Paths, given.Files) {
		if path.Join("/", one) == wrong.Path {
			given.Path = one
		}
	}
	if given.Path == "" {
		return ""
	}
	return meantName(p, given.Path, wrong.Path)
}

// meantName does the same for one path that the user typed, and the sandbox name for which
// golem took it.
func meantName(p *program.Program, typed, taken string) string {
	file, err := filepath.Abs(typed)
	if err == nil {
		file, err = filepath.EvalSymlinks(file)
	}
	if err != nil {
		return "" // the file does not exist
	}
	name, ok := nameIn(newPaths(p, "").mounts, file)
	if !ok || name == taken {
		return ""
	}
	return "the file of that name here is " + sandbox.Shown(name) + ": names begin at the top of the program, wherever you are"
}
