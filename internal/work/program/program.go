package program

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/internal/work/workerfile"
	"github.com/golem-forge/golem/sandbox"
)

// Options are what a front knows about the user's wishes and about the machine.
type Options struct {
	Dir       string                            // the program, or a directory in it
	Entry     string                            // the entry worker; "" for that of calltree.FindEntry
	State     string                            // where all state is kept; "" for golem in StateHome
	States    []string                          // more directories with golem's state; golem mounts none of them
	StateHome string                            // the user's state directory
	Home      string                            // the user's home, for ~
	Homes     []string                          // all directories that may be the user's home; golem mounts none of them
	Configs   []string                          // the directories of golem's configuration; golem mounts none of them
	Config    string                            // the user's configuration; "" for none
	Environ   []string                          // NAME=value
	Secret    func(name string) (string, error) // returns a secret of the user, or keyring.ErrNotFound
	Login     func(name string) (string, error) // returns a login of the user at an MCP server, or keyring.ErrNotFound; nil for none
	KeepLogin func(name, value string) error    // stores such a login; nil if golem may not
	Settings  []project.Setting
	Text      []byte                 // read in place of the project file, to check a change; nil for the file
	Hosts     []policy.HostRule      // that the user adds to the hosts of the program
	Presets   []string               // sets of hosts that the user adds
	Agent     project.Agent          // the program that the user runs, if it has a profile
	User      profile.User           // the person, for the profiles of the program
	Profiles  bool                   // read the profiles of a directory without a program, too
	Trust     string                 // the hash of content that the user trusts for this call
	Job       func(host string) bool // the hosts that may have a private address, if the program is somebody else's job; nil for the user's own
	Now       func() time.Time
	Hooks     tool.Hooks               // look at the calls of workers before their own hooks; may be nil
	OnRecover func(session.Recovery)   // see session.Store; nil for none
	OnPending func(state sandbox.Host) // is called after a call of the program with this state began to wait; nil for none

	// For a process that looks at the same sessions again and again, nil for others.
	Examined  *session.Examined
	Histories *storage.Histories
}

// A Program is a directory with a project file and workers, loaded and connected.
type Program struct {
	Project *project.Project
	Workers []*worker.Worker // ordered by name
	Entry   *worker.Worker   // nil if there is no worker, or if CheckEntry returns an error
	Content trust.Content    // what the user is asked to trust
	Storage storage.Storage  // what golem keeps for the program

	options    Options
	root       string
	complete   bool  // all worker files could be read
	noEntry    error // why none of several workers is the entry worker
	toolFiles  trust.ToolFiles
	profiles   profile.Repository
	presets    []network.Preset    // those of the project
	scanBudget func() *scan.Budget // shared by all scanners of this process
	plain      *project.Project    // the project without the overlays that isolation added to Project; nil if it added none
}

// newProgram returns a program without content. Its state is in a directory with this suffix.
func newProgram(o Options, root, suffix string) (*Program, error) {
	p := &Program{options: o, root: root, scanBudget: sync.OnceValue(scan.NewBudget)}
	p.Storage = storage.Storage{Base: o.StateBase(), Histories: o.Histories, Sessions: session.Sessions{
		State: filepath.Join(o.StateBase(), inventory.StateName(root)+suffix), Root: root, Now: o.Now, Examined: o.Examined, OnRecover: o.OnRecover}}
	return p, inventory.Check(p.Storage.Sessions.State)
}

// bindStorage tells the storage what was read. Remembered approvals are bound to a hash of the
// content of the program and of the effect of flags and environment on its mounts and rules,
// and to the other flags that change what a call may do.
// The hash does not cover the approval mode, nor where the program is: the same program may
// continue in another directory or on another machine.
func (p *Program) bindStorage() {
	p.Storage.Sessions.Project = p.Project
	p.Storage.Sessions.Ignored = func(dir string, names []string) (map[string]string, bool, error) {
		return p.hostEnv().Ignored(context.Background(), dir, names)
	}
	p.Storage.Sessions.OwnIgnored = func() []string {
		if trusted, err := p.IsTrusted(); p.Project == nil || err != nil || !trusted {
			return nil
		}
		return p.Project.IgnoredDirs
	}
	if p.Project == nil {
		return
	}
	h, rules := sha256.New(), p.Project
	within := func(dir sandbox.Host) string {
		if rel, err := filepath.Rel(p.root, string(dir)); err == nil && filepath.IsLocal(rel) {
			return rel
		}
		return string(dir)
	}
	fmt.Fprintln(h, p.Content.Hash)
	if p.IsDefault() { // another version of golem may have another one
		fmt.Fprintf(h, "worker %q\n", p.Entry.Content)
	}
	for _, m := range rules.Mounts {
		fmt.Fprintf(h, "mount %q %q %q %s %q %d\n", m.Target, within(m.Base), within(m.Source), m.Mode, m.Suffixes, m.MaxFileBytes)
	}
	for _, r := range rules.Rules {
		fmt.Fprintf(h, "rule %v %q %v\n", r.Verb, r.Target, r.Approval)
	}
	fmt.Fprintf(h, "protect %q network %v fetch %v\n", rules.Protect, rules.Network.Patterns(), rules.Fetch.Patterns())
	for _, s := range p.options.Settings {
		if !slices.Contains(harmlessKeys, s.Keys[0]) && (s.Keys[0] != "sandbox" || s.Keys[len(s.Keys)-1] == "require_os_sandbox") {
			fmt.Fprintf(h, "set %q %q\n", s.Keys, fmt.Sprint(s.Value.Value()))
		}
	}
	p.Storage.Policy, p.Storage.UnseenOff = hex.EncodeToString(h.Sum(nil)), unseenOff(rules.Ceiling)
}

// harmlessKeys are the settings that do not change what an approved call may do. Mounts and
// rules, which are below sandbox, are in the hash by their effect.
var harmlessKeys = []string{"model", "summary_model", "fallback_models", "effort", "temperature", "max_answer_tokens", "show_thinking", "model_server",
	"approval", "delegation", "ignored_without_git", "worker_paths", "budget", "commit", "limits"}

// Load reads the program that a directory belongs to. It returns all problems with its
// files at once, as strictyaml.Problems, together with the parts that could be read.
func Load(o Options) (*Program, error) {
	root, file, err := project.Find(o.Dir)
	if err != nil {
		return nil, err
	}
	p, err := newProgram(o, root, "")
	if err != nil {
		return nil, err
	}
	var problems strictyaml.Problems
	note := func(err error) error {
		var found strictyaml.Problems
		if errors.As(err, &found) {
			problems = append(problems, found...)
			return nil
		}
		return err
	}
	var data []byte
	switch {
	case o.Text != nil:
		file, data = cmp.Or(file, project.File), o.Text
	case file != "":
		if data, err = project.ReadFile(root, file, strictyaml.MaxFile); err != nil {
			return nil, readError(file, err)
		}
	}
	if err := note(p.readProject(file, data, o.Settings)); err != nil {
		return nil, err
	}
	paths := project.DefaultWorkerPaths()
	if p.Project != nil {
		paths = p.Project.WorkerPaths
	}
	p.Workers, err = worker.Discover(root, paths, toolNames())
	p.complete = err == nil
	if err := note(err); err != nil {
		return nil, err
	}
	problems = append(problems, ignoredWorkers(o.Dir, root, p.Workers)...)
	if len(problems) == 0 && p.complete && (file != "" || len(p.Workers) > 0) {
		problems = append(problems, worker.FindUnread(root, paths, p.Workers)...)
	}
	if file == "" && len(p.Workers) == 0 && len(o.Settings) == 0 && o.Entry == "" { // there is no program to check
		p.bindStorage()
		return p, problems.Err()
	}
	var missing strictyaml.Problems
	p.toolFiles, missing = trust.ReadToolFiles(root, p.Workers)
	problems = append(problems, missing...)
	if p.profiles, err = readProfiles(root); err != nil {
		return nil, err
	}
	p.Content = trust.NewContent(file, data, p.Workers, p.toolFiles, p.profiles)
	if p.Content.Size() > trust.MaxContent {
		return nil, strictyaml.Problems{{Place: strictyaml.Place{Source: root}, What: "the files of the workers are too large in all",
			Hint: "at most 16 MiB in all are allowed"}}
	}
	if p.Entry, p.noEntry = calltree.FindEntry(p.Workers, o.Entry); p.noEntry != nil && o.Entry != "" && len(problems) == 0 {
		p.bindStorage()
		return p, p.noEntry
	}
	if file == "" && p.Entry != nil && p.Entry.Sandbox.Kind == worker.Paths {
		settings := append([]project.Setting{pathsOf(p.Entry)}, o.Settings...)
		if err := note(p.readProject(file, data, settings)); err != nil {
			return nil, err
		}
	}
	if p.Project != nil {
		p.Targets().ProtectAll()
		p.Targets().ProtectWorkers()
		problems = append(problems, p.calls().Lint()...)
		problems = append(problems, p.foreign().Lint()...)
		problems = append(problems, p.Targets().Lint()...)
	}
	p.bindStorage()
	return p, problems.Err()
}

// ignoredWorkers returns a problem for a main.worker, or a file that was meant as one, between
// the directory of the user and a program without one. The program would have only the limits
// of its project file, or of another worker.
func ignoredWorkers(dir, root string, read []*worker.Worker) (problems strictyaml.Problems) {
	at, err := filepath.Abs(dir)
	if err != nil || slices.ContainsFunc(read, func(w *worker.Worker) bool { return worker.Stem(path.Base(w.File)) == "main" }) {
		return nil
	}
	for ; at != root && at != filepath.Dir(at); at = filepath.Dir(at) {
		rel, err := filepath.Rel(root, at)
		entries, _ := os.ReadDir(at)
		for _, e := range entries {
			if err != nil || e.IsDir() || e.Name() != project.EntryWorker && !workerfile.IsNearMain(e.Name()) {
				continue
			}
			shown := sandbox.Shown(filepath.ToSlash(rel))
			problems.Note(strictyaml.Problem{Place: strictyaml.Place{Source: workerfile.Shown(filepath.ToSlash(filepath.Join(rel, e.Name())))}, What: "this worker is not read, and the program has no other",
				Hint: "write worker_paths: [" + shown + "] in the project file above it, or a project file next to it"})
		}
	}
	return problems
}

// IsOnlyExcess reports whether every problem of Load is a worker that asks for too much. The
// gate refuses only such workers, and the rest of the program works.
func IsOnlyExcess(err error) bool {
	var problems strictyaml.Problems
	return errors.As(err, &problems) && !slices.ContainsFunc(problems, func(p strictyaml.Problem) bool {
		return !errors.Is(p, sandbox.ErrExceedsParent)
	})
}

func (p *Program) readProject(file string, data []byte, settings []project.Setting) (err error) {
	env := p.options.projectEnv()
	if env.Ceiling, err = p.options.ceiling(); err != nil {
		return err
	}
	if p.Project, err = project.Parse(p.root, file, data, env, settings); err != nil {
		return err
	}
	if p.presets == nil && len(p.Project.Presets) > 0 { // otherwise the project is read again
		p.presets = p.FindPresets(context.Background(), p.Project.Presets)
	}
	return network.AddPresets(p.Project, p.presets, p.options.Presets).Err()
}

// FindPresets returns presets with the hosts that they have on this machine.
func (p *Program) FindPresets(ctx context.Context, names []string) []network.Preset {
	return network.FindPresets(ctx, names, p.hostEnv().Safe(), p.Storage.Base)
}

// projectEnv returns what a project file may refer to, and the directories that no mount
// may show.
func (o Options) projectEnv() project.Env {
	env := project.Env{Home: o.Home, State: o.StateBase(), States: slices.Clone(o.States), Configs: o.Configs, Homes: o.Homes, Hosts: o.Hosts, Presets: o.Presets, Agent: o.Agent}
	if usual := filepath.Join(o.StateHome, "golem"); o.StateHome != "" && exists(usual) {
		env.States = append(env.States, usual)
	}
	return env
}

// pathsOf returns the paths of an entry worker, as llm-do writes them, as a setting of
// the project. They apply if there is no project file.
func pathsOf(w *worker.Worker) project.Setting {
	paths := strictyaml.Node{Place: w.Sandbox.Place, Kind: strictyaml.Map}
	for _, path := range w.Sandbox.Paths {
		word := func(text string) strictyaml.Node {
			return strictyaml.Node{Place: path.Place, Kind: strictyaml.Scalar, Text: text}
		}
		each := strictyaml.Node{Place: path.Place, Kind: strictyaml.Map}
		each = each.Set([]string{"root"}, word(path.Root)).Set([]string{"mode"}, word(path.Access.String()))
		if path.MaxFileBytes > 0 {
			each = each.Set([]string{"max_file_bytes"}, word(strconv.FormatInt(path.MaxFileBytes, 10)))
		}
		if len(path.Suffixes) > 0 {
			suffixes := strictyaml.Node{Place: path.Place, Kind: strictyaml.List}
			for _, suffix := range path.Suffixes {
				suffixes.Items = append(suffixes.Items, word(suffix))
			}
			each = each.Set([]string{"suffixes"}, suffixes)
		}
		paths = paths.Set([]string{path.Name}, each)
	}
	return project.Setting{Keys: []string{"sandbox", "paths"}, Value: paths}
}

func readError(file string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return strictyaml.Problems{{Place: strictyaml.Place{Source: file}, What: err.Error(), Hint: "it must be a file that you can read"}}
}

// Root returns the program's directory, to be shown to the user.
func (p *Program) Root() sandbox.Host { return sandbox.Host(p.root) }

// CheckEntry returns an error if the program has workers and none of them is the entry
// worker. Then no command acts for the program: it would have the rights of the whole
// project, without the limits of any worker.
func (p *Program) CheckEntry() error { return p.noEntry }

// EntryProblems returns the error of CheckEntry as a problem of the program's files.
func (p *Program) EntryProblems() (problems strictyaml.Problems) {
	var wrong *sandbox.Error
	if errors.As(p.noEntry, &wrong) {
		problems.Note(strictyaml.Problem{Place: strictyaml.Place{Source: project.EntryWorker}, What: "not found", Hint: wrong.Hint})
	}
	return problems
}

// IsDefault reports whether a program has only the default worker.
func (p *Program) IsDefault() bool { return p.Entry != nil && p.Entry.File == defaultFile }

// Worker returns the worker with a name, nil if there is none.
func (p *Program) Worker(name string) *worker.Worker { return calltree.Named(p.Workers, name) }

// StateBase returns the directory with the state of all programs.
func (o Options) StateBase() string {
	if o.State != "" {
		return o.State
	}
	return filepath.Join(o.StateHome, "golem")
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
