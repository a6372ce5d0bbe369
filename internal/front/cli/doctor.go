package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A finding is one promise, and whether it holds here.
type finding struct {
	Name  string `json:"name"`
	Holds string `json:"holds"` // yes, part or no
	Why   string `json:"why"`
}

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say which promises hold on this machine",
		Long: `Say which promises hold on this machine and in the current folder, by trying.
Nothing is changed.`,
		Example: "  golem doctor\n  golem doctor --json",
		Args:    noArgs,
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		found, err := examine()
		if err != nil {
			return err
		}
		found = append(found, examineState(flags))
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), found)
		}
		for _, f := range found {
			fmt.Fprintf(cmd.OutOrStdout(), "%-8s %-5s %s\n", f.Name, f.Holds, f.Why)
		}
		return nil
	}
	return cmd
}

// examineState says where the program here keeps its journal and what was
// answered, and whether it can.
func examineState(flags *programFlags) finding {
	p, err := flags.load()
	if p == nil {
		return finding{"state", "no", visible.Text(err.Error())}
	}
	where := string(p.State())
	folder, err := p.Journal()
	switch {
	case err != nil:
		return finding{"state", "no", visible.Text(err.Error())}
	case folder == nil:
		return finding{"state", "yes", where + ": made by the first call"}
	}
	folder.Close()
	return finding{"state", "yes", where}
}

func examine() ([]finding, error) {
	here, err := sandbox.Dir(".")
	if err != nil {
		return nil, err
	}
	files := finding{"files", "yes", "openat2: one system call resolves a name and meets no link"}
	if why := withoutOpenat2(); why != "" {
		files = finding{"files", "yes", "os.Root, part by part (" + why + "): slower, the same refusals"}
	}
	spelling := finding{"case", "yes", `"A" and "a" are two names in this folder`}
	if here.Traits().FoldsCase {
		spelling = finding{"case", "part", `"A" and "a" may be one name here: other spellings of a mount are refused`}
	}
	return []finding{files, spelling,
		{"jail", "no", "not in this version: golem runs no commands"},
		{"layers", "no", "not in this version: a mount is ro or rw"},
	}, nil
}
