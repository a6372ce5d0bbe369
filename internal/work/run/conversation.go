package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/model"
)

// A conversation is the conversation of one worker with its model.
type conversation struct {
	*Run
	w        *Worker
	id       string
	caller   string    // id of the call that started the worker; "" for the entry worker
	step     int       // number of the model's last answer
	gate     tool.Gate // including the tools that start workers
	system   string
	offered  []model.Tool
	messages []model.Message
	past     *past // the recorded part, if it continues
	turn     *turn // of the call that started the worker, nil for none

	decisions []string // what the user decided about its calls
	cancelled bool     // the open calls were cancelled

	repeats   repeats
	answered  string         // the model of the last answer
	empty     int            // number of empty answers
	cut       int            // number of answers that were too long
	unfit     int            // number of answers that did not match the schema
	taintTold atomic.Bool    // the user knows that the worker is tainted
	floods    map[string]int // calls of the last answer with arguments that are too long, and their sizes
}

// The number of bad answers before a conversation ends.
const (
	maxEmpty = 2
	maxCut   = 3
	maxUnfit = 3
	// answerRoom is the number of tokens that an answer may have.
	answerRoom = 16_000
)

// converse lets a worker work on an input until it has answered.
// The conversation has an id; caller is the id of the call that started the worker, or "".
func (r *Run) converse(ctx context.Context, w *Worker, id, caller string, in Input, u *turn) (Outcome, error) {
	t := &conversation{Run: r, w: w, id: id, caller: caller, past: r.Log.takePast(id), turn: u}
	t.taintTold.Store(w.Exposure.Source() != "")
	if t.past != nil && id != top && len(t.past.messages) > 0 {
		in = Input{} // the recorded part includes the input
	}
	if t.past != nil && t.past.outcome != nil && t.past.outcome.OK() && in.isEmpty() {
		return *t.past.outcome, nil
	}
	for _, b := range w.Budgets {
		b.usedBefore(r.Log.spentIn(id, t.past), 0, 0)
	}
	r.Budget.note(func(s *Sum) { s.Workers++ })
	t.gate = w.Gate
	t.gate.Approver = countingApprover{w.Gate.Approver, r.Budget}
	t.gate.Tools = append(append([]tool.Tool{}, w.Gate.Tools...), t.workerTools()...)
	for _, offered := range t.gate.ToolsFor(policy.Model) {
		schema, err := json.Marshal(offered.Schema())
		if err != nil {
			return Outcome{}, err
		}
		t.offered = append(t.offered, model.Tool{Name: offered.Name, Description: offered.Description, Schema: schema})
	}
	t.system = systemFor(w, t.gate)
	if id != top {
		r.teller.say(Event{Type: Started, Worker: w.Name, Chain: t.gate.Workers, Model: w.ModelName, Text: describeGrant(t.gate)})
	}
	for _, note := range w.Notes {
		r.teller.say(Event{Type: Note, Worker: w.Name, Chain: t.gate.Workers, Text: note})
	}
	o, err := t.open(ctx, in)
	if err == nil && o.End == "" {
		o, err = t.turns(ctx)
	}
	if id == top {
		r.history, r.steps, r.decisions = t.messages, t.step, t.decisions
	}
	if err == nil {
		err = r.Log.write(Entry{Kind: "end", In: id, Outcome: &o})
	}
	return o, err
}

// open starts or continues the conversation: it makes the calls that wait for results,
// then adds the input. If the returned outcome has an end, the conversation is over.
func (t *conversation) open(ctx context.Context, in Input) (Outcome, error) {
	switch {
	case t.past != nil:
		t.messages, t.step, t.decisions = t.past.messages, t.past.step, t.past.decisions
	case t.id == top && t.history != nil:
		t.messages, t.step, t.decisions = t.history, t.steps, t.Run.decisions
	default:
		if err := t.Log.write(Entry{Kind: "begin", In: t.id, ID: t.caller, Worker: t.w.Name, Model: t.w.ModelName, OneModel: t.w.OneModel}); err != nil {
			return Outcome{}, err
		}
	}
	if calls := t.openCalls(); len(calls) > 0 {
		t.cancelled = t.id == top && t.Cancelled
		o, err := t.answerCalls(ctx, calls)
		if t.cancelled = false; err != nil || o.End != "" {
			return o, err
		}
	}
	last := len(t.messages) - 1
	switch {
	case last < 0 || !in.isEmpty():
		err := t.say(model.User, nil, in.parts()...)
		if err == nil && in.OnSaid != nil {
			err = in.OnSaid()
		}
		return Outcome{}, err
	case t.messages[last].Role == model.Assistant:
		return Outcome{}, t.say(model.User, nil, model.Part{Text: "Continue."})
	}
	return Outcome{}, nil
}

// parts returns the input as parts of a message.
func (in Input) parts() []model.Part {
	var parts []model.Part
	for _, text := range []string{in.Instructions, in.Text} {
		if strings.TrimSpace(text) != "" {
			parts = append(parts, model.Part{Text: text})
		}
	}
	for _, f := range in.Files {
		parts = append(parts, model.Part{File: &f})
	}
	if len(parts) == 0 {
		parts = append(parts, model.Part{Text: "Begin."})
	}
	return parts
}

// say adds a message to the conversation.
func (t *conversation) say(role model.Role, usage *model.Usage, parts ...model.Part) error {
	if role == model.Assistant {
		t.step++
	}
	m := model.Message{Role: role, Parts: parts}
	if last := len(t.messages) - 1; last >= 0 && t.messages[last].Role == role { // roles alternate
		m.Parts = append(append([]model.Part{}, t.messages[last].Parts...), parts...)
		t.messages = append(append([]model.Message{}, t.messages[:last]...), m)
		return t.Log.write(Entry{Kind: "replace", In: t.id, Step: t.step, Worker: t.w.Name, Messages: t.messages, Usage: usage})
	}
	t.messages = append(t.messages, m)
	e := Entry{Kind: "message", In: t.id, Step: t.step, Worker: t.w.Name, Messages: []model.Message{m}, Usage: usage}
	if role == model.Assistant && (t.w.modelChanged || t.answered != t.w.ModelName) { // the begin names the other one
		e.Model = t.answered
	}
	return t.Log.write(e)
}

// turns alternates between the model and the tools until the conversation ends.
func (t *conversation) turns(ctx context.Context) (Outcome, error) {
	for {
		if calls := t.openCalls(); len(calls) > 0 {
			if o, err := t.answerCalls(ctx, calls); err != nil || o.End != "" {
				return o, err
			}
		}
		if o := t.over(ctx); o.End != "" {
			return o, nil
		}
		answer, o, err := t.ask(ctx)
		if err != nil || o.End != "" {
			return o, err
		}
		t.dropFloods(answer.Parts)
		said := answer.Parts
		if answer.Stop == model.Length || answer.Stop == model.Refused { // no call of such an answer is made, not by a resumed run either
			said = withoutCalls(said)
		}
		if len(said) > 0 {
			if err := t.say(model.Assistant, &answer.Usage, said...); err != nil {
				return Outcome{}, err
			}
		}
		if o, err := t.handleAnswer(answer); err != nil || o.End != "" {
			return o, err
		}
		if err := t.checkpoint(ctx); err != nil {
			return Outcome{}, err
		}
	}
}

// over returns why a conversation must end; the outcome has no end if it can continue.
func (t *conversation) over(ctx context.Context) Outcome {
	var late overBudget
	if errors.As(context.Cause(ctx), &late) {
		return Outcome{End: Spent, Text: t.lastText(), Why: late.Error()}
	}
	if t.stopped.Load() || ctx.Err() != nil {
		return Outcome{End: Stopped, Text: t.lastText(), Why: "it was stopped"}
	}
	return Outcome{}
}

// lastText returns the model's last text after the last input, "" if there is none.
func (t *conversation) lastText() string {
	for _, m := range slices.Backward(t.messages) {
		if m.Role == model.Assistant {
			return textOf(m.Parts)
		}
		if !slices.ContainsFunc(m.Parts, func(p model.Part) bool { return p.Result != nil }) {
			break // the input
		}
	}
	return ""
}

func textOf(parts []model.Part) string {
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// ask asks the model. If the outcome has an end, there is no answer.
func (t *conversation) ask(ctx context.Context) (model.Answer, Outcome, error) {
	for tries := 0; ; tries++ {
		if err := t.makeRoom(ctx, t.w.Context); err != nil {
			return model.Answer{}, Outcome{}, err
		}
		input := estimate(t.messages) + int64(len(t.system))/4
		choice, at := t.choice()
		asking, cancel := t.modelContext(ctx)
		room, settle, err := t.reserve(asking, choice.Name, input, roomFor(t.w))
		if err != nil {
			cancel()
			if o := t.over(ctx); o.End != "" {
				return model.Answer{}, o, nil
			}
			var own overBudget
			return model.Answer{}, Outcome{End: Spent, Text: t.lastText(), Why: err.Error(), Own: errors.As(err, &own) && own.file != ""}, nil
		}
		request := newRequest(t, room)
		answer, err := choice.Model.Answer(asking, request, func(p model.Piece) {
			if p.Note != "" {
				t.teller.say(Event{Type: Note, Worker: t.w.Name, Chain: t.gate.Workers, Text: p.Note})
			}
			if p.Thinking != "" && request.Thoughts {
				t.teller.say(Event{Type: Thought, Worker: t.w.Name, Chain: t.gate.Workers, Text: p.Thinking})
			}
			if p.Text != "" {
				t.teller.say(Event{Type: Piece, Worker: t.w.Name, Chain: t.gate.Workers, Text: p.Text})
			}
		})
		cancel()
		settle(t.w.Name, answer, err == nil)
		if err == nil {
			t.answered = choice.Name
			t.teller.say(Event{Type: Message, Worker: t.w.Name, Chain: t.gate.Workers, Text: textOf(answer.Parts), Calls: len(callsOf(answer.Parts)), Model: answer.Model, Usage: &answer.Usage, Context: t.contextOf(answer)})
			return answer, Outcome{}, nil
		}
		if o := t.over(ctx); o.End != "" {
			return answer, o, nil
		}
		if t.fallBack(at, err) {
			continue
		}
		var wrong *model.Error
		if errors.As(err, &wrong) && wrong.Class == model.TooLong && tries < 3 {
			if err := t.makeRoom(ctx, estimate(t.messages)/2); err != nil {
				return answer, Outcome{}, err
			}
			continue
		}
		if wrong != nil && wrong.Class == model.Bad {
			dropped, err := t.dropRefusedFiles(wrong.What)
			if err != nil {
				return answer, Outcome{}, err
			}
			if dropped {
				continue
			}
		}
		class := model.Broken
		if wrong != nil {
			class = wrong.Class
		}
		return answer, Outcome{End: Failed, Text: t.lastText(), Why: err.Error(), Model: class}, nil
	}
}

// handleAnswer handles an answer that asks for no tools or is incomplete. If the outcome has an
// end, the conversation is over.
func (t *conversation) handleAnswer(a model.Answer) (Outcome, error) {
	text, calls := textOf(a.Parts), callsOf(a.Parts)
	switch {
	case a.Stop == model.Refused:
		why := "the model refused to continue"
		if a.Why != "" {
			why += ": " + visible.Line(a.Why, 100)
		}
		return Outcome{End: Declined, Text: text, Why: why}, nil
	case a.Stop == model.Length:
		if t.cut++; t.cut == maxCut {
			return Outcome{End: Failed, Text: text, Why: fmt.Sprintf("its answers were cut off %d times, because they were too long", t.cut)}, nil
		}
		what := "Continue where it ended, in fewer words."
		if len(calls) > 0 {
			what = "No call in it was made: nothing was done. Make the call again, with less in it."
		}
		return Outcome{}, t.say(model.User, nil, model.Part{Text: "Your answer was cut off because it was too long. " + what})
	case len(calls) > 0:
		return Outcome{}, nil
	case strings.TrimSpace(text) == "":
		if t.empty++; t.empty > maxEmpty {
			return Outcome{End: Failed, Why: "its answers were empty"}, nil
		}
		return Outcome{}, t.say(model.User, nil, model.Part{Text: "Your answer was empty. Continue, or say that you are done and give the result."})
	}
	o := Outcome{End: Finished, Text: text}
	if t.w.Schema == nil {
		return o, nil
	}
	data, err := matchSchema(text, t.w.Schema)
	if err == nil {
		o.Data = data
		return o, nil
	}
	if t.unfit++; t.unfit == maxUnfit {
		return Outcome{End: Failed, Text: text, Why: "its answer does not fit its output_schema: " + err.Error()}, nil
	}
	return Outcome{}, t.say(model.User, nil, model.Part{Text: "Your answer does not fit what is asked for: " + err.Error() + ". Answer only with JSON that fits this schema: " + string(t.w.Schema)})
}

func withoutCalls(parts []model.Part) []model.Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p model.Part) bool { return p.Call != nil })
}

func callsOf(parts []model.Part) []model.Call {
	var calls []model.Call
	for _, p := range parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}
