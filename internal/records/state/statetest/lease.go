package statetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ended returns a context that is already cancelled, so that nothing waits.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (s Suite) leaseExcludes(t *testing.T) {
	dir := newDir(t)
	l, other := s.leases(t, dir), s.leases(t, dir)
	for range 3 {
		release, err := l.Take(ended(), "a/../b\n", "owner 17")
		must(t, err)
		for _, leases := range []interface {
			Take(context.Context, string, string) (func() error, error)
		}{l, other} {
			_, err := leases.Take(ended(), "a/../b\n", "another")
			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "owner 17") {
				t.Errorf("a lease that is held: %v", err)
			}
		}
		free, err := other.Take(ended(), "c", "another")
		if err != nil {
			t.Fatalf("another lease: %v", err)
		}
		for _, f := range []func() error{release, release, free} { // a second call does nothing
			if err := f(); err != nil {
				t.Error(err)
			}
		}
	}
	release, err := other.Take(ended(), "a/../b\n", "the next")
	if err != nil {
		t.Fatalf("a lease that was given back: %v", err)
	}
	waited := make(chan error)
	go func() {
		free, err := l.Take(context.Background(), "a/../b\n", "who waits")
		if err == nil {
			err = free()
		}
		waited <- err
	}()
	if err := release(); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("who waited: %v", err)
	}
}

// turns is how often each process takes the lease.
const turns = 30

func (s Suite) leaseProcesses(t *testing.T) {
	dir := newDir(t)
	parts := []*player{s.start(t, "count in turn", dir, "a"), s.start(t, "count in turn", dir, "b"), s.start(t, "count in turn", dir, "c")}
	for _, p := range parts {
		p.end()
	}
	if got, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "number")); string(got) != "90" || err != nil {
		t.Errorf("counted %s, %v, want 90", got, err)
	}
}

func (s Suite) leaseKill(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	dir := newDir(t)
	l := s.leases(t, dir)
	for range 5 {
		p := s.start(t, "hold until killed", dir, "who is killed")
		if line, _ := p.next(); line != "held" {
			t.Fatalf("another process says %q", line)
		}
		if _, err := l.Take(ended(), "lease", "me"); err == nil || !strings.Contains(err.Error(), "who is killed") {
			t.Fatalf("a lease that another process holds: %v", err)
		}
		p.kill(random, 0)
		s.settle(t, dir)
		release, err := l.Take(ended(), "lease", "me")
		if err != nil {
			t.Fatalf("a lease whose holder was killed: %v", err)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	}
}
