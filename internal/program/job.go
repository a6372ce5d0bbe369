package program

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/inventory"
	"github.com/golem-forge/golem/internal/parcel"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/taint"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// The directories of a job.
const (
	jobProgram = "program"
	jobState   = "state"
)

// OpenJob loads the program in the directory of a job, whose files are in program and whose
// state is in state. The options name no directory, and in Trust the hash of the content
// that the user trusts. It is an error if the program has another one.
func OpenJob(dir string, o Options) (*Program, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	o.Dir, o.State = filepath.Join(dir, jobProgram), filepath.Join(dir, jobState)
	p, err := Load(o)
	if err != nil && !IsOnlyExcess(err) {
		return nil, err
	}
	if p.root != o.Dir {
		return nil, &sandbox.Error{Op: "job", Code: sandbox.ErrInvalid, Hint: "a directory above the job has a project file; choose another directory for jobs"}
	}
	if p.Content.Hash != o.Trust {
		return nil, &sandbox.Error{Op: "job", Code: "untrusted", Hint: "the program is not the one that the user trusts; submit it again"}
	}
	if o.Job != nil {
		if err := o.Job.check(p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// RestoreJob makes the directory of a job from a snapshot and loads its program, as OpenJob
// does. get is that of parcel.Write. Nothing in the snapshot is followed out of the
// directory. No golem may work there meanwhile.
func RestoreJob(ctx context.Context, dir string, o Options, s Snapshot, get func(ctx context.Context, hash string) (io.ReadCloser, error)) (*Program, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, err
	}
	root := filepath.Join(dir, jobProgram)
	if err := parcel.Write(ctx, root, s.Program, parcel.Limits{}, get); err != nil {
		return nil, fmt.Errorf("the program: %w", err)
	}
	if err := parcel.Write(ctx, filepath.Join(dir, jobState, inventory.StateName(root)), s.State, parcel.Limits{}, get); err != nil {
		return nil, fmt.Errorf("the state: %w", err)
	}
	p, err := OpenJob(dir, o)
	if err != nil {
		return nil, err
	}
	if err := session.Adopt(p.Storage.Sessions); err != nil || len(s.State) == 0 {
		return p, err
	}
	records, err := p.Storage.OpenRecords() // it notes the new directory
	if err != nil {
		return nil, err
	}
	return p, records.Close()
}

// OpenOnlyRun opens the run of a program that has one session: the program of a job. It
// begins the run if there is none yet. resumed is true if the run continues, and Do then
// needs no input.
func OpenOnlyRun(p *Program, j RunOptions) (r *Run, resumed bool, err error) {
	list, err := p.Storage.Sessions.List()
	if err != nil {
		return nil, false, err
	}
	j.Session, j.Resume = session.New, false
	switch len(list) {
	case 0:
	case 1:
		j.Session = list[0].ID
		begin, err := p.Storage.Runs().Begin(list[0])
		if err != nil {
			return nil, false, err
		}
		j.Resume = begin.Kind != ""
	default:
		return nil, false, &sandbox.Error{Op: "job", Code: sandbox.ErrInvalid, Hint: fmt.Sprintf("it has %d sessions, and a job has one; continue one of them with golem run --resume", len(list))}
	}
	r, err = p.OpenRun(j)
	return r, j.Resume, err
}

// A WaitingRequest is a request that waits for an answer, with all that a person is shown.
type WaitingRequest struct {
	approval.PendingRequest
	Request tool.Request `json:"request"`
}

// check returns an error if an answer would count for another call than the request shows. Its
// state may come from a machine that lies.
func (w WaitingRequest) check() error {
	if w.Digest != w.Request.Digest || w.CallDigest != w.Request.CallDigest {
		return &sandbox.Error{Op: "approve", Path: w.ID, Code: sandbox.ErrInvalid, Hint: "it is stored for another call; submit the job again"}
	}
	return w.Request.CheckDigests()
}

// WaitingRequests returns the requests of a program that wait for an answer.
func WaitingRequests(p *Program) (waiting []WaitingRequest, err error) {
	if !p.Storage.Exists() {
		return nil, nil
	}
	records, err := p.Storage.OpenRecords()
	if err != nil {
		return nil, err
	}
	defer records.Close()
	list, err := records.Waiting(p.Storage.Sessions)
	for _, w := range list {
		one := WaitingRequest{PendingRequest: w}
		if one.Request, err = records.Approvals.Request(w); err == nil {
			err = one.check()
		}
		if err != nil {
			return nil, err
		}
		waiting = append(waiting, one)
	}
	return waiting, err
}

// AnswerRequest answers a waiting request of a program with the reply of a person elsewhere, whom by
// names. The journal gets it first.
func AnswerRequest(p *Program, id, by string, reply approval.Reply, secrets []string) error {
	records, err := p.Storage.OpenRecords()
	if err != nil {
		return err
	}
	defer records.Close()
	return records.AnswerAs(id, by, reply, secrets)
}

// ForgetAnswers removes the answers and remembered rules of a program, after its state came
// from a machine that may not decide. Its requests wait again.
func ForgetAnswers(p *Program, secrets []string) error {
	if !p.Storage.Exists() {
		return nil
	}
	records, err := p.Storage.OpenRecords()
	if err != nil {
		return err
	}
	defer records.Close()
	record := audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Decision: "revoked", By: "golem", Note: "all answers and rules that came from another machine"}
	if err := records.Write(record, secrets); err != nil {
		return err
	}
	return records.Approvals.Forget()
}

// JobTaint returns the untrusted input that a job has read, "" for none.
func JobTaint(p *Program) string {
	list, err := p.Storage.Sessions.List()
	if err != nil || len(list) != 1 {
		return ""
	}
	return taint.ReadMarker(p.Storage.TaintFile(list[0]))
}

// TaintJob marks the session of a job as tainted, if it has one and is not.
func TaintJob(p *Program, from string) error {
	list, err := p.Storage.Sessions.List()
	if err != nil || len(list) != 1 || from == "" || JobTaint(p) != "" {
		return err
	}
	return durable.WriteFile(p.Storage.TaintFile(list[0]), []byte(from), 0o600)
}
