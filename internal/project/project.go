package project

import (
	"errors"
	"fmt"
	"time"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A Project is what a project file says, and the settings above it, with every
// default in place. It is a value; nobody changes it.
type Project struct {
	Root    sandbox.Host // the program's directory, absolute
	File    string       // as given, for messages; "" if there is none
	Dialect string       // how the directories are written: mounts, zones, paths, default

	Mounts  []Mount       // ordered by target
	Rules   []policy.Rule // the approvals that are written
	Protect []string
	Network policy.Hosts
	// Level is the least that commands are confined by: "" for the best there is,
	// landlock, namespaces, container.
	Level string

	Model       string
	ModelServer Server
	Approval    string // interactive, approve_all, auto_deny
	ApprovalBy  strictyaml.Place
	MaxDepth    int
	WorkerPaths []string // relative to Root, with slashes
	Limits      policy.Limits
	Etc         []string // names in /etc that commands see besides those that all do

	Targets         []Target // ordered by name
	Endpoints       []Endpoint
	Scanners        []string
	Engines         Engines
	ClearanceLimits ClearanceLimits

	tree  strictyaml.Node // all values, effective, for Values
	trust map[string]bool // see Trust
}

// A Mount is a directory of the host at a virtual path. One that lies in the
// program has the program's directory as its Base and may be missing: it is then
// empty until the first write makes it, and no link leads to it. So is a directory
// that nobody wrote, such as .cache, in one that somebody wrote.
type Mount struct {
	Target       string
	Source, Base sandbox.Host
	Mode         string // ro, rw, overlay
	Suffixes     []string
	MaxFileBytes int64 // 0 for no limit
	Untrusted    bool  // what reads here is tainted: so is written, or it lies in such a directory
	From         strictyaml.Place
	ModeFrom     strictyaml.Place // of the mode, where it is written
	Name         string           // of a zone or of a path of llm-do, "" for others

	real  string // the directory on the host, absolute and without links
	trust string // the word that is written, "" for none
}

// A Server is one that models are asked at, in place of their vendor's.
type Server struct {
	URL string
	Key string           // the variable with its key
	By  strictyaml.Place // zero where nobody names one
}

// A Target is a repository that results are cleared into.
type Target struct {
	Name   string
	Type   string       // local, bare, remote, github
	Path   sandbox.Host // of local and bare, absolute
	URL    string       // of remote
	Repo   string       // of github: owner/name
	Branch string
	Hooks  bool   // run the repository's own hooks on this machine
	At     string // where the repository's root stands in the sandbox
	From   strictyaml.Place
}

// ClearanceLimits bound what is staged at once. Zero is no limit.
type ClearanceLimits struct {
	MaxFiles   int64
	MaxBytes   int64
	MaxPercent int64 // of what was taken in; more is flagged
	ScanBytes  int64
	ScanTime   time.Duration
}

// Engines are scanners that are programs of others.
type Engines struct {
	Allow    []string     // kinds of binary files that are not held back
	Clamd    sandbox.Host // a socket
	Clamscan bool
	Yara     []sandbox.Host
	External []External // ordered by name
}

// An External is a scanner of the user's.
type External struct {
	Name    string
	Command []string
	From    strictyaml.Place
}

// Env is what the project must know of the machine.
type Env struct {
	Home string // for ~; "" if nobody knows
	// State is the directory that golem keeps its state in. No mount shows any of it.
	State string
	// States and Configs are further directories with state and configuration of golem's.
	States, Configs []string
	// Homes are the home directories of the user. No mount is one or contains one.
	Homes []string
}

// Load reads the project file of a program, whose name is relative to root, and
// puts the settings above it, later ones above earlier ones. With no file the
// settings and the defaults are all. The error is conf.Problems: everything
// that is wrong, at once.
func Load(root, file string, env Env, settings []Setting) (*Project, error) {
	var data []byte
	if file != "" {
		var err error
		if data, err = read(root, file); err != nil {
			return nil, err
		}
	}
	return Parse(root, file, data, env, settings)
}

// Parse is Load for a file that was read already.
func Parse(root, file string, data []byte, env Env, settings []Setting) (*Project, error) {
	l, err := newLoader(root, file, env)
	if err != nil {
		return nil, err
	}
	if l.read(data, settings); l.problems.Full() {
		return nil, l.problems.Err() // what else is wrong is not known
	}
	l.sandbox()
	l.runs()
	l.limits()
	l.etc()
	l.clearance()
	if err := l.problems.Err(); err != nil {
		return nil, err
	}
	l.project.tree = l.tree
	return l.project, nil
}

// Grant returns the ceiling for the project's workers: the files that it
// mounts, the consent that it writes, its network, limits and depth. Which
// tools, workers and credentials a worker has, workers say.
func (p *Project) Grant() policy.Grant {
	var files []sandbox.Limit
	for _, m := range p.Mounts {
		files = append(files, sandbox.Limit{Path: m.Target, Access: m.Access()})
	}
	level, _ := policy.ParseLevel(p.Level)
	return policy.Grant{
		Files:       policy.AllFiles().With(files...),
		Consent:     p.consent(),
		Tools:       policy.All(),
		Workers:     policy.All(),
		Hosts:       p.Network,
		Credentials: policy.All(),
		Limits:      p.Limits,
		Depth:       p.MaxDepth,
		Attachments: policy.Attachments{Unlimited: true},
		Level:       level,
	}
}

// Overlay is the mode of a mount whose changes are kept in a layer of the session.
const Overlay = "overlay"

// Sandbox opens the mounts; those that are layers by the function, which gives them
// a backend and their access. An error names the target and the line that wrote it.
func (p *Project) Sandbox(layer func(Mount) (sandbox.Mount, error)) (*sandbox.Sandbox, error) {
	c := sandbox.Config{Protect: p.Protect}
	for _, m := range p.Mounts {
		mount := sandbox.Mount{Target: m.Target, Source: m.Source, Base: m.Base,
			Access: m.Access(), Suffixes: m.Suffixes, MaxFileBytes: m.MaxFileBytes}
		if m.Mode == Overlay {
			shown, err := layer(m)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.From, err)
			}
			mount.Backend, mount.Access = shown.Backend, shown.Access
		}
		c.Mounts = append(c.Mounts, mount)
	}
	s, err := sandbox.New(c)
	var e *sandbox.Error
	if errors.As(err, &e) {
		for _, m := range p.Mounts {
			if m.Target == e.Path {
				return nil, fmt.Errorf("%s: %w", m.From, err)
			}
		}
	}
	return s, err
}

// Layered reports whether what is changed at a name is kept in a layer.
func (p *Project) Layered(name string) bool {
	i := p.mountOf(name)
	return i >= 0 && p.Mounts[i].Mode == Overlay
}

// Access is what the mode allows. A mode that is not known allows nothing.
func (m Mount) Access() sandbox.Access {
	if m.Mode == Overlay {
		return sandbox.ReadWrite
	}
	access, _ := sandbox.ParseAccess(m.Mode)
	return access
}
