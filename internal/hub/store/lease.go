package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/golem-forge/golem/internal/records/state"
)

// leases are documents with the store that holds them. Each store answers a question for its
// name; a store that does not answer has ended.
type leases struct {
	*Store
	documents *Documents
}

// A lease is the document of a lease.
type lease struct {
	Holder string `json:"holder"` // "" if it is free
	Owner  string `json:"owner"`
}

// again is how long a waiting Take waits until it looks again.
const again = 20 * time.Millisecond

// maxOwner limits the length of an owner in messages.
const maxOwner = 256

// Leases returns the leases of the store. A lease protects from others only while the
// connection of its holder stands. What must not happen twice needs a fence too.
func (s *Store) Leases() (state.Leases, error) {
	d, err := s.Documents("leases")
	if err != nil {
		return nil, err
	}
	return &leases{s, d}, nil
}

func (s *Store) aliveSubject(holder string) string { return s.prefix + ".alive." + holder }

// pause returns a channel that is ready after a short time.
func (s *Store) pause() <-chan time.Time { return time.After(again) }

// Take implements state.Leases. It tries at least once.
func (l *leases) Take(ctx context.Context, name, owner string) (release func() error, err error) {
	key, holder := hexHash(name), l.holder+"."+nats.NewInbox()[len("_INBOX."):]
	data, err := json.Marshal(lease{holder, owner[:min(len(owner), maxOwner)]})
	if err != nil {
		return nil, err
	}
	for {
		held, revision, err := l.look(key)
		if err != nil {
			return nil, fmt.Errorf("lease %q: %w", name, err)
		}
		if held.Holder == "" || l.hasEnded(held.Holder) {
			now, err := l.documents.Put(key, data, revision)
			if err == nil {
				return l.releaser(key, now), nil
			}
			if !errors.Is(err, ErrChanged) {
				return nil, fmt.Errorf("lease %q: %w", name, err)
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lease %q: held by %q; wait for it, or end it: %w", name, held.Owner, context.Cause(ctx))
		case <-l.pause():
		}
	}
}

func (l *leases) look(key string) (held lease, revision uint64, err error) {
	data, revision, err := l.documents.Get(key)
	if err == nil && revision > 0 {
		err = json.Unmarshal(data, &held)
	}
	return held, revision, err
}

// hasEnded reports whether the store of a holder is gone: the server knows nobody who
// answers for it.
func (l *leases) hasEnded(holder string) bool {
	for i := range holder {
		if holder[i] == '.' {
			holder = holder[:i]
			break
		}
	}
	_, err := l.conn.Request(l.aliveSubject(holder), nil, patience)
	return errors.Is(err, nats.ErrNoResponders)
}

// releaser returns a function that releases a lease, once.
func (l *leases) releaser(key string, revision uint64) func() error {
	free, _ := json.Marshal(lease{})
	return sync.OnceValue(func() error {
		_, err := l.documents.Put(key, free, revision)
		if errors.Is(err, ErrChanged) {
			return nil // another store took it, because this one seemed to have ended
		}
		return err
	})
}
