package statetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func (s Suite) onceFirst(t *testing.T) {
	dir := newDir(t)
	o := s.once(t, dir)
	if value, ok, err := o.Look("k"); value != nil || ok || err != nil {
		t.Errorf("a key that nobody decided: %q, %t, %v", value, ok, err)
	}
	if err := o.Forget("k"); err != nil {
		t.Errorf("forget what nobody decided: %v", err)
	}
	for round := range 2 {
		for i, value := range []string{"yes", "no", "yes"} {
			kept, first, err := s.once(t, dir).Decide("k", []byte(value))
			if string(kept) != "yes" || first != (i == 0) || err != nil {
				t.Errorf("round %d: decided %q: %q, %t, %v", round, value, kept, first, err)
			}
			if kept, ok, err := o.Look("k"); string(kept) != "yes" || !ok || err != nil {
				t.Errorf("round %d: look: %q, %t, %v", round, kept, ok, err)
			}
		}
		must(t, o.Forget("k"))
		if _, ok, err := o.Look("k"); ok || err != nil {
			t.Errorf("round %d: it was not forgotten: %v", round, err)
		}
	}
}

func (s Suite) onceKeys(t *testing.T) {
	o := s.once(t, newDir(t))
	texts := []string{"", "a", "A", "a ", "../a", "/etc/passwd", "a\nb", "\x00", "\xff", strings.Repeat("k", 100_000)}
	for _, key := range texts {
		value := []byte("value of " + key)
		if kept, first, err := o.Decide(key, value); !bytes.Equal(kept, value) || !first || err != nil {
			t.Errorf("key %.20q: %.30q, %t, %v", key, kept, first, err)
		}
	}
	for _, key := range texts {
		if kept, ok, err := o.Look(key); string(kept) != "value of "+key || !ok || err != nil {
			t.Errorf("key %.20q: %.30q, %t, %v", key, kept, ok, err)
		}
	}
	if kept, first, err := o.Decide("empty", nil); len(kept) != 0 || !first || err != nil {
		t.Errorf("an empty value: %q, %t, %v", kept, first, err)
	}
	if _, first, err := o.Decide("empty", []byte("more")); first || err != nil {
		t.Errorf("an empty value is none: %v", err)
	}
}

func (s Suite) onceGoroutines(t *testing.T) {
	o := s.once(t, newDir(t))
	for key := range 20 {
		var firsts atomic.Int32
		var winner, kept [8]string
		var all sync.WaitGroup
		for i := range kept {
			all.Go(func() {
				value, first, err := o.Decide(strconv.Itoa(key), []byte(strconv.Itoa(i)))
				if err != nil {
					t.Error(err)
				}
				if kept[i] = string(value); first {
					winner[i] = kept[i]
					firsts.Add(1)
				}
			})
		}
		all.Wait()
		for i := range kept {
			if kept[i] != kept[0] || winner[i] != "" && winner[i] != strconv.Itoa(i) || firsts.Load() != 1 {
				t.Fatalf("key %d: kept %q, first %q", key, kept, winner)
			}
		}
	}
}

// keys is how many keys the processes decide.
const keys = 100

func (s Suite) onceProcesses(t *testing.T) {
	dir := newDir(t)
	parts := map[string]*player{}
	for _, tag := range []string{"a", "b", "c"} {
		parts[tag] = s.start(t, "decide", dir, tag)
	}
	kept, firsts := map[string]string{}, 0
	for tag, p := range parts {
		for _, line := range p.end() {
			var key, value string
			var first bool
			if _, err := fmt.Sscan(line, &key, &value, &first); err != nil {
				t.Fatal(err)
			}
			if before, ok := kept[key]; ok && before != value {
				t.Errorf("key %s: %s for one, and %s for another", key, before, value)
			}
			if kept[key] = value; first {
				firsts++
			}
			if first && value != tag {
				t.Errorf("key %s: %s was first, and %s was kept", key, tag, value)
			}
		}
	}
	if len(kept) != keys || firsts != keys {
		t.Errorf("%d keys were decided %d times, want %d", len(kept), firsts, keys)
	}
}

func (s Suite) onceKills(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	dir := newDir(t)
	o := s.once(t, dir)
	for round := range 40 {
		tag := fmt.Sprintf("%d-", round)
		lines := s.start(t, "decide until killed", dir, tag).kill(random, random.IntN(10))
		s.settle(t, dir)
		for i := range len(lines) + 2 {
			key := fmt.Sprint(tag, i)
			value, ok, err := o.Look(key)
			if err != nil || ok && string(value) != strings.Repeat(key, 1000) || !ok && i < len(lines) {
				t.Fatalf("key %s of %d: %.30q, %t, %v", key, len(lines), value, ok, err)
			}
		}
	}
}
