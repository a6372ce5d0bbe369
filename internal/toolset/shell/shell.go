package shell

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/command"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
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
	Run(ctx context.Context, files *sandbox.Sandbox, c jail.Command, layered bool) (jail.Result, error)
}

type args struct {
	Command string  `json:"command" jsonschema:"a command line of bash; use relative paths"`
	Cwd     string  `json:"cwd,omitempty" jsonschema:"virtual path of the folder to begin in"`
	Timeout float64 `json:"timeout,omitempty" jsonschema:"seconds after which it is ended; never more than the limit" minimum:"0"`
}

// Tools returns the shell tool. Without a runner it can only be looked at.
func Tools(r Runner, rules policy.Shell) []tool.Tool {
	judged := command.NewRules(rules)
	about := tool.Tool{Name: "shell", Toolset: "shell", Mode: policy.Both, Verbs: []policy.Verb{policy.Run},
		Description: "Run a command line in a sandbox. Use relative paths: the folder it begins in is the tree's top, where there is one. " +
			"There is no input and no terminal; what it leaves running is ended. Its exit code is in the answer."}
	return []tool.Tool{tool.New(about, func(_ context.Context, names tool.Names, a args) (tool.Plan, error) {
		if err := check(a); err != nil {
			return tool.Plan{}, err
		}
		said, why, err := judge(judged, a.Command)
		if err != nil {
			return tool.Plan{}, err
		}
		effects := names.Commands()
		dir, err := folder(names, effects, a.Cwd)
		if err != nil {
			return tool.Plan{}, err
		}
		layered := r != nil && r.Layered()
		run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			c := jail.Shell(a.Command)
			if a.Timeout > 0 { // zero is the limit's own
				c.Time = max(time.Duration(a.Timeout*float64(time.Second)), time.Millisecond)
			}
			if dir != "" {
				if info, err := files.Stat(dir); err != nil {
					return tool.Result{}, err
				} else if !info.IsDir() {
					return tool.Result{}, &sandbox.Error{Op: "run", Path: dir, Code: sandbox.ErrNotDir, Hint: "a command begins in a folder"}
				}
				c.Dir = jail.Inside(files, dir)
			}
			result, err := r.Run(ctx, files, c, layered)
			if err != nil {
				return tool.Result{}, err
			}
			told := view{files, effects, result}.result()
			if result.Stopped {
				hint := "what it had written by then is written"
				if layered {
					hint = "nothing that it had changed has landed"
				}
				told.Err = &sandbox.Error{Op: "shell", Code: "stopped", Hint: "the command was ended with all that it had started; " + hint}
			}
			return told, nil
		}
		prepare := func(context.Context, *sandbox.Sandbox) (tool.Prepared, error) { return tool.Ready(run), r.Able() }
		plan := tool.Changing(prepare, append([]policy.Effect{{Verb: policy.Run, Target: a.Command}}, effects...)...)
		// What is written directly cannot be taken back, and is not known before.
		plan.Later, plan.Asks, plan.Rules, plan.Why = layered, !layered, said, why
		return plan, nil
	})}
}

// maxCommand is the longest command line; the kernel takes little more.
const maxCommand = 100_000

// check refuses what cannot be a command.
func check(a args) error {
	wrong := ""
	switch {
	case strings.TrimSpace(a.Command) == "":
		wrong = "command: it is empty"
	case strings.ContainsRune(a.Command, 0):
		wrong = "command: it holds a NUL character"
	case len(a.Command) > maxCommand:
		wrong = "command: " + strconv.Itoa(len(a.Command)) + " bytes; " + strconv.Itoa(maxCommand) + " are the most: write a script, and run that"
	case a.Timeout > (time.Hour * 24 * 365).Seconds():
		wrong = "timeout: more than a year"
	default:
		return nil
	}
	return &sandbox.Error{Op: "shell", Code: "invalid_args", Hint: wrong}
}

// folder returns where a command begins: the folder that was asked for, or the
// top of the tree, else the first that may be written, else the first. It is ""
// where a command sees no folder at all.
func folder(names tool.Names, effects []policy.Effect, asked string) (string, error) {
	if asked != "" {
		at, err := names.Locate("run", asked, sandbox.ReadOnly, false)
		if err == nil && !names.Shows(at) {
			same := func(name string) string { return name }
			err = &sandbox.Error{Op: "run", Path: at, Code: sandbox.ErrNotFound,
				Hint: "commands see what may be read without a question: " + listed(effects, policy.Read, same)}
		}
		return at, err
	}
	first := ""
	for _, verb := range []policy.Verb{policy.Write, policy.Read} {
		for _, e := range effects {
			switch {
			case e.Verb == policy.Read && e.Target == "/":
				return "/", nil
			case e.Verb == verb && first == "":
				first = e.Target
			}
		}
	}
	return first, nil
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
