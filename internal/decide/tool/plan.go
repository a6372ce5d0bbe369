package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// A Plan says what a call would do. It can be inspected and decided about, but only a
// Gate can run it. The zero Plan does nothing, and the gate returns an error for it.
type Plan struct {
	// Effects are all effects of the call. It runs with a sandbox that allows no others.
	Effects []policy.Effect
	// AlwaysAsk is true if the call needs approval whatever the rules say.
	AlwaysAsk bool
	// Asks, if set, is a server that the call connects to. That needs approval whatever the
	// rules say, and is one more effect.
	Asks *url.URL
	// TaintedBy, if set, is the untrusted path that the authors of the shown work had
	// read.
	TaintedBy string
	// Reveals are the names of files whose content the call reveals without reading them.
	// They taint the worker as if it had read them.
	Reveals []string
	// Visible, if set, are the effects whose targets the call shows, in place of Effects.
	Visible []policy.Effect
	// Levels, if not zero, means that the call reads only names of the directories among
	// Effects, and how many levels deep. Otherwise it may read the files, too.
	Levels int
	// Words, if set, returns the words of a command and the directory where it starts. An
	// approval is bound to the content of the files that the words name.
	Words func() (dir string, words []string)
	// Rules are what the grant says of effects that only the tool understands, such as
	// running a command. Each is one more layer of the grant's rules: it can lower the
	// approval that others give, and raise only a default.
	Rules []policy.Rule
	// Why says what the rules ask for, if that is not obvious.
	Why string
	// Args, if set, are the arguments with values that golem has filled in. The approver
	// sees these, and the approval is bound to them.
	Args any
	// Guess, if set, says which argument golem has filled in from the current state, and
	// how to give it. The mode approve_all does not approve such a call, because the
	// state may have changed since the user looked.
	Guess string
	// Deferred is true if the writes and deletes among Effects are only possible ones.
	// The gate decides about the actual changes when they are known, as DeferredChanges.
	Deferred bool
	// NetworkToPrepare is true if preparing the call connects to other machines. If that
	// needs approval, the approver is asked first, and does not see the changes.
	NetworkToPrepare bool

	// Reach, if set, returns which files the call may read and write, if it can run at the
	// same time as other calls although it does more than read files: it runs a command
	// that only reads, or a worker.
	Reach func() (Reach, bool)

	reading Run // either reading or prepare is set
	prepare func(ctx context.Context, files *sandbox.Sandbox) (Preparation, error)
}

// effectsBefore returns the effects that the gate decides about before the call runs.
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
	if errors.As(err, &known) { // its text may name other files in the directory, or the possible values
		in.recordSeen([]policy.Effect{{Verb: policy.Read, Target: known.Path}})
		in.recordHearsay(plan.TaintedBy, plan.Reveals)
	}
	if err == nil && plan.prepare == nil && plan.reading == nil {
		err = errors.New("a plan that does nothing")
	}
	p.Plan = plan
	in.record.Effects = effectTexts(slices.Concat(plan.effectsBefore(), plan.connection()))
	return p, err
}

// connection returns the effect of connecting to the server of Asks.
func (p Plan) connection() []policy.Effect {
	if p.Asks == nil {
		return nil
	}
	to := audit.Connection{Host: p.Asks.Hostname(), Port: 443}
	if p.Asks.Scheme == "http" {
		to.Port = 80
	}
	if n, err := strconv.ParseUint(p.Asks.Port(), 10, 16); err == nil {
		to.Port = uint16(n)
	}
	return []policy.Effect{{Verb: policy.Connect, Target: to.Address()}}
}

// mustAsk reports whether the call needs approval whatever the rules say. A plan with
// Deferred asks when the changes are known.
func (p callPlan) mustAsk() bool {
	return p.AlwaysAsk || p.Asks != nil || p.tool.AlwaysAsk && !p.Deferred
}

// changesNothing reports whether the call only reads.
func (p callPlan) changesNothing() bool {
	return !p.mustAsk() && !p.tool.ChangesState && !slices.ContainsFunc(p.Effects, func(e policy.Effect) bool { return e.Verb != policy.Read })
}

// callsWorker reports whether the call runs another worker.
func (p callPlan) callsWorker() bool {
	return slices.ContainsFunc(p.Effects, func(e policy.Effect) bool { return e.Verb == policy.Call })
}

// use is the effect of using the tool at all.
func (p callPlan) use() policy.Effect {
	return policy.Effect{Verb: policy.Use, Target: p.tool.currentName()}
}

// A Run does what was planned, with a sandbox that allows the declared effects.
type Run func(ctx context.Context, files *sandbox.Sandbox) (Result, error)

// NewReadPlan returns a plan that changes nothing, so there is nothing to prepare.
func NewReadPlan(run Run, effects ...policy.Effect) Plan {
	return Plan{Effects: effects, reading: run}
}

// NewChangePlan returns a plan that changes something. Prepare works out the exact
// changes, with a sandbox that can read the files of the effects and change nothing. The
// approver sees these changes, and the run must make exactly them or fail.
func NewChangePlan(prepare func(ctx context.Context, files *sandbox.Sandbox) (Preparation, error), effects ...policy.Effect) Plan {
	return Plan{Effects: effects, prepare: prepare}
}

// A Preparation is a plan whose changes are known.
type Preparation struct {
	Changes []Change
	// Summary says in a few words what the changes do, "" if they show it themselves.
	// Warnings are what to look at first.
	Summary  string
	Warnings []string
	// MoreWarnings is how many warnings are omitted. One of Warnings says so. Nobody can
	// have seen the others.
	MoreWarnings int
	// Undoable is true if the run changes exactly the listed files, so that the gate can
	// save their old content: see Gate.Undo.
	Undoable bool
	// Deletes, if set, are the files of a session that the run deletes. The journal names them
	// before the run.
	Deletes *audit.Files
	// Attached are the files that the run passes on, as Gate.DescribeRead returns them.
	Attached []Change

	run Run
}

// WithUndo returns the preparation with Undoable set.
func (p Preparation) WithUndo() Preparation {
	p.Undoable = true
	return p
}

// NewPreparation returns a preparation whose run makes the changes.
func NewPreparation(run Run, changes ...Change) Preparation {
	return Preparation{Changes: changes, run: run}
}

// Counts is how much a change changes.
type Counts struct {
	Files   int `json:"files"`
	Added   int `json:"added"` // lines
	Removed int `json:"removed"`
	Unread  int `json:"unread,omitempty"` // files whose lines are not counted
}

// A Change is a change of one file or directory.
type Change struct {
	Path string `json:"path"`
	Op   Op     `json:"operation"`
	To   string `json:"to,omitempty"` // the new name, for a move or copy
	// Diff is the change in the unified format, "" if there is no text to show.
	Diff string `json:"diff,omitempty"`
	// Base is the version of the old content.
	Base string `json:"base,omitempty"`
	// Becomes is the version of the whole new content. A diff may be shortened.
	Becomes string `json:"becomes,omitempty"`
	// Original is the old text, if it has at most 100,000 bytes.
	Original *string `json:"original,omitempty"`
	// Mode is the permission bits, if they matter.
	Mode string `json:"mode,omitempty"`
	// OnlyMode is true if only the permission bits change.
	OnlyMode bool `json:"-"`
	// Empties is true if a file loses its content: it has no visible character
	// afterwards. That counts as deleting the file.
	Empties bool `json:"empties,omitempty"`
	// About says what a diff does not: sizes, how many files.
	About string `json:"about,omitempty"`
	// Directory is true if the call reads what is in a directory.
	Directory bool `json:"directory,omitempty"`
	// Part names the hunks of the session's change that this is, such as "hunk 1 of 2". It
	// is "" for all of it.
	Part string `json:"part,omitempty"`
	// Flags are what to look at first in the change, the riskiest first.
	Flags []review.Flag `json:"flags,omitempty"`
	// Tree lists the names in a directory that is deleted, replaced or moved.
	Tree []string `json:"tree,omitempty"`
	// Counts, if set, is what the change adds to a total, if Diff does not show that: a
	// deleted file or directory, a moved file, or a file whose diff is omitted.
	Counts *Counts `json:"counts,omitempty"`
	// Omitted says why the change does not carry its new content, or the names in a
	// directory: too large, binary, unreadable. Nobody can have seen that part.
	Omitted string `json:"omitted,omitempty"`

	added, removed int // lines of the whole diff, if the result is brief
}

// summaryLine describes the change in one line, without the diff, as a review does.
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
	// Read and Attach change nothing. They describe files in requests.
	Read   Op = "read"
	Attach Op = "attach"
)
