package gate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// A Journal records who did what, and who approved it.
type Journal interface {
	// Begin records that a call is about to run. If it returns an error, the call is not made.
	// Unless r.ReadOnly is true, the record must be on the disk when Begin returns. If r.Request is not "" and a call with that
	// request has begun before, in any process, Begin returns an error with the code
	// [ErrUsed].
	Begin(r Record) error
	// End records how a call ended, or that it was refused. If r.Request is not "" and
	// r.Decision is "no", the request was declined, and counts as used for Begin.
	End(r Record) error
}

// A Record is one entry of a journal. It has names, effects and decisions, and never the
// content of a file.
type Record struct {
	Call     string         `json:"call"` // the same at the beginning and the end of a call
	Origin   string         `json:"origin"`
	Worker   string         `json:"worker"`
	Tool     string         `json:"tool"`
	Args     map[string]any `json:"args,omitempty"` // of a content only its size
	Effects  []string       `json:"effects,omitempty"`
	Decision string         `json:"decision,omitempty"` // preApproved, yes, no, pending or blocked
	By       string         `json:"by,omitempty"`       // a rule, or who decided
	Seen     string         `json:"seen,omitempty"`     // how much was rendered: "all 3 items", or "unseen"
	Digest   string         `json:"digest,omitempty"`
	Request  string         `json:"request,omitempty"` // the pending request that the call resumes
	Code     string         `json:"code,omitempty"`    // why the call failed or was refused
	Note     string         `json:"note,omitempty"`
	ReadOnly bool           `json:"readOnly,omitempty"` // the call changes nothing, so Begin need not wait for the disk
	Refused  bool           `json:"refused,omitempty"`  // the call was not made
}

// recorder is a journal as package tool has it.
type recorder struct {
	journal Journal
	by      *asking
}

// Write implements tool.Journal. A program's journal may panic: then the call is not made.
func (j *recorder) Write(r audit.Record, wait audit.Wait) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the journal broke: %v", v)
		}
	}()
	out := Record{Call: r.Call, Origin: r.Origin, Tool: r.Tool, Args: r.Args, Effects: r.Effects, Decision: r.Decision, By: r.By,
		Seen: r.Seen, Digest: r.Digest, Request: r.Request, Code: r.Code, Note: r.Note, ReadOnly: wait == audit.Queued, Refused: r.Kind == audit.Refusal}
	if len(r.Workers) > 0 {
		out.Worker = r.Workers[0]
	}
	if out.Request = j.by.resumes(); r.Kind != audit.Intent {
		return j.journal.End(out)
	}
	if err = j.journal.Begin(out); sandbox.CodeOf(err) == ErrUsed {
		j.by.used = err
	}
	return err
}

// A FileJournal keeps its records in a directory: lines of JSON, each with the hash of the line
// before it and a seal. Many goroutines and processes may use the same directory.
type FileJournal struct {
	path    string
	dir     *state.Dir
	journal *audit.Journal
	used    state.Once
}

// OpenJournal opens the journal in a directory, and makes the directory if there is none. Now
// is the clock, such as time.Now.
func OpenJournal(dir string, now func() time.Time) (*FileJournal, error) {
	if now == nil {
		return nil, &sandbox.Error{Op: "open", Code: sandbox.ErrInvalid, Hint: "the journal needs a clock, such as time.Now"}
	}
	folder, err := state.Open(dir)
	if err != nil {
		return nil, failure("open", err).Err
	}
	j := &FileJournal{dir: folder}
	if j.path, err = filepath.Abs(dir); err == nil {
		j.path, err = filepath.EvalSymlinks(j.path)
	}
	if err != nil {
		return nil, failure("open", errors.Join(err, folder.Close())).Err
	}
	if j.used, err = folder.Once("resumed"); err == nil {
		j.journal, err = audit.Open(folder, audit.Options{Now: now})
	}
	if err != nil {
		return nil, failure("open", errors.Join(err, folder.Close())).Err
	}
	return j, nil
}

// Begin implements [Journal].
func (j *FileJournal) Begin(r Record) error {
	if err := j.use(r); err != nil {
		return err
	}
	if r.ReadOnly {
		return j.write(audit.Intent, r, audit.Queued)
	}
	return j.write(audit.Intent, r, audit.Durable)
}

// use uses up the request of a record.
func (j *FileJournal) use(r Record) error {
	if j == nil || j.journal == nil {
		return errClosed
	}
	if r.Request == "" {
		return nil
	}
	by, first, err := j.used.Decide(r.Request, []byte(r.Call))
	if err == nil && !first && string(by) != r.Call { // a call may have several records
		err = &sandbox.Error{Op: r.Tool, Code: ErrUsed, Hint: "the call " + r.Request + " was decided about and used before; make the call again to ask again"}
	}
	return err
}

// errClosed is the error of a journal that OpenJournal has not made.
var errClosed = &sandbox.Error{Op: "journal", Code: sandbox.ErrInvalid, Hint: "it is not open; use gate.OpenJournal"}

// End implements [Journal].
func (j *FileJournal) End(r Record) error {
	if r.Refused && r.Decision == "no" {
		if err := j.use(r); err != nil {
			return err
		}
	}
	if j == nil || j.journal == nil {
		return errClosed
	}
	kind := audit.Outcome
	if r.Refused {
		kind = audit.Refusal
	}
	return j.write(kind, r, audit.Written)
}

func (j *FileJournal) write(kind audit.Kind, r Record, wait audit.Wait) error {
	return j.journal.Write(audit.Record{Kind: kind, Call: r.Call, Origin: r.Origin, Workers: []string{r.Worker}, Tool: r.Tool, Args: r.Args, Effects: r.Effects,
		Decision: r.Decision, By: r.By, Seen: r.Seen, Digest: r.Digest, Request: r.Request, Code: r.Code, Note: r.Note}, wait)
}

// Verify returns how many records the journal has, and an error that names the first place
// where a record was changed, removed, moved or inserted.
func (j *FileJournal) Verify(ctx context.Context) (records int, err error) {
	if j == nil || j.journal == nil {
		return 0, errClosed
	}
	if ctx == nil {
		ctx = context.Background()
	}
	report, err := audit.Verify(ctx, j.dir, nil)
	if err == nil && report.Bad != nil {
		err = &sandbox.Error{Op: "verify", Code: sandbox.ErrConflict, Hint: fmt.Sprintf("the journal was changed: %v", report.Bad)}
	}
	if err != nil {
		err = failure("verify", err).Err
	}
	return int(report.Records), err
}

// Close writes what is not on the disk yet, and closes the journal.
func (j *FileJournal) Close() error {
	if j == nil || j.journal == nil {
		return errClosed
	}
	return errors.Join(j.journal.Close(), j.dir.Close())
}
