package worker

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// The kinds of a worker's sandbox.
const (
	NoSandbox = ""         // missing: a pure function
	Inherit   = "inherit"  // all of the parent's files
	Restrict  = "restrict" // one directory of them, or read-only
	Zones     = "zones"    // top directories by name
	Paths     = "paths"    // directories of the host, as in llm-do
)

// Sandbox is what a worker declares to need of its parent's files.
type Sandbox struct {
	Kind     string // one of the constants
	Restrict string // the canonical directory of kind Restrict
	ReadOnly bool   // for kind Restrict
	Zones    []Zone
	Paths    []Path
	Network  *Network     // nil if missing
	Level    policy.Level // require_os_sandbox
	Place    strictyaml.Place
}

// A Zone is the top directory /<Name>.
type Zone struct {
	Name  string
	Mode  sandbox.Access
	Rules []policy.Rule // its approval levels
	Place strictyaml.Place
}

// A Path is a directory of the host. Root is as written. The caller of [Worker.Grant]
// resolves a relative one.
type Path struct {
	Name         string
	Root         string
	Access       sandbox.Access
	Suffixes     []string
	MaxFileBytes int64
	Place        strictyaml.Place
}

// Network says which hosts commands may reach: all, or those of a list.
type Network struct {
	On    bool
	Hosts []policy.HostRule
	Place strictyaml.Place
}

// readSandbox reads the worker's sandbox.
func (r *reader) readSandbox(top strictyaml.Node) {
	n, ok := top.At("sandbox")
	if !ok {
		return
	}
	s := &r.w.Sandbox
	*s = Sandbox{Kind: r.findKind(n), Place: n.Place}
	switch s.Kind {
	case Restrict:
		s.Restrict = "/"
		if at, ok := n.At("restrict"); ok {
			s.Restrict = r.readDirectory(at)
		}
		s.ReadOnly = isTrue(n, "readonly")
	case Zones:
		r.readZones(n)
	case Paths:
		r.readPaths(n)
	}
	if approval, ok := n.At("approval"); ok {
		if _, twice := top.At("toolsets", "filesystem", "approval"); twice {
			r.reportDuplicate(approval, "sandbox.approval", "toolsets.filesystem.approval")
		}
		r.w.Rules = append(r.w.Rules, readApproval(n, "/")...)
	}
	if net, ok := n.At("network"); ok {
		s.Network = &Network{On: net.Bool(), Place: net.Place}
		for _, item := range net.Items {
			rule, err := policy.ParseHost(item.Text)
			if err != nil {
				what, hint, _ := strings.Cut(err.Error(), "; ")
				r.problems.Add(item, "sandbox.network: "+what, hint)
				continue
			}
			s.Network.Hosts = append(s.Network.Hosts, rule)
		}
	}
	s.Level, _ = policy.ParseLevel(textOf(n, "require_os_sandbox"))
}

// findKind finds out by the keys which spelling is used, and reports two at once.
func (r *reader) findKind(n strictyaml.Node) string {
	var kinds []string
	for _, f := range n.Fields {
		kind := ""
		switch f.Key.Text {
		case "restrict", "readonly":
			kind = Restrict
		case "zones":
			kind = Zones
		case "paths":
			kind = Paths
		default:
			continue
		}
		if len(kinds) > 0 && kinds[0] != kind {
			r.problems.Add(f.Key, "sandbox."+f.Key.Text+" beside "+kinds[0],
				"these are different ways to say what it gets; keep one of restrict (with readonly), zones and paths")
		}
		kinds = append(kinds, kind)
	}
	switch {
	case len(kinds) > 0:
		return kinds[0]
	case len(n.Fields) > 0:
		return Restrict // only the network, the level or approvals are set
	}
	return Inherit
}

// readDirectory returns the canonical name of a directory.
func (r *reader) readDirectory(n strictyaml.Node) string {
	if n.Kind != strictyaml.Scalar {
		return "/"
	}
	if !sandbox.ValidPath(n.Text) {
		r.problems.Add(n, "sandbox.restrict: "+shown(n.Text), "it is a path of the parent's, such as /src; .. may not climb above /")
		return "/"
	}
	return path.Clean("/" + n.Text)
}

// maxDirectories limits the zones or paths of a worker. A project may mount as many.
const maxDirectories = 100

// checkDirectoryCount reports whether a worker names at most maxDirectories zones or paths, and adds a
// problem if not.
func (r *reader) checkDirectoryCount(top strictyaml.Node) bool {
	for _, key := range []string{"zones", "paths"} {
		n, _ := top.At("sandbox", key)
		if count := len(n.Items) + len(n.Fields); count > maxDirectories {
			r.problems.Add(n, fmt.Sprintf("sandbox.%s: %s of %d entries", key, n.Kind, count),
				fmt.Sprintf("a worker names at most %d directories; name one above them", maxDirectories))
			return false
		}
	}
	return true
}

func (r *reader) readZones(n strictyaml.Node) {
	list, _ := n.At("zones")
	var seen []string
	for _, item := range list.Items {
		if item.Kind != strictyaml.Map {
			continue
		}
		name, ok := item.At("name")
		switch {
		case !ok:
			r.problems.Add(item, "sandbox.zones: a zone without a name", "write name: data for the directory /data")
			continue
		case name.Kind != strictyaml.Scalar:
			continue
		case !isPathPart(name.Text):
			r.problems.Add(name, "sandbox.zones.name: "+shown(name.Text), "it is the name of a top directory, without slashes: data for /data")
			continue
		case slices.Contains(seen, name.Text):
			r.problems.Add(name, "sandbox.zones: "+shown(name.Text)+" twice", "keep one")
			continue
		}
		seen = append(seen, name.Text)
		z := Zone{Name: name.Text, Mode: readAccess(item, sandbox.ReadWrite), Place: name.Place}
		if mode, ok := item.At("mode"); ok {
			z.Place = mode.Place
		}
		z.Rules = readApproval(item, "/"+name.Text)
		r.w.Sandbox.Zones = append(r.w.Sandbox.Zones, z)
		r.w.Rules = append(r.w.Rules, z.Rules...)
	}
}

// isPathPart reports whether a text is a single part of a path.
func isPathPart(name string) bool {
	return name != "." && name != ".." && name != "" && !strings.Contains(name, "/") &&
		strings.TrimSpace(name) == name && sandbox.ValidPath("/"+name)
}

func (r *reader) readPaths(n strictyaml.Node) {
	all, _ := n.At("paths")
	for _, f := range all.Fields {
		if !isPathPart(f.Key.Text) {
			r.problems.Add(f.Key, "sandbox.paths: "+shown(f.Key.Text), "a path's name has no slashes")
		} else if p, ok := r.readPath(f); ok {
			r.w.Sandbox.Paths = append(r.w.Sandbox.Paths, p)
		}
	}
}

func (r *reader) readPath(f strictyaml.Field) (Path, bool) {
	p := Path{Name: f.Key.Text, Access: readAccess(f.Value, sandbox.ReadOnly), Place: f.Key.Place}
	where := "sandbox.paths." + shown(p.Name)
	root, ok := f.Value.At("root")
	switch {
	case f.Value.Kind == strictyaml.Scalar || f.Value.Kind == strictyaml.List || ok && root.Kind != strictyaml.Scalar:
		return p, false
	case !ok:
		r.problems.Add(f.Key, where+": no root", "write root: and the directory, such as ./portfolio")
		return p, false
	case strings.TrimSpace(root.Text) == "" || strings.ContainsRune(root.Text, 0):
		r.problems.Add(root, where+".root: "+shown(root.Text), "it is a directory, such as ./portfolio")
		return p, false
	}
	if p.Root = root.Text; strings.HasPrefix(p.Root, "~") {
		r.problems.Add(root, where+".root: "+shown(root.Text), "~ is known in the project file only; mount the directory there, and name its zone here")
	}
	if mode, ok := f.Value.At("mode"); ok {
		p.Place = mode.Place
	}
	suffixes, _ := f.Value.At("suffixes")
	for _, item := range suffixes.Items {
		if what, hint := checkWith(isSuffix, suffixHint)(item); what != "" && item.Kind == strictyaml.Scalar {
			r.problems.Add(item, where+".suffixes: "+what, hint)
		}
		p.Suffixes = append(p.Suffixes, strings.ToLower(item.Text))
	}
	if most, ok := f.Value.At("max_file_bytes"); ok {
		var err error
		if p.MaxFileBytes, err = most.Bytes(); err == nil && p.MaxFileBytes == 0 {
			r.problems.Add(most, where+".max_file_bytes: 0", "leave it out for no limit, or give a size above zero")
		}
	}
	return p, true
}

// readAccess reads the mode of a zone or path.
func readAccess(n strictyaml.Node, unwritten sandbox.Access) sandbox.Access {
	if mode, ok := n.At("mode"); ok {
		a, _ := sandbox.ParseAccess(mode.Text)
		return a
	}
	return unwritten
}
