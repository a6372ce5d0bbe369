package evaluation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/work/instruction"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// A Suite runs cases. Its fields are set before it is used. After the last case it is
// closed.
type Suite struct {
	Keep bool // keep the sessions of failed cases
	Copy bool // sessions work on copies

	Open    func(c Case) (*program.Program, error)
	Models  func(c Case, p *program.Program, requests *network.OwnRequests) (Models, error)
	Price   func(modelName string, u model.Usage) (dollars float64, known bool)
	Secrets []string
	Now     func() time.Time

	mu      sync.Mutex
	stopped bool
	runs    map[*program.Run]bool
	missing []string // directories of mounts that did not exist when the first case began
	noted   map[string]bool
	kept    bool // a session
}

// Models are the models of a case.
type Models struct {
	run.Choice
	Fallbacks  []run.Choice
	Workers    map[string]program.WorkerModel // of workers that name one
	Summarizer run.Summarizer
	Context    int64 // how many tokens the model takes, 0 if that is not known
}

// A Result is what became of a case.
type Result struct {
	Name     string   `json:"name"`
	Passed   bool     `json:"passed"`
	Skipped  bool     `json:"skipped,omitempty"` // the user stopped the evaluation before its end
	Reasons  []string `json:"reasons"`           // why it failed
	End      run.End  `json:"end,omitempty"`
	Answer   string   `json:"answer,omitempty"`
	Changed  []string `json:"changed"` // files
	Turns    int64    `json:"turns"`
	Calls    int      `json:"calls"`
	Refused  int      `json:"refused"`
	Input    int64    `json:"input_tokens"`
	Output   int64    `json:"output_tokens"`
	Cost     float64  `json:"cost"`
	Unpriced bool     `json:"unpriced,omitempty"`
	Seconds  float64  `json:"seconds"`
	Session  string   `json:"session,omitempty"` // if it was kept
	Label    string   `json:"-"`                 // by which to name this session
	Notes    []string `json:"notes,omitempty"`
}

// maxContent is the size of a changed file that golem compares with patterns.
const maxContent = 16 << 20

// Stop ends the runs of the suite after their calls in progress, and begins no other.
func (s *Suite) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for r := range s.runs {
		r.Stop()
	}
}

// enter notes a run that Stop stops. It reports whether the run may begin.
func (s *Suite) enter(r *program.Run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	if s.runs == nil {
		s.runs = make(map[*program.Run]bool)
	}
	s.runs[r] = true
	return true
}

func (s *Suite) leave(r *program.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, r)
}

func (s *Suite) isOver(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped || ctx.Err() != nil
}

func skipped(c Case) Result {
	return Result{Name: c.Name, Skipped: true, Reasons: []string{}, Changed: []string{}}
}

// Try runs one case. Several may run at the same time.
func (s *Suite) Try(ctx context.Context, c Case) Result {
	if s.isOver(ctx) {
		return skipped(c)
	}
	r := Result{Name: c.Name, Reasons: []string{}, Changed: []string{}}
	began := s.Now()
	if err := s.tryCase(ctx, c, &r); err != nil {
		r.Reasons = append(r.Reasons, err.Error())
	}
	r.Seconds = s.Now().Sub(began).Seconds()
	if s.isOver(ctx) && (r.End == run.Stopped || r.End == "" || ctx.Err() != nil) {
		r.Skipped = true
	}
	r.Passed = len(r.Reasons) == 0 && !r.Skipped
	return r
}

func (s *Suite) tryCase(ctx context.Context, c Case, r *Result) (err error) {
	p, err := s.Open(c)
	if err != nil {
		return err
	}
	in := run.Input{Text: c.Input}
	if in.Files, err = p.Attach(c.Attach); err != nil {
		return err
	}
	requests := network.NewOwnRequests("model", "the model that you chose", s.Now)
	defer requests.Close()
	m, err := s.Models(c, p, requests)
	if err != nil {
		return err
	}
	instructions, err := p.Instructions().List()
	if err != nil {
		return err
	}
	follow, untrusted, notes := instruction.Followed(instructions)
	s.noteMissing(p)
	calls := &callList{called: make(map[string]bool), refused: make(map[string]bool)}
	opened, err := p.OpenRun(program.RunOptions{
		WorkerOptions: program.WorkerOptions{Asker: asker{c.Approve}, Secrets: s.Secrets, Session: session.New, Isolated: true, Copy: s.Copy, Untrusted: untrusted},
		Model:         m.Model, ModelName: m.Name, Fallbacks: m.Fallbacks, Models: m.Workers, Summarizer: m.Summarizer, Context: m.Context, Requests: requests, Price: s.Price, Limits: c.Budget, Follow: follow, Attached: c.Attach, OnEvent: calls.note,
	})
	if err != nil {
		return err
	}
	r.Notes = slices.Concat(notes, opened.Gate.StartNotes, opened.Gate.Notes)
	outcome := run.Outcome{End: run.Stopped}
	if s.enter(opened) {
		outcome, err = opened.Do(ctx, in)
		s.leave(opened)
	}
	sum := opened.Budget.Sum()
	r.End, r.Answer = outcome.End, outcome.Text
	r.Turns, r.Calls, r.Refused, r.Cost, r.Unpriced = sum.Turns, sum.Calls, sum.Refused, sum.Cost, sum.Unpriced
	r.Input, r.Output = sum.Tokens.Input+sum.Tokens.CacheRead+sum.Tokens.CacheWrite, sum.Tokens.Output
	one := opened.Gate.Session
	if err := errors.Join(err, opened.Close()); err != nil {
		return err
	}
	observed := Observed{Outcome: outcome, Called: calls.called, Refused: calls.refused}
	review, err := p.Storage.Sessions.Review(one, nil, false, nil)
	if err != nil {
		return err
	}
	contents, err := p.Storage.Sessions.OpenContents(one)
	if err != nil {
		return err
	}
	observed.Changes = review.Files
	observed.Read = func(path string) ([]byte, bool) {
		_, own, err := contents.Read(path, maxContent)
		return own, err == nil && own != nil
	}
	for _, f := range review.Files {
		r.Changed = append(r.Changed, f.Path)
	}
	r.Reasons = append(r.Reasons, c.Expect.Check(observed)...)
	contents.Close()
	if s.Keep && len(r.Reasons) > 0 {
		r.Session, r.Label = one.ID, naming.Label(one)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kept = true
		return nil
	}
	return errors.Join(discardStaged(ctx, p, one.ID), s.remove(p, one))
}

// discardStaged discards the commits that a session has staged.
func discardStaged(ctx context.Context, p *program.Program, id string) (err error) {
	r, err := p.Storage.OpenRecords()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	waiting, err := clearance.Waiting(r.Folder)
	if err != nil || len(waiting) == 0 {
		return err
	}
	repositories := p.NewRepositories(r, nil)
	defer repositories.Close()
	open, err := repositories.Open(ctx)
	if err != nil {
		return err
	}
	list, err := open.List()
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.Session == id || c.Tree == id {
			err = errors.Join(err, open.Discard(ctx, c.ID))
		}
	}
	return err
}

// removePatience is how long golem tries to remove a session. Another case that lists the
// sessions holds it for a moment.
const removePatience = 5 * time.Second

// remove removes the session of a case.
func (s *Suite) remove(p *program.Program, one *session.Session) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := s.Now().Add(removePatience); ; <-tick.C {
		err := p.Storage.RemoveSession(one, false, s.Secrets)
		if !errors.Is(err, changes.ErrBusy) || s.Now().After(until) {
			return err
		}
	}
}

// noteMissing notes which directories of a program's mounts do not exist. Opening a
// session creates them.
func (s *Suite) noteMissing(p *program.Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noted == nil {
		s.noted = make(map[string]bool)
	}
	for _, m := range p.Project.Mounts {
		if m.Access() < sandbox.ReadWrite {
			continue
		}
		for dir := m.RealHostDir(); !s.noted[dir]; dir = filepath.Dir(dir) { // what is noted, a case may have created
			s.noted[dir] = true
			if _, err := os.Lstat(dir); err == nil {
				break
			}
			s.missing = append(s.missing, dir)
		}
	}
}

// Close removes the directories that the sessions of cases created. A session that was
// kept needs them.
func (s *Suite) Close() {
	if s.kept {
		return
	}
	slices.SortFunc(s.missing, func(a, b string) int { return len(b) - len(a) }) // a directory after those in it
	for _, dir := range s.missing {
		os.Remove(dir) // it stays if somebody has put a file there
	}
}

// A callList notes which tools a run calls.
type callList struct{ called, refused map[string]bool }

func (l *callList) note(e run.Event) {
	switch {
	case e.Type != run.ToolResult || e.OK == nil:
	case *e.OK:
		l.called[e.Tool] = true
	default:
		l.refused[e.Tool] = true
	}
}

// An asker approves the calls that a case approves, and declines all others.
type asker struct{ approve Approve }

// Ask implements approval.Asker.
func (a asker) Ask(_ context.Context, r tool.Request) approval.Reply {
	const by = "eval"
	no := func(note string) approval.Reply { return approval.Reply{Answer: tool.Answer{By: by, Note: note}} }
	switch {
	case leavesSession(r):
		return no("an evaluation approves only calls that stay in its session")
	case !a.approve.All && !slices.Contains(a.approve.Tools, r.Tool):
		return no("this case does not approve it")
	case len(r.Digest) < tool.MinDigestPrefix:
		return no("golem cannot tell this call from others")
	}
	return approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: by}, DigestPrefix: r.Digest[:tool.MinDigestPrefix]}
}

// leavesSession reports whether a call may have an effect outside the session. The file
// with the cases may be the work of somebody else, so it cannot approve such a call.
func leavesSession(r tool.Request) bool {
	hasNetwork := r.Network || len(r.Hosts) > 0
	return r.OnlyUser || slices.ContainsFunc(slices.Concat(r.Effects, r.ToApprove), func(e policy.Effect) bool {
		return e.Verb == policy.Connect || e.Verb == policy.Run && hasNetwork
	})
}
