package forge

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/conf"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// A Widening is one line of a program's files that gives more than the default
// policy, which is to read the program's folder.
type Widening struct {
	What string `json:"what"`
	From string `json:"from"`
}

// Widenings returns all that trusting the program grants, each with the line
// that says so: files outside it or to be written, the network, approvals given
// beforehand, programs that would run.
func (p *Program) Widenings() []Widening {
	var list []Widening
	add := func(from, what string) { list = append(list, Widening{what, from}) }
	for _, m := range p.Project.Mounts {
		p.widenMount(add, m.Target, m.Mode, string(m.Source), string(m.Base), m.From)
	}
	if p.Project.Network.IsAll() {
		add(p.placeOf("sandbox.network"), "the whole network")
	}
	for _, host := range p.Project.Network.Patterns() {
		add(p.placeOf("sandbox.network"), "the host "+sandbox.Shown(host))
	}
	if p.Project.Approval == "approve_all" {
		add(p.placeOf("approval.mode"), "everything approved beforehand, but what is blocked")
	}
	if p.Project.Model != "" {
		add(p.placeOf("model"), "the model "+sandbox.Shown(p.Project.Model)+", which is sent what workers read")
	}
	for _, t := range p.Project.Targets {
		where := string(t.Path) + t.URL + t.Repo
		add(t.From.String(), "clearing into "+sandbox.Shown(t.Name)+": "+sandbox.Shown(where)+", by your own hand only")
	}
	widenRules(add, "", p.Project.Rules)
	for _, w := range p.Workers {
		widenWorker(add, w)
	}
	return list
}

// widenMount adds a mount that can be written, or that shows more than the
// program.
func (p *Program) widenMount(add func(from, what string), target, mode, source, base string, from conf.Place) {
	if base != "" {
		source = filepath.Join(base, source)
	}
	rel, err := filepath.Rel(p.root, source)
	outside := err != nil || !filepath.IsLocal(rel)
	what := "reading "
	if mode != "ro" {
		what = "writing "
	}
	switch {
	case outside:
		add(from.String(), what+sandbox.Shown(source)+", outside the program, as "+target)
	case mode != "ro":
		add(from.String(), what+sandbox.Shown(filepath.ToSlash(rel))+" as "+target)
	}
}

func widenRules(add func(from, what string), who string, rules []policy.Rule) {
	for _, r := range rules {
		if r.Consent == policy.PreApproved && r.Verb != policy.Read {
			add(r.From, who+"may "+r.Verb.String()+" "+sandbox.Shown(r.Target)+" without being asked about")
		}
	}
}

func widenWorker(add func(from, what string), w *worker.Worker) {
	who := sandbox.Shown(w.Name) + " "
	widenRules(add, who, w.Rules)
	for _, t := range w.Toolsets {
		switch t.Name {
		case "shell":
			add(t.Place.String(), who+"runs commands")
		case "mcp", "custom":
			programs := programsIn(t.Config)
			if len(programs) == 0 {
				programs = []string{"whatever is found under " + t.Name}
			}
			add(t.Place.String(), who+"runs programs: "+strings.Join(programs, ", "))
		}
	}
	if w.Shell != nil {
		for _, r := range w.Shell.Rules {
			if r.Consent == policy.PreApproved {
				add(r.From, who+"runs "+sandbox.Shown(r.Pattern)+" without being asked about")
			}
		}
		if w.Shell.Default == policy.PreApproved {
			add(w.Shell.From, who+"runs any command without being asked about")
		}
	}
	for _, v := range w.Git.Credentials.Env {
		if v.Pass {
			add(v.Place.String(), who+"hands git your "+sandbox.Shown(v.Name))
		}
	}
}

// programsIn returns the commands that a tool's configuration names.
func programsIn(n conf.Node) []string {
	var list []string
	for _, f := range n.Fields {
		if f.Key.Text == "command" && f.Value.Kind == conf.Scalar {
			list = append(list, sandbox.Shown(f.Value.Text))
		} else if f.Key.Text == "command" {
			list = append(list, sandbox.Shown(strings.Join(f.Value.Texts(), " ")))
		}
		list = append(list, programsIn(f.Value)...)
	}
	for _, item := range n.Items {
		list = append(list, programsIn(item)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// placeOf returns where a key of the project file is written.
func (p *Program) placeOf(key string) string {
	for _, v := range p.Project.Values() {
		if v.Key == key {
			return v.From.String()
		}
	}
	return conf.Default.String()
}
