package foreigntools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/toolset/custom"
	"github.com/golem-forge/golem/internal/work/worker"
)

// Hooks are the hooks of a worker and of its callers, the callers' first. Each run of a hook
// is a call of its own in the journal.
type Hooks struct {
	first tool.Hooks // those that the gate had before; may be nil
	list  []worker.Hook
	gate  tool.Gate // its tools are the hooks, in the same order
}

// hookSet is the toolset of hooks, which no file can name.
const hookSet = "hook"

// maxNote is the most bytes of a hook's output that are passed on.
const maxNote = 4 << 10

// Hooks returns the hooks for the worker of a gate, nil if there are none. Hooks that the gate
// has already look first. Run returns the runner of a hook's program.
func (x Tools) Hooks(step *calltree.Step, gate tool.Gate, run func(worker.Foreign) (custom.Runner, error)) (*Hooks, error) {
	h := &Hooks{gate: gate, first: gate.Hooks}
	h.gate.Hooks = nil
	for at := step; at != nil; at = at.Parent {
		h.list = append(append([]worker.Hook(nil), at.Worker.Hooks...), h.list...)
	}
	if len(h.list) == 0 {
		return nil, nil
	}
	h.gate.Tools, h.gate.Grant.Tools = nil, policy.SetOf(hookSet)
	for i, one := range h.list {
		r, err := run(one.Foreign)
		if err != nil {
			return nil, err
		}
		program := custom.Program{Command: commandOf(one.Foreign), ReadOnly: true, Network: one.Network != nil, Timeout: one.Timeout}
		if one.Reach != nil {
			program.Folder = one.Reach.Folder
		}
		t, err := custom.NewHook(tool.Tool{Name: toolOf(i, one), Toolset: hookSet}, program, r)
		if err != nil {
			return nil, err
		}
		rule := policy.Rule{Verb: policy.Run, Target: t.Program, Approval: policy.PreApproved, From: one.Place.String()}
		t.Rules = withNetworkRules([]policy.Rule{rule}, one.Foreign)
		h.gate.Tools = append(h.gate.Tools, t)
	}
	return h, nil
}

// toolOf returns the name of a hook in the journal. Two workers may have hooks of one name.
func toolOf(i int, h worker.Hook) string { return fmt.Sprintf("hook_%s_%d", h.Name, i+1) }

// A hookEvent is what a hook reads from stdin, as JSON.
type hookEvent struct {
	Event   string          `json:"event"`
	Worker  string          `json:"worker"`
	Workers []string        `json:"workers"`
	Origin  string          `json:"origin,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	Result  *hookResult     `json:"result,omitempty"`

	names []string // under which a hook may name the tool
}

type hookResult struct {
	OK   bool   `json:"ok"`
	Code string `json:"code,omitempty"`
	Text string `json:"text"`
}

func newEvent(on string, workers []string) hookEvent {
	e := hookEvent{Event: on, Workers: workers}
	if len(workers) > 0 {
		e.Worker = workers[len(workers)-1]
	}
	return e
}

func eventOf(on string, c tool.HookCall) hookEvent {
	e := newEvent(on, c.Workers)
	e.Origin, e.Tool, e.Args, e.names = c.Origin.String(), c.Tool, c.Args, c.Names
	return e
}

// Before implements tool.Hooks.
func (h *Hooks) Before(ctx context.Context, c tool.HookCall) (notes []string, err error) {
	if h.first != nil {
		if notes, err = h.first.Before(ctx, c); err != nil {
			return notes, err
		}
	}
	more, err := h.run(ctx, eventOf(worker.BeforeCall, c))
	return append(notes, more...), err
}

// After implements tool.Hooks.
func (h *Hooks) After(ctx context.Context, c tool.HookCall, r tool.Result) (notes []string, err error) {
	if h.first != nil {
		if notes, err = h.first.After(ctx, c, r); err != nil {
			return notes, err
		}
	}
	e := eventOf(worker.AfterCall, c)
	e.Result = &hookResult{OK: r.OK(), Text: r.String()}
	if r.Err != nil {
		e.Result.Code = string(r.Err.Code)
	}
	more, err := h.run(ctx, e)
	return append(notes, more...), err
}

// End lets the hooks look at the last answer of a run. An error says that the run is not
// finished.
func (h *Hooks) End(ctx context.Context, ok bool, answer string) ([]string, error) {
	if h == nil {
		return nil, nil
	}
	e := newEvent(worker.RunEnd, h.gate.Workers)
	e.Result = &hookResult{OK: ok, Text: answer}
	return h.run(ctx, e)
}

// run runs the hooks for an event, one after the other. The first that fails ends it.
func (h *Hooks) run(ctx context.Context, e hookEvent) (notes []string, err error) {
	for i, one := range h.list {
		if one.On != e.Event || e.Tool != "" && !slices.ContainsFunc(e.names, one.Matches) {
			continue
		}
		said, err := h.runOne(ctx, i, e)
		if err != nil {
			return notes, fmt.Errorf("the hook %s refuses: %w", one.Name, err)
		}
		if said != "" {
			notes = append(notes, "the hook "+one.Name+": "+said)
		}
	}
	return notes, nil
}

// runOne runs one hook, and returns what it says.
func (h *Hooks) runOne(ctx context.Context, i int, e hookEvent) (said string, err error) {
	args, err := json.Marshal(e)
	if err != nil {
		return "", errors.New("golem could not write the call as JSON")
	}
	r := h.gate.Do(ctx, policy.Model, tool.Call{Tool: h.gate.Tools[i].Name, Args: args})
	said = cutNote(r.Text)
	switch {
	case r.Err == nil:
		return said, nil
	case said != "":
		return "", errors.New(said)
	}
	return "", errors.New(cutNote(r.Err.Hint))
}

// cutNote returns a text without space around it, at most maxNote bytes long.
func cutNote(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "�"))
	if len(text) <= maxNote {
		return text
	}
	text = text[:maxNote]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + " …"
}
