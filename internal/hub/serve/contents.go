package serve

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/store"
	"github.com/golem-forge/golem/internal/records/state"
)

// contents keeps contents in parts, encrypted. Each belongs to a user, who made it for jobs,
// or to a job, whose node made it. Nobody else can name it.
type contents struct {
	kept   *store.Groups
	secret secret

	mu    sync.Mutex
	lists map[string]map[string]bool // the hashes in lists of files that were used last
	total int                        // of hashes in lists
}

// maxLists limits the lists of files in memory, and maxListedHashes what is in them.
const (
	maxLists        = 100
	maxListedHashes = 1_000_000
)

// An owner is whom a content belongs to.
type owner string

func ofUser(key string) owner { return owner("user " + key) }
func ofJob(id string) owner   { return owner("job " + id) }

// A size is kept when all parts of a content are.
type size struct {
	Size int64 `json:"size"`
}

// maxContent limits the size of a content.
const maxContent = 1 << 30

func (c *contents) name(o owner, hash string) string { return string(o) + " " + hash }

// of returns where the contents of an owner are kept. Those of a job are a group, which is removed as a
// whole. older is where the first hubs kept them, nil if that is the same.
func (c *contents) of(o owner) (kept, older state.Once) {
	if strings.HasPrefix(string(o), "job ") {
		return c.kept.In(string(o)), c.kept
	}
	return c.kept, nil
}

func (c *contents) cipher(o owner, hash string) (cipher.AEAD, error) {
	block, err := aes.NewCipher(c.secret.key("content " + c.name(o, hash)))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// keep keeps a value for a name of a content.
func (c *contents) keep(o owner, hash, part string, value []byte) error {
	seal, err := c.cipher(o, hash)
	if err != nil {
		return err
	}
	if part != "size" {
		if isGood, err := c.hasPart(o, hash, part); err != nil || isGood {
			return err
		}
	}
	nonce := make([]byte, seal.NonceSize())
	rand.Read(nonce)
	kept, _ := c.of(o)
	name, sealed := c.name(o, hash)+" "+part, seal.Seal(nonce, nonce, value, []byte(part))
	there, first, err := kept.Decide(name, sealed)
	if err != nil || first {
		return err
	}
	if old, damage := c.unseal(o, hash, part, there); damage == nil && bytes.Equal(old, value) {
		return nil
	}
	// It is damaged, or of a file that changed while it was sent.
	if _, isComplete, err := c.size(o, hash); err != nil || isComplete {
		return err // somebody else sent the rest meanwhile
	}
	if err := kept.Forget(name); err != nil {
		return err
	}
	_, _, err = kept.Decide(name, sealed)
	return err
}

// hasPart reports whether a content is complete and the hub can read a part of it. If it cannot, the
// content is not complete any more, so that the hub compares the hash again.
func (c *contents) hasPart(o owner, hash, part string) (bool, error) {
	if _, isComplete, err := c.size(o, hash); err != nil || !isComplete {
		return false, err
	}
	_, ok, err := c.look(o, hash, part)
	if ok || err != nil && !errors.Is(err, errDamaged) {
		return ok, err
	}
	return false, c.forgetSize(o, hash)
}

// errDamaged says that a content cannot be read any more.
var errDamaged = errors.New("a content is damaged")

// forgetSize makes a content count as incomplete.
func (c *contents) forgetSize(o owner, hash string) error {
	kept, older := c.of(o)
	err := kept.Forget(c.name(o, hash) + " size")
	if older != nil {
		err = errors.Join(err, older.Forget(c.name(o, hash)+" size"))
	}
	return err
}

// forgetDamaged makes a content count as missing, so that it is sent again. Its parts stay until then.
func (c *contents) forgetDamaged(o owner, hash string, damage error) error {
	if err := c.forgetSize(o, hash); err != nil {
		return err
	}
	return missing("content %.64s is damaged at the hub (%v); submit the job again, and golem sends it again", hash, damage)
}

// look returns a value that was kept.
func (c *contents) look(o owner, hash, part string) (value []byte, ok bool, err error) {
	kept, older := c.of(o)
	data, ok, err := kept.Look(c.name(o, hash) + " " + part)
	if err == nil && !ok && older != nil {
		data, ok, err = older.Look(c.name(o, hash) + " " + part)
	}
	if err != nil || !ok {
		return nil, false, err
	}
	value, err = c.unseal(o, hash, part, data)
	return value, err == nil, err
}

// unseal decrypts a value that was kept.
func (c *contents) unseal(o owner, hash, part string, data []byte) ([]byte, error) {
	seal, err := c.cipher(o, hash)
	if err != nil {
		return nil, err
	}
	n := seal.NonceSize()
	if len(data) < n {
		return nil, errDamaged
	}
	value, err := seal.Open(nil, data[:n], data[n:], []byte(part))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return value, nil
}

// size returns the size of a content, and false if it is not complete.
func (c *contents) size(o owner, hash string) (n int64, ok bool, err error) {
	data, ok, err := c.look(o, hash, "size")
	if errors.Is(err, errDamaged) {
		return 0, false, nil
	}
	if err != nil || !ok {
		return 0, false, err
	}
	var s size
	err = json.Unmarshal(data, &s)
	return s.Size, err == nil, err
}

// put keeps a part. The last one completes the content.
func (c *contents) put(o owner, p hub.Part, data []byte) error {
	last := p.Offset+int64(len(data)) == p.Size
	switch {
	case !hub.IsHash(p.Hash):
		return invalid("%.80q is no SHA-256", p.Hash)
	case p.Size < 0 || p.Size > maxContent:
		return invalid("a content of %d bytes; at most %d are kept", p.Size, maxContent)
	case p.Offset < 0 || p.Offset > p.Size || p.Offset%hub.MaxPart != 0 || len(data) > hub.MaxPart || !last && len(data) != hub.MaxPart || p.Offset+int64(len(data)) > p.Size:
		return invalid("a part of %d bytes at %d, of %d; parts have %d bytes", len(data), p.Offset, p.Size, hub.MaxPart)
	}
	if p.Size <= hub.MaxPart && hub.HashOf(data) != p.Hash {
		return invalid("the content does not match its hash")
	}
	if err := c.keep(o, p.Hash, fmt.Sprint(p.Offset/hub.MaxPart), data); err != nil || !last {
		return err
	}
	if p.Size > hub.MaxPart {
		if err := c.verify(o, p); err != nil {
			return err
		}
	}
	text, err := json.Marshal(size{p.Size})
	if err != nil {
		return err
	}
	return c.keep(o, p.Hash, "size", text)
}

// verify returns an error unless the parts of a content have its hash. Then it removes them, so
// that they can be sent again: a file may have changed while it was sent.
func (c *contents) verify(o owner, p hub.Part) error {
	if _, ok, err := c.size(o, p.Hash); err != nil || ok {
		return err // it is complete
	}
	sum := sha256.New()
	for part := range (p.Size + hub.MaxPart - 1) / hub.MaxPart {
		data, ok, err := c.look(o, p.Hash, fmt.Sprint(part))
		if err != nil {
			return err
		}
		if !ok {
			return invalid("content %.64s lacks a part; send all of it", p.Hash)
		}
		sum.Write(data)
	}
	if hex.EncodeToString(sum.Sum(nil)) == p.Hash {
		return nil
	}
	return errors.Join(invalid("the content does not match its hash; send it again"), c.remove(o, p.Hash))
}

// get returns the part of a content at an offset, and the size of the whole.
func (c *contents) get(o owner, hash string, offset int64) (data []byte, whole int64, err error) {
	whole, ok, err := c.size(o, hash)
	if err != nil {
		return nil, 0, err
	}
	if !ok || offset < 0 || offset%hub.MaxPart != 0 || offset > whole {
		return nil, 0, missing("the hub has no content %.64s any more; submit its job again, and golem sends it", hash)
	}
	if offset == whole && whole > 0 {
		return nil, whole, nil
	}
	data, ok, err = c.look(o, hash, fmt.Sprint(offset/hub.MaxPart))
	if err == nil && !ok {
		err = fmt.Errorf("%w: it lacks a part", errDamaged)
	}
	if errors.Is(err, errDamaged) {
		err = c.forgetDamaged(o, hash, err)
	}
	return data, whole, err
}

// whole returns a content of at most most bytes.
func (c *contents) whole(o owner, hash string, most int64) (content []byte, err error) {
	for {
		data, size, err := c.get(o, hash, int64(len(content)))
		if err != nil {
			return nil, err
		}
		if size > most {
			return nil, invalid("content %.64s has %d bytes; at most %d are allowed here", hash, size, most)
		}
		if content = append(content, data...); int64(len(content)) >= size {
			break
		}
	}
	if hub.HashOf(content) != hash {
		return nil, c.forgetDamaged(o, hash, errDamaged)
	}
	return content, nil
}

// remove removes a content.
func (c *contents) remove(o owner, hash string) error {
	kept, older := c.of(o)
	found, err := c.removeFrom(kept, o, hash)
	if err != nil || found || older == nil {
		return err
	}
	_, err = c.removeFrom(older, o, hash)
	return err
}

// removeFrom removes a content from one place, and reports whether it was complete there. First
// it is not complete any more, so that nobody relies on it. If the hub dies then, the next
// removal finds the parts.
func (c *contents) removeFrom(kept state.Once, o owner, hash string) (found bool, err error) {
	name := c.name(o, hash) + " "
	last, isKnown := int64(-1), false
	data, found, err := kept.Look(name + "size")
	if err != nil {
		return found, err
	}
	if found {
		var s size
		text, damage := c.unseal(o, hash, "size", data)
		if damage == nil {
			damage = json.Unmarshal(text, &s)
		}
		if err := kept.Forget(name + "size"); err != nil {
			return found, err
		}
		if isKnown = damage == nil; isKnown {
			last = s.Size / hub.MaxPart
		}
	}
	for !isKnown {
		if _, ok, err := kept.Look(name + fmt.Sprint(last+1)); err != nil {
			return found, err
		} else if !ok {
			break
		}
		last++
	}
	for part := last; part >= 0; part-- {
		if err := kept.Forget(name + fmt.Sprint(part)); err != nil {
			return found, err
		}
	}
	return found, nil
}

// removeJob removes all contents of a job, also those that no checkpoint names. older are the
// hashes of those that an older hub may have kept.
func (c *contents) removeJob(id string, older map[string]bool) error {
	for hash := range older {
		if _, err := c.removeFrom(c.kept, ofJob(id), hash); err != nil {
			return err
		}
	}
	return c.kept.ForgetGroup(string(ofJob(id)))
}

// keepOnly removes the contents of a job except some.
func (c *contents) keepOnly(id string, hashes map[string]bool) error {
	keys := make(map[string]bool)
	for hash := range hashes {
		size, ok, err := c.size(ofJob(id), hash)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		name := c.name(ofJob(id), hash) + " "
		keys[name+"size"] = true
		for part := range size/hub.MaxPart + 1 {
			keys[name+fmt.Sprint(part)] = true
		}
	}
	return c.kept.ForgetOthers(string(ofJob(id)), keys)
}

// maxList limits the size of a list of files.
const maxList = 64 << 20

// list returns the hashes that a list of files names.
func (c *contents) list(o owner, hash string) (map[string]bool, error) {
	key := c.name(o, hash)
	c.mu.Lock()
	known, ok := c.lists[key]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	data, err := c.whole(o, hash, maxList)
	if err != nil {
		return nil, err
	}
	type entry struct {
		Hash string
		Size int64
	}
	var snapshot struct{ Program, State []entry }
	if err := json.Unmarshal(data, &snapshot); err != nil {
		return nil, invalid("the list of files cannot be read")
	}
	all := map[string]bool{hash: true}
	for _, e := range append(snapshot.Program, snapshot.State...) {
		if e.Size > 0 { // an empty file has no content to send
			all[e.Hash] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lists == nil || len(c.lists) >= maxLists || c.total+len(all) > maxListedHashes {
		c.lists, c.total = make(map[string]map[string]bool), 0
	}
	c.total += len(all)
	c.lists[key] = all
	return all, nil
}

// forgetLists forgets the lists in memory: another hub may have removed some.
func (c *contents) forgetLists() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists, c.total = nil, 0
}

// complete returns an error unless all contents of a list of files are kept. The list belongs
// to o. A content belongs to o too, or is in also.
func (c *contents) complete(o owner, hash string, also map[string]bool) error {
	all, err := c.list(o, hash)
	if err != nil {
		return err
	}
	for each := range all {
		if also[each] {
			continue
		}
		if _, ok, err := c.size(o, each); err != nil {
			return err
		} else if !ok {
			return invalid("the content %.64s was not sent", each)
		}
	}
	return nil
}
