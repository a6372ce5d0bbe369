package worker

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// Grant returns the part of its parent's grant that the worker gets. It also returns
// every request beyond the parent's grant as a problem at its place, with the code
// exceeds_parent, the request and what the parent has. The result always lies within the
// parent's grant. With problems the worker must not start.
//
// The parent of the entry worker is the project, whose grant holds a limit for every
// mount. The parent's depth is the depth that is left for the worker; the caller counts
// it. The function locate returns the virtual path at which the parent shows a directory
// of the host, for paths in llm-do's spelling.
//
// Tools are granted by toolset, and those of foreign programs also by name. The worker's
// approval levels are one more layer: the strictest applies.
func (w *Worker) Grant(parent policy.Grant, locate func(folder string) (virtual string, ok bool), entry bool) (policy.Grant, strictyaml.Problems) {
	b := request{w: w, parent: parent, roots: parent.Files.Roots(), locate: locate, whose: "the parent", kind: w.Sandbox.Kind}
	if entry {
		b.whose = "the project"
		if b.kind == NoSandbox && slices.ContainsFunc(w.Toolsets, Toolset.usesFiles) {
			b.kind = Inherit
		}
	}
	wish := policy.Grant{
		Files:       b.requestedFiles(),
		Approvals:   policy.Approvals{}.With(w.Rules...),
		Workers:     b.requestedWorkers(),
		Hosts:       b.requestedHosts(),
		Credentials: b.requestedCredentials(),
		Depth:       parent.Depth,
		Attachments: w.Attachments,
		Level:       w.Sandbox.Level,
	}
	wish.Tools = b.requestedTools(!wish.Files.IsEmpty())
	if w.Shell != nil {
		wish.Shell = policy.Shell{}.With(*w.Shell)
	}
	own := parent.Meet(wish)
	b.checkReach(own)
	ordered, _ := b.problems.Err().(strictyaml.Problems)
	return own, ordered
}

// A request is what a worker asks its parent for, with the problems of asking too much.
type request struct {
	w        *Worker
	parent   policy.Grant
	roots    []sandbox.Limit // of the parent; computed once for all checks
	locate   func(string) (string, bool)
	whose    string // the parent's name in messages
	kind     string // of the sandbox; an entry worker without one inherits
	problems strictyaml.Problems
}

// reportExcess reports a request beyond the parent's grant.
func (b *request) reportExcess(at strictyaml.Place, what, asks, has, advice string) {
	hint := "asks for " + asks + ", " + b.whose + " has " + has
	if advice != "" {
		hint += "; " + advice
	}
	b.problems.Note(strictyaml.Problem{Place: at, What: what + ": " + string(sandbox.ErrExceedsParent),
		Hint: hint, Code: sandbox.ErrExceedsParent})
}

// reportBeyond reports how a grant exceeds the parent's.
func (b *request) reportBeyond(at strictyaml.Place, wish policy.Grant, advice string) {
	for _, e := range wish.Within(b.parent) {
		b.reportExcess(at, e.What+" "+sandbox.Shown(e.Which), e.Wants, e.Has, advice)
	}
}

// requestedFiles returns the files that the worker asks for.
func (b *request) requestedFiles() policy.Files {
	switch b.kind {
	case Inherit:
		return policy.AllFiles()
	case Restrict:
		return b.restrictedFiles()
	case Zones:
		return b.zoneFiles()
	case Paths:
		return b.pathFiles()
	}
	for _, t := range b.w.Toolsets {
		if t.usesFiles() {
			b.problems.Note(strictyaml.Problem{Place: t.Place, What: t.Name + " without a sandbox",
				Hint: "a worker without sandbox: is a pure function; write sandbox: inherit, or which zones it needs, or leave the toolset out"})
		}
	}
	return policy.Files{}
}

func (b *request) restrictedFiles() policy.Files {
	s := b.w.Sandbox
	limit := sandbox.Limit{Path: s.Restrict, Access: sandbox.ReadWrite}
	if s.ReadOnly {
		limit.Access = sandbox.ReadOnly
	}
	shown := b.parent.Files.Access(limit.Path) > sandbox.None ||
		slices.ContainsFunc(b.roots, func(root sandbox.Limit) bool { return policy.AtOrBelow(limit.Path, root.Path) })
	if !shown && limit.Path != "/" {
		b.reportExcess(s.Place, "restrict "+sandbox.Shown(limit.Path), "it", formatRoots(b.roots), "name an existing directory")
	}
	return policy.AllFiles().With(limit)
}

func (b *request) zoneFiles() policy.Files {
	if len(b.w.Sandbox.Zones) == 0 {
		return policy.Files{}
	}
	var limits []sandbox.Limit
	for _, z := range b.w.Sandbox.Zones {
		at := "/" + z.Name
		limits = append(limits, sandbox.Limit{Path: at, Access: z.Mode})
		b.checkMode(z.Place, "zone "+sandbox.Shown(z.Name), at, z.Mode)
	}
	return policy.AllFiles().With(limits...)
}

// checkMode reports a request for more access to a directory than the parent has.
func (b *request) checkMode(at strictyaml.Place, what, name string, asks sandbox.Access) {
	switch has := b.parent.Files.Access(name); {
	case asks <= has:
	case has == sandbox.None:
		var names []string
		for _, root := range b.roots {
			names = append(names, root.Path)
		}
		advice := ""
		if near := sandbox.Nearest(name, names); len(near) > 0 {
			advice = "did you mean " + near[0] + "?"
		}
		b.reportExcess(at, what, asks.String(), "none of it; it has "+formatRoots(b.roots), advice)
	default:
		b.reportExcess(at, what, asks.String(), has.String(), "write mode: "+has.String()+", or give "+b.whose+" more")
	}
}

// formatRoots formats limits for a message.
func formatRoots(roots []sandbox.Limit) string {
	const most = 8
	var list []string
	for _, root := range roots {
		if len(list) == most {
			list = append(list, "…")
			break
		}
		list = append(list, sandbox.Shown(root.Path)+" "+root.Access.String())
	}
	if len(list) == 0 {
		return "no files"
	}
	return strings.Join(list, ", ")
}

func (b *request) pathFiles() policy.Files {
	var limits []sandbox.Limit
	var kinds []policy.Kind
	for _, p := range b.w.Sandbox.Paths {
		what := "path " + sandbox.Shown(p.Name)
		at, ok := "", false
		if b.locate != nil {
			at, ok = b.locate(p.Root)
		}
		if !ok {
			b.reportExcess(p.Place, what, p.Access.String(), "none of it; it has "+formatRoots(b.roots),
				"the directory must be one of the project's, or in one")
			continue
		}
		b.checkMode(p.Place, what, at, p.Access)
		limits = append(limits, sandbox.Limit{Path: at, Access: p.Access})
		if len(p.Suffixes) > 0 || p.MaxFileBytes > 0 {
			kinds = append(kinds, policy.Kind{Path: at, Suffixes: p.Suffixes, MaxBytes: p.MaxFileBytes, From: p.Place.String()})
		}
	}
	return policy.AllFiles().With(limits...).WithKinds(kinds...)
}

// requestedTools returns the toolsets that the worker asks for. Without files it omits those that
// need files, because files has reported the problem. An implied toolset is what the
// parent has of it where it shows files.
func (b *request) requestedTools(files bool) policy.Set {
	var names []string
	for _, t := range b.w.Toolsets {
		if t.usesFiles() && !files {
			continue
		}
		names = append(names, t.Name)
		if !t.Implied || b.kind != Inherit && b.kind != Restrict {
			b.reportBeyond(t.Place, policy.Grant{Tools: policy.SetOf(t.Name)}, "give "+b.whose+" this toolset, or leave it out")
		}
	}
	return policy.SetOf(append(names, b.foreignTools()...)...)
}

func (b *request) requestedWorkers() policy.Set {
	for _, name := range b.w.Workers.Names() {
		at := b.w.Place
		for _, n := range b.w.calls {
			if n.Text == name {
				at = n.Place
			}
		}
		b.reportBeyond(at, policy.Grant{Workers: policy.SetOf(name)}, "a worker may call only workers that its caller may call")
	}
	return b.w.Workers
}

// requestedHosts returns the network that the worker asks for. A worker that names its files one
// by one must name the network too. A worker that takes the parent's files takes its
// network.
func (b *request) requestedHosts() policy.Hosts {
	s := b.w.Sandbox
	switch {
	case s.Network != nil && s.Network.On:
		b.reportBeyond(s.Network.Place, policy.Grant{Hosts: policy.AllHosts()}, "write network: false, or leave it out")
		return policy.AllHosts()
	case s.Network != nil:
		hosts := policy.HostsOfRules(s.Network.Hosts...)
		b.reportBeyond(s.Network.Place, policy.Grant{Hosts: hosts}, "name only hosts that "+b.whose+" has, or write network: false")
		return hosts
	case b.kind == Inherit, b.kind == Restrict:
		return policy.AllHosts()
	}
	return policy.Hosts{}
}

// requestedCredentials returns the credentials that the worker asks for: none without git.
func (b *request) requestedCredentials() policy.Set {
	c := b.w.Git.Credentials
	var names []string
	for _, v := range c.Env {
		if v.Pass {
			names = append(names, v.Name)
			b.reportBeyond(v.Place, policy.Grant{Credentials: policy.SetOf(v.Name)}, "leave it out")
		}
	}
	switch c.Mode {
	case "inherit":
		return policy.All()
	case "explicit":
		return policy.SetOf(names...)
	}
	return policy.Set{}
}
