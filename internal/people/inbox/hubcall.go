package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// HubError returns the answer of a hub as an error with a code of golem's own.
func HubError(err error) error {
	var said *hub.Error
	if !errors.As(err, &said) {
		return err
	}
	code := map[string]sandbox.Code{hub.CodeRefused: "blocked", hub.CodeMissing: sandbox.ErrNotFound, hub.CodeDecided: sandbox.ErrExists, hub.CodeInvalid: sandbox.ErrInvalid}[said.Code]
	return &sandbox.Error{Op: "hub", Code: cmp.Or(code, sandbox.ErrInternal), Hint: visible.Text(said.Text)}
}

// A HubCall is a call of a job that waits for a decision at a hub.
type HubCall struct {
	hub.Request
	Job hub.Job
}

// waitingCallsOf returns the calls of jobs that have no decision. People see and type their ids.
func waitingCallsOf(jobs []hub.Job) (list []HubCall) {
	for _, j := range jobs {
		for _, r := range j.Requests {
			if r.Decided == nil && !j.State.IsOver() && visible.Name(r.ID) == r.ID && visible.Name(j.ID) == j.ID {
				list = append(list, HubCall{r, j})
			}
		}
	}
	slices.SortFunc(list, func(a, b HubCall) int { return a.Since.Compare(b.Since) })
	return list
}

// WaitingHubCalls returns the calls that wait at a hub, the oldest first.
func WaitingHubCalls(ctx context.Context, c *hub.Client) ([]HubCall, error) {
	jobs, err := c.Jobs(ctx, hub.Filter{States: []hub.State{hub.Running, hub.Waiting}})
	return waitingCallsOf(jobs), HubError(err)
}

// ReadHubCall returns a call that waits at a hub, and what it asks for. The error has the code
// exists and names the person, if somebody has decided.
func ReadHubCall(ctx context.Context, c *hub.Client, o program.Options, job, id string) (one HubCall, request tool.Request, err error) {
	j, err := c.Job(ctx, job)
	if err != nil {
		return one, request, HubError(err)
	}
	i := slices.IndexFunc(j.Requests, func(r hub.Request) bool { return r.ID == id })
	if j.ID != job || i < 0 {
		return one, request, &sandbox.Error{Op: "approve", Path: id, Code: sandbox.ErrNotFound, Hint: "no such call waits in job " + visible.Line(job, maxWhat) + "; golem jobs lists the jobs"}
	}
	one = HubCall{j.Requests[i], j}
	if one.Decided != nil {
		return one, request, one.decidedError(ctx, c)
	}
	if j.State.IsOver() {
		return one, request, &sandbox.Error{Op: "approve", Path: id, Code: sandbox.ErrConflict, Hint: "job " + j.ID + " is " + visible.Line(string(j.State), maxWhat) + ", so the call does not wait any more"}
	}
	if request, err = readRequest(ctx, c, one); err == nil {
		request.UnseenOff, err = o.UnseenOff()
	}
	return one, request, err
}

// readRequest returns what a call asks for: exactly the content whose hash the job names.
func readRequest(ctx context.Context, c *hub.Client, one HubCall) (request tool.Request, err error) {
	text, err := c.Get(ctx, hub.Part{Job: one.Job.ID, Hash: one.Hash})
	if err != nil {
		return request, HubError(err)
	}
	if err := json.Unmarshal(text, &request); err != nil {
		return request, &sandbox.Error{Op: "approve", Path: one.ID, Code: sandbox.ErrInvalid, Hint: "the call cannot be read: " + err.Error()}
	}
	if request.Digest != one.Digest || request.CheckDigests() != nil {
		return request, &sandbox.Error{Op: "approve", Path: one.ID, Code: sandbox.ErrInvalid, Hint: "the call is not the one that the node asks about; golem jobs cancel " + one.Job.ID + " ends the job"}
	}
	return reportedBy(request, "the node"), nil
}

// reportedBy returns a request of another machine. Nobody here can look at a file that the call
// reads, unless the request has its content.
func reportedBy(r tool.Request, reporter string) tool.Request {
	r.Reporter = reporter
	for i, c := range r.Changes {
		if (c.Op == tool.Read || c.Op == tool.Attach) && c.Diff == "" && c.Omitted == "" {
			r.Changes[i].Omitted = "it is at " + reporter
		}
	}
	return r
}

// spec returns what the submitter of the call's job has signed.
func (one HubCall) spec(c *hub.Client) (hub.Spec, error) {
	spec, err := hub.OpenSpec(one.Job.Spec)
	if err == nil && (spec.ID != one.Job.ID || spec.Hub != c.Hub) {
		err = errors.New("the hub sent another job than its submitter signed; ask its administrator")
	}
	if err != nil {
		return spec, &sandbox.Error{Op: "job", Path: one.Job.ID, Code: sandbox.ErrInvalid, Hint: visible.Text(err.Error())}
	}
	return spec, nil
}

// CheckHubApprover returns an error unless the user's decision about a call counts: the key has
// the role approve, and the job names it.
func CheckHubApprover(ctx context.Context, c *hub.Client, one HubCall) error {
	refuse := func(hint string) error {
		return &sandbox.Error{Op: "approve", Path: one.ID, Code: "blocked", Hint: hint}
	}
	if c.Role != hub.Approve {
		return refuse(fmt.Sprintf("your credentials have the role %s, which may not decide; an administrator makes others: golem hub invite --role approve", c.Role))
	}
	spec, err := one.spec(c)
	if err != nil {
		return err
	}
	if slices.Contains(spec.Approvers, c.Key) {
		return nil
	}
	names, _ := UserNames(ctx, c)
	may := visible.Each(spec.Approvers, func(key string) string { return cmp.Or(names[key], hub.Short(key)) })
	slices.Sort(may)
	return refuse("job " + one.Job.ID + " does not name you as an approver; these may decide: " + cmp.Or(strings.Join(slices.Compact(may), ", "), "nobody"))
}

// decidedError says who has decided about a call.
func (one HubCall) decidedError(ctx context.Context, c *hub.Client) error {
	exists := func(hint string) error {
		return &sandbox.Error{Op: "approve", Path: one.ID, Code: sandbox.ErrExists, Hint: hint}
	}
	spec, err := one.spec(c)
	if err != nil {
		return exists("somebody has decided about it")
	}
	d, err := hub.OpenDecision(*one.Decided, spec, one.Request)
	if err != nil {
		return exists("the hub has a decision about it that no approver signed; ask its administrator")
	}
	word := "declined"
	if d.Reply.Yes {
		word = "approved"
	}
	names, _ := UserNames(ctx, c)
	who := cmp.Or(names[d.By], visible.Line(d.Name, maxWhat))
	if d.By == c.Key {
		who = "you"
	}
	return exists(fmt.Sprintf("%s %s it, %s", who, word, d.Time.Local().Format(time.DateTime)))
}

// DecideHubCall signs the reply of the user to a call, and sends it to the hub. It counts for
// exactly the content that was shown: the node compares its hash with that of its own request.
// The journal of the user's decisions at this hub gets the reply first.
func DecideHubCall(ctx context.Context, c *hub.Client, o program.Options, one HubCall, shown tool.Request, reply approval.Reply, secrets []string) error {
	if err := CheckHubApprover(ctx, c, one); err != nil {
		return err
	}
	unseenOff, err := o.UnseenOff()
	if err != nil {
		return err
	}
	r, err := storage.Storage{Sessions: session.Sessions{State: filepath.Join(o.StateBase(), inventory.HubStateName(c.Hub)), Now: o.Now}, UnseenOff: unseenOff}.OpenRecords()
	if err != nil {
		return err
	}
	defer r.Close()
	distant := storage.Distant{ID: one.ID, Job: one.Job.ID, Request: shown, Since: one.Since}
	return r.AnswerDistant(distant, reply, secrets, func() error {
		d := hub.Decision{Hub: c.Hub, Job: one.Job.ID, Request: one.ID, Hash: one.Hash, By: c.Key, Name: c.Name, Time: o.Now().UTC(),
			Reply: hub.Reply{Yes: reply.Verdict == tool.Approved, Note: reply.Note, Rendered: reply.Rendered, DigestPrefix: reply.DigestPrefix, Front: reply.Front}}
		signed, err := hub.SignDecision(c.Credentials, d)
		if err != nil {
			return err
		}
		err = c.Decide(ctx, one.Job.ID, signed)
		if !hub.IsCode(err, hub.CodeDecided) && !hub.IsCode(err, hub.CodeInvalid) {
			return HubError(err)
		}
		now, _, wrong := ReadHubCall(ctx, c, o, one.Job.ID, one.ID)
		switch {
		case sandbox.CodeOf(wrong) == sandbox.ErrExists: // it says who has decided
			return wrong
		case now.ID == one.ID && now.Hash != one.Hash:
			return &sandbox.Error{Op: "approve", Path: one.ID, Code: sandbox.ErrConflict, Hint: "the call changed since it was shown; look at it again"}
		}
		return HubError(err)
	})
}

// UserNames returns the names of the users of a hub by their keys.
func UserNames(ctx context.Context, c *hub.Client) (map[string]string, error) {
	list, err := c.Users(ctx)
	names := make(map[string]string)
	for _, u := range list {
		names[u.Key] = visible.Line(u.Name, maxTitle)
	}
	return names, err
}
