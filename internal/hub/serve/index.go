package serve

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/hub"
)

// An index has the users and jobs of a hub in memory. It follows what is kept. Several hubs
// write, and their clocks differ, so the revision says what is newer.
type index struct {
	mu        sync.Mutex
	users     map[string]hub.User
	jobs      map[string]*hub.Job // without their specs; they are replaced, not changed
	owned     map[string]int      // how many jobs of each user are kept
	revisions map[string]uint64   // of each user and job
	removed   map[string]bool     // jobs whose files are not all removed yet
	lanes     map[string]int      // how many jobs that are not over each part of the queue has
	news      chan struct{}       // closed at the next change
}

func newIndex() *index {
	return &index{users: make(map[string]hub.User), jobs: make(map[string]*hub.Job), owned: make(map[string]int), removed: make(map[string]bool), revisions: make(map[string]uint64), lanes: make(map[string]int), news: make(chan struct{})}
}

// isNew reports whether a revision of a user or a job is newer than the one in the index, and
// notes it.
func (x *index) isNew(name string, revision uint64) bool {
	if revision <= x.revisions[name] {
		return false
	}
	x.revisions[name] = revision
	return true
}

// user returns a user who was not revoked.
func (x *index) user(key string) (hub.User, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	u, ok := x.users[key]
	return u, ok && !u.Revoked
}

func (x *index) keepUser(u hub.User, revision uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isNew("user "+u.Key, revision) {
		x.users[u.Key] = u
		x.tell()
	}
}

// maxListed limits the length of a text in lists. The job itself has all of it.
const maxListed = 1000

// keepJob keeps what lists need of a job.
func (x *index) keepJob(j hub.Job, revision uint64) {
	var spec struct{ Labels []string }
	json.Unmarshal(j.Spec.Text, &spec) // it was checked when it was submitted
	j.Spec, j.Receipt, j.Labels = hub.Signed{}, "", spec.Labels
	j.Name, j.Result.Answer, j.Result.Why = cut(j.Name), cut(j.Result.Answer), cut(j.Result.Why)
	j.Requests = slices.Clone(j.Requests)
	for i, r := range j.Requests {
		if r.Decided != nil {
			j.Requests[i].Decided = &hub.Signed{} // that there is one
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isNew("job "+j.ID, revision) {
		known := x.jobs[j.ID]
		if known != nil && !known.State.IsOver() {
			x.lanes[lane(spec.Labels)]--
		}
		if !j.State.IsOver() {
			x.lanes[lane(spec.Labels)]++
		}
		if known != nil {
			x.owned[known.User]--
		}
		if j.Removed {
			delete(x.jobs, j.ID)
			x.removed[j.ID] = true
		} else {
			x.jobs[j.ID] = &j
			x.owned[j.User]++
		}
		x.tell()
	}
}

// used returns those parts of the queue that have jobs.
func (x *index) used(lanes []string) (list []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range lanes {
		if x.lanes[l] > 0 {
			list = append(list, l)
		}
	}
	return list
}

// cut returns the beginning of a text.
func cut(text string) string {
	if len(text) <= maxListed {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:maxListed]), "") + "…"
}

func (x *index) tell() {
	close(x.news)
	x.news = make(chan struct{})
}

// changed returns a channel that is closed at the next change.
func (x *index) changed() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.news
}

func (x *index) allUsers() (list []hub.User) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, u := range x.users {
		list = append(list, u)
	}
	return list
}

// findJobs returns the jobs that match. Match must not change them.
func (x *index) findJobs(match func(*hub.Job) bool) (list []hub.Job) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, j := range x.jobs {
		if match(j) {
			list = append(list, *j)
		}
	}
	return list
}

// job returns a job of the index.
func (x *index) job(id string) (hub.Job, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if j := x.jobs[id]; j != nil {
		return *j, true
	}
	return hub.Job{}, false
}

// notInWork returns those jobs that neither wait for a node nor run on one.
func (x *index) notInWork(ids []string) (list []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		if j := x.jobs[id]; j == nil || j.State != hub.Queued && j.State != hub.Running {
			list = append(list, id)
		}
	}
	return list
}

// count returns how many jobs of a user are kept.
func (x *index) count(user string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.owned[user]
}

// removing returns the jobs whose files are not all removed yet.
func (x *index) removing() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Keys(x.removed))
}

// forget forgets a job that is removed.
func (x *index) forget(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.removed, id)
	delete(x.revisions, "job "+id)
}
