package main

import (
	"context"
	"encoding/json"
	"syscall/js"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/internal/people/visible"
)

// A tool is a tool for a model, as the page offers it.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// tools returns the tools that a model may call.
func (b *box) tools() ([]tool, error) {
	list := []tool{}
	for _, t := range b.gate.Offer(gate.Model) {
		schema, err := t.Schema()
		if err != nil {
			return nil, err
		}
		list = append(list, tool{t.Name, t.Description, schema})
	}
	return list, nil
}

// A result is the outcome of a call. Text is for the model, also if the call failed.
type result struct {
	Text    string   `json:"text"`
	Changes []change `json:"changes"`
	Notes   []string `json:"notes"`
	Error   *failure `json:"error,omitempty"`
}

// A change is a change of one file, as a person sees it. Its texts are safe to show.
type change struct {
	Op      string `json:"op"`
	Path    string `json:"path"`
	To      string `json:"to,omitempty"`
	Diff    string `json:"diff,omitempty"`
	Omitted string `json:"omitted,omitempty"`
}

func changesOf(all []gate.Change) []change {
	list := []change{}
	for _, c := range all {
		list = append(list, change{c.Op(), visible.Text(c.Path()), visible.Text(c.To()), visible.Text(c.Diff()), c.Omitted()})
	}
	return list
}

// callTool makes a call of a model.
func callTool(ctx context.Context, b *box, raw json.RawMessage, _ []byte) (any, []byte, error) {
	args, err := decode[struct {
		Tool string          `json:"tool"`
		Args json.RawMessage `json:"args"`
	}](raw)
	if err != nil {
		return nil, nil, err
	}
	return b.do(ctx, gate.Model, args.Tool, args.Args), nil, nil
}

// do makes a call through the gate.
func (b *box) do(ctx context.Context, origin gate.Origin, name string, args json.RawMessage) result {
	done := b.gate.Do(ctx, origin, gate.Call{Tool: name, Args: args})
	r := result{Text: done.Text, Changes: changesOf(done.Changes), Notes: append([]string{}, done.Notes...)}
	if done.Err != nil {
		r.Error = failureOf(done.Err)
	}
	return r
}

// An approval is a request for the page.
type approval struct {
	ID      string          `json:"id"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	Effects []string        `json:"effects"`
	Changes []change        `json:"changes"`
	Items   []item          `json:"items"`
	Risks   []string        `json:"risks"`
	Why     string          `json:"why,omitempty"`
	Digest  string          `json:"digest"`
}

// An item is a piece of a request. Complete is false if the text is not all of it.
type item struct {
	Name     string `json:"name"`
	Text     string `json:"text"`
	Complete bool   `json:"complete"`
}

// A decision is what the page answers. Digest has digits that a person typed, for a request
// that cannot be shown completely.
type decision struct {
	Approved bool   `json:"approved"`
	By       string `json:"by"`
	Note     string `json:"note"`
	Digest   string `json:"digest"`
}

// askPage shows a request to the page and waits for its decision. Whatever is not a decision
// declines.
func askPage(_ context.Context, r gate.Request) gate.Decision {
	items := r.Items()
	shown := approval{ID: r.ID(), Tool: r.Tool(), Args: r.Args(), Effects: []string{}, Changes: changesOf(r.Changes()), Items: []item{}, Risks: []string{}, Why: visible.Text(r.Why()), Digest: r.Digest()}
	for _, e := range r.Effects() {
		shown.Effects = append(shown.Effects, visible.Text(e.String()))
	}
	for _, risk := range r.Risks() {
		shown.Risks = append(shown.Risks, visible.Text(risk))
	}
	var acks []string
	for _, i := range items {
		shown.Items = append(shown.Items, item{i.Name, i.Text, i.Ack != ""})
		acks = append(acks, i.Ack)
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return r.Decline("golem", "golem cannot show the request")
	}
	answered := make(chan string, 1)
	then := js.FuncOf(func(_ js.Value, args []js.Value) any {
		answer := ""
		if len(args) > 0 && args[0].Type() == js.TypeString {
			answer = args[0].String()
		}
		answered <- answer
		return nil
	})
	defer then.Release()
	js.Global().Call("golemApprove", string(text)).Call("then", then, then)
	d, err := decode[decision]([]byte(<-answered))
	switch {
	case err != nil:
		return r.Decline("the page", "the page gave no decision")
	case !d.Approved:
		return r.Decline(d.by(), d.Note)
	}
	seen, err := r.Acknowledge(acks...)
	if err != nil && d.Digest != "" {
		seen, err = r.Unseen(d.Digest)
	}
	if err != nil {
		return r.Decline(d.by(), err.Error())
	}
	return seen.Approve(d.by())
}

// by names who decided.
func (d decision) by() string {
	if d.By == "" {
		return "the user of the page"
	}
	return d.By
}
