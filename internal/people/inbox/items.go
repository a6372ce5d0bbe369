package inbox

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// A Kind says what an item is.
type Kind string

// The kinds of items.
const (
	KindCall    Kind = "call"    // a call that waits for approval
	KindHost    Kind = "host"    // a connection to a host that waits for approval
	KindChanges Kind = "changes" // a session with changes
	KindCommit  Kind = "commit"  // a staged commit that waits for review
	KindRun     Kind = "run"     // a paused run that can continue
	KindJob     Kind = "job"     // a job of a hub that is in doubt or failed
	KindFetch   Kind = "fetch"   // a finished job of a hub, whose changes are not here
	KindRunning Kind = "running" // a session that a golem works in now; only Watcher has them
	KindEnded   Kind = "ended"   // a session whose program has ended in the background; only Watcher has them
)

// A Risk says how closely to look at an item.
type Risk int

// The risks.
const (
	Low Risk = iota
	Medium
	High
)

func (r Risk) String() string { return [...]string{"low", "medium", "high"}[r] }

// An Item is one thing that waits for the user. All its texts are visible text.
type Item struct {
	Kind      Kind      `json:"kind"`
	Program   string    `json:"program"` // see Key
	Directory string    `json:"directory"`
	Job       string    `json:"job,omitempty"` // of a hub; then the directory says which it is
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"` // of the session that the item is
	Session   string    `json:"session,omitempty"`
	Title     string    `json:"title"`
	Tool      string    `json:"tool,omitempty"` // of a call
	Who       string    `json:"who"`            // the workers, or the program that made it
	Since     time.Time `json:"since"`
	Risk      Risk      `json:"risk"`
	Reasons   []string  `json:"reasons"` // why the risk is not low
}

// A Reader reads the items of a user again and again. It keeps the risks of calls, because
// a request never changes.
type Reader struct {
	Options program.Options

	patience time.Duration // for the scanners of one commit; 0 means maxScan

	mu    sync.Mutex
	calls map[string]assessment // by blob, and of commits by program and ID
}

// An assessment is a risk with its reasons.
type assessment struct {
	risk    Risk
	reasons []string
}

func (a *assessment) add(risk Risk, reason string) {
	a.risk, a.reasons = max(a.risk, risk), append(a.reasons, reason)
}

// A Problem is a directory in which golem cannot tell what waits.
type Problem struct{ Directory, Text string }

// Items returns everything that waits for the user, the riskiest first and then the oldest.
func (r *Reader) Items(ctx context.Context) ([]Item, []Problem, error) { return r.items(ctx, nil) }

// items is Items. It calls visit, if it is not nil, with each session.
func (r *Reader) items(ctx context.Context, visit func(s ProgramSession, dir string)) ([]Item, []Problem, error) {
	list, err := directories(ctx, r.Options, 0, true, visit)
	if err != nil {
		return nil, nil, err
	}
	var items []Item
	var problems []Problem
	for _, d := range list {
		if d.Problem != "" {
			problems = append(problems, Problem{visible.Text(cmp.Or(d.Path, string(d.State))), d.Problem})
			continue
		}
		for _, c := range d.Approvals {
			items = append(items, r.call(c, d.Path))
		}
		for _, s := range d.Sessions {
			items = append(items, changesItem(s, d.Path))
		}
		for _, c := range d.Staged {
			item, a := commitItem(c, d.Path), r.scan(ctx, c)
			item.Risk, item.Reasons = max(item.Risk, a.risk), append(item.Reasons, a.reasons...)
			items = append(items, item)
		}
		for _, s := range d.Paused {
			if !slices.ContainsFunc(d.Approvals, func(c Call) bool { return c.Session == s.ID }) {
				items = append(items, Item{Kind: KindRun, Program: keyOf(s.Program), Directory: visible.Text(d.Path), ID: s.ID, Name: s.Name, Session: s.ID,
					Title: "continue the run", Who: s.What(), Since: s.LastUsed})
			}
		}
	}
	sortItems(items)
	return items, problems, nil
}

// sortItems sorts items by their risk, and then by their age.
func sortItems(items []Item) {
	slices.SortStableFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(b.Risk, a.Risk), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
}

// maxTitle is how many characters of a title an item has.
const maxTitle = 300

// call returns a call that waits as an item.
func (r *Reader) call(c Call, dir string) Item {
	a := r.assess(c)
	item := Item{Kind: KindCall, Tool: sandbox.Shown(c.Tool), Program: keyOf(c.Program), Directory: visible.Text(dir), ID: c.ID, Session: c.Session, Who: workersText(c.Workers), Since: c.Made, Risk: a.risk, Reasons: a.reasons}
	item.Title = callTitle(c.Tool, c.Summary, c.Effects)
	if c.Tool == tool.ConnectTool {
		item.Kind = KindHost
	}
	return item
}

// callTitle returns the title of a call.
func callTitle(name, summary string, effects []string) string {
	shown := visible.Each(effects, func(effect string) string { return visible.Line(effect, maxTitle) })
	return visible.Cut(sandbox.Shown(name)+": "+cmp.Or(visible.Line(summary, maxTitle), strings.Join(shown, ", ")), maxTitle)
}

// workersText returns a chain of workers.
func workersText(workers []string) string {
	return strings.Join(visible.Each(workers, sandbox.Shown), " › ")
}

// MergeItems returns two lists as one, the riskiest first and then the oldest.
func MergeItems(a, b []Item) []Item {
	all := slices.Concat(a, b)
	sortItems(all)
	return all
}

// assess returns the risk of a call that waits.
func (r *Reader) assess(c Call) assessment {
	if known, ok := r.find(c.Blob); ok {
		return known
	}
	records, err := c.Program.Storage.OpenRecords()
	if err != nil {
		return assessment{High, []string{"golem cannot read it: " + firstLine(err)}}
	}
	defer records.Close()
	request, err := records.Approvals.Request(c.PendingRequest)
	if err != nil {
		return assessment{High, []string{"golem cannot read it: " + firstLine(err)}}
	}
	return r.keep(c.Blob, assessRequest(request))
}

// find returns an assessment that was kept.
func (r *Reader) find(key string) (a assessment, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok = r.calls[key]
	return a, ok
}

// keep keeps an assessment, and returns it.
func (r *Reader) keep(key string, a assessment) assessment {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil || len(r.calls) > maxAssessed {
		r.calls = make(map[string]assessment)
	}
	r.calls[key] = a
	return a
}

// scan returns what the scanners of a program say about a staged commit. It does not wait
// longer than maxScan. The scanners keep their verdicts, so a later call comes further.
func (r *Reader) scan(ctx context.Context, c Commit) (a assessment) {
	key := keyOf(c.Program) + " " + c.ID
	if known, ok := r.find(key); ok {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.patience, maxScan))
	defer cancel()
	by, files, err := heldBack(ctx, c.Program, c.ID)
	switch {
	case err != nil:
		a.add(Medium, "not scanned: "+firstLine(err))
		return a
	case files > 0 || len(by) > 0:
		text := "held back by scanners"
		if files > 0 {
			text += " in " + visible.Count(files, "file")
		}
		if len(by) > 0 {
			text += ": " + strings.Join(by, ", ")
		}
		a.add(High, visible.Line(text, maxTitle))
	}
	return r.keep(key, a)
}

// maxScan is how long the inbox waits for the scanners of one commit.
const maxScan = 5 * time.Second

// maxAssessed is how many assessments a Reader keeps.
const maxAssessed = 10000

// assessRequest returns the risk of a request.
func assessRequest(r tool.Request) (a assessment) {
	if r.Taint != "" {
		a.add(High, "the worker has read "+sandbox.Shown(r.Taint)+", which is untrusted")
	}
	if r.OnlyUser {
		a.add(High, "changes what you trust")
	}
	var flags []review.Flag
	verbs := make(map[policy.Verb]bool)
	for _, c := range r.Changes {
		flags = append(flags, c.Flags...)
		if c.Empties {
			verbs[policy.Delete] = true
		}
	}
	for _, e := range r.Effects {
		verbs[e.Verb] = true
	}
	a.addFlags(flags)
	if n := len(r.Warnings) + r.MoreWarnings; n > 0 {
		a.add(Medium, visible.Count(n, "warning"))
	}
	if r.Problem != "" {
		a.add(Medium, "the changes are not known")
	}
	if verbs[policy.Run] && r.Network {
		a.add(High, "runs a command with the network on")
	} else if verbs[policy.Run] {
		a.add(Medium, "runs a command")
	}
	if verbs[policy.Delete] {
		a.add(Medium, "deletes files")
	}
	if verbs[policy.Connect] && !verbs[policy.Run] {
		a.add(Medium, "connects to a host")
	}
	delete(verbs, policy.Use)
	if len(verbs) == 0 && len(r.Changes) == 0 && len(a.reasons) == 0 {
		a.add(Medium, "golem does not know what it does")
	}
	return a
}

// highFlag is the risk from which a flag makes the whole item a high risk: content that
// shows something else than it is, and files that become code.
const highFlag = 85

// addFlags adds the flags of changes.
func (a *assessment) addFlags(flags []review.Flag) {
	code, others, risk := make(map[string]bool), 0, Medium
	for _, f := range flags {
		if f.BecomesCode() {
			code[f.Path] = true
			continue
		}
		others++
		if f.Risk >= highFlag && !f.Deleted {
			risk = High
		}
	}
	if n := len(code); n > 0 {
		a.add(High, visible.Count(n, "file")+" "+visible.Verb(n, "becomes", "become")+" code")
	}
	if others > 0 {
		a.add(risk, visible.Count(others, "warning"))
	}
}

// changesItem returns a session with changes as an item.
func changesItem(c Changes, dir string) Item {
	var a assessment
	a.addFlags(c.Flags)
	a.reasons = choice.Warnings(c.Review, func(name string) string { return visible.Name(strings.TrimPrefix(name, "/")) })
	if c.Review.Unfit != "" {
		a.add(Medium, "names that are no text")
	}
	title := c.Review.Total().String()
	switch {
	case c.Problem != "":
		a.add(Medium, "commits cannot be read")
	case c.Count > 0:
		title += ", " + visible.Count(c.Count, "commit")
	}
	return Item{Kind: KindChanges, Program: keyOf(c.Session.Program), Directory: visible.Text(dir), ID: c.ID, Name: c.Name, Session: c.ID, Title: title, Who: c.What, Since: c.Used, Risk: a.risk, Reasons: a.reasons}
}

// read returns a staged commit, nil if golem cannot read it.
func (c Commit) read() *clearance.StagedCommit {
	records, err := c.Program.Storage.OpenRecords()
	if err != nil {
		return nil
	}
	defer records.Close()
	staged, err := records.StagedCommit(c.ID)
	if err != nil {
		return nil
	}
	return staged
}

// commitItem returns a staged commit as an item.
func commitItem(c Commit, dir string) Item {
	item := Item{Kind: KindCommit, Program: keyOf(c.Program), Directory: visible.Text(dir), ID: c.ID, Title: "a commit that golem cannot read", Risk: Medium, Reasons: []string{"leaves golem when you push it"}}
	s := c.read()
	if s == nil {
		return item
	}
	subject, _, _ := strings.Cut(s.Message, "\n")
	item.Title = visible.Cut(visible.Line(scan.ShownName(subject), maxTitle)+" ("+visible.Count(len(s.Files), "file")+", to "+sandbox.Shown(s.Target)+" "+sandbox.Shown(s.Branch)+")", maxTitle)
	item.Who, item.Since, item.Session = workersText(s.Workers), s.CreatedAt, s.Session
	for _, f := range s.Files {
		if why, ok := review.Code(f.Path); ok && f.Operation != clearance.Delete {
			item.Risk = High
			item.Reasons = append(item.Reasons, sandbox.Shown(scan.ShownName(f.Path))+" "+why)
			break
		}
	}
	if s.Untrusted != "" {
		item.Risk = High
		item.Reasons = append(item.Reasons, "its workers had read "+sandbox.Shown(s.Untrusted)+", which is untrusted")
	}
	return item
}

// Base returns the last part of the item's directory.
func (i Item) Base() string { return filepath.Base(i.Directory) }
