package program

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// Records are the journal and the approvals of a program.
type Records struct {
	Approvals *approval.Store
	Policy    string // the hash that rules are bound to

	folder    *state.Dir
	now       func() time.Time
	unseenOff string // the line of a policy that forbids unseen approvals, "" for none

	process string // the id of this process
	session string // the id of the session in the journal, or of this process if there is none
}

// OpenRecords opens the records of the program, and makes them if they are missing.
func (p *Program) OpenRecords() (*Records, error) {
	folder, err := state.Open(p.state)
	if err != nil {
		return nil, err
	}
	if err := describeState(p, folder); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	store, err := approval.Open(folder)
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	id := strings.ToLower(rand.Text()[:8])
	unseenOff := ""
	if place, off := p.Project.Ceiling.UnseenOff(); off {
		unseenOff = place.String()
	}
	return &Records{unseenOff: unseenOff, Approvals: store, Policy: policyHash(p.Content, p.Project), folder: folder, now: p.options.Now, process: id, session: id}, nil
}

// State returns the program's state directory, to be shown to the user.
func (p *Program) State() sandbox.Host { return sandbox.Host(p.state) }

// HasState reports whether the program has a state directory.
func (p *Program) HasState() bool {
	_, err := os.Lstat(p.state)
	return err == nil
}

// OpenJournal opens the directory of the journal, for audit.Read and audit.Verify. It
// returns nil if there is no state, and makes none.
func (p *Program) OpenJournal() (*state.Dir, error) {
	if !p.HasState() {
		return nil, nil
	}
	return state.Open(p.state)
}

// Waiting returns the pending requests that have no answer, as Pending does.
func (r *Records) Waiting(sessions session.Store) ([]approval.PendingRequest, error) {
	list, err := r.Pending(sessions)
	return slices.DeleteFunc(list, func(w approval.PendingRequest) bool { return w.Answer != nil }), err
}

// Pending returns the pending requests, also those with an answer that was not used yet.
// It omits requests that have expired, and requests to apply or discard changes that the
// session no longer has: no answer to them can count.
func (r *Records) Pending(sessions session.Store) ([]approval.PendingRequest, error) {
	list, err := r.Approvals.Pending()
	return slices.DeleteFunc(list, func(w approval.PendingRequest) bool {
		return w.Expired(r.now()) || w.Answer == nil && r.isObsolete(sessions, w)
	}), err
}

// isObsolete reports whether a request is about changes that no session has any more.
func (r *Records) isObsolete(sessions session.Store, w approval.PendingRequest) bool {
	if w.Tool != "apply_changes" && w.Tool != "discard_changes" {
		return false
	}
	request, err := r.Approvals.Request(w)
	isCommit := func(c tool.Change) bool { return !strings.HasPrefix(c.Path, "/") }
	if err != nil || slices.ContainsFunc(request.Changes, isCommit) {
		return false
	}
	list, err := sessions.List()
	if err != nil {
		return false
	}
	for _, one := range list {
		contents, err := sessions.OpenContents(one)
		if err != nil {
			return false
		}
		gone := !contents.IsPartial() && slices.ContainsFunc(request.Changes, func(c tool.Change) bool { return c.Path != "/" && !contents.Has(c.Path) })
		if contents.Close(); !gone {
			return false
		}
	}
	return true
}

// Staged returns the ids of the staged commits that wait for a review.
func (r *Records) Staged() ([]string, error) { return clearance.Waiting(r.folder) }

// Close closes the state directory.
func (r *Records) Close() error { return r.folder.Close() }

func (r *Records) open(secrets []string) (*audit.Journal, error) {
	return audit.Open(r.folder, audit.Options{Now: r.now, Session: r.session, Secrets: secrets})
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

// A Journal is the journal of one program, in its state directory.
type Journal struct {
	Program string // the name of the program's directory
	State   sandbox.Host
}

// Journals returns the journals of all programs, sorted by name.
func Journals(o Options) ([]Journal, error) {
	entries, err := os.ReadDir(o.stateBase())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Journal
	for _, e := range entries {
		dir := filepath.Join(o.stateBase(), e.Name())
		if !e.IsDir() || !audit.IsJournal(dir) {
			continue
		}
		list = append(list, Journal{NameOf(dir), sandbox.Host(dir)})
	}
	return list, err
}

// NameOf returns the name of the program whose state directory is dir.
func NameOf(dir string) string {
	name := strings.TrimSuffix(filepath.Base(dir), bareSuffix)
	if i := strings.LastIndex(name, "-"); i > 0 {
		return name[:i]
	}
	return name
}

// Answer answers a pending request with the reply of a person. It records the answer in
// the journal first.
func (r *Records) Answer(id string, reply approval.Reply, secrets []string) error {
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
	if err == nil && a.Unseen && a.Verdict == tool.Approved && r.unseenOff != "" {
		err = &sandbox.Error{Op: "approve", Path: id, Code: "blocked", Hint: approval.UnseenOffNote(r.unseenOff)}
	}
	if err != nil {
		return err
	}
	var effects []string
	for _, e := range request.Effects {
		effects = append(effects, e.String())
	}
	word := "no"
	if a.Verdict == tool.Approved {
		word = "yes"
	}
	record := audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Workers: w.Workers, Tool: w.Tool, Effects: effects,
		Decision: word, By: "user", Seen: a.SeenText(), Front: a.Front, Shown: a.Shown, Digest: w.Digest, Request: id, Note: a.Note}
	if err := r.write(record, secrets); err != nil {
		return err
	}
	reply.By = "user"
	err = r.Approvals.Answer(id, reply, r.now())
	if err != nil { // another answer came first
		record.Code, record.Note = string(sandbox.CodeOf(err)), "too late: it does not count"
		return errors.Join(err, r.write(record, secrets))
	}
	return nil
}

// Revoke removes a rule or a request, and returns a description of it.
func (r *Records) Revoke(id string, secrets []string) (string, error) {
	what, err := r.Approvals.Describe(id)
	if err != nil {
		return "", err
	}
	record := audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Decision: "revoked", By: "user", Note: what}
	if err := r.write(record, secrets); err != nil {
		return "", err
	}
	return what, r.Approvals.Revoke(id)
}

// write writes one record to the journal and syncs it.
func (r *Records) write(record audit.Record, secrets []string) error {
	journal, err := r.open(secrets)
	if err != nil {
		return err
	}
	return errors.Join(journal.Write(record, audit.Durable), journal.Close())
}
