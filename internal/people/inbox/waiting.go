package inbox

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// Waiting is what waits for the user in some sessions and programs.
type Waiting struct {
	Sessions  []Changes
	Approvals []Call
	Staged    []Commit
	Ready     []*session.Session // those whose paused run can continue, because its calls are answered
	Older     int                // sessions that golem did not look at, because newer ones have changes
}

// IsEmpty reports whether nothing waits.
func (w Waiting) IsEmpty() bool {
	return len(w.Sessions)+len(w.Approvals)+len(w.Staged)+len(w.Ready) == 0
}

// Changes describes a session with changes, in the form of golem status --json.
type Changes struct {
	ID      string        `json:"id"`
	Name    string        `json:"name,omitempty"`
	What    string        `json:"what,omitempty"` // the program or the input that started it
	Used    time.Time     `json:"used"`
	Files   int           `json:"files"`
	Added   int           `json:"added"`
	Removed int           `json:"removed"`
	Git     int           `json:"skipped_in_git"`
	Commits bool          `json:"commits"`                  // it has commits, branches or tags
	Count   int           `json:"commit_count"`             // commits that your repository does not have
	Problem string        `json:"commit_problem,omitempty"` // why golem cannot read the commits
	Flags   []review.Flag `json:"flags"`

	Session ProgramSession  `json:"-"`
	Review  *session.Review `json:"-"`
}

// Letter returns the letter for the kind of a change.
func Letter(op overlay.Op) string {
	switch op {
	case overlay.Create:
		return "A"
	case overlay.Delete:
		return "D"
	}
	return "M"
}

// A Call is a call that waits for approval, with the program that it belongs to.
type Call struct {
	approval.PendingRequest
	Program *program.Program
}

// A Commit is a staged commit that waits for review, with the program that it belongs to.
type Commit struct {
	ID      string
	Program *program.Program
}

// Collect returns what waits in some sessions, in their programs and in others, which may be nil.
// If most is not 0, it looks at the sessions in their order until that many have changes.
func Collect(ctx context.Context, all []ProgramSession, most int, others ...*program.Program) (Waiting, error) {
	var w Waiting
	programs := make(map[string]*program.Program) // by state directory
	for _, s := range all {
		programs[string(s.Program.Storage.Dir())] = s.Program
		if most > 0 && len(w.Sessions) == most {
			w.Older++
			continue
		}
		c, err := changesOf(ctx, s)
		if err != nil {
			return w, err
		}
		if c.Count == 0 && c.Problem == "" && s.Program.Storage.Sessions.IsTaken(s.Session, c.Review) {
			continue
		}
		if r := c.Review; len(r.Files) > 0 || r.Unfit != "" || len(r.Others) > 0 || c.Count > 0 || c.Problem != "" {
			w.Sessions = append(w.Sessions, c)
		}
	}
	for _, p := range others {
		if p != nil && programs[string(p.Storage.Dir())] == nil {
			programs[string(p.Storage.Dir())] = p
		}
	}
	for _, p := range programs {
		if err := withRecords(p, func(r *storage.Records) error { return w.addRecords(p, r) }); err != nil {
			return w, err
		}
	}
	slices.SortStableFunc(w.Approvals, func(a, b Call) int { return a.Made.Compare(b.Made) })
	return w, nil
}

func changesOf(ctx context.Context, s ProgramSession) (Changes, error) {
	r, err := s.Program.Storage.Sessions.Review(s.Session, nil, false, nil)
	if err != nil {
		return Changes{}, err
	}
	c := Changes{ID: s.ID, Name: s.Name, What: s.What(), Used: s.LastUsed, Git: r.Git, Commits: r.Refs, Flags: append([]review.Flag{}, r.Flags...), Session: s, Review: r}
	t := r.Total()
	c.Files, c.Added, c.Removed = t.Files, t.Added, t.Removed
	if c.Commits {
		if c.Count, err = s.Program.Commits(s.Session).Count(ctx); err != nil {
			c.Problem = visible.Line(err.Error(), maxProblem)
		}
	}
	return c, nil
}

// withRecords calls do with the records of a program. It does nothing if the program has no
// state yet: opening the records would make it.
func withRecords(p *program.Program, do func(r *storage.Records) error) error {
	if !p.Storage.Exists() {
		return nil
	}
	r, err := p.Storage.OpenRecords()
	if err != nil {
		return err
	}
	defer r.Close()
	return do(r)
}

// addRecords adds the calls and commits of a program that wait.
func (w *Waiting) addRecords(p *program.Program, r *storage.Records) error {
	pending, err := r.Pending(p.Storage.Sessions)
	if err != nil {
		return err
	}
	ready := make(map[string]bool)
	open := make(map[string]bool) // sessions with calls that are not answered
	for _, one := range pending {
		if one.Answer == nil {
			w.Approvals = append(w.Approvals, Call{one, p})
			open[one.Session] = true
		}
	}
	for _, one := range pending {
		if one.Answer != nil && !open[one.Session] && !ready[one.Session] && p.Storage.Runs().IsPaused(one.Session) {
			s, err := p.Storage.Sessions.Find(one.Session)
			if err != nil {
				return err
			}
			ready[one.Session], w.Ready = true, append(w.Ready, s)
		}
	}
	staged, err := r.Staged()
	for _, id := range staged {
		w.Staged = append(w.Staged, Commit{id, p})
	}
	return err
}

// A Directory is a directory that golem was used in, with what waits there.
type Directory struct {
	Path    string // "" if golem does not know it
	State   sandbox.Host
	Problem string // why golem cannot say what waits there; "" for none
	Waiting
	Paused []ProgramSession // sessions whose run waits for an approval, or can continue after one
}

// Directories returns all directories in which something waits for the user, and those in
// which golem cannot tell, sorted by path. If most is not 0, each has at most that many
// sessions.
func Directories(ctx context.Context, o program.Options, most int) ([]Directory, error) {
	return directories(ctx, o, most, false, nil)
}

// directories is Directories. With runs it also finds the paused runs, for which it reads the
// logs of all runs. It calls visit, if it is not nil, with each session.
func directories(ctx context.Context, o program.Options, most int, runs bool, visit func(s ProgramSession, dir string)) ([]Directory, error) {
	known, err := inventory.Programs(o.StateBase())
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(known, func(a, b inventory.Known) int { return cmp.Compare(a.Directory, b.Directory) })
	var list []Directory
	last := ""
	for _, k := range known {
		if last == string(k.Directory) && last != "" {
			continue // the program and golem exec without it
		}
		last = string(k.Directory)
		if d := directoryOf(ctx, o, k, most, runs, visit); !d.IsEmpty() || len(d.Paused) > 0 || d.Problem != "" {
			list = append(list, d)
		}
	}
	return list, ctx.Err()
}

// directoryOf returns what waits in one directory.
func directoryOf(ctx context.Context, o program.Options, k inventory.Known, most int, runs bool, visit func(s ProgramSession, dir string)) Directory {
	d := Directory{Path: string(k.Directory), State: k.State}
	if err := state.CheckOwner(string(k.State)); err != nil {
		d.Problem = err.Error()
		return d
	}
	if _, err := os.ReadDir(string(k.State)); err != nil {
		d.Problem = visible.FileError("the state directory", err).Error()
		return d
	}
	if d.Path == "" {
		d.Problem = "an older golem did not record its directory; run golem status there once"
		return d
	}
	if _, err := os.Stat(d.Path); err != nil {
		d.Problem = "the directory is gone; golem keeps its state in " + visible.Text(string(d.State))
		return d
	}
	all, p, err := sessionsIn(o, d.Path)
	if err == nil {
		d.Waiting, err = Collect(ctx, all, most, p, bareProgram(o, d.Path))
	}
	if foreign := (*state.ForeignError)(nil); errors.As(err, &foreign) {
		d.Problem = foreign.Error() // the whole command that helps
		return d
	}
	if err != nil {
		d.Problem = firstLine(err)
		return d
	}
	for _, s := range all {
		if runs && s.isPaused() {
			d.Paused = append(d.Paused, s)
		}
		if visit != nil {
			visit(s, d.Path)
		}
	}
	return d
}

// OpenProgram opens the program whose state directory has a name, as [Key] returns it.
func OpenProgram(o program.Options, key string) (*program.Program, error) {
	known, err := inventory.Programs(o.StateBase())
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		if filepath.Base(string(k.State)) != key || k.Directory == "" {
			continue
		}
		o.Dir = string(k.Directory)
		p, err := program.Load(o)
		if err == nil || p != nil && p.Project != nil && program.IsOnlyExcess(err) {
			if p.Storage.Dir() == k.State {
				return p, nil
			}
		}
		bare, wrong := program.LoadMounts(o, nil)
		if wrong == nil && bare.Storage.Dir() == k.State {
			return bare, nil
		}
		return nil, cmp.Or(err, wrong)
	}
	return nil, &sandbox.Error{Op: "open", Path: key, Code: sandbox.ErrNotFound, Hint: "golem keeps no state with this name"}
}

// keyOf returns the name of a program's state directory, which no other program has.
func keyOf(p *program.Program) string { return filepath.Base(string(p.Storage.Dir())) }
