package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

const (
	// hubPatience is how long a HubWatcher waits for the answers of a hub.
	hubPatience = 5 * time.Second
	// hubEvery is how often it asks while somebody looks, and hubSeldom how often otherwise.
	hubEvery, hubSeldom = time.Second, 30 * time.Second
	// hubAtLeast is the time between two looks, even if something has happened.
	hubAtLeast = 200 * time.Millisecond
	// listEvery is how often it asks for all jobs. It asks for those that are not over each time.
	listEvery = 5 * time.Second
	// programsEvery is how often it looks which programs are on this machine.
	programsEvery = 15 * time.Second
	// maxHubJobs is how many jobs it lists.
	maxHubJobs = 200
	// maxNewCalls and maxNewResults are how many calls and results of jobs it reads in one look.
	maxNewCalls, maxNewResults = 50, 10
	// manyJobs is how many jobs that are not over make it ask half as often.
	manyJobs = 200
	// maxJobInput is how many characters of a job's input an item has.
	maxJobInput = 100
	// failedSince is how long a job that failed waits for the user.
	failedSince = 7 * 24 * time.Hour
)

// A HubState is what a hub said last. All its texts are visible text.
type HubState struct {
	Where    string    // the addresses of the hub
	Name     string    // of the user there
	Role     hub.Role  // of the user there
	Problem  string    // why the hub cannot be asked now, and what to do; "" if it answers
	Answered time.Time // when it answered last; zero if it never did
	Items    []Item
	Jobs     []Job // the newest first
	Nodes    []hub.NodeInfo
}

// A HubWatcher asks a hub in the background what waits for the user, and keeps the last answer.
// So no page waits for a hub.
type HubWatcher struct {
	Options     program.Options
	Credentials func() (hub.Credentials, error)
	OnChange    func()      // is called after the state has changed
	IsWatched   func() bool // reports whether somebody looks

	wake chan struct{}

	mu     sync.Mutex
	client *hub.Client
	state  HubState
	looked time.Time

	// Only Watch uses these.
	names    map[string]string // of the users, by key
	all      []hub.Job         // the last list of all jobs
	nodes    []hub.NodeInfo
	listed   time.Time
	reads    int                  // how many calls this look has read
	open     int                  // how many jobs are not over
	active   string               // the last answer about jobs that are not over
	calls    map[string]knownCall // by job and hash
	changes  map[string]int       // how many files a job has changed, by job and checkpoint
	programs []*program.Program
	loaded   time.Time
}

// A knownCall is what an item needs of a call. It never changes.
type knownCall struct {
	title, who string
	host       bool
	assessment assessment
	refused    bool // the user may not decide
}

// NewHubWatcher returns a HubWatcher whose fields the caller sets before Watch.
func NewHubWatcher(o program.Options, credentials func() (hub.Credentials, error)) *HubWatcher {
	return &HubWatcher{Options: o, Credentials: credentials, OnChange: func() {}, IsWatched: func() bool { return true }, wake: make(chan struct{}, 1),
		calls: make(map[string]knownCall), changes: make(map[string]int)}
}

// State returns what the hub said last. It never waits.
func (w *HubWatcher) State() HubState {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Options.Now().Sub(w.looked) > hubEvery {
		w.Look()
	}
	return w.state
}

// Look makes Watch ask the hub soon.
func (w *HubWatcher) Look() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Settle removes an item that the user has dealt with, and makes Watch ask the hub soon.
func (w *HubWatcher) Settle(job, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Items = slices.DeleteFunc(slices.Clone(w.state.Items), func(i Item) bool { return i.Job == job && i.ID == id })
	w.Look()
}

// Client returns the connection to the hub, or an error if there is none now.
func (w *HubWatcher) Client() (*hub.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client != nil && w.client.IsConnected() {
		return w.client, nil
	}
	return nil, &sandbox.Error{Op: "hub", Code: sandbox.ErrInternal, Hint: cmp.Or(w.state.Problem, "golem connects to the hub; try again in a moment")}
}

// Watch asks the hub again and again until ctx ends.
func (w *HubWatcher) Watch(ctx context.Context) {
	defer w.drop()
	for ctx.Err() == nil {
		w.look(ctx)
		rest := time.NewTimer(hubSeldom)
		if w.IsWatched() {
			rest.Reset(min(hubEvery*time.Duration(1+w.open/manyJobs), hubSeldom))
		}
		select {
		case <-ctx.Done():
		case <-rest.C:
		case <-w.wake:
			rest.Reset(hubAtLeast)
			select {
			case <-ctx.Done():
			case <-rest.C:
			}
		}
		rest.Stop()
	}
}

// drop ends the connection.
func (w *HubWatcher) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client != nil {
		w.client.Close()
		w.client = nil
	}
}

// look asks the hub once.
func (w *HubWatcher) look(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	next, err := w.read(limited)
	if hub.IsCode(err, hub.CodeRefused) { // the user may have other credentials now
		w.drop()
	}
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	before := w.state
	if err != nil {
		problem := visible.Line(strings.ReplaceAll(err.Error(), "\n", "; "), 2*maxTitle)
		w.state.Where, w.state.Problem = cmp.Or(next.Where, w.state.Where), problem
	} else {
		next.Answered = w.Options.Now()
		w.state = next
	}
	w.looked = w.Options.Now()
	changed := !isSameState(before, w.state)
	w.mu.Unlock()
	if changed {
		w.OnChange()
	}
}

// isSameState reports whether two states show the same.
func isSameState(a, b HubState) bool {
	a.Answered, b.Answered = time.Time{}, time.Time{}
	a.Nodes, b.Nodes = withoutSeen(a.Nodes), withoutSeen(b.Nodes)
	one, err := json.Marshal(a)
	other, wrong := json.Marshal(b)
	return err == nil && wrong == nil && string(one) == string(other)
}

// withoutSeen returns nodes without the time when the hub heard of them, which changes all the time.
func withoutSeen(list []hub.NodeInfo) []hub.NodeInfo {
	list = slices.Clone(list)
	for i := range list {
		list[i].Seen = time.Time{}
	}
	return list
}

// readNodes returns the nodes of a hub. An older hub lists none.
func readNodes(ctx context.Context, c *hub.Client) ([]hub.NodeInfo, error) {
	list, err := c.Nodes(ctx)
	if hub.IsCode(err, hub.CodeInvalid) {
		return nil, nil
	}
	for i, n := range list {
		list[i].Name, list[i].Version = visible.Line(n.Name, maxWhat), visible.Line(n.Version, maxWhat)
		for j, l := range n.Labels {
			list[i].Labels[j] = visible.Line(l, maxWhat)
		}
	}
	return list, err
}

// connected returns the connection, and makes it if there is none.
func (w *HubWatcher) connected(ctx context.Context) (c *hub.Client, where string, err error) {
	w.mu.Lock()
	c = w.client
	w.mu.Unlock()
	if c != nil {
		where = visible.Line(strings.Join(c.URLs, ", "), maxTitle)
		if !c.IsConnected() {
			return nil, where, fmt.Errorf("the hub at %s does not answer; check that golem hub runs there; golem connects again by itself", where)
		}
		return c, where, nil
	}
	credentials, err := w.Credentials()
	if err != nil {
		return nil, "", err
	}
	where = visible.Line(strings.Join(credentials.URLs, ", "), maxTitle)
	c, err = hub.Connect(ctx, credentials, hub.Options{Once: true, OnChange: func(string) { w.Look() }})
	if err != nil {
		return nil, where, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.client, w.names, w.active, w.listed = c, nil, "", time.Time{}
	return c, where, nil
}

// read asks the hub what there is now.
func (w *HubWatcher) read(ctx context.Context) (s HubState, err error) {
	c, where, err := w.connected(ctx)
	s.Where = where
	if err != nil {
		return s, err
	}
	s.Name, s.Role = visible.Line(c.Name, maxWhat), c.Role
	jobs, err := w.readJobs(ctx, c)
	if err != nil {
		return s, err
	}
	s.Nodes = w.nodes
	for _, j := range jobs {
		s.Jobs = append(s.Jobs, NewJob(c, j, w.names))
	}
	w.reads = 0
	for _, one := range waitingCallsOf(jobs) {
		if item, ok := w.callItem(ctx, c, one); ok {
			s.Items = append(s.Items, item)
		}
	}
	s.Items = append(s.Items, w.jobItems(ctx, c, jobs)...)
	sortItems(s.Items)
	return s, nil
}

// readJobs returns the jobs that the user may see, the newest first: all that are not over, and
// the newest others.
func (w *HubWatcher) readJobs(ctx context.Context, c *hub.Client) ([]hub.Job, error) {
	open, err := c.Jobs(ctx, hub.Filter{States: []hub.State{hub.Running, hub.Waiting, hub.InDoubt}})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(open)
	if err != nil {
		return nil, err
	}
	now := w.Options.Now()
	w.open = len(open)
	if w.active != string(text) || now.Sub(w.listed) > listEvery || now.Before(w.listed) {
		all, err := c.Jobs(ctx, hub.Filter{Most: maxHubJobs})
		if err != nil {
			return nil, err
		}
		if w.names, err = UserNames(ctx, c); err != nil {
			return nil, err
		}
		if w.nodes, err = readNodes(ctx, c); err != nil {
			return nil, err
		}
		w.all, w.active, w.listed = all, string(text), now
	}
	jobs := slices.Clone(open)
	for _, j := range w.all {
		if !slices.ContainsFunc(open, func(o hub.Job) bool { return o.ID == j.ID }) {
			jobs = append(jobs, j)
		}
	}
	slices.SortStableFunc(jobs, func(a, b hub.Job) int { return b.Created.Compare(a.Created) })
	return jobs, nil
}

// callItem returns a call that waits for the user as an item. ok is false if the user may not
// decide about it.
func (w *HubWatcher) callItem(ctx context.Context, c *hub.Client, one HubCall) (item Item, ok bool) {
	if c.Role != hub.Approve {
		return item, false
	}
	key := one.Job.ID + " " + one.ID + " " + one.Hash
	known, ok := w.calls[key]
	if !ok {
		w.reads++
	}
	if !ok && w.reads > maxNewCalls {
		known.title = visible.Line(one.Tool, maxTitle)
		known.assessment.add(High, "golem has not read it yet")
	} else if !ok {
		var err error
		if known, err = readKnownCall(ctx, c, w.Options, one); err == nil {
			if len(w.calls) > maxAssessed {
				clear(w.calls)
			}
			w.calls[key] = known
		}
	}
	item = Item{Kind: KindCall, Tool: sandbox.Shown(one.Tool), Program: HubKey(c), Directory: jobPlace(one.Job), Job: one.Job.ID, ID: one.ID, Title: known.title, Who: known.who, Since: one.Since, Risk: known.assessment.risk, Reasons: known.assessment.reasons}
	if known.host {
		item.Kind = KindHost
	}
	return item, !known.refused
}

// readKnownCall reads what an item needs of a call.
func readKnownCall(ctx context.Context, c *hub.Client, o program.Options, one HubCall) (known knownCall, err error) {
	whole, request, err := ReadHubCall(ctx, c, o, one.Job.ID, one.ID)
	if err != nil || whole.Hash != one.Hash {
		known.title = visible.Line(one.Tool, maxTitle)
		known.assessment.add(High, "golem cannot read it: "+visible.Line(fmt.Sprint(err), maxProblem))
		return known, cmp.Or(err, error(sandbox.ErrConflict))
	}
	known = knownCall{title: callTitle(request.Tool, request.Summary, visible.Each(request.Effects, policy.Effect.String)), who: workersText(request.Workers), host: request.Tool == tool.ConnectTool, assessment: assessRequest(request)}
	known.refused = CheckHubApprover(ctx, c, whole) != nil
	return known, nil
}

// jobPlace says where a call or a result comes from.
func jobPlace(j hub.Job) string {
	return "job " + visible.Line(j.ID, maxWhat) + " of " + visible.Line(j.Name, maxWhat)
}

// jobItems returns the jobs that the user has to look at: those in doubt, failed ones, and finished
// ones whose changes are not here.
func (w *HubWatcher) jobItems(ctx context.Context, c *hub.Client, jobs []hub.Job) (items []Item) {
	reads := 0
	for _, j := range jobs {
		if j.User != c.Key && c.Role != hub.Admin || visible.Name(j.ID) != j.ID {
			continue
		}
		item := Item{Kind: KindJob, Program: HubKey(c), Directory: jobPlace(j), Job: j.ID, ID: j.ID, Who: visible.Line(j.Input, maxJobInput), Since: j.Changed}
		switch {
		case j.State == hub.InDoubt:
			item.Risk, item.Title = High, "a job is in doubt: a machine was cut off during a call"
			for _, d := range j.Doubts {
				if !d.Again {
					item.Reasons = append(item.Reasons, "nobody knows whether "+visible.Line(cmp.Or(d.Tool, d.Call), maxWhat)+" was done")
				}
			}
			if len(item.Reasons) == 0 { // after a restore
				item.Title, item.Reasons = "a job is in doubt", []string{visible.Line(j.Result.Why, maxProblem)}
			}
		case j.State == hub.Failed && w.Options.Now().Sub(j.Changed) < failedSince && !w.isFetched(j):
			item.Risk, item.Title = Medium, "a job failed"
			if why := visible.Line(j.Result.Why, maxProblem); why != "" {
				item.Reasons = []string{why}
			}
		case j.State == hub.Done && j.User == c.Key && w.hasProgram(j) && !w.isFetched(j):
			n, ok := w.changes[j.ID+" "+j.Checkpoint]
			if !ok && reads < maxNewResults {
				reads++
				n, ok = w.countChanges(ctx, c, j)
			}
			if !ok || n == 0 {
				continue
			}
			item.Kind, item.Title = KindFetch, "a job is done: "+visible.Count(n, "changed file")+" to fetch"
		default:
			continue
		}
		items = append(items, item)
	}
	return items
}

// countChanges counts the files that a job has changed.
func (w *HubWatcher) countChanges(ctx context.Context, c *hub.Client, j hub.Job) (n int, ok bool) {
	whole, err := c.Job(ctx, j.ID)
	if err != nil || whole.Checkpoint != j.Checkpoint {
		return 0, false
	}
	if j.Checkpoint != "" {
		r, err := readResult(ctx, c, whole)
		if err != nil {
			return 0, false
		}
		n = r.CountChanges()
	}
	w.changes[j.ID+" "+j.Checkpoint] = n
	return n, true
}

// hasProgram reports whether this machine has the program of a job, as it was submitted.
func (w *HubWatcher) hasProgram(j hub.Job) bool {
	if now := w.Options.Now(); now.Sub(w.loaded) > programsEvery {
		w.programs, w.loaded = knownPrograms(w.Options), now
	}
	return findProgram(w.programs, j) != nil
}

// isFetched reports whether the session of a job was brought here.
func (w *HubWatcher) isFetched(j hub.Job) bool {
	if !w.hasProgram(j) {
		return false
	}
	return slices.ContainsFunc(w.programs, func(p *program.Program) bool {
		ids, err := p.Storage.FetchedJobs()
		return err == nil && slices.Contains(ids, j.ID)
	})
}

// knownPrograms returns the programs of this machine that golem was used in.
func knownPrograms(o program.Options) (list []*program.Program) {
	known, _ := inventory.Programs(o.StateBase())
	for _, k := range known {
		if k.Directory == "" {
			continue
		}
		o.Dir = string(k.Directory)
		if p, err := program.Load(o); (err == nil || p != nil && p.Project != nil && program.IsOnlyExcess(err)) && p.Content.Hash != "" && p.Storage.Dir() == k.State {
			list = append(list, p)
		}
	}
	return list
}

// findProgram returns the program of a job, as it was submitted, or nil. If several directories
// have it, it prefers the one with the name that the job has.
func findProgram(list []*program.Program, j hub.Job) (found *program.Program) {
	for _, p := range list {
		if p.Content.Hash != j.Trust {
			continue
		}
		if found == nil || filepath.Base(string(p.Root())) == j.Name {
			found = p
		}
	}
	return found
}

// Fetch brings the changes of a job to the program on this machine that it was submitted from. key
// is that of the program.
func (w *HubWatcher) Fetch(ctx context.Context, c *hub.Client, id string) (key string, one FetchedJob, err error) {
	j, err := c.Job(ctx, id)
	if err != nil {
		return "", one, HubError(err)
	}
	p := findProgram(knownPrograms(w.Options), j)
	if p == nil {
		return "", one, &sandbox.Error{Op: "fetch", Path: id, Code: sandbox.ErrNotFound, Hint: "no directory that golem was used in has the program of this job, as it was submitted; run golem jobs fetch " + visible.Line(j.ID, maxWhat) + " in its directory"}
	}
	one, err = FetchJob(ctx, c, p, j.ID)
	if sandbox.CodeOf(err) == sandbox.ErrExists && one.Session != "" { // it is here already
		err = nil
	}
	if err == nil {
		w.Settle(j.ID, j.ID)
	}
	return keyOf(p), one, err
}
