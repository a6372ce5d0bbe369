package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/conf"
	"github.com/golem-forge/golem/internal/forge"
	"github.com/golem-forge/golem/sandbox"
)

// An opFlag is one of the operations that can be asked about.
type opFlag struct{ op string }

// Set implements the flag package's Value.
func (f *opFlag) Set(word string) error {
	if !slices.Contains(forge.Operations(), word) {
		return usagef("--op %s: no such operation; %s", sandbox.Shown(word), didYouMean(word, "", forge.Operations()))
	}
	f.op = word
	return nil
}

// String implements the flag package's Value.
func (f *opFlag) String() string { return f.op }

// Type names the value in a help text.
func (f *opFlag) Type() string { return strings.Join(forge.Operations(), "|") }

func newExplain() *cobra.Command {
	op := &opFlag{"read"}
	worker := ""
	cmd := &cobra.Command{
		Use:   "explain PATH",
		Short: "Say whether a worker may use a file here, and what decides it",
		Long: `Say whether a worker may read, write or delete PATH, and what decides it: the
mount, a link and where it leads, a protected name, the file itself, what the
worker and its callers declare, and the approval that is needed.

It is about a worker of the program here; with --root or --mount about those
mounts; and where there is neither, about the current folder at /, read-only.
The sandbox that a worker would get is asked about the real folders. No file's
content is read, and nothing is changed.

Exit code 0 is yes, 3 is no.`,
		Example: `  golem explain /notes.md
  golem explain /out/summary.md --op write --worker summarise
  golem explain /in/paper.txt --op write --mount ./papers:/in:ro --mount ./results:/out
  golem explain /src/.git/config --op write --root .:rw --json`,
		Args: explainArgs,
	}
	flags := addProgramFlags(cmd)
	cmd.Flags().Var(op, "op", "what the worker would do")
	cmd.Flags().StringVar(&worker, "worker", "", "the worker, in place of the entry worker")
	mounts := addMountFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := explain(cmd.Context(), flags, *mounts, op.op, args[0], worker)
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			err = printJSON(cmd.OutOrStdout(), a)
		} else {
			printAnswer(cmd.OutOrStdout(), a)
		}
		if err == nil && !a.Allowed {
			err = exit(exitDenied)
		}
		return err
	}
	return cmd
}

// explain asks about the mounts that are given, or about the program.
func explain(ctx context.Context, flags *programFlags, mounts []*forge.Given, op, path, worker string) (forge.Answer, error) {
	if len(mounts) > 0 && (worker != "" || flags.given()) {
		return forge.Answer{}, usageError("--root and --mount are in place of a program; --worker and the flags about one do not go with them")
	}
	if len(mounts) == 0 {
		p, err := flags.load()
		if err != nil && !(p != nil && p.Project != nil && onlyExcess(err)) {
			return forge.Answer{}, err // what others ask for too much is theirs
		}
		if p.Content.Hash != "" || worker != "" {
			return p.Explain(ctx, op, path, worker)
		}
		here := &forge.Given{Said: "the current folder", Source: p.Root(), Target: "/", Access: sandbox.ReadOnly}
		mounts = []*forge.Given{here}
	}
	a, err := forge.Explain(ctx, op, path, mounts)
	var given *forge.GivenError
	var wrong *sandbox.Error
	if errors.As(err, &given) || errors.As(err, &wrong) {
		return a, usagef("%v", err)
	}
	return a, err
}

// onlyExcess reports whether all problems are workers that ask for too much.
func onlyExcess(err error) bool {
	var problems conf.Problems
	return errors.As(err, &problems) && !slices.ContainsFunc(problems, func(p conf.Problem) bool {
		return !errors.Is(p, sandbox.ErrExceedsParent)
	})
}

// explainArgs wants one path. What follows "--" is kept for commands.
func explainArgs(cmd *cobra.Command, args []string) error {
	switch {
	case cmd.ArgsLenAtDash() >= 0:
		return usageError("explaining a command is not in this version; a path goes before --")
	case len(args) == 0:
		return usageError("explain what? golem explain PATH, such as /notes.md")
	case len(args) > 1:
		return usagef("explain takes one path, got %d: %s is too many", len(args), sandbox.Shown(args[1]))
	}
	return nil
}

// print says the answer, then each fact on a line, then what is allowed.
func printAnswer(w io.Writer, a forge.Answer) {
	word := "no"
	switch {
	case a.Allowed && a.Consent == "ask":
		word = "yes, if you say so"
	case a.Allowed:
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
