package foreigntools

import (
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/records/secret"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/toolset/custom"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// Tools are the custom tools and MCP servers of a program.
type Tools struct {
	Workers  []*worker.Worker
	Files    trust.ToolFiles
	State    string   // the program's state directory
	Reserved []string // the names that no foreign tool may have
	Named    []string // the names of golem's tools and toolsets, for hooks
	Now      func() time.Time
}

func (x Tools) isWorker(name string) bool {
	return slices.ContainsFunc(x.Workers, func(w *worker.Worker) bool { return w.Name == name })
}

// Custom returns the custom tools of a worker. Run returns the runner of a tool's
// program; without it the tools can only be listed.
func (x Tools) Custom(step *calltree.Step, run func(worker.Foreign) (custom.Runner, error)) ([]tool.Tool, error) {
	var list []tool.Tool
	if step == nil {
		return nil, nil
	}
	for _, c := range step.Worker.Custom {
		d, err := x.Files.Describe(c)
		if err != nil {
			continue // Load has reported it
		}
		about := tool.Tool{Name: c.Name, Description: d.Text, Mode: d.Mode, Label: d.Label, Category: d.Category}
		d.Approval.Target = custom.Runs(c.Name)
		about.Rules = withNetworkRules(append(rulesOf(step, c.Tool(), d.Approval.Target), d.Approval), c.Foreign)
		program := custom.Program{Command: commandOf(c.Foreign), Network: c.Network != nil, Timeout: c.Timeout}
		if c.Reach != nil {
			program.Folder, program.ReadOnly = c.Reach.Folder, c.Reach.ReadOnly
		}
		var r custom.Runner
		if run != nil {
			var err error
			if r, err = run(c.Foreign); err != nil {
				return nil, err
			}
		}
		t, err := custom.New(about, d.Schema, program, r)
		if err != nil {
			continue
		}
		list = append(list, t)
	}
	return list, nil
}

// rulesOf returns the approval rules for a foreign tool of a worker and of its callers.
// The strictest one applies.
func rulesOf(step *calltree.Step, name, target string) []policy.Rule {
	var rules []policy.Rule
	add := func(own string, f worker.Foreign) {
		if own == name && f.Approval != nil {
			rule := *f.Approval
			rule.Target = target
			rules = append(rules, rule)
		}
	}
	for at := step; at != nil; at = at.Parent {
		for _, c := range at.Worker.Custom {
			add(c.Tool(), c.Foreign)
		}
		for _, s := range at.Worker.Servers {
			add(s.Tool(), s.Foreign)
		}
	}
	return rules
}

// withNetworkRules adds rules about the network for a program that declares it: they are
// the same as those for running it.
func withNetworkRules(rules []policy.Rule, f worker.Foreign) []policy.Rule {
	if f.Network == nil {
		return rules
	}
	for _, r := range slices.Clone(rules) {
		r.Verb, r.Target = policy.Connect, "*"
		rules = append(rules, r)
	}
	return rules
}

// Secrets returns the values of the environment variables that foreign programs get.
func (x Tools) Secrets(environment []string) (values []string) {
	add := func(f worker.Foreign) {
		for _, v := range f.Env {
			if value, ok := project.LookupEnv(environment, v.Text); ok {
				values = append(values, value)
			}
		}
	}
	for _, w := range x.Workers {
		for _, c := range w.Custom {
			add(c.Foreign)
		}
		for _, s := range w.Servers {
			add(s.Foreign)
			if s.Remote == nil {
				continue
			}
			for _, h := range s.Remote.Headers {
				if value, ok := project.LookupEnv(environment, h.Variable); ok {
					values = append(values, value)
				}
			}
		}
		for _, h := range w.Hooks {
			add(h.Foreign)
		}
	}
	return values
}

// Lint returns the problems with foreign tools that show only when all files are known.
func (x Tools) Lint() strictyaml.Problems {
	var problems strictyaml.Problems
	known := map[string]strictyaml.Place{} // by the name of the tool
	same := map[string]string{}
	alike := func(name, is string, at strictyaml.Place) {
		if same[name] != "" && same[name] != is {
			problems.Add(strictyaml.Node{Place: at}, name+" is another program in "+known[name].String(), "one name is one program everywhere; choose another name, or write the same command, with, env, level and schema")
		}
		if same[name] == "" {
			known[name], same[name] = at, is
		}
	}
	for _, w := range x.Workers {
		for _, c := range w.Custom {
			at := strictyaml.Node{Place: c.Place}
			switch {
			case slices.Contains(x.Reserved, c.Name):
				problems.Add(at, "golem has a tool named "+sandbox.Shown(c.Name), "choose another name")
			case x.isWorker(c.Name):
				problems.Add(at, "a worker has the name of the tool "+sandbox.Shown(c.Name), "choose another name: a worker that may be called is a tool itself")
			}
			alike(c.Tool(), Identity(c.Foreign)+"\x01"+c.Schema.Text, c.Place)
			x.lintCustom(c, &problems)
		}
		for _, s := range w.Servers {
			is := Identity(s.Foreign)
			if s.Remote != nil {
				is += "\x01" + s.Remote.Identity()
			}
			alike(s.Tool(), is, s.Place)
		}
		for _, h := range w.Hooks {
			x.lintHook(h, &problems)
		}
	}
	return problems
}

// lintHook reports names of tools that do not exist: the hook would never look at a call.
func (x Tools) lintHook(h worker.Hook, problems *strictyaml.Problems) {
	known := slices.Clone(x.Named)
	var servers []string
	for _, w := range x.Workers {
		known = append(known, w.Name)
		for _, c := range w.Custom {
			known = append(known, c.Name)
		}
		for _, s := range w.Servers {
			servers = append(servers, s.Name+"_") // golem does not know its tools before it runs
		}
	}
	for _, name := range h.Tools {
		if strings.ContainsAny(name, `*?[\`) || slices.Contains(known, name) || slices.ContainsFunc(servers, func(s string) bool { return strings.HasPrefix(name, s) }) {
			continue
		}
		hint := "golem tools lists them"
		if near := sandbox.Nearest(name, known); len(near) > 0 {
			hint = "did you mean " + near[0] + "? " + hint
		}
		problems.Add(strictyaml.Node{Place: h.Place}, "hooks."+sandbox.Shown(h.Name)+".tools: no tool or toolset "+sandbox.Shown(name), hint)
	}
}

// Identity returns a text that is the same for the same foreign program.
func Identity(f worker.Foreign) string {
	var parts []string
	for _, list := range [][]strictyaml.Node{f.Command, f.With, f.Env, f.State} {
		parts = append(parts, strings.Join(worker.Words(list), "\x00"))
	}
	if f.Level > policy.AnyLevel { // a child cannot name its parent's program with a weaker level
		parts = append(parts, f.Level.String())
	}
	return strings.Join(parts, "\x01")
}

// lintCustom compares a custom tool with its schema file.
func (x Tools) lintCustom(c worker.Custom, problems *strictyaml.Problems) {
	file := worker.FileOf(c.Schema.Text)
	if x.Files[file] == nil {
		return // reported already
	}
	d, err := x.Files.Describe(c)
	if wrong, ok := err.(strictyaml.Problems); ok {
		problems.Note(wrong...)
		return
	}
	if err == nil {
		_, err = custom.New(tool.Tool{Name: c.Name}, d.Schema, custom.Program{}, nil)
	}
	if err != nil {
		problems.Add(strictyaml.Node{Place: strictyaml.Place{Source: file, Line: 1, Col: 1}}, err.Error(), "fix the schema")
	}
	if c.Approval != nil && c.Approval.Approval > d.Approval.Approval {
		problems.Add(strictyaml.Node{Place: c.Place}, c.Tool()+": approval "+c.Approval.Approval.String()+", and its schema file says "+d.Approval.Approval.String(),
			`a worker may only be stricter; "x-golem": {"approval": "…"} in `+sandbox.Shown(file)+" is where to say more")
	}
}

// SecretsOf returns the values of the variables of a foreign program that hold secrets, by
// their names.
func SecretsOf(f worker.Foreign, environment []string) (values []string) {
	for _, v := range f.Env {
		if value, ok := project.LookupEnv(environment, v.Text); ok && secret.IsVariable(v.Text) {
			values = append(values, value)
		}
	}
	return values
}

// Environment returns the environment variables that a foreign program gets. missing is an
// error if one of them is not set.
func Environment(f worker.Foreign, environment []string) (env []string, missing error) {
	for _, v := range f.Env {
		if value, ok := project.LookupEnv(environment, v.Text); ok {
			env = append(env, v.Text+"="+value)
		} else if missing == nil {
			missing = &sandbox.Error{Op: f.Name, Code: sandbox.ErrInvalid, Hint: "the environment variable " + v.Text +
				" is not set; set it and start golem again, or remove it from env: in the worker file"}
		}
	}
	return env, missing
}
