package serve

import (
	"sync"

	"github.com/golem-forge/golem/internal/hub"
)

// An index has the users and jobs of a hub in memory. It follows what is kept.
type index struct {
	mu    sync.Mutex
	users map[string]hub.User
	jobs  map[string]hub.Job // without their specs
	news  chan struct{}      // closed at the next change
}

func newIndex() *index {
	return &index{users: make(map[string]hub.User), jobs: make(map[string]hub.Job), news: make(chan struct{})}
}

// user returns a user who was not revoked.
func (x *index) user(key string) (hub.User, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	u, ok := x.users[key]
	return u, ok && !u.Revoked
}

func (x *index) keepUser(u hub.User) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.users[u.Key] = u
	x.tell()
}

// keepJob keeps what lists need of a job.
func (x *index) keepJob(j hub.Job) {
	j.Spec, j.Receipt = hub.Signed{}, ""
	x.mu.Lock()
	defer x.mu.Unlock()
	if known, ok := x.jobs[j.ID]; ok && known.Changed.After(j.Changed) {
		return
	}
	x.jobs[j.ID] = j
	x.tell()
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

func (x *index) allJobs() (list []hub.Job) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, j := range x.jobs {
		list = append(list, j)
	}
	return list
}
