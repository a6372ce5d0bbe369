package store

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golem-forge/golem/internal/records/state"
)

// An once is a stream that takes one message for each subject: the hash of a key, after that of
// its group if it has one.
type once struct {
	*stream
	group  string // "" or the first part of its subjects, with a dot
	spares bool   // a key whose value the server lost to a damaged disk takes another one
}

func (o *once) subject(key string) string { return o.group + hexHash(key) }

// writerHeader names the call that added a message. A call whose acknowledgement was lost
// finds its own message by it.
const writerHeader = "Golem-Writer"

// oncePerSubject is the shape of a stream that takes one message for each subject.
var oncePerSubject = jetstream.StreamConfig{MaxMsgsPerSubject: 1, DiscardNewPerSubject: true}

// Once returns the decisions of a name made of a-z, 0-9, - and _.
func (s *Store) Once(name string) (state.Once, error) {
	made, err := s.openStream("once", name, oncePerSubject)
	if err != nil {
		return nil, err
	}
	return &once{stream: made}, nil
}

// Groups are decisions in groups. All of a group can be removed at once. A decision that cannot be
// read any more, because the server's disk is damaged, counts as not made.
type Groups struct{ once }

// Groups returns the groups of a name. Its own keys, in no group, are those of Once.
func (s *Store) Groups(name string) (*Groups, error) {
	made, err := s.openStream("once", name, oncePerSubject)
	if err != nil {
		return nil, err
	}
	return &Groups{once{stream: made, spares: true}}, nil
}

// In returns the decisions of a group.
func (g *Groups) In(group string) state.Once { return &once{g.stream, hexHash(group) + ".", true} }

// ForgetGroup removes all decisions of a group.
func (g *Groups) ForgetGroup(group string) error {
	ctx, cancel := g.within()
	defer cancel()
	return g.Purge(ctx, jetstream.WithPurgeSubject(g.base+"."+hexHash(group)+".>"))
}

// ForgetOthers removes all decisions of a group except those of some keys.
func (g *Groups) ForgetOthers(group string, keys map[string]bool) error {
	ctx, cancel := g.within()
	defer cancel()
	prefix := g.base + "." + hexHash(group) + "."
	about, err := g.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return err
	}
	keep := make(map[string]bool, len(keys))
	for key := range keys {
		keep[prefix+hexHash(key)] = true
	}
	for subject := range about.State.Subjects {
		if original, _, _ := strings.Cut(subject, spare); keep[original] {
			continue
		}
		if err := g.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return err
		}
	}
	return nil
}

// A Fence decides each key once, and nobody can remove a decision, not even the hub.
type Fence struct{ once }

// Fence returns the fence of a name.
func (s *Store) Fence(name string) (*Fence, error) {
	shape := oncePerSubject
	shape.DenyDelete, shape.DenyPurge = true, true
	made, err := s.openStream("fence", name, shape)
	if err != nil {
		return nil, err
	}
	return &Fence{once{stream: made}}, nil
}

// Count returns how many decisions the fence has had.
func (f *Fence) Count() (uint64, error) {
	ctx, cancel := f.within()
	defer cancel()
	about, err := f.Info(ctx)
	if err != nil {
		return 0, err
	}
	return about.State.LastSeq, nil
}

// Forget refuses: what a fence has decided stays.
func (*Fence) Forget(string) error {
	return fmt.Errorf("what a fence has decided stays decided")
}

// spare stands in a subject after that of its key. The server can neither read nor remove a message
// on a damaged part of its disk, and still refuses another one at its subject.
const (
	spare     = ".spare."
	maxSpares = 20 // so many times a value is damaged
)

// Decide implements state.Once.
func (o *once) Decide(key string, value []byte) (kept []byte, first bool, err error) {
	if len(value) > MaxValue {
		return nil, false, fmt.Errorf("a value of %d bytes; at most %d are kept", len(value), MaxValue)
	}
	subject, writer := o.subject(key), nats.NewInbox()
	kept, first, err = o.decide(subject, writer, value)
	for n := 1; o.spares && n <= maxSpares && isCode(err, codeStoreFailed); n++ {
		kept, first, err = o.decide(subject+spare+strconv.Itoa(n), writer, value)
	}
	return kept, first, err
}

// decide is Decide for a subject.
func (o *once) decide(subject, writer string, value []byte) (kept []byte, first bool, err error) {
	for tries := 0; ; tries++ {
		_, err := o.add(subject, nats.Header{writerHeader: {writer}}, value)
		if err == nil {
			return value, true, nil
		}
		m, ok, second := o.last(subject)
		if second == nil && ok { // it has a value, perhaps this one: the acknowledgement may be lost
			return m.Data, m.Header.Get(writerHeader) == writer, nil
		}
		if tries > 3 || isCode(err, codeStoreFailed) && second != nil {
			return nil, false, err
		}
	}
}

// Look implements state.Once.
func (o *once) Look(key string) (value []byte, ok bool, err error) {
	m, ok, err := o.last(o.subject(key))
	if err == nil && !ok && o.spares {
		m, ok, err = o.last(o.subject(key) + spare + "*")
	}
	if !ok {
		return nil, false, err
	}
	return m.Data, true, nil
}

// Forget implements state.Once.
func (o *once) Forget(key string) error {
	ctx, cancel := o.within()
	defer cancel()
	err := o.Purge(ctx, jetstream.WithPurgeSubject(o.base+"."+o.subject(key)))
	if err == nil && o.spares {
		err = o.Purge(ctx, jetstream.WithPurgeSubject(o.base+"."+o.subject(key)+spare+"*"))
	}
	return err
}
