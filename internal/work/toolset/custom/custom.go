// Package custom makes tools from executables of the project. golem runs one in the jail
// for each call, with only the files and the network that it declares. The executable
// reads its arguments as JSON from stdin and writes its result to stdout.
//
// The changes of a program that succeeds are decided like those of a shell command. If it
// fails, none of the changes of its transaction are applied.
package custom

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A Runner runs commands in the jail. They see what the sandbox shows, and their own
// program files.
type Runner interface {
	// Able returns an error if no command can run.
	Able() error
	// Layered reports whether golem knows what a command has written before it is
	// applied.
	Layered() bool
	// Run runs a command. If layered is true, the command must write nothing directly.
	Run(ctx context.Context, files *sandbox.Sandbox, c jail.Command, layered bool) (changes.Result, error)
}

// A Program is what a tool runs, and what it may see.
type Program struct {
	Command  jail.Command // without input
	Folder   string       // a directory of the worker that it sees, with all below; "" for none
	ReadOnly bool
	Network  bool
	Timeout  time.Duration // 0 means the limit of the configuration
}

// Runs returns the target of the run effect of a tool.
func Runs(name string) string { return "custom " + name }

// New returns a tool that runs a program. Without a runner it can be listed but not
// called. An error is about the schema.
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
					Hint: "the tool works on this directory, and nothing in it may be read without approval"}
			}
			effects = append(effects, shown...)
		}
		layered := r != nil && r.Layered()
		run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			c := p.Command
			c.Input, c.Time = append(args, '\n'), p.Timeout
			if p.Folder != "" {
				c.Dir = startDir(files, p.Folder, effects)
			}
			result, err := r.Run(ctx, files, c, layered)
			if err != nil {
				return tool.Result{}, err
			}
			return newResult(about.Name, files, args, effects, result)
		}
		prepare := func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
			return tool.NewPreparation(run), r.Able()
		}
		plan := tool.NewChangePlan(prepare, effects...)
		plan.Deferred, plan.AlwaysAsk = layered, !layered
		return plan, nil
	})
}

// NewHook returns the tool that runs a hook: a program that reads a call as JSON from stdin. If
// it ends with exit code 0, its output is a note. Otherwise the tool fails, and its output
// says why. It changes nothing.
func NewHook(about tool.Tool, p Program, r Runner) (tool.Tool, error) {
	about.Mode, about.Verbs, about.Program, about.Private = policy.LLM, []policy.Verb{policy.Run}, Runs(about.Name), []string{"args", "result"}
	return tool.Dynamic(about, []byte(`{"type": "object", "additionalProperties": true}`), func(_ context.Context, names tool.Names, args json.RawMessage) (tool.Plan, error) {
		effects := []policy.Effect{{Verb: policy.Run, Target: about.Program}}
		seen := []policy.Effect{}
		if p.Folder == "" {
			effects = append(effects, names.ConnectEffects(p.Network)...)
		} else {
			effects = append(effects, names.CommandEffectsIn(p.Folder, true, p.Network)...)
		}
		for _, e := range effects {
			if e.Verb == policy.Read {
				seen = append(seen, e)
			}
		}
		plan := tool.NewReadPlan(func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			if err := r.Able(); err != nil {
				return tool.Result{}, err
			}
			c := p.Command
			c.Input, c.Time = append(args, '\n'), p.Timeout
			if len(seen) > 0 {
				c.Dir = startDir(files, p.Folder, effects)
			}
			ran, err := r.Run(ctx, files, c, r.Layered())
			if err == nil && ran.Changed != nil {
				err = ran.Changed.Discard()
			}
			if err != nil {
				return tool.Result{}, err
			}
			return hookResult(about.Name, ran), nil
		}, effects...)
		plan.Visible = seen
		return plan, nil
	})
}

// hookResult returns what a hook has said, and whether it refuses.
func hookResult(name string, ran changes.Result) tool.Result {
	text, _ := ran.Stdout.Text()
	r := tool.Result{Text: text, Record: describeEnd(ran.Result) + " (" + ran.Level.String() + ")"}
	if ran.Code == 0 && !ran.Late && !ran.Stopped {
		return r
	}
	if r.Text = strings.TrimSpace(text + "\n" + last(ran.Stderr)); ran.Late || ran.Stopped {
		r.Text = ""
	}
	r.Err = &sandbox.Error{Op: name, Code: code(ran.Result), Hint: describeEnd(ran.Result)}
	return r
}

// startDir returns the directory in which a program starts: the declared one or, if that
// is not readable, the first visible one in it.
func startDir(files *sandbox.Sandbox, folder string, effects []policy.Effect) string {
	if !files.CanRead(folder) {
		for _, e := range effects {
			if e.Verb == policy.Read {
				return jail.Inside(files, e.Target)
			}
		}
	}
	return jail.Inside(files, folder)
}

// suggestPath returns the path inside the jail of a file that an argument names as other
// tools do. It says nothing about files that the program does not see.
func suggestPath(files *sandbox.Sandbox, args json.RawMessage, effects []policy.Effect) string {
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

// newResult returns the result of a run.
func newResult(name string, files *sandbox.Sandbox, args json.RawMessage, effects []policy.Effect, ran changes.Result) (tool.Result, error) {
	text, hidden := ran.Stdout.Text()
	r := tool.Result{Text: text, Record: describeEnd(ran.Result) + " (" + ran.Level.String() + ")"}
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
	hint := describeEnd(ran.Result)
	switch {
	case ran.Changed != nil:
		hint += "; none of its changes were applied"
	case len(files.WritableRoots()) > 0:
		hint += "; its changes until then stay"
	}
	if len(ran.Refused.Hosts) > 0 {
		hint += "; it " + ran.Refused.String() + ", which it may not reach"
		if !slices.ContainsFunc(effects, func(e policy.Effect) bool { return e.Verb == policy.Connect }) {
			hint += ": network: true in its definition gives it the hosts of its worker"
		} else {
			r.Settings = ran.Settings()
		}
	} else {
		r.Settings = ran.Settings()
	}
	if said := last(ran.Stderr); said != "" {
		hint += "; it said: " + said
		if strings.Contains(said, "Read-only file system") || strings.Contains(said, "EROFS") {
			hint += "; " + writeAdvice(files, effects)
		}
	}
	if ran.Level == jail.Namespaces {
		hint += suggestPath(files, args, effects)
	}
	r.Err = &sandbox.Error{Op: name, Code: code(ran.Result), Hint: hint}
	return r, nil
}

// writeAdvice says where a program may write, after it tried to elsewhere.
func writeAdvice(files *sandbox.Sandbox, effects []policy.Effect) string {
	var places []string
	for _, e := range effects {
		if e.Verb == policy.Write {
			places = append(places, sandbox.Shown(jail.Inside(files, e.Target)))
		}
	}
	if len(places) == 0 {
		return "it may write only in /tmp: files: {restrict: DIR, readonly: false} in its definition lets it write to a directory of its worker"
	}
	return "it may write only in " + strings.Join(places, ", ") + " and /tmp"
}

// describeEnd says how the program ended.
func describeEnd(ran jail.Result) string {
	how := fmt.Sprintf("exit %d", ran.Code)
	switch {
	case ran.Late:
		how = fmt.Sprintf("it timed out after %.1f s; golem ended it and all its processes", ran.Took.Seconds())
		if ran.Took >= ran.Limits.Time {
			how += "; the limit is " + ran.Describe(jail.TimeLimit)
		}
	case ran.Stopped:
		how = "it was stopped"
	case ran.Signal != "":
		how = "ended by " + ran.Signal
	}
	for _, l := range ran.Hit {
		if l != jail.TimeLimit {
			how += "; it reached its limit of " + string(l) + ", " + ran.Describe(l)
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

// maxSaid is the most bytes of stderr that an error repeats.
const maxSaid = 2000

// last returns the end of what a program has written to stderr.
func last(o jail.Output) string {
	text, _ := o.Text()
	text = strings.TrimSpace(text)
	if len(text) > maxSaid {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxSaid:], "")
	}
	return text
}
