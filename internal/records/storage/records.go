package storage

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/sandbox"
)

// Records are the journal and the approvals of a program, opened together. Each answer of the
// user is in the journal before it counts. Records are closed after use.
type Records struct {
	Approvals *approval.Requests
	Policy    string // the hash that rules are bound to
	Folder    *state.Dir
	Process   string // the id of this process
	Session   string // the id of the session in the journal, or of this process if there is none

	now func() time.Time
}

// OpenRecords opens the records of the program, and makes them if they are missing.
func (s Storage) OpenRecords() (*Records, error) {
	folder, err := state.Open(s.Sessions.State)
	if err != nil {
		return nil, err
	}
	if err := inventory.Describe(folder, s.Sessions.State, s.Sessions.Root); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	store, err := approval.Open(folder)
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	store.UnseenOff = s.UnseenOff
	store.Label = func(id string) string {
		one, err := s.Sessions.Find(id)
		if err != nil {
			return id
		}
		return naming.Label(one)
	}
	id := strings.ToLower(rand.Text()[:8])
	return &Records{Approvals: store, Policy: s.Policy, Folder: folder, Process: id, Session: id, now: s.Sessions.Now}, nil
}

// Sessions are the sessions of a program.
type Sessions interface {
	// HaveLost reports whether every session lacks a change at one of these paths.
	HaveLost(paths []string) bool
}

// Waiting returns the pending requests that have no answer, as Pending does.
func (r *Records) Waiting(sessions Sessions) ([]approval.PendingRequest, error) {
	list, err := r.Pending(sessions)
	return slices.DeleteFunc(list, func(w approval.PendingRequest) bool { return w.Answer != nil }), err
}

// Pending returns the pending requests, also those with an answer that was not used yet.
// It omits requests that have expired, and requests to apply or discard changes that the
// session no longer has: no answer to them can count.
func (r *Records) Pending(sessions Sessions) ([]approval.PendingRequest, error) {
	list, err := r.Approvals.Pending()
	return slices.DeleteFunc(list, func(w approval.PendingRequest) bool {
		return w.Expired(r.now()) || w.Answer == nil && r.isObsolete(sessions, w)
	}), err
}

// withdraw removes the pending requests of a session.
func (r *Records) withdraw(session string) error {
	list, err := r.Approvals.Pending()
	for _, w := range list {
		if w.Session == session {
			err = errors.Join(err, r.Approvals.Revoke(w.ID))
		}
	}
	return err
}

// isObsolete reports whether a request is about changes that no session has any more.
func (r *Records) isObsolete(sessions Sessions, w approval.PendingRequest) bool {
	if w.Tool != "apply_changes" && w.Tool != "discard_changes" {
		return false
	}
	request, err := r.Approvals.Request(w)
	if err != nil {
		return false
	}
	var paths []string
	for _, c := range request.Changes {
		if !strings.HasPrefix(c.Path, "/") { // a commit
			return false
		}
		if c.Path != "/" {
			paths = append(paths, c.Path)
		}
	}
	return sessions.HaveLost(paths)
}

// Staged returns the ids of the staged commits that wait for a review.
func (r *Records) Staged() ([]string, error) { return clearance.Waiting(r.Folder) }

// StagedCommit returns a staged commit by its full id.
func (r *Records) StagedCommit(id string) (*clearance.StagedCommit, error) {
	return clearance.ReadStaged(r.Folder, id)
}

// Close closes the state directory.
func (r *Records) Close() error { return r.Folder.Close() }

// OpenJournal opens the journal for writing. Secrets are values that must not get into it.
func (r *Records) OpenJournal(secrets []string) (*audit.Journal, error) {
	return audit.Open(r.Folder, audit.Options{Now: r.now, Session: r.Session, Secrets: secrets})
}

// CheckPending returns an error if an answer to a request would not count: it has one, or
// it has expired.
func (r *Records) CheckPending(w approval.PendingRequest) error {
	switch {
	case w.Answer != nil:
		return w.AnsweredError()
	case w.Expired(r.now()):
		return w.ExpiredError()
	}
	return nil
}

// Answer answers a pending request with the reply of the user. It records the answer in
// the journal first.
func (r *Records) Answer(id string, reply approval.Reply, secrets []string) error {
	return r.AnswerAs(id, "user", reply, secrets)
}

// AnswerAs is Answer for the reply of another person, whom by names.
func (r *Records) AnswerAs(id, by string, reply approval.Reply, secrets []string) error {
	w, err := r.Approvals.FindPending(id)
	if err == nil {
		err = r.CheckPending(w)
	}
	if err != nil {
		return err
	}
	request, err := r.Approvals.Request(w)
	if err != nil {
		return err
	}
	a, err := r.Approvals.CheckAnswer(w, reply)
	if err == nil && reply.Keeps(a) {
		rule, wrong := r.Approvals.CompleteRule(w, *reply.Remember, r.now())
		reply.Remember, err = &rule, wrong
		a.Note = rule.Note()
	}
	if err != nil {
		return err
	}
	record := r.answerRecord(id, by, request, a, &reply)
	if err := r.Write(record, secrets); err != nil {
		return err
	}
	reply.By = by
	return r.noteFailed(record, r.Approvals.Answer(id, reply, r.now()), secrets)
}

// answerRecord returns the record of an answer. It keeps the text that was on screen.
func (r *Records) answerRecord(id, by string, request tool.Request, a tool.Answer, reply *approval.Reply) audit.Record {
	var effects []string
	for _, e := range request.Effects {
		effects = append(effects, e.String())
	}
	word := "no"
	if a.Verdict == tool.Approved {
		word = "yes"
	}
	if a.Front != "" {
		reply.Text = r.Approvals.KeepShown(request, *reply)
	}
	return audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Workers: request.Workers, Tool: request.Tool, Effects: effects,
		Decision: word, By: by, Seen: a.Seen.String(), Front: a.Front, Shown: a.Shown, Text: reply.Text, Digest: request.Digest, Request: id, Note: a.Note}
}

// noteFailed records that an answer does not count because of an error, and returns the error.
func (r *Records) noteFailed(record audit.Record, err error, secrets []string) error {
	if err == nil {
		return nil
	}
	var refused *sandbox.Error
	switch {
	case sandbox.CodeOf(err) == sandbox.ErrExists:
		record.Note = "too late: it does not count"
	case errors.As(err, &refused) && refused.Code != sandbox.ErrInternal:
		record.Note = "it does not count: " + err.Error()
	default:
		record.Note = "golem does not know whether it counts: " + err.Error()
	}
	record.Code = string(sandbox.CodeOf(err))
	return errors.Join(err, r.Write(record, secrets))
}

// A Distant is a request that waits on another machine.
type Distant struct {
	ID      string
	Job     string // that asks
	Request tool.Request
	Since   time.Time
}

// AnswerDistant answers a request on another machine with the reply of the user: send sends the
// answer. The journal of this machine gets it first, and also if it does not count there.
func (r *Records) AnswerDistant(d Distant, reply approval.Reply, secrets []string, send func() error) error {
	d.Request.UnseenOff = r.Approvals.UnseenOff
	a, err := approval.CheckReply(d.Request, reply)
	if err != nil {
		return err
	}
	r.Session = d.Job
	record := r.answerRecord(d.ID, "user", d.Request, a, &reply)
	record.Args = map[string]any{"job": d.Job, WaitedArg: max(r.now().Sub(d.Since), 0).Milliseconds()}
	if err := r.Write(record, secrets); err != nil {
		return err
	}
	return r.noteFailed(record, send(), secrets)
}

// Decide records in the journal what the user decided about a command of theirs that is no
// call of a tool: see tool.NewCommandRequest. After an approval it calls do, and records if
// that fails. By names who decided: the user, or a flag such as --yes. An approval of a flag
// covers what nobody has seen.
func (r *Records) Decide(request tool.Request, by string, reply approval.Reply, secrets []string, do func() error) error {
	request.UnseenOff = r.Approvals.UnseenOff
	a, err := approval.CheckReply(request, reply)
	if err != nil {
		return err
	}
	record := r.answerRecord("", by, request, a, &reply)
	if err := json.Unmarshal(request.Args, &record.Args); err != nil {
		return err
	}
	if err := r.Write(record, secrets); err != nil || a.Verdict != tool.Approved {
		return err
	}
	return r.noteFailed(record, do(), secrets)
}

// WaitedArg names how many milliseconds a request waited, in the record of an answer to another
// machine. The journal of this machine does not have the request itself.
const WaitedArg = "waited"

// Revoke removes a rule or a request, and returns a description of it.
func (r *Records) Revoke(id string, secrets []string) (string, error) {
	what, err := r.Approvals.Describe(id)
	if err != nil {
		return "", err
	}
	record := audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Decision: "revoked", By: "user", Note: what}
	if err := r.Write(record, secrets); err != nil {
		return "", err
	}
	return what, r.Approvals.Revoke(id)
}

// Write writes one record to the journal and syncs it.
func (r *Records) Write(record audit.Record, secrets []string) error {
	journal, err := r.OpenJournal(secrets)
	if err != nil {
		return err
	}
	return errors.Join(journal.Write(record, audit.Durable), journal.Close())
}
