package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/sandbox"
)

// A Job is a job of a hub, in the form of golem jobs --json. All its texts are visible
// text, except the answer: that is data, and a page makes prose of it.
type Job struct {
	ID      string       `json:"id"`
	State   hub.State    `json:"state"`
	Program string       `json:"program"`
	Input   string       `json:"input,omitempty"`
	By      string       `json:"by"`
	Node    string       `json:"node,omitempty"`
	Attempt int          `json:"attempt"`
	Created time.Time    `json:"created"`
	Changed time.Time    `json:"changed"`
	Waiting []JobRequest `json:"waiting,omitempty"`
	Doubts  []hub.Doubt  `json:"doubts,omitempty"`
	Labels  []string     `json:"labels,omitempty"`
	Result  hub.Result   `json:"result"`

	Own bool `json:"-"` // the user may cancel and retry it
}

// A JobRequest is a call of a job that waits, or waited, for a decision.
type JobRequest struct {
	ID      string    `json:"id"`
	Tool    string    `json:"tool"`
	Since   time.Time `json:"since"`
	Decided bool      `json:"decided"`
}

// NewJob returns a job of a hub for people. names are those of the users by their keys.
func NewJob(c *hub.Client, j hub.Job, names map[string]string) Job {
	d := Job{ID: visible.Line(j.ID, 40), State: hub.State(visible.Line(string(j.State), 40)), Program: visible.Line(j.Name, maxTitle), Input: visible.Line(j.Input, maxTitle), By: names[j.User], Node: names[j.Node], Attempt: j.Attempt, Created: j.Created, Changed: j.Changed, Result: j.Result,
		Own: j.User == c.Key || c.Role == hub.Admin}
	d.Result.Answer, d.Result.Why, d.Result.Session = visible.Data(d.Result.Answer), visible.Text(d.Result.Why), visible.Line(d.Result.Session, 40)
	labels := j.Labels
	if spec, err := hub.OpenSpec(j.Spec); err == nil {
		labels = spec.Labels
	}
	for _, l := range labels {
		d.Labels = append(d.Labels, visible.Line(l, 40))
	}
	for _, r := range j.Requests {
		d.Waiting = append(d.Waiting, JobRequest{visible.Line(r.ID, 40), visible.Line(r.Tool, 40), r.Since, r.Decided != nil})
	}
	for _, doubt := range j.Doubts {
		d.Doubts = append(d.Doubts, hub.Doubt{Call: visible.Line(doubt.Call, maxTitle), Tool: visible.Line(doubt.Tool, maxTitle), Attempt: doubt.Attempt, Again: doubt.Again})
	}
	return d
}

// IsOver reports whether nothing more happens to the job, unless a person retries it.
func (d Job) IsOver() bool { return d.State.IsOver() }

// OpenCalls returns how many calls of the job wait.
func (d Job) OpenCalls() (n int) {
	for _, w := range d.Waiting {
		if !w.Decided && !d.State.IsOver() {
			n++
		}
	}
	return n
}

// StateText returns the state of the job, with the attempt if it is not the first.
func (d Job) StateText() string {
	if d.Attempt > 1 && !d.State.IsOver() {
		return string(d.State) + " (" + attemptText(d.Attempt) + ")"
	}
	return string(d.State)
}

// attemptText returns the number of an attempt for people. A hub that was restored from a backup
// adds 1000 to the numbers, so that none is used twice.
func attemptText(number int) string {
	const restored = 1000
	switch n := number % restored; {
	case number < restored:
		return fmt.Sprintf("attempt %d", n)
	case n == 0:
		return "the hub was restored"
	default:
		return fmt.Sprintf("attempt %d, the hub was restored", n)
	}
}

// Cost returns what the job has cost, "" for nothing.
func (d Job) Cost() string {
	switch {
	case d.Result.Dollars < 0 || d.Result.Dollars > 1e9: // a node can lie, and an older hub kept it
		return "cost unknown"
	case d.Result.Unpriced && d.Result.Dollars > 0:
		return fmt.Sprintf("$%.4f and more, cost unknown", d.Result.Dollars)
	case d.Result.Unpriced:
		return "cost unknown"
	case d.Result.Dollars == 0:
		return ""
	}
	return fmt.Sprintf("$%.4f", d.Result.Dollars)
}

// ReadJob returns a job of a hub.
func ReadJob(ctx context.Context, c *hub.Client, id string) (Job, error) {
	j, err := c.Job(ctx, id)
	if err != nil {
		return Job{}, HubError(err)
	}
	names, err := UserNames(ctx, c)
	return NewJob(c, j, names), HubError(err)
}

// ReadJobEvents returns the steps of a job from a number on, and the number of the next one.
func ReadJobEvents(ctx context.Context, c *hub.Client, id string, from uint64) (list []Event, next uint64, err error) {
	for {
		e, err := c.Events(ctx, hub.EventsQuery{Job: id, From: from})
		if err != nil {
			return nil, from, HubError(err)
		}
		for _, line := range e.Lines {
			if one, ok := jobEvent(line); ok {
				list = append(list, one)
			}
		}
		if len(e.Lines) == 0 || e.Next <= from || len(list) > maxJobEvents {
			return list, max(e.Next, from), nil
		}
		from = e.Next
	}
}

// maxJobEvents is how many events of a job are read at once, about.
const maxJobEvents = 5000

// jobEvent returns an event of a run as an event of a timeline. ok is false for those that say
// nothing.
func jobEvent(line []byte) (one Event, ok bool) {
	var e run.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{Kind: EventNote, Title: visible.Line(string(line), maxTitle)}, true
	}
	one = Event{Time: e.Time, Who: visible.Line(e.Worker, maxWhat), Depth: max(len(e.Chain)-1, 0)}
	title, text := "", ""
	switch e.Type {
	case run.RunStart:
		one.Kind, title = EventNote, "begins, with the model "+e.Model
	case run.Message:
		one.Kind, title, text = EventAnswer, "writes", e.Text
	case run.ToolCall:
		one.Kind, title, text = EventCall, "calls "+e.Tool, argumentText(string(e.Args))
	case run.ToolResult:
		one.Kind, title, text = EventResult, e.Tool, e.Text
		if one.Failed = e.OK != nil && !*e.OK; one.Failed {
			text = e.Hint
		}
	case run.Pending:
		one.Kind, title = EventNote, e.Tool+" waits for approval as "+e.Request
	case run.Note:
		one.Kind, title = EventNote, e.Text
	case run.RunEnd:
		one.Kind, title, text = EventEnd, "ended: "+string(e.End), e.Hint // the answer has an event of its own
		if e.End == "" {
			title = "interrupted"
		}
	default:
		return one, false
	}
	if e.Type == run.Message && e.Text == "" {
		return one, false
	}
	one.Title = visible.Line(title, maxTitle)
	one.setText(text)
	return one, true
}

// A FetchedJob is a job whose session is here now, in the form of golem jobs fetch --json.
type FetchedJob struct {
	Job     string   `json:"job"`
	Session string   `json:"session"`
	Dropped []string `json:"dropped,omitempty"` // files that changed where the job may not write
}

// FetchJob brings the session of a job here, as a session of a program. The error has the code
// exists if it is here already.
func FetchJob(ctx context.Context, c *hub.Client, p *program.Program, id string) (one FetchedJob, err error) {
	j, err := c.Job(ctx, id)
	if err != nil {
		return one, HubError(err)
	}
	r, err := readResult(ctx, c, j)
	if err != nil {
		return one, err
	}
	one.Job = j.ID
	one.Session, one.Dropped, err = job.Receive(ctx, p, r, func(ctx context.Context, hash string) (io.ReadCloser, error) {
		data, err := c.Get(ctx, hub.Part{Job: j.ID, Hash: hash})
		return io.NopCloser(bytes.NewReader(data)), err
	})
	if err != nil && sandbox.CodeOf(err) != sandbox.ErrExists {
		return one, HubError(err)
	}
	return one, errors.Join(p.Storage.NoteFetched(j.ID), err)
}

// readResult reads which files a job has made.
func readResult(ctx context.Context, c *hub.Client, j hub.Job) (r job.Result, err error) {
	spec, err := hub.OpenSpec(j.Spec)
	switch {
	case err != nil:
		return r, err
	case spec.ID != j.ID || spec.Hub != c.Hub || spec.Files != j.Files:
		return r, &sandbox.Error{Op: "fetch", Path: j.ID, Code: sandbox.ErrInvalid, Hint: "the hub sent another job than its submitter signed; ask its administrator"}
	case j.State == hub.Running || j.State == hub.Queued:
		return r, &sandbox.Error{Op: "fetch", Path: j.ID, Code: sandbox.ErrConflict, Hint: "the job is " + string(j.State) + "; golem jobs logs -f " + j.ID + " waits for it"}
	case j.Checkpoint == "":
		return r, &sandbox.Error{Op: "fetch", Path: j.ID, Code: sandbox.ErrNotFound, Hint: "the job has made nothing"}
	}
	r.Source = "job " + j.ID
	for _, part := range []struct {
		hash string
		into *job.Snapshot
	}{{j.Files, &r.Begin}, {j.Checkpoint, &r.End}} {
		text, err := c.Get(ctx, hub.Part{Job: j.ID, Hash: part.hash})
		if err != nil {
			return r, HubError(err)
		}
		if err := json.Unmarshal(text, part.into); err != nil {
			return r, &sandbox.Error{Op: "fetch", Path: j.ID, Code: sandbox.ErrInvalid, Hint: "the list of the job's files cannot be read"}
		}
	}
	return r, nil
}
