package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/hub"
)

// maySee reports whether a user may see a job. Approvers see all: they decide about them.
func maySee(u hub.User, j hub.Job) bool {
	return u.Role == hub.Admin || u.Role == hub.Approve || j.User == u.Key
}

// listJobs returns the jobs that a user may see, newest first: as many as fit into one answer.
func (b *board) listJobs(u hub.User, f hub.Filter) []hub.Job {
	after, hasAfter := b.index.job(f.After)
	list := b.index.findJobs(func(j *hub.Job) bool {
		return (len(f.States) == 0 || slices.Contains(f.States, j.State)) && (f.Trust == "" || f.Trust == j.Trust) && (!f.Mine || j.User == u.Key) && maySee(u, *j) && (!hasAfter || byAge(*j, after) > 0)
	})
	slices.SortFunc(list, byAge)
	const most = 2000
	if f.Most <= 0 || f.Most > most {
		f.Most = most
	}
	list = list[:min(len(list), f.Most)]
	size := 0
	for i, j := range list {
		text, err := json.Marshal(j)
		if size += len(text); i > 0 && (err != nil || size > maxMessage/2) {
			return list[:i] // the client asks for the rest
		}
	}
	return list
}

// byAge orders jobs, the newest first.
func byAge(a, b hub.Job) int {
	return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
}

// findJob returns a job that a user may see, by its id or the only beginning of one.
func (b *board) findJob(u hub.User, id string) (hub.Job, error) {
	if id == "" {
		return hub.Job{}, invalid("name a job; golem jobs lists them")
	}
	if j, known := b.index.job(id); known && maySee(u, j) {
		j, _, err := b.readJob(id)
		return j, err
	}
	found := b.index.findJobs(func(j *hub.Job) bool { return strings.HasPrefix(j.ID, id) && maySee(u, *j) })
	switch len(found) {
	case 0:
		return hub.Job{}, missing("no job %.40q; golem jobs lists them", id)
	case 1:
	default:
		return hub.Job{}, invalid("%d jobs begin with %.40s; write more of the id", len(found), id)
	}
	j, _, err := b.readJob(found[0].ID)
	return j, err
}

// cancel stops a job: at once if no node has it.
func (b *board) cancel(u hub.User, id string) error {
	j, err := b.ownJob(u, id)
	if err != nil {
		return err
	}
	_, err = b.update(j.ID, func(j *hub.Job) error {
		switch {
		case j.State.IsOver():
			return invalid("job %s is %s already", j.ID, j.State)
		case j.State == hub.Running:
			j.Cancel = true // the node hears of it with its next beat
		default:
			j.State, j.Result.Why = hub.Cancelled, "cancelled by "+u.Name
		}
		return nil
	})
	return err
}

// retry queues a job again.
func (b *board) retry(u hub.User, id string) error {
	j, err := b.ownJob(u, id)
	if err != nil {
		return err
	}
	j, err = b.update(j.ID, func(j *hub.Job) error {
		if j.State != hub.Failed && j.State != hub.Cancelled && j.State != hub.InDoubt {
			return invalid("job %s is %s; only a failed, cancelled or doubtful job can be tried again", j.ID, j.State)
		}
		for i := range j.Doubts {
			j.Doubts[i].Again = true
		}
		j.State, j.Cancel, j.Result = hub.Queued, false, hub.Result{}
		j.Turn++
		return nil
	})
	if err != nil {
		return err
	}
	return b.enqueueJob(j)
}

// ownJob returns a job that a user may change.
func (b *board) ownJob(u hub.User, id string) (hub.Job, error) {
	j, err := b.findJob(u, id)
	if err == nil && j.User != u.Key && u.Role != hub.Admin {
		err = &hub.Error{Code: hub.CodeRefused, Text: "only the submitter of job " + j.ID + " or an administrator may do this"}
	}
	return j, err
}

// events returns the events of a job. It waits for some, if there are none.
func (b *board) events(u hub.User, q hub.EventsQuery) (e hub.Events, err error) {
	j, err := b.findJob(u, q.Job)
	if err != nil {
		return e, err
	}
	log, err := b.store.Log("job-"+j.ID, 0)
	if err != nil {
		return e, err
	}
	defer log.Close()
	from := max(q.From, 1)
	over := time.NewTimer(min(q.Wait, 20*time.Second))
	defer over.Stop()
	const most = 4 << 20
	for {
		changed := b.index.changed()
		size := 0
		err = log.Read(from, func(number uint64, line []byte) error {
			if size += len(line); size > most {
				return errSame
			}
			e.Lines, e.Next = append(e.Lines, slices.Clone(line)), number+1
			return nil
		})
		if err != nil && !errors.Is(err, errSame) {
			return e, err
		}
		if j, _, err = b.readJob(j.ID); err != nil {
			return e, err
		}
		e.State, e.Next = j.State, max(e.Next, from)
		if len(e.Lines) > 0 || j.State.IsOver() {
			return e, nil
		}
		select {
		case <-over.C:
			return e, nil
		case <-b.ctx.Done():
			return e, nil
		case <-changed:
		}
	}
}
