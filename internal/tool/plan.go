package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A Plan is what a call would do. It can be looked at and decided about; only a
// Gate can run it. The zero Plan does nothing, and says so as an error.
type Plan struct {
	// Effects are all that it does. What is not among them cannot be done: the
	// sandbox it runs with does not allow it.
	Effects []policy.Effect
	// Asks is true of a plan that nobody's rule lets pass without consent to this
	// very call.
	AlwaysAsk bool
	// Untrusted, where set, is the place that is not trusted and that those had read who
	// made what the call tells of.
	TaintedBy string
	// Tells are the names of files of whose contents the call tells without reading them:
	// who is told of a file is as exposed as who reads it.
	Reveals []string
	// Shows, where set, is what the call shows of all that it is let see: the names right
	// in a folder, or not what only says what is left out.
	Visible []policy.Effect
	// Rules are what the grant says of effects that only the tool understands, such
	// as to run a command. Each counts as a layer of the grant's consent: it may go
	// below what is written, and above a default only.
	Rules []policy.Rule
	// Why says what the rules ask for, where that is not plain.
	Why string
	// Args, where set, are the arguments with what they leave to be filled in: who
	// decides is shown these, and the answer is bound to them.
	Args any
	// Guessed, where set, says which argument golem has filled in with what was there at
	// the moment, and how to give it. A mode that approves everything does not approve
	// that: somebody else may have put another thing there since the user looked.
	Guess string
	// Later is true where changes of files are declared as what it may come to, and
	// are decided about when they are known, as a Landing.
	Deferred bool
	// Reaches is true where to prepare it is to reach beyond this machine: whoever must
	// be asked about that is asked before, and does not see what it will change.
	NetworkToPrepare bool

	reading Run // or
	prepare func(ctx context.Context, files *sandbox.Sandbox) (Preparation, error)
}

// effectsBefore returns the effects that are decided about before it runs.
func (p Plan) effectsBefore() []policy.Effect {
	if !p.Deferred {
		return p.Effects
	}
	var list []policy.Effect
	for _, e := range p.Effects {
		if e.Verb != policy.Write && e.Verb != policy.Delete {
			list = append(list, e)
		}
	}
	return list
}

// A callPlan is the plan of one call of a tool.
type callPlan struct {
	Plan
	tool    Tool
	args    any      // with defaults
	skipped []string // names that the plan leaves out because they need approval
	applies bool     // the plan is to apply changes that a call has made already
}

// plan decodes the arguments and has the tool plan the call.
func (in *invocation) plan(ctx context.Context, t Tool, raw []byte) (p callPlan, err error) {
	defer in.recoverPanic(&err)
	p.tool = t
	if in.Files == nil || in.Journal == nil {
		return p, errors.New("a gate without files or journal")
	}
	args, plan, err := t.plan(ctx, Names{in.Gate, &p.skipped, in.origin}, raw)
	if plan.Args != nil {
		var bad error
		if args, bad = fillArguments(plan.Args); bad != nil {
			return p, bad
		}
	}
	p.args, in.record.Args = args.typed, t.withoutContent(args.keys)
	var known *sandbox.Error
	if errors.As(err, &known) { // its text may name the files beside one, or the possible values
		in.recordSeen([]policy.Effect{{Verb: policy.Read, Target: known.Path}})
		in.recordHearsay(plan.TaintedBy, plan.Reveals)
	}
	if err == nil && plan.prepare == nil && plan.reading == nil {
		err = errors.New("a plan that does nothing")
	}
	p.Plan = plan
	in.record.Effects = effectTexts(plan.effectsBefore())
	return p, err
}

// mustAsk reports whether the call needs approval whatever the rules say. The changes of a
// plan with Later are asked about when they are known.
func (p callPlan) mustAsk() bool { return p.AlwaysAsk || p.tool.AlwaysAsk && !p.Deferred }

// changesNothing reports whether the call only reads.
func (p callPlan) changesNothing() bool {
	return !p.mustAsk() && !p.tool.ChangesState && !slices.ContainsFunc(p.Effects, func(e policy.Effect) bool { return e.Verb != policy.Read })
}

// callsWorker reports whether the call runs another worker.
func (p callPlan) callsWorker() bool {
	return slices.ContainsFunc(p.Effects, func(e policy.Effect) bool { return e.Verb == policy.Call })
}

// use is the effect of using the tool at all.
func (p callPlan) use() policy.Effect { return policy.Effect{Verb: policy.Use, Target: p.tool.Name} }

// A Run does what was planned, with a sandbox that allows the declared effects.
type Run func(ctx context.Context, files *sandbox.Sandbox) (Result, error)

// NewReadPlan returns a plan that changes nothing and so has nothing to prepare.
func NewReadPlan(run Run, effects ...policy.Effect) Plan {
	return Plan{Effects: effects, reading: run}
}

// NewChangePlan returns a plan that changes something. To prepare it works out the
// exact changes from what is there now, with a sandbox that can read the files
// of the effects and change nothing; the changes are shown to who decides, and
// the run that comes with them must make these or fail.
func NewChangePlan(prepare func(ctx context.Context, files *sandbox.Sandbox) (Preparation, error), effects ...policy.Effect) Plan {
	return Plan{Effects: effects, prepare: prepare}
}

// Prepared is a plan whose changes are known.
type Preparation struct {
	Changes []Change
	// Wish says in a few words what it comes to, "" where the changes say so. Warnings
	// are what to look at first.
	Summary  string
	Warnings []string
	// MoreWarnings is how many warnings are left out. One of Warnings says so, and nobody
	// can have seen the others.
	MoreWarnings int
	// Undoable is true where the changes are made to files as they are listed, so that the
	// gate can keep what is there before: see Gate.Undo.
	Undoable bool

	run Run
}

// WithUndo returns what is prepared with Undoable set.
func (p Preparation) WithUndo() Preparation {
	p.Undoable = true
	return p
}

// NewPreparation returns what makes the changes.
func NewPreparation(run Run, changes ...Change) Preparation {
	return Preparation{Changes: changes, run: run}
}

// A Change is what happens to one file or folder.
type Change struct {
	Path string `json:"path"`
	Op   Op     `json:"operation"`
	To   string `json:"to,omitempty"` // where it goes, of a move or copy
	// Diff is the change in the unified format; "" where there is no text to show.
	Diff string `json:"diff,omitempty"`
	// Base is the version that the change is made from.
	Base string `json:"base,omitempty"`
	// Becomes is the version of the new content: a diff may be cut, this is of all
	// of it.
	Becomes string `json:"becomes,omitempty"`
	// Original is the old text, where it is no longer than 100 KB.
	Original *string `json:"original,omitempty"`
	// Mode is the permission bits of what is there, where they matter.
	Mode string `json:"mode,omitempty"`
	// Empties is true where a file that holds something is left without anything that can
	// be seen. That counts as deleting it.
	Empties bool `json:"empties,omitempty"`
	// About says what a diff does not: sizes, how many files.
	About string `json:"about,omitempty"`
	// Tree are the names of all that is in a directory that is deleted, replaced or moved.
	Tree []string `json:"tree,omitempty"`
	// Omitted says why the change does not carry its new content, or the list of what is
	// in a directory: too large, binary, unreadable. Nobody can have seen that part.
	Omitted string `json:"omitted,omitempty"`

	added, removed int // lines of the whole diff, where the result is brief
}

// summaryLine says in one line what happens, without the diff, as a review says it.
func (c Change) summaryLine() string {
	mark := map[Op]string{Create: "A", Update: "M", Delete: "D"}[c.Op]
	var about []string
	switch {
	case c.Diff == "" || c.added == 0 && c.removed == 0:
	case c.removed == 0:
		about = append(about, fmt.Sprintf("+%d", c.added))
	case c.added == 0:
		about = append(about, fmt.Sprintf("-%d", c.removed))
	default:
		about = append(about, fmt.Sprintf("+%d -%d", c.added, c.removed))
	}
	if c.About != "" {
		about = append(about, c.About)
	}
	line := cmp.Or(mark, string(c.Op)) + " " + visible.Name(c.Path)
	if len(about) > 0 {
		line += " (" + strings.Join(about, "; ") + ")"
	}
	return line
}

// Op is a kind of change.
type Op string

// The kinds of changes.
const (
	Create Op = "create"
	Update Op = "update"
	Delete Op = "delete"
	Move   Op = "move"
	Copy   Op = "copy"
)
