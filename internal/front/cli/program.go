package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/lint"
	"github.com/golem-forge/golem/internal/work/model/models"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/starter"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
)

// programFlags are the flags of commands that work on a program.
type programFlags struct {
	dir, state, trust, approval, entry string
	set                                []string
	network                            string            // of --net, as the project file has it
	hosts                              []policy.HostRule // of --net +HOST
	presets                            []string          // of --net +PRESET
	agent                              project.Agent     // the command of golem exec
	profiles                           bool              // read the profiles of a directory without a program, too
	states                             []string          // directories of golem's state beside the one in use
	sealed                             bool              // golem stores nothing of the user's elsewhere
	recovered                          *recovered
}

func addProgramFlags(cmd *cobra.Command) *programFlags {
	f := &programFlags{recovered: &recovered{errs: cmd.ErrOrStderr}}
	f.recovered.dir = f.realDir
	flags := cmd.Flags()
	flags.StringVarP(&f.dir, "program", "C", ".", "the directory of the program, or one inside it")
	flags.StringVar(&f.state, "state", "", "the directory of golem's state (GOLEM_STATE)")
	flags.StringVar(&f.trust, "trust", "", "trust the program if it has this hash, for this command")
	flags.StringVar(&f.approval, "approval", "", "for calls that need approval: interactive asks you, approve_all approves, auto_deny declines (GOLEM_APPROVAL)")
	flags.StringVar(&f.entry, "entry", "", "the entry worker; that of main.worker if not given, or the only worker")
	flags.StringArrayVar(&f.set, "set", nil, "override a value of the project file for this command: a.b=value; may be given again")
	markShared(flags, "program", "state", "trust", "approval", "entry", "set")
	return f
}

// errNoHome is about the user's configuration, which can limit what golem allows.
const errNoHome = usageError("golem does not find your configuration: HOME is no absolute path; set HOME, or XDG_CONFIG_HOME")

// errNoPlace is the error if there is no directory for state.
const errNoPlace = usageError("no directory for state: HOME is not set; name one with --state")

// given reports whether a flag configures a program.
func (f *programFlags) given() bool {
	return f.dir != "." || f.trust != "" || f.approval != "" || f.entry != "" || f.network != "" || len(f.set) > 0
}

// dirOption returns the option that chooses a directory in another command, "" if it needs none.
func dirOption(dir string) string {
	if dir == "." {
		return ""
	}
	return " -C " + visible.CommandLine(dir)
}

// checkDir returns an error if dir is relative and the current directory was deleted.
func checkDir(dir string) error {
	if _, err := os.Getwd(); err != nil && !filepath.IsAbs(dir) {
		return errors.New("the current directory does not exist any more; cd to another directory, or name one with -C /DIR")
	}
	return nil
}

func (f *programFlags) options() (program.Options, error) {
	o := program.Options{States: f.states, Dir: f.dir, Entry: f.entry, Trust: f.trust, State: f.state, Environ: os.Environ(), Now: time.Now}
	if hash, err := hex.DecodeString(f.trust); f.trust != "" && (err != nil || len(hash) != sha256.Size) {
		return o, usageError("--trust takes the hash that golem trust --print-hash prints: 64 hexadecimal digits")
	}
	if o.State == "" {
		if o.State = os.Getenv("GOLEM_STATE"); o.State != "" && !filepath.IsAbs(o.State) {
			return o, usagef("GOLEM_STATE is %s; it must be an absolute path, or it would be another directory in every place", sandbox.Shown(o.State))
		}
	}
	o.Home, _ = os.UserHomeDir()
	o.Homes, o.Configs = homes(), configs(o.Home)
	if o.Config = configFile(o.Home); o.Config == "" {
		return o, errNoHome
	}
	o.StateHome = os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(o.StateHome) && o.Home != "" { // the XDG specification says to ignore a relative path
		o.StateHome = filepath.Join(o.Home, ".local", "state")
	}
	if o.StateHome == "" && o.State == "" {
		return o, errNoPlace
	}
	if o.State != "" {
		abs, err := filepath.Abs(o.State)
		if err != nil {
			return o, err
		}
		o.State = abs
	}
	var err error
	o.Settings, err = f.settings()
	o.Hosts, o.Presets, o.Secret, o.Agent = f.hosts, f.presets, findSecret, f.agent
	o.User, o.Profiles = agentUser(), f.profiles
	o.Login, o.KeepLogin, o.OnRecover, o.OnPending = findStoredSecret, keepLogin, f.recovered.add, startNotify
	if f.sealed {
		o.KeepLogin = nil
	}
	return o, err
}

// settings returns the settings of the environment and of the flags, in that order.
func (f *programFlags) settings() ([]project.Setting, error) {
	type said struct{ source, text string }
	var all []said
	for _, v := range []struct{ variable, key string }{{"GOLEM_MODEL", "model"}, {"GOLEM_APPROVAL", "approval.mode"}} {
		if text := os.Getenv(v.variable); text != "" {
			all = append(all, said{v.variable, v.key + "=" + text})
		}
	}
	for _, text := range f.set {
		all = append(all, said{"--set", text})
	}
	if f.network != "" {
		all = append(all, said{"--net", "sandbox.network=" + f.network})
	}
	if f.approval != "" {
		all = append(all, said{"--approval", "approval.mode=" + f.approval})
	}
	var settings []project.Setting
	var problems strictyaml.Problems
	for _, s := range all {
		setting, err := project.ParseSet(s.source, s.text)
		if found, is := errors.AsType[strictyaml.Problems](err); is {
			problems = append(problems, found...)
		} else if err != nil {
			return nil, err
		}
		settings = append(settings, setting)
	}
	return settings, problems.Err()
}

// A place is the position of a setting or problem, for JSON output.
type place struct {
	Source string `json:"source"`
	Line   int    `json:"line,omitempty"`
	Col    int    `json:"col,omitempty"`
}

func placeOf(p strictyaml.Place) place { return place{p.Source, p.Line, p.Col} }

func newLint() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "Check the project file and all workers",
		Long: `Check the project file, all workers, and how they call each other. golem prints all
problems, one per line: file:line:col: problem; what is allowed.

golem writes keys in snake_case, and also reads other forms, such as maxDepth for
max_depth. --fix rewrites such keys in the files, and changes nothing else. With --dry-run
it only prints them.

Exit code 0: no problems; 2: problems.`,
		Example: "  golem lint\n  golem lint --fix --dry-run\n  golem lint -C ~/notes --json",
		Args:    noArgs,
	}
	flags := addProgramFlags(cmd)
	fix, dry := false, false
	cmd.Flags().BoolVar(&fix, "fix", false, "write keys in snake_case in the files")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "with --fix: only print what it would change")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if dry && !fix {
			return usageError("--dry-run is for golem lint --fix")
		}
		p, err := flags.open(opening{strict: true, otherwise: emptyProgram})
		var problems strictyaml.Problems
		if err != nil && !errors.As(err, &problems) {
			return err
		}
		if p != nil && p.Content.Hash == "" && len(problems) == 0 {
			return noProgram(p)
		}
		var fixed []strictyaml.Respelling
		if fix && p != nil {
			if fixed, err = fixSpelling(cmd, p, dry); err != nil {
				return err
			}
		}
		if p != nil {
			problems = append(problems, p.EntryProblems()...)
			problems = append(problems, p.Tree().AllMissing()...)
		}
		if p != nil && p.Project != nil { // a project file with a mistake has no project
			problems = append(problems, lint.CheckSettings(p.Project, models.Names())...)
			problems = append(problems, p.TrustRequest().ProfileProblems()...)
		}
		if wantsJSON(cmd) {
			if err := printJSON(cmd.OutOrStdout(), lintDocument(problems, fixed)); err != nil {
				return err
			}
		} else if len(problems) == 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "no problems: %s, %s\n", visible.Count(len(p.Project.Mounts), "mount"), visible.Count(len(p.Workers), "worker"))
			for _, program := range p.TrustRequest().ForeignPrograms() {
				fmt.Fprintf(cmd.OutOrStdout(), "  %s: %s\n", visible.Text(program.From), visible.Text(program.What))
			}
		} else {
			columns, _ := newScreen(cmd.OutOrStdout()).size()
			for _, p := range problems {
				fmt.Fprintln(cmd.OutOrStdout(), wrapClauses(p.Error(), columns))
			}
		}
		if len(problems) > 0 {
			return exit(exitUsage)
		}
		return nil
	}
	return cmd
}

// noProgramNote says which worker golem run uses in a directory without a program.
const noProgramNote = "no program here: golem run uses the default worker; golem init --for repository writes it out as a program"

// noProgram returns the error for a directory without a program.
func noProgram(p *program.Program) error {
	return usagef("no program in %s or above it, and golem has kept nothing here; -C DIR names another directory, golem exec CMD starts a session, golem init makes a program, golem status --all lists what waits elsewhere", visible.Text(string(p.Root())))
}

type lintProblem struct {
	place
	What string `json:"what"`
	Hint string `json:"hint,omitempty"`
}

func lintDocument(problems strictyaml.Problems, fixed []strictyaml.Respelling) any {
	d := map[string]any{"problems": problemsOf(problems)}
	if fixed != nil {
		list := []lintFix{}
		for _, r := range fixed {
			list = append(list, lintFix{placeOf(r.Place), r.From, r.To})
		}
		d["respelled"] = list
	}
	return d
}

// A lintFix is a key that golem lint --fix writes in another form.
type lintFix struct {
	place
	From string `json:"from"`
	To   string `json:"to"`
}

// fixSpelling writes the keys of a program in snake_case, and prints what it changes. With
// dry it changes nothing.
func fixSpelling(cmd *cobra.Command, p *program.Program, dry bool) ([]strictyaml.Respelling, error) {
	files := lint.Program{Root: string(p.Root()), Project: p.Project, Workers: p.Workers, Content: p.Content}
	list := lint.Respellings(files)
	trusted, err := p.IsTrusted()
	if err != nil {
		return nil, err
	}
	var skipped []strictyaml.Respelling
	if !dry {
		if skipped, err = lint.Respell(files); err != nil {
			return nil, err
		}
	}
	done := slices.DeleteFunc(slices.Clone(list), func(r strictyaml.Respelling) bool { return slices.Contains(skipped, r) })
	if wantsJSON(cmd) {
		return append([]strictyaml.Respelling{}, done...), nil
	}
	out := cmd.OutOrStdout()
	for _, r := range list {
		note := ""
		if slices.Contains(skipped, r) {
			note = "  (not changed: change it yourself)"
		}
		fmt.Fprintf(out, "%s:%d:%d: %s → %s%s\n", visible.Text(r.Place.Source), r.Place.Line, r.Place.Col, visible.Name(r.From), r.To, note)
	}
	switch {
	case len(list) == 0:
		fmt.Fprintln(out, "all keys are in snake_case")
	case dry:
		fmt.Fprintf(out, "golem lint --fix would change %s\n", visible.Count(len(list), "key"))
	default:
		fmt.Fprintf(out, "changed %s\n", visible.Count(len(done), "key"))
		if trusted && len(done) > 0 {
			fmt.Fprintln(out, "the files have changed: golem trust shows the difference and asks")
		}
	}
	return done, nil
}

// problemsOf returns the problems in an error, for JSON output.
func problemsOf(err error) []lintProblem {
	list := []lintProblem{}
	var problems strictyaml.Problems
	errors.As(err, &problems)
	for _, p := range problems {
		list = append(list, lintProblem{placeOf(p.Place), visible.Text(p.What), visible.Text(p.Hint)})
	}
	return list
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print every value of the configuration, and where it comes from",
		Long: `Print every value of the configuration of this program, and its source. The source is a
flag, an environment variable, the default, or a line of a file: the project file, your own
configuration or the administrator's policy. The names of your own values begin with
"user.", those of the policy with "policy.". Without --all golem skips keys that have no
value. The last line names the directories of package managers, whose new files are one line
in lists where there is no git repository.`,
		Example: "  golem config\n  golem config --all --set delegation.max_depth=2",
		Args:    noArgs,
	}
	flags := addProgramFlags(cmd)
	all := false
	cmd.Flags().BoolVar(&all, "all", false, "also the keys that have no value")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := flags.open(opening{strict: true, otherwise: emptyProgram})
		if err != nil {
			return err
		}
		type value struct {
			Key   string `json:"key"`
			Value string `json:"value"`
			From  place  `json:"from"`
		}
		list := []value{}
		var rows [][]string
		for _, v := range p.Project.Values() {
			v.Text = withoutPassword(v.Text)
			list = append(list, value{v.Key, visible.Text(v.Text), placeOf(v.From)})
			if v.Text == "" && !all {
				continue
			}
			rows = append(rows, []string{v.Key, cmp.Or(v.Text, "—"), v.From.String()})
		}
		for _, l := range p.Project.Ceiling {
			name := "user."
			if l.File == project.PolicyFile {
				name = "policy."
			}
			for _, v := range l.Values() {
				v.Text = withoutPassword(v.Text)
				list = append(list, value{name + v.Key, visible.Text(v.Text), placeOf(v.From)})
				rows = append(rows, []string{name + v.Key, v.Text, v.From.String()})
			}
		}
		dirs := append(review.PackageDirs(), "target beside a Cargo.toml")
		if trusted, err := p.IsTrusted(); err == nil && trusted {
			dirs = append(dirs, visible.Each(p.Project.IgnoredDirs, visible.Text)...)
		}
		return printOr(cmd, map[string]any{"values": list, "ignored_without_git": dirs}, func(w io.Writer) {
			printColumns(w, rows)
			fmt.Fprintln(w, "ignored without git: new files in "+strings.Join(dirs, ", "))
		})
	}
	cmd.AddCommand(newConfigEdit(), newConfigSet())
	return cmd
}

func newInit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Create a program to start from",
		Long: `Create a program in DIR or in the current directory: workers, a project file with their
permissions, and a script that plays a model. At a terminal golem asks what the program
is for and which model it uses. Without a terminal or with --yes, golem chooses:
in a git repository an agent that works on it, elsewhere a document pipeline with two
workers, a text to read and a directory to write to. golem keeps files that exist, and changes
nothing in a directory that already has a program. golem marks the program as trusted if
all of its files are new.`,
		Example: "  golem init notes\n  golem init --yes\n  golem init --for repository --model ollama:qwen3",
	}
	cmd.Args = takesArgs(0, 1, "init takes one directory, got %d")
	flags := &programFlags{dir: "."}
	cmd.Flags().StringVar(&flags.state, "state", "", "the directory of golem's state (GOLEM_STATE)")
	asked := addInitFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			flags.dir = args[0]
		}
		if err := checkDir(flags.dir); err != nil {
			return err
		}
		if err := asked.complete(cmd, flags.dir); err != nil {
			return err
		}
		made, leftOut, err := starter.Make(flags.dir, asked.options())
		if err != nil {
			return err
		}
		p, err := flags.open(opening{filesOnly: true, strict: true, otherwise: emptyProgram})
		if err != nil {
			return err
		}
		others := p.Content.Others(made)
		if len(others) == 0 {
			err = p.Trust()
		}
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), map[string]any{"program": flags.dir, "made": made, "left_out": append([]string{}, leftOut...), "trusted": len(others) == 0})
		}
		printInit(cmd.OutOrStdout(), flags.dir, asked.options(), made)
		if len(leftOut) > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "skipped the remotes %s: their name or address cannot be a target; write them under clearance.targets yourself (https, ssh, user@host:path or file, with no secret in it)\n", strings.Join(leftOut, ", "))
		}
		if len(others) > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "not trusted yet: %s was in the directory before; look at it with golem trust\n", strings.Join(others, ", "))
		}
		return nil
	}
	return cmd
}

// homes returns the home directories of the user: that of the environment, and those of
// the accounts of this process and of the user of sudo, doas or pkexec. HOME alone may be
// unset, or belong to another user.
func homes() []string {
	var list []string
	add := func(dir string) {
		if filepath.IsAbs(dir) && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	home, _ := os.UserHomeDir()
	add(home)
	for _, id := range []string{strconv.Itoa(os.Getuid()), strconv.Itoa(os.Geteuid()), os.Getenv("SUDO_UID"), os.Getenv("PKEXEC_UID")} {
		if u, err := user.LookupId(id); err == nil {
			add(u.HomeDir)
		}
	}
	for _, name := range []string{os.Getenv("SUDO_USER"), os.Getenv("DOAS_USER")} {
		if u, err := user.Lookup(name); err == nil {
			add(u.HomeDir)
		}
	}
	return list
}

// withoutPassword returns a value without the password of an address, such as the token of
// notify.webhook.
func withoutPassword(text string) string {
	if u, err := url.Parse(text); err == nil && u.User != nil {
		return u.Redacted()
	}
	return text
}

// configs returns the directories of golem's configuration.
func configs(home string) []string {
	list := []string{"/etc/golem"}
	if filepath.IsAbs(home) {
		list = append(list, filepath.Join(home, ".config", "golem"))
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		list = append(list, filepath.Join(dir, "golem"))
	}
	return list
}

// configFile returns the user's configuration, "" if there is no home directory.
func configFile(home string) string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "golem", "config.yaml")
	}
	if filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "golem", "config.yaml")
	}
	return ""
}
