package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/instruction"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
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
the files cannot change. A policy with approval: {unseen: false} does not allow --trust.

Exit code 0: trusted; 3: not trusted.`,
		Example: "  golem trust\n  golem trust AGENTS.md\n  golem trust --print-hash",
	}
	cmd.Args = takesArgs(0, 1, "trust takes one file, got %d")
	flags := addProgramFlags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "trust it without asking")
	cmd.Flags().BoolVar(&printHash, "print-hash", false, "print only the hash of the files, for --trust, and trust nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return flags.trustInstruction(cmd, args[0], yes, printHash)
		}
		flags.profiles = true
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
		if err := checkUnseen("trust", p, yes); err != nil {
			return err
		}
		if wrong := p.CheckEntry(); wrong != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "note:", wrong)
		}
		doc, err := trustState(p)
		if err != nil {
			return err
		}
		d := decision{cmd: cmd, program: p, out: cmd.OutOrStdout(), yes: yes}
		if !wantsJSON(cmd) {
			d.terminal = findTerminal(false)
		}
		if !wantsJSON(cmd) && (doc.Trusted || yes || d.terminal == nil) { // otherwise the question shows it
			doc.print(cmd.OutOrStdout())
		}
		if !doc.Trusted && (yes || !wantsJSON(cmd)) {
			request, err := p.TrustQuestion()
			if err != nil {
				return err
			}
			if doc.Trusted, err = d.confirmed(request, "trusted", "golem trust --yes, or pass --trust HASH in a script", p.Trust); err != nil {
				return err
			}
			if doc.Trusted && !wantsJSON(cmd) {
				fmt.Fprintln(cmd.OutOrStdout(), "trusted as it is now")
			}
		}
		if wantsJSON(cmd) {
			err = printJSON(cmd.OutOrStdout(), doc)
		}
		return cmp.Or(err, exitIf(!doc.Trusted, exitDenied))
	}
	return cmd
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
		list, err := p.TrustStore().Differences(p.Content)
		if err != nil {
			return doc, err
		}
		for _, d := range list {
			doc.Changes += visible.Text(d.Diff)
		}
	}
	for _, w := range p.TrustRequest().Permissions() {
		doc.Grants = append(doc.Grants, trust.Permission{What: visible.Text(w.What), From: visible.Text(w.From)})
	}
	for _, limit := range p.Project.Ceiling.NetworkLimits(p.Project.ModelServer.URL) {
		doc.Limits = append(doc.Limits, visible.Text(limit))
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

// askTrust returns an error if the user does not trust a program. At a terminal it asks.
// taken means that standard input holds content.
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
	request, err := files.TrustQuestion()
	if err != nil {
		return err
	}
	d := decision{cmd: cmd, program: files, terminal: terminal, out: cmd.ErrOrStderr()}
	yes, _, err := d.decide(request, func() error {
		if files.Content.Hash != p.Content.Hash {
			return &sandbox.Error{Op: "trust", Code: "untrusted", Hint: "a file of the program changed while you were asked; nothing was done; type the command again"}
		}
		return files.Trust()
	})
	if err != nil || yes {
		return err
	}
	return p.CheckTrust()
}

// askInstructions returns the files of instructions, such as AGENTS.md. At a terminal it shows
// those that the user does not trust, and asks whether to follow them. Otherwise it says
// that golem does not follow them. A worker that reads an untrusted one is tainted.
func (f *runFlags) askInstructions(cmd *cobra.Command, p *program.Program, note func(string)) (follow []instruction.Instruction, untrusted []string, err error) {
	list, err := p.Instructions().List()
	if err != nil {
		return nil, nil, err
	}
	mode := approval.Mode(cmp.Or(f.approval, os.Getenv("GOLEM_APPROVAL"), string(approval.Interactive)))
	var terminal *os.File
	if !wantsJSON(cmd) && f.trust == "" && mode == approval.Interactive {
		terminal = findTerminal(f.takesStdin(p))
	}
	if terminal != nil && terminal != os.Stdin {
		defer terminal.Close()
	}
	if !wantsJSON(cmd) {
		note = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+text) }
	}
	errs := cmd.ErrOrStderr()
	for i, one := range list {
		name := visible.Text(one.Name)
		switch {
		case one.Same || one.Trusted:
		case one.Problem != "":
			note(name + " is not followed: " + one.Problem)
		case terminal == nil:
			note(name + " is not trusted, its text is not followed; golem trust " + visible.CommandLine(f.typedInstruction(one)))
		default:
			request, err := one.TrustQuestion()
			if err != nil {
				return nil, nil, err
			}
			d := decision{cmd: cmd, program: p, terminal: terminal, out: errs}
			if list[i].Trusted, _, err = d.decide(request, one.Trust); err != nil {
				return nil, nil, err
			}
			if !list[i].Trusted {
				fmt.Fprintln(errs, "golem: "+name+" is not followed in this run")
			}
		}
	}
	follow, untrusted, _ = instruction.Followed(list)
	return follow, untrusted, nil
}

// typedInstruction returns the path of a file of instructions as the user types it here.
func (f *programFlags) typedInstruction(one instruction.Instruction) string {
	return filepath.ToSlash(filepath.Join(f.dir, one.Name))
}

// trustInstruction shows a file of instructions and asks whether workers may follow it.
func (f *programFlags) trustInstruction(cmd *cobra.Command, file string, yes, printHash bool) error {
	p, err := f.open(opening{otherwise: defaultWorker})
	if err != nil {
		return err
	}
	names := p.Instructions().Names()
	if base := filepath.Base(file); !slices.Contains(names, base) {
		hint := "golem trust without a file is about the program here"
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			hint = "a directory is named with -C: golem trust -C " + visible.CommandLine(file)
		}
		return usagef("trust takes a file of instructions for workers (AGENTS.md, CLAUDE.md), got %s; %s", visible.Text(file), hint)
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(f.dir, file)
	}
	one, err := p.Instructions().Find(file)
	switch {
	case err != nil:
		return err
	case one.Problem != "":
		return usagef("%s cannot be trusted: %s", visible.Text(one.Name), one.Problem)
	case printHash:
		fmt.Fprintln(cmd.OutOrStdout(), one.Hash())
		return nil
	}
	if err := checkUnseen("trust", p, yes); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if one.Trusted && !wantsJSON(cmd) {
		printLine(out, "", "trusted: "+one.Name)
		return nil
	}
	if !one.Trusted && (yes || !wantsJSON(cmd)) {
		request, err := one.TrustQuestion()
		if err != nil {
			return err
		}
		d := decision{cmd: cmd, program: p, out: out, yes: yes}
		if !wantsJSON(cmd) {
			if d.terminal = findTerminal(false); yes || d.terminal == nil {
				showRequest(out, request)
			}
		}
		if one.Trusted, err = d.confirmed(request, "trusted", "golem trust --yes "+visible.CommandLine(file)+", or pass --trust HASH in a script", one.Trust); err != nil {
			return err
		}
		if one.Trusted && !wantsJSON(cmd) {
			fmt.Fprintln(out, "trusted as it is now: workers follow it")
		}
	}
	if wantsJSON(cmd) {
		err = printJSON(out, map[string]any{"file": visible.Text(one.Name), "hash": one.Hash(), "trusted": one.Trusted})
	}
	return cmp.Or(err, exitIf(!one.Trusted, exitDenied))
}
