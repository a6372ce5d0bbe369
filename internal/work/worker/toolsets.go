package worker

import (
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// A Toolset is a set of tools with its name and its settings.
type Toolset struct {
	Name   string
	Config strictyaml.Node // Null if there are none
	Place  strictyaml.Place
	// Implied is true for the toolset filesystem of a worker that has files and no key
	// toolsets.
	Implied bool
}

// usesFiles reports whether the tools need files.
func (t Toolset) usesFiles() bool {
	return t.Name == "filesystem" || t.Name == "shell" || t.Name == "git" || t.Name == "clearance"
}

// Toolset returns the worker's toolset with a name, and whether it has one.
func (w *Worker) Toolset(name string) (Toolset, bool) {
	i := slices.IndexFunc(w.Toolsets, func(t Toolset) bool { return t.Name == name })
	if i < 0 {
		return Toolset{}, false
	}
	return w.Toolsets[i], true
}

// readToolsets reads the sets of tools, and llm-do's keys for them.
func (r *reader) readToolsets(top strictyaml.Node) {
	sets, written := top.At("toolsets")
	known := toolsetsKey().Keys
	for _, f := range sets.Fields {
		if slices.ContainsFunc(known, func(k strictyaml.Key) bool { return k.Name == f.Key.Text }) {
			r.w.Toolsets = append(r.w.Toolsets, Toolset{Name: f.Key.Text, Config: f.Value, Place: f.Key.Place})
		}
	}
	if files, ok := sets.At("filesystem"); ok {
		r.w.Rules = append(r.w.Rules, readApproval(files, "/")...)
	}
	r.readShell(top)
	if git, ok := sets.At("git"); ok {
		settings := gitReader{problems: &r.problems}
		settings.read(git)
		r.w.Git = settings.git
	}
	foreign := foreignReader{problems: &r.problems}
	foreign.read(top)
	r.w.Custom, r.w.Servers, r.w.Hooks = foreign.custom, foreign.servers, foreign.hooks
	r.readWorkers(top)
	if !written && r.hasFiles() {
		r.imply("filesystem", r.w.Sandbox.Place, true)
	}
}

// imply adds a toolset that another key implies.
func (r *reader) imply(name string, at strictyaml.Place, silently bool) {
	if _, ok := r.w.Toolset(name); !ok {
		r.w.Toolsets = append(r.w.Toolsets, Toolset{Name: name, Place: at, Implied: silently})
	}
}

// hasFiles reports whether the declared sandbox can show files.
func (r *reader) hasFiles() bool {
	s := r.w.Sandbox
	return s.Kind != NoSandbox && (s.Kind != Zones || len(s.Zones) > 0)
}

// checkToolsets reports tools that need files if the sandbox has none. Without any
// sandbox it depends on the caller: see Grant.
func (r *reader) checkToolsets(top strictyaml.Node) {
	zones, ok := top.At("sandbox", "zones")
	if !ok || zones.Kind != strictyaml.List || len(zones.Items) > 0 || r.w.Sandbox.Kind != Zones {
		return
	}
	for _, t := range r.w.Toolsets {
		if t.usesFiles() {
			r.problems.Add(strictyaml.Node{Place: t.Place}, t.Name+" beside zones: []",
				"without files it could do nothing; name a zone, or leave the toolset out")
		}
	}
}

// readWorkers reads the workers that this one may call.
func (r *reader) readWorkers(top strictyaml.Node) {
	modern, isModern := top.At("toolsets", "workers", "allowed_workers")
	old, isOld := top.At("allow_workers")
	list := modern
	switch {
	case isModern && isOld:
		r.reportDuplicate(old, "allow_workers", "toolsets.workers.allowed_workers")
	case isOld:
		list = old
		if len(old.Items) > 0 {
			r.imply("workers", old.Place, false)
		}
	case !isModern:
		if t, ok := r.w.Toolset("workers"); ok && t.Config.Kind != strictyaml.Scalar && t.Config.Kind != strictyaml.List {
			r.problems.Add(strictyaml.Node{Place: t.Place}, "toolsets.workers: nobody to call",
				`write allowed_workers: and their names, "*" for all, or [] for none`)
		}
	}
	var names []string
	for _, item := range list.Items {
		if item.Kind != strictyaml.Scalar {
			continue
		}
		if item.Text != "*" && !isWorkerName(item.Text) {
			r.problems.Add(item, "allowed_workers: "+shown(item.Text), `it is a worker's name, or "*" for all`)
			continue
		}
		names = append(names, item.Text)
		r.w.calls = append(r.w.calls, item)
	}
	r.w.Workers = policy.SetOf(names...)
}

// reportDuplicate reports an old key next to the current key with the same meaning.
func (r *reader) reportDuplicate(at strictyaml.Node, old, modern string) {
	r.problems.Add(at, old+" beside "+modern, "they say the same; keep "+modern)
}
