// Package custom is the tools of a program's own: executables that are run in the jail,
// once for each call, with the least that they declare. One reads its arguments as JSON
// from its standard input and answers on its standard output.
//
// What it has changed is a landing, as of a shell command, if it has ended well: one that
// fails has changed nothing.
package custom

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/transaction"
	"github.com/golem-forge/golem/sandbox"
)

// A Runner runs commands in the jail. They see what the sandbox shows, and the files of
// the program that they are.
type Runner interface {
	// Able returns an error where no command can be run.
	Able() error
	// Layered reports whether what commands write is known before it lands.
	Layered() bool
	// Run runs a command; one that must be layered writes nothing directly.
	Run(ctx context.Context, files *sandbox.Sandbox, c jail.Command, layered bool) (transaction.Result, error)
}

// A Program is what a tool runs, and the least that it needs.
type Program struct {
	Command  jail.Command // without input
	Folder   string       // of the worker's files that it sees, with all below; "" for none
	ReadOnly bool
	Network  bool
	Timeout  time.Duration // 0 for the limit's own
}

// Runs is the effect of running the tool of a name.
func Runs(name string) string { return "custom " + name }

// New returns a tool that runs a program. Without a runner it can only be looked at. An
// error is about the schema.
func New(about tool.Tool, schema []byte, p Program, r Runner) (tool.Tool, error) {
	about.Toolset, about.Verbs, about.Program = "custom", []policy.Verb{policy.Run}, Runs(about.Name)
	return tool.Dynamic(about, schema, func(_ context.Context, names tool.Names, args json.RawMessage) (tool.Plan, error) {
		effects := []policy.Effect{{Verb: policy.Run, Target: about.Program}}
		if p.Folder == "" {
			effects = append(effects, names.ConnectEffects(p.Network)...)
		} else {
			shown := names.CommandEffectsIn(p.Folder, p.ReadOnly, p.Network)
			if len(shown) == 0 || shown[0].Verb != policy.Read {
				return tool.Plan{}, &sandbox.Error{Op: about.Name, Path: p.Folder, Code: sandbox.ErrNotFound,
					Hint: "the tool works on this folder, and nothing of it may be read here without a question"}
			}
			effects = append(effects, shown...)
		}
		layered := r != nil && r.Layered()
		run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			c := p.Command
			c.Input, c.Time = append(args, '\n'), p.Timeout
			if p.Folder != "" {
				c.Dir = begins(files, p.Folder, effects)
			}
			result, err := r.Run(ctx, files, c, layered)
			if err != nil {
				return tool.Result{}, err
			}
			return told(about.Name, files, args, effects, result)
		}
		prepare := func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
			return tool.NewPreparation(run), r.Able()
		}
		plan := tool.NewChangePlan(prepare, effects...)
		plan.Deferred, plan.AlwaysAsk = layered, !layered
		return plan, nil
	})
}

// begins is the directory in which a program begins: that which it declares or, where only
// some in it are shown, the first of these.
func begins(files *sandbox.Sandbox, folder string, effects []policy.Effect) string {
	if !files.CanRead(folder) {
		for _, e := range effects {
			if e.Verb == policy.Read {
				return jail.Inside(files, e.Target)
			}
		}
	}
	return jail.Inside(files, folder)
}

// elsewhere says where the program finds a file that it sees and an argument names as the
// other tools do: the root is /work in the jail. Of what it does not see nothing is told,
// not even that it is there.
func elsewhere(files *sandbox.Sandbox, args json.RawMessage, effects []policy.Effect) string {
	var given map[string]any
	if err := json.Unmarshal(args, &given); err != nil {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		text, _ := given[key].(string)
		if !strings.HasPrefix(text, "/") {
			continue
		}
		if name, inside, ok := jail.Elsewhere(files, text); ok && policy.ReadsFile(effects, name) {
			return "; in the tool " + sandbox.Shown(name) + " is " + sandbox.Shown(inside)
		}
	}
	return ""
}

// told tells what came of a run.
func told(name string, files *sandbox.Sandbox, args json.RawMessage, effects []policy.Effect, ran transaction.Result) (tool.Result, error) {
	text, hidden := ran.Stdout.Text()
	r := tool.Result{Text: text, Record: ended(ran.Result) + " (" + ran.Level.String() + ")"}
	if data := []byte(strings.TrimSpace(text)); hidden == 0 && json.Valid(data) {
		r.Data = json.RawMessage(data)
	}
	if ran.Changed != nil {
		l := approval.Classify(name, files, ran.Changed)
		if r.Deferred, r.Notes = l.Deferred(), l.Notes(); r.Deferred == nil {
			if err := ran.Changed.Discard(); err != nil {
				return r, err
			}
		}
	}
	if ran.Code == 0 && !ran.Late && !ran.Stopped {
		return r, nil
	}
	hint := ended(ran.Result)
	switch {
	case ran.Changed != nil:
		hint += "; none of its changes were applied"
	case len(files.WritableRoots()) > 0:
		hint += "; what it had written by then stays"
	}
	if said := last(ran.Stderr); said != "" {
		hint += "; it said: " + said
	}
	if ran.Level == jail.Namespaces {
		hint += elsewhere(files, args, effects)
	}
	r.Err = &sandbox.Error{Op: name, Code: code(ran.Result), Hint: hint}
	return r, nil
}

// ended says how it ended.
func ended(ran jail.Result) string {
	how := fmt.Sprintf("exit %d", ran.Code)
	switch {
	case ran.Late:
		how = fmt.Sprintf("its time was over after %.1f s, and it was ended with all that it had started", ran.Took.Seconds())
	case ran.Stopped:
		how = "it was stopped"
	case ran.Signal != "":
		how = "ended by " + ran.Signal
	}
	for _, l := range ran.Hit {
		if l != jail.TimeLimit {
			how += "; it ran into its limit of " + string(l)
		}
	}
	return how
}

func code(ran jail.Result) sandbox.Code {
	switch {
	case ran.Late:
		return "timeout"
	case ran.Stopped:
		return "stopped"
	case len(ran.Hit) > 0:
		return sandbox.ErrLimit
	}
	return "failed"
}

// maxSaid is how much of what a program says of its failure is passed on.
const maxSaid = 2000

// last returns the end of what a program has written to its standard error.
func last(o jail.Output) string {
	text, _ := o.Text()
	text = strings.TrimSpace(text)
	if len(text) > maxSaid {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxSaid:], "")
	}
	return text
}
