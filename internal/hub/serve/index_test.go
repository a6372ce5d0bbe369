package serve

import (
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/hub"
)

// TestIndexRevisions checks that the revision says what is newer, not the clock of a hub.
func TestIndexRevisions(t *testing.T) {
	x, now := newIndex(), time.Now()
	x.keepJob(hub.Job{ID: "a", State: hub.Running, Changed: now.Add(time.Hour)}, 7)
	x.keepJob(hub.Job{ID: "a", State: hub.Done, Changed: now}, 9) // by a hub whose clock is slow
	x.keepJob(hub.Job{ID: "a", State: hub.Queued, Changed: now.Add(2 * time.Hour)}, 5)
	if got := x.findJobs(func(*hub.Job) bool { return true }); len(got) != 1 || got[0].State != hub.Done {
		t.Errorf("got %+v", got)
	}
	x.keepUser(hub.User{Key: "U", Revoked: true}, 4)
	x.keepUser(hub.User{Key: "U"}, 3) // the invitation, seen late
	if _, ok := x.user("U"); ok {
		t.Error("a revoked user is back")
	}
}
