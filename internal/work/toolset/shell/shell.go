package shell

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/command"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A Runner runs commands in the jail. They see what the sandbox shows.
type Runner interface {
	// Able returns an error if no command can run. The gate then asks nobody for
	// approval.
	Able() error
	// Layered reports whether golem knows what a command has written before it is
	// applied.
	Layered() bool
	// Run runs a command. If layered is true, the command must write nothing directly.
	Run(ctx context.Context, files *sandbox.Sandbox, c jail.Command, layered bool) (changes.Result, error)
}

type args struct {
	Command string  `json:"command" jsonschema:"a command line of bash; use relative paths"`
	Cwd     string  `json:"cwd,omitempty" jsonschema:"virtual path of the directory to start in; default: where the last command ended"`
	Timeout float64 `json:"timeout,omitempty" jsonschema:"seconds until golem ends the command; at most the limit" minimum:"0"`
}

// A Set has what the tools need to run. The tools of the zero Set can be listed but not
// called.
type Set struct {
	Runner   Runner
	Rules    policy.Shell
	Place    *Place    // where the next command starts; nil if every command starts in the first directory
	Start    string    // the first directory, a canonical name; "" for the top
	Services *Services // nil for none
}

// Tools returns the tools.
func (s Set) Tools() []tool.Tool {
	rules := command.NewRules(s.Rules)
	about := tool.Tool{Name: "shell", Toolset: "shell", Mode: policy.Both, Verbs: []policy.Verb{policy.Run},
		Description: "Run a command line in a sandbox. Use relative paths: the first command starts at the top of the tree, if there is one, " +
			"each later one where the last one ended, with the variables that it exported. " +
			"There is no stdin and no terminal. Processes that it leaves running are ended. The answer has the exit code."}
	shell := tool.New(about, func(_ context.Context, names tool.Names, a args) (tool.Plan, error) {
		return s.planRun(names, rules, a)
	})
	return append([]tool.Tool{shell}, s.serviceTools(rules)...)
}

// planRun plans to run a command.
func (s Set) planRun(names tool.Names, rules command.Rules, a args) (tool.Plan, error) {
	if err := check("shell", a.Command); err != nil {
		return tool.Plan{}, err
	}
	if a.Timeout > (time.Hour * 24 * 365).Seconds() {
		return tool.Plan{}, invalid("shell", "timeout: more than a year")
	}
	matched, why, err := judge(rules, a.Command)
	if err != nil {
		return tool.Plan{}, err
	}
	effects := names.CommandEffects()
	from, err := s.findStart(names, effects, a.Cwd)
	if err != nil {
		return tool.Plan{}, err
	}
	layered := s.Runner != nil && s.Runner.Layered()
	run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		c := jail.Telling(a.Command)
		if a.Timeout > 0 { // zero means the limit of the configuration
			c.Time = max(time.Duration(a.Timeout*float64(time.Second)), time.Millisecond)
		}
		if err := from.enter(files, &c); err != nil {
			return tool.Result{}, err
		}
		result, err := s.Runner.Run(ctx, files, c, layered)
		if err != nil {
			return tool.Result{}, err
		}
		r := view{files, effects, result, from, s.Place}.result()
		r.Notes = append(r.Notes, s.Services.reportEnded()...)
		if result.Stopped {
			hint := "its changes until then stay"
			switch {
			case layered && hasSessionMount(files):
				hint = "its changes until then are kept in the session, and nothing else was applied"
			case layered:
				hint = "none of its changes were applied"
			}
			r.Err = &sandbox.Error{Op: "shell", Code: "stopped", Hint: "golem ended the command and all its processes; " + hint}
		}
		return r, nil
	}
	prepare := func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
		return tool.NewPreparation(run), s.Runner.Able()
	}
	plan := tool.NewChangePlan(prepare, append([]policy.Effect{{Verb: policy.Run, Target: a.Command}}, effects...)...)
	// Direct writes are not known before, and cannot be undone.
	plan.Deferred, plan.AlwaysAsk, plan.Rules, plan.Why = layered, !layered, matched, why
	plan.Words = func() (string, []string) { return from.dir, command.Words(a.Command) }
	if layered && command.OnlyReads(a.Command) {
		plan.Reach = func() (r tool.Reach, ok bool) {
			for _, e := range effects {
				if e.Verb == policy.Read {
					r.Reads = append(r.Reads, e.Target)
				}
			}
			return r, true
		}
	}
	if a.Cwd == "" && from.dir != from.top {
		a.Cwd = from.dir // the prompt shows where the command starts
		plan.Args = a
	}
	return plan, nil
}

// hasSessionMount reports whether commands may write to a mount whose changes a session
// keeps. Changes there are in the session at once, before the command ends.
func hasSessionMount(files *sandbox.Sandbox) bool {
	return slices.ContainsFunc(files.Anchors(), func(name string) bool {
		m, shown := files.MountOf(name)
		return shown && m.Access >= sandbox.ReadWrite && m.Backend != nil && m.Backend.Traits().Through != ""
	})
}

// maxCommand is the longest command line in bytes. The kernel accepts little more.
const maxCommand = 100_000

// check returns an error if a command line is empty, too long or contains NUL.
func check(op, line string) error {
	switch {
	case strings.TrimSpace(line) == "":
		return invalid(op, "command: it is empty")
	case strings.ContainsRune(line, 0):
		return invalid(op, "command: it contains a NUL character")
	case len(line) > maxCommand:
		return invalid(op, "command: "+strconv.Itoa(len(line))+" bytes; at most "+strconv.Itoa(maxCommand)+" are allowed; write a script and run that")
	}
	return nil
}

func invalid(op, hint string) error {
	return &sandbox.Error{Op: op, Code: "invalid_args", Hint: hint}
}

// listTargets lists the targets of a verb, each under the name that called returns.
func listTargets(effects []policy.Effect, verb policy.Verb, called func(name string) string) string {
	var names []string
	for _, e := range effects {
		if e.Verb == verb {
			names = append(names, sandbox.Shown(called(e.Target)))
		}
	}
	return strings.Join(names, ", ")
}
