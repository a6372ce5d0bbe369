package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/parcel"
	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
)

// An attempt is the work of this node on a job.
type attempt struct {
	*node
	job  hub.Job
	spec hub.Spec
	dir  string

	program  *program.Program
	shot     *job.Snapshotter
	known    map[string]bool   // contents that the hub has
	toolsets map[string]string // of golem's own tools, by their names
	doubt    *hub.Doubt        // the call that an earlier attempt began

	mu    sync.Mutex
	calls map[string]string // the tool of each call, by its id
	lines [][]byte          // events that the hub does not have yet
	next  uint64            // the number of the first one
	sum   run.Sum
}

func (a *attempt) id() hub.Attempt { return hub.Attempt{Job: a.job.ID, Number: a.job.Attempt} }

// part names a content of the job.
func (a *attempt) part(hash string, size int64) hub.Part {
	return hub.Part{Job: a.job.ID, Attempt: a.job.Attempt, Hash: hash, Size: size}
}

// do does the job. The end has no state if the job waits for decisions.
func (a *attempt) do(outer context.Context) (end hub.End, err error) {
	// The end of the node does not end a call: the run stops after it.
	ctx, lose := context.WithCancelCause(context.WithoutCancel(outer))
	defer lose(nil)
	stop := make(chan struct{})
	var once sync.Once
	stopped := func() { once.Do(func() { close(stop) }) }
	leaving := context.AfterFunc(outer, stopped)
	defer leaving()
	cancelled := false
	var beating sync.WaitGroup
	beatContext, endBeats := context.WithCancel(ctx)
	beating.Go(func() {
		a.beats(beatContext, a.id(), func() { cancelled = true; stopped() }, func(err error) { lose(err) })
	})
	defer beating.Wait()
	defer endBeats()
	if err := a.restore(ctx); err != nil {
		return end, lostOr(ctx, err)
	}
	for {
		if err := a.useDecisions(a.job.Requests); err != nil {
			return end, err
		}
		outcome, err := a.run(ctx, stop)
		if err != nil {
			if a.doubt != nil {
				return hub.End{State: hub.InDoubt, Doubt: a.doubt, Result: a.result(outcome, err.Error())}, nil
			}
			return end, lostOr(ctx, err)
		}
		switch {
		case outcome.End == run.Paused:
			more, err := a.wait(ctx, stop)
			if err != nil || !more {
				return end, lostOr(ctx, err)
			}
			continue
		case outcome.OK():
			return hub.End{State: hub.Done, Result: a.result(outcome, "")}, nil
		}
		select {
		case <-stop:
			endBeats()
			beating.Wait()
			if !cancelled {
				return hub.End{State: hub.Queued}, nil // the node ends; another one continues
			}
			return hub.End{State: hub.Cancelled, Result: a.result(outcome, "cancelled")}, nil
		default:
		}
		return hub.End{State: hub.Failed, Result: a.result(outcome, outcome.Why)}, nil
	}
}

// lostOr returns why the context ended, if it did, or an error.
func lostOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// result describes what was done.
func (a *attempt) result(o run.Outcome, why string) hub.Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := hub.Result{Answer: o.Text, Why: why, Dollars: a.sum.Cost, Unpriced: a.sum.Unpriced, Tokens: a.sum.Tokens.Input + a.sum.Tokens.Output, Calls: int64(a.sum.Calls)}
	r.Answer, r.Why = fit(r.Answer, maxAnswer), fit(r.Why, maxWhy)
	if list, err := a.program.Storage.Sessions.List(); err == nil && len(list) == 1 {
		r.Session = list[0].ID
	}
	return r
}

// hashesOf returns the hashes of all files of a snapshot.
func hashesOf(s job.Snapshot) map[string]bool {
	all := make(map[string]bool)
	for _, tree := range []parcel.Tree{s.Program, s.State} {
		for _, e := range tree {
			all[e.Hash] = true
		}
	}
	return all
}

// maxAnswer and maxWhy limit the texts of a result as JSON, which the hub takes. The session has
// all of the answer.
const (
	maxAnswer = 1 << 19
	maxWhy    = 1 << 15
)

// fit returns the beginning of a text that has at most most bytes as JSON, and says that it is
// cut.
func fit(text string, most int) string {
	const note = "\n… (the rest is in the session of the job)"
	cut := strings.ToValidUTF8(text, "\uFFFD")
	for {
		data, err := json.Marshal(cut)
		if err != nil || len(data) <= most {
			break
		}
		cut = strings.ToValidUTF8(cut[:len(cut)*min(most, len(data)-1)/len(data)], "")
	}
	if len(cut) < len(text) {
		cut += note
	}
	return cut
}

// restore makes the directory of the job from its last checkpoint, or from what was submitted.
func (a *attempt) restore(ctx context.Context) error {
	hash := a.job.Checkpoint
	if hash == "" {
		hash = a.spec.Files
	}
	data, err := a.Client.Get(ctx, a.part(hash, 0))
	if err != nil {
		return err
	}
	var s job.Snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("the list of files: %w", err)
	}
	a.known = hashesOf(s)
	a.known[hash] = true
	o := a.Program
	o.Entry, o.Trust = a.spec.Entry, a.spec.Trust
	a.program, err = job.Restore(ctx, a.dir, o, a.Limits, s, func(ctx context.Context, hash string) (io.ReadCloser, error) {
		return a.contents.get(ctx, a.Client, a.part(hash, 0))
	})
	if err != nil {
		return err
	}
	// Only decisions with a signature count, not answers that another node wrote into the state.
	if err := job.ForgetAnswers(a.program.Storage, a.Secrets); err != nil {
		return err
	}
	// A node may have dropped the mark of what the job has read.
	if err := job.MarkTainted(a.program.Storage, a.job.Taint); err != nil {
		return err
	}
	gate, err := a.program.Tools("")
	if err != nil {
		return err
	}
	a.calls, a.toolsets = make(map[string]string), make(map[string]string)
	for _, t := range gate.Tools {
		a.toolsets[t.Name] = t.Toolset
	}
	a.shot, err = job.NewSnapshotter(a.program, func(ctx context.Context, hash string, size int64, content io.Reader) error {
		return a.Client.Put(ctx, a.part(hash, size), content)
	}, func(hash string) bool { return a.known[hash] })
	return err
}

// run runs or continues the run of the job until it ends or pauses.
func (a *attempt) run(ctx context.Context, stop <-chan struct{}) (o run.Outcome, err error) {
	requests := network.NewOwnRequests("model", "the model of the job", a.Now)
	defer requests.Close()
	m, err := a.OpenModel(a.program, a.spec.Model, requests)
	if err != nil {
		return o, err
	}
	workers := make(map[string]program.WorkerModel)
	if a.spec.Model == "" { // otherwise it is for all workers
		for _, w := range a.program.Tree().WithModel() {
			own, err := a.OpenModel(a.program, w.Model.Text, requests)
			if err != nil {
				return o, fmt.Errorf("the worker %s: %w", w.Name, err)
			}
			workers[w.Name] = program.WorkerModel{Choice: own}
		}
	}
	v := program.WorkerOptions{Secrets: a.Secrets, ShowReads: true}
	attached, err := a.attached()
	if err != nil {
		return o, err
	}
	r, resumed, err := job.OpenRun(a.program, program.RunOptions{WorkerOptions: v, Model: m.Model, ModelName: m.Name, Models: workers, Requests: requests, Price: a.Price, Attached: attached, OnEvent: a.hear, Claim: a.claim, Checkpoint: a.checkpoint})
	if err != nil {
		return o, err
	}
	in := run.Input{}
	if !resumed {
		in.Text = a.spec.Input
		if in.Files, err = a.program.Attach(attached); err != nil {
			return o, errors.Join(err, r.Close())
		}
	}
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-stop:
			r.Stop()
		case <-done:
		}
	})
	o, err = r.Do(ctx, in)
	close(done)
	watching.Wait()
	a.mu.Lock()
	a.sum = r.Budget.Sum()
	a.mu.Unlock()
	err = errors.Join(err, r.Close())
	if err == nil || a.doubt != nil { // after Close everything is on disk
		err = errors.Join(err, a.checkpoint(ctx))
	}
	return o, err
}

// attached returns the attached files of the job. They must be files of its program: a job
// does not read files of this machine.
func (a *attempt) attached() (names []string, err error) {
	for _, name := range a.spec.Attached {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, fmt.Errorf("the job attaches %.200q, which is outside its program; attach a file of the program", name)
		}
		names = append(names, filepath.Join(string(a.program.Root()), filepath.FromSlash(name)))
	}
	return names, nil
}

// maxLine limits an event. golem skips longer ones: the log of the run has them.
const maxLine = 256 << 10

// hear keeps an event for the next checkpoint.
func (a *attempt) hear(e run.Event) {
	if e.Type == run.Piece {
		return
	}
	line, err := json.Marshal(e)
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.Type == run.ToolCall {
		a.calls[e.Call] = e.Tool
	}
	if err != nil || len(line) > maxLine {
		return
	}
	a.lines = append(a.lines, line)
}

// claim asks the hub whether a call may be made.
func (a *attempt) claim(ctx context.Context, call, digest string) error {
	id, _, _ := strings.Cut(call, "+")
	a.mu.Lock()
	name := a.calls[id]
	a.mu.Unlock()
	now, err := a.Client.Claim(ctx, hub.Claim{Attempt: a.id(), Call: call, Tool: name, Digest: digest, Local: a.isLocal(name), Nonce: rand.Text(), Known: a.node.known.newest()})
	if hub.IsCode(err, hub.CodeDoubt) {
		a.doubt = &hub.Doubt{Call: call, Tool: name, Attempt: a.job.Attempt}
	}
	if err != nil {
		return err
	}
	return a.node.known.keep(now) // before the call: a hub that forgets it will hear of it
}

// isLocal reports whether a tool changes only files of the job. Commands do, unless they have
// a network.
func (a *attempt) isLocal(name string) bool {
	switch a.toolsets[name] {
	case "filesystem", "changes":
		return true
	case "shell":
		return a.program.Project.Network.IsEmpty()
	}
	return false
}

// checkpoint sends what another node needs to continue.
func (a *attempt) checkpoint(ctx context.Context) error {
	made, err := a.shot.Take(ctx)
	if err != nil {
		return err
	}
	hash, err := a.send(ctx, made)
	if err != nil {
		return err
	}
	a.mu.Lock()
	c := hub.Checkpoint{Attempt: a.id(), Files: hash, Journal: headOf(made.State), Lines: fitting(a.lines), First: a.next, Taint: job.Taint(a.program.Storage)}
	a.mu.Unlock()
	if err := a.Client.Checkpoint(ctx, c); err != nil {
		return err
	}
	a.known = hashesOf(made) // the hub removes the contents that only an earlier checkpoint had
	a.known[hash] = true
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines, a.next = a.lines[len(c.Lines):], a.next+uint64(len(c.Lines))
	return nil
}

// fitting returns the first lines that fit into one message.
func fitting(lines [][]byte) [][]byte {
	size := 0
	for i, line := range lines {
		if size += len(line)*4/3 + 4; size > hub.MaxPart {
			return lines[:i]
		}
	}
	return lines
}

// send sends a value as a content of the job, and returns its hash.
func (a *attempt) send(ctx context.Context, value any) (hash string, err error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	if hash = hub.HashOf(text); a.known[hash] {
		return hash, nil
	}
	if err := a.Client.Put(ctx, a.part(hash, int64(len(text))), bytes.NewReader(text)); err != nil {
		return "", err
	}
	a.known[hash] = true
	return hash, nil
}

// headOf returns how the journal of a job ends: its size, and a hash of its files.
func headOf(state parcel.Tree) (h hub.Head) {
	sum := sha256.New()
	for _, e := range state {
		if strings.HasPrefix(e.Name, "journal") && strings.HasSuffix(e.Name, ".jsonl") {
			h.Count += uint64(e.Size)
			fmt.Fprintln(sum, e.Name, e.Hash)
		}
	}
	h.Hash = hex.EncodeToString(sum.Sum(nil))
	return h
}

// wait tells the hub which calls wait, and holds the job for a while, or until it shall stop.
// more is true if there is a decision. Otherwise the hub has the job back.
func (a *attempt) wait(ctx context.Context, stop <-chan struct{}) (more bool, err error) {
	waiting, err := job.Waiting(a.program.Storage)
	if err != nil {
		return false, err
	}
	q := hub.Question{Attempt: a.id()}
	for _, w := range waiting {
		hash, err := a.send(ctx, w.Request)
		if err != nil {
			return false, err
		}
		q.Requests = append(q.Requests, hub.Request{ID: w.ID, Hash: hash, Digest: w.Digest, Tool: w.Tool})
	}
	if err := a.Client.Ask(ctx, q); err != nil {
		return false, err
	}
	until := a.Now().Add(a.Hold)
	for {
		left := until.Sub(a.Now())
		select {
		case <-stop: // the node ends, or the job is cancelled
			left = 0
		default:
		}
		list, err := a.Client.Decisions(ctx, hub.DecisionsQuery{Attempt: a.id(), Wait: max(min(left, 10*time.Second), 0)})
		if err != nil {
			return false, err
		}
		a.job.Requests = list
		for _, r := range list {
			for _, w := range waiting {
				if r.ID == w.ID && r.Decided != nil {
					return true, nil
				}
			}
		}
		if left <= 0 {
			return false, a.Client.Pause(ctx, a.id())
		}
	}
}

// useDecisions answers the calls that wait with the decisions of approvers. Each signature is
// checked here: the node does not believe the hub.
func (a *attempt) useDecisions(requests []hub.Request) error {
	waiting, err := job.Waiting(a.program.Storage)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		text, err := json.Marshal(w.Request)
		if err != nil {
			return err
		}
		for _, r := range requests {
			if r.ID != w.ID || r.Decided == nil || r.Hash != hub.HashOf(text) {
				continue
			}
			d, err := hub.OpenDecision(*r.Decided, a.spec, r)
			if err != nil {
				return fmt.Errorf("the decision about %s: %w", r.ID, err)
			}
			reply := approval.Reply{Answer: tool.Answer{Verdict: tool.Declined, Note: d.Reply.Note, Front: d.Reply.Front}, Rendered: d.Reply.Rendered, DigestPrefix: d.Reply.DigestPrefix}
			if d.Reply.Yes {
				reply.Verdict = tool.Approved
			}
			if err := job.Answer(a.program.Storage, w.ID, "approver "+d.Name+" ("+hub.Short(d.By)+")", reply, a.Secrets); err != nil {
				return err
			}
		}
	}
	return nil
}
