package cli

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

func newSuggest() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "suggest [SESSION]",
		Short: "Suggest the smallest policy that allows what a session did",
		Long: `Read in the journal which hosts the commands of a session reached and which files they
changed, and suggest the smallest policy that allows the same: the list of hosts, with the
methods and paths that golem saw, read-only directories where the session changed nothing, and
for workers with a shell the rules for the commands that ran without a question.
SESSION is a name or an id, also of a session that is gone. Without it golem takes the last one.

golem decides again about every recorded call under the suggestion, and prints how many would
fail. It lists, and does not suggest, hosts that golem refused or asked about, connections that
failed, and those after the session had read untrusted content. If golem refused or asked
something, the suggestion allows nothing that the project does not allow today.

golem writes nothing. With --write it shows the change of the project file, and writes it if
you approve it; --yes approves it. You write rules for commands into the file of the worker.

Exit code 0: no call would fail; 1: some would; 2: no such session; 3: not approved.`,
		Example: "  golem suggest\n  golem suggest fix-login --write\n  golem suggest 2zdttm --json",
		Args:    takesArgs(0, 1, oneSession),
	}
	s := suggest{flags: addProgramFlags(cmd)}
	cmd.Flags().BoolVar(&s.write, "write", false, "write the suggestion to the project file, if you approve it")
	cmd.Flags().BoolVar(&s.yes, "yes", false, "with --write: approve it without a question")
	cmd.RunE = s.run
	return cmd
}

// A suggest is a call of golem suggest.
type suggest struct {
	flags      *programFlags
	write, yes bool

	options  program.Options
	program  *program.Program
	session  string // the id
	label    string
	proposal explain.Proposal
	replay   explain.Replay
	change   fileChange
	isNew    bool   // there is no project file
	places   [2]int // how many places the session could write to, and could with the suggestion
}

// A suggestionDocument is a suggestion for --json.
type suggestionDocument struct {
	Session string                  `json:"session"`
	Calls   int                     `json:"calls"`
	Fails   []string                `json:"fails"`
	Allow   []hostDocument          `json:"allow"`
	Beyond  []string                `json:"beyond_project"`
	Before  int                     `json:"hosts_before"` // -1 for all
	After   int                     `json:"hosts_after"`
	Open    int                     `json:"commands_with_whole_network"`
	Written []string                `json:"written"`
	Known   bool                    `json:"written_known"`
	Places  int                     `json:"writable_before"`
	Left    int                     `json:"writable_after"`
	Skipped []explain.SkippedHost   `json:"not_suggested"`
	Rules   []*explain.CommandRules `json:"command_rules"`
	Diff    string                  `json:"diff"`
}

// A hostDocument is a rule for --json.
type hostDocument struct {
	Host       string   `json:"host"`
	Ports      []uint16 `json:"ports"`
	Methods    []string `json:"methods,omitempty"`
	Paths      []string `json:"paths,omitempty"`
	GitRead    bool     `json:"git_read,omitempty"`
	Credential string   `json:"credential,omitempty"`
}

func (s *suggest) run(cmd *cobra.Command, args []string) error {
	if s.yes && !s.write {
		return usageError("--yes is for golem suggest --write")
	}
	var err error
	if s.options, err = s.flags.options(); err != nil {
		return err
	}
	if s.program, err = s.flags.open(opening{strict: true, otherwise: emptyProgram}); err != nil {
		return err
	}
	past, err := s.read(cmd, args)
	if err != nil {
		return err
	}
	s.proposal = past.Propose(s.program.Project.Network)
	if err := s.try(); err != nil {
		return err
	}
	if wantsJSON(cmd) {
		err = printJSON(cmd.OutOrStdout(), s.document())
	} else {
		safe := visible.NewWriter(cmd.OutOrStdout())
		s.print(safe)
		err = safe.Close()
	}
	if failed := exitIf(len(s.replay.Fails) > 0, exitFailed); err != nil || failed != nil || !s.write {
		return cmp.Or(err, failed)
	}
	if s.isNew {
		return usageError("no project file here; golem init makes one, or save the lines above as " + project.File)
	}
	if string(s.change.old) == string(s.change.text) {
		return nil
	}
	yes, err := s.change.approve(cmd, s.flags, s.options)
	if err != nil || !yes {
		return cmp.Or(err, error(exit(exitDenied)))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "changed %s; golem trust shows the program as it is now, and asks\n", visible.Text(visible.HomeRelative(s.change.file, s.options.Home)))
	return nil
}

// read returns what the journal says about the session.
func (s *suggest) read(cmd *cobra.Command, args []string) (*explain.Past, error) {
	filter := &filterFlags{}
	if len(args) == 1 {
		filter.Session = args[0]
	} else if err := s.flags.eachRecord(cmd, &filterFlags{Filter: audit.Filter{Kind: string(audit.Intent)}}, func(r inbox.JournalRecord, _ sessionNames) error {
		if r.Command() != "" && r.Session != "" {
			filter.Session = r.Session
		}
		return nil
	}); err != nil {
		return nil, err
	} else if filter.Session == "" {
		return nil, usageError("the journal has no session with a command; golem exec CMD runs one")
	}
	past, found := &explain.Past{}, false
	err := s.flags.eachRecord(cmd, filter, func(r inbox.JournalRecord, names sessionNames) error {
		found, s.session, s.label = true, r.Session, names.beside(r.Session)
		past.Add(r.Record)
		return nil
	})
	if err == nil && !found {
		err = usagef("the journal has no session %s; golem audit show lists the sessions, golem sessions those that still exist", sandbox.Shown(filter.Session))
	}
	return past, err
}

// try makes the project file with the suggestion, and decides again about the session with it.
func (s *suggest) try() error {
	root, name, err := project.Find(s.options.Dir)
	if err != nil {
		return err
	}
	if s.isNew = name == ""; s.isNew {
		root, name = string(s.program.Root()), project.File
	}
	s.change = fileChange{command: "suggest", file: filepath.Join(root, name), says: "to what session " + s.label + " used", yes: s.yes}
	s.change.again = []string{"golem", "suggest", "--write", "--yes", s.session}
	if !s.isNew {
		if s.change.file, s.change.old, err = readConfig(s.change.file); err != nil {
			return err
		}
	}
	old := s.change.old
	if s.isNew {
		old = []byte("sandbox: {root: ., mode: overlay}\n")
	}
	s.change.text = old
	hosts, today := policy.Grant{Hosts: policy.HostsOfRules(s.proposal.Hosts...)}, policy.Grant{Hosts: s.program.Project.Network}
	if s.isNew || len(today.Within(hosts)) > 0 || len(hosts.Within(today)) > 0 {
		if s.change.text, err = project.RewriteHosts(name, old, hosts.Hosts); err != nil {
			return err
		}
	}
	for _, split := range []bool{true, false} { // the smallest first
		text, err := s.program.Project.RewriteMounts(name, s.change.text, s.proposal.Written, split)
		if s.isNew || !s.proposal.WrittenKnown || err != nil {
			break
		}
		if err = s.replayWith(text); err == nil && len(s.replay.Fails) == 0 {
			s.change.text = text
			return nil
		}
	}
	return s.replayWith(s.change.text)
}

// replayWith decides again about the session with another project file.
func (s *suggest) replayWith(text []byte) error {
	o := s.options
	o.Text = text
	smaller, err := program.Load(o)
	if err != nil {
		return err
	}
	if s.replay, err = s.proposal.Replay(func(worker string) (explain.Subject, error) {
		if smaller.Worker(worker) == nil { // golem exec, or a worker that is gone
			worker = ""
		}
		return smaller.Subject(worker)
	}); err != nil {
		return err
	}
	today, err := s.program.Subject("")
	if err != nil {
		return err
	}
	places, err := today.Places()
	for _, m := range smaller.Project.Mounts {
		if !slices.Contains(places, m.Target) {
			places = append(places, m.Target)
		}
	}
	s.places = [2]int{explain.CountWritable(s.program.Project.Grant().Files, places), explain.CountWritable(smaller.Project.Grant().Files, places)}
	return err
}

func (s *suggest) document() suggestionDocument {
	p := s.proposal
	d := suggestionDocument{Session: s.session, Calls: s.replay.Calls, Fails: append([]string{}, s.replay.Fails...), Allow: []hostDocument{}, Beyond: []string{},
		Before: p.Before, After: p.After, Open: p.Open, Written: append([]string{}, p.Written...), Known: p.WrittenKnown, Places: s.places[0], Left: s.places[1], Skipped: append([]explain.SkippedHost{}, p.Skipped...), Rules: append([]*explain.CommandRules{}, p.Commands...), Diff: strings.Join(s.change.diff(), "\n")}
	for _, r := range p.Hosts {
		d.Allow = append(d.Allow, hostDocument{r.Host, r.Ports, r.Methods, r.Paths, r.GitRead, r.Credential})
	}
	for _, r := range p.Beyond {
		d.Beyond = append(d.Beyond, r.String())
	}
	return d
}

// print prints the suggestion for a person.
func (s *suggest) print(w io.Writer) {
	p := s.proposal
	switch {
	case s.isNew:
		fmt.Fprintf(w, "%s for what session %s used:\n%s", project.File, s.label, s.change.text)
	case string(s.change.old) == string(s.change.text):
		fmt.Fprintf(w, "session %s needs all that the project file allows\n", s.label)
	default:
		fmt.Fprintf(w, "the smallest change of %s for what session %s used:\n%s\n", visible.Text(filepath.Base(s.change.file)), s.label, strings.Join(s.change.diff(), "\n"))
	}
	for _, r := range p.Beyond {
		fmt.Fprintf(w, "more than the project allows today: %s\n", r)
	}
	for _, at := range p.AnyPath {
		fmt.Fprintf(w, "every path of %s stays allowed: no rule can name the path of one of the requests\n", visible.Text(at))
	}
	if len(p.Skipped) > 0 {
		fmt.Fprintln(w, "not suggested:")
		var rows [][]string
		for _, h := range p.Skipped {
			rows = append(rows, []string{h.Host, h.Why, visible.Count(h.Times, "time")})
		}
		printColumns(w, rows)
	}
	for _, c := range p.Commands {
		s.printRules(w, c)
	}
	if p.Open > 0 {
		fmt.Fprintf(w, "%s had the whole network: golem did not record its hosts, and suggests none of them\n", visible.Count(p.Open, "command"))
	}
	if !p.WrittenKnown {
		fmt.Fprintln(w, "the journal does not have all files that the session changed, so every directory stays writable")
	}
	for _, one := range s.replay.Fails {
		fmt.Fprintf(w, "would fail: %s\n", one)
	}
	fmt.Fprintf(w, "%d of %s would fail; %s\n", len(s.replay.Fails), visible.Count(s.replay.Calls, "call"), s.fewer())
	if !s.write && !s.isNew && string(s.change.old) != string(s.change.text) {
		fmt.Fprintf(w, "next: golem suggest --write %s\n", s.session)
	}
}

// printRules prints the rules for the shell of a worker, as its file has them.
func (s *suggest) printRules(w io.Writer, c *explain.CommandRules) {
	if len(c.Patterns) > 0 {
		fmt.Fprintf(w, "rules for the commands of %s, to write under toolsets.shell in its file:\n  rules:\n", sandbox.Shown(c.Worker))
		for _, text := range c.Patterns {
			fmt.Fprintf(w, "    - {pattern: %s, approval: preApproved}\n", strconv.Quote(text))
		}
		fmt.Fprintln(w, "  default: {approval: ask}")
	}
	for _, text := range c.Asks {
		fmt.Fprintf(w, "no rule for %s\n", text)
	}
}

// fewer says how much smaller the suggestion is than what the session had.
func (s *suggest) fewer() string {
	p := s.proposal
	hosts := visible.Count(p.After, "host") + " instead of all"
	if p.Before >= 0 {
		hosts = fmt.Sprintf("%s (of %d)", visible.Count(p.Before-p.After, "host"), p.Before)
	}
	if s.isNew {
		return hosts + " fewer than the session had"
	}
	return fmt.Sprintf("%s and %s (of %d) fewer than the session had", hosts, visible.Count(s.places[0]-s.places[1], "writable place"), s.places[0])
}
