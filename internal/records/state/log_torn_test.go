package state

import (
	"testing"
	"time"
)

// TestTailDuringHead: while a writer is interrupted in the middle of its head, Tail does
// not count the record that the head does not confirm yet.
func TestTailDuringHead(t *testing.T) {
	dir, err := Open(t.TempDir() + "/state")
	if err != nil {
		t.Fatal(err)
	}
	log, err := dir.Log("log", 0)
	if err != nil {
		t.Fatal(err)
	}
	l := log.(*fileLog)
	add := func(record string) {
		t.Helper()
		if err := l.Append(false, func(Tail) ([][]byte, []byte, error) { return [][]byte{[]byte(record)}, nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	add("one")
	if err := l.take(); err != nil {
		t.Fatal(err)
	}
	whole, err := l.slot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.cur.WriteAt([]byte("two\n"), whole.size); err != nil {
		t.Fatal(err)
	}
	if _, err := l.head.WriteAt([]byte("half"), 40); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		time.Sleep(30 * time.Millisecond)
		err := l.putHead(whole)
		time.Sleep(30 * time.Millisecond)
		done <- err
	}()
	reader, err := dir.Log("log", 0)
	if err != nil {
		t.Fatal(err)
	}
	if tail, err := reader.Tail(); err != nil || tail.Count != 1 {
		t.Errorf("got %+v, %v, want one record", tail, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	l.give()
}
