package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
)

// A directoryStatus says what waits in one directory.
type directoryStatus struct {
	Directory string `json:"directory"` // "" if golem does not know it
	State     string `json:"state"`     // the state directory
	statusDocument
	Why string `json:"problem,omitempty"` // why golem cannot say what waits there
}

// statusOfAll shows what waits in every directory.
func (f *programFlags) statusOfAll(cmd *cobra.Command, most int) error {
	if f.dir != "." || f.entry != "" || len(f.set) > 0 {
		return usageError("--all is for every directory; do not use -C, --entry or --set with it")
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	list, err := inbox.Directories(cmd.Context(), o, most)
	if err != nil {
		return err
	}
	if !wantsJSON(cmd) {
		printStatusOfAll(cmd, o.Home, list)
		return nil
	}
	documents := []directoryStatus{}
	for _, d := range list {
		documents = append(documents, directoryStatus{d.Path, string(d.State), newStatusDocument(d.Waiting), d.Problem})
	}
	return printJSON(cmd.OutOrStdout(), map[string]any{"directories": documents})
}

func printStatusOfAll(cmd *cobra.Command, home string, list []inbox.Directory) {
	out := cmd.OutOrStdout()
	if len(list) == 0 {
		fmt.Fprintln(out, "nothing waits for you in any directory")
		return
	}
	for i, d := range list {
		if i > 0 {
			fmt.Fprintln(out)
		}
		name := cmp.Or(visible.HomeRelative(d.Path, home), string(d.State))
		fmt.Fprintln(out, visible.Text(name))
		if d.Problem != "" {
			fmt.Fprintln(out, "  "+d.Problem)
			continue
		}
		printStatus(indented{out}, d.Waiting, d.Path, " -C "+visible.CommandLine(d.Path))
		if len(d.Sessions) > 0 {
			fmt.Fprintf(out, "  next: cd %s && golem diff\n", visible.CommandLine(d.Path))
		}
	}
}

// indented indents each line. Every Write is one line.
type indented struct{ io.Writer }

// Write implements io.Writer.
func (w indented) Write(line []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, "  "); err != nil {
		return 0, err
	}
	return w.Writer.Write(line)
}
