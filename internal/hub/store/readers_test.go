package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/golem-forge/golem/internal/records/state"
)

// TestReaders checks that nobody who has read is left at the server, which allows only so many readers
// of a stream.
func TestReaders(t *testing.T) {
	s, err := open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	documents, err := s.Documents("readers")
	if err != nil {
		t.Fatal(err)
	}
	log, err := s.Log("readers", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for i := range 20 {
		if _, err := documents.Put(fmt.Sprint("d", i), []byte("x"), 0); err != nil {
			t.Fatal(err)
		}
		if err := documents.Each(func(string, []byte, uint64) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := log.Append(true, func(state.Tail) ([][]byte, []byte, error) { return [][]byte{[]byte("x")}, nil, nil }); err != nil {
			t.Fatal(err)
		}
		if err := log.Read(1, func(uint64, []byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	js, err := jetstream.New(s.conn)
	if err != nil {
		t.Fatal(err)
	}
	left := func() (n int) {
		for about := range js.ListStreams(t.Context()).Info() {
			n += about.State.Consumers
		}
		return n
	}
	for range 100 { // the client removes some of them in the background
		if left() == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%d readers are left", left())
}
