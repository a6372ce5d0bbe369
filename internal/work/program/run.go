package program

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance/target"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/taint"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/foreigntools"
	"github.com/golem-forge/golem/internal/work/instruction"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// RunOptions are the options of a run: its gate, its model, and the user's files.
type RunOptions struct {
	WorkerOptions
	Model      model.Model
	Summarizer run.Summarizer         // summarises long conversations; without a model, Model does
	Context    int64                  // how many tokens the model takes, 0 if that is not known
	ModelName  string                 // as the user writes it
	OneModel   bool                   // the user chose it for all workers
	Requests   *network.OwnRequests   // those of the model, nil for a model without any
	Others     []*network.OwnRequests // more requests of golem for the run; the journal records them, too
	Price      func(modelName string, u model.Usage) (dollars float64, known bool)
	Fallbacks  []run.Choice              // models to ask if Model does not answer
	Models     map[string]WorkerModel    // of workers that name one, by the worker's name; the others ask the model of their caller
	Answers    policy.Answers            // of the user, for all workers
	Limits     policy.Limits             // that hold beside those of the worker; zero is no limit
	Resume     bool                      // continue the run of the session
	Follow     []instruction.Instruction // the trusted instructions for workers that read such files
	Attached   []string                  // files of the user that the entry worker gets, attached or as its input
	OnEvent    func(run.Event)

	// Claim and Checkpoint are those of run.Run, for a run that moves between machines.
	// They may be nil. At a Checkpoint, a Snapshotter finds everything that a resumed run
	// needs.
	Claim      func(ctx context.Context, call, digest string) error
	Checkpoint func(ctx context.Context) error
}

// A Run is an open run. It is closed after use.
type Run struct {
	*run.Run
	Gate  *OpenWorker
	Entry *run.Worker
	Chat  bool // the entry worker talks with the user

	job      RunOptions
	attached run.Attached    // to the messages so far
	handed   run.Attachments // finds the files that the user hands over
	log      *run.Log
	now      *run.Now
	dir      *state.Dir
	free     func() error // lets others run in the session
}

// OpenRun opens a run: its gate with a session, and its log.
func (p *Program) OpenRun(options RunOptions) (r *Run, err error) {
	j := options
	step, err := p.reach(j.Worker)
	if err != nil {
		return nil, err
	}
	if step == nil {
		return nil, &sandbox.Error{Op: "run", Code: sandbox.ErrNotFound, Hint: "this program has only a project file, and no worker to begin with; write main.worker"}
	}
	if err := j.checkModels(p.Project.Ceiling, step.Grant.Limits.Meet(j.Limits)); err != nil {
		return nil, err
	}
	j.WorkerOptions.Run = true
	var now *run.Now // set before the first command runs
	j.OnOutput = func(workers []string, data []byte) {
		now.Output(data)
		if onOutput := options.OnOutput; onOutput != nil {
			onOutput(workers, data)
		}
	}
	j.OnEvent = func(e run.Event) {
		now.Tell(e)
		if onEvent := options.OnEvent; onEvent != nil {
			onEvent(e)
		}
	}
	gate, err := p.OpenWorker(j.WorkerOptions)
	if err != nil {
		return nil, err
	}
	now = run.NewNow(gate.Session.Dir(), j.Secrets)
	defer func() {
		if r == nil {
			gate.Close()
		}
	}()
	if j.Requests != nil {
		j.Requests.RecordIn(gate.networks, gate.Workers)
	}
	for _, o := range j.Others {
		o.RecordIn(gate.networks, gate.Workers)
	}
	dir, err := gate.Session.OpenState()
	if err != nil {
		return nil, err
	}
	free, err := run.Lock(dir, lockPatience)
	if errors.Is(err, run.ErrLocked) {
		err = session.BusyError("run")
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	if !j.Resume {
		err = gate.checkNew()
	}
	if err != nil {
		return nil, errors.Join(err, free(), dir.Close())
	}
	log, err := run.OpenLog(dir, j.Resume, p.options.Now)
	if err == nil && j.Resume {
		err = checkResume(gate.Session.ID, log.Began(), step.Worker.Name)
	}
	if err != nil {
		return nil, errors.Join(err, free(), dir.Close())
	}
	r = &Run{Gate: gate, Chat: step.Worker.Mode == "chat", job: j, attached: log.Attached(), log: log, now: now, dir: dir, free: free, Run: &run.Run{ID: gate.Session.ID, Policy: gate.records.Policy, Log: log, Tell: j.OnEvent, Now: p.options.Now, Secrets: j.Secrets,
		Budget: run.NewBudget(step.Grant.Limits.Meet(j.Limits), j.Price, p.options.Now()), Claim: j.Claim}}
	if j.Checkpoint != nil {
		r.Checkpoint = func(ctx context.Context) error {
			if err := gate.journal.Flush(); err != nil {
				return err
			}
			return j.Checkpoint(ctx)
		}
	}
	if r.Entry, err = r.worker(step, step.Grant, nil); err != nil {
		r.Close()
		return nil, err
	}
	if hooks, ok := r.Entry.Gate.Hooks.(*foreigntools.Hooks); ok && !r.Chat {
		r.AtEnd = hooks.End
	}
	r.handed = run.Attachments{Root: p.root, Project: p.Project, Worker: step.Worker, Policy: step.Grant.Attachments}
	r.MarkTainted(j.Attached)
	return r, nil
}

// MarkTainted taints the entry worker if one of the files, of which the user gives it content,
// is in an untrusted mount. Their names are those of the host.
func (r *Run) MarkTainted(files []string) {
	r.Entry.Exposure.MarkTainted(r.handed.UntrustedMount(files))
}

// checkNew returns an error if a new run in the session of the gate would replace a run that
// waits for an approval.
func (d *OpenWorker) checkNew() error {
	end, err := d.program.Storage.Runs().End(d.Session)
	if err != nil || end != run.Paused {
		return err
	}
	pending, err := d.records.Approvals.Pending()
	if err != nil {
		return err
	}
	for _, w := range pending {
		if w.Session == d.Session.ID && !w.Expired(d.program.options.Now()) {
			return &sandbox.Error{Op: "--session", Path: naming.Label(d.Session), Code: sandbox.ErrExists, Hint: "its run is paused and waits for your approval; golem run --resume " + naming.Label(d.Session) +
				" continues it, golem approvals revoke " + w.ID + " drops the call that waits, and golem run without --session begins a new session"}
		}
	}
	return nil
}

// lockPatience is how long a run waits for the lock of its session. A golem that lists
// sessions holds it for a moment.
const lockPatience = time.Second

// checkResume returns an error unless the worker that continues a run is the one that
// began it.
func checkResume(session, began, worker string) error {
	switch began {
	case worker:
		return nil
	case "":
		return &sandbox.Error{Op: "resume", Path: session, Code: sandbox.ErrNotFound, Hint: "nothing was run in this session; golem sessions lists them"}
	}
	return &sandbox.Error{Op: "resume", Path: session, Code: sandbox.ErrInvalid, Hint: "its run began with the worker " + began + ", not with " + worker + "; --entry " + began + " continues it"}
}

// Do runs the entry worker. The journal has a record of each attached file before the model
// gets it. Together with the files of earlier messages, they must keep the limits of the worker.
func (r *Run) Do(ctx context.Context, in run.Input) (run.Outcome, error) {
	all := r.attached
	for _, f := range in.Files {
		all = all.With(f)
		if why := r.Entry.Gate.Grant.Attachments.RefusalReason(f.Name, all.Files, all.Bytes); why != "" {
			return run.Outcome{}, &sandbox.Error{Op: "attach", Path: f.Name, Code: sandbox.ErrLimit, Hint: why + " in the whole run (attachment_policy of " + r.Entry.Name + ")"}
		}
	}
	for _, f := range in.Files {
		name := cmp.Or(f.From, f.Name)
		err := r.Gate.Journal.Write(audit.Record{Kind: audit.Outcome, Session: r.Gate.Session.ID, Origin: policy.User.String(), Workers: r.Entry.Gate.Workers, Tool: "attach",
			Args:    map[string]any{"path": name, "bytes": len(f.Data), "version": filecontent.Hash(f.Data)},
			Effects: []string{policy.Effect{Verb: policy.Attach, Target: name}.String()}, Decision: policy.PreApproved.String(), By: "user"}, audit.Written)
		if err != nil {
			return run.Outcome{}, err
		}
	}
	r.attached = all
	return r.Run.Do(ctx, r.Entry, in)
}

// HasOpenCalls reports whether the run to continue has calls that it has yet to make.
func (r *Run) HasOpenCalls() bool { return r.log.HasOpenCalls() }

// Messages returns the messages of the entry worker in the run to continue.
func (r *Run) Messages() []model.Message { return r.log.Messages() }

// Close ends the commands and closes the gate and the log.
func (r *Run) Close() error {
	r.now.Close()
	r.log.Close()
	r.free()
	r.dir.Close()
	if r.job.Requests != nil {
		r.job.Requests.Close() // before the journal
	}
	for _, o := range r.job.Others {
		o.Close()
	}
	return r.Gate.Close()
}

// worker returns a worker for the run. above are the budgets of the workers that call it.
func (r *Run) worker(step *calltree.Step, grant policy.Grant, above []*run.Budget) (*run.Worker, error) {
	w, p, m := step.Worker, r.Gate.program, r.modelOf(step)
	if err := checkModel(w, m.Name); err != nil {
		return nil, err
	}
	for _, c := range m.Fallbacks {
		if err := checkModel(w, c.Name); err != nil {
			return nil, err
		}
	}
	gate, release, notes, err := r.Gate.newGate(step, grant, step.Chain(), true)
	if err != nil {
		return nil, err
	}
	tracker, _ := gate.Taint.(*taint.Tracker)
	made := &run.Worker{Name: w.Name, Exposure: tracker, Prompt: instruction.Prompt(w, r.job.Follow), Gate: gate, Model: m.Model, ModelName: m.Name, OneModel: r.job.OneModel, Fallbacks: m.Fallbacks, Budgets: above, Answers: r.job.Answers.Or(w.Answers).Or(p.Project.Answers), Context: smallest(w.MaxContextTokens, m.Context), Summarizer: r.job.Summarizer, Empty: w.AllowEmptyInput,
		Layer: r.Gate.work.HasOverlays() && p.asksOverlay(), Any: grant.Workers.IsAll(), Notes: notes, Close: release}
	if w.Budget != (policy.Limits{}) {
		made.Budgets = append([]*run.Budget{run.NewWorkerBudget(w.Budget, w.File, r.job.Price, p.options.Now())}, above...)
	}
	if schema := w.OutputSchema; schema.Kind != 0 {
		if made.Schema, err = json.Marshal(schema.Value()); err == nil {
			err = run.CheckSchema(made.Schema)
		}
		if err != nil {
			return nil, errors.Join(&sandbox.Error{Op: "run", Path: w.Name, Code: sandbox.ErrInvalid, Hint: "output_schema: " + err.Error()}, release())
		}
	}
	for _, callee := range p.calls().Callees(w) {
		if grant.Workers.Has(callee.Name) {
			made.Callees = append(made.Callees, run.Callee{Name: callee.Name, Description: callee.Description})
		}
	}
	made.Propose = r.propose
	made.Reach = func(name string, n run.Narrow) (tool.Reach, bool) { return r.reachOf(step, grant, name, n) }
	made.Child = func(name string, n run.Narrow) (*run.Worker, error) {
		return r.child(step, grant, made.Budgets, name, n)
	}
	return made, nil
}

// child returns the worker that another one calls, with what both its file and its caller
// permit.
func (r *Run) child(parent *calltree.Step, has policy.Grant, above []*run.Budget, name string, n run.Narrow) (*run.Worker, error) {
	step, grant, err := r.childGrant(parent, has, name, n)
	if err != nil {
		return nil, err
	}
	return r.worker(step, grant, above)
}

// reachOf returns which files a worker that another one calls may read and write.
func (r *Run) reachOf(parent *calltree.Step, has policy.Grant, name string, n run.Narrow) (reach tool.Reach, ok bool) {
	_, grant, err := r.childGrant(parent, has, name, n)
	if err != nil {
		return reach, false
	}
	files, err := grant.Files.Apply(r.Gate.allFiles)
	if err != nil {
		return reach, false
	}
	return tool.Reach{Reads: files.ReadableRoots(), Writes: files.WritableRoots()}, true
}

// childGrant returns the step of a worker that another one calls, and its grant.
func (r *Run) childGrant(parent *calltree.Step, has policy.Grant, name string, n run.Narrow) (*calltree.Step, policy.Grant, error) {
	fail := func(err error) (*calltree.Step, policy.Grant, error) { return nil, policy.Grant{}, err }
	p := r.Gate.program
	at := slices.IndexFunc(p.Workers, func(w *worker.Worker) bool { return w.Name == name })
	var names []string
	for _, w := range p.calls().Callees(parent.Worker) {
		names = append(names, w.Name)
	}
	switch {
	case at < 0:
		hint := "there are " + joinSorted(names)
		if near := sandbox.Nearest(name, names); len(near) > 0 {
			hint = "did you mean " + near[0] + "? " + hint
		}
		return fail(&sandbox.Error{Op: "call", Path: name, Code: sandbox.ErrNotFound, Hint: hint})
	case !has.Workers.Has(name):
		return fail(&sandbox.Error{Op: "call", Path: name, Code: "blocked", Hint: "delegation to " + name + " is not allowed; allowed: " + joinSorted(names)})
	}
	caller := *parent
	caller.Grant = has // restrictions by its own caller stay
	step := p.calls().Step(&caller, p.Workers[at])
	if len(step.Problems) > 0 {
		return fail(&sandbox.Error{Op: "call", Path: name, Code: sandbox.ErrExceedsParent, Hint: step.Problems.Error()})
	}
	files, err := has.Files.Apply(r.Gate.allFiles)
	if err != nil {
		return fail(err)
	}
	grant, err := narrow(step.Grant, files, n)
	if err != nil {
		return fail(err)
	}
	return step, grant, nil
}

// narrow restricts a grant as the caller of a worker asks. It is an error to name a
// directory in which the caller has no files.
func narrow(g policy.Grant, caller *sandbox.Sandbox, n run.Narrow) (policy.Grant, error) {
	if n.Restrict != "" {
		name := path.Join("/", n.Restrict)
		if strings.Contains(n.Restrict, "..") || !strings.HasPrefix(n.Restrict, "/") {
			return g, &sandbox.Error{Op: "call", Path: n.Restrict, Code: sandbox.ErrInvalid, Hint: "restrict takes an absolute directory, such as /src"}
		}
		above := strings.TrimSuffix(name, "/") + "/"
		roots := caller.ReadableRoots()
		if !caller.CanRead(name) && !slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(root, above) }) {
			return g, &sandbox.Error{Op: "call", Path: name, Code: sandbox.ErrExceedsParent, Hint: "restrict names files that you do not have; you have: " + cmp.Or(joinSorted(roots), "none")}
		}
		g.Files = g.Files.With(sandbox.Limit{Path: name, Access: sandbox.ReadWrite})
	}
	if n.ReadOnly {
		g.Files = g.Files.With(sandbox.Limit{Path: "/", Access: sandbox.ReadOnly})
	}
	return g, nil
}

// smallest returns the smaller of two limits. 0 means no limit.
func smallest(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Compact summarises the conversation of the entry worker now. It returns what it did.
func (r *Run) Compact(ctx context.Context) (string, error) { return r.Run.Compact(ctx, r.Entry) }

// UseModel lets another model answer from now on, in the conversation of the entry worker and
// in the workers that have no own model. context is how many tokens the model reads, 0 if that
// is not known. Nothing changes if the model may not be asked.
func (r *Run) UseModel(c run.Choice, context int64) error {
	p, j := r.Gate.program, r.job
	step, err := p.reach(j.Worker)
	if err != nil {
		return err
	}
	j.Model, j.ModelName, j.Fallbacks, j.Context = c.Model, c.Name, nil, context
	if err := j.checkModels(p.Project.Ceiling, step.Grant.Limits.Meet(j.Limits)); err != nil {
		return err
	}
	if err := checkModel(step.Worker, c.Name); err != nil {
		return err
	}
	r.job = j
	r.Entry.UseModel(c, smallest(step.Worker.MaxContextTokens, context))
	return nil
}

// Attach reads files of the sandbox for the next message of the entry worker. It reads only
// what the worker itself may read without approval: the names may come from a pasted text. The
// files count together with those of earlier messages, and with others of the same message.
func (r *Run) Attach(names []string, others []model.File) ([]model.File, error) {
	gate := r.Entry.Gate
	var effects []policy.Effect
	for _, name := range names {
		read := policy.Effect{Verb: policy.Read, Target: name}
		switch d := gate.Decide(read); {
		case gate.Grant.Files.Access(name) == sandbox.None:
			return nil, &sandbox.Error{Op: "attach", Path: name, Code: sandbox.ErrNotFound, Hint: r.Entry.Name + " may not read it"}
		case d.Approval != policy.PreApproved:
			return nil, &sandbox.Error{Op: "attach", Path: name, Code: "declined", Hint: r.Entry.Name + " may not read it without approval"}
		}
		effects = append(effects, read)
	}
	before := r.attached
	for _, f := range others {
		before = before.With(f)
	}
	files, err := run.ReadAttachments(gate.Files, names, before, gate.Grant.Attachments)
	if err != nil {
		return nil, err
	}
	r.Entry.Exposure.RecordSeen(effects)
	for _, f := range files {
		r.Entry.Exposure.AddBytes(int64(len(f.Data)))
	}
	return files, nil
}

// checkModels returns an error if a run may not ask one of its models.
func (j RunOptions) checkModels(c project.Ceiling, limits policy.Limits) error {
	if err := CheckModel(c, j.ModelName, "choose one of them with --model"); err != nil {
		return err
	}
	if j.Summarizer.Name != "" {
		if err := CheckModel(c, j.Summarizer.Name, "choose one of them with --set summary_model=…"); err != nil {
			return err
		}
	}
	fallbacks := slices.Clone(j.Fallbacks)
	for name, m := range j.Models {
		if err := CheckModel(c, m.Name, "change the model of the worker "+name+", or choose one model for all workers with --model"); err != nil {
			return err
		}
		fallbacks = append(fallbacks, m.Fallbacks...)
	}
	for _, one := range fallbacks {
		if err := CheckModel(c, one.Name, "leave this one out of fallback_models and --fallback"); err != nil {
			return err
		}
		if j.Price == nil || limits.Cost == 0 {
			continue
		}
		if _, known := j.Price(one.Name, model.Usage{}); !known {
			return &sandbox.Error{Op: "run", Path: one.Name, Code: sandbox.ErrInvalid, Hint: "its price is not known, so budget.cost cannot be kept; leave it out of fallback_models and --fallback, or use budget.tokens"}
		}
	}
	return nil
}

// checkModel returns an error if a worker does not support a model.
func checkModel(w *worker.Worker, name string) error {
	for _, pattern := range w.Models {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			return nil
		}
	}
	if len(w.Models) == 0 {
		return nil
	}
	if vendor, file, _ := strings.Cut(name, ":"); vendor == "scripted" || vendor == "replay" {
		name = vendor + ":" + filepath.Base(file) // workers read the message, and must not see a path of the host
	}
	return &sandbox.Error{Op: "run", Path: w.Name, Code: sandbox.ErrInvalid, Hint: "it is written for " + strings.Join(w.Models, ", ") + ", and the model is " + name + "; --model chooses another"}
}

// Balance is how much a run has read, and how much it has staged.
type Balance struct {
	Read, Staged int64 // bytes
	Commits      int
}

// Balance returns the balance of the session so far.
func (r *Run) Balance() Balance {
	var b Balance
	if r.Entry != nil {
		b.Read = r.Entry.Exposure.Bytes()
	}
	p := r.Gate.program
	if !target.HasGit(p.Storage.Sessions.State) {
		return b // nothing was ever staged
	}
	commits, err := p.NewRepositories(r.Gate.records, nil).Open(context.Background())
	if err != nil {
		return b
	}
	list, _ := commits.List()
	for _, c := range list {
		if c.Session == r.ID {
			b.Commits++
			b.Staged += c.Bytes()
		}
	}
	return b
}

// propose stores a new worker for the user to review.
func (r *Run) propose(name, description, prompt string) (string, error) {
	taken := toolNames()
	for _, w := range r.Gate.program.Workers {
		taken = append(taken, w.Name)
	}
	w, err := session.NewProposal(name, description, prompt, taken)
	if err != nil {
		return "", err
	}
	if err := r.Gate.Session.Propose(w); err != nil {
		return "", err
	}
	return "proposed: " + name + " waits for the user, and cannot be called in this run", nil
}
