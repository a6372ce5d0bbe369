package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/visible"
)

// A directoryStatus says what waits in one directory.
type directoryStatus struct {
	Directory string `json:"directory"` // "" if golem does not know it
	State     string `json:"state"`     // the state directory
	statusDocument
	Why  string `json:"problem,omitempty"` // why golem cannot say what waits there
	rows [][]string
}

// statusOfAll shows what waits in every directory.
func (f *programFlags) statusOfAll(cmd *cobra.Command) error {
	if f.dir != "." || f.entry != "" || len(f.set) > 0 {
		return usageError("--all is for every directory; do not use -C, --entry or --set with it")
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	known, err := program.KnownPrograms(o)
	if err != nil {
		return err
	}
	slices.SortStableFunc(known, func(a, b program.Known) int { return cmp.Compare(a.Directory, b.Directory) })
	list, last := []directoryStatus{}, ""
	for _, k := range known {
		if last == string(k.Directory) && last != "" {
			continue // the program and golem exec without it
		}
		last = string(k.Directory)
		if d := f.statusOf(cmd, k); !d.isEmpty() || d.Why != "" {
			list = append(list, d)
		}
	}
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), map[string]any{"directories": list})
	}
	printStatusOfAll(cmd, o.Home, list)
	return nil
}

// statusOf returns what waits in one directory.
func (f *programFlags) statusOf(cmd *cobra.Command, k program.Known) directoryStatus {
	d := directoryStatus{Directory: string(k.Directory), State: string(k.State), statusDocument: statusDocument{Sessions: []sessionStatus{}, Approvals: []string{}, Staged: []string{}}}
	if k.Directory == "" {
		d.Why = "an older golem did not record its directory; run golem status there once"
		return d
	}
	if _, err := os.Stat(d.Directory); err != nil {
		d.Why = "the directory is gone; golem keeps its state in " + visible.Text(d.State)
		return d
	}
	there := *f
	there.dir = d.Directory
	all, p, err := there.sessionsIn(d.Directory)
	if err == nil {
		d.statusDocument, d.rows, err = collectStatus(cmd.Context(), all, p)
	}
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		d.Why = visible.Line(first, maxColumns)
	}
	return d
}

func printStatusOfAll(cmd *cobra.Command, home string, list []directoryStatus) {
	out := cmd.OutOrStdout()
	if len(list) == 0 {
		fmt.Fprintln(out, "nothing waits for you in any directory")
		return
	}
	for i, d := range list {
		if i > 0 {
			fmt.Fprintln(out)
		}
		name := cmp.Or(homeRelative(d.Directory, home), d.State)
		fmt.Fprintln(out, visible.Text(name))
		if d.Why != "" {
			fmt.Fprintln(out, "  "+d.Why)
			continue
		}
		printStatus(indented{out}, d.statusDocument, d.rows, d.Directory)
		if len(d.rows) > 0 {
			fmt.Fprintf(out, "  next: cd %s && golem diff\n", commandLine(d.Directory))
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
