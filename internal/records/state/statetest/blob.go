package statetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

// content returns the i-th content of a tag.
func content(tag string, i int) string { return strings.Repeat(fmt.Sprintln(tag, i), 1+i%3*10_000) }

func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func (s Suite) blobContents(t *testing.T) {
	dir := newDir(t)
	b := s.blobs(t, dir)
	if _, err := b.Get(sum("x"), 10); err == nil {
		t.Error("got what was never put")
	}
	if err := b.Remove(sum("x")); err != nil {
		t.Errorf("remove what is not there: %v", err)
	}
	for _, text := range []string{"", "x", "\x00\n", content("big", 2), "x"} {
		hash, err := b.Put(strings.NewReader(text))
		if hash != sum(text) || err != nil {
			t.Errorf("put %.10q: %s, %v, want %s", text, hash, err, sum(text))
		}
		got, err := s.blobs(t, dir).Get(hash, int64(len(text)))
		if string(got) != text || err != nil {
			t.Errorf("got %.10q, %v, want %.10q", got, err, text)
		}
		if _, err := b.Get(hash, int64(len(text))-1); err == nil {
			t.Errorf("got %.10q, which is too large", text)
		}
	}
	no := errors.New("no")
	if _, err := b.Put(io.MultiReader(strings.NewReader("part"), iotest.ErrReader(no))); !errors.Is(err, no) {
		t.Errorf("a reader's error: %v", err)
	}
	if _, err := b.Get(sum("part"), 10); err == nil {
		t.Error("got what was put in part")
	}
	for range 2 {
		if err := b.Remove(sum("x")); err != nil {
			t.Errorf("remove: %v", err)
		}
		if _, err := b.Get(sum("x"), 10); err == nil {
			t.Error("got what was removed")
		}
	}
	for _, hash := range []string{"", "x", "../x", strings.ToUpper(sum("x")), sum("x") + "0", sum("x")[1:] + "/"} {
		if _, err := b.Get(hash, 10); err == nil {
			t.Errorf("got %q", hash)
		}
		if err := b.Remove(hash); err == nil {
			t.Errorf("removed %q", hash)
		}
	}
}

func (s Suite) blobGoroutines(t *testing.T) {
	b := s.blobs(t, newDir(t))
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 20 {
				text := content("same", (w+i)%10)
				hash, err := b.Put(strings.NewReader(text))
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := b.Get(hash, 1<<20); string(got) != text || err != nil {
					t.Errorf("got %.20q, %v", got, err)
				}
			}
		})
	}
	all.Wait()
}

func (s Suite) blobKills(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	dir := newDir(t)
	b := s.blobs(t, dir)
	for round := range 40 {
		tag := fmt.Sprint(round)
		lines := s.start(t, "put until killed", dir, tag).kill(random, random.IntN(6))
		s.settle(t, dir)
		for i := range len(lines) + 2 {
			text := content(tag, i)
			got, err := b.Get(sum(text), 1<<20)
			if i < len(lines) && err != nil || err == nil && string(got) != text {
				t.Fatalf("content %d of %d: %.20q, %v", i, len(lines), got, err)
			}
			if hash, err := b.Put(strings.NewReader(text)); hash != sum(text) || err != nil {
				t.Fatalf("after a kill: %s, %v", hash, err)
			}
		}
	}
}
