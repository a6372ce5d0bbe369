package device

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/audit"
)

// newKey returns a key, and its point as a browser sends it.
func newKey(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return key, hex.EncodeToString(raw)
}

// TestPairing checks that a code serves one device for five minutes, and that the word on its
// screen decides.
func TestPairing(t *testing.T) {
	now := time.Now()
	s, err := Open(t.TempDir(), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, one := newKey(t)
	_, other := newKey(t)
	offer := func(name string) string {
		t.Helper()
		code, err := s.Offer(name, "low")
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	claim := func(code, key, want string) {
		t.Helper()
		if err := s.Claim(code, key); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("claim: got %v, want %q", err, want)
		}
	}
	const refused = "this code was used, is wrong or is older than five minutes"
	claim("", one, refused) // there is no offer
	first := offer("phone")
	code := offer("phone")
	claim(first, one, refused) // the second offer replaced it
	claim(code+"x", one, refused)
	claim("", one, refused)
	for _, key := range []string{"", "00", one[2:], "04" + strings.Repeat("00", 64), strings.Repeat("zz", 65)} {
		claim(code, key, "no key of P-256")
	}
	if claimed, open := s.Claimed(code); claimed || !open {
		t.Errorf("before: %v, %v", claimed, open)
	}
	if _, err := s.Confirm(code, Word(""), "a test"); err == nil {
		t.Error("golem pairs a device that was never there")
	}
	claim(code, one, refused) // that ended the offer

	code = offer("phone")
	claim(code, one, "")
	claim(code, other, refused)
	if _, err := s.Confirm(code, Word(other), "a test"); err == nil {
		t.Error("golem pairs with the word of another device")
	}
	if _, err := s.Confirm(code, Word(one), "a test"); err == nil {
		t.Error("golem lets a second word be tried")
	}

	code = offer("phone")
	now = now.Add(patience + time.Second)
	claim(code, one, refused)
	if _, open := s.Claimed(code); open {
		t.Error("an old offer is open")
	}

	code = offer("phone")
	claim(code, one, "")
	if _, err := s.Confirm("other", Word(one), "a test"); err == nil {
		t.Error("golem pairs by another code")
	}
	code = offer("phone")
	claim(code, one, "")
	d, err := s.Confirm(code, " "+strings.ToUpper(Word(one))+"\n", "a test")
	if err != nil || d.Name != "phone" || d.May != "low" || d.Key != one {
		t.Fatalf("got %+v, %v", d, err)
	}
	if found, err := s.Find(d.ID); err != nil || found != d {
		t.Errorf("got %+v, %v", found, err)
	}
	if _, err := s.Offer("phone", "low"); err == nil {
		t.Error("two devices have one name")
	}
	code = offer("tablet")
	if err := s.Withdraw(code); err != nil {
		t.Error(err)
	}
	claim(code, other, refused)
	if err := s.Remove("tablet", "a test"); err == nil {
		t.Error("golem removes a device that is not there")
	}
	if err := s.Remove(d.ID, "a test"); err != nil {
		t.Error(err)
	}
	if _, err := s.Find(d.ID); err == nil {
		t.Error("a removed device is there")
	}
	if got, want := journalOf(t, s), []string{"no", "yes phone may approve up to low risk", "revoked the user removed phone"}; !slices.Equal(got, want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
}

// journalOf returns what the journal of a store has.
func journalOf(t *testing.T, s *Store) (list []string) {
	t.Helper()
	if err := audit.Read(s.folder, audit.Filter{}, func(r audit.Record, _ []byte) error {
		list = append(list, strings.TrimSpace(r.Decision+" "+map[bool]string{true: r.Note}[r.Decision != "no"]))
		if r.Front != "a test" || r.By != "user" || len(r.Request) != 16 || r.Args["name"] != "phone" {
			t.Errorf("the record %+v", r)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestNoJournal checks that golem pairs no device without a record, and removes one even then.
func TestNoJournal(t *testing.T) {
	base := t.TempDir()
	s, err := Open(base, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pair := func(name string) error {
		_, key := newKey(t)
		code, err := s.Offer(name, "high")
		if err == nil {
			err = s.Claim(code, key)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Confirm(code, Word(key), "a test")
		return err
	}
	if err := pair("phone"); err != nil {
		t.Fatal(err)
	}
	journals, _ := filepath.Glob(filepath.Join(base, "devices", "journal*"))
	for _, name := range journals {
		if err := errors.Join(os.RemoveAll(name), os.Mkdir(name, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := pair("tablet"); err == nil || len(journals) == 0 {
		t.Errorf("golem pairs without a journal: %v", err)
	}
	if err := s.Remove("phone", "a test"); err == nil || !strings.Contains(err.Error(), "the device is removed, but the journal has no record of it") {
		t.Errorf("the removal: %v", err)
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("the devices are %+v, %v", list, err)
	}
}

// TestClaimOnce checks that one of many devices gets a code.
func TestClaimOnce(t *testing.T) {
	s, err := Open(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	code, err := s.Offer("phone", "low")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	won := make(chan string, 8)
	for range cap(won) {
		_, key := newKey(t)
		all.Go(func() {
			if s.Claim(code, key) == nil {
				won <- key
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("%d devices have the code", len(won))
	}
	if _, err := s.Confirm(code, Word(<-won), "a test"); err != nil {
		t.Error(err)
	}
}

// TestMayApprove checks the scopes of devices.
func TestMayApprove(t *testing.T) {
	for may, want := range map[string]string{"decline": "", "low": "low", "medium": "low medium", "high": "low medium high", "": "", "all": ""} {
		var got []string
		for _, risk := range []string{"decline", "low", "medium", "high", "", "unknown"} {
			if (Device{May: may}).MayApprove(risk) {
				got = append(got, risk)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", may, got, want)
		}
	}
}

// TestVerify checks that a signature counts for its lines and its key only.
func TestVerify(t *testing.T) {
	key, point := newKey(t)
	_, other := newKey(t)
	sum := sha256.Sum256([]byte("a\nb"))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	good := hex.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
	for _, c := range []struct {
		key, signature string
		lines          []string
		want           bool
	}{
		{point, good, []string{"a", "b"}, true},
		{other, good, []string{"a", "b"}, false},
		{point, good, []string{"a", "b", ""}, false},
		{point, good, []string{"b", "a"}, false},
		{point, "", []string{"a", "b"}, false},
		{point, strings.Repeat("0", 128), []string{"a", "b"}, false},
		{point, good + "00", []string{"a", "b"}, false},
		{point, good[2:], []string{"a", "b"}, false},
		{"", good, []string{"a", "b"}, false},
	} {
		if err := (Device{Key: c.key}).Verify(c.signature, c.lines...); (err == nil) != c.want {
			t.Errorf("%q by %.8q for %q: %v", c.signature, c.key, c.lines, err)
		}
	}
}
