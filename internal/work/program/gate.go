package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/taint"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/files/undo"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/continuing"
	"github.com/golem-forge/golem/internal/work/foreigntools"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/custom"
	"github.com/golem-forge/golem/internal/work/toolset/export"
	"github.com/golem-forge/golem/internal/work/toolset/file"
	"github.com/golem-forge/golem/internal/work/toolset/foreign"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/internal/work/toolset/shell"
	"github.com/golem-forge/golem/internal/work/toolset/web"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// WorkerOptions say for which worker a gate is opened, and who is asked for approval.
type WorkerOptions struct {
	Worker       string // "" for the entry worker
	Asker        approval.Asker
	Beside       approval.PendingAsker // asks instead of Asker, if set
	HostAsker    approval.Asker        // asks about hosts while the program that the user runs has the terminal
	ApproveReads bool
	ShowReads    bool          // a question has the content of the files that a call reads
	Untrusted    []string      // more files that taint a worker that reads them
	Secrets      []string      // values that must not get into the journal
	Session      string        // a name, an id, session.New, or "" for the session used last
	Name         string        // the name of a new session, "" for one that golem makes
	Exec         *session.Exec // the program that the user runs, nil for none
	Run          bool          // the gate is for a run, which always has a session
	SingleCall   bool          // the gate is for one call, and services end with it
	Isolated     bool          // a new session gets an overlay over each writable mount, and changes no file of the user
	Undo         bool          // the call undoes the last change, which may be from another session
	Tools        []string      // the tools that are called, besides exec; nil for all

	// Copy makes the session work on copies. OnCopy receives the progress of the copying
	// and stops it by returning an error.
	Copy   bool
	OnCopy func(overlay.Progress) error

	// OnOutput, if set, receives the output of the commands of workers as it arrives.
	OnOutput func(workers []string, data []byte)

	// Clipboard, if set, puts a text into the user's clipboard, and says how.
	Clipboard func(ctx context.Context, text string) (how string, err error)
}

// An OpenWorker is a worker with its open gate, its journal and its session. It is closed
// after use.
type OpenWorker struct {
	tool.Gate
	program   *Program
	step      *calltree.Step   // nil if the program has no worker
	allFiles  *sandbox.Sandbox // all files of the project
	work      *session.Workspace
	records   *storage.Records
	journal   *audit.Journal
	writers   *session.WriterList
	done      *storage.DoneCalls
	exec      *session.Exec
	called    []string // the tools that are called; nil for all
	once      bool
	untrusted []string
	opened    time.Time
	clipboard func(ctx context.Context, text string) (how string, err error)
	onOutput  func(workers []string, data []byte)
	mu        sync.Mutex
	running   []io.Closer // what the gates of this gate's workers have started, in this order
	networks  *network.Networks
	spending  *meter // counts what the program that the user runs asks of models; nil for others

	Session    *session.Session // nil if no mount is an overlay, unless it is for a run or golem exec
	HasHome    bool             // the program that the user runs has a home directory from an earlier call
	Notes      []string         // what the user should know about the session
	StartNotes []string         // and about a session that has just started
	Rights     continuing.Rights
}

// Tools returns the gate of a worker without files, to list its tools and what it may do.
func (p *Program) Tools(worker string) (tool.Gate, error) {
	step, err := p.reach(worker)
	if err != nil {
		return tool.Gate{}, err
	}
	g, err := p.plainGate(step)
	if err != nil {
		return tool.Gate{}, err
	}
	g.Tools = p.unlistTools(tools(export.Set{Endpoints: export.EndpointsOf(p.Project, p.options.Environ)}))
	customTools, err := p.foreign().Custom(step, nil)
	if err != nil {
		return tool.Gate{}, err
	}
	g.Tools = append(g.Tools, customTools...)
	servers, _, err := p.foreign().Servers(step, 0, g.Tools, nil, nil)
	if err != nil {
		return tool.Gate{}, err
	}
	g.Tools = append(g.Tools, servers...)
	unlistServices(g)
	return denyTools(g, p.Project.Ceiling), nil
}

// plainGate returns a gate without tools for a step of the call tree, nil for a program
// without workers. It is an error if a worker of the chain asks for too much.
func (p *Program) plainGate(step *calltree.Step) (tool.Gate, error) {
	if step == nil {
		return tool.Gate{Grant: p.Project.Grant(), Workers: []string{policy.NoWorker}, NoFile: p.Project.File == ""}, nil
	}
	for at := step; at != nil; at = at.Parent {
		if err := at.Problems.Err(); err != nil {
			return tool.Gate{}, err
		}
	}
	return tool.Gate{Grant: step.Grant, Workers: step.Chain(), NoFile: p.Project.File == ""}, nil
}

// ServerNotes says which MCP servers of a worker have no tools to list, and why.
func (p *Program) ServerNotes(worker string) ([]string, error) {
	step, err := p.reach(worker)
	if err != nil {
		return nil, err
	}
	_, notes, err := p.foreign().Servers(step, 0, nil, nil, nil)
	return notes, err
}

// unlistTools marks tools without a use in this program as unlisted. Tools for the
// changes of sessions need a mount with an overlay. Tools of git need a target, api_send
// needs an endpoint, and web_fetch a host.
func (p *Program) unlistTools(tools []tool.Tool) []tool.Tool {
	noHost := p.Project.Network.IsEmpty() && p.Project.Fetch.IsEmpty()
	for i, t := range tools {
		if t.Toolset == "changes" && t.Name != "undo" && !p.asksOverlay() || t.Toolset == "git" && len(p.Targets().List()) == 0 || t.Name == "api_send" && len(p.Project.Endpoints) == 0 || t.Toolset == "web" && noHost {
			tools[i].Unlisted = true
		}
	}
	return tools
}

// unlistServices marks the tools for services as unlisted if none can be started.
func unlistServices(g tool.Gate) {
	open := slices.ContainsFunc(g.Tools, func(t tool.Tool) bool { return t.Name == "service_start" && g.HighestApproval(t) > policy.Blocked })
	for i, t := range g.Tools {
		if strings.HasPrefix(t.Name, "service_") && !open {
			g.Tools[i].Unlisted = true
		}
	}
}

// OpenWorker opens a worker on the user's real files. It returns an error if
// the user does not trust the program.
func (p *Program) OpenWorker(v WorkerOptions) (opened *OpenWorker, err error) {
	if err := p.CheckTrust(); err != nil {
		return nil, err
	}
	p = p.forSession(v)
	step, err := p.reach(v.Worker)
	if err != nil {
		return nil, err
	}
	gate, err := p.plainGate(step)
	if err != nil {
		return nil, err
	}
	work, err := p.Storage.Sessions.OpenWorkspace(session.Options{ID: v.Session, Name: v.Name, Worker: workerName(gate), Exec: v.Exec, Run: v.Run, Copy: v.Copy, OnCopy: v.OnCopy, Network: gate.HasNetwork(), SingleCall: v.SingleCall, Isolated: p.plain != nil})
	if err != nil {
		return nil, err
	}
	defer func() {
		if opened == nil {
			work.Close()
		}
	}()
	// A session may lack changes that were being applied. They come back before its
	// overlays are mounted.
	if err := work.Recover(); err != nil {
		return nil, fmt.Errorf("changes of a command that was cut off: %w", err)
	}
	files, err := p.Project.Sandbox(work.Mount)
	if err != nil {
		return nil, err
	}
	if v.Exec != nil {
		work.FindWorkTrees(files, p.options.Home)
	}
	rec, err := p.Storage.OpenRecords()
	if err != nil {
		return nil, err
	}
	if work.Session != nil {
		rec.Session = work.Session.ID
	}
	if v.Undo {
		rec.Session = p.Storage.Sessions.UndoSession()
	}
	journal, err := rec.OpenJournal(append(p.foreignSecrets(), v.Secrets...))
	if err != nil {
		return nil, errors.Join(err, rec.Close())
	}
	if work.Session == nil && v.Session == session.New {
		os.Remove(p.Storage.TaintFile(nil))
	}
	writers, err := session.NewWriterList(rec.Folder, rec.Process, files)
	if err != nil {
		return nil, errors.Join(err, journal.Close(), rec.Close())
	}
	closed := func(err error) (*OpenWorker, error) { return nil, errors.Join(err, journal.Close(), rec.Close()) }
	done := new(storage.DoneCalls)
	gate.Journal = storage.GateJournal{Journal: journal, Sign: writers.Signer(), Done: done}
	if p.options.Job == nil { // a job's own records say who signed it
		if err := recordTrust(p.TrustStore(), p.Content, p.root, gate.Journal); err != nil {
			return closed(err)
		}
	}
	approver, err := v.newApprover(p, rec, work.Session)
	if err != nil {
		return closed(err)
	}
	gate.Approver, gate.Enter, gate.Changed, gate.ShowReads = approver, work.Enter(), work.CommandChanges, v.ShowReads
	d := &OpenWorker{Gate: gate, program: p, allFiles: files, work: work, records: rec, journal: journal, writers: writers, done: done, exec: v.Exec, called: v.Tools, once: v.SingleCall, untrusted: v.Untrusted, opened: p.options.Now(), clipboard: v.Clipboard, onOutput: v.OnOutput, step: step,
		Session: work.Session, Notes: work.Notes, StartNotes: append(work.StartNotes, network.PresetNotes(p.presets)...)}
	if v.Exec != nil {
		if d.spending, err = d.newMeter(); err != nil {
			return closed(err)
		}
	}
	d.networks = network.New(network.Options{Project: p.Project, Environ: p.options.Environ, HostEnviron: p.hostEnv().Safe, Secret: p.options.Secret, Presets: p.FindPresets, Journal: d.Journal, Approver: approver, Process: rec.Process, Now: p.options.Now, MayBePrivate: p.options.Job,
		Meter: d.spending.measure()})
	if work.Session != nil {
		d.networks.Session = work.Session.ID
	}
	if v.Exec != nil { // the program has the terminal
		d.networks.Approver = approver.WithAsker(v.HostAsker)
	}
	if d.calls("filesystem") { // other tools save nothing
		d.Undo = session.UndoSaver{Store: undo.Open(p.Storage.Sessions.State), Files: files, Now: p.options.Now}
	}
	if d.Gate, _, _, err = d.newGate(step, gate.Grant, gate.Workers, false); err != nil {
		return closed(err)
	}
	if d.Rights = d.rights(d.Gate, v.Exec); d.Session != nil && d.Session.Begun {
		if err := continuing.Record(d.Session, d.Rights); err != nil {
			return closed(errors.Join(err, closeAll(d.running)))
		}
	}
	return d, nil
}

// workerName returns the name of the worker of a gate, "" for none.
func workerName(g tool.Gate) string {
	if len(g.Workers) == 0 {
		return ""
	}
	return g.Workers[len(g.Workers)-1]
}

// newApprover returns the approver of a gate, whose session may be nil.
func (v WorkerOptions) newApprover(p *Program, rec *storage.Records, s *session.Session) (*approval.Approver, error) {
	now, err := audit.MonotonicClock(rec.Folder, p.options.Now)
	if p.options.OnPending != nil {
		rec.Approvals.OnPending = func() { p.options.OnPending(p.Storage.Dir()) }
	}
	a := &approval.Approver{Mode: approval.Mode(p.Project.Approval), ModeIsFlag: strings.HasPrefix(p.Project.ApprovalBy.Source, "--"), ApproveReads: v.ApproveReads, Store: rec.Approvals,
		Asker: v.Asker, PendingAsker: v.Beside, Policy: p.Storage.Policy, UnseenOff: p.Storage.UnseenOff, Now: now}
	if s != nil {
		a.HostSession, a.SessionLabel = s.ID, naming.Label(s)
	}
	if (v.Beside != nil || v.Run) && s != nil { // agents and runs in several sessions may ask at the same time
		a.Session = s.ID
	}
	return a, err
}

// newGate returns the gate of one worker, with the journal, the approver and the session
// of d. release ends the worker's commands; closing d does so too. With list it starts
// MCP servers whose tools were never listed. Notes say which servers have no tools.
func (d *OpenWorker) newGate(step *calltree.Step, grant policy.Grant, chain []string, list bool) (g tool.Gate, release func() error, notes []string, err error) {
	g = tool.Gate{Grant: grant, Workers: chain, NoFile: d.program.Project.File == "", Approver: d.Approver, Journal: d.Journal, Enter: d.Enter, Changed: d.Changed, Undo: d.Undo, ShowReads: d.ShowReads}
	if g.Files, err = grant.Files.Apply(d.allFiles); err != nil {
		return g, nil, nil, err
	}
	if g.Files, g.Grant.Approvals, err = canonicalRules(g.Files, grant.Approvals); err != nil {
		return g, nil, nil, err
	}
	tracker := taint.New(taint.Options{Files: g.Files, Project: d.program.Project, Untrusted: d.untrusted, HasOverlays: d.work.HasOverlays(), Marker: d.program.Storage.TaintFile(d.work.Session)})
	g.Taint, g.Grant = tracker, tracker.RequireNamespaces(g.Grant)
	hosts := g.Hosts()
	own := d.work.OwnerOf(g, hosts, "worker", "")
	if d.exec != nil {
		own = d.work.OwnerOf(g, hosts, "profile", d.exec.Profile.Name)
		d.HasHome = d.work.Session.HasHome(own)
	}
	var onOutput func(data []byte)
	if d.onOutput != nil {
		onOutput = func(data []byte) { d.onOutput(chain, data) }
	}
	run := d.work.Commands(session.CommandOptions{Gate: g, OnOutput: onOutput, Hosts: hosts, Egress: d.networks.Egress(hosts, chain, tracker.CommandSource), Owner: own, Etc: d.program.Project.Etc, GPU: d.program.Project.GPU, Env: network.FewRetries(hosts), Exec: d.exec,
		OnlyUser: d.exec != nil || len(d.program.Workers) == 0})
	var running []io.Closer
	g.Tools, running = d.connectTools(step, g, tracker, run, own)
	if d.exec != nil {
		g.Tools = append(g.Tools, shell.Exec(run))
	}
	if step != nil {
		var more []io.Closer
		if more, notes, err = d.connectForeign(step, &g, tracker, list); err != nil {
			return g, nil, nil, err
		}
		running = append(running, more...)
	}
	g = denyTools(g, d.program.Project.Ceiling)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = append(d.running, running...)
	return g, func() error {
		d.mu.Lock()
		d.running = slices.DeleteFunc(d.running, func(c io.Closer) bool { return slices.Contains(running, c) })
		d.mu.Unlock()
		return closeAll(running)
	}, notes, nil
}

// connectTools returns golem's own tools for the gate of a worker, and what is closed after
// use. run runs its commands, whose files belong to own.
func (d *OpenWorker) connectTools(step *calltree.Step, g tool.Gate, tracker *taint.Tracker, run *session.Commands, own session.Owner) (list []tool.Tool, running []io.Closer) {
	if d.calls("filesystem") {
		list = file.Tools()
	}
	if d.calls("shell") {
		s := shell.Set{Runner: run, Rules: g.Grant.Shell, Services: run.Services(d.once)}
		place := d.work.Session
		if !slices.Equal(g.Workers, d.Workers) { // a called worker starts without directory and variables
			place = nil
		}
		s.Place = place.ShellPlace(own)
		if step != nil {
			s.Start = step.Worker.ShellDir
		}
		list = append(list, s.Tools()...)
	}
	if d.calls("git", "clearance") {
		staging, clearing := d.gitTools(step, g, tracker)
		sending := d.networks.OwnRequests("api_send", "an approved call", g.Workers)
		list = slices.Concat(list, staging.Tools(), d.exportTools(staging.Scanners, sending).Tools())
		running = append(running, append(clearing, sending)...)
	}
	if d.calls("web") {
		fetching := web.Set{Fetcher: d.networks.Fetcher(g.Hosts(), g.Workers, tracker.Source)}
		if d.program.options.Job == nil { // the files are those of the machine's user
			intake, closer := d.intake(step, g)
			fetching.Intake, running = intake, append(running, closer)
		}
		list = append(list, fetching.Tools()...)
	}
	if d.calls("changes") {
		publisher, publishing := d.publisher(step, g)
		list = append(list, settle.Tools(d.work.Keeper(d.records.Folder), d.work.Undoer(d.allFiles), publisher)...)
		running = append(running, publishing...)
	}
	g.Tools = d.program.unlistTools(list)
	unlistServices(g)
	return g.Tools, append(running, run)
}

// calls reports whether the gate was opened for tools of these sets. A name that golem does
// not know may be that of any tool.
func (d *OpenWorker) calls(sets ...string) bool {
	return d.called == nil || slices.ContainsFunc(d.called, func(name string) bool {
		set := setOf(name)
		return set == "" || slices.Contains(sets, set)
	})
}

// connectForeign adds the tools and hooks of the programs that a worker names to its gate. It
// returns what is closed after use. list and notes are those of newGate.
func (d *OpenWorker) connectForeign(step *calltree.Step, g *tool.Gate, tracker *taint.Tracker, list bool) (running []io.Closer, notes []string, err error) {
	runner := func(f worker.Foreign) (custom.Runner, error) {
		c, err := d.foreignCommands(*g, f)
		running = append(running, c)
		return hidingCommands{c, egress.NewHider(foreigntools.SecretsOf(f, d.program.options.Environ))}, err
	}
	if d.calls() {
		customTools, err := d.program.foreign().Custom(step, runner)
		if err != nil {
			return nil, nil, err
		}
		g.Tools = append(g.Tools, customTools...)
		var lister func(worker.Server, *foreign.Server) (foreign.Listing, error)
		if list {
			lister = d.lister(step, *g, tracker)
		}
		var servers []tool.Tool
		servers, notes, err = d.program.foreign().Servers(step, g.Grant.Limits.Time, g.Tools, func(s worker.Server, p foreign.Program) (*foreign.Server, error) {
			server, closers, err := d.newServer(*g, s, p)
			running = append(running, closers...)
			return server, err
		}, lister)
		if err != nil {
			return nil, nil, err
		}
		g.Tools = append(g.Tools, servers...)
	}
	g.Hooks = d.program.options.Hooks
	hooks, err := d.program.foreign().Hooks(step, *g, runner)
	if hooks != nil {
		g.Hooks = hooks
	}
	return running, notes, err
}

// lister returns a function that lists the tools of an MCP server for a gate and stores
// the list. It refuses a server that reads untrusted input, because the worker reads the
// list before anything else.
func (d *OpenWorker) lister(step *calltree.Step, g tool.Gate, tracker *taint.Tracker) func(worker.Server, *foreign.Server) (foreign.Listing, error) {
	return func(s worker.Server, server *foreign.Server) (foreign.Listing, error) {
		if place, denied := d.program.Project.Ceiling.DeniedTool([]string{"mcp"}); denied {
			return nil, fmt.Errorf("%s does not allow MCP servers", place)
		}
		if s.Remote != nil && !s.Remote.Trusted {
			return nil, fmt.Errorf("%s is not trusted; golem tools --accept %s shows them first", s.Remote.Host(), s.Name)
		}
		if s.Reach != nil {
			if from := tracker.UntrustedMount(s.Reach.Folder, true); from != "" {
				return nil, fmt.Errorf("it reads %s, which is not trusted; golem tools --accept %s shows them first", from, s.Name)
			}
		}
		l, err := foreigntools.List(context.Background(), g, s, server)
		if err == nil {
			_, err = d.program.foreign().OfServer(step, s, server, l, g.Tools)
		}
		if err == nil {
			err = d.program.foreign().KeepListing(s, l)
		}
		return l, err
	}
}

// RequestState returns what the user decided about a request for approval.
func (d *OpenWorker) RequestState(id string) approval.State {
	return d.records.Approvals.StateOf(id, d.program.options.Now())
}

// PendingNote says of the last call that its changes are in the session and not in the
// user's directory; "" if it has changed nothing there.
func (d *OpenWorker) PendingNote() string { return d.work.PendingNote() }

// WaitingHosts returns the hosts that commands asked for in vain, and that golem approve
// can allow.
func (d *OpenWorker) WaitingHosts() []network.WaitingHost { return d.networks.Waiting() }

// IsBusy reports whether another golem works on the session now.
func (d *OpenWorker) IsBusy() bool { return d.work.IsBusy() }

// Review reviews all changes of the gate's session, without their diffs.
func (d *OpenWorker) Review(report func(done, total int)) (*session.Review, error) {
	return d.work.Review(report)
}

// canonicalRules writes the names in rules as the sandbox writes them. If the host
// ignores case, a rule must apply to every spelling of its name. To make the sandbox use
// one spelling, it adds a limit at each name that limits nothing.
func canonicalRules(files *sandbox.Sandbox, c policy.Approvals) (*sandbox.Sandbox, policy.Approvals, error) {
	anchors := []sandbox.Limit{{Path: "/", Access: sandbox.ReadWrite}}
	for _, r := range c.Rules() {
		if strings.HasPrefix(r.Target, "/") && r.Target != "/" {
			anchors = append(anchors, sandbox.Limit{Path: r.Target, Access: sandbox.ReadWrite})
		}
	}
	known, err := files.Restrict(anchors...)
	if err != nil {
		return nil, c, err
	}
	renamed := c.RenameTargets(func(target string) string {
		if name, err := known.Canonical(target); err == nil {
			return name
		}
		return target
	})
	if slices.Equal(renamed.Rules(), c.Rules()) && !files.FoldsCase() {
		return files, c, nil
	}
	return known, renamed, nil
}

// Close ends the commands, writes the rest of the journal and closes the state. Its error
// names the calls that were done.
func (d *OpenWorker) Close() error {
	return d.done.ExplainError(errors.Join(closeAll(d.running), d.spending.close(), d.work.Close(), d.journal.Close(), d.writers.Remove(), d.records.Close()))
}

// closeAll closes in reverse order.
func closeAll(running []io.Closer) error {
	var errs []error
	for _, c := range slices.Backward(running) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
