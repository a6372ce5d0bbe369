// Package job takes snapshots of programs for other machines, opens such a program there
// within the limits of the machine, and receives what it has made.
package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/taint"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/files/parcel"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// The directories of a job.
const (
	jobProgram = "program"
	jobState   = "state"
)

// Open loads the program in the directory of a job, whose files are in program and whose
// state is in state. The options name no directory, and in Trust the hash of the content
// that the user trusts. It is an error if the program has another one, or exceeds the limits.
// Without limits it is the user's own program.
func Open(dir string, o program.Options, limits *Limits) (*program.Program, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	o.Dir, o.State = filepath.Join(dir, jobProgram), filepath.Join(dir, jobState)
	if limits != nil {
		o.Job = limits.MayReach
	}
	p, err := program.Load(o)
	if err != nil && !program.IsOnlyExcess(err) {
		return nil, err
	}
	if string(p.Root()) != o.Dir {
		return nil, &sandbox.Error{Op: "job", Code: sandbox.ErrInvalid, Hint: "a directory above the job has a project file; choose another directory for jobs"}
	}
	if p.Content.Hash != o.Trust {
		return nil, &sandbox.Error{Op: "job", Code: "untrusted", Hint: "the program is not the one that the user trusts; submit it again"}
	}
	if limits == nil {
		return p, nil
	}
	return p, limits.check(p)
}

// Restore makes the directory of a job from a snapshot and loads its program, as Open
// does. get is that of parcel.Write. Nothing in the snapshot is followed out of the
// directory. No golem may work there meanwhile.
func Restore(ctx context.Context, dir string, o program.Options, limits *Limits, s Snapshot, get func(ctx context.Context, hash string) (io.ReadCloser, error)) (*program.Program, error) {
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
	p, err := Open(dir, o, limits)
	if errors.Is(err, inventory.ErrOlder) {
		return nil, fmt.Errorf("%w before the job waited, and this golem cannot read them; submit the job again", inventory.ErrOlder)
	}
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

// OpenRun opens the run of a program that has one session: the program of a job. It
// begins the run if there is none yet. resumed is true if the run continues, and Do then
// needs no input.
func OpenRun(p *program.Program, j program.RunOptions) (r *program.Run, resumed bool, err error) {
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

// Waiting returns the requests of a program that wait for an answer.
func Waiting(s storage.Storage) (waiting []WaitingRequest, err error) {
	if !s.Exists() {
		return nil, nil
	}
	records, err := s.OpenRecords()
	if err != nil {
		return nil, err
	}
	defer records.Close()
	list, err := records.Waiting(s.Sessions)
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

// Answer answers a waiting request of a program with the reply of a person elsewhere, whom by
// names. The journal gets it first.
func Answer(s storage.Storage, id, by string, reply approval.Reply, secrets []string) error {
	records, err := s.OpenRecords()
	if err != nil {
		return err
	}
	defer records.Close()
	return records.AnswerAs(id, by, reply, secrets)
}

// ForgetAnswers removes the answers and remembered rules of a program, after its state came
// from a machine that may not decide. Its requests wait again.
func ForgetAnswers(s storage.Storage, secrets []string) error {
	if !s.Exists() {
		return nil
	}
	records, err := s.OpenRecords()
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

// Taint returns the untrusted input that a job has read, "" for none.
func Taint(s storage.Storage) string {
	list, err := s.Sessions.List()
	if err != nil || len(list) != 1 {
		return ""
	}
	return taint.ReadMarker(s.TaintFile(list[0]))
}

// MarkTainted marks the session of a job as tainted, if it has one and is not.
func MarkTainted(s storage.Storage, from string) error {
	list, err := s.Sessions.List()
	if err != nil || len(list) != 1 || from == "" || Taint(s) != "" {
		return err
	}
	return durable.WriteFile(s.TaintFile(list[0]), []byte(from), 0o600)
}
