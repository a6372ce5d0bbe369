package gate

import (
	"context"
	"errors"
	"fmt"
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
	// End records how a call ended, or that it was refused.
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
	resumes string
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
	if r.Kind == audit.Intent {
		out.Request = j.resumes
		return j.journal.Begin(out)
	}
	return j.journal.End(out)
}

// A FileJournal keeps its records in a directory: lines of JSON, each with the hash of the line
// before it and a seal. Many goroutines and processes may use the same directory.
type FileJournal struct {
	dir     *state.Dir
	journal *audit.Journal
	used    state.Once
}

// OpenJournal opens the journal in a directory, and makes the directory if there is none. Now
// is the clock, such as time.Now.
func OpenJournal(dir string, now func() time.Time) (*FileJournal, error) {
	folder, err := state.Open(dir)
	if err != nil {
		return nil, err
	}
	j := &FileJournal{dir: folder}
	if j.used, err = folder.Once("resumed"); err == nil {
		j.journal, err = audit.Open(folder, audit.Options{Now: now})
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return j, nil
}

// Begin implements [Journal].
func (j *FileJournal) Begin(r Record) error {
	if r.Request != "" {
		_, first, err := j.used.Decide(r.Request, []byte(r.Call))
		if err != nil {
			return err
		}
		if !first {
			return &sandbox.Error{Op: r.Tool, Code: ErrUsed, Hint: "the call " + r.Request + " was resumed before; make the call again to ask again"}
		}
	}
	if r.ReadOnly {
		return j.write(audit.Intent, r, audit.Queued)
	}
	return j.write(audit.Intent, r, audit.Durable)
}

// End implements [Journal].
func (j *FileJournal) End(r Record) error {
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
	report, err := audit.Verify(ctx, j.dir, nil)
	if err == nil && report.Bad != nil {
		err = fmt.Errorf("the journal was changed: %v", report.Bad)
	}
	return int(report.Records), err
}

// Close writes what is not on the disk yet, and closes the journal.
func (j *FileJournal) Close() error { return errors.Join(j.journal.Close(), j.dir.Close()) }
