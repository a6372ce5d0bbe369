// Package device keeps the devices from which the user may decide about calls, and verifies
// what they sign. A device has a key that its browser does not export. A journal of its own has
// each pairing and each removal.
package device

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// Scopes say what a device may decide. Each includes those before it.
var Scopes = []string{"decline", "low", "medium", "high"}

// A Device is a device of the user.
type Device struct {
	ID    string    `json:"id"` // of its key
	Name  string    `json:"name"`
	Key   string    `json:"key"` // a point of P-256, in hexadecimal digits
	May   string    `json:"may"` // one of Scopes: up to which risk it may approve
	Added time.Time `json:"added"`
}

// MayApprove reports whether the device may approve a call with a risk: low, medium or high.
func (d Device) MayApprove(risk string) bool {
	i := slices.Index(Scopes, risk)
	return i > 0 && i <= slices.Index(Scopes, d.May)
}

// MayText says what the device may do.
func (d Device) MayText() string {
	if d.May == Scopes[0] {
		return "decline"
	}
	return "approve up to " + d.May + " risk"
}

// Verify returns an error unless the device has signed lines.
func (d Device) Verify(signature string, lines ...string) error {
	key, err := parseKey(d.Key)
	raw, wrong := hex.DecodeString(signature)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	if err != nil || wrong != nil || len(raw) != 64 || !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:])) {
		return &sandbox.Error{Op: "device", Path: d.Name, Code: "blocked", Hint: "the signature is not one of this device for exactly this; open the page again"}
	}
	return nil
}

func parseKey(text string) (*ecdsa.PublicKey, error) {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return nil, err
	}
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw)
}

// An offer waits for one device.
type offer struct {
	Code    string    `json:"code"` // its hash
	Name    string    `json:"name"`
	May     string    `json:"may"`
	Expires time.Time `json:"expires"`
	Key     string    `json:"key,omitempty"` // of the device that used the code
}

// isOpen reports whether a device may use the offer with a code.
func (o *offer) isOpen(code string, now time.Time) bool {
	return o != nil && o.Key == "" && now.Before(o.Expires) && subtle.ConstantTimeCompare([]byte(o.Code), []byte(hashOf(code))) == 1
}

type contents struct {
	Devices []Device `json:"devices"`
	Offer   *offer   `json:"offer,omitempty"`
}

// The document, and how long an offer waits.
const (
	document  = "devices.json"
	patience  = 5 * time.Minute
	maxDevice = 32
)

// A Store keeps the devices of a user.
type Store struct {
	folder *state.Dir
	now    func() time.Time
}

// Open opens the store in the directory of all state.
func Open(base string, now func() time.Time) (*Store, error) {
	folder, err := state.Open(filepath.Dir(File(base)))
	return &Store{folder, now}, err
}

// File returns the file of the store. It changes when a device comes or goes.
func File(base string) string { return filepath.Join(base, inventory.DevicesName, document) }

// Close closes the store.
func (s *Store) Close() error { return s.folder.Close() }

func (s *Store) read() (c contents, err error) {
	data, err := s.folder.Read(document)
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &c)
	}
	return c, err
}

func (s *Store) update(do func(c *contents) error) error {
	return s.folder.Update(document, func(old []byte) ([]byte, error) {
		var c contents
		if len(old) > 0 {
			if err := json.Unmarshal(old, &c); err != nil {
				return nil, fmt.Errorf("%s is damaged: %w; move it away, and pair your devices again", document, err)
			}
		}
		if err := do(&c); err != nil {
			return nil, err
		}
		return json.MarshalIndent(c, "", "  ")
	})
}

// List returns the devices.
func (s *Store) List() ([]Device, error) {
	c, err := s.read()
	return c.Devices, err
}

// Find returns the device with an id.
func (s *Store) Find(id string) (Device, error) {
	list, err := s.List()
	i := slices.IndexFunc(list, func(d Device) bool { return d.ID == id })
	if err == nil && i < 0 {
		err = &sandbox.Error{Op: "device", Code: "blocked", Hint: "this device is not paired, or was removed; golem desk pair NAME pairs it"}
	}
	if err != nil {
		return Device{}, err
	}
	return list[i], nil
}

// Remove removes the device with a name or an id. A journal that golem cannot write does not keep
// the device. Front says where the user removes it.
func (s *Store) Remove(name, front string) error {
	isNamed := func(d Device) bool { return d.Name == name || d.ID == name }
	list, err := s.List()
	if err == nil && !slices.ContainsFunc(list, isNamed) {
		err = &sandbox.Error{Op: "device", Path: name, Code: sandbox.ErrNotFound, Hint: "golem desk devices lists your devices"}
	}
	if err != nil {
		return err
	}
	var unrecorded error
	for _, d := range list {
		if isNamed(d) {
			unrecorded = errors.Join(unrecorded, s.record(d, "revoked", front, "the user removed "+d.Name))
		}
	}
	err = s.update(func(c *contents) error {
		c.Devices = slices.DeleteFunc(c.Devices, isNamed)
		return nil
	})
	if err == nil && unrecorded != nil {
		err = fmt.Errorf("the device is removed, but the journal has no record of it: %w", unrecorded)
	}
	return err
}

// record writes to the journal what the user decided about a device, and syncs it.
func (s *Store) record(d Device, decision, front, note string) error {
	journal, err := audit.Open(s.folder, audit.Options{Now: s.now})
	if err != nil {
		return err
	}
	return errors.Join(journal.Write(audit.Record{Kind: audit.Answer, Origin: "user", Tool: audit.PairTool, Args: map[string]any{"name": d.Name, "may": d.May, "key": d.Key},
		Decision: decision, By: "user", Front: front, Request: d.ID, Note: note}, audit.Durable), journal.Close())
}

// Offer lets one device pair within five minutes, and returns the code that it needs. It
// replaces an earlier offer.
func (s *Store) Offer(name, may string) (code string, err error) {
	code = rand.Text()
	return code, s.update(func(c *contents) error {
		if slices.ContainsFunc(c.Devices, func(d Device) bool { return d.Name == name }) {
			return &sandbox.Error{Op: "device", Path: name, Code: sandbox.ErrExists, Hint: "golem desk devices rm " + name + " removes it, or choose another name"}
		}
		if len(c.Devices) >= maxDevice {
			return &sandbox.Error{Op: "device", Path: name, Code: sandbox.ErrInvalid, Hint: fmt.Sprintf("you have %d devices; golem desk devices rm removes one", len(c.Devices))}
		}
		c.Offer = &offer{Code: hashOf(code), Name: name, May: may, Expires: s.now().Add(patience)}
		return nil
	})
}

var errCode = &sandbox.Error{Op: "pair", Code: "blocked", Hint: "this code was used, is wrong or is older than five minutes; golem desk pair prints another one"}

// Claim gives the offer with a code to a device with a key. Nobody else gets it.
func (s *Store) Claim(code, key string) error {
	if _, err := parseKey(key); err != nil {
		return &sandbox.Error{Op: "pair", Code: sandbox.ErrInvalid, Hint: "the browser sent no key of P-256"}
	}
	if c, err := s.read(); err != nil || !c.Offer.isOpen(code, s.now()) { // so that wrong codes hold up no other change
		return cmp.Or(err, error(errCode))
	}
	return s.update(func(c *contents) error {
		if !c.Offer.isOpen(code, s.now()) {
			return errCode
		}
		c.Offer.Key = key
		return nil
	})
}

// Claimed reports whether a device waits for Confirm, and whether the offer with a code is
// still there.
func (s *Store) Claimed(code string) (claimed, open bool) {
	c, err := s.read()
	open = err == nil && c.Offer != nil && c.Offer.Code == hashOf(code) && s.now().Before(c.Offer.Expires)
	return open && c.Offer.Key != "", open
}

// Confirm adds the device that used a code, if word is the one on its screen. It ends the
// offer in any case. The journal has the decision first. Front says where the user typed the word.
func (s *Store) Confirm(code, word, front string) (d Device, err error) {
	var o *offer
	err = s.update(func(c *contents) error {
		o, c.Offer = c.Offer, nil
		return nil
	})
	if err != nil {
		return d, err
	}
	wrong := &sandbox.Error{Op: "pair", Code: "blocked", Hint: "this is not what the device shows, so golem did not pair it; if the device says that the code was used, somebody else has it; golem desk pair starts again"}
	if o == nil || o.Key == "" || o.Code != hashOf(code) {
		return d, wrong
	}
	d = Device{hashOf(o.Key)[:16], o.Name, o.Key, o.May, s.now().UTC()}
	if Word(o.Key) != strings.ToLower(strings.TrimSpace(word)) {
		return Device{}, errors.Join(wrong, s.record(d, "no", front, "the user typed other characters than those of the device"))
	}
	if err := s.record(d, "yes", front, d.Name+" may "+d.MayText()); err != nil {
		return Device{}, err
	}
	return d, s.update(func(c *contents) error {
		c.Devices = append(c.Devices, d)
		return nil
	})
}

// Withdraw ends the offer with a code.
func (s *Store) Withdraw(code string) error {
	return s.update(func(c *contents) error {
		if c.Offer != nil && c.Offer.Code == hashOf(code) {
			c.Offer = nil
		}
		return nil
	})
}

// Word returns what the device with a key shows for the user to type.
func Word(key string) string { return hashOf("golem pair " + key)[:8] }

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
