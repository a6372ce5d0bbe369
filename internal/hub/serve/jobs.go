package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/store"
	"github.com/golem-forge/golem/internal/records/state"
)

// A board keeps the jobs of a hub, with their contents, decisions and fences. Several hubs of a
// cluster have the same one: every change is made only by somebody who knows what was there.
type board struct {
	key      string // the hub's own
	deadline time.Duration
	now      func() time.Time
	tell     func(format string, args ...any)
	ctx      context.Context
	store    *store.Store
	jobs     *store.Documents
	queue    *store.Queue
	fence    *store.Fence
	decided  state.Once
	contents contents
	index    *index
	pruning  *store.Documents
	nodes    *store.Documents
	history  *store.Documents
	maxJobs  int // of one user, 0 for any number
	onStep

	removing sync.Mutex // held while this hub removes contents
	changing jobLocks

	mu    sync.Mutex
	added map[string]int          // the turns of jobs that this hub has added to the queue, by job
	seen  map[string]hub.NodeInfo // what this hub last wrote down about nodes
	// forgers are the keys of nodes that sent a revision which the hub has not made.
	forgers map[string]bool
}

// A step is a place between a check and what follows from it. Tests wait there.
type step string

// The steps.
const (
	stepChecked  step = "a submission has found its contents"
	stepPut      step = "a content is kept"
	stepUsed     step = "a removal knows which contents are used"
	stepReplaced step = "a checkpoint has replaced an earlier one"
)

// An onStep hears of steps; nil if nobody does.
type onStep func(step)

// at reports a step.
func (f onStep) at(s step) {
	if f != nil {
		f(s)
	}
}

// jobLocks are locks for the contents of jobs. Each is for some of them.
type jobLocks [1024]sync.RWMutex

// of returns the lock of a job: held to remove contents, and held for reading to add some.
func (l *jobLocks) of(job string) *sync.RWMutex {
	sum := fnv.New32a()
	sum.Write([]byte(job))
	return &l[sum.Sum32()%uint32(len(l))]
}

// open opens what the board keeps.
func (b *board) open(secret secret) (err error) {
	if b.jobs, err = b.store.Documents("jobs"); err != nil {
		return err
	}
	if b.queue, err = b.store.Queue("jobs", b.deadline); err != nil {
		return err
	}
	if b.fence, err = b.store.Fence("calls"); err != nil {
		return err
	}
	if b.decided, err = b.store.Once("decisions"); err != nil {
		return err
	}
	if b.pruning, err = b.store.Documents("pruning"); err != nil {
		return err
	}
	if b.nodes, err = b.store.Documents("nodes"); err != nil {
		return err
	}
	if b.history, err = b.store.Documents("history"); err != nil {
		return err
	}
	b.contents.secret = secret
	b.contents.kept, err = b.store.Groups("contents")
	return err
}

// readJob reads a job by its id.
func (b *board) readJob(id string) (j hub.Job, revision uint64, err error) {
	if len(id) > 40 || strings.ContainsFunc(id, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) || id == "" {
		return j, 0, missing("no job %.40q; golem jobs lists them", id)
	}
	data, revision, err := b.jobs.Get(id)
	if err != nil {
		return j, 0, err
	}
	if revision == 0 {
		return j, 0, missing("no job %s; golem jobs lists them", id)
	}
	if err := json.Unmarshal(data, &j); err != nil {
		return j, 0, err
	}
	if j.Removed {
		return j, revision, missing("no job %s; it was removed", id)
	}
	return j, revision, nil
}

// errSame says that a change leaves a job as it is.
var errSame = errors.New("nothing to change")

// update changes a job. If somebody else changes it at the same time, change is called again.
func (b *board) update(id string, change func(*hub.Job) error) (hub.Job, error) {
	for {
		j, revision, err := b.readJob(id)
		if err != nil {
			return j, err
		}
		if err := change(&j); errors.Is(err, errSame) {
			return j, nil
		} else if err != nil {
			return j, err
		}
		err = b.putJob(&j, revision)
		if !errors.Is(err, store.ErrChanged) {
			return j, err
		}
	}
}

func (b *board) putJob(j *hub.Job, revision uint64) error {
	j.Changed = b.now()
	data, err := json.Marshal(j)
	if err != nil {
		return err
	}
	revision, err = b.jobs.Put(j.ID, data, revision)
	if err == nil {
		b.index.keepJob(*j, revision)
	}
	return err
}

// submit makes a job. The same job may be sent twice.
func (b *board) submit(u hub.User, signed hub.Signed) error {
	spec, err := hub.OpenSpec(signed)
	if err != nil {
		return invalid("%v", err)
	}
	switch {
	case spec.User != u.Key:
		return invalid("the job is signed by somebody else")
	case spec.Hub != b.key:
		return invalid("the job is for another hub")
	case len(signed.Text) > 1<<20:
		return invalid("the job has more than a megabyte; attach its input as a file")
	}
	for _, key := range spec.Approvers {
		if a, ok := b.index.user(key); !ok || a.Role != hub.Approve {
			return invalid("%s is no approver here; golem hub users lists them", hub.Short(key))
		}
	}
	if _, known := b.index.job(spec.ID); !known && b.maxJobs > 0 && b.index.count(u.Key) >= b.maxJobs {
		return invalid("the hub keeps %d jobs of yours, and no more; golem jobs rm JOB removes some that are over", b.maxJobs)
	}
	_, mark, err := (remover{b}).pruningNow()
	if err != nil {
		return err
	}
	if err := b.contents.complete(ofUser(u.Key), spec.Files, nil); err != nil {
		return err
	}
	b.at(stepChecked)
	line, _, _ := strings.Cut(strings.TrimSpace(spec.Input), "\n")
	j := hub.Job{Spec: signed, ID: spec.ID, User: u.Key, Name: spec.Name, Trust: spec.Trust, Input: line[:min(len(line), 200)], State: hub.Queued, Turn: 1, Created: b.now(), Files: spec.Files}
	err = b.putJob(&j, 0)
	if errors.Is(err, store.ErrChanged) {
		known, _, err := b.readJob(spec.ID)
		if err == nil && string(known.Spec.Text) != string(signed.Text) {
			err = invalid("another job has the id %s", spec.ID)
		}
		if err != nil || known.State != hub.Queued {
			return err
		}
		return b.enqueue(known, spec)
	}
	if err != nil {
		return err
	}
	if err := (remover{b}).checkNew(j, mark); err != nil {
		return err
	}
	return b.enqueue(j, spec)
}

// A turn is a task of the queue: the job, and how often it had been queued.
type turn struct {
	Job  string `json:"job"`
	Turn int    `json:"turn"`
}

// enqueue adds a job to its queue. If the hub dies before, the sweep does it.
func (b *board) enqueue(j hub.Job, spec hub.Spec) error {
	data, err := json.Marshal(turn{j.ID, j.Turn})
	if err != nil {
		return err
	}
	if err := b.queue.Add(lane(spec.Labels), j.ID+"-"+strconv.Itoa(j.Turn), data); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.added == nil {
		b.added = make(map[string]int)
	}
	b.added[j.ID] = j.Turn
	return nil
}

// hasAdded reports whether this hub has added a job to the queue in its current turn. It
// forgets jobs that are in no queue.
func (b *board) hasAdded(j hub.Job) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.added[j.ID] == j.Turn
}

// forgetAdded forgets the jobs that no longer are in the queue or in work.
func (b *board) forgetAdded() {
	b.mu.Lock()
	ids := slices.Collect(maps.Keys(b.added))
	b.mu.Unlock()
	ids = b.index.notInWork(ids)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		delete(b.added, id)
	}
}

// enqueueJob adds a job to its queue, with the labels of its spec.
func (b *board) enqueueJob(j hub.Job) error {
	spec, err := hub.OpenSpec(j.Spec)
	if err != nil {
		return err
	}
	return b.enqueue(j, spec)
}

// lane returns the part of the queue for jobs with labels.
func lane(labels []string) string {
	if len(labels) == 0 {
		return "any"
	}
	return strings.Join(labels, "_")
}

// lanes returns the parts of the queue whose jobs a node with labels may do.
func lanes(labels []string) []string {
	sets := [][]string{nil}
	for _, l := range labels {
		for _, set := range slices.Clone(sets) {
			sets = append(sets, append(slices.Clone(set), l))
		}
	}
	var list []string
	for _, set := range slices.Backward(sets) { // the jobs that few nodes can do come first
		list = append(list, lane(set))
	}
	return list
}

// sweepAlways looks for jobs that a hub left between two steps when it died: now, and from
// time to time.
func (b *board) sweepAlways() {
	for {
		if err := b.sweep(); err != nil && b.ctx.Err() == nil {
			b.tell("looking for forgotten jobs: %v; trying again", err)
		}
		select {
		case <-b.ctx.Done():
			return
		case <-time.After(max(b.deadline, time.Second)):
		}
	}
}

func (b *board) sweep() error {
	var failed []error
	if err := (remover{b}).finishRemovals(); err != nil {
		failed = append(failed, err)
	}
	b.forgetAdded()
	now := b.now()
	open := b.index.findJobs(func(j *hub.Job) bool {
		// A job that has just changed is still on its way. One from the future has a wrong clock.
		age := now.Sub(j.Changed)
		return (j.State == hub.Queued || j.State == hub.Waiting) && (age < 0 || age >= b.deadline)
	})
	for _, j := range open {
		if b.ctx.Err() != nil {
			return nil
		}
		if b.hasAdded(j) && j.State == hub.Queued {
			continue
		}
		if err := b.sweepJob(j); err != nil { // one bad job does not stop the others
			if failed = append(failed, fmt.Errorf("job %s: %w", j.ID, err)); len(failed) > 5 {
				break
			}
		}
	}
	return errors.Join(failed...)
}

func (b *board) sweepJob(j hub.Job) error {
	switch j.State {
	case hub.Queued:
		whole, _, err := b.readJob(j.ID)
		if err != nil || whole.State != hub.Queued {
			return err
		}
		return b.enqueueJob(whole) // nothing happens if it is in the queue
	case hub.Waiting:
		for _, r := range j.Requests {
			if r.Decided != nil {
				continue
			}
			kept, ok, err := b.decided.Look(decisionKey(j.ID, r))
			if err == nil && ok {
				err = b.keepDecision(j.ID, r, kept)
			}
			if err != nil {
				return err
			}
		}
		return b.resume(j.ID)
	}
	return nil
}
