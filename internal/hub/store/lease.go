package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golem-forge/golem/internal/state"
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

// Documents are values with revisions. A value is replaced only by somebody who knows it.
type Documents struct{ *stream }

// ErrChanged says that a document has another revision than its writer knew.
var ErrChanged = errors.New("it was changed by somebody else; read it again")

// Documents returns the documents of a name.
func (s *Store) Documents(name string) (*Documents, error) {
	made, err := s.openStream("documents", name, jetstream.StreamConfig{MaxMsgsPerSubject: 1})
	if err != nil {
		return nil, err
	}
	return &Documents{made}, nil
}

// Get returns a document and its revision, which is 0 if it does not exist. A key is made of
// a-z, 0-9, - and _.
func (d *Documents) Get(key string) (value []byte, revision uint64, err error) {
	if !plainName(key) {
		return nil, 0, nameError("document", key)
	}
	m, ok, err := d.last(key)
	if !ok {
		return nil, 0, err
	}
	return m.Data, m.Sequence, nil
}

// Put replaces the document with a revision, 0 for a new one, and returns its new revision.
func (d *Documents) Put(key string, value []byte, revision uint64) (uint64, error) {
	if !plainName(key) {
		return 0, nameError("document", key)
	}
	if len(value) > MaxValue {
		return 0, fmt.Errorf("a document of %d bytes; at most %d are kept", len(value), MaxValue)
	}
	writer := nats.NewInbox()
	now, err := d.add(key, nats.Header{writerHeader: {writer}}, value, jetstream.WithExpectLastSequencePerSubject(revision))
	if err == nil {
		return now, nil
	}
	m, ok, second := d.last(key)
	switch {
	case second != nil:
		return 0, errors.Join(err, second)
	case ok && m.Header.Get(writerHeader) == writer: // only the acknowledgement was lost
		return m.Sequence, nil
	case isCode(err, codeWrongLast, codeWrongLastSub):
		return 0, ErrChanged
	}
	return 0, err
}

// Remove removes a document.
func (d *Documents) Remove(key string) error {
	if !plainName(key) {
		return nameError("document", key)
	}
	ctx, cancel := d.within()
	defer cancel()
	return d.Purge(ctx, jetstream.WithPurgeSubject(d.base+"."+key))
}

// Each calls yield with every document, until it returns an error. Documents that are
// written meanwhile may be missing.
func (d *Documents) Each(yield func(key string, value []byte, revision uint64) error) error {
	ctx, cancel := context.WithCancel(d.ended)
	defer cancel()
	newest, err := d.Info(ctx)
	if err != nil || newest.State.Msgs == 0 {
		return err
	}
	consumer, err := d.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return err
	}
	for {
		batch, err := consumer.FetchNoWait(500)
		if err != nil {
			return err
		}
		got := 0
		for m := range batch.Messages() {
			got++
			about, err := m.Metadata()
			if err != nil {
				return err
			}
			if err := yield(m.Subject()[len(d.base)+1:], m.Data(), about.Sequence.Stream); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil && got == 0 {
			return err
		}
		if got == 0 {
			return nil
		}
	}
}
