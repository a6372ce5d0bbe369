package shell

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/command"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/transaction"
	"github.com/golem-forge/golem/sandbox"
)

// A Runner runs commands in the jail. They see what the sandbox shows.
type Runner interface {
	// Able returns an error where no command can be run: nobody is asked for
	// what cannot be.
	Able() error
	// Layered reports whether what commands write is known before it lands.
	Layered() bool
	// Run runs a command; one that must be layered writes nothing directly.
	Run(ctx context.Context, files *sandbox.Sandbox, c jail.Command, layered bool) (transaction.Result, error)
}

type args struct {
	Command string  `json:"command" jsonschema:"a command line of bash; use relative paths"`
	Cwd     string  `json:"cwd,omitempty" jsonschema:"virtual path of the folder to begin in, otherwise where the last command ended"`
	Timeout float64 `json:"timeout,omitempty" jsonschema:"seconds after which it is ended; never more than the limit" minimum:"0"`
}

// A Set is what the tools are made of. The zero Set can only be looked at.
type Set struct {
	Runner   Runner
	Rules    policy.Shell
	Place    *Place    // where commands continue; nil where each is the first
	Services *Services // nil for none
}

// Tools returns the tools.
func (s Set) Tools() []tool.Tool {
	judged := command.NewRules(s.Rules)
	about := tool.Tool{Name: "shell", Toolset: "shell", Mode: policy.Both, Verbs: []policy.Verb{policy.Run},
		Description: "Run a command line in a sandbox. Use relative paths: the first command starts at the top of the tree, if there is one, " +
			"each later one where the last one ended, with the variables that it exported. " +
			"There is no stdin and no terminal. Processes that it leaves running are ended. The answer has the exit code."}
	shell := tool.New(about, func(_ context.Context, names tool.Names, a args) (tool.Plan, error) {
		return s.running(names, judged, a)
	})
	return append([]tool.Tool{shell}, s.serviceTools(judged)...)
}

// running plans to run a command.
func (s Set) running(names tool.Names, judged command.Rules, a args) (tool.Plan, error) {
	if err := check("shell", a.Command); err != nil {
		return tool.Plan{}, err
	}
	if a.Timeout > (time.Hour * 24 * 365).Seconds() {
		return tool.Plan{}, invalid("shell", "timeout: more than a year")
	}
	said, why, err := judge(judged, a.Command)
	if err != nil {
		return tool.Plan{}, err
	}
	effects := names.CommandEffects()
	from, err := begin(names, effects, a.Cwd, s.Place)
	if err != nil {
		return tool.Plan{}, err
	}
	layered := s.Runner != nil && s.Runner.Layered()
	run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		c := jail.Telling(a.Command)
		if a.Timeout > 0 { // zero is the limit's own
			c.Time = max(time.Duration(a.Timeout*float64(time.Second)), time.Millisecond)
		}
		if err := from.enter(files, &c); err != nil {
			return tool.Result{}, err
		}
		result, err := s.Runner.Run(ctx, files, c, layered)
		if err != nil {
			return tool.Result{}, err
		}
		told := view{files, effects, result, from, s.Place}.result()
		told.Notes = append(told.Notes, s.Services.news()...)
		if result.Stopped {
			hint := "what it had written by then is written"
			switch {
			case layered && kept(files):
				hint = "what it had changed by then is kept in the session, and nothing else was applied"
			case layered:
				hint = "none of its changes were applied"
			}
			told.Err = &sandbox.Error{Op: "shell", Code: "stopped", Hint: "the command was ended with all that it had started; " + hint}
		}
		return told, nil
	}
	prepare := func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
		return tool.NewPreparation(run), s.Runner.Able()
	}
	plan := tool.NewChangePlan(prepare, append([]policy.Effect{{Verb: policy.Run, Target: a.Command}}, effects...)...)
	// What is written directly cannot be taken back, and is not known before.
	plan.Deferred, plan.AlwaysAsk, plan.Rules, plan.Why = layered, !layered, said, why
	if a.Cwd == "" && from.dir != from.top {
		a.Cwd = from.dir // who is asked knows where it is
		plan.Args = a
	}
	return plan, nil
}

// kept reports whether something may be written that a session keeps: commands work on
// its layer as if it were the directory, so that what they change there is there at once.
func kept(files *sandbox.Sandbox) bool {
	return slices.ContainsFunc(files.Anchors(), func(name string) bool {
		m, shown := files.MountOf(name)
		return shown && m.Access >= sandbox.ReadWrite && m.Backend != nil && m.Backend.Traits().Through != ""
	})
}

// maxCommand is the longest command line; the kernel takes little more.
const maxCommand = 100_000

// check refuses what cannot be a command line.
func check(op, line string) error {
	switch {
	case strings.TrimSpace(line) == "":
		return invalid(op, "command: it is empty")
	case strings.ContainsRune(line, 0):
		return invalid(op, "command: it holds a NUL character")
	case len(line) > maxCommand:
		return invalid(op, "command: "+strconv.Itoa(len(line))+" bytes; "+strconv.Itoa(maxCommand)+" are the most: write a script, and run that")
	}
	return nil
}

func invalid(op, hint string) error {
	return &sandbox.Error{Op: op, Code: "invalid_args", Hint: hint}
}

// listed names the targets of a verb, each as it is called, "" for none.
func listed(effects []policy.Effect, verb policy.Verb, called func(name string) string) string {
	var names []string
	for _, e := range effects {
		if e.Verb == verb {
			names = append(names, sandbox.Shown(called(e.Target)))
		}
	}
	return strings.Join(names, ", ")
}
