package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
)

// A talk is a conversation of one worker with its model.
type talk struct {
	*Run
	w        *Worker
	id       string
	gate     tool.Gate // with the tools that call workers
	system   string
	offered  []model.Tool
	messages []model.Message
	past     *past // where it continues

	repeats repeats
	empty   int            // answers without anything
	cut     int            // answers that were too long
	unfit   int            // answers that did not fit the schema
	floods  map[string]int // calls of the last answer with more arguments than any takes, and how much that was
}

// What is put up with before a conversation is ended.
const (
	maxEmpty = 2
	maxCut   = 3
	maxUnfit = 3
	// answerRoom is how many tokens an answer is given room for.
	answerRoom = 16_000
)

// converse lets a worker work on an input until it has answered.
func (r *Run) converse(ctx context.Context, w *Worker, id string, in Input) (Outcome, error) {
	t := &talk{Run: r, w: w, id: id, past: r.Log.takePast(id)}
	if t.past != nil && id != top && len(t.past.messages) > 0 {
		in = Input{} // it has it already
	}
	if t.past != nil && t.past.outcome != nil && t.past.outcome.OK() && in.none() {
		return *t.past.outcome, nil
	}
	switch {
	case id == top && t.past != nil:
		r.Budget.startedBefore(r.Log.begunWorkers())
	case id != top && t.past == nil:
		if err := r.Budget.start(); err != nil {
			return Outcome{End: Spent, Why: err.Error()}, nil
		}
	}
	r.Budget.note(func(s *Sum) { s.Workers++ })
	t.gate = w.Gate
	t.gate.Approver = counting{w.Gate.Approver, r.Budget}
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
		r.teller.say(Event{Type: Started, Worker: w.Name, Chain: t.gate.Workers, Model: w.ModelName, Text: gets(t.gate)})
	}
	for _, note := range w.Notes {
		r.teller.say(Event{Type: Note, Worker: w.Name, Chain: t.gate.Workers, Text: note})
	}
	o, err := t.open(ctx, in)
	if err == nil && o.End == "" {
		o, err = t.turns(ctx)
	}
	if id == top {
		r.history = t.messages
	}
	if err == nil {
		err = r.Log.write(Entry{Kind: "end", In: id, Outcome: &o})
	}
	return o, err
}

// open begins the conversation, or continues with it: with the calls that wait for results,
// and then with the input. An end is that of the conversation.
func (t *talk) open(ctx context.Context, in Input) (Outcome, error) {
	switch {
	case t.past != nil:
		t.messages = t.past.messages
	case t.id == top && t.history != nil:
		t.messages = t.history
	default:
		if err := t.Log.write(Entry{Kind: "begin", In: t.id, Worker: t.w.Name, Model: t.w.ModelName}); err != nil {
			return Outcome{}, err
		}
	}
	if calls := t.openCalls(); len(calls) > 0 {
		if o, err := t.answerCalls(ctx, calls); err != nil || o.End != "" {
			return o, err
		}
	}
	last := len(t.messages) - 1
	switch {
	case last < 0 || !in.none():
		return Outcome{}, t.say(model.User, nil, in.parts()...)
	case t.messages[last].Role == model.Assistant:
		return Outcome{}, t.say(model.User, nil, model.Part{Text: "Go on."})
	}
	return Outcome{}, nil
}

// parts are those of the message by which an input is told.
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
func (t *talk) say(role model.Role, usage *model.Usage, parts ...model.Part) error {
	m := model.Message{Role: role, Parts: parts}
	if last := len(t.messages) - 1; last >= 0 && t.messages[last].Role == role { // sides take turns
		m.Parts = append(append([]model.Part{}, t.messages[last].Parts...), parts...)
		t.messages = append(append([]model.Message{}, t.messages[:last]...), m)
		return t.Log.write(Entry{Kind: "replace", In: t.id, Worker: t.w.Name, Messages: t.messages})
	}
	t.messages = append(t.messages, m)
	return t.Log.write(Entry{Kind: "message", In: t.id, Worker: t.w.Name, Messages: []model.Message{m}, Usage: usage})
}

// turns lets model and tools take turns.
func (t *talk) turns(ctx context.Context) (Outcome, error) {
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
		if answer.Stop == model.Length || answer.Stop == model.Refused { // of such an answer no call is made, also by who continues
			said = withoutCalls(said)
		}
		if len(said) > 0 {
			if err := t.say(model.Assistant, &answer.Usage, said...); err != nil {
				return Outcome{}, err
			}
		}
		if o, err := t.heard(answer); err != nil || o.End != "" {
			return o, err
		}
	}
}

// over returns why a conversation cannot continue, no end if it can.
func (t *talk) over(ctx context.Context) Outcome {
	var late spent
	if errors.As(context.Cause(ctx), &late) {
		return Outcome{End: Spent, Text: t.lastText(), Why: late.Error()}
	}
	if t.stopped.Load() || ctx.Err() != nil {
		return Outcome{End: Stopped, Text: t.lastText(), Why: "it was stopped"}
	}
	return Outcome{}
}

// lastText is what the model said last.
func (t *talk) lastText() string {
	for i := len(t.messages) - 1; i >= 0; i-- {
		if t.messages[i].Role == model.Assistant {
			return textOf(t.messages[i].Parts)
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

// ask asks the model. An end is why there is no answer.
func (t *talk) ask(ctx context.Context) (model.Answer, Outcome, error) {
	for tries := 0; ; tries++ {
		if err := t.makeRoom(t.w.Context); err != nil {
			return model.Answer{}, Outcome{}, err
		}
		input := estimate(t.messages) + int64(len(t.system))/4
		room, settle, err := t.Budget.reserve(t.w.ModelName, input, answerRoom, t.Now())
		if err != nil {
			return model.Answer{}, Outcome{End: Spent, Text: t.lastText(), Why: err.Error()}, nil
		}
		request := model.Request{Worker: t.w.Name, System: t.system, Messages: t.messages, Tools: t.offered, MaxTokens: room, Schema: t.w.Schema}
		asking, cancel := t.interrupted(ctx)
		answer, err := t.w.Model.Answer(asking, request, func(p model.Piece) {
			if p.Text != "" {
				t.teller.say(Event{Type: Piece, Worker: t.w.Name, Chain: t.gate.Workers, Text: p.Text})
			}
		})
		cancel()
		settle(t.w.Name, answer, err == nil)
		if err == nil {
			t.teller.say(Event{Type: Message, Worker: t.w.Name, Chain: t.gate.Workers, Text: textOf(answer.Parts), Calls: len(callsOf(answer.Parts)), Model: answer.Model, Usage: &answer.Usage})
			return answer, Outcome{}, nil
		}
		if o := t.over(ctx); o.End != "" {
			return answer, o, nil
		}
		var wrong *model.Error
		if errors.As(err, &wrong) && wrong.Class == model.TooLong && tries < 3 {
			if err := t.makeRoom(estimate(t.messages) / 2); err != nil {
				return answer, Outcome{}, err
			}
			continue
		}
		class := model.Broken
		if wrong != nil {
			class = wrong.Class
		}
		return answer, Outcome{End: Failed, Text: t.lastText(), Why: err.Error(), Model: class}, nil
	}
}

// heard looks at an answer that asks for no tools, or was not whole. An end is that of
// the conversation.
func (t *talk) heard(a model.Answer) (Outcome, error) {
	text, calls := textOf(a.Parts), callsOf(a.Parts)
	switch {
	case a.Stop == model.Refused:
		return Outcome{End: Declined, Text: text, Why: "the model refused to go on"}, nil
	case a.Stop == model.Length:
		if t.cut++; t.cut == maxCut {
			return Outcome{End: Failed, Text: text, Why: fmt.Sprintf("its answers were cut off %d times, because they were too long", t.cut)}, nil
		}
		what := "Go on where it ended, in fewer words."
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
		return Outcome{}, t.say(model.User, nil, model.Part{Text: "Your answer was empty. Go on, or say that you are done and what came out."})
	}
	o := Outcome{End: Finished, Text: text}
	if t.w.Schema == nil {
		return o, nil
	}
	data, err := fits(text, t.w.Schema)
	if err == nil {
		o.Data = data
		return o, nil
	}
	if t.unfit++; t.unfit == maxUnfit {
		return Outcome{End: Failed, Text: text, Why: "its answer does not fit its output_schema: " + err.Error()}, nil
	}
	return Outcome{}, t.say(model.User, nil, model.Part{Text: "Your answer does not fit what is asked for: " + err.Error() + ". Answer with JSON alone, by this schema: " + string(t.w.Schema)})
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
