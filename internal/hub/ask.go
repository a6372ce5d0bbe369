package hub

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"
)

// An Invitation asks the hub to know a key.
type Invitation struct {
	Key  string `json:"key"`
	Role Role   `json:"role"`
	Name string `json:"name"`
}

// Invite makes the hub know a key.
func (c *Client) Invite(ctx context.Context, i Invitation) error {
	_, err := c.ask(ctx, "invite", i, nil, nil)
	return err
}

// Revoke makes the hub refuse a key, or all keys of a name, and returns how many.
func (c *Client) Revoke(ctx context.Context, keyOrName string) (n int, err error) {
	_, err = c.ask(ctx, "revoke", keyOrName, nil, &n)
	return n, err
}

// Users lists who may use the hub.
func (c *Client) Users(ctx context.Context) (list []User, err error) {
	_, err = c.ask(ctx, "users", nil, nil, &list)
	return list, err
}

// Lookup asks for contents. Job is "" for the user's own, which jobs can begin with.
type Lookup struct {
	Job     string   `json:"job,omitempty"`
	Attempt int      `json:"attempt,omitempty"`
	Hashes  []string `json:"hashes"`
}

// Missing returns which contents the hub lacks.
func (c *Client) Missing(ctx context.Context, l Lookup) (hashes []string, err error) {
	const most = 1000
	for len(l.Hashes) > 0 {
		part := l
		part.Hashes = l.Hashes[:min(len(l.Hashes), most)]
		l.Hashes = l.Hashes[len(part.Hashes):]
		var some []string
		if _, err := c.ask(ctx, "missing", part, nil, &some); err != nil {
			return nil, err
		}
		hashes = append(hashes, some...)
	}
	return hashes, nil
}

// A Part is a part of a content.
type Part struct {
	Job     string `json:"job,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Hash    string `json:"hash"`
	Offset  int64  `json:"offset"`
	Size    int64  `json:"size"` // of the whole content
}

// Put sends a content.
func (c *Client) Put(ctx context.Context, p Part, content io.Reader) error {
	buffer := make([]byte, MaxPart)
	for {
		n, err := io.ReadFull(content, buffer)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		if _, err := c.ask(ctx, "put", p, buffer[:n], nil); err != nil {
			return err
		}
		p.Offset += int64(n)
		if p.Offset >= p.Size {
			return nil
		}
		if n == 0 {
			return fmt.Errorf("a content of %d bytes ended after %d; it changed while it was sent", p.Size, p.Offset)
		}
	}
}

// Get returns a content of a job, or of the user's own. It verifies its hash.
func (c *Client) Get(ctx context.Context, p Part) ([]byte, error) {
	var content bytes.Buffer
	for {
		var got Part
		data, err := c.ask(ctx, "get", p, nil, &got)
		if err != nil {
			return nil, err
		}
		content.Write(data)
		p.Offset += int64(len(data))
		if p.Offset >= got.Size {
			break
		}
		if len(data) == 0 {
			return nil, fmt.Errorf("content %s ended early", p.Hash)
		}
	}
	if HashOf(content.Bytes()) != p.Hash {
		return nil, fmt.Errorf("content %s: the hub sent another one", p.Hash)
	}
	return content.Bytes(), nil
}

// Submit makes a job.
func (c *Client) Submit(ctx context.Context, s Signed) error {
	_, err := c.ask(ctx, "submit", s, nil, nil)
	return err
}

// A Filter chooses jobs.
type Filter struct {
	States []State `json:"states,omitempty"`
	Most   int     `json:"most,omitempty"`  // the newest ones, 0 for all
	Trust  string  `json:"trust,omitempty"` // only of a program with this content
	Mine   bool    `json:"mine,omitempty"`  // only those of the user's own
	After  string  `json:"after,omitempty"` // only those that a list has after this job
}

// Jobs lists the jobs that the user may see, newest first. A hub sends long lists in parts.
func (c *Client) Jobs(ctx context.Context, f Filter) (list []Job, err error) {
	most, seen := f.Most, make(map[string]bool)
	for {
		var part []Job
		if f.Most = 0; most > 0 {
			f.Most = most - len(list)
		}
		if _, err := c.ask(ctx, "jobs", f, nil, &part); err != nil {
			return nil, err
		}
		if len(part) == 0 || seen[part[0].ID] { // an older hub sends the same part again
			return list, nil
		}
		for _, j := range part {
			seen[j.ID] = true
		}
		if list = append(list, part...); most > 0 && len(list) >= most {
			return list, nil
		}
		f.After = part[len(part)-1].ID
	}
}

// Remove removes a job that is over, with its files.
func (c *Client) Remove(ctx context.Context, job string) error {
	_, err := c.ask(ctx, "remove", job, nil, nil)
	return err
}

// A Prune chooses jobs that are over, to remove them.
type Prune struct {
	Before time.Time `json:"before"`         // that have not changed since
	User   string    `json:"user,omitempty"` // only of this name or key
	Dry    bool      `json:"dry,omitempty"`  // only count them
}

// Prune removes jobs that are over, and returns how many. It removes a part of them at a time.
func (c *Client) Prune(ctx context.Context, p Prune) (n int, err error) {
	for {
		var some int
		if _, err := c.ask(ctx, "prune", p, nil, &some); err != nil {
			return n, err
		}
		if n += some; some == 0 || p.Dry {
			return n, nil
		}
	}
}

// A NodeInfo is what a hub knows about a node.
type NodeInfo struct {
	Key     string    `json:"key"`
	Name    string    `json:"name"`
	Slots   int       `json:"slots"`
	Labels  []string  `json:"labels,omitempty"`
	Version string    `json:"version,omitempty"`
	Seen    time.Time `json:"seen"` // when it last asked for a job or worked on one
	Jobs    []string  `json:"jobs,omitempty"`
}

// Nodes lists the nodes that the hub has heard of, with those that it has not revoked.
func (c *Client) Nodes(ctx context.Context) (list []NodeInfo, err error) {
	_, err = c.ask(ctx, "nodes", nil, nil, &list)
	return list, err
}

// Job returns a job by its id, or by the only beginning of one.
func (c *Client) Job(ctx context.Context, id string) (j Job, err error) {
	_, err = c.ask(ctx, "job", id, nil, &j)
	return j, err
}

// An EventsQuery asks for the events of a job from a number on. If there are none, the hub
// waits for some.
type EventsQuery struct {
	Job  string        `json:"job"`
	From uint64        `json:"from"`
	Wait time.Duration `json:"wait,omitempty"`
}

// Events are lines of JSON, as golem run --json prints them.
type Events struct {
	Next  uint64   `json:"next"`
	Lines [][]byte `json:"lines"`
	State State    `json:"state"`
}

// Events returns the events of a job.
func (c *Client) Events(ctx context.Context, q EventsQuery) (e Events, err error) {
	_, err = c.ask(ctx, "events", q, nil, &e)
	return e, err
}

// Cancel stops a job.
func (c *Client) Cancel(ctx context.Context, job string) error {
	_, err := c.ask(ctx, "cancel", job, nil, nil)
	return err
}

// Retry queues a job again that failed, was cancelled or is in doubt. The calls in doubt may
// be made again.
func (c *Client) Retry(ctx context.Context, job string) error {
	_, err := c.ask(ctx, "retry", job, nil, nil)
	return err
}

// Decide sends a signed decision.
func (c *Client) Decide(ctx context.Context, job string, s Signed) error {
	_, err := c.ask(ctx, "decide", struct {
		Job    string `json:"job"`
		Signed Signed `json:"signed"`
	}{job, s}, nil, nil)
	return err
}

// An Offer is what a node offers when it asks for a job.
type Offer struct {
	Labels  []string      `json:"labels,omitempty"`
	Wait    time.Duration `json:"wait"`
	Slots   int           `json:"slots,omitempty"`   // how many jobs it does at once, for lists
	Version string        `json:"version,omitempty"` // of its golem, for lists
	Known   *Revision     `json:"known,omitempty"`   // the newest that the node knows
}

// A Revision says how far the data of a hub had come. A hub whose data is older was restored from a
// backup, and does not know which calls were made since. A node keeps the newest revision that it
// has seen, and sends it with what it asks for.
type Revision struct {
	Start int64  `json:"start"` // of the hub; a later start has a larger one
	ID    string `json:"id"`    // of the start
	Calls uint64 `json:"calls"` // that nodes have begun
	Proof []byte `json:"proof"` // that the hub has made the revision
}

// IsBefore reports whether r is older than s.
func (r Revision) IsBefore(s Revision) bool {
	return r.Start < s.Start || r.Start == s.Start && r.Calls < s.Calls
}

// Revision tells the hub which revision the node knows, nil for none, and returns the newest one. It
// returns nil for a hub of an older version, which has none.
func (c *Client) Revision(ctx context.Context, known *Revision) (now *Revision, err error) {
	_, err = c.ask(ctx, "revision", known, nil, &now)
	if IsCode(err, CodeInvalid) {
		return nil, nil
	}
	return now, err
}

// Take asks for a job. It returns nil if there is none.
func (c *Client) Take(ctx context.Context, o Offer) (j *Job, err error) {
	_, err = c.ask(ctx, "take", o, nil, &j)
	return j, err
}

// An Attempt names an attempt at a job.
type Attempt struct {
	Job    string `json:"job"`
	Number int    `json:"number"`
}

// Beat says that the node still works on a job, and returns whether it shall stop.
func (c *Client) Beat(ctx context.Context, a Attempt) (cancel bool, err error) {
	_, err = c.ask(ctx, "beat", a, nil, &cancel)
	return cancel, err
}

// A Claim is the wish to make a call with an effect.
type Claim struct {
	Attempt
	Call   string `json:"call"` // its id in the run
	Tool   string `json:"tool"`
	Digest string `json:"digest"`
	// Local says that the call changes only files of the job. They came back from the last
	// checkpoint, so it can be made again.
	Local bool   `json:"local,omitempty"`
	Nonce string `json:"nonce"` // the same if the claim is sent again
	// Known is the newest revision that the node knows.
	Known *Revision `json:"known,omitempty"`
}

// Claim asks whether a call may be made, and returns the revision with the claim, nil from a hub of
// an older version. The error has CodeDoubt if an earlier attempt began the call.
func (c *Client) Claim(ctx context.Context, claim Claim) (now *Revision, err error) {
	_, err = c.ask(ctx, "claim", claim, nil, &now)
	return now, err
}

// A Checkpoint is where another node could continue.
type Checkpoint struct {
	Attempt
	Files   string   `json:"files"` // the hash of the list of files
	Journal Head     `json:"journal"`
	Lines   [][]byte `json:"lines,omitempty"` // events since the last one
	First   uint64   `json:"first"`           // the number of the first line
	Taint   string   `json:"taint,omitempty"` // the untrusted input that the job has read
}

// Checkpoint keeps a checkpoint.
func (c *Client) Checkpoint(ctx context.Context, p Checkpoint) error {
	_, err := c.ask(ctx, "checkpoint", p, nil, nil)
	return err
}

// A Question is about calls that wait for a decision.
type Question struct {
	Attempt
	Requests []Request `json:"requests"`
}

// Ask tells the hub which calls wait. They are decided while the node holds the job or later.
func (c *Client) Ask(ctx context.Context, q Question) error {
	_, err := c.ask(ctx, "question", q, nil, nil)
	return err
}

// A DecisionsQuery asks for the requests of a job with their decisions. The hub waits until
// one has a decision that was not there before.
type DecisionsQuery struct {
	Attempt
	Wait time.Duration `json:"wait"`
}

// Decisions returns the requests of a job.
func (c *Client) Decisions(ctx context.Context, q DecisionsQuery) (list []Request, err error) {
	_, err = c.ask(ctx, "decisions", q, nil, &list)
	return list, err
}

// Pause gives a job back that waits for decisions.
func (c *Client) Pause(ctx context.Context, a Attempt) error {
	_, err := c.ask(ctx, "pause", a, nil, nil)
	return err
}

// An End says how an attempt ended.
type End struct {
	Attempt
	State  State  `json:"state"`
	Result Result `json:"result"`
	Doubt  *Doubt `json:"doubt,omitempty"`
}

// End ends an attempt.
func (c *Client) End(ctx context.Context, e End) error {
	_, err := c.ask(ctx, "end", e, nil, nil)
	return err
}
