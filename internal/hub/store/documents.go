package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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
	consumer, err := d.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: readersEnd})
	if err != nil {
		return err
	}
	defer d.forgetReader(consumer)
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

// Follow calls yield with every document, and then with each one that is written, until ctx
// ends or yield returns an error. At the end of those that exist it calls ready.
func (d *Documents) Follow(ctx context.Context, ready func(), yield func(key string, value []byte, revision uint64) error) error {
	about, err := d.Info(ctx)
	if err != nil {
		return err
	}
	consumer, err := d.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, MaxResetAttempts: 5, InactiveThreshold: readersEnd})
	if err != nil {
		return err
	}
	defer d.forgetReader(consumer)
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	// Without a leader Next tries several times to make its consumer again, whatever its context says.
	defer context.AfterFunc(ctx, messages.Stop)()
	isReady := about.State.Msgs == 0
	if isReady {
		ready()
	}
	// Such short waits do not notice that the consumer is lost, as it can be when a cluster elects
	// a leader. So the answer of the server and the number of waits in vain tell.
	silent := 0
	for {
		wait := jetstream.NextContext(ctx)
		if !isReady { // the last documents may be removed before they arrive
			wait = jetstream.NextMaxWait(time.Second)
		}
		m, err := messages.Next(wait)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, nats.ErrTimeout) && !isReady {
			left, err := consumer.Info(ctx)
			switch {
			case err != nil:
				return fmt.Errorf("the documents stopped to arrive: %w", err)
			case left.NumPending == 0 && left.NumAckPending == 0:
				isReady = true
				ready()
			case silent == 10:
				return fmt.Errorf("%d documents do not arrive", left.NumPending)
			}
			silent++
			continue
		}
		if err != nil {
			return err
		}
		silent = 0
		at, err := m.Metadata()
		if err != nil {
			return err
		}
		if err := yield(m.Subject()[len(d.base)+1:], m.Data(), at.Sequence.Stream); err != nil {
			return err
		}
		if !isReady && (at.NumPending == 0 || at.Sequence.Stream >= about.State.LastSeq) {
			isReady = true
			ready()
		}
	}
}
