package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/trust"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

func newTrust() *cobra.Command {
	yes, printHash := false, false
	cmd := &cobra.Command{
		Use:   "trust [FILE]",
		Short: "Show what a program may do, and trust it",
		Long: `Show what the files of this program would allow, each with its line, and what has changed
since you last trusted it. Then golem asks whether to trust it. Trust holds for exactly
these files: if one byte changes, golem asks again. Before you trust it, a program can only
read its own directory. golem run, exec, mcp and tool ask the same question at a terminal.

FILE is a file with instructions for workers, AGENTS.md or CLAUDE.md. golem shows it, or what
has changed in it, and asks. A worker follows it only while you trust its content. Before
that, a worker that reads it is tainted.

In a script, pass the hash to other commands: golem run --trust HASH. --print-hash prints
it. Print the hash after you have read the files. Store it in a place that the authors of
the files cannot change.

Exit code 0: trusted; 3: not trusted.`,
		Example: "  golem trust\n  golem trust AGENTS.md\n  golem trust --print-hash",
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("trust takes one file, got %d", len(args))
		}
		return nil
	}
	flags := addProgramFlags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "trust it without asking")
	cmd.Flags().BoolVar(&printHash, "print-hash", false, "print only the hash of the files, for --trust, and trust nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return flags.trustInstruction(cmd, args[0], yes, printHash)
		}
		p, err := flags.open(opening{filesOnly: true, strict: true, otherwise: emptyProgram})
		if err != nil {
			return err
		}
		if printHash {
			if p.Content.Hash == "" {
				return noProgram(p)
			}
			fmt.Fprintln(cmd.OutOrStdout(), p.Content.Hash)
			return nil
		}
		if yes {
			if err := checkUnseen("trust", p); err != nil {
				return err
			}
		}
		if wrong := p.CheckEntry(); wrong != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "note:", wrong)
		}
		doc, err := trustState(p)
		if err != nil {
			return err
		}
		if !wantsJSON(cmd) {
			doc.print(cmd.OutOrStdout())
		}
		if !doc.Trusted && (yes || !wantsJSON(cmd) && askedYes(cmd)) {
			if err := p.Trust(); err != nil {
				return err
			}
			doc.Trusted = true
			if !wantsJSON(cmd) {
				fmt.Fprintln(cmd.OutOrStdout(), "trusted as it is now")
			}
		}
		if wantsJSON(cmd) {
			if err := printJSON(cmd.OutOrStdout(), doc); err != nil {
				return err
			}
		}
		if !doc.Trusted {
			return exit(exitDenied)
		}
		return nil
	}
	return cmd
}

// checkUnseen returns an error if a policy forbids --yes: nobody saw what it approves.
func checkUnseen(op string, p *program.Program) error {
	place, off := p.Project.Ceiling.UnseenOff()
	if !off {
		return nil
	}
	return &sandbox.Error{Op: op, Code: "blocked", Hint: visible.Text(place.String()) + " does not allow approving without looking; run the command at a terminal without --yes"}
}

// A trustDocument describes a program to trust, and whether it is trusted.
type trustDocument struct {
	Program string             `json:"program"`
	Hash    string             `json:"hash"`
	Trusted bool               `json:"trusted"`
	Grants  []trust.Permission `json:"grants"`
	Changes string             `json:"changes,omitempty"` // diff since it was last trusted
	Limits  []string           `json:"limits,omitempty"`  // what a policy forbids nevertheless
}

func trustState(p *program.Program) (trustDocument, error) {
	doc := trustDocument{Program: visible.Text(string(p.Root())), Hash: p.Content.Hash, Grants: []trust.Permission{}}
	var err error
	if doc.Trusted, err = p.IsTrusted(); err != nil {
		return doc, err
	}
	if !doc.Trusted {
		if doc.Changes, err = p.TrustStore().Diff(p.Content); err != nil {
			return doc, err
		}
		doc.Changes = visible.Text(doc.Changes)
	}
	for _, w := range p.TrustRequest().Permissions() {
		doc.Grants = append(doc.Grants, trust.Permission{What: visible.Text(w.What), From: visible.Text(w.From)})
	}
	if place, off := p.Project.Ceiling.NetworkOff(); off {
		doc.Limits = append(doc.Limits, "the network stays off: "+visible.Text(place.String()))
	}
	return doc, nil
}

func (d trustDocument) print(w io.Writer) {
	switch {
	case d.Hash == "":
		fmt.Fprintln(w, "nothing to trust: no project file and no workers here; golem init makes a program, golem exec CMD needs none")
		return
	case d.Trusted:
		printLine(w, "", "trusted: "+d.Program)
	default:
		printLine(w, "", "not trusted yet: "+d.Program)
	}
	printLine(w, "", "content "+d.Hash)
	if d.Changes != "" {
		fmt.Fprintln(w, "changed since you trusted it:")
		fmt.Fprint(newGutter(w, ""), d.Changes)
	}
	if len(d.Grants) == 0 {
		fmt.Fprintln(w, "it permits nothing except reading its own directory")
		return
	}
	fmt.Fprintln(w, "it permits:")
	var rows [][]string
	for _, g := range d.Grants {
		rows = append(rows, []string{g.From, g.What})
	}
	printColumns(w, rows)
	for _, limit := range d.Limits {
		printLine(w, "", "whatever it asks for, "+limit)
	}
}

// askTrust returns an error if the user does not trust a program. At a terminal it shows
// what the program may do, or only what has changed since the user last trusted it, and
// asks. taken means that standard input holds content.
func (f *programFlags) askTrust(cmd *cobra.Command, p *program.Program, taken bool) error {
	trusted, err := p.IsTrusted()
	if err != nil || trusted {
		return err
	}
	mode := approval.Mode(cmp.Or(f.approval, os.Getenv("GOLEM_APPROVAL"), string(approval.Interactive)))
	if wantsJSON(cmd) || f.trust != "" || mode != approval.Interactive { // the user wants no questions
		return p.CheckTrust()
	}
	terminal := findTerminal(taken)
	if terminal == nil {
		return p.CheckTrust()
	}
	if terminal != os.Stdin {
		defer terminal.Close()
	}
	plain := *f
	plain.set, plain.approval = nil, "" // trust is for the files as they are
	files, err := plain.open(opening{filesOnly: true, strict: true, otherwise: emptyProgram})
	if err != nil {
		return err
	}
	doc, err := trustState(files)
	if err != nil {
		return err
	}
	errs := cmd.ErrOrStderr()
	if doc.Changes != "" {
		fmt.Fprintf(errs, "%s has changed since you trusted it:\n", doc.Program)
		fmt.Fprint(newGutter(errs, ""), doc.Changes)
		fmt.Fprintln(errs, "golem trust lists everything that it permits")
	} else {
		doc.print(errs)
	}
	asker := newAsker(terminal, errs, patience)
	if !asker.confirm(cmd.Context(), "trust this program as it is now") {
		if asker.why != nil {
			fmt.Fprintln(errs, "note: "+asker.why.Error())
		}
		return p.CheckTrust()
	}
	if files.Content.Hash != p.Content.Hash {
		return &sandbox.Error{Op: "trust", Code: "untrusted", Hint: "a file of the program changed while you were asked; nothing was done; type the command again"}
	}
	return files.Trust()
}

// askedYes asks the user whether to trust the program.
func askedYes(cmd *cobra.Command) bool {
	return confirmed(cmd, "trust", "this program as it is now", "golem trust --yes, or pass --trust HASH in a script")
}

// confirmed asks the user at the terminal whether to do something, such as to trust a
// program. It accepts an answer only from a terminal.
func confirmed(cmd *cobra.Command, verb, what, otherwise string) bool {
	out := cmd.OutOrStdout()
	terminal := findTerminal(false)
	if terminal == nil {
		fmt.Fprintln(out, "no terminal to ask at: look at it, then run "+otherwise)
		return false
	}
	asker := newAsker(terminal, out, patience)
	if asker.confirm(cmd.Context(), verb+" "+what) {
		return true
	}
	fmt.Fprintln(out, "not "+verb+"ed; nothing has changed; the same command asks again")
	if asker.why != nil {
		fmt.Fprintln(out, "note: "+asker.why.Error())
	}
	return false
}
