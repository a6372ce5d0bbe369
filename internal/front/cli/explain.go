package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/command"
	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
)

// An opFlag is an operation that golem explain knows.
type opFlag struct{ op string }

// Set implements pflag.Value.
func (f *opFlag) Set(word string) error {
	if !slices.Contains(explain.Operations(), word) {
		return usagef("--op %s: no such operation; %s", sandbox.Shown(word), didYouMean(word, "", explain.Operations()))
	}
	f.op = word
	return nil
}

// String implements pflag.Value.
func (f *opFlag) String() string { return f.op }

// Type implements pflag.Value.
func (f *opFlag) Type() string { return strings.Join(explain.Operations(), "|") }

func newExplain() *cobra.Command {
	op := &opFlag{"read"}
	worker, line, url := "", "", ""
	cmd := &cobra.Command{
		Use:   "explain PATH | -- CMD… | --net URL",
		Short: "Explain whether a worker may use a file, run a command or reach a host, and why",
		Long: `Show whether a worker may read, write or delete PATH, and what decides it: the mount,
symlinks and their targets, protected paths, the file, the permissions of the worker and
its callers, and the approval that is needed.

PATH is a path as a worker of the program in this directory sees it. --root and --mount name
directories to check instead of a program's. Without a program and without these flags,
the worker is the default worker, which golem run uses on the current directory. golem
checks the real directories with the sandbox that the worker would get. It reads no file
contents and changes nothing.

With -- and a command, or with --command and a line of bash, golem explains whether the
worker may run it. For each command in the line, golem prints the rule that decides, with
its file and line number. It also lists the parts of the line that golem does not
understand, and the files that redirections write. It runs nothing. One argument after -- is
a line of bash. Several arguments are one command.

With --net and a URL or HOST:PORT, golem explains whether the worker's commands may connect
to it, and which rule decides. It connects to nothing.

Exit code 0: yes; 3: no.`,
		Example: `  golem explain /notes.md
  golem explain -- git push origin main
  golem explain --net https://api.example.com/v1`,
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("net") {
			if len(args) > 0 || cmd.Flags().Changed("command") || cmd.Flags().Changed("op") {
				return usageError("--net takes a URL and stands alone; ask about a path or a command separately")
			}
			return nil
		}
		return explainArgs(cmd, args, line)
	}
	flags := addProgramFlags(cmd)
	cmd.Flags().Var(op, "op", "what the worker would do")
	cmd.Flags().StringVar(&worker, "worker", "", "the worker; the entry worker if not given")
	cmd.Flags().StringVar(&line, "command", "", "a command line, instead of a path")
	cmd.Flags().StringVar(&url, "net", "", "a URL or HOST:PORT, instead of a path")
	mounts := addMountFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("net") {
			return explainNetwork(cmd, flags, url, worker)
		}
		if cmd.Flags().Changed("command") || cmd.ArgsLenAtDash() >= 0 {
			if cmd.Flags().Changed("op") || len(*mounts) > 0 {
				return usageError("--op, --root and --mount are about paths; do not use them with a command")
			}
			if len(args) == 1 {
				line = args[0]
			} else if len(args) > 1 {
				line = command.Quote(args)
			}
			return explainCommand(cmd, flags, line, worker)
		}
		a, p, err := answered(cmd.Context(), flags, *mounts, op.op, args[0], worker)
		if err != nil {
			return err
		}
		if p != nil && !a.Allowed {
			if hint := meantName(p, args[0], path.Join("/", args[0])); hint != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+hint)
			}
		}
		return cmp.Or(printOr(cmd, a, func(w io.Writer) { printAnswer(w, a) }), exitIf(!a.Allowed, exitDenied))
	}
	return cmd
}

// answered returns the answer for the given mounts, or for the program, which it returns too.
func answered(ctx context.Context, flags *programFlags, mounts []*explain.Mount, op, name, worker string) (explain.Answer, *program.Program, error) {
	if len(mounts) > 0 && (worker != "" || flags.given()) {
		return explain.Answer{}, nil, usageError("--root and --mount replace the program; do not use them with --worker or flags about a program")
	}
	if len(mounts) == 0 {
		p, err := flags.open(opening{otherwise: defaultWorker})
		if err != nil {
			return explain.Answer{}, nil, err
		}
		s, err := p.Subject(worker)
		if err != nil {
			return explain.Answer{}, nil, err
		}
		a, err := s.File(ctx, op, name)
		return a, p, err
	}
	a, err := explain.Mounts(ctx, op, name, mounts)
	var given *explain.MountError
	var wrong *sandbox.Error
	if errors.As(err, &given) || errors.As(err, &wrong) {
		return a, nil, usagef("%v", err)
	}
	if err != nil {
		return a, nil, err
	}
	o, err := flags.options()
	if err != nil {
		return a, nil, err
	}
	return a, nil, program.CheckMounts(o, mounts) // golem exec refuses the same mounts
}

// explainArgs checks that the arguments are one path or a command.
func explainArgs(cmd *cobra.Command, args []string, line string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash > 0 || cmd.Flags().Changed("command") && len(args) > 0:
		return usageError("a path or a command, not both; a command comes after --, or is the value of --command")
	case dash == 0 && len(args) == 0, cmd.Flags().Changed("command") && strings.TrimSpace(line) == "":
		return usageError("explain which command? golem explain -- git status")
	case dash == 0 || cmd.Flags().Changed("command"):
		return nil
	case len(args) == 0:
		return usageError("explain what? golem explain PATH, such as /notes.md, or golem explain -- CMD")
	case len(args) > 1:
		return usagef("explain takes one path, got %d: %s is too many; a command comes after --", len(args), sandbox.Shown(args[1]))
	}
	return nil
}

// explainCommand prints whether a worker may run a command line.
func explainCommand(cmd *cobra.Command, flags *programFlags, line, worker string) error {
	p, err := flags.open(opening{otherwise: defaultWorker})
	if err != nil {
		return err
	}
	s, err := p.Subject(worker)
	if err != nil {
		return err
	}
	a, err := s.Command(cmd.Context(), line)
	if err != nil {
		return err
	}
	return cmp.Or(printOr(cmd, a, func(w io.Writer) { printCommand(w, a) }), exitIf(!a.Allowed, exitDenied))
}

// yesOrNo returns the answer in a few words.
func yesOrNo(allowed bool, level string) string {
	switch {
	case !allowed:
		return "no"
	case level == "ask":
		return "yes, with your approval"
	}
	return "yes"
}

// printCommand prints the answer, then each part on a line.
func printCommand(w io.Writer, a explain.CommandAnswer) {
	printLine(w, "", yesOrNo(a.Allowed, a.Approval)+": "+a.Reason)
	var rows [][]string
	for _, p := range append(a.Parts, a.Writes...) {
		kind := p.Kind
		if kind == "unknown" {
			kind = "not understood"
		}
		rows = append(rows, []string{kind, visible.Cut(p.Text, 60), p.Approval, p.From, strings.Join(aboutPart(p), "; ")})
	}
	printColumns(w, rows)
	if !a.Allowed {
		printLine(w, "", "the worker gets: "+a.Error.Message)
	}
}

// aboutPart describes a part of a command line: its rule, how the line runs it, and why.
func aboutPart(p explain.CommandPart) []string {
	var list []string
	if p.Rule != "" && p.Rule != "default" {
		list = append(list, "rule "+p.Rule)
	}
	for _, way := range p.Via {
		switch {
		case strings.HasSuffix(way, ")") || strings.HasSuffix(way, "`"):
			list = append(list, "in "+way)
		case way != "|" && way != "|&" && way != "&&" && way != "||":
			list = append(list, "run by "+way)
		}
	}
	if p.Why != "" {
		list = append(list, p.Why)
	}
	return list
}

// printAnswer prints the answer, then each fact on a line. After a no it also prints
// which paths are allowed.
func printAnswer(w io.Writer, a explain.Answer) {
	printLine(w, "", yesOrNo(a.Allowed, a.Approval)+": "+a.Reason)
	var rows [][]string
	for _, f := range a.Facts {
		rows = append(rows, []string{f.Kind, f.Path, f.Is, f.From})
	}
	printColumns(w, rows)
	if a.Allowed {
		return
	}
	printLine(w, "", "the worker gets: "+a.Error.Message)
	except := ""
	if len(a.ReadOnly) > 0 {
		except = " except " + list(a.ReadOnly)
	}
	printLine(w, "", "allowed: read "+list(a.Readable)+"; write "+list(a.Writable)+except)
}

func list(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// explainNetwork prints whether commands of a worker may connect to a host.
func explainNetwork(cmd *cobra.Command, flags *programFlags, url, worker string) error {
	p, err := flags.open(opening{otherwise: defaultWorker})
	if err != nil {
		return err
	}
	s, err := p.Subject(worker)
	if err != nil {
		return usagef("--net %v", err)
	}
	a, err := s.Network(url)
	if err != nil {
		return usagef("--net %v", err)
	}
	err = printOr(cmd, a, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s\n", yesOrNo(a.Allowed, ""), visible.Text(a.Reason))
		rows := [][]string{{"from", visible.Text(a.From)}}
		if a.Rule != "" {
			rows = append(rows, []string{"rule", a.Rule})
		}
		if !a.Allowed && len(a.Hosts) > 0 {
			rows = append(rows, []string{"hosts", visible.Text(strings.Join(a.Hosts, ", "))})
		}
		if a.Worker != "" {
			rows = append(rows, []string{"worker", a.Worker})
		}
		if a.Trusted != nil {
			rows = append(rows, []string{"trust", "you do not trust this program yet; golem trust shows it"})
		}
		printColumns(w, rows)
	})
	return cmp.Or(err, exitIf(!a.Allowed, exitDenied))
}
