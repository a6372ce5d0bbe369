package project

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A Project holds the values of a project file and of the settings that override it, with
// all defaults filled in. Nobody changes it after Load.
type Project struct {
	Root    sandbox.Host // the program's directory, absolute
	File    string       // the name as given, for messages; "" if there is none
	Dialect string       // the spelling of the directories: mounts, zones, paths, default

	Mounts  []Mount       // ordered by target
	Rules   []policy.Rule // the approval levels that the file sets
	Protect []string
	Network policy.Hosts
	// Fetch are more hosts, which only the tool web_fetch reads from.
	Fetch policy.Hosts
	// AllowPrivate lets names of Network lead to private addresses.
	AllowPrivate bool
	// Credentials are the secrets that golem adds to requests, for hosts of Network.
	Credentials []Credential
	// IgnoredDirs are names of directories whose new files lists show as one line, where git
	// cannot say it. They count only after trust.
	IgnoredDirs []string
	Presets     []string // named sets of hosts, which AddPreset adds to Network
	// ByAgent says that Network is that of the agent's profile: no file and no flag has one.
	ByAgent bool
	// Private are names of servers that the user chose for the agent. They may lead to
	// private addresses.
	Private []string
	// Optional are hosts that the agent asks for and does not need. golem refuses them without
	// a question, unless the network has them.
	Optional []string
	AskHosts bool // golem asks about hosts that are not in Network, if that is a list
	// Level is the weakest level of the jail that commands may run in: landlock,
	// namespaces, container, or "" for the strongest of the machine.
	Level string

	Model        string
	SummaryModel string         // summarises long conversations; "" for the model of the run
	Fallbacks    []string       // models to ask if Model does not answer
	Answers      policy.Answers // how models answer workers that say nothing about it
	ModelServer  Server
	Approval     string // interactive, approve_all, auto_deny
	ApprovalBy   strictyaml.Place
	MaxDepth     int
	WorkerPaths  []string // relative to Root, with slashes
	Limits       policy.Limits
	Trailer      string   // ends the messages of commits that golem takes from a session, "" for none
	Etc          []string // names in /etc that commands see in addition to the usual ones
	GPU          bool     // commands use the machine's GPU

	Targets         []Target // ordered by name
	Endpoints       []Endpoint
	Scanners        []string
	Engines         Engines
	Converters      []Converter // ordered by name
	ClearanceLimits ClearanceLimits

	Ceiling Ceiling // what the layers above allow at most

	tree  strictyaml.Node // all effective values, for Values
	asked asked           // the values before the ceiling limited them
	trust map[string]bool // see Trust

	networkAt strictyaml.Place
}

// DefaultDepth is how many calls of workers may be nested by default.
const DefaultDepth = 5

// A Mount is a directory of the host at a virtual path. If it lies in the program, Base
// is the program's directory, and the mount may be missing. It is then empty until the
// first write creates it, and no symlink may lead to it. The same holds for a default
// directory, such as .cache, inside one that the file names.
type Mount struct {
	Target       string
	Source, Base sandbox.Host
	Mode         string // ro, rw, overlay
	Suffixes     []string
	MaxFileBytes int64 // 0 for no limit
	Untrusted    bool  // a reader is tainted: the mount or a directory around it says untrusted
	From         strictyaml.Place
	ModeFrom     strictyaml.Place // the place of the mode, if it is written
	Name         string           // the name of a zone or of a path of llm-do, "" for others

	real  string // the directory on the host, absolute and without symlinks
	trust string // the trust setting as written, "" for none
}

// A Server is a model server in place of the vendor's.
type Server struct {
	URL string
	Key string           // the environment variable that holds its key
	API string           // chat or responses, "" for the one that the model needs
	By  strictyaml.Place // zero if nobody names a server
}

// A Target is a repository that the user clears results into.
type Target struct {
	Name   string
	Type   string       // local, bare, remote, github
	Path   sandbox.Host // for local and bare, absolute
	URL    string       // for remote
	Repo   string       // for github: owner/name
	Branch string
	Hooks  bool   // run the repository's own hooks on this machine
	At     string // the place of the repository's root in the sandbox
	From   strictyaml.Place
}

// ClearanceLimits limit what one commit may stage. Zero means no limit.
type ClearanceLimits struct {
	MaxFiles   int64
	MaxBytes   int64
	MaxPercent int64 // of the bytes that were read; a review flags more
	ScanBytes  int64
	ScanTime   time.Duration
}

// Engines are scanners that are foreign programs.
type Engines struct {
	Allow    []string     // media types of binary files that are not held back
	Clamd    sandbox.Host // a socket
	Clamscan bool
	Yara     []sandbox.Host
	External []External // ordered by name
}

// An External is a scanner of the user.
type External struct {
	Name    string
	Command []string
	From    strictyaml.Place
}

// Env is what the project must know about the machine.
type Env struct {
	Home string // for ~; "" if unknown
	// State is the directory of golem's state. No mount shows any of it.
	State string
	// States and Configs are more directories with golem's state and configuration.
	States, Configs []string
	// Homes are the home directories of the user. No mount is one or contains one.
	Homes []string
	// Ceiling are the layers above the project.
	Ceiling Ceiling
	// Hosts are those that the user adds to the hosts of the file.
	Hosts []policy.HostRule
	// Presets are the sets of hosts that the user adds.
	Presets []string
	// Agent is what the program that the user runs needs.
	Agent Agent
}

// Load reads the project file of a program and applies the settings. The name of the file
// is relative to root. Later settings override earlier ones, and all override the file.
// Without a file there are only the settings and the defaults. The error is a
// strictyaml.Problems with everything that is wrong.
func Load(root, file string, env Env, settings []Setting) (*Project, error) {
	var data []byte
	if file != "" {
		var err error
		if data, err = readProjectFile(root, file); err != nil {
			return nil, err
		}
	}
	return Parse(root, file, data, env, settings)
}

// Parse is like Load, for a file that was already read.
func Parse(root, file string, data []byte, env Env, settings []Setting) (*Project, error) {
	l, err := newLoader(root, file, env)
	if err != nil {
		return nil, err
	}
	if l.parseTree(data, settings); l.problems.Full() {
		return nil, l.problems.Err() // there may be more problems than the list holds
	}
	l.readPlain()
	l.readSandbox()
	l.readRunSettings()
	clearanceReader{l}.readClearance()
	applyCeiling(l)
	if err := l.problems.Err(); err != nil {
		return nil, err
	}
	l.project.tree = l.tree
	return l.project, nil
}

// Grant returns the most that the project's workers may get: the mounted files, the
// approval levels, the network, the limits and the depth. The worker files decide about
// tools, workers and credentials.
func (p *Project) Grant() policy.Grant {
	var files []sandbox.Limit
	for _, m := range p.Mounts {
		files = append(files, sandbox.Limit{Path: m.Target, Access: m.Access()})
	}
	level, _ := policy.ParseLevel(p.Level)
	return policy.Grant{
		Files:       policy.AllFiles().With(files...),
		Approvals:   p.approvals(),
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

// Jail returns the policy of a jail that shows no directory, with the level that the project
// requires.
func (p *Project) Jail() jail.Policy {
	least, _ := jail.ParseLevel(p.Level) // an unknown level is the strongest
	return jail.Policy{Least: least, Runsc: p.Ceiling.Runsc()}
}

// Overlay is the mode of a mount whose changes stay in the session's overlay.
const Overlay = "overlay"

// Sandbox opens the mounts. The function layer provides the backend and the access of a
// mount with the mode Overlay. An error names the target and the line that wrote it.
func (p *Project) Sandbox(layer func(Mount) (sandbox.Mount, error)) (*sandbox.Sandbox, error) {
	c := sandbox.Config{Protect: p.Protect, ProtectContent: p.protectWorkers()}
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

// Isolated returns the project with an overlay over each mount that is writable. A
// session of it changes no file of the user.
func (p *Project) Isolated() *Project {
	isolated := *p
	isolated.Mounts = slices.Clone(p.Mounts)
	for i, m := range isolated.Mounts {
		if m.Access() >= sandbox.ReadWrite {
			isolated.Mounts[i].Mode = Overlay
		}
	}
	return &isolated
}

// Layered reports whether changes at a name stay in an overlay.
func (p *Project) Layered(name string) bool {
	i := p.mountOf(name)
	return i >= 0 && p.Mounts[i].Mode == Overlay
}

// Access returns the access that the mode allows. An unknown mode allows nothing.
func (m Mount) Access() sandbox.Access {
	if m.Mode == Overlay {
		return sandbox.ReadWrite
	}
	access, _ := sandbox.ParseAccess(m.Mode)
	return access
}

// Credential returns the credential with a name: the user's own before that of the
// project.
func (p *Project) Credential(name string) (Credential, bool) {
	i := slices.IndexFunc(p.Credentials, func(c Credential) bool { return c.Name == name })
	if i < 0 {
		return Credential{}, false
	}
	return p.Credentials[i], true
}
