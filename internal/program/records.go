package program

import (
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// OpenRecords are what is kept of a program: its journal, and what was answered.
type Records struct {
	Approvals *approval.Store
	Policy    string // the content that rules must have been made for

	folder  *state.Folder
	now     func() time.Time
	session string // what this process is called in the journal
}

// OpenRecords opens what is kept of the program, and makes it where it is missing.
func (p *Program) OpenRecords() (*Records, error) {
	folder, err := state.Open(p.state)
	if err != nil {
		return nil, err
	}
	store, err := approval.Open(folder)
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return &Records{store, policyHash(p.Content, p.Project), folder, p.options.Now, strings.ToLower(rand.Text()[:8])}, nil
}

// State is the folder in which everything about the program is kept, for the
// user's eyes.
func (p *Program) State() sandbox.Host { return sandbox.Host(p.state) }

// HasState reports whether anything is kept of the program.
func (p *Program) HasState() bool {
	_, err := os.Lstat(p.state)
	return err == nil
}

// OpenJournal opens the folder that the journal is in, for audit.Read and
// audit.Verify. It is nil where nothing is kept yet: to look makes nothing.
func (p *Program) OpenJournal() (*state.Folder, error) {
	if !p.HasState() {
		return nil, nil
	}
	return state.Open(p.state)
}

// Staged returns the ids of the staged commits that wait for a review.
func (r *Records) Staged() ([]string, error) { return clearance.Waiting(r.folder) }

// Close lets go of the folder.
func (r *Records) Close() error { return r.folder.Close() }

func (r *Records) open(secrets []string) (*audit.Journal, error) {
	return audit.Open(r.folder, audit.Options{Now: r.now, Session: r.session, Secrets: secrets})
}

// Answer answers a request that waits, with what a person replied. It is in the journal
// before it counts.
func (r *Records) Answer(id string, reply approval.Reply, secrets []string) error {
	w, err := r.Approvals.FindPending(id)
	if err == nil && w.Answer != nil {
		err = w.AnsweredError()
	}
	if err != nil {
		return err
	}
	request, err := r.Approvals.Request(w)
	if err != nil {
		return err
	}
	a, err := r.Approvals.CheckAnswer(w, reply)
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
		Decision: word, By: "user", Seen: a.SeenText(), Digest: w.Digest, Request: id, Note: a.Note}
	if err := r.write(record, secrets); err != nil {
		return err
	}
	reply.By = "user"
	err = r.Approvals.Answer(id, reply, r.now())
	if err != nil { // somebody was faster
		record.Code, record.Note = string(sandbox.CodeOf(err)), "too late: it does not count"
		return errors.Join(err, r.write(record, secrets))
	}
	return nil
}

// Revoke takes back a rule or a request, and returns it in words.
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

// write puts one record into the journal, on the disk.
func (r *Records) write(record audit.Record, secrets []string) error {
	journal, err := r.open(secrets)
	if err != nil {
		return err
	}
	return errors.Join(journal.Write(record, audit.Durable), journal.Close())
}
