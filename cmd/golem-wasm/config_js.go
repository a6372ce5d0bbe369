package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
	"github.com/golem-forge/golem/sandbox/opfs"
)

// A config says which files a sandbox shows, and which calls of a model need approval. What is
// missing is not allowed.
type config struct {
	Zones   map[string]zone `json:"zones"`
	Protect []string        `json:"protect,omitempty"`
	Rules   []rule          `json:"rules,omitempty"`
	// Tools are the names of the tools that a model may call; nil for all file tools.
	Tools []string `json:"tools,omitzero"` // an empty list is not nil
}

// A zone is a directory of the workspace. The zone "a" is at /a.
type zone struct {
	Mode         string   `json:"mode"`
	Suffixes     []string `json:"suffixes,omitempty"`
	MaxFileBytes *int64   `json:"maxFileBytes,omitempty"`
}

// A rule is a gate.Rule.
type rule struct {
	Verb   string `json:"verb"`
	Target string `json:"target"`
	Level  string `json:"level"`
}

// files returns the sandbox of a configuration.
func (c config) files(w *opfs.Workspace) (*sandbox.Sandbox, error) {
	if len(c.Zones) == 0 {
		return nil, invalid("open", "config.zones is empty; name at least one zone, such as {workspace: {mode: 'rw'}}")
	}
	made := sandbox.Config{Protect: c.Protect}
	for _, name := range slices.Sorted(maps.Keys(c.Zones)) {
		z := c.Zones[name]
		access, ok := map[string]sandbox.Access{"ro": sandbox.ReadOnly, "rw": sandbox.ReadWrite}[z.Mode]
		if !ok {
			return nil, invalid("open", "the mode of the zone "+sandbox.Shown(name)+" must be 'ro' or 'rw'")
		}
		if name == "" || strings.ContainsAny(name, `/\:`) || strings.HasPrefix(name, ".") {
			return nil, invalid("open", "a zone needs a name without / \\ : and without a dot in front, not "+sandbox.Shown(name))
		}
		m := sandbox.Mount{Target: "/" + name, Backend: w.Backend(name), Access: access, Suffixes: z.Suffixes}
		if z.MaxFileBytes != nil {
			m.MaxFileBytes = *z.MaxFileBytes
		}
		if z.Suffixes != nil && len(z.Suffixes) == 0 || z.MaxFileBytes != nil && m.MaxFileBytes <= 0 {
			return nil, invalid("open", "the zone "+sandbox.Shown(name)+" allows no file: suffixes needs at least one, and maxFileBytes is above 0; omit them for no limit")
		}
		made.Mounts = append(made.Mounts, m)
	}
	return sandbox.New(made)
}

// gateRules returns the rules as package gate has them.
func (c config) gateRules() ([]gate.Rule, error) {
	verbs := map[string]gate.Verb{}
	for _, v := range []gate.Verb{gate.Read, gate.Write, gate.Delete, gate.Run, gate.Connect, gate.Use} {
		verbs[v.String()] = v
	}
	levels := map[string]gate.Level{"blocked": gate.Blocked, "ask": gate.Ask, "preApproved": gate.PreApproved}
	var rules []gate.Rule
	for _, r := range c.Rules {
		level, ok := levels[r.Level]
		if verbs[r.Verb] == 0 || !ok || r.Target == "" {
			return nil, invalid("open", "a rule needs a verb ("+strings.Join(slices.Sorted(maps.Keys(verbs)), ", ")+"), a target and a level ("+strings.Join(slices.Sorted(maps.Keys(levels)), ", ")+")")
		}
		rules = append(rules, gate.Rule{Verb: verbs[r.Verb], Target: r.Target, Level: level, From: "the page"})
	}
	return rules, nil
}

// grant returns the grant of a configuration.
func (c config) grant() gate.Grant {
	g := gate.GrantAll()
	if c.Tools != nil {
		g.Tools = slices.DeleteFunc(slices.Clone(c.Tools), func(name string) bool { return name == "*" })
	}
	return g
}

// zoneAccess returns "ro" or "rw", or "" for a zone that the sandbox does not show.
func zoneAccess(files *sandbox.Sandbox, name string) string {
	i := slices.IndexFunc(files.Mounts(), func(m sandbox.Mount) bool { return m.Target == "/"+name })
	if i < 0 || files.Mounts()[i].Access == sandbox.None {
		return ""
	}
	return cmp.Or(files.Mounts()[i].Access.String(), "")
}
