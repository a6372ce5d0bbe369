package run

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
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
func (t *conversation) openCalls() []model.Call {
	if len(t.messages) == 0 || t.messages[len(t.messages)-1].Role != model.Assistant {
		return nil
	}
	return callsOf(t.messages[len(t.messages)-1].Parts)
}

// answerCalls makes the calls of an answer, one after the other in the order in which the
// model wrote them, and returns the results in the same order. If a call cannot be
// finished, the conversation ends and the calls after it are not made.
func (t *conversation) answerCalls(ctx context.Context, calls []model.Call) (Outcome, error) {
	results := make([]model.Result, len(calls))
	for i, c := range calls {
		d, err := t.call(ctx, i, c)
		if d.event.Type != "" {
			t.teller.say(d.event)
		}
		if err != nil {
			return Outcome{}, err
		}
		if d.cut != nil { // a resumed run makes the remaining calls
			return Outcome{End: d.cut.End, Text: t.lastText(), Why: d.cut.Why}, nil
		}
		results[i] = d.result
	}
	var parts []model.Part
	room := maxResults
	for _, r := range results {
		if room -= len(r.Text); room < 0 {
			r.Text = droppedArgs
		}
		parts = append(parts, model.Part{Result: &r})
	}
	times := t.repeats.see(turnKey(calls, results))
	if times >= toldAfter {
		parts = append(parts, model.Part{Text: fmt.Sprintf("You have made the same calls %d times, with the same results. They will not change: do something else, or say what keeps you from it.", times)})
	}
	if err := t.say(model.User, nil, parts...); err != nil {
		return Outcome{}, err
	}
	t.past = nil // later calls are new, even if they reuse an id
	t.Log.forget(t.id)
	if times >= endedAfter {
		return Outcome{End: Looping, Text: t.lastText(), Why: fmt.Sprintf("it made the same calls %d times, with the same results", times)}, nil
	}
	return Outcome{}, nil
}

// turnKey returns bytes that are equal for equal turns.
func turnKey(calls []model.Call, results []model.Result) []byte {
	type one struct{ Tool, Args, Text string }
	var all []one
	for i, c := range calls {
		all = append(all, one{c.Tool, c.Args, results[i].Text})
	}
	turn, _ := json.Marshal(all)
	return turn
}

// A callResult holds the result of a call.
type callResult struct {
	result model.Result
	event  Event    // empty if the call was made before the run was interrupted
	cut    *Outcome // why the call was not finished; a resumed run makes it again
}

// call makes one call, unless it was made before the run was interrupted.
func (t *conversation) call(ctx context.Context, number int, c model.Call) (callResult, error) {
	not := func(why string) (callResult, error) {
		r, ok := model.Result{ID: c.ID, Failed: true, Text: "Error: " + why}, false
		return callResult{result: r, event: Event{Type: ToolResult, Worker: t.w.Name, Chain: t.gate.Workers, Tool: c.Tool, OK: &ok, Code: sandbox.ErrLimit, Hint: why}}, nil
	}
	if t.past != nil {
		if known, ok := t.past.results[c.ID]; ok {
			return callResult{result: known}, nil
		}
		if t.past.begun[c.ID] && !t.isWorker(c.Tool) {
			return not("golem was ended while it made this call, and it is not known whether it was done; look before you make it again")
		}
	}
	if o := t.over(ctx); o.End != "" {
		return callResult{cut: &o}, nil
	}
	args := c.Args
	if strings.TrimSpace(args) == "" {
		args = "null" // missing arguments differ from empty ones
	}
	switch {
	case t.floods[c.ID] > 0:
		return not(fmt.Sprintf("%d bytes of arguments; %d are the most; nothing was done", t.floods[c.ID], maxArgs))
	case number >= maxCalls:
		return not(fmt.Sprintf("%d calls in one answer are the most; nothing was done", maxCalls))
	}
	id := t.id + "/" + inID.Replace(c.ID)
	if t.isWorker(c.Tool) && !t.Log.knows(id) { // before the worker uses memory
		if err := t.Budget.canStart(); err != nil {
			return callResult{cut: &Outcome{End: Spent, Why: err.Error()}}, nil
		}
	}
	if err := t.Log.write(Entry{Kind: "call", In: t.id, Call: c.ID}); err != nil {
		return callResult{}, err
	}
	t.teller.say(Event{Type: ToolCall, Worker: t.w.Name, Chain: t.gate.Workers, Call: id, Tool: c.Tool, Args: validArgs(c.Args)})
	call := &inCall{id: id}
	trusted := t.w.Exposure.Source() == ""
	got := t.gate.Do(context.WithValue(ctx, callKey{}, call), policy.Model, tool.Call{Tool: c.Tool, Args: []byte(args)})
	if from := t.w.Exposure.Source(); trusted && from != "" {
		t.teller.say(Event{Type: Note, Worker: t.w.Name, Chain: t.gate.Workers, Text: sandbox.Shown(from) + " is not trusted: from here on, what reaches beyond the layer asks"})
	}
	t.Budget.note(func(s *Sum) {
		s.Calls++
		if got.Err != nil {
			s.Refused++
		}
		if got.Unattended {
			s.Nobody++
			if got.Pending == nil {
				s.Dropped++
			}
		}
	})
	if call.cut != nil {
		return callResult{cut: call.cut}, nil
	}
	r := model.Result{ID: c.ID, Text: t.hide(got.String()), Failed: got.Err != nil}
	ok := got.Err == nil
	e := Event{Type: ToolResult, Worker: t.w.Name, Chain: t.gate.Workers, Call: id, Tool: c.Tool, OK: &ok, Text: r.Text}
	if got.Err != nil {
		e.Code, e.Hint = got.Err.Code, got.Err.Hint
	}
	if got.Stop { // the user stopped the run at the question; a resumed run asks it again
		t.Stop()
		o := t.over(ctx)
		return callResult{event: e, cut: &o}, t.Log.write(Entry{Kind: "undone", In: t.id, Call: c.ID})
	}
	if err := t.Log.write(Entry{Kind: "result", In: t.id, Call: c.ID, Result: &r}); err != nil {
		if ok {
			err = fmt.Errorf("%s was done, but its result could not be kept: %w", sandbox.Shown(c.Tool), err)
		}
		return callResult{event: e}, err
	}
	return callResult{result: r, event: e}, nil
}

// inID escapes a call's id for use in the id of a conversation.
var inID = strings.NewReplacer("%", "%25", "/", "%2F")

// callKey is the context key of the inCall that a tool belongs to.
type callKey struct{}

// An inCall connects a tool that starts a worker with its call.
type inCall struct {
	id  string
	cut *Outcome // why the worker could not finish, if a resumed run can continue it
}
