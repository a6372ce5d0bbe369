package worker

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/strictyaml"
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
	b := bid{w: w, parent: parent, roots: parent.Files.Roots(), locate: locate, whose: "the parent", kind: w.Sandbox.Kind}
	if entry {
		b.whose = "the project"
		if b.kind == NoSandbox && slices.ContainsFunc(w.Toolsets, Toolset.usesFiles) {
			b.kind = Inherit
		}
	}
	wish := policy.Grant{
		Files:       b.files(),
		Approvals:   policy.Approvals{}.With(w.Rules...),
		Workers:     b.workers(),
		Hosts:       b.hosts(),
		Credentials: b.credentials(),
		Depth:       parent.Depth,
		Attachments: w.Attachments,
		Level:       w.Sandbox.Level,
	}
	wish.Tools = b.tools(!wish.Files.IsEmpty())
	if w.Shell != nil {
		wish.Shell = policy.Shell{}.With(*w.Shell)
	}
	own := parent.Meet(wish)
	b.reaches(own)
	ordered, _ := b.problems.Err().(strictyaml.Problems)
	return own, ordered
}

// A bid is what a worker asks its parent for, with the problems of asking too much.
type bid struct {
	w        *Worker
	parent   policy.Grant
	roots    []sandbox.Limit // of the parent; computed once for all checks
	locate   func(string) (string, bool)
	whose    string // the parent's name in messages
	kind     string // of the sandbox; an entry worker without one inherits
	problems strictyaml.Problems
}

// excess reports a request beyond the parent's grant.
func (b *bid) excess(at strictyaml.Place, what, asks, has, advice string) {
	hint := "asks for " + asks + ", " + b.whose + " has " + has
	if advice != "" {
		hint += "; " + advice
	}
	b.problems.Note(strictyaml.Problem{Place: at, What: what + ": " + string(sandbox.ErrExceedsParent),
		Hint: hint, Code: sandbox.ErrExceedsParent})
}

// beyond reports how a grant exceeds the parent's.
func (b *bid) beyond(at strictyaml.Place, wish policy.Grant, advice string) {
	for _, e := range wish.Within(b.parent) {
		b.excess(at, e.What+" "+sandbox.Shown(e.Which), e.Wants, e.Has, advice)
	}
}

// files returns the files that the worker asks for.
func (b *bid) files() policy.Files {
	switch b.kind {
	case Inherit:
		return policy.AllFiles()
	case Restrict:
		return b.restrict()
	case Zones:
		return b.zones()
	case Paths:
		return b.paths()
	}
	for _, t := range b.w.Toolsets {
		if t.usesFiles() {
			b.problems.Note(strictyaml.Problem{Place: t.Place, What: t.Name + " without a sandbox",
				Hint: "a worker without sandbox: is a pure function; write sandbox: inherit, or which zones it needs, or leave the toolset out"})
		}
	}
	return policy.Files{}
}

func (b *bid) restrict() policy.Files {
	s := b.w.Sandbox
	limit := sandbox.Limit{Path: s.Restrict, Access: sandbox.ReadWrite}
	if s.ReadOnly {
		limit.Access = sandbox.ReadOnly
	}
	shown := b.parent.Files.Access(limit.Path) > sandbox.None ||
		slices.ContainsFunc(b.roots, func(root sandbox.Limit) bool { return within(limit.Path, root.Path) })
	if !shown && limit.Path != "/" {
		b.excess(s.Place, "restrict "+sandbox.Shown(limit.Path), "it", listed(b.roots), "name an existing directory")
	}
	return policy.AllFiles().With(limit)
}

// within reports whether name is dir or lies below it. Both are canonical.
func within(dir, name string) bool {
	return dir == "/" || name == dir || strings.HasPrefix(name, dir+"/")
}

func (b *bid) zones() policy.Files {
	if len(b.w.Sandbox.Zones) == 0 {
		return policy.Files{}
	}
	var limits []sandbox.Limit
	for _, z := range b.w.Sandbox.Zones {
		at := "/" + z.Name
		limits = append(limits, sandbox.Limit{Path: at, Access: z.Mode})
		b.mode(z.Place, "zone "+sandbox.Shown(z.Name), at, z.Mode)
	}
	return policy.AllFiles().With(limits...)
}

// mode reports a request for more access to a directory than the parent has.
func (b *bid) mode(at strictyaml.Place, what, name string, asks sandbox.Access) {
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
		b.excess(at, what, asks.String(), "none of it; it has "+listed(b.roots), advice)
	default:
		b.excess(at, what, asks.String(), has.String(), "write mode: "+has.String()+", or give "+b.whose+" more")
	}
}

// listed formats limits for a message.
func listed(roots []sandbox.Limit) string {
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

func (b *bid) paths() policy.Files {
	var limits []sandbox.Limit
	var kinds []policy.Kind
	for _, p := range b.w.Sandbox.Paths {
		what := "path " + sandbox.Shown(p.Name)
		at, ok := "", false
		if b.locate != nil {
			at, ok = b.locate(p.Root)
		}
		if !ok {
			b.excess(p.Place, what, p.Access.String(), "none of it; it has "+listed(b.roots),
				"the directory must be one of the project's, or in one")
			continue
		}
		b.mode(p.Place, what, at, p.Access)
		limits = append(limits, sandbox.Limit{Path: at, Access: p.Access})
		if len(p.Suffixes) > 0 || p.MaxFileBytes > 0 {
			kinds = append(kinds, policy.Kind{Path: at, Suffixes: p.Suffixes, MaxBytes: p.MaxFileBytes, From: p.Place.String()})
		}
	}
	return policy.AllFiles().With(limits...).WithKinds(kinds...)
}

// tools returns the toolsets that the worker asks for. Without files it omits those that
// need files, because files has reported the problem. An implied toolset is what the
// parent has of it where it shows files.
func (b *bid) tools(files bool) policy.Set {
	var names []string
	for _, t := range b.w.Toolsets {
		if t.usesFiles() && !files {
			continue
		}
		names = append(names, t.Name)
		if !t.Implied || b.kind != Inherit && b.kind != Restrict {
			b.beyond(t.Place, policy.Grant{Tools: policy.SetOf(t.Name)}, "give "+b.whose+" this toolset, or leave it out")
		}
	}
	return policy.SetOf(append(names, b.foreign()...)...)
}

func (b *bid) workers() policy.Set {
	for _, name := range b.w.Workers.Names() {
		at := b.w.Place
		for _, n := range b.w.calls {
			if n.Text == name {
				at = n.Place
			}
		}
		b.beyond(at, policy.Grant{Workers: policy.SetOf(name)}, "a worker calls only whom its caller may call")
	}
	return b.w.Workers
}

// hosts returns the network that the worker asks for. A worker that names its files one
// by one must name the network too. A worker that takes the parent's files takes its
// network.
func (b *bid) hosts() policy.Hosts {
	s := b.w.Sandbox
	switch {
	case s.Network != nil && s.Network.On:
		b.beyond(s.Network.Place, policy.Grant{Hosts: policy.AllHosts()}, "write network: false, or leave it out")
		return policy.AllHosts()
	case s.Network != nil:
		return policy.Hosts{}
	case b.kind == Inherit, b.kind == Restrict:
		return policy.AllHosts()
	}
	return policy.Hosts{}
}

// credentials returns the credentials that the worker asks for: none without git.
func (b *bid) credentials() policy.Set {
	c := b.w.Git.Credentials
	var names []string
	for _, v := range c.Env {
		if v.Pass {
			names = append(names, v.Name)
			b.beyond(v.Place, policy.Grant{Credentials: policy.SetOf(v.Name)}, "leave it out")
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
