package scanners

import (
	"encoding/json"
	"sync"

	"github.com/golem-forge/golem/internal/records/state"
)

// The file of the cached verdicts, and how many it holds. Scanners can repeat them.
const (
	verdictsName = "verdicts.json"
	maxVerdicts  = 200_000
)

// verdicts caches the verdicts of scanners by a hash of scanner and content. All are read
// at the start and written at the end.
type verdicts struct {
	folder *state.Dir
	mu     sync.Mutex
	known  map[string]json.RawMessage
	fresh  map[string]json.RawMessage
}

func newVerdicts(folder *state.Dir) (*verdicts, error) {
	data, err := folder.Read(verdictsName)
	if err != nil {
		return nil, err
	}
	return &verdicts{folder: folder, known: read(data), fresh: make(map[string]json.RawMessage)}, nil
}

// read returns the stored verdicts; none if the file is damaged.
func read(data []byte) map[string]json.RawMessage {
	known := make(map[string]json.RawMessage)
	if json.Unmarshal(data, &known) != nil || known == nil {
		return make(map[string]json.RawMessage)
	}
	return known
}

// Get implements scan.Cache.
func (v *verdicts) Get(key string) ([]byte, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, ok := v.known[key]
	return value, ok
}

// Put implements scan.Cache.
func (v *verdicts) Put(key string, value []byte) {
	if !json.Valid(value) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known[key], v.fresh[key] = value, value
}

// save writes the new verdicts. It ignores errors: they only cost time later.
func (v *verdicts) save() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.fresh) == 0 {
		return
	}
	v.folder.Update(verdictsName, func(old []byte) ([]byte, error) {
		all := read(old)
		if len(all)+len(v.fresh) > maxVerdicts {
			all = make(map[string]json.RawMessage)
		}
		for key, value := range v.fresh {
			all[key] = value
		}
		return json.Marshal(all)
	})
	v.fresh = make(map[string]json.RawMessage)
}
