package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/sandbox"
)

// A Plan says what a call would do. The zero Plan is an error.
type Plan struct {
	// Effects are all effects of the call. To write a file is to read it, too. A call without
	// effects is asked about every time; one with only Read effects must do nothing else.
	Effects []Effect
	// Summary says in a few words what the call does, "" if its changes show it.
	Summary string
	// Changes returns the whole new content of each file that the call changes, by its name,
	// and nil for a file that it deletes. Its sandbox can only read. The gate compares the
	// contents with the files, the approver sees that, and the gate makes exactly these changes.
	Changes func(ctx context.Context, files *sandbox.Sandbox) (map[string][]byte, error)
	// Run does everything else, after the decision and the changes. Its sandbox can read the
	// files of the effects, and change none. It may be nil if there are Changes.
	Run func(ctx context.Context, files *sandbox.Sandbox) (Result, error)

	edit func(old []byte) ([]byte, error) // of Edit; it changes the file of the first Write effect
}

// Edit returns the plan to change one file. Change gets the old content, nil if there is no
// file, and returns the new content.
func Edit(name string, change func(old []byte) ([]byte, error)) Plan {
	return Plan{Effects: []Effect{{Write, name}}, edit: change}
}

// changes reports whether the plan changes files.
func (p Plan) changes() bool { return p.Changes != nil || p.edit != nil }

// hidesArguments reports whether the call changes files and does something else, too.
func (p Plan) hidesArguments() bool {
	return p.changes() && (p.Run != nil || slices.ContainsFunc(p.Effects, func(e Effect) bool { return !e.isFile() }))
}

// inner returns the plan as package tool has it. File names are canonical there, with symlinks
// followed.
func (p Plan) inner(names tool.Names) (tool.Plan, error) {
	c := changing{plan: p, leads: map[string]string{}}
	var effects []policy.Effect
	onlyReads := true
	for _, e := range p.Effects {
		if !e.Verb.isKnown() {
			return tool.Plan{}, wrongPlan("it has an effect with an unknown verb")
		}
		if e.isFile() {
			access := sandbox.ReadWrite
			if e.Verb == Read {
				access = sandbox.ReadOnly
			}
			at, err := names.Locate(e.Verb.String(), e.Target, access, e.Verb == Delete)
			if err != nil {
				return tool.Plan{}, err
			}
			c.leads[e.Target], e.Target = at, at
		}
		if e.Verb == Write { // the plan compares the file with its new content
			effects = append(effects, Effect{Read, e.Target}.inner())
		}
		onlyReads = onlyReads && e.Verb == Read
		effects = append(effects, e.inner())
		c.effects = append(c.effects, e)
	}
	changesFiles := slices.ContainsFunc(p.Effects, func(e Effect) bool { return e.Verb == Write || e.Verb == Delete })
	switch {
	case p.Run == nil && !p.changes():
		return tool.Plan{}, wrongPlan("it has neither Changes nor Run")
	case p.Changes != nil && p.edit != nil:
		return tool.Plan{}, wrongPlan("gate.Edit has made it, and it has other Changes")
	case p.changes() != changesFiles:
		return tool.Plan{}, wrongPlan("it needs Changes if it has effects that write or delete files, and only then")
	case onlyReads && len(effects) > 0:
		return tool.NewReadPlan(c.run, effects...), nil
	}
	plan := tool.NewChangePlan(c.prepare, effects...)
	plan.AlwaysAsk = len(effects) == 0
	return plan, nil
}

// changing is a plan whose changes the gate works out and makes.
type changing struct {
	plan    Plan
	effects []Effect          // with the names of files that they lead to
	leads   map[string]string // these names, by those of the plan
}

// A write is what the gate does to one file.
type write struct {
	name    string
	base    sandbox.Version // of the old content, zero if there is no file
	content []byte          // nil to delete the file
}

// prepare works out the changes, by the files as they are now.
func (c changing) prepare(ctx context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
	writes, changes, err := c.compare(ctx, files)
	if err != nil {
		return tool.Preparation{}, err
	}
	prepared := tool.NewPreparation(func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		for _, w := range writes {
			if err := w.check(files); err != nil {
				return tool.Result{}, err
			}
		}
		for i, w := range writes {
			if err := w.make(files); err != nil {
				return tool.Result{}, addMade(err, writes[:i])
			}
		}
		if c.plan.Run == nil {
			return tool.Result{Text: sayMade(writes)}, nil
		}
		return c.finish(ctx, files, writes)
	}, changes...)
	prepared.Summary = c.plan.Summary
	return prepared, nil
}

// compare asks the plan for the new contents, and compares them with the files.
func (c changing) compare(ctx context.Context, files *sandbox.Sandbox) (writes []write, changes []tool.Change, err error) {
	contents, err := c.contents(ctx, files)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		w := write{name: name, content: contents[name]}
		if !c.covers(w) {
			return nil, nil, &sandbox.Error{Op: "plan", Path: name, Code: ErrBlocked, Hint: "the tool changes a file that is not among the effects of its plan"}
		}
		old, version, err := files.ReadVersion(name)
		if w.content == nil && err == nil {
			err = checkRegular(files, name)
		}
		if err != nil && (w.content == nil || !errors.Is(err, sandbox.ErrNotFound)) {
			return nil, nil, err
		}
		w.base = version
		change := tool.DescribeChange(name, w.base, old, w.content)
		change.Empties = !filecontent.IsBlank(old) && filecontent.IsBlank(w.content)
		if w.content == nil {
			change.Op, change.Becomes = tool.Delete, ""
		}
		writes, changes = append(writes, w), append(changes, change)
	}
	return writes, changes, nil
}

// checkRegular returns an error for a symlink: to delete it would leave the content that the
// approver sees.
func checkRegular(files *sandbox.Sandbox, name string) error {
	at, err := files.Locate("delete", name, sandbox.ReadOnly, false)
	if err == nil && at != name {
		err = &sandbox.Error{Op: "delete", Path: name, Code: sandbox.ErrNotRegular, Hint: "it is a symlink, and a plan deletes only files; nothing was done"}
	}
	return err
}

// contents returns copies of the new contents, by the names that the plan's names lead to.
func (c changing) contents(ctx context.Context, files *sandbox.Sandbox) (map[string][]byte, error) {
	if c.plan.edit != nil {
		name := c.effects[slices.IndexFunc(c.effects, func(e Effect) bool { return e.Verb == Write })].Target
		old, err := files.Read(name)
		if err != nil && !errors.Is(err, sandbox.ErrNotFound) {
			return nil, err
		}
		content, err := c.plan.edit(old)
		return map[string][]byte{name: append([]byte{}, content...)}, err
	}
	if c.plan.Changes == nil {
		return nil, nil
	}
	planned, err := c.plan.Changes(ctx, files)
	contents := make(map[string][]byte, len(planned))
	for name, content := range planned {
		at, known := c.leads[name]
		if !known && err == nil {
			at, err = files.Locate("plan", name, sandbox.ReadOnly, content == nil)
		}
		if _, twice := contents[at]; twice && err == nil {
			err = &sandbox.Error{Op: "plan", Path: at, Code: sandbox.ErrInvalid, Hint: "the tool changes one file under two names"}
		}
		contents[at] = slices.Clone(content)
	}
	return contents, err
}

// covers reports whether an effect of the plan covers the write.
func (c changing) covers(w write) bool {
	verb := Write
	if w.content == nil {
		verb = Delete
	}
	return slices.ContainsFunc(c.effects, func(e Effect) bool {
		return e.Verb == verb && (e.Target == w.name || strings.HasPrefix(w.name, strings.TrimSuffix(e.Target, "/")+"/"))
	})
}

// run runs the plan with a sandbox that changes nothing. What the tool says about changes does
// not count.
func (c changing) run(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
	files, err := files.Restrict(sandbox.Limit{Path: "/", Access: sandbox.ReadOnly})
	if err != nil {
		return tool.Result{}, err
	}
	r, err := c.plan.Run(ctx, files)
	return tool.Result{Text: r.Text, Data: r.Data, Notes: r.Notes, Err: r.Err}, err
}

// finish runs the plan after its changes were made. An error is part of the result, which has the
// changes.
func (c changing) finish(ctx context.Context, files *sandbox.Sandbox, writes []write) (r tool.Result, err error) {
	if len(writes) == 0 {
		return c.run(ctx, files)
	}
	defer func() {
		if err = addMade(err, writes); err != nil {
			r.Err, err = err.(*sandbox.Error), nil
		}
	}()
	defer caught(&err)
	return c.run(ctx, files)
}

// check returns an error if the file is not what the change was compared with.
func (w write) check(files *sandbox.Sandbox) error {
	_, version, err := files.ReadVersion(w.name)
	if errors.Is(err, sandbox.ErrNotFound) && w.base.IsZero() || err == nil && !w.base.IsZero() && version.Same(w.base) {
		return nil
	}
	if err == nil || errors.Is(err, sandbox.ErrNotFound) {
		err = &sandbox.Error{Op: "write", Path: w.name, Code: sandbox.ErrConflict, Hint: "it has changed since the call was planned; nothing was done; make the call again"}
	}
	return err
}

// make makes the change.
func (w write) make(files *sandbox.Sandbox) error {
	var err error
	switch {
	case w.content == nil:
		err = files.Delete(w.name)
	case w.base.IsZero():
		_, err = files.WriteNew(w.name, w.content)
	default:
		_, err = files.WriteIf(w.name, w.content, w.base)
	}
	return err
}

// sayMade names the changes that were made.
func sayMade(writes []write) string {
	var list []string
	for _, w := range writes {
		verb := "wrote "
		if w.content == nil {
			verb = "deleted "
		}
		list = append(list, verb+sandbox.Shown(w.name))
	}
	if len(list) == 0 {
		return "nothing to change"
	}
	return strings.Join(list, ", ")
}

// addMade adds to an error what was done before it.
func addMade(err error, writes []write) error {
	if err == nil || len(writes) == 0 {
		return err
	}
	whole := &sandbox.Error{Op: "call", Code: sandbox.CodeOf(err), Hint: "the tool failed"}
	if known := (*sandbox.Error)(nil); errors.As(err, &known) {
		whole.Op, whole.Path, whole.Hint = known.Op, known.Path, known.Hint
	}
	whole.Hint = fmt.Sprintf("%s; before that, golem %s", whole.Hint, sayMade(writes))
	return whole
}

// wrongPlan returns the error for a plan that the gate cannot use. The author of the tool reads
// it.
func wrongPlan(why string) error {
	return &sandbox.Error{Op: "plan", Code: sandbox.ErrInvalid, Hint: why + "; see gate.Plan"}
}
