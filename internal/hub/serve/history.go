package serve

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/store"
)

// A history says when the hub was started, and how many calls the fence had then. A copy of the
// data that was made earlier lacks the later starts, or has fewer calls.
type history struct {
	// Since is the first start that counts. A person has confirmed that the data lacks what came
	// before, or it is long ago.
	Since  int64   `json:"since,omitempty"`
	Starts []begun `json:"starts"`
	Older  *older  `json:"older,omitempty"` // nil while the data has everything that nodes know
}

// A begun is a start of a hub.
type begun struct {
	Start int64  `json:"start"` // larger than that of every earlier start
	ID    string `json:"id"`
	// Calls is the number of calls in the fence after the start was written. A revision of an earlier
	// start has at most so many. It is nil if the hub died before it was known.
	Calls *uint64 `json:"calls,omitempty"`
}

// An older says who knows more than the data has.
type older struct {
	Node  string    `json:"node"` // its name
	Key   string    `json:"key"`
	Time  time.Time `json:"time"`
	Start int64     `json:"start"` // of the revision that the node knows
}

const (
	historyKey = "history"
	maxStarts  = 10_000
)

// has reports whether the data with this history, and so many calls in its fence, has everything
// that the data of a revision had.
func (h history) has(r hub.Revision, calls uint64) bool {
	if r.Start < h.Since {
		return true
	}
	at := slices.IndexFunc(h.Starts, func(b begun) bool { return b.Start == r.Start && b.ID == r.ID })
	if at < 0 {
		return false
	}
	for _, later := range h.Starts[at+1:] {
		if later.Calls != nil {
			return r.Calls <= *later.Calls
		}
	}
	return r.Calls <= calls
}

// revisions compares the data of a board with what nodes know.
type revisions struct{ *board }

func (b revisions) readHistory() (h history, revision uint64, err error) {
	data, revision, err := b.history.Get(historyKey)
	if err == nil && revision > 0 {
		err = json.Unmarshal(data, &h)
	}
	return h, revision, err
}

// changeHistory changes the history. If another hub changes it at the same time, change is called
// again.
func (b revisions) changeHistory(change func(*history)) error {
	for {
		h, revision, err := b.readHistory()
		if err != nil {
			return err
		}
		change(&h)
		data, err := json.Marshal(h)
		if err != nil {
			return err
		}
		if _, err = b.history.Put(historyKey, data, revision); !errors.Is(err, store.ErrChanged) {
			return err
		}
	}
}

// begin writes down that the hub starts. With confirmed, a person knows that the data is older, and
// nothing that came before this start counts any more.
func (b revisions) begin(confirmed bool) error {
	now := begun{ID: rand.Text()}
	var stopped *older
	err := b.changeHistory(func(h *history) {
		now.Start = b.now().UnixNano()
		if n := len(h.Starts); n > 0 {
			now.Start = max(now.Start, h.Starts[n-1].Start+1)
		}
		if h.Older != nil {
			now.Start = max(now.Start, h.Older.Start+1)
		}
		if confirmed {
			h.Since, h.Starts, h.Older = now.Start, nil, nil
		}
		if h.Starts = append(h.Starts, now); len(h.Starts) > maxStarts {
			h.Starts = h.Starts[len(h.Starts)-maxStarts:]
			h.Since = h.Starts[0].Start
		}
		stopped = h.Older
	})
	if err != nil {
		return err
	}
	if stopped != nil {
		b.tell("%s", stopped)
	}
	calls, err := b.fence.Count()
	if err != nil {
		return err
	}
	return b.changeHistory(func(h *history) {
		for i := range h.Starts {
			if h.Starts[i].ID == now.ID {
				h.Starts[i].Calls = &calls
			}
		}
	})
}

// String says what happened, and what to do.
func (o older) String() string {
	return fmt.Sprintf("the data of this hub is older than what the node %s (%s) knows, as after a restored backup, since %s; the hub gives no work to nodes and lets them make no call, because calls could be made twice; stop the hub and start it once with --restored: it puts every job that is not over in doubt, for a person to retry or cancel", o.Node, hub.Short(o.Key), o.Time.UTC().Format(time.RFC3339))
}

// proof returns the proof that the hub has made a revision.
func (b revisions) proof(r hub.Revision) []byte {
	sum := hmac.New(sha256.New, b.contents.secret.key("revisions"))
	fmt.Fprintf(sum, "%d %q %d", r.Start, r.ID, r.Calls)
	return sum.Sum(nil)
}

// compare compares the data with the newest revision that a node knows, nil for none, and returns
// the current one. It returns an error if the data is older, now or since somebody noticed it.
func (b revisions) compare(u hub.User, known *hub.Revision) (now hub.Revision, err error) {
	if known != nil && !hmac.Equal(known.Proof, b.proof(*known)) {
		b.warnForged(u)
		return now, refused("the node knows a revision that this hub has not made; remove the file revision.json in the directory of the node, and start the node again")
	}
	for tries := 0; ; tries++ {
		// The order matters. A later start counts the calls after it is written, so no revision of
		// this start has more.
		if now.Calls, err = b.fence.Count(); err != nil {
			return now, err
		}
		h, _, err := b.readHistory()
		if err != nil {
			return now, err
		}
		if h.Older != nil {
			return now, isOlder(*h.Older)
		}
		if known == nil || h.has(*known, now.Calls) {
			last := h.Starts[len(h.Starts)-1]
			now.Start, now.ID = last.Start, last.ID
			now.Proof = b.proof(now)
			return now, nil
		}
		if tries >= olderTries {
			return now, b.stop(u, *known)
		}
		select { // the new leader of a cluster may not know everything yet
		case <-b.ctx.Done():
			return now, b.ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// olderTries is how often the hub looks again before it believes that its data is older.
const olderTries = 5

// isOlder returns the error for nodes. They ask again until a person has confirmed.
func isOlder(o older) error { return &hub.Error{Code: hub.CodeInternal, Text: o.String()} }

// stop notes that a node knows more than the data has.
func (b revisions) stop(u hub.User, known hub.Revision) error {
	var noted older
	first := false
	err := b.changeHistory(func(h *history) {
		if first = h.Older == nil; first {
			h.Older = &older{Node: u.Name, Key: u.Key, Time: b.now(), Start: known.Start}
		}
		h.Older.Start = max(h.Older.Start, known.Start)
		noted = *h.Older
	})
	if err != nil {
		return err
	}
	if first {
		b.tell("%s", noted)
	}
	return isOlder(noted)
}

// warnForged tells the operator once that a node has sent a revision that the hub has not made.
func (b revisions) warnForged(u hub.User) {
	b.mu.Lock()
	known := b.forgers[u.Key]
	if b.forgers == nil {
		b.forgers = make(map[string]bool)
	}
	b.forgers[u.Key] = true
	b.mu.Unlock()
	if !known {
		b.tell("the node %s (%s) says that the data of this hub is older than what it knows, and cannot prove it; it gets no work, and the other nodes continue; look at that machine, or revoke its key: golem hub revoke %s", u.Name, hub.Short(u.Key), u.Key)
	}
}

// warning returns what everybody who connects should know, "" for nothing.
func (b revisions) warning() string {
	h, _, err := b.readHistory()
	if err != nil || h.Older == nil {
		return ""
	}
	return h.Older.String()
}
