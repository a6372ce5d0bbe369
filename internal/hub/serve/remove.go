package serve

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/store"
)

// A job is removed in steps. First the hub marks it, and nobody sees it any more. Then it
// removes the events, the decisions and the contents that no other job has, and at last the job
// itself. If the hub dies in between, the sweep continues. Marks of calls stay: a fence keeps
// everything.

// A remover removes jobs of a board.
type remover struct{ *board }

// remove removes a job that is over.
func (b remover) remove(u hub.User, id string) error {
	j, err := b.ownJob(u, id)
	if err != nil {
		return err
	}
	if err := b.markRemoved(j.ID, time.Time{}); err != nil {
		return err
	}
	return b.finishRemovals()
}

// markRemoved marks a job that is over, if it has not changed since a time, unless that is zero.
func (b remover) markRemoved(id string, before time.Time) error {
	_, err := b.update(id, func(j *hub.Job) error {
		switch {
		case !j.State.IsOver():
			return invalid("job %s is %s, and only a job that is over can be removed; golem jobs cancel %s ends it", j.ID, j.State, j.ID)
		case !before.IsZero() && !j.Changed.Before(before):
			return errSame
		}
		j.Removed = true
		return nil
	})
	return err
}

// maxPruned is how many jobs one request removes: it must end before the client asks again.
const maxPruned = 100

// prune removes jobs that are over and have not changed for a while, and returns how many.
func (b remover) prune(_ hub.User, p hub.Prune) (n int, err error) {
	if p.Before.IsZero() {
		return 0, invalid("prune needs a time")
	}
	for _, j := range b.index.findJobs(func(j *hub.Job) bool { return j.State.IsOver() && j.Changed.Before(p.Before) }) {
		name := ""
		if known, ok := b.index.user(j.User); ok {
			name = known.Name
		}
		if p.User != "" && p.User != j.User && p.User != name {
			continue
		}
		if !p.Dry {
			if n >= maxPruned {
				break
			}
			if err := b.markRemoved(j.ID, p.Before); err != nil && !hub.IsCode(err, hub.CodeInvalid) && !hub.IsCode(err, hub.CodeMissing) { // somebody retried or removed it
				return n, err
			}
		}
		n++
	}
	if p.Dry {
		return n, nil
	}
	return n, b.finishRemovals()
}

// A pruning says that a hub removes contents now.
type pruning struct {
	Until time.Time `json:"until"` // if the hub dies, others do not wait longer
}

const (
	pruningKey  = "now"
	pruningTime = time.Minute
)

// finishRemovals removes everything of the jobs that are marked. Contents may be shared with a
// job that somebody submits at this moment, perhaps at another hub. So the hub first says that
// it removes contents, and then looks which jobs there are. A submission reads the mark, looks for
// the contents, makes the job, and then compares the mark.
func (b remover) finishRemovals() error {
	ids := b.index.removing()
	if len(ids) == 0 {
		return nil
	}
	b.removing.Lock()
	defer b.removing.Unlock()
	revision, err := b.beginPruning()
	if err != nil {
		return err
	}
	return errors.Join(b.finishAll(ids, revision), b.endPruning(revision)) // after an error nobody waits for this hub
}

// finishAll removes everything of jobs that are marked, for a while. revision is that of the mark.
func (b remover) finishAll(ids []string, revision uint64) error {
	used, err := b.usedLists()
	if err != nil {
		return err
	}
	b.at(stepUsed)
	end := b.now().Add(pruningTime / 2)
	for _, id := range ids {
		if b.ctx.Err() != nil || b.now().After(end) { // the next sweep continues
			break
		}
		if err := b.finishRemoval(id, used, revision); err != nil {
			return err
		}
	}
	return nil
}

// endPruning says that this hub removes no contents any more.
func (b remover) endPruning(revision uint64) error {
	data, err := json.Marshal(pruning{})
	if err == nil {
		_, err = b.pruning.Put(pruningKey, data, revision)
	}
	if errors.Is(err, store.ErrChanged) {
		return nil
	}
	return err
}

// beginPruning says that this hub removes contents. It waits for another one that does.
func (b remover) beginPruning() (revision uint64, err error) {
	for {
		now, revision, err := b.pruningNow()
		if err != nil {
			return 0, err
		}
		if !now {
			data, err := json.Marshal(pruning{b.now().Add(pruningTime)})
			if err != nil {
				return 0, err
			}
			if revision, err = b.pruning.Put(pruningKey, data, revision); !errors.Is(err, store.ErrChanged) {
				return revision, err
			}
		}
		select {
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// pruningNow reports whether a hub removes contents now.
func (b remover) pruningNow() (now bool, revision uint64, err error) {
	data, revision, err := b.pruning.Get(pruningKey)
	if err != nil || revision == 0 {
		return false, revision, err
	}
	var p pruning
	if err := json.Unmarshal(data, &p); err != nil {
		return false, revision, err
	}
	return b.now().Before(p.Until), revision, nil
}

// awaitPruning waits while a hub removes contents.
func (b remover) awaitPruning() error {
	for {
		now, _, err := b.pruningNow()
		if err != nil || !now {
			return err
		}
		select {
		case <-b.ctx.Done():
			return b.ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// checkNew returns an error if contents of a new job are gone, because a hub removed some since the
// mark had a revision. The submitter sends them again, as another job.
func (b remover) checkNew(j hub.Job, mark uint64) error {
	now, revision, err := b.pruningNow()
	if err != nil || !now && revision == mark {
		return err
	}
	if err := b.awaitPruning(); err != nil {
		return err
	}
	b.contents.forgetLists()
	failed := b.contents.complete(ofUser(j.User), j.Files, nil)
	if failed == nil {
		return nil
	}
	_, err = b.update(j.ID, func(j *hub.Job) error {
		j.State, j.Result.Why = hub.Failed, "its files were removed while it was submitted"
		return nil
	})
	return errors.Join(invalid("the hub removed files of the job while it was submitted; submit it again"), err)
}

// usedLists returns the lists of files that jobs began with, by user. Removed jobs do not count.
func (b remover) usedLists() (map[string][]string, error) {
	used := make(map[string][]string)
	err := b.jobs.Each(func(_ string, value []byte, _ uint64) error {
		var j hub.Job
		if err := json.Unmarshal(value, &j); err != nil {
			return err
		}
		if !j.Removed && !slices.Contains(used[j.User], j.Files) {
			used[j.User] = append(used[j.User], j.Files)
		}
		return nil
	})
	return used, err
}

// finishRemoval removes everything of a job that is marked.
func (b remover) finishRemoval(id string, used map[string][]string, mark uint64) error {
	data, revision, err := b.jobs.Get(id)
	if err != nil {
		return err
	}
	if revision == 0 { // another hub did it
		b.index.forget(id)
		return nil
	}
	var j hub.Job
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	if !j.Removed {
		return nil
	}
	if err := b.removeContents(j, used[j.User], mark); err != nil {
		return err
	}
	for _, r := range j.Requests {
		if err := b.decided.Forget(decisionKey(j.ID, r)); err != nil {
			return err
		}
	}
	if err := b.store.RemoveLog("job-" + j.ID); err != nil {
		return err
	}
	if err := b.jobs.Remove(j.ID); err != nil {
		return err
	}
	b.index.forget(id)
	return nil
}

// ownContents returns the hashes of the contents that nodes have sent for a job and that it still
// names.
func (b remover) ownContents(j hub.Job) (map[string]bool, error) {
	own := make(map[string]bool)
	for _, r := range j.Requests {
		own[r.Hash] = true
	}
	if j.Checkpoint == "" {
		return own, nil
	}
	list, err := b.contents.list(ofJob(j.ID), j.Checkpoint)
	if err != nil && !hub.IsCode(err, hub.CodeMissing) { // it is gone if a hub died here
		return nil, err
	}
	for hash := range list {
		own[hash] = true
	}
	return own, nil
}

// dropLeftovers removes what nodes that died have sent for a job, and no checkpoint names. If it
// fails, it only takes space until the job is removed.
func (b remover) dropLeftovers(j hub.Job) {
	own, err := b.ownContents(j)
	if err == nil {
		err = b.contents.keepOnly(j.ID, own)
	}
	if err != nil {
		b.tell("removing files of job %s that a dead node has sent: %v", j.ID, err)
	}
}

// removeContents removes the contents of a job, and those that it began with if no other job of
// the user has them. mark is the revision of this hub's mark.
func (b remover) removeContents(j hub.Job, used []string, mark uint64) error {
	own, err := b.ownContents(j)
	if err != nil {
		return err
	}
	if err := b.contents.removeJob(j.ID, own); err != nil {
		return err
	}
	if slices.Contains(used, j.Files) {
		return nil
	}
	begin, err := b.contents.list(ofUser(j.User), j.Files)
	if hub.IsCode(err, hub.CodeMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, other := range used {
		list, err := b.contents.list(ofUser(j.User), other)
		if err != nil {
			return err // nothing is removed that it might need
		}
		left := make(map[string]bool, len(begin))
		for hash := range begin {
			if !list[hash] {
				left[hash] = true
			}
		}
		begin = left
	}
	return b.removeHashes(ofUser(j.User), begin, j.Files, mark)
}

// removeHashes removes contents, and at last the list that names them. It stops when the mark of this
// hub is over: then a new job may rely on the rest.
func (b remover) removeHashes(o owner, hashes map[string]bool, list string, mark uint64) error {
	for hash := range hashes {
		if hash == list {
			continue
		}
		if now, revision, err := b.pruningNow(); err != nil || !now || revision != mark {
			return errors.Join(errors.New("removing files took longer than this hub had said"), err)
		}
		if err := b.contents.remove(o, hash); err != nil {
			return err
		}
	}
	if !hashes[list] {
		return nil
	}
	return b.contents.remove(o, list)
}
