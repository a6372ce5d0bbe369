// Package golem runs commands of AI workers for a program: in a jail, over a directory that
// they cannot change. What a command has changed waits in a workspace. A person looks at it,
// and what they saw is applied, bit for bit.
//
//	ws, err := golem.Open("./repo", golem.Options{State: "./state"})
//	out, err := ws.Exec(ctx, golem.Command{Args: []string{"go", "test", "./..."}})
//	changes, err := ws.Changes(ctx)
//	view := changes.Request().Render(80, 24) // show every page to somebody
//	seen, err := view.Seen()
//	err = ws.Apply(ctx, changes, seen.Approve("ann"))
//
// The package starts the program again for each process of a jail. Such a process ends while
// the package is initialised, so main does not run in it. The init functions of packages that Go
// initialises before this one do: they should have no effect outside the process.
//
// Package [github.com/golem-forge/golem/gate] decides about the calls of tools, and package
// [github.com/golem-forge/golem/sandbox] gives access to files. The jail needs Linux. On other
// systems, and where the kernel offers no confinement, Exec returns an error.
package golem

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	_ "github.com/golem-forge/golem/internal/files/part" // processes of a jail end here
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/records/keyring"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/internal/work/toolset/shell"
	"github.com/golem-forge/golem/sandbox"
)

// Main ends a process that golem has started for a jail. Importing the package does the same,
// before main begins, so a program need not call it.
func Main() {}

// Options are what a program knows about its user and its machine. golem reads neither the
// environment nor the user's configuration by itself.
type Options struct {
	// State is the directory in which golem keeps workspaces, their changes and the journal. It
	// must not be in a directory that a workspace shows.
	State string
	// Session continues an earlier workspace over the same directory: see [Workspace.ID].
	Session string
	// Home is the user's home directory, which no workspace may show as a whole; "" if there
	// is none.
	Home string
	// Path lists the directories in which commands find programs, as PATH does; "" for those of
	// the system.
	Path string
	// Key seals what is stored of requests: see [gate.Gate].
	Key []byte
	// Approver decides about the calls of workers; nil to let them wait: see
	// [Runtime.Requests]. ModelName is a model such as "anthropic:NAME", and Model is one of
	// the program's own, which comes first. Secret returns the keys of vendors by their names.
	Approver  gate.Approver
	ModelName string
	Model     Model
	Secret    func(name string) (string, error)
	// Before and After look at the calls of workers in a run: see [gate.Gate].
	Before func(ctx context.Context, c gate.Call) error
	After  func(ctx context.Context, c gate.Call, r gate.Result) error
	// Budget limits a run, besides the limits of its worker files. Zero is no limit.
	Budget Budget
	// Trust is the hash of the program that the user trusts: see [Load].
	Trust string
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// A Budget limits a run over all its workers. Zero is no limit.
type Budget struct {
	Turns   int64 // answers of models
	Tokens  int64
	Dollars float64
	Time    time.Duration
}

// complete checks the options, and fills in what they leave out.
func (o Options) complete(dir string) (Options, error) {
	if o.State == "" {
		return o, &sandbox.Error{Op: "open", Path: dir, Code: sandbox.ErrInvalid, Hint: "set Options.State to a directory for golem's state"}
	}
	if len(o.Key) > 0 && len(o.Key) < 16 {
		return o, &sandbox.Error{Op: "open", Path: dir, Code: gate.ErrSeal, Hint: "Options.Key has fewer than 16 bytes"}
	}
	if b := o.Budget; b.Turns < 0 || b.Tokens < 0 || b.Time < 0 || !(b.Dollars >= 0) {
		return o, &sandbox.Error{Op: "open", Path: dir, Code: sandbox.ErrInvalid, Hint: "Options.Budget has a negative limit; zero is no limit"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var err error
	o.State, err = filepath.Abs(o.State)
	return o, err
}

// program returns the options as package program has them.
func (o Options) program(dir string) program.Options {
	return program.Options{Dir: dir, State: o.State, Home: o.Home, Trust: o.Trust, Now: o.Now, Secret: o.secret, Hooks: gate.Hooks(o.Before, o.After)}
}

// use uses up a request: it counts once, for all processes with this state.
func (o Options) use(request string) error {
	folder, err := state.Open(filepath.Join(o.State, "embed"))
	if err != nil {
		return err
	}
	defer folder.Close()
	used, err := folder.Once("resumed")
	if err != nil {
		return err
	}
	_, first, err := used.Decide(request, nil)
	if err == nil && !first {
		err = &sandbox.Error{Op: "resume", Path: request, Code: gate.ErrUsed, Hint: "these changes were decided about before; list the changes again, and ask again"}
	}
	return err
}

// secret returns a secret by its name.
func (o Options) secret(name string) (string, error) {
	if o.Secret == nil {
		return "", keyring.ErrNotFound
	}
	return o.Secret(name)
}

// FromEnvironment returns options that keep the state where the golem command keeps it, and find
// programs where the user's shell finds them.
func FromEnvironment() Options {
	home, _ := os.UserHomeDir()
	state := os.Getenv("GOLEM_STATE")
	if above := os.Getenv("XDG_STATE_HOME"); state == "" && filepath.IsAbs(above) {
		state = filepath.Join(above, "golem")
	} else if state == "" {
		state = filepath.Join(home, ".local", "state", "golem")
	}
	return Options{State: state, Home: home, Path: os.Getenv("PATH")}
}

// A Workspace is a session over a directory: commands see the directory and change a layer over
// it. Many goroutines may use a workspace, and one command runs at a time.
type Workspace struct {
	options Options
	dir     string
	turn    chan struct{} // holds a value while a command or a call uses the session
	mu      sync.Mutex
	id      string
}

// Open returns a workspace over a directory. Nothing is made before the first command.
func Open(dir string, o Options) (w *Workspace, err error) {
	defer code("open", &err)
	o, err = o.complete(dir)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	w = &Workspace{options: o, dir: abs, turn: make(chan struct{}, 1), id: o.Session}
	p, err := w.load(Off)
	if err != nil {
		return nil, err
	}
	if o.Session != "" {
		one, err := p.Storage.Sessions.Find(o.Session)
		if err != nil {
			return nil, err
		}
		if one.ID != o.Session {
			return nil, &sandbox.Error{Op: "open", Path: o.Session, Code: sandbox.ErrNotFound, Hint: "Options.Session is the whole name of a session, as Workspace.ID returns it"}
		}
	}
	return w, nil
}

// code gives an error a code, if it has none.
func code(op string, err *error) {
	var known *sandbox.Error
	if *err == nil {
		return
	}
	if errors.As(*err, &known) {
		if known.Error() == (*err).Error() {
			*err = known
		}
		return
	}
	known = &sandbox.Error{Op: op, Code: sandbox.CodeOf(*err), Hint: (*err).Error()}
	var ofModel *model.Error
	switch {
	case errors.As(*err, &ofModel):
		known.Code = sandbox.Code(ofModel.Class)
	case errors.Is(*err, fs.ErrNotExist):
		known.Code = sandbox.ErrNotFound
	}
	*err = known
}

// orBackground returns ctx, or one without an end if it is nil.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// begin waits for its turn with the session, until ctx ends.
func (w *Workspace) begin(ctx context.Context) (end func(), err error) {
	if w == nil || w.turn == nil {
		return nil, &sandbox.Error{Op: "workspace", Code: sandbox.ErrInvalid, Hint: "this is no workspace; use golem.Open"}
	}
	select {
	case w.turn <- struct{}{}:
		return func() { <-w.turn }, nil
	case <-ctx.Done():
		return nil, &sandbox.Error{Op: "wait", Code: "timeout", Hint: "another command or call uses the workspace; nothing was done"}
	}
}

func (w *Workspace) setID(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.id = id
}

// ID returns the name of the workspace's session, for [Options] and the golem command; "" before
// the first command.
func (w *Workspace) ID() string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id
}

// Network is what a command can reach: Off, AllHosts, or what [Hosts] returns.
type Network string

// The networks without and with every host. Off does not even reach the machine itself.
const (
	Off      Network = ""
	AllHosts Network = "true"
)

// Hosts returns the network that reaches only these hosts: names, addresses, "*.example.com",
// each with ":PORT" if it is not the port of HTTP or HTTPS.
func Hosts(names ...string) Network {
	value, _ := json.Marshal(names) // strings always have a form in JSON
	return Network(value)
}

// A Command is a program to run in the jail.
type Command struct {
	Args []string // the program and its arguments
	Env  []string // NAME=value; nothing else is passed on
	Net  Network
	In   []byte // standard input
	// Out, if not nil, gets both output streams as they arrive. The result has them, too.
	Out io.Writer
}

// check returns an error for a command that no system can run.
func (c Command) check() error {
	wrong := func(why string) error {
		return &sandbox.Error{Op: "exec", Code: sandbox.ErrInvalid, Hint: why}
	}
	if len(c.Args) == 0 {
		return wrong("Command.Args has no program")
	}
	for _, text := range c.Args {
		if strings.ContainsRune(text, 0) {
			return wrong("Command.Args has a NUL")
		}
	}
	for _, text := range c.Env {
		if name, _, ok := strings.Cut(text, "="); !ok || name == "" || strings.ContainsRune(text, 0) {
			return wrong("Command.Env has " + sandbox.Shown(text) + "; write NAME=value, without NUL")
		}
	}
	return nil
}

// An Output is the result of a command.
type Output struct {
	Code           int    // the exit code; 128 plus the number of the signal that ended it
	Stdout, Stderr string // of a long stream the beginning and the end
	Cut            bool   // a stream was longer
	Stopped        bool   // ctx or a time limit ended the command
	Took           time.Duration
	Jail           string // how the command was confined
}

// Exec runs a command in the jail. A command that fails is no error: see [Output].
func (w *Workspace) Exec(ctx context.Context, c Command) (out Output, err error) {
	defer code("exec", &err)
	ctx = orBackground(ctx)
	if err := c.check(); err != nil {
		return Output{}, err
	}
	end, err := w.begin(ctx)
	if err != nil {
		return Output{}, err
	}
	defer end()
	p, err := w.load(c.Net)
	if err != nil {
		return Output{}, err
	}
	settings, err := profile.User{Getenv: func(string) string { return "" }}.ProfileFor(profile.Plain, c.Args[0])
	if err != nil {
		return Output{}, err
	}
	x := &session.Exec{Command: c.Args[0], Profile: settings, Env: c.Env, Dir: w.dir, Path: cmp.Or(w.options.Path, jail.Path)}
	x.Attach = func(ctx context.Context, s *jail.Jail, one jail.Command) (jail.Result, error) {
		one.Input = c.In
		if c.Out != nil {
			one.OnOutput = func(data []byte) {
				defer func() { recover() }() // a broken writer ends neither the command nor the program
				c.Out.Write(data)
			}
		}
		return s.Run(ctx, one)
	}
	id := cmp.Or(w.ID(), session.New)
	opened, err := p.OpenWorker(program.WorkerOptions{Session: id, Exec: x, Tools: []string{}})
	if err != nil {
		return Output{}, err
	}
	w.setID(opened.Session.ID)
	call, err := tool.NewCall(shell.ExecArgs{Command: c.Args})
	if err != nil {
		return Output{}, errors.Join(err, opened.Close())
	}
	r := opened.Do(ctx, policy.User, call)
	ran, began := r.Data.(jail.Result)
	err = opened.Close()
	if r.Err != nil && !began {
		return Output{}, errors.Join(r.Err, err)
	}
	out = Output{Code: ran.Code, Stopped: ran.Stopped || ran.Late, Took: ran.Took, Jail: ran.Level.String()}
	var hidden [2]int64
	out.Stdout, hidden[0] = ran.Stdout.Text()
	out.Stderr, hidden[1] = ran.Stderr.Text()
	out.Cut = hidden[0]+hidden[1] > 0
	return out, err
}

// Changes are what the commands of a workspace have changed and nobody has applied, or some of
// it. They are a request: a person decides about exactly these changes.
type Changes struct {
	workspace *Workspace
	pending   *gate.Pending
	err       error
}

// Changes returns what waits in the workspace. With names, it is only these files and
// directories, such as "/main.go". If nothing waits, [Changes.Files] is empty.
func (w *Workspace) Changes(ctx context.Context, names ...string) (Changes, error) {
	return w.changes(ctx, settle.ApplyArgs{Paths: names})
}

// changes returns what a call would apply.
func (w *Workspace) changes(ctx context.Context, args settle.ApplyArgs) (_ Changes, err error) {
	defer code("changes", &err)
	r, err := w.settle(ctx, args, false, func(g gate.Gate, call gate.Call) gate.Result {
		return g.Do(ctx, gate.User, call)
	})
	switch {
	case err != nil:
		return Changes{}, err
	case r.Err != nil && r.Pending == nil && (r.Err.Code != sandbox.ErrNotFound || len(args.Paths)+len(args.Hunks) > 0):
		return Changes{}, r.Err
	}
	return Changes{workspace: w, pending: r.Pending}, nil
}

// Pick returns the changes of some files and directories, such as "main.go". They are a request
// of their own. If they cannot be had, Err says why, and Apply refuses them.
func (c Changes) Pick(names ...string) Changes {
	return c.pick(settle.ApplyArgs{Paths: names}, strings.Join(names, ", "), len(names))
}

// pick returns the changes that a call would apply, with what it names and how many.
func (c Changes) pick(args settle.ApplyArgs, names string, count int) Changes {
	if c.pending == nil || count == 0 {
		return Changes{err: cmp.Or(c.err, error(&sandbox.Error{Op: "pick", Code: sandbox.ErrNotFound, Hint: "there are no changes, or nothing to pick"}))}
	}
	picked, err := c.workspace.changes(context.Background(), args)
	if err == nil && picked.pending == nil {
		err = &sandbox.Error{Op: "pick", Path: names, Code: sandbox.ErrNotFound, Hint: "nothing has changed there; Changes.Files lists what has"}
	}
	picked.err = err
	return picked
}

// PickHunks returns some hunks of a file. The first hunk of its diff is number 1. They are a
// request of their own, as with [Changes.Pick].
func (c Changes) PickHunks(name string, numbers ...int) Changes {
	hunks := make([]string, len(numbers))
	for i, n := range numbers {
		hunks[i] = name + ":" + strconv.Itoa(n)
	}
	return c.pick(settle.ApplyArgs{Hunks: hunks}, name, len(numbers))
}

// Err returns why there are no changes after Pick, nil if there are.
func (c Changes) Err() error { return c.err }

// Files returns the changes, the riskiest first.
func (c Changes) Files() []gate.Change {
	if c.pending == nil {
		return nil
	}
	return c.pending.Request().Changes()
}

// Digest returns the hash of the exact changes, "" if there are none.
func (c Changes) Digest() string {
	if c.pending == nil {
		return ""
	}
	return c.pending.Request().Digest()
}

// Request returns the changes as a request, to be rendered and decided about.
func (c Changes) Request() gate.Request {
	if c.pending == nil {
		return gate.Request{}
	}
	return c.pending.Request()
}

// Apply makes the changes in the user's directory, if the decision approves exactly these. If
// the session or the directory has changed meanwhile, it returns an error and applies nothing.
func (w *Workspace) Apply(ctx context.Context, c Changes, d gate.Decision) (err error) {
	defer code("apply", &err)
	if c.err != nil {
		return c.err
	}
	if c.pending == nil || w.ID() == "" {
		return &sandbox.Error{Op: "apply", Code: sandbox.ErrNotFound, Hint: "there are no changes"}
	}
	r, err := w.settle(ctx, settle.ApplyArgs{}, false, func(g gate.Gate, _ gate.Call) gate.Result {
		return g.Resume(ctx, *c.pending, d)
	})
	if err == nil && r.Err != nil {
		err = r.Err
	}
	return err
}

// Undo takes the last applied changes back. The approver is asked about the exact changes. It
// decides at once, and must not use the workspace.
func (w *Workspace) Undo(ctx context.Context, a gate.Approver) (err error) {
	defer code("undo", &err)
	r, err := w.settleBy(ctx, settle.UndoArgs{}, true, a, func(g gate.Gate, call gate.Call) gate.Result {
		return g.Do(ctx, gate.User, call)
	})
	if r.Pending != nil {
		return &sandbox.Error{Op: "undo", Code: gate.ErrDeclined, Hint: "the approver has decided nothing; an undo cannot wait, so decide at once; nothing was done"}
	}
	if err == nil && r.Err != nil {
		err = r.Err
	}
	return err
}

// Remove removes the workspace with everything that was not applied.
func (w *Workspace) Remove() (err error) {
	defer code("remove", &err)
	end, err := w.begin(context.Background())
	if err != nil {
		return err
	}
	defer end()
	if w.ID() == "" {
		return nil
	}
	p, err := w.load(Off)
	if err != nil {
		return err
	}
	one, err := p.Storage.Sessions.Find(w.ID())
	if err != nil {
		return err
	}
	if err := p.Storage.RemoveSession(one, false, nil); err != nil {
		return err
	}
	w.setID("")
	return nil
}

// later is an approver that decides nothing.
type later struct{}

func (later) Approve(_ context.Context, r gate.Request) gate.Decision { return r.Later() }

// settle makes a call that applies or undoes changes, and asks nobody.
func (w *Workspace) settle(ctx context.Context, args tool.Arguments, undo bool, do func(gate.Gate, gate.Call) gate.Result) (gate.Result, error) {
	return w.settleBy(ctx, args, undo, later{}, do)
}

// settleBy is settle with an approver.
func (w *Workspace) settleBy(ctx context.Context, args tool.Arguments, undo bool, a gate.Approver, do func(gate.Gate, gate.Call) gate.Result) (gate.Result, error) {
	ctx = orBackground(ctx)
	end, err := w.begin(ctx)
	if err != nil {
		return gate.Result{}, err
	}
	defer end()
	if w.ID() == "" {
		return gate.Result{Err: &sandbox.Error{Op: "call", Code: sandbox.ErrNotFound, Hint: "the workspace has no session: no command has run in it"}}, nil
	}
	p, err := w.load(Off)
	if err != nil {
		return gate.Result{}, err
	}
	call, err := tool.NewCall(args)
	if err != nil {
		return gate.Result{}, err
	}
	opened, err := p.OpenWorker(program.WorkerOptions{Session: w.ID(), SingleCall: true, Undo: undo, Tools: []string{call.Tool}})
	if err != nil {
		return gate.Result{}, err
	}
	r := do(gate.Over(opened.Gate, a, w.options.Key, w.dir+"\x00"+w.ID(), w.options.use), gate.Call{Tool: call.Tool, Args: call.Args})
	return r, opened.Close()
}

// load returns the program that shows the directory, with a network.
func (w *Workspace) load(net Network) (*program.Program, error) {
	o := w.options.program(w.dir)
	if net != Off {
		setting, err := project.ParseSet("Command.Net", "sandbox.network="+string(net))
		if err != nil {
			return nil, err
		}
		o.Settings = append(o.Settings, setting)
	}
	mounts, err := program.MountsFromFlags(o, nil)
	if err != nil {
		return nil, err
	}
	return program.LoadMounts(o, mounts)
}
