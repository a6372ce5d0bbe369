package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/sandbox"
)

// maxCalls is how many calls of one answer the run makes.
const maxCalls = 128

// maxArgs limits the size of a call's arguments.
const maxArgs = 4 << 20

// maxResults limits how many bytes of results go to the model in one message.
const maxResults = 8 << 20

// dropFloods removes arguments that are too long for any tool, so that they are not kept
// in the conversation.
func (t *conversation) dropFloods(parts []model.Part) {
	t.floods = make(map[string]int)
	for i, p := range parts {
		if p.Call != nil && len(p.Call.Args) > maxArgs {
			t.floods[p.Call.ID] = len(p.Call.Args)
			parts[i].Call = &model.Call{ID: p.Call.ID, Tool: p.Call.Tool, Args: droppedArgs} // no tool accepts these arguments
		}
	}
}

// openCalls returns the calls of the last message that have no results yet.
func (t *conversation) openCalls() []model.Call { return openCalls(t.messages) }

func openCalls(messages []model.Message) []model.Call {
	if len(messages) == 0 || messages[len(messages)-1].Role != model.Assistant {
		return nil
	}
	return callsOf(messages[len(messages)-1].Parts)
}

// answerCalls makes the calls of an answer. It makes calls at once that cannot meet, and
// all others one after the other, in the order in which the model wrote them. The results
// have that order too. If a call cannot be finished, the conversation ends, and no call
// after it begins.
func (t *conversation) answerCalls(ctx context.Context, calls []model.Call) (Outcome, error) {
	done := make([]callResult, len(calls))
	for from := 0; from < len(calls); {
		n := t.countTogether(ctx, calls, from)
		if err := t.makeCalls(ctx, calls, from, done[from:from+n]); err != nil {
			return Outcome{}, err
		}
		for i, d := range done[from : from+n] {
			if d.cut != nil { // a resumed run makes the remaining calls
				return t.cutShort(ctx, calls, done, from+i), nil
			}
		}
		from += n
	}
	var parts []model.Part
	room := maxResults
	for _, d := range done {
		r := d.result
		if room -= len(r.Text); room < 0 {
			r.Text = droppedArgs
		}
		parts = append(parts, model.Part{Result: &r})
	}
	for _, d := range done { // vendors want all results first
		parts = append(parts, fileParts(d.files, &room)...)
	}
	times := t.repeats.see(turnKey(calls, done))
	if times >= toldAfter {
		parts = append(parts, model.Part{Text: fmt.Sprintf("You have made the same calls %d times, with the same results. They will not change: do something else, or say what keeps you from it.", times)})
	}
	if err := t.say(model.User, nil, parts...); err != nil {
		return Outcome{}, err
	}
	for _, d := range done {
		if d.decision != "" {
			t.decisions = append(t.decisions, d.decision)
		}
	}
	t.past = nil // later calls are new, even if they reuse an id
	t.Log.forget(t.id)
	if times >= endedAfter {
		return Outcome{End: Looping, Text: t.lastText(), Why: fmt.Sprintf("it made the same calls %d times, with the same results", times)}, nil
	}
	return Outcome{}, nil
}

// cutShort returns the outcome of a conversation whose answer has a call that could not be
// finished. It says how many calls after it were not begun.
func (t *conversation) cutShort(ctx context.Context, calls []model.Call, done []callResult, at int) Outcome {
	cut := done[at].cut
	o := Outcome{End: cut.End, Text: t.lastText(), Why: cut.Why, Pending: cut.Pending}
	unmade := 0
	for i := at + 1; i < len(calls); i++ {
		if done[i].result.ID == "" && (t.past == nil || !t.past.has(calls[i].ID)) {
			unmade++
		}
	}
	switch {
	case o.End == Paused:
		o.Pending = append(o.Pending, t.keepRequests(ctx, calls, done, at+1)...)
	case o.End == Spent && unmade == 1:
		o.Why += "; 1 more call of the answer was not made"
	case o.End == Spent && unmade > 1:
		o.Why += fmt.Sprintf("; %d more calls of the answer were not made", unmade)
	}
	return o
}

// turnKey returns bytes that are equal for equal turns.
func turnKey(calls []model.Call, done []callResult) []byte {
	type one struct{ Tool, Args, Text string }
	var all []one
	for i, c := range calls {
		all = append(all, one{c.Tool, c.Args, done[i].result.Text})
	}
	turn, _ := json.Marshal(all)
	return turn
}

// A callResult holds the result of a call.
type callResult struct {
	result   model.Result
	files    []model.File // that come with the result
	decision string       // of the user about the call, "" for none
	event    Event        // empty if the call was made before the run was interrupted
	cut      *Outcome     // why the call was not finished; a resumed run makes it again

	counted bool // the call starts a worker, which the budget has counted
}

// beginCall reports that a call begins. It returns false and the result if the call is not
// made: it was made before the run was interrupted, or cannot be made.
func (t *conversation) beginCall(ctx context.Context, number int, c model.Call) (r callResult, ready bool) {
	not := func(why string) (callResult, bool) {
		r, ok := model.Result{ID: c.ID, Failed: true, Text: "Error: " + why}, false
		return callResult{result: r, event: Event{Type: ToolResult, Worker: t.w.Name, Chain: t.gate.Workers, Tool: c.Tool, OK: &ok, Code: sandbox.ErrLimit, Hint: why}}, false
	}
	if t.past != nil {
		if known, ok := t.past.results[c.ID]; ok {
			return callResult{result: known, files: t.past.files[c.ID]}, false
		}
		if t.past.hasBegun(c.ID) && !t.isWorker(c.Tool) {
			return not(inDoubt)
		}
	}
	if o := t.over(ctx); o.End != "" {
		return callResult{cut: &o}, false
	}
	switch {
	case t.cancelled:
		return not("the user cancelled it")
	case t.floods[c.ID] > 0:
		return not(fmt.Sprintf("%d bytes of arguments; at most %d are allowed; nothing was done", t.floods[c.ID], maxArgs))
	case number >= maxCalls:
		return not(fmt.Sprintf("at most %d calls in one answer are allowed; nothing was done", maxCalls))
	}
	if t.isWorker(c.Tool) && !t.Log.knows(t.startedBy(c)) { // before the worker uses memory
		if err := t.Budget.start(); err != nil {
			return callResult{cut: &Outcome{End: Spent, Why: err.Error()}}, false
		}
		r.counted = true
	}
	t.teller.say(Event{Type: ToolCall, Worker: t.w.Name, Chain: t.gate.Workers, Call: t.callID(number), Tool: c.Tool, Args: validArgs(c.Args)})
	return r, true
}

// call makes one call. With counted, the budget has counted the worker that it starts.
func (t *conversation) call(ctx context.Context, number int, c model.Call, u *turn, counted bool) (callResult, error) {
	id := t.callID(number)
	call := &inCall{id: id, conversation: t.startedBy(c), turn: u}
	got := t.gateOf(ctx, c, call).Do(context.WithValue(t.withMedia(ctx), callKey{}, call), policy.Model, tool.Call{Tool: c.Tool, Args: []byte(argsOf(c))})
	if counted && !call.started {
		t.Budget.notStarted()
	}
	if r := t.interruption.Load(); r != nil {
		return callResult{}, *r
	}
	if call.inDoubt {
		got = tool.Result{Err: &sandbox.Error{Op: c.Tool, Code: sandbox.ErrInternal, Hint: inDoubt}}
	}
	if from := t.w.Exposure.Source(); from != "" && !t.taintTold.Swap(true) {
		t.teller.say(Event{Type: Note, Worker: t.w.Name, Chain: t.gate.Workers, Text: sandbox.Shown(from) + " is untrusted: from now on golem asks before anything leaves the overlay"})
	}
	if got.Pending != nil {
		return t.pause(c, id, *got.Pending)
	}
	if got.Err != nil && call.cut == nil && !call.changes && ctx.Err() != nil { // it was stopped, and did nothing
		o := t.over(ctx)
		call.early, call.cut = true, &o
	}
	t.Budget.note(func(s *Sum) {
		if call.cut != nil && (call.cut.End == Paused || call.early) {
			return // a resumed run counts the call
		}
		s.Calls++
		if got.Err != nil {
			s.Refused++
		}
		if got.Unattended {
			s.Nobody++
		}
	})
	if call.cut != nil {
		return callResult{cut: call.cut}, nil
	}
	r, files := model.Result{ID: c.ID, Text: t.hide(got.String()), Failed: got.Err != nil}, filesOf(got, number)
	ok := got.Err == nil
	e := Event{Type: ToolResult, Worker: t.w.Name, Chain: t.gate.Workers, Call: id, Tool: c.Tool, OK: &ok, Text: r.Text, Line: t.hide(got.FirstLine()), Stderr: t.hide(got.Stderr), Allow: got.Allow}
	if got.Err != nil {
		e.Code, e.Hint = got.Err.Code, got.Err.Hint
	}
	if got.Stop { // the user stopped the run at the question; a resumed run asks it again
		t.Stop()
		o := t.over(ctx)
		return callResult{event: e, cut: &o}, t.Log.write(Entry{Kind: "undone", In: t.id, ID: id, Call: c.ID})
	}
	decision := call.approved
	if got.Err != nil && got.Err.Code == errDeclined {
		decision = "declined: " + visible.Line(c.Tool+" "+c.Args, 200) + ": " + visible.Line(got.Err.Hint, 500)
	}
	if err := t.Log.write(Entry{Kind: "result", In: t.id, ID: id, Call: c.ID, Result: &r, Files: files, Decision: decision}); err != nil {
		if ok {
			err = fmt.Errorf("%s was done, but its result could not be kept: %w", sandbox.Shown(c.Tool), err)
		}
		return callResult{event: e}, err
	}
	return callResult{result: r, files: files, decision: decision, event: e}, t.checkpoint(ctx)
}

// gateOf returns the gate for one call. It writes a call that changes something to the
// log just before the journal gets its intent. So a call in the log may have had an effect,
// and any other had none.
func (t *conversation) gateOf(ctx context.Context, c model.Call, call *inCall) tool.Gate {
	gate := t.gate
	gate.Turn = func(ctx context.Context, alone bool) error {
		err := call.turn.wait(ctx, alone)
		if err != nil {
			call.early, call.cut = true, &Outcome{End: Stopped, Text: t.lastText(), Why: errEarlier.Hint}
		}
		return err
	}
	claimed := t.isWorker(c.Tool) // a worker claims its own calls
	gate.Journal = callJournal{gate.Journal, call.turn.begin, func(digest string, changes bool) error {
		if changes && !claimed {
			if err := t.claim(ctx, call, digest); err != nil {
				return err
			}
			claimed = true
		}
		call.changes = call.changes || changes
		if !changes {
			return nil // it has no effect, so a resumed run makes it again
		}
		return t.Log.write(Entry{Kind: "call", In: t.id, ID: call.id, Call: c.ID, Digest: digest, Policy: t.Policy})
	}}
	if t.past == nil {
		return gate
	}
	if was, begun := t.past.begun[c.ID]; begun && was.policy == t.Policy { // only a worker continues
		gate.Approver = continuedApprover{gate.Approver, was.digest}
	}
	return gate
}

// A callJournal calls begin before it writes an intent, and began after that.
type callJournal struct {
	tool.Journal
	began func()
	begin func(digest string, changes bool) error
}

// Write implements tool.Journal.
func (j callJournal) Write(r audit.Record, wait audit.Wait) error {
	if r.Kind == audit.Intent {
		if err := j.begin(r.Digest, wait == audit.Durable); err != nil {
			return err
		}
	}
	if r.Kind == audit.Intent {
		defer j.began()
	}
	return j.Journal.Write(r, wait)
}

// A continuedApprover approves the call of a worker that was approved before the run was
// interrupted, if it is still the same.
type continuedApprover struct {
	tool.Approver
	digest string
}

// Approve implements tool.Approver.
func (a continuedApprover) Approve(ctx context.Context, r tool.Request) tool.Answer {
	if a.digest != "" && r.Digest == a.digest {
		return tool.Answer{Verdict: tool.Approved, By: "the approval before the run was interrupted", Seen: r.FollowRule()}
	}
	return a.Approver.Approve(ctx, r)
}

// pause keeps in the log that a call waits for approval, and ends the conversation. A
// resumed run makes the call.
func (t *conversation) pause(c model.Call, id string, p tool.Pending) (callResult, error) {
	t.Budget.note(func(s *Sum) { s.Waiting++ })
	e := Event{Type: Pending, Worker: t.w.Name, Chain: t.gate.Workers, Call: id, Tool: c.Tool, Request: p.ID, Hint: p.Earlier}
	o := Outcome{End: Paused, Why: "a call waits for your approval", Pending: []string{p.ID}}
	return callResult{event: e, cut: &o}, t.Log.write(Entry{Kind: "paused", In: t.id, ID: id, Call: c.ID, Pending: &p})
}

// keepRequests keeps the requests of the calls after a paused one, so that a person can
// decide about all calls of an answer at once. It makes none of them.
func (t *conversation) keepRequests(ctx context.Context, calls []model.Call, done []callResult, from int) (ids []string) {
	for i, c := range calls {
		if i < from || done[i].result.ID != "" || t.past != nil && t.past.has(c.ID) || t.isWorker(c.Tool) || len(c.Args) > maxArgs {
			continue
		}
		gate := t.gate
		gate.Approver = t.w.Gate.Approver // it counts no questions
		p := gate.KeepRequest(ctx, policy.Model, tool.Call{Tool: c.Tool, Args: []byte(argsOf(c))})
		if p == nil || slices.Contains(ids, p.ID) {
			continue
		}
		t.Budget.note(func(s *Sum) { s.Waiting++ })
		t.teller.say(Event{Type: Pending, Worker: t.w.Name, Chain: t.gate.Workers, Call: t.callID(i), Tool: c.Tool, Args: validArgs(c.Args), Request: p.ID})
		ids = append(ids, p.ID)
	}
	return ids
}

// callID returns the id of a call in the model's last answer.
func (t *conversation) callID(number int) string {
	id := fmt.Sprintf("%d.%d", t.step, number+1)
	if t.caller != "" {
		id = t.caller + "/" + id
	}
	return id
}

// startedBy returns the id of the conversation that a call starts.
func (t *conversation) startedBy(c model.Call) string { return t.id + "/" + inID.Replace(c.ID) }

// argsOf returns the arguments of a call. Missing ones differ from empty ones.
func argsOf(c model.Call) string {
	if strings.TrimSpace(c.Args) == "" {
		return "null"
	}
	return c.Args
}

// inID escapes a call's id for use in the id of a conversation.
var inID = strings.NewReplacer("%", "%25", "/", "%2F")

// callKey is the context key of the inCall that a tool belongs to.
type callKey struct{}

// An inCall connects a tool that starts a worker with its call.
type inCall struct {
	id           string
	conversation string // id of the conversation that the call starts
	turn         *turn
	started      bool     // the worker was started
	changes      bool     // it has begun, and changes something
	early        bool     // it was stopped before it did anything
	approved     string   // what the user approved, "" for nothing
	inDoubt      bool     // another machine may have made the call
	cut          *Outcome // why the worker could not finish, if a resumed run can continue it
}
