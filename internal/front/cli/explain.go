package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/sandbox"
)

// An opFlag is one of the operations that can be asked about.
type opFlag struct{ op string }

func operations() []string { return []string{"read", "write", "delete"} }

// Set implements the flag package's Value.
func (f *opFlag) Set(word string) error {
	if !slices.Contains(operations(), word) {
		return usagef("--op %s: no such operation; %s", sandbox.Shown(word), didYouMean(word, "", operations()))
	}
	f.op = word
	return nil
}

// String implements the flag package's Value.
func (f *opFlag) String() string { return f.op }

// Type names the value in a help text.
func (f *opFlag) Type() string { return strings.Join(operations(), "|") }

func newExplain() *cobra.Command {
	op := &opFlag{"read"}
	var mounts *[]*given
	cmd := &cobra.Command{
		Use:   "explain PATH",
		Short: "Say whether a worker may use a file here, and what decides it",
		Long: `Say whether a worker may read, write or delete PATH, and what decides it: the
mount, a link and where it leads, a protected name, the file itself.

The mounts are those of the flags; without any, the current folder at /,
read-only. The sandbox that a worker would get is asked about the real folders.
No file's content is read, and nothing is changed.

Exit code 0 is yes, 3 is no.`,
		Example: `  golem explain /notes.md
  golem explain /in/paper.txt --op write --mount ./papers:/in:ro --mount ./results:/out
  golem explain /src/.git/config --op write --root .:rw --json`,
		Args: explainArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, list, err := newSandbox(*mounts)
			if err != nil {
				return err
			}
			a := question{op.op, args[0], s, list}.answer(cmd.Context())
			if wantsJSON(cmd) {
				err = printJSON(cmd.OutOrStdout(), a)
			} else {
				a.print(cmd.OutOrStdout())
			}
			if err == nil && !a.Allowed {
				err = exit(exitDenied)
			}
			return err
		},
	}
	cmd.Flags().Var(op, "op", "what the worker would do")
	mounts = addMountFlags(cmd)
	return cmd
}

// explainArgs wants one path. What follows "--" is kept for commands.
func explainArgs(cmd *cobra.Command, args []string) error {
	switch {
	case cmd.ArgsLenAtDash() >= 0:
		return usageError("explaining a command needs the jail, which this version does not have; a path goes before --")
	case len(args) == 0:
		return usageError("explain what? golem explain PATH, such as /notes.md")
	case len(args) > 1:
		return usagef("explain takes one path, got %d: %s is too many", len(args), sandbox.Shown(args[1]))
	}
	return nil
}

// print says the answer, then each fact on a line, then what is allowed.
func (a answer) print(w io.Writer) {
	word := "no"
	if a.Allowed {
		word = "yes"
	}
	fmt.Fprintf(w, "%s: %s\n", word, a.Reason)
	var rows [][]string
	for _, f := range a.Facts {
		rows = append(rows, []string{f.Kind, f.Path, f.Is, f.From})
	}
	printColumns(w, rows)
	if a.Allowed {
		return
	}
	fmt.Fprintf(w, "a worker is told: %s\n", a.Error.Message)
	fmt.Fprintf(w, "allowed: read %s; write %s\n", list(a.Readable), list(a.Writable))
}

func list(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
