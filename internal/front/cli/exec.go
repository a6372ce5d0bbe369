package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/shell"
	"github.com/golem-forge/golem/sandbox"
)

// execFlags are the flags of golem exec.
type execFlags struct {
	*gateFlags
	hosts   *execTerminal // asks about hosts
	given   *[]*explain.Mount
	net     string
	jail    string
	gpu     bool
	profile string
	list    bool
	apply   string
	env     []string
	publish []string
	detach  bool
	budget  []string
	editor  program.Proxy // connects the agent with an editor; nil without one
}

func newExec() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec [flags] CMD [ARG…]",
		Short: "Run an agent or any other command in the jail",
		Long: `Run an agent, a shell or any other command in the jail. It sees a copy-on-write view of
the current directory, a home directory with only your name and address for git, and no
network unless you turn it on. A known agent reaches the hosts of its vendor, and golem asks
about others. Its keys stay outside: golem adds them to its requests.

The changes of the command wait in a session: golem diff shows them, and golem apply copies
them into your directory.

In a directory with golem-forge.config.yaml or workers, the command sees the files that
the entry worker may see. --worker names another worker. --root and --mount choose
directories instead. A profile adds what a known agent needs. golem picks it by the name
of the command, and prints it at the start.

A command starts a new session, which does not have the changes of earlier ones. With -c it
continues in the newest session here that has changes.

The exit code is the command's, or 128 plus the number of the signal that ended it. If golem
does not run the command, it is 2: wrong arguments; 3: declined; 5: no jail.`,
		Example: `  golem exec claude
  golem exec --budget cost=5 codex
  golem exec --root .:ro --mount ./out:/out:rw make report`,
	}
	f := addExecFlags(cmd)
	addDetach(cmd, &f.detach, "the command")
	cmd.Flags().StringVar(&f.apply, "apply", "no", "apply the changes at the end: ask, yes or no")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.list {
			return printProfiles(cmd)
		}
		if len(args) == 0 {
			return usageError("exec needs a command, such as golem exec bash" + takenAsValue(cmd))
		}
		if err := f.check(args); err != nil {
			return err
		}
		if !slices.Contains([]string{"ask", "yes", "no"}, f.apply) {
			return usagef("--apply %s: it is ask, yes or no", sandbox.Shown(f.apply))
		}
		if wantsJSON(cmd) {
			return usageError("exec prints the output of the program; golem diff --json lists its changes")
		}
		if f.detach && backgroundOf(cmd) == nil {
			return f.startDetached(cmd, args)
		}
		cmd.SetOut(cmd.ErrOrStderr()) // standard output belongs to the program
		if f.apply == "yes" {
			f.approval = "approve_all"
		}
		return f.run(cmd, args)
	}
	return cmd
}

// addExecFlags adds the flags of commands that run a program in the jail.
func addExecFlags(cmd *cobra.Command) *execFlags {
	f := &execFlags{gateFlags: addSessionFlags(cmd, "a new one"), given: addMountFlags(cmd), apply: "no"}
	f.addWorker(cmd)
	f.addContinue(cmd)
	f.addName(cmd)
	cmd.Flags().SetInterspersed(false) // the flags after CMD are its own
	cmd.Flags().StringVar(&f.net, "net", "", netUsage)
	cmd.Flags().StringSliceVar(&f.budget, "budget", nil, "what the agent may use of models in its session: cost=DOLLARS, tokens=N, turns=N (answers), time=30m; may be given again")
	cmd.Flags().StringVar(&f.jail, "jail", "", "the weakest level to accept: landlock, namespaces, or container, which needs gVisor's runsc and is used only if you name it; without it golem uses the strongest of the others that works here")
	cmd.Flags().BoolVar(&f.gpu, "gpu", false, "show the command this machine's NVIDIA GPU, whose driver is a large part of the kernel")
	cmd.Flags().StringVar(&f.profile, "profile", "", "settings, credentials and variables for the command; --profile-help lists the profiles, and those of .golem/profiles here")
	cmd.Flags().BoolVar(&f.list, "profile-help", false, "list the profiles, yours and the built-in ones, and how to write one")
	cmd.Flags().StringArrayVar(&f.env, "env", nil, "pass on an environment variable: NAME, or NAME=value; may be given again")
	cmd.Flags().StringArrayVar(&f.publish, "publish", nil, "make a port of a server in the jail reachable on this machine, at 127.0.0.1: PORT, or HOSTPORT:PORT; may be given again")
	return f
}

// check checks the flags of addExecFlags.
func (f *execFlags) check(args []string) error {
	if err := cmp.Or(f.checkContinue(), f.checkName(), f.meansShell(args)); err != nil {
		return err
	}
	if err := f.setNetwork(f.net); err != nil {
		return err
	}
	if slices.ContainsFunc(f.set, func(s string) bool { return strings.HasPrefix(s, "limits.time=") }) {
		return usageError("limits.time is for the commands of workers; " + flagHints["exec --timeout"])
	}
	if !slices.Contains([]string{"", "landlock", "namespaces", "container"}, f.jail) {
		return usagef("--jail %s: it is landlock, namespaces or container", sandbox.Shown(f.jail))
	}
	return cmp.Or(f.passable(), f.setBudget())
}

// startDetached starts the command in the background.
func (f *execFlags) startDetached(cmd *cobra.Command, args []string) error {
	if why := f.whyMissing(args); why != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+why)
		return exit(exitNotFound)
	}
	return startInBackground(cmd, visible.Line(filepath.Base(args[0]), maxWhat))
}

// program returns the program with the files that the command may see.
func (f *execFlags) program(cmd *cobra.Command) (*program.Program, error) {
	if f.jail != "" {
		f.set = append(f.set, "sandbox.require_os_sandbox="+f.jail)
	}
	if f.gpu {
		f.set = append(f.set, "jail.gpu=true")
	}
	if !f.startsNew() && len(*f.given) == 0 {
		return f.sessionProgram(f.sessionID())
	}
	p, err := f.open(opening{otherwise: flagMounts, mounts: *f.given})
	if err == nil {
		err = f.chooseContinued(cmd, p)
	}
	return p, err
}

// sessionProgram returns the program of a session, with the directories that the session
// started with.
func (f *execFlags) sessionProgram(id string) (*program.Program, error) {
	all, err := f.sessionsHere()
	if err != nil {
		return nil, err
	}
	w, err := naming.Find(all, id)
	if err != nil {
		return nil, err
	}
	if len(w.Mounts) > 0 && len(w.program.Storage.Sessions.Given) == 0 {
		return nil, &sandbox.Error{Op: "session", Path: w.label(), Code: sandbox.ErrNotFound, Hint: "a directory that it shows is gone, or may not be mounted any more; golem sessions remove " + w.label() + " removes the session"}
	}
	f.session = w.ID
	return w.program, nil
}

func (f *execFlags) run(cmd *cobra.Command, args []string) error {
	user, err := f.user()
	if err != nil {
		return err
	}
	agent, err := f.findAgent(user, args[0])
	if err != nil {
		return err
	}
	if why := f.whyMissing(args); why != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+why)
		return exit(exitNotFound)
	}
	p, err := f.program(cmd)
	if err != nil {
		return err
	}
	if err := p.CheckEntry(); err != nil {
		return err
	}
	if f.profiles {
		if file := profile.RepositoryFile(f.profile); p.Content.Files[file] != string(user.Repository[file]) {
			return &sandbox.Error{Op: "profile", Path: file, Code: sandbox.ErrConflict, Hint: "the file changed while golem read it; type the command again"}
		}
	}
	if err := f.askTrust(cmd, p, false); err != nil {
		return err
	}
	if err := checkBudget(p, agent, f.env); err != nil {
		return err
	}
	if f.startsNew() {
		if err := p.Storage.CheckLimit(); err != nil {
			return err
		}
	}
	outside, err := outsideOf(p, args)
	if err != nil {
		return err
	}
	call, err := tool.NewCall(shell.ExecArgs{Command: args})
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if f.editor != nil {
		dir, err = f.realDir()
	}
	if err != nil {
		return err
	}
	profile := agent.ProfileFor(p.Project.Network)
	x := &session.Exec{Command: args[0], Profile: profile, ProfileNamed: f.profile != "", Env: f.environment(profile), Passed: f.passed(), Dir: dir, Path: os.Getenv("PATH")}
	if err := f.publishPorts(cmd.Context(), p, x); err != nil {
		return errors.Join(err, x.Ports.Close())
	}
	gate, err := f.openGate(cmd, p, x)
	if err != nil {
		return errors.Join(err, x.Ports.Close())
	}
	if err := checkRights(cmd, p, gate); err != nil {
		return errors.Join(err, gate.Close(), x.Ports.Close())
	}
	if err := publish(backgroundOf(cmd), gate.Session, filepath.Base(args[0])); err != nil {
		return errors.Join(err, gate.Close(), x.Ports.Close())
	}
	f.tell(cmd, p, gate, agent, x, args[0]) // only now, because a session that did not open needs no report
	note(cmd, slices.Concat(gate.StartNotes, gate.Notes, outside)...)
	start := time.Now()
	r := gate.Do(cmd.Context(), policy.User, call)
	ran, began := r.Data.(jail.Result)
	if r.Changes = nil; r.Words() != "" || len(r.Notes) > 0 || r.Err != nil {
		err = printResult(cmd, r)
	}
	x.Ports.Close()
	waiting := false
	if began {
		var wrong error
		waiting, wrong = f.after(cmd, p, gate)
		err = cmp.Or(err, wrong)
		printWaitingHosts(cmd.ErrOrStderr(), gate.WaitingHosts(), f.hosts.why())
		f.tellCost(cmd.ErrOrStderr(), gate, agent, args[0])
		traceAgent(cmd, p, gate, args[0], start, ran.Code)
	}
	late := gate.Close()
	err = withLate(cmd, err, late)
	if late == nil && !waiting && (f.sessionID() == "" || f.name != "") && p.Storage.Sessions.IsUnused(gate.Session, profile) {
		err = cmp.Or(err, p.Storage.RemoveUnused(gate.Session))
	}
	removeUnused(p, user, f.sessionID())
	f.explainLimits(cmd.ErrOrStderr(), args, ran)
	if ran.Code != 0 {
		f.explainFailure(cmd, p, gate, args, ran)
		var told exit
		if err != nil && !errors.As(err, &told) {
			fmt.Fprintln(cmd.ErrOrStderr(), "golem:", err)
		}
		return exit(ran.Code)
	}
	return err
}

// removeUnused removes earlier sessions of golem exec that hold nothing: all changes were
// applied, or golem was killed before the program changed anything. If another golem uses
// one, a later call tries again. It keeps the session with the id except, and returns the ids
// of those that it removed.
func removeUnused(p *program.Program, user profile.User, except string) (ids []string) {
	remove := func(s *session.Session, name, command string) {
		if profile, err := user.ProfileFor(name, command); err == nil && s.ID != except && p.Storage.Sessions.IsUnused(s, profile) && p.Storage.RemoveUnused(s) == nil {
			ids = append(ids, s.ID)
		}
	}
	p.Storage.Sessions.EachUnchecked(func(s *session.Session, name string) {
		if name != "" {
			remove(s, name, "")
		} else {
			remove(s, "", s.Command)
		}
	})
	return ids
}

// openGate opens the gate for the command. It uses a new session unless the user names one.
func (f *execFlags) openGate(cmd *cobra.Command, p *program.Program, x *session.Exec) (*program.OpenWorker, error) {
	asker := f.asker(cmd, p)
	f.hosts = newExecTerminal(asker)
	x.Attach = f.hosts.attach
	var hostAsker approval.Asker = f.hosts
	var beside approval.PendingAsker
	if f.editor != nil {
		x.Attach, x.AtHostPath, hostAsker = f.attachEditor(cmd), true, f.editor
	}
	if h := backgroundOf(cmd); h != nil {
		f.hosts.host = h
		hostAsker, beside = inBackground{h, f.hosts}, inBackground{h, asker}
	}
	ctx, stop := untilSignal(cmd.Context()) // after this the command gets the signals
	defer stop()
	called := []string{} // besides exec
	if f.apply != "no" {
		called = append(called, "apply_changes")
	}
	return f.openWorker(ctx, cmd, p, program.WorkerOptions{Tools: called, Session: cmp.Or(f.sessionID(), session.New), Name: f.name, Exec: x, Asker: asker, Beside: beside, HostAsker: hostAsker})
}

// outsideOf warns that git does not work in a part of a work tree. If the command is git
// itself, that is an error.
func outsideOf(p *program.Program, args []string) ([]string, error) {
	top, root := p.RepositoryAbove()
	if top == "" {
		return nil, nil
	}
	text := "this directory is part of the git repository " + visible.Text(string(top)) + ", and git does not work in it"
	if root {
		text += "; use --root " + visible.Text(string(top)) + ":overlay"
	}
	if filepath.Base(args[0]) != "git" || makesRepository(args[1:]) {
		return []string{text}, nil
	}
	return nil, usagef("%s", text)
}

// makesRepository reports whether a git command line needs no repository.
func makesRepository(args []string) bool {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-c" || args[i] == "-C":
			i++
		case args[i] == "--version" || args[i] == "--help" || args[i] == "-v" || args[i] == "-h":
			return true
		case strings.HasPrefix(args[i], "-"):
		default:
			return slices.Contains([]string{"init", "clone", "ls-remote", "version", "help", "config"}, args[i])
		}
	}
	return true
}

// asker returns an asker at the terminal for applying changes, or nil.
func (f *execFlags) asker(cmd *cobra.Command, p *program.Program) approval.Asker {
	terminal := terminalOf(backgroundOf(cmd), true)
	if terminal == nil {
		return nil
	}
	asker := newAsker(terminal, cmd.ErrOrStderr(), f.wait)
	if local, err := f.pathsOf(p); err == nil {
		asker.local = local.localRequest
	}
	return asker
}

// passable refuses --env flags with a wrong name, or with a variable that is not set.
// Otherwise the command would run without a variable that the user meant it to have.
func (f *execFlags) passable() error {
	for _, e := range f.env {
		name, _, set := strings.Cut(e, "=")
		odd := strings.IndexFunc(name, func(r rune) bool {
			return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
		})
		if name == "" || odd >= 0 {
			return usagef("--env %s: it is NAME, or NAME=value; a name has letters, digits and _", sandbox.Shown(name))
		}
		if _, there := os.LookupEnv(name); !there && !set {
			return usagef("--env %s: it is not set here; --env %s=value sets it", name, name)
		}
	}
	return nil
}

// passed returns the variables that --env passes on from the user's environment.
func (f *execFlags) passed() []string {
	return slices.DeleteFunc(slices.Clone(f.env), func(e string) bool { return strings.Contains(e, "=") })
}

// environment returns the user's variables that the command gets, by the profile and the
// flags.
func (f *execFlags) environment(p profile.Profile) []string {
	var list []string
	for _, name := range slices.Concat([]string{"TERM", "TERM_PROGRAM", "COLORTERM", "NO_COLOR", "LANG", "LC_ALL", "TZ"}, p.Env, p.Keys) {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	for _, e := range f.env {
		if !strings.Contains(e, "=") {
			e += "=" + os.Getenv(e)
		}
		list = append(list, e)
	}
	return list
}

// tell prints what the command gets: directories, network, home directory and
// credentials.
func (f *execFlags) tell(cmd *cobra.Command, p *program.Program, gate *program.OpenWorker, agent network.Agent, x *session.Exec, command string) {
	hosts := gate.Hosts()
	adds, secrets := describeFiles(x.Profile)
	home := "empty home directory"
	switch {
	case gate.HasHome:
		home = "home directory of session " + naming.Label(gate.Session)
	case x.Profile.HasOnlyName():
		home, adds = "empty home directory except your name and address for git", nil
	case len(adds)+len(x.Profile.Logins) > 0:
		home = "new home directory"
	}
	mounted := mountedAt(gate, x.Profile.Home)
	if x.AtHostPath {
		mounted += ", and at its own path"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "golem: %s; %s; %s; profile %s (%s)\n", mounted, describeNetwork(p, hosts)+describePorts(x.Ports.List())+describeGPU(p), home, x.Profile.Name, x.Profile.About)
	if x.Profile.File != "" {
		whose, instead := "your own", ""
		if x.Profile.InRepository {
			whose = "one of this directory"
		}
		if profile.IsBuiltIn(x.Profile.Name) {
			instead = ", which replaces the built-in profile " + x.Profile.Name
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: the profile is %s, %s%s\n", whose, visible.Text(visible.HomeRelative(x.Profile.File, x.Profile.Home)), instead)
	}
	if f.profile == "" && x.Profile.Name == profile.Plain && (profile.Host{Path: x.Path, Dir: x.Dir, Home: x.Profile.Home}).HasInstalled(command) {
		has := "it has none of your settings, credentials and variables"
		if len(f.env) > 0 {
			has = "it has none of your settings and credentials, and only the variables of --env"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: there is no profile for %s, so %s; golem exec --profile-help explains how to write one\n", visible.Text(filepath.Base(command)), has)
	}
	for _, m := range x.Profile.Mounts {
		adds = append(adds, string(m.Source)+" at "+m.Target+" (read-only)")
	}
	for _, name := range present(x.Profile.Env) {
		if hosts.IsAll() || !session.IsReplaced(name, slices.ContainsFunc(hosts.Rules(), policy.HostRule.NeedsRequests)) {
			adds = append(adds, name)
		}
	}
	var sets []string
	for _, e := range x.Profile.Set {
		name, _, _ := strings.Cut(e, "=") // the value may contain a variable of the user
		sets = append(sets, name)
	}
	if len(adds) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: the profile adds %s\n", strings.Join(adds, "; "))
	}
	if len(sets) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: the profile sets %s\n", strings.Join(sets, ", "))
	}
	tellNetwork(cmd.ErrOrStderr(), p, hosts, agent, secrets)
}

// describeGPU describes the devices of the GPU that the command sees.
func describeGPU(p *program.Program) string {
	if !p.Project.GPU {
		return ""
	}
	names, why, _ := jail.GPU()
	if why != "" {
		return "" // the command does not start, and its error says why
	}
	return "; gpu: /dev/" + strings.Join(names, ", /dev/") + ", which lead to the driver in your kernel"
}

// mountedAt describes which host directories the command sees, and how.
func mountedAt(gate *program.OpenWorker, home string) string {
	type shown struct{ name, source, how string }
	var list []shown
	for _, name := range gate.Files.Anchors() {
		blocked := func(verb policy.Verb) bool {
			return gate.Decide(policy.Effect{Verb: verb, Target: name}).Approval == policy.Blocked
		}
		m, ok := gate.Files.MountOf(name)
		if !ok || blocked(policy.Read) { // the command does not see it
			continue
		}
		source, how := string(m.Source), "read-only"
		kept := false
		if m.Backend != nil {
			source, kept = string(m.Backend.Traits().Host), m.Backend.Traits().Through != ""
		}
		if below, err := filepath.Rel(m.Target, name); err == nil {
			source = filepath.Join(source, below)
		}
		switch {
		case m.Access < sandbox.ReadWrite, blocked(policy.Write), blocked(policy.Delete):
		case kept && gate.Session.Copy:
			how = "a copy"
		case kept:
			how = "copy-on-write"
		default:
			how = "read-write"
		}
		part := func(s shown) bool { // it is mounted like the rest of a directory that is already listed
			below, err := filepath.Rel(s.source, source)
			inside, e := filepath.Rel(s.name, name)
			return err == nil && e == nil && below == inside && filepath.IsLocal(below) && s.how == how
		}
		if !slices.ContainsFunc(list, part) {
			list = append(list, shown{name, source, how})
		}
	}
	var words []string
	for _, s := range list {
		words = append(words, fmt.Sprintf("%s is mounted at %s (%s)", visible.Text(visible.HomeRelative(s.source, home)), visible.Text(jail.Inside(gate.Files, s.name)), s.how))
	}
	if len(words) == 0 {
		return "no directory is mounted"
	}
	return strings.Join(words, ", ")
}

// copiesOf describes copies of files in the user's home directory.
func copiesOf(names []string) []string {
	var list []string
	for _, name := range names {
		if part := profile.PartOf(name); part != "" {
			list = append(list, part+" from ~/"+name)
		} else {
			list = append(list, "a copy of ~/"+name)
		}
	}
	return list
}

// present returns those variables that are set and not empty.
func present(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return os.Getenv(name) == "" })
}

// after prints the changes, and applies them if --apply asks for it. It reports whether
// changes wait in the session.
func (f *execFlags) after(cmd *cobra.Command, p *program.Program, gate *program.OpenWorker) (waiting bool, err error) {
	if gate.Session == nil {
		return false, nil
	}
	report, end := beginReading(cmd.ErrOrStderr())
	review, err := gate.Review(report)
	end()
	if err != nil {
		return false, err
	}
	if review.Refs && (len(review.Files) == 0 || f.apply != "no") {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: session %s: %s\n", naming.Label(gate.Session), fmt.Sprintf(commitsHint, ""))
	}
	if len(review.Files)+len(review.Ignored) == 0 && review.Unfit == "" {
		return review.Git > 0, nil
	}
	if f.apply == "no" {
		text, err := describeChanges(cmd.ErrOrStderr(), p, gate.Session, review, "", false)
		if err != nil {
			return true, err
		}
		_, err = io.WriteString(newScreen(cmd.ErrOrStderr()).w, text)
		return true, err
	}
	r := gate.Do(context.WithoutCancel(cmd.Context()), policy.User, tool.Call{Tool: "apply_changes", Args: []byte("{}")})
	local, err := f.pathsOf(p)
	if err != nil {
		return false, err
	}
	err = printResult(cmd, local.localResult(r))
	if r.Err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: its changes wait in session %s; golem diff shows them\n", naming.Label(gate.Session))
	}
	return false, err
}
