package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A finding is one promise, and whether it holds here.
type finding struct {
	Name  string `json:"name"`
	Holds string `json:"holds"` // yes, part or no
	Why   string `json:"why"`
	Mend  string `json:"mend,omitempty"`
}

// A diagnosis is all that golem doctor says.
type diagnosis struct {
	Level    string    `json:"level"`   // the strongest boundary around commands
	Default  bool      `json:"default"` // it is the one that golem wants
	Found    []finding `json:"found"`
	Promises []finding `json:"promises"` // why ends the sentence that begins "a command"
}

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say which promises hold on this machine",
		Long: `Say which promises hold on this machine and in the current folder, by trying,
why not where one does not, and what to do about it. Nothing is changed.

With --apparmor it prints the profile that lets golem confine commands on a
machine where AppArmor keeps it from that, as on Ubuntu.

Exit code 0 is that commands run within the default boundary, namespaces; 5 that
they run within a weaker one, or not at all.`,
		Example: `  golem doctor
  golem doctor --json
  golem doctor --apparmor | sudo tee /etc/apparmor.d/golem`,
		Args: noArgs,
	}
	flags := addProgramFlags(cmd)
	profile := false
	cmd.Flags().BoolVar(&profile, "apparmor", false, "print the AppArmor profile for golem, and nothing else")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if profile {
			return printProfile(cmd.OutOrStdout(), wantsJSON(cmd))
		}
		found, err := examine()
		if err != nil {
			return err
		}
		state, where := examineState(flags)
		report := jail.Probe(where, time.Now)
		d := diagnosis{
			Level:    report.Best.String(),
			Default:  report.Best >= jail.Namespaces,
			Found:    append(append(found, state), findings(report.Found)...),
			Promises: findings(report.Promises),
		}
		if wantsJSON(cmd) {
			err = printJSON(cmd.OutOrStdout(), d)
		} else {
			d.print(cmd.OutOrStdout())
		}
		if err == nil && !d.Default {
			err = exit(exitNoSandbox)
		}
		return err
	}
	return cmd
}

// printProfile prints the AppArmor profile for this program.
func printProfile(w io.Writer, asJSON bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text := jail.AppArmor(sandbox.Host(self))
	if asJSON {
		return printJSON(w, map[string]string{"profile": text})
	}
	_, err = io.WriteString(w, text)
	return err
}

func findings(list []jail.Finding) []finding {
	out := []finding{}
	for _, f := range list {
		out = append(out, finding{f.Name, f.Holds.String(), visible.Text(f.Why), visible.Text(f.Mend)})
	}
	return out
}

// print says it to a person: what there is, what that means for a command, and
// what to do about what is missing.
func (d diagnosis) print(w io.Writer) {
	for _, f := range d.Found {
		fmt.Fprintf(w, "%-12s %-5s %s\n", f.Name, f.Holds, f.Why)
	}
	switch {
	case d.Default:
		fmt.Fprintf(w, "\ncommands run at the level %s, the strongest. A command\n", d.Level)
	case d.Level == jail.None.String():
		fmt.Fprintf(w, "\ncommands are not run here: golem has nothing to keep them in. It could not promise that a command\n")
	default:
		fmt.Fprintf(w, "\ncommands run at the level %s, which is weaker than namespaces, the default. A command\n", d.Level)
	}
	for _, p := range d.Promises {
		fmt.Fprintf(w, "  %-5s %s\n", p.Holds, p.Why)
	}
	for _, f := range d.Found {
		if f.Mend != "" {
			fmt.Fprintf(w, "\nto mend %s:\n  %s\n", f.Name, strings.ReplaceAll(f.Mend, "\n", "\n  "))
		}
	}
}

// examineState says where the program here keeps its journal and what was
// answered, and whether it can.
func examineState(flags *programFlags) (finding, sandbox.Host) {
	p, err := flags.load()
	if p == nil {
		return finding{Name: "state", Holds: "no", Why: visible.Text(err.Error())}, ""
	}
	where := visible.Text(string(p.State()))
	folder, err := p.Journal()
	switch {
	case err != nil:
		return finding{Name: "state", Holds: "no", Why: visible.Text(err.Error())}, p.State()
	case folder == nil && !canHold(string(p.State())):
		return finding{Name: "state", Holds: "no", Why: where + ": cannot be made, for something on the way to it is not a folder", Mend: "name another place: --state DIR or GOLEM_STATE"}, p.State()
	case folder == nil:
		return finding{Name: "state", Holds: "yes", Why: where + ": made by the first call"}, p.State()
	}
	folder.Close()
	return finding{Name: "state", Holds: "yes", Why: where}, p.State()
}

// canHold reports whether the nearest thing above a name that is there is a folder.
func canHold(name string) bool {
	for {
		up := filepath.Dir(name)
		if info, err := os.Stat(up); err == nil || up == name {
			return err == nil && info.IsDir()
		}
		name = up
	}
}

func examine() ([]finding, error) {
	here, err := sandbox.Dir(".")
	if err != nil {
		return nil, err
	}
	files := finding{Name: "files", Holds: "yes", Why: "openat2: one system call resolves a name and meets no link"}
	if why := withoutOpenat2(); why != "" {
		files.Why = "os.Root, part by part (" + why + "): slower, the same refusals"
	}
	spelling := finding{Name: "case", Holds: "yes", Why: `"A" and "a" are two names in this folder`}
	if here.Traits().FoldsCase {
		spelling.Holds, spelling.Why = "part", `"A" and "a" may be one name here: other spellings of a mount are refused`
	}
	return []finding{files, spelling}, nil
}
