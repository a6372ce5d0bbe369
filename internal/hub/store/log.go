package store

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golem-forge/golem/internal/records/state"
)

// A log is a subject of the stream of all logs. Each message holds the records of one
// Append, so they are added all or none.
type log struct {
	*stream
	subject string
	turn    sync.Mutex // held by the Append of this log in this process
	mu      sync.Mutex
	closed  bool
}

// The headers of a message of a log: the number of records before it, how many it has, and
// the mark.
const (
	beforeHeader = "Golem-Before"
	countHeader  = "Golem-Count"
	markHeader   = "Golem-Mark"
)

// Log returns the log of a name made of a-z, 0-9, - and _. It has no segments.
func (s *Store) Log(name string, _ int64) (state.Log, error) {
	if !plainName(name) {
		return nil, nameError("log", name)
	}
	made, err := s.openStream("log", "all", jetstream.StreamConfig{})
	if err != nil {
		return nil, err
	}
	return &log{stream: made, subject: name}, nil
}

// An end is the newest message of a log.
type end struct {
	state.Tail
	sequence uint64 // of the message, 0 if there is none
}

func (l *log) end() (e end, err error) {
	m, ok, err := l.last(l.subject)
	if !ok {
		return e, err
	}
	e.sequence = m.Sequence
	e.Count, e.Mark, err = parseHeader(m.Header)
	return e, err
}

func parseHeader(h nats.Header) (total uint64, mark []byte, err error) {
	before, err := strconv.ParseUint(h.Get(beforeHeader), 10, 64)
	if err != nil {
		return 0, nil, damaged(err)
	}
	count, err := strconv.ParseUint(h.Get(countHeader), 10, 64)
	if err != nil {
		return 0, nil, damaged(err)
	}
	if text := h.Get(markHeader); text != "" {
		if mark, err = hex.DecodeString(text); err != nil {
			return 0, nil, damaged(err)
		}
	}
	return before + count, mark, nil
}

func damaged(err error) error { return fmt.Errorf("the log is damaged: %w", err) }

// Append implements state.Log. If another process appends at the same time, next is called
// again with the new tail. Every acknowledged record is on the server's disk, whatever sync
// says.
func (l *log) Append(_ bool, next func(state.Tail) (records [][]byte, mark []byte, err error)) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.isClosed() {
		return errors.New("the log is closed; open it again")
	}
	for {
		before, err := l.end()
		if err != nil {
			return err
		}
		records, mark, err := next(before.Tail)
		if err != nil {
			return err
		}
		if len(records) == 0 && string(mark) == string(before.Mark) {
			return nil
		}
		header := nats.Header{beforeHeader: {strconv.FormatUint(before.Count, 10)}, countHeader: {strconv.Itoa(len(records))}, writerHeader: {nats.NewInbox()}}
		if len(mark) > 0 {
			header.Set(markHeader, hex.EncodeToString(mark))
		}
		data, err := join(records)
		if err != nil {
			return err
		}
		_, err = l.add(l.subject, header, data, jetstream.WithExpectLastSequencePerSubject(before.sequence))
		if err == nil {
			return nil
		}
		now, second := l.isLast(header.Get(writerHeader))
		if now { // only the acknowledgement was lost
			return nil
		}
		if !isCode(err, codeWrongLast, codeWrongLastSub) {
			return errors.Join(err, second)
		}
	}
}

// isLast reports whether the newest message of the log is of a writer.
func (l *log) isLast(writer string) (bool, error) {
	m, ok, err := l.last(l.subject)
	return ok && m.Header.Get(writerHeader) == writer, err
}

// join writes records one after the other, each after its length.
func join(records [][]byte) (data []byte, err error) {
	for _, r := range records {
		data = append(binary.AppendUvarint(data, uint64(len(r))), r...)
	}
	if len(data) > MaxValue {
		return nil, fmt.Errorf("records of %d bytes; at most %d are kept at once", len(data), MaxValue)
	}
	return data, nil
}

// split calls yield for each of the joined records.
func split(data []byte, yield func(record []byte) error) error {
	for len(data) > 0 {
		n, used := binary.Uvarint(data)
		if used <= 0 || n > uint64(len(data)-used) {
			return damaged(io.ErrUnexpectedEOF)
		}
		if err := yield(data[used : used+int(n)]); err != nil {
			return err
		}
		data = data[used+int(n):]
	}
	return nil
}

// Read implements state.Log.
func (l *log) Read(from uint64, yield func(number uint64, record []byte) error) error {
	tail, err := l.end()
	if err != nil || tail.sequence == 0 || from > tail.Count {
		return err
	}
	ctx, cancel := context.WithCancel(l.ended)
	defer cancel()
	consumer, err := l.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{l.base + "." + l.subject}, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: readersEnd})
	if err != nil {
		return err
	}
	defer l.forgetReader(consumer)
	messages, err := consumer.Messages(jetstream.PullMaxMessages(500))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for number := uint64(0); ; {
		m, err := messages.Next(jetstream.NextMaxWait(patience))
		if err != nil {
			return err
		}
		err = split(m.Data(), func(record []byte) error {
			if number++; number < from {
				return nil
			}
			return yield(number, record)
		})
		if err != nil {
			return err
		}
		about, err := m.Metadata()
		if err != nil {
			return err
		}
		if about.Sequence.Stream >= tail.sequence {
			return nil
		}
	}
}

// Watch implements state.Log.
func (l *log) Watch(ctx context.Context, number uint64) error {
	// Only new messages wake a watcher, so it listens before it looks.
	news := make(chan *nats.Msg, 64)
	sub, err := l.conn.ChanSubscribe(l.base+"."+l.subject, news)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := l.conn.FlushTimeout(patience); err != nil {
		return err
	}
	for {
		tail, err := l.end()
		if err != nil {
			return err
		}
		if tail.Count >= number {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ended.Done():
			return context.Cause(l.ended)
		case <-news: // the message may not be stored yet, so it is looked for again
		case <-l.pause():
		}
	}
}

// Tail implements state.Log.
func (l *log) Tail() (state.Tail, error) {
	e, err := l.end()
	return e.Tail, err
}

func (l *log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Close implements state.Log.
func (l *log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

// RemoveLog removes the log of a name, with all its records.
func (s *Store) RemoveLog(name string) error {
	if !plainName(name) {
		return nameError("log", name)
	}
	made, err := s.openStream("log", "all", jetstream.StreamConfig{})
	if err != nil {
		return err
	}
	ctx, cancel := made.within()
	defer cancel()
	return made.Purge(ctx, jetstream.WithPurgeSubject(made.base+"."+name))
}
