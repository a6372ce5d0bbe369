package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/hub"
)

// knowledge is the newest revision of the hub's data that this node knows, kept in a file.
type knowledge struct {
	file string
	mu   sync.Mutex
	kept struct {
		Hub      string        `json:"hub"` // its key
		Revision *hub.Revision `json:"revision"`
	}
}

// openKnowledge reads what a node knows of a hub.
func openKnowledge(dir, key string) (*knowledge, error) {
	k := &knowledge{file: filepath.Join(dir, "revision.json")}
	data, err := os.ReadFile(k.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		if err := json.Unmarshal(data, &k.kept); err != nil {
			return nil, fmt.Errorf("%s is damaged: %w; remove it, and start the node again", k.file, err)
		}
	}
	if k.kept.Hub != key { // the node was at another hub
		k.kept.Hub, k.kept.Revision = key, nil
	}
	return k, nil
}

// newest returns the newest revision, nil if there is none.
func (k *knowledge) newest() *hub.Revision {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept.Revision
}

// keep keeps a revision if it is newer. It is on disk when keep returns.
func (k *knowledge) keep(r *hub.Revision) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.kept.Revision
	if r == nil || before != nil && !before.IsBefore(*r) {
		return nil
	}
	k.kept.Revision = r
	data, err := json.Marshal(k.kept)
	if err == nil {
		err = durable.WriteAlone(k.file, data, 0o600)
	}
	if err != nil {
		k.kept.Revision = before
		return fmt.Errorf("noting the revision of the hub: %w", err)
	}
	return nil
}
