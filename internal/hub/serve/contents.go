package serve

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/state"
)

// contents keeps contents in parts, encrypted. Each belongs to a user, who made it for jobs,
// or to a job, whose node made it. Nobody else can name it.
type contents struct {
	kept   state.Once
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
	nonce := make([]byte, seal.NonceSize())
	rand.Read(nonce)
	_, _, err = c.kept.Decide(c.name(o, hash)+" "+part, seal.Seal(nonce, nonce, value, []byte(part)))
	return err
}

// look returns a value that was kept.
func (c *contents) look(o owner, hash, part string) (value []byte, ok bool, err error) {
	data, ok, err := c.kept.Look(c.name(o, hash) + " " + part)
	if err != nil || !ok {
		return nil, false, err
	}
	seal, err := c.cipher(o, hash)
	if err != nil {
		return nil, false, err
	}
	n := seal.NonceSize()
	if len(data) < n {
		return nil, false, errors.New("a content is damaged")
	}
	value, err = seal.Open(nil, data[:n], data[n:], []byte(part))
	return value, err == nil, err
}

// size returns the size of a content, and false if it is not complete.
func (c *contents) size(o owner, hash string) (n int64, ok bool, err error) {
	data, ok, err := c.look(o, hash, "size")
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
	return errors.Join(invalid("the content does not match its hash; send it again"), c.removeParts(o, p.Hash, p.Size))
}

// get returns the part of a content at an offset, and the size of the whole.
func (c *contents) get(o owner, hash string, offset int64) (data []byte, whole int64, err error) {
	whole, ok, err := c.size(o, hash)
	if err != nil {
		return nil, 0, err
	}
	if !ok || offset < 0 || offset%hub.MaxPart != 0 || offset > whole {
		return nil, 0, missing("no content %.64s", hash)
	}
	if offset == whole && whole > 0 {
		return nil, whole, nil
	}
	data, ok, err = c.look(o, hash, fmt.Sprint(offset/hub.MaxPart))
	if err == nil && !ok {
		err = missing("content %.64s lacks a part", hash)
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
		return nil, invalid("content %.64s does not match its hash", hash)
	}
	return content, nil
}

// remove removes a content. First it is not complete any more, so that nobody relies on it. If
// the hub dies then, the next remove finds the parts.
func (c *contents) remove(o owner, hash string) error {
	size, ok, err := c.size(o, hash)
	if err != nil {
		return err
	}
	if ok {
		if err := c.kept.Forget(c.name(o, hash) + " size"); err != nil {
			return err
		}
		return c.removeParts(o, hash, size)
	}
	parts := int64(0)
	for {
		if _, ok, err := c.kept.Look(c.name(o, hash) + " " + fmt.Sprint(parts)); err != nil {
			return err
		} else if !ok {
			break
		}
		parts++
	}
	if parts == 0 {
		return nil
	}
	return c.removeParts(o, hash, (parts-1)*hub.MaxPart)
}

// removeParts removes the parts of a content, the last one first.
func (c *contents) removeParts(o owner, hash string, size int64) error {
	for part := size / hub.MaxPart; part >= 0; part-- {
		if err := c.kept.Forget(c.name(o, hash) + " " + fmt.Sprint(part)); err != nil {
			return err
		}
	}
	return nil
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
