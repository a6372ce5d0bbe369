package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// A FetchedJob is a job whose session is here now, in the form of golem jobs fetch --json.
type FetchedJob struct {
	Job     string   `json:"job"`
	Session string   `json:"session"`
	Dropped []string `json:"dropped,omitempty"` // files that changed where the job may not write
}

// FetchJob brings the session of a job here, as a session of a program. The error has the code
// exists if it is here already.
func FetchJob(ctx context.Context, c *hub.Client, p *program.Program, id string) (one FetchedJob, err error) {
	j, err := c.Job(ctx, id)
	if err != nil {
		return one, HubError(err)
	}
	r, err := readResult(ctx, c, j)
	if err != nil {
		return one, err
	}
	one.Job = j.ID
	one.Session, one.Dropped, err = job.Receive(ctx, p, r, func(ctx context.Context, hash string) (io.ReadCloser, error) {
		data, err := c.Get(ctx, hub.Part{Job: j.ID, Hash: hash})
		return io.NopCloser(bytes.NewReader(data)), err
	})
	if err != nil && sandbox.CodeOf(err) != sandbox.ErrExists {
		return one, HubError(err)
	}
	return one, errors.Join(p.Storage.NoteFetched(j.ID), err)
}

// readResult reads which files a job has made.
func readResult(ctx context.Context, c *hub.Client, j hub.Job) (r job.Result, err error) {
	spec, err := hub.OpenSpec(j.Spec)
	switch {
	case err != nil:
		return r, err
	case spec.ID != j.ID || spec.Hub != c.Hub || spec.Files != j.Files:
		return r, &sandbox.Error{Op: "fetch", Path: j.ID, Code: sandbox.ErrInvalid, Hint: "the hub sent another job than its submitter signed; ask its administrator"}
	case j.State == hub.Running || j.State == hub.Queued:
		return r, &sandbox.Error{Op: "fetch", Path: j.ID, Code: sandbox.ErrConflict, Hint: "the job is " + string(j.State) + "; golem jobs logs -f " + j.ID + " waits for it"}
	case j.Checkpoint == "":
		return r, &sandbox.Error{Op: "fetch", Path: j.ID, Code: sandbox.ErrNotFound, Hint: "the job has made nothing"}
	}
	r.Source = "job " + j.ID
	for _, part := range []struct {
		hash string
		into *job.Snapshot
	}{{j.Files, &r.Begin}, {j.Checkpoint, &r.End}} {
		text, err := c.Get(ctx, hub.Part{Job: j.ID, Hash: part.hash})
		if err != nil {
			return r, HubError(err)
		}
		if err := json.Unmarshal(text, part.into); err != nil {
			return r, &sandbox.Error{Op: "fetch", Path: j.ID, Code: sandbox.ErrInvalid, Hint: "the list of the job's files cannot be read"}
		}
	}
	return r, nil
}
