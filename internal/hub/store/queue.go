package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Queue holds tasks until somebody has finished them. Each lane of a queue has an order of
// its own.
type Queue struct {
	*stream
	deadline time.Duration
}

// A Task was taken from a queue. Its receipt is a text, so that any process that knows it can
// say that the task is in work or finished.
type Task struct {
	Data      []byte
	Receipt   string
	Delivered uint64 // how often it was taken
}

// Queue returns the queue of a name. A task that nobody works on for the deadline is given to
// somebody else.
func (s *Store) Queue(name string, deadline time.Duration) (*Queue, error) {
	made, err := s.openStream("queue", name, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		return nil, err
	}
	return &Queue{made, deadline}, nil
}

// Add adds a task to a lane, unless the lane has a task with this id. Both are made of a-z,
// 0-9, - and _.
func (q *Queue) Add(lane, id string, data []byte) error {
	if !plainName(lane) {
		return nameError("lane", lane)
	}
	if !plainName(id) {
		return nameError("task", id)
	}
	_, err := q.add(lane+"."+id, nil, data, jetstream.WithExpectLastSequencePerSubject(0))
	if isCode(err, codeWrongLast, codeWrongLastSub) {
		return nil
	}
	return err
}

// Take takes the next task of a lane. It returns false if none comes within a time.
func (q *Queue) Take(lane string, wait time.Duration) (t Task, ok bool, err error) {
	if !plainName(lane) {
		return t, false, nameError("lane", lane)
	}
	setup, cancel := q.within()
	defer cancel()
	consumer, err := q.CreateOrUpdateConsumer(setup, jetstream.ConsumerConfig{Durable: lane, FilterSubject: q.base + "." + lane + ".*", AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.deadline, MaxAckPending: 100_000})
	if err != nil {
		return t, false, err
	}
	batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(max(wait, time.Millisecond)))
	if err != nil {
		return t, false, err
	}
	if m, ok := <-batch.Messages(); ok {
		about, err := m.Metadata()
		if err != nil {
			return t, false, err
		}
		return Task{m.Data(), m.Reply(), about.NumDelivered}, true, nil
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
		return t, false, err
	}
	return t, false, nil
}

// Beat says that a task is in work.
func (q *Queue) Beat(receipt string) error { return q.conn.Publish(receipt, []byte("+WPI")) }

// Return gives a task back at once.
func (q *Queue) Return(receipt string) error { return q.conn.Publish(receipt, []byte("-NAK")) }

// Done says that a task is finished. It returns when the queue has removed it.
func (q *Queue) Done(receipt string) error {
	m, err := q.conn.Request(receipt, []byte("+ACK"), patience)
	if err == nil && m.Header.Get("Status") != "" {
		return fmt.Errorf("the queue answers %s", m.Header.Get("Status"))
	}
	return err
}
