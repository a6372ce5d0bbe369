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

// maxCalls is how many calls of one answer are made.
const maxCalls = 128

// maxArgs is how long the arguments of a call may be.
const maxArgs = 4 << 20

// maxResults is how many bytes of results a model is told at once.
const maxResults = 8 << 20

// dropFloods takes out arguments that are longer than any call takes: nobody is to carry
// them along.
func (t *talk) dropFloods(parts []model.Part) {
	t.floods = make(map[string]int)
	for i, p := range parts {
		if p.Call != nil && len(p.Call.Args) > maxArgs {
			t.floods[p.Call.ID] = len(p.Call.Args)
			parts[i].Call = &model.Call{ID: p.Call.ID, Tool: p.Call.Tool, Args: leftOut} // which no tool takes
		}
	}
}

// openCalls returns the calls of the last message, if they wait for results.
func (t *talk) openCalls() []model.Call {
	if len(t.messages) == 0 || t.messages[len(t.messages)-1].Role != model.Assistant {
		return nil
	}
	return callsOf(t.messages[len(t.messages)-1].Parts)
}

// answerCalls makes the calls that the model asks for, one after the other in the order in
// which it wrote them, and reports the results in the same order. A call that cannot be
// finished ends the conversation, and the calls behind it are not made.
func (t *talk) answerCalls(ctx context.Context, calls []model.Call) (Outcome, error) {
	results := make([]model.Result, len(calls))
	for i, c := range calls {
		d, err := t.call(ctx, i, c)
		if d.event.Type != "" {
			t.teller.say(d.event)
		}
		if err != nil {
			return Outcome{}, err
		}
		if d.cut != nil { // --resume makes the rest, and knows the results so far
			return Outcome{End: d.cut.End, Text: t.lastText(), Why: d.cut.Why}, nil
		}
		results[i] = d.result
	}
	var parts []model.Part
	room := maxResults
	for _, r := range results {
		if room -= len(r.Text); room < 0 {
			r.Text = leftOut
		}
		parts = append(parts, model.Part{Result: &r})
	}
	times := t.repeats.see(turnOf(calls, results))
	if times >= toldAfter {
		parts = append(parts, model.Part{Text: fmt.Sprintf("You have made the same calls %d times, with the same results. They will not change: do something else, or say what keeps you from it.", times)})
	}
	if err := t.say(model.User, nil, parts...); err != nil {
		return Outcome{}, err
	}
	t.past = nil // what comes now is new, also where its ids are not
	t.Log.forget(t.id)
	if times >= endedAfter {
		return Outcome{End: Looping, Text: t.lastText(), Why: fmt.Sprintf("it made the same calls %d times, with the same results", times)}, nil
	}
	return Outcome{}, nil
}

// turnOf is what makes a turn the same as another.
func turnOf(calls []model.Call, results []model.Result) []byte {
	type one struct{ Tool, Args, Text string }
	var all []one
	for i, c := range calls {
		all = append(all, one{c.Tool, c.Args, results[i].Text})
	}
	turn, _ := json.Marshal(all)
	return turn
}

// A made is a call that was made.
type made struct {
	result model.Result
	event  Event    // what is told of it; none of one that was not made now
	cut    *Outcome // why it was not made, or not to its end, and will be when the run continues
}

// call makes one call, unless it was made before the run was cut off.
func (t *talk) call(ctx context.Context, number int, c model.Call) (made, error) {
	not := func(why string) (made, error) {
		r, ok := model.Result{ID: c.ID, Failed: true, Text: "Error: " + why}, false
		return made{result: r, event: Event{Type: ToolResult, Worker: t.w.Name, Chain: t.gate.Workers, Tool: c.Tool, OK: &ok, Code: sandbox.ErrLimit, Hint: why}}, nil
	}
	if t.past != nil {
		if known, ok := t.past.results[c.ID]; ok {
			return made{result: known}, nil
		}
		if t.past.begun[c.ID] && !t.isWorker(c.Tool) {
			return not("golem was ended while it made this call, and it is not known whether it was done; look before you make it again")
		}
	}
	if o := t.over(ctx); o.End != "" {
		return made{cut: &o}, nil
	}
	args := c.Args
	if strings.TrimSpace(args) == "" {
		args = "null" // none are not the empty ones
	}
	switch {
	case t.floods[c.ID] > 0:
		return not(fmt.Sprintf("%d bytes of arguments; %d are the most; nothing was done", t.floods[c.ID], maxArgs))
	case number >= maxCalls:
		return not(fmt.Sprintf("%d calls in one answer are the most; nothing was done", maxCalls))
	}
	id := t.id + "/" + inID.Replace(c.ID)
	if t.isWorker(c.Tool) && !t.Log.knows(id) { // before the worker takes memory
		if err := t.Budget.canStart(); err != nil {
			return made{cut: &Outcome{End: Spent, Why: err.Error()}}, nil
		}
	}
	if err := t.Log.write(Entry{Kind: "call", In: t.id, Call: c.ID}); err != nil {
		return made{}, err
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
		return made{cut: call.cut}, nil
	}
	r := model.Result{ID: c.ID, Text: t.hide(got.String()), Failed: got.Err != nil}
	ok := got.Err == nil
	e := Event{Type: ToolResult, Worker: t.w.Name, Chain: t.gate.Workers, Call: id, Tool: c.Tool, OK: &ok, Text: r.Text}
	if got.Err != nil {
		e.Code, e.Hint = got.Err.Code, got.Err.Hint
	}
	if got.Stop { // who stops at a question has not answered it: it is asked again when the run continues
		t.Stop()
		o := t.over(ctx)
		return made{event: e, cut: &o}, t.Log.write(Entry{Kind: "undone", In: t.id, Call: c.ID})
	}
	if err := t.Log.write(Entry{Kind: "result", In: t.id, Call: c.ID, Result: &r}); err != nil {
		if ok {
			err = fmt.Errorf("%s was done, but its result could not be kept: %w", sandbox.Shown(c.Tool), err)
		}
		return made{event: e}, err
	}
	return made{result: r, event: e}, nil
}

// inID keeps the id of a call apart from what it is part of.
var inID = strings.NewReplacer("%", "%25", "/", "%2F")

// callKey is under which a tool finds the call that it is part of.
type callKey struct{}

// An inCall is what a tool that calls a worker knows of its call, and says of it.
type inCall struct {
	id  string
	cut *Outcome // why the worker could not finish, if the run can continue with it
}
