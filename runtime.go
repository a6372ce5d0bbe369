package golem

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/models"
	"github.com/golem-forge/golem/internal/work/model/prices"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// ErrUntrusted is the code of the error of Load for a program that the user has not trusted.
const ErrUntrusted = sandbox.Code("untrusted")

// A Runtime runs the workers of a program: a directory with worker files and perhaps a project
// file.
type Runtime struct {
	options Options
	program *program.Program
}

// Load reads a program. Its content must be the one that Options.Trust names, because its files
// decide what its workers may do: without it, the error has the code [ErrUntrusted], and
// [Runtime.Hash] of the returned runtime is the hash to look at and to set.
func Load(dir string, o Options) (r *Runtime, err error) {
	defer code("load", &err)
	o, err = o.complete(dir)
	if err != nil {
		return nil, err
	}
	p, err := program.Load(o.program(dir))
	if err != nil {
		return nil, err
	}
	r = &Runtime{options: o, program: p}
	if err := p.CheckEntry(); err != nil {
		return nil, err
	}
	if p.Entry == nil {
		return nil, &sandbox.Error{Op: "load", Path: filepath.Base(dir), Code: sandbox.ErrNotFound, Hint: "the directory has no worker; write main.worker"}
	}
	if err := p.CheckTrust(); err != nil {
		return r, &sandbox.Error{Op: "load", Path: filepath.Base(dir), Code: ErrUntrusted, Hint: "look at the files of the program, and set Options.Trust to " + p.Content.Hash}
	}
	return r, nil
}

// Hash returns the hash of the program's content, for Options.Trust.
func (r *Runtime) Hash() string {
	if r.check() != nil {
		return ""
	}
	return r.program.Content.Hash
}

// check returns an error for a runtime that Load has not made.
func (r *Runtime) check() error {
	if r == nil || r.program == nil {
		return &sandbox.Error{Op: "runtime", Code: sandbox.ErrInvalid, Hint: "this is no runtime; use golem.Load"}
	}
	return nil
}

// Workers returns the names of the program's workers. The first one gets the input.
func (r *Runtime) Workers() []string {
	if r.check() != nil {
		return nil
	}
	names := []string{r.program.Entry.Name}
	for _, w := range r.program.Workers {
		if w.Name != names[0] {
			names = append(names, w.Name)
		}
	}
	return names
}

// Input is the task of a run.
type Input struct {
	Text string
	// Resume continues a run that has paused or was interrupted, by the session of its events.
	Resume string
}

// An Event is a step of a run. Its texts come from workers and models, so a program escapes
// them before it shows them.
type Event struct {
	Kind    string // such as run_start, piece, message, tool_call, tool_result, pending, run_end
	Session string // the name of the run, for Input.Resume
	Worker  string
	Call    string // the same for a call and its result
	Tool    string
	Args    json.RawMessage
	Text    string
	Failed  bool   // the call failed
	Request string // the request that waits for a decision: see [Runtime.Requests]
	End     string // of the last event: finished, stopped, paused, budget, loop, refused or failed
	Why     string // the reason of an end that is not finished, and what to do
}

// Run runs the entry worker. The events come as they happen, and the last one has an End. If the
// loop over them ends early, the run is stopped.
func (r *Runtime) Run(ctx context.Context, in Input) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(orBackground(ctx))
		defer cancel()
		events, over, ended := make(chan Event), make(chan error, 1), make(chan struct{})
		defer close(ended)
		tell := func(e Event) {
			select {
			case events <- e:
			case <-ended: // a model tells something after its answer
			}
		}
		go func() { over <- r.run(ctx, in, tell) }()
		alive := true
		for {
			select {
			case e := <-events:
				if alive = alive && yield(e, nil); !alive {
					cancel()
				}
			case err := <-over:
				if err != nil && alive {
					yield(Event{}, err)
				}
				return
			}
		}
	}
}

func (r *Runtime) run(ctx context.Context, in Input, tell func(Event)) (err error) {
	defer code("run", &err)
	defer caught("a function of the program", &err)
	if err := r.check(); err != nil {
		return err
	}
	requests := network.NewOwnRequests("model", "the model of the program that embeds golem", r.options.Now)
	defer requests.Close()
	m, name, err := r.model(requests)
	if err != nil {
		return err
	}
	v := program.WorkerOptions{Session: session.New}
	if in.Resume != "" {
		one, err := r.program.Storage.Runs().Find(in.Resume)
		if err != nil {
			return err
		}
		v.Session = one.ID
	}
	if r.options.Approver != nil {
		v.Asker = asker{r.options.Approver, r.options.Key}
	}
	var id string
	var mu sync.Mutex // workers may run at once
	opened, err := r.program.OpenRun(program.RunOptions{WorkerOptions: v, Model: m, ModelName: name, Context: models.Context(name), Requests: requests, Price: prices.Cost,
		Limits: policy.Limits{Turns: r.options.Budget.Turns, Tokens: r.options.Budget.Tokens, Cost: r.options.Budget.Dollars, Budget: r.options.Budget.Time},
		Resume: in.Resume != "",
		OnEvent: func(e run.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Type != run.RunEnd {
				tell(eventOf(e, id))
			}
		}})
	if err != nil {
		return err
	}
	id = opened.ID
	o, err := opened.Do(ctx, run.Input{Text: in.Text})
	if err = errors.Join(err, opened.Close()); err != nil {
		return err
	}
	end := Event{Kind: string(run.RunEnd), Session: id, Worker: r.program.Entry.Name, Text: o.Text, End: string(o.End), Why: o.Why}
	if len(o.Pending) > 0 {
		end.Request = o.Pending[0]
	}
	tell(end)
	return nil
}

// eventOf returns an event of a run.
func eventOf(e run.Event, id string) Event {
	out := Event{Kind: string(e.Type), Session: id, Worker: e.Worker, Call: e.Call, Tool: e.Tool, Args: e.Args, Text: e.Text, Request: e.Request}
	out.Failed = e.OK != nil && !*e.OK
	return out
}

// Requests returns the requests that wait for a decision. Without Options.Key, acknowledgements
// count only for the request of the same call of Requests.
func (r *Runtime) Requests() (list []gate.Request, err error) {
	defer code("requests", &err)
	if err := r.check(); err != nil {
		return nil, err
	}
	records, err := r.program.Storage.OpenRecords()
	if err != nil {
		return nil, err
	}
	defer records.Close()
	pending, err := records.Approvals.Pending()
	if err != nil {
		return nil, err
	}
	for _, w := range pending {
		if w.Answer != nil {
			continue
		}
		inner, err := records.Approvals.Request(w)
		if err != nil {
			return nil, err
		}
		list = append(list, gate.Wrap(inner, w.ID, r.options.Key))
	}
	return list, nil
}

// Decide stores the decision about a request that [Runtime.Requests] has returned, under the name
// of the person in it. The first decision counts. A resumed run makes the call.
func (r *Runtime) Decide(request gate.Request, d gate.Decision) (err error) {
	defer code("decide", &err)
	if err := r.check(); err != nil {
		return err
	}
	answer, rendered, digits, err := gate.Unwrap(d, request)
	if err == nil && answer.Verdict == tool.Undecided {
		err = &sandbox.Error{Op: "decide", Path: request.ID(), Code: sandbox.ErrInvalid, Hint: "it is no decision yet"}
	}
	if err != nil {
		return err
	}
	records, err := r.program.Storage.OpenRecords()
	if err != nil {
		return err
	}
	reply := approval.Reply{Answer: answer, Rendered: rendered, DigestPrefix: digits}
	return errors.Join(records.AnswerAs(request.ID(), answer.By, reply, nil), records.Close())
}

// asker is an approver as package approval has it.
type asker struct {
	approver gate.Approver
	key      []byte
}

// Ask implements approval.Asker.
func (a asker) Ask(ctx context.Context, r tool.Request) approval.Reply {
	request := gate.Wrap(r, "", a.key)
	answer, rendered, digits, err := gate.Unwrap(a.approver.Approve(ctx, request), request)
	switch {
	case err != nil:
		answer = tool.Answer{By: "gate", Note: err.Error()}
	case answer.Verdict == tool.Undecided:
		answer = tool.Answer{By: "nobody", Unattended: true}
	}
	return approval.Reply{Answer: answer, Rendered: rendered, DigestPrefix: digits}
}

// model opens the model of a run.
func (r *Runtime) model(requests *network.OwnRequests) (model.Model, string, error) {
	if r.options.Model != nil {
		own := ownModel{r.options.Model}
		name, err := own.name()
		if err == nil {
			err = program.CheckModel(r.program.Project.Ceiling, name, "choose one of them")
		}
		return own, name, err
	}
	name := r.options.ModelName
	if name == "" {
		name = r.program.EntryModel()
	}
	if name == "" {
		name = program.ChosenModel(r.program.Project)
	}
	if name == "" {
		return nil, "", &sandbox.Error{Op: "run", Code: sandbox.ErrInvalid, Hint: "no model is chosen; set Options.ModelName or Options.Model"}
	}
	if err := program.CheckModel(r.program.Project.Ceiling, name, "choose one of them"); err != nil {
		return nil, "", err
	}
	m, err := models.Open(models.Options{Spec: name, Env: func(string) (string, bool) { return "", false },
		Keyring: func(_, vendor string) (string, error) { return r.options.secret(vendor) }, Transport: requests,
		Read: func(file string) ([]byte, error) {
			if !filepath.IsAbs(file) {
				file = filepath.Join(string(r.program.Root()), file)
			}
			return os.ReadFile(file)
		}})
	if err != nil {
		return nil, "", err
	}
	return model.Retrying(m, model.Retry{Jitter: func() float64 { return 1 }, Tell: func(*model.Error, int, time.Duration) {}}), name, nil
}
