package serve

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/store"
)

// A nodeList is what a board knows about its nodes.
type nodeList struct{ *board }

// noteNode notes what a node offers, for lists. If it fails, the list is older.
func (b nodeList) noteNode(u hub.User, labels []string, o hub.Offer) {
	n := hub.NodeInfo{Key: u.Key, Name: u.Name, Slots: min(max(o.Slots, 0), 1000), Labels: labels, Version: plainVersion(o.Version), Seen: b.now()}
	b.mu.Lock()
	before, ok := b.seen[u.Key]
	isNew := !ok || n.Seen.Sub(before.Seen) > noteEvery || before.Slots != n.Slots || before.Version != n.Version || !slices.Equal(before.Labels, n.Labels)
	if isNew {
		if b.seen == nil {
			b.seen = make(map[string]hub.NodeInfo)
		}
		b.seen[u.Key] = n
	}
	b.mu.Unlock()
	if isNew {
		b.keepNode(n)
	}
}

// plainVersion returns the version that a node reports, "" if it is none.
func plainVersion(text string) string {
	if !isLine(text, 100) {
		return ""
	}
	return text
}

// noteEvery is how often the hub writes down that a node is there.
const noteEvery = 15 * time.Second

// seeNode notes that a node works on a job.
func (b nodeList) seeNode(u hub.User) {
	b.mu.Lock()
	n, ok := b.seen[u.Key]
	b.mu.Unlock()
	if ok {
		b.noteNode(u, n.Labels, hub.Offer{Slots: n.Slots, Version: n.Version})
	}
}

func (b nodeList) keepNode(n hub.NodeInfo) {
	key := lowerKey(n.Key)
	data, err := json.Marshal(n)
	if err != nil {
		return
	}
	_, revision, err := b.nodes.Get(key)
	if err == nil {
		_, err = b.nodes.Put(key, data, revision)
	}
	if err != nil && !errors.Is(err, store.ErrChanged) && b.ctx.Err() == nil {
		b.tell("noting the node %s: %v", n.Name, err)
	}
}

// listNodes returns the nodes that a hub has heard of and that were not revoked.
func (b nodeList) listNodes() (list []hub.NodeInfo, err error) {
	at := make(map[string][]string)
	for _, j := range b.index.findJobs(func(j *hub.Job) bool { return j.State == hub.Running }) {
		at[j.Node] = append(at[j.Node], j.ID)
	}
	list = []hub.NodeInfo{}
	err = b.nodes.Each(func(_ string, value []byte, _ uint64) error {
		var n hub.NodeInfo
		if err := json.Unmarshal(value, &n); err != nil {
			return err
		}
		if u, ok := b.index.user(n.Key); ok && u.Role == hub.Node {
			n.Jobs = at[n.Key]
			slices.Sort(n.Jobs)
			list = append(list, n)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b hub.NodeInfo) int { return b.Seen.Compare(a.Seen) })
	return list, err
}
