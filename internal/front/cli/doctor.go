package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// A finding is one promise, and whether golem keeps it on this machine.
type finding struct {
	Name  string `json:"name"`
	Holds string `json:"holds"` // yes, part or no
	Why   string `json:"why"`
	Fix   string `json:"mend,omitempty"`
}

// A diagnosis is the report of golem doctor.
type diagnosis struct {
	Level    string    `json:"level"`   // the strongest jail for commands
	Default  bool      `json:"default"` // the level is the default or stronger
	Found    []finding `json:"found"`
	Promises []finding `json:"promises"` // Why completes a sentence that begins with "a command"
	Refused  bool      `json:"refused"`  // the program here requires more, so its commands are refused
	Fixable  bool      `json:"fixable"`  // golem doctor --fix can change the machine
}

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what golem can protect on this machine",
		Long: `Check what golem can protect on this machine and in the current directory. doctor tries
each protection, and prints why one is missing and how to fix it. Without --fix it changes
no settings of this machine.

The strongest level of the jail is called namespaces. If this machine does not offer it,
--fix shows which settings to change, and changes them after you approve. This needs root.

With --apparmor doctor prints an AppArmor profile that lets golem confine commands. Some
systems, such as Ubuntu, need it.

Exit code 0: commands run at the level namespaces, the default. Exit code 5: they run at a
weaker level, they do not run, or the program here requires a level that this machine does
not offer.`,
		Example: `  golem doctor
  golem doctor --fix
  golem doctor --apparmor | sudo tee /etc/apparmor.d/golem`,
		Args: noArgs,
	}
	flags := addProgramFlags(cmd)
	profile, fix, yes := false, false, false
	cmd.Flags().BoolVar(&profile, "apparmor", false, "print the AppArmor profile for golem, and nothing else")
	cmd.Flags().BoolVar(&fix, "fix", false, "show what to change on this machine, and change it after you approve")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --fix: change it without asking")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case yes && !fix:
			return usageError("--yes goes with --fix: golem doctor --fix --yes")
		case fix && wantsJSON(cmd):
			return usageError("--fix prints no JSON; golem doctor --json says what is missing")
		case profile && !fix:
			return printProfile(cmd)
		}
		if err := checkDir(flags.dir); err != nil {
			return err
		}
		if fix {
			return flags.fixMachine(cmd, yes)
		}
		found, err := examine()
		if err != nil {
			return err
		}
		state, p := examineState(flags)
		where := sandbox.Host("")
		if p != nil {
			where = p.Storage.Dir()
		}
		report := jail.Probe(where, time.Now)
		container := examineContainer(p)
		level := examineLevel(p, report.Best, container)
		d := diagnosis{
			Level:    report.Best.String(),
			Default:  report.Best >= jail.Namespaces,
			Found:    slices.Concat(found, append([]finding{state}, append(examineUse(p), examinePolicy(p)...)...), findings(report.Found), []finding{container}, level),
			Promises: findings(report.Promises),
			Refused:  len(level) > 0 && level[0].Holds == "no",
			Fixable:  len(jail.Fixes("")) > 0,
		}
		return cmp.Or(printOr(cmd, d, d.print), exitIf(!d.Default || d.Refused, exitNoSandbox))
	}
	return cmd
}

// printProfile prints the AppArmor profile for this program.
func printProfile(cmd *cobra.Command) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text := jail.AppArmor(sandbox.Host(self))
	return printOr(cmd, map[string]string{"profile": text}, func(w io.Writer) { io.WriteString(w, text) })
}

func findings(list []jail.Finding) []finding {
	out := []finding{}
	for _, f := range list {
		out = append(out, finding{f.Name, f.Holds.String(), visible.Text(f.Why), visible.Text(f.Fix)})
	}
	return out
}

// print prints the findings, what they mean for a command, and how to fix what is
// missing.
func (d diagnosis) print(w io.Writer) {
	for _, f := range d.Found {
		printLine(w, fmt.Sprintf("%-12s %-5s ", f.Name, f.Holds), f.Why)
	}
	fmt.Fprintln(w)
	switch {
	case d.Refused:
		printLine(w, "", fmt.Sprintf("commands of this program are refused: see required above. Other programs run at the level %s, where a command", d.Level))
	case d.Default:
		printLine(w, "", fmt.Sprintf("commands run at the level %s, the strongest. A command", d.Level))
	case d.Level == jail.None.String():
		printLine(w, "", "commands are not run here: this machine has nothing to confine them with. golem cannot promise that a command")
	default:
		printLine(w, "", fmt.Sprintf("commands run at the level %s, which is weaker than namespaces, the default. A command", d.Level))
	}
	for _, p := range d.Promises {
		printLine(w, fmt.Sprintf("  %-5s ", p.Holds), p.Why)
	}
	for _, f := range d.Found {
		if f.Fix != "" {
			fmt.Fprintf(w, "\nto fix %s:\n  %s\n", f.Name, strings.ReplaceAll(f.Fix, "\n", "\n  "))
		}
	}
	if d.Fixable {
		fmt.Fprintln(w, "\nor let golem change it: sudo golem doctor --fix shows the changes and asks")
	}
}

// otherPlace is the advice for a state directory that golem cannot use.
const otherPlace = "choose a directory that you can write to: --state DIR or GOLEM_STATE"

// examineState reports the state directory of the program here, which holds the journal
// and the answers. It tries whether golem can use it.
func examineState(flags *programFlags) (finding, *program.Program) {
	p, err := flags.open(opening{strict: true, otherwise: sessionState})
	no := finding{Name: "state", Holds: "no"}
	if p == nil {
		no.Why = visible.Text(err.Error())
		switch {
		case errors.Is(err, errNoPlace):
			no.Fix = otherPlace
		case errors.Is(err, errNoHome):
			no.Fix = "set HOME to your home directory"
		}
		return no, nil
	}
	where := visible.Text(string(p.Storage.Dir()))
	if err := tryState(string(p.Storage.Dir())); err != nil {
		no.Why, no.Fix = where+": "+visible.Text(err.Error()), otherPlace
		return no, p
	}
	if !p.Storage.Exists() {
		where += ": golem makes it when it needs it"
	}
	return finding{Name: "state", Holds: "yes", Why: where}, p
}

// examinePolicy reports the policy of this machine and the user's configuration, if they
// limit programs.
func examinePolicy(p *program.Program) []finding {
	if p == nil || p.Project == nil {
		return nil
	}
	var list []finding
	for _, l := range p.Project.Ceiling {
		if limits := l.Limits(); len(limits) > 0 {
			who := "your configuration"
			if l.File == project.PolicyFile {
				who = "the administrator's policy"
			}
			list = append(list, finding{Name: "policy", Holds: "yes", Why: who + ", " + visible.Text(l.File) + ", limits every program: " + visible.Text(strings.Join(limits, ", ")) + "; golem config shows the values"})
		}
	}
	return list
}

// examineUse reports how much golem stores.
func examineUse(p *program.Program) []finding {
	if p == nil || p.Project == nil {
		return nil
	}
	u := p.Storage.Measure()
	f := finding{Name: "state size", Holds: "yes", Why: fmt.Sprintf("%s of at most %s, for all directories", visible.Amount(u.Bytes), visible.Amount(u.Limit))}
	switch {
	case u.Bytes > u.Limit:
		f.Holds, f.Why = "no", f.Why+": no session can start"
	case u.Bytes > u.Limit/10*9:
		f.Holds = "part"
	default:
		return []finding{f}
	}
	f.Fix = "golem status --all lists the directories, golem sessions lists what one keeps, and golem sessions rm ID removes a session; state.max_bytes in your configuration is the limit"
	return []finding{f}
}

// tryState creates and removes what the first call would create. That is a file in the
// state directory, or a directory if there is no state directory yet.
func tryState(name string) error {
	f, err := os.CreateTemp(name, ".golem-doctor-")
	if err == nil {
		f.Close()
		os.Remove(f.Name())
		return canOpen(name)
	}
	if _, there := os.Lstat(name); there == nil {
		return visible.FileError("", err)
	}
	above := filepath.Dir(name)
	for above != filepath.Dir(above) {
		if _, err := os.Lstat(above); err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		above = filepath.Dir(above)
	}
	trial, err := os.MkdirTemp(above, ".golem-doctor-")
	if err != nil {
		return fmt.Errorf("it cannot be made in %s: %w", above, visible.FileError("", err))
	}
	defer os.RemoveAll(trial)
	if above != filepath.Dir(name) {
		return nil // golem creates the missing parents too, accessible only to this user
	}
	return canOpen(trial)
}

// canOpen returns why a directory cannot hold state, without naming it.
func canOpen(name string) error {
	folder, err := state.Open(name)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "state directory "+name+": "))
	}
	return folder.Close()
}

// examineLevel reports whether commands of the program run at the level that it requires.
// It returns nil if the program requires none.
func examineLevel(p *program.Program, best jail.Level, container finding) []finding {
	if p == nil || p.Project == nil {
		return nil
	}
	needs := p.Project.Grant().Level
	if p.Entry != nil {
		needs = p.Tree().Grant.Level
	}
	if needs == policy.AnyLevel {
		return nil
	}
	who := "the program"
	if at := p.Project.PlaceOf("sandbox.require_os_sandbox"); needs == p.Project.Grant().Level && at.Line > 0 {
		who = visible.Text(at.String())
	}
	f := finding{Name: "required", Holds: "yes", Why: who + " requires " + needs.String() + " (require_os_sandbox)"}
	switch {
	case needs == policy.Container && container.Holds != "yes":
		f.Holds, f.Why = "no", f.Why+", and this machine lacks it: its commands are refused"
		f.Fix = "see container above, or require less"
	case needs == policy.Namespaces && best < jail.Namespaces, best == jail.None:
		f.Holds, f.Why = "no", f.Why+", and the best here is "+best.String()+": its commands are refused"
		f.Fix = "fix namespaces, or require less"
	}
	return []finding{f}
}

// examineContainer runs a command at the level container, if there is a runsc.
func examineContainer(p *program.Program) finding {
	try := jail.Policy{Least: jail.Container}
	if p != nil && p.Project != nil {
		try.Runsc = p.Project.Ceiling.Runsc()
	}
	f := finding{Name: "container", Holds: "yes", Why: "runsc works; commands run at the level container if you ask for it (--jail container, require_os_sandbox: container)"}
	err := tryContainer(try)
	var known *sandbox.Error
	if errors.As(err, &known) {
		_, why, _ := strings.Cut(known.Hint, jail.Container.String())
		f.Holds, f.Why = "no", "optional, commands use it only if you ask for it: "+visible.Text(strings.TrimPrefix(strings.TrimPrefix(why, ": "), ", and "))
	} else if err != nil {
		f.Holds, f.Why = "no", "optional: "+visible.Text(err.Error())+"; install another release of gVisor's runsc"
	}
	return f
}

// tryContainer runs a command that does nothing.
func tryContainer(p jail.Policy) (err error) {
	s, err := jail.Start(p, time.Now)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, s.Close()) }()
	_, err = s.Run(context.Background(), jail.Shell(":"))
	return err
}

func examine() ([]finding, error) {
	here, err := sandbox.Dir(".")
	if err != nil {
		return nil, err
	}
	files := finding{Name: "files", Holds: "yes", Why: "openat2: one system call resolves a path and follows no symlink"}
	if why := withoutOpenat2(); why != "" {
		files.Why = "os.Root, one path element at a time (" + why + "): slower, with the same refusals"
	}
	spelling := finding{Name: "case", Holds: "yes", Why: `"A" and "a" are two names in this directory`}
	if here.Traits().FoldsCase {
		spelling.Holds, spelling.Why = "part", `"A" and "a" may be one name here: other spellings of a mount are refused`
	}
	return []finding{files, spelling}, nil
}

// fixMachine shows what root can change so that golem confines commands better. It makes
// the changes after the user approves.
func (f *programFlags) fixMachine(cmd *cobra.Command, yes bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fixes := jail.Fixes(sandbox.Host(self))
	if len(fixes) == 0 {
		fmt.Fprintln(out, "nothing to change: no setting of this machine keeps golem from confining commands; golem doctor lists what holds")
		return nil
	}
	asks, err := fixQuestion(fixes)
	if err != nil {
		return err
	}
	d := decision{cmd: cmd, out: out, terminal: findTerminal(false), yes: yes}
	if os.Geteuid() != 0 || d.terminal == nil || yes { // otherwise the question shows it
		showRequest(out, asks)
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: only root can change this: sudo golem doctor --fix")
		return exit(exitNoSandbox)
	}
	if d.program, err = f.open(opening{strict: true, otherwise: sessionState}); err != nil {
		return err // the journal of this directory records the decision
	}
	if err := checkUnseen("doctor --fix", d.program, yes); err != nil {
		return err
	}
	ok, err := d.confirmed(asks, "changed", "golem doctor --fix --yes", func() error {
		for _, f := range fixes {
			if err := f.Apply(); err != nil {
				return fmt.Errorf("doctor --fix: %w; golem doctor says what holds now", err)
			}
			fmt.Fprintf(out, "written: %s\n", f.File)
			if f.Then != "" {
				fmt.Fprintf(out, "now type: %s\n", f.Then)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !ok:
		return exit(exitNoSandbox)
	}
	fmt.Fprintln(out, "golem doctor says what holds now")
	return nil
}

// fixQuestion returns the request to change this machine.
func fixQuestion(fixes []jail.Fix) (tool.Request, error) {
	var details []string
	var changes []tool.Change
	for _, f := range fixes {
		details = append(details, f.Why)
		if f.Param != "" {
			details = append(details, "set it now: "+f.Param+" to "+f.Value)
		}
		if f.Then != "" {
			details = append(details, "then you type: "+f.Then)
		}
		base := sandbox.Version{}
		old, err := os.ReadFile(f.File)
		if err == nil {
			base = base.With(old)
		}
		changes = append(changes, tool.DescribeChange(f.File, base, old, []byte(f.Content)))
	}
	return tool.NewCommandRequest("doctor --fix", "change the settings of this machine", nil, details, changes, nil)
}
