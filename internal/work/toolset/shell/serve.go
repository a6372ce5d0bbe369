package shell

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/decide/command"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

type startArgs struct {
	Command string `json:"command" jsonschema:"a command line of bash"`
	Cwd     string `json:"cwd,omitempty" jsonschema:"virtual path of the directory to start in; default: where the last command ended"`
	Name    string `json:"name,omitempty" jsonschema:"name of the service; default: the first word of the command"`
}

type nameArgs struct {
	Name string `json:"name" jsonschema:"name of the service"`
}

type outputArgs struct {
	Name   string `json:"name" jsonschema:"name of the service"`
	Offset int64  `json:"offset,omitempty" jsonschema:"byte offset to read from, as the last result reported; a negative one counts from the end" default:"-8000"`
}

type noArgs struct{}

// Served is the state of a service, for programs.
type Served struct {
	Name     string  `json:"name"`
	Command  string  `json:"command"`
	Cwd      string  `json:"cwd"`
	Running  bool    `json:"running"`
	How      string  `json:"how"`
	ExitCode int     `json:"exitCode"` // once it has ended
	Seconds  float64 `json:"seconds"`
	Bytes    int64   `json:"bytes"` // printed so far

	Output string `json:"output,omitempty"`
	Offset int64  `json:"offset,omitempty"` // the offset of the output
	Next   int64  `json:"next,omitempty"`   // the offset where it continues
}

// The number of bytes of output that one call returns.
const (
	maxPiece  = 32_000
	lastPiece = 2_000
)

// serviceTools returns the tools for services.
func (s Set) serviceTools(rules command.Rules) []tool.Tool {
	about := func(name, description string, verbs ...policy.Verb) tool.Tool {
		return tool.Tool{Name: name, Toolset: "shell", Mode: policy.Both, RulesOf: "shell", Verbs: verbs, Description: description}
	}
	reads := func(run func() (tool.Result, error)) (tool.Plan, error) {
		return tool.NewReadPlan(func(context.Context, *sandbox.Sandbox) (tool.Result, error) { return run() }), nil
	}
	return []tool.Tool{
		tool.New(about("service_start", "Start a command that keeps running, such as a dev server. Commands reach it on localhost. "+
			"It ends with the session. It cannot change directories whose changes are applied after each command.", policy.Run),
			func(_ context.Context, names tool.Names, a startArgs) (tool.Plan, error) {
				return s.planStart(names, rules, a)
			}),
		tool.New(about("service_list", "List the services with their states."), func(context.Context, tool.Names, noArgs) (tool.Plan, error) {
			return reads(func() (tool.Result, error) { return s.Services.listAll() })
		}),
		tool.New(about("service_output", "Read the output of a service: the end of it, or from an offset on."), func(_ context.Context, _ tool.Names, a outputArgs) (tool.Plan, error) {
			return reads(func() (tool.Result, error) { return s.Services.output(a) })
		}),
		tool.New(about("service_stop", "End a service."), func(_ context.Context, _ tool.Names, a nameArgs) (tool.Plan, error) {
			return reads(func() (tool.Result, error) { return s.Services.stopNamed(a.Name) })
		}),
	}
}

// planStart plans to start a service. The rules judge it like the same command line of
// the shell tool.
func (s Set) planStart(names tool.Names, rules command.Rules, a startArgs) (tool.Plan, error) {
	if err := s.Services.checkAvailable("service_start"); err != nil {
		return tool.Plan{}, err
	}
	if err := check("service_start", a.Command); err != nil {
		return tool.Plan{}, err
	}
	if wrong := nameWrong(a.Name); wrong != "" && a.Name != "" {
		return tool.Plan{}, invalid("service_start", wrong)
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
	is := service{name: a.Name, command: a.Command}
	run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		c := jail.Shell(a.Command)
		if err := from.enter(files, &c); err != nil {
			return tool.Result{}, err
		}
		is.dir = from.dir
		v, err := s.Services.start(is, files, c, s.Runner.Layered())
		if err != nil {
			return tool.Result{}, err
		}
		wait := time.NewTimer(s.Services.early)
		defer wait.Stop()
		select {
		case <-v.Done():
		case <-wait.C:
		case <-ctx.Done():
		}
		r := s.Services.report(v, v.Output(0, lastPiece))
		r.Notes = append(noteReadOnly(files, effects), r.Notes...)
		return r, nil
	}
	prepare := func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
		if err := s.Services.checkStart(is); err != nil {
			return tool.Preparation{}, err
		}
		return tool.NewPreparation(run), s.Runner.Able()
	}
	plan := tool.NewChangePlan(prepare, append([]policy.Effect{{Verb: policy.Run, Target: a.Command}}, effects...)...)
	// It can write only what a session keeps, so there is nothing to decide later.
	plan.Deferred, plan.Rules, plan.Why = true, matched, why
	plan.Words = func() (string, []string) { return from.dir, command.Words(a.Command) }
	if a.Cwd == "" && from.dir != from.top {
		a.Cwd = from.dir
		plan.Args = a
	}
	return plan, nil
}

// noteReadOnly lists the directories that commands may change and services may not.
func noteReadOnly(files *sandbox.Sandbox, effects []policy.Effect) []string {
	var names []string
	for _, e := range effects {
		m, _ := files.MountOf(e.Target)
		if e.Verb == policy.Write && (m.Backend == nil || m.Backend.Traits().Through == "") {
			names = append(names, sandbox.Shown(e.Target))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{"read-only for services: " + strings.Join(names, ", ")}
}

// state returns the state of a service.
func (s *Services) state(v *service) Served {
	now := s.now()
	d := Served{Name: v.name, Command: v.command, Cwd: v.dir, Running: !v.hasEnded(), How: v.describe(now), Seconds: now.Sub(v.begun).Seconds(), Bytes: v.Output(0, 0).Total}
	if !d.Running {
		r, _ := v.Result()
		d.ExitCode, d.Seconds = r.Code, r.Took.Seconds()
	}
	return d
}

// listAll returns the states of all services.
func (s *Services) listAll() (tool.Result, error) {
	if err := s.checkAvailable("service_list"); err != nil {
		return tool.Result{}, err
	}
	var lines []string
	list := []Served{}
	for _, v := range s.all() {
		d := s.state(v)
		s.markReported(v)
		list = append(list, d)
		lines = append(lines, fmt.Sprintf("%s: %s, %d bytes printed; %s", d.Name, d.How, d.Bytes, sandbox.Shown(d.Command)))
	}
	if len(lines) == 0 {
		lines = []string{"there are no services"}
	}
	return tool.Result{Text: strings.Join(lines, "\n"), Data: list}, nil
}

// output returns a part of the output of a service.
func (s *Services) output(a outputArgs) (tool.Result, error) {
	if err := s.checkAvailable("service_output"); err != nil {
		return tool.Result{}, err
	}
	v, err := s.find("service_output", a.Name)
	if err != nil {
		return tool.Result{}, err
	}
	return s.report(v, v.Output(a.Offset, maxPiece)), nil
}

// stopNamed stops a service, and returns its state and the end of its output.
func (s *Services) stopNamed(name string) (tool.Result, error) {
	if err := s.checkAvailable("service_stop"); err != nil {
		return tool.Result{}, err
	}
	v, err := s.find("service_stop", name)
	if err != nil {
		return tool.Result{}, err
	}
	s.stop(v)
	return s.report(v, v.Output(-lastPiece, lastPiece)), nil
}

// report returns the state of a service with a part of its output. It cuts the output
// between characters, and replaces invalid UTF-8.
func (s *Services) report(v *service, p jail.Piece) tool.Result {
	d := s.state(v)
	s.markReported(v)
	for i := 0; i < utf8.UTFMax-1 && p.From > 0 && len(p.Text) > 0 && !utf8.RuneStart(p.Text[0]); i++ {
		p.From, p.Text = p.From+1, p.Text[1:]
	}
	for i := 1; i < utf8.UTFMax && i <= len(p.Text); i++ {
		if last := p.Text[len(p.Text)-i:]; utf8.RuneStart(last[0]) && !utf8.FullRune(last) && (d.Running || p.Next() < p.Total) {
			p.Text = slices.Clone(p.Text[:len(p.Text)-i])
			break
		}
	}
	d.Output, d.Offset, d.Next = strings.ToValidUTF8(string(p.Text), "\uFFFD"), p.From, p.Next()
	text := fmt.Sprintf("%s: %s; printed %d bytes", d.Name, d.How, p.Total)
	if len(p.Text) > 0 && (p.From > 0 || p.Next() < p.Total) {
		text += fmt.Sprintf(", here %d to %d", p.From, p.Next())
	}
	if d.Running || p.Next() < p.Total {
		text += fmt.Sprintf("; continue with offset %d", p.Next())
	}
	if d.Output != "" {
		text += "\n" + strings.TrimSuffix(d.Output, "\n")
	}
	return tool.Result{Text: text, Data: d, Notes: s.reportEnded(), Record: d.Name + ": " + d.How}
}
