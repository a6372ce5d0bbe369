package forge

import (
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// A Visit says as which worker somebody comes to the door, and who can be asked.
type Visit struct {
	Worker       string // "" for the entry worker
	Asker        approval.Asker
	ApproveReads bool
	Secrets      []string // values that must not get into the journal
}

// A Door is the gate of a worker, with the journal behind it. It is closed
// after use.
type Door struct {
	tool.Gate
	records *Records
	journal *audit.Journal
	doorman *doorman
}

// Tools returns the gate of a worker as far as it can be looked at: what tools
// there are, and what it may do. It does nothing: there are no files behind it.
func (p *Program) Tools(worker string) (tool.Gate, error) {
	step, err := p.reach(worker)
	if err != nil {
		return tool.Gate{}, err
	}
	g := tool.Gate{Tools: Tools(), Grant: p.Project.Grant(), Workers: []string{"project"}}
	if step != nil {
		g.Grant, g.Workers = step.Grant, step.Chain()
	}
	for at := step; at != nil; at = at.Parent {
		if err := at.Problems.Err(); err != nil {
			return tool.Gate{}, err
		}
	}
	return g, nil
}

// Door opens the door for a worker of the program: what it may do, in the
// user's real folders. A program that the user does not trust has none.
func (p *Program) Door(v Visit) (*Door, error) {
	if err := p.mustTrust(); err != nil {
		return nil, err
	}
	gate, err := p.Tools(v.Worker)
	if err != nil {
		return nil, err
	}
	files, err := p.Project.Sandbox()
	if err != nil {
		return nil, err
	}
	if gate.Files, err = gate.Grant.Files.Apply(files); err != nil {
		return nil, err
	}
	records, err := p.Records()
	if err != nil {
		return nil, err
	}
	journal, err := records.open(v.Secrets)
	if err != nil {
		return nil, errors.Join(err, records.Close())
	}
	doorman, err := newDoorman(records.folder, records.session, files)
	if err != nil {
		return nil, errors.Join(err, journal.Close(), records.Close())
	}
	gate.Journal = signer{journal, doorman.signed()}
	gate.Approver = &approval.Desk{Mode: approval.Mode(p.Project.Approval), Reads: v.ApproveReads, Store: records.Approvals,
		Asker: v.Asker, Policy: p.Content.Hash, Now: p.options.Now}
	return &Door{gate, records, journal, doorman}, nil
}

// Close writes down what is not yet written, and lets go of the state.
func (d *Door) Close() error {
	return errors.Join(d.journal.Close(), d.doorman.leave(), d.records.Close())
}

// mustTrust is an error for a program whose content the user does not trust.
func (p *Program) mustTrust() error {
	trusted, err := p.Trusted()
	if err != nil || trusted {
		return err
	}
	return &sandbox.Error{Op: "trust", Code: "untrusted",
		Hint: "this program's files have no effect before you trust them; golem trust shows what they ask for"}
}

// Records are what is kept of a program: its journal, and what was answered.
type Records struct {
	Approvals *approval.Store
	Policy    string // the content that rules must have been made for

	folder  *state.Folder
	now     func() time.Time
	session string // what this process is called in the journal
}

// Records opens what is kept of the program, and makes it where it is missing.
func (p *Program) Records() (*Records, error) {
	folder, err := state.Open(p.state)
	if err != nil {
		return nil, err
	}
	store, err := approval.Open(folder)
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return &Records{store, p.Content.Hash, folder, p.options.Now, strings.ToLower(rand.Text()[:8])}, nil
}

// HasState reports whether anything is kept of the program.
func (p *Program) HasState() bool {
	_, err := os.Lstat(p.state)
	return err == nil
}

// Journal opens the folder that the journal is in, for audit.Read and
// audit.Verify. It is nil where nothing is kept yet: to look makes nothing.
func (p *Program) Journal() (*state.Folder, error) {
	if !p.HasState() {
		return nil, nil
	}
	return state.Open(p.state)
}

// Close lets go of the folder.
func (r *Records) Close() error { return r.folder.Close() }

func (r *Records) open(secrets []string) (*audit.Journal, error) {
	return audit.Open(r.folder, audit.Options{Now: r.now, Session: r.session, Secrets: secrets})
}

// Answer answers a request that waits. It is in the journal before it counts.
func (r *Records) Answer(id string, yes bool, note string, secrets []string) error {
	w, err := r.Approvals.Waiting(id)
	if err != nil {
		return err
	}
	word := "no"
	if yes {
		word = "yes"
	}
	record := audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Workers: w.Workers, Tool: w.Tool, Effects: w.Effects,
		Decision: word, By: "user", Digest: w.Digest, Request: id, Note: note}
	if err := r.write(record, secrets); err != nil {
		return err
	}
	return r.Approvals.Answer(id, approval.Given{Yes: yes, By: "user", Note: note, Made: r.now()})
}

// Revoke takes back a rule or a request, and returns it in words.
func (r *Records) Revoke(id string, secrets []string) (string, error) {
	what, err := r.Approvals.Revoke(id)
	if err != nil {
		return "", err
	}
	return what, r.write(audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Decision: "revoked", By: "user", Request: id, Note: what}, secrets)
}

// write puts one record into the journal, on the disk.
func (r *Records) write(record audit.Record, secrets []string) error {
	journal, err := r.open(secrets)
	if err != nil {
		return err
	}
	return errors.Join(journal.Write(record, audit.Durable), journal.Close())
}
