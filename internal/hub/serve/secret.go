package serve

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nkeys"

	"github.com/golem-forge/golem/internal/records/state"
)

// A secret is what a hub must keep to itself: its own key, and the secret from which it derives
// the keys of contents.
type secret struct {
	Version int    `json:"version,omitempty"` // of the data in the directory; 0 is 1
	Seed    string `json:"seed"`
	Master  []byte `json:"master"`
	public  string
}

// dataVersion is the newest version of the data that this hub reads. A change that older hubs
// would misread raises it.
const dataVersion = 1

// secretName is the file of the secret. Hubs of one cluster have the same one.
const secretName = "hub.json"

// openSecret reads the secret of a hub, and makes it at its first start.
func openSecret(dir *state.Dir) (s secret, err error) {
	err = dir.Update(secretName, func(old []byte) ([]byte, error) {
		if len(old) > 0 {
			if err := json.Unmarshal(old, &s); err != nil {
				return nil, fmt.Errorf("%s is damaged; copy it back from a backup or from another hub of the cluster: %w", secretName, err)
			}
			if s.Version > dataVersion {
				return nil, fmt.Errorf("the data is of a newer golem-hub (version %d, and this one reads up to %d); install the newer golem-hub again", s.Version, dataVersion)
			}
			return old, nil
		}
		pair, err := nkeys.CreateServer()
		if err != nil {
			return nil, err
		}
		seed, err := pair.Seed()
		if err != nil {
			return nil, err
		}
		s.Version, s.Seed, s.Master = dataVersion, string(seed), make([]byte, 32)
		rand.Read(s.Master)
		return json.Marshal(s)
	})
	if err != nil {
		return s, err
	}
	pair, err := nkeys.FromSeed([]byte(s.Seed))
	if err == nil {
		s.public, err = pair.PublicKey()
	}
	return s, err
}

// key returns a key that is derived for a purpose.
func (s secret) key(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, s.Master, nil, "golem hub "+purpose, 32)
	if err != nil {
		panic(err) // only for a length that is too long
	}
	return key
}

// derive returns a password for a purpose.
func (s secret) derive(purpose string) string { return hex.EncodeToString(s.key(purpose)) }

// name returns a short name of this hub, for its streams.
func (s secret) name() string { return s.derive("name")[:12] }

// sign signs with the hub's own key.
func (s secret) sign(data []byte) ([]byte, error) {
	pair, err := nkeys.FromSeed([]byte(s.Seed))
	if err != nil {
		return nil, err
	}
	return pair.Sign(data)
}
