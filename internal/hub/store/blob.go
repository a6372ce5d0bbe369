package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golem-forge/golem/internal/records/state"
)

// blobs are a stream in which each content has one message, its index, at the subject of its
// hash. A small content is in the index. A larger one is in pieces at a random name, so that
// a writer that is killed leaves no index.
type blobs struct{ *stream }

// An index says where a content is.
type index struct {
	Size   int64  `json:"size"`
	Name   string `json:"name,omitempty"` // of the pieces
	Pieces int    `json:"pieces,omitempty"`
	Small  []byte `json:"small,omitempty"` // the content, if there are no pieces
}

// piece is the size of a piece.
const piece = 1 << 20

// Blobs returns the contents of a name.
func (s *Store) Blobs(name string) (state.Blobs, error) {
	made, err := s.openStream("blobs", name, jetstream.StreamConfig{MaxMsgsPerSubject: 1})
	if err != nil {
		return nil, err
	}
	return &blobs{made}, nil
}

// Put implements state.Blobs.
func (b *blobs) Put(content io.Reader) (string, error) {
	sum, size := sha256.New(), int64(0)
	content = io.TeeReader(content, &counter{sum, &size})
	first, err := io.ReadAll(io.LimitReader(content, piece))
	if err != nil {
		return "", err
	}
	at := index{Small: first}
	if len(first) == piece {
		at = index{Name: nats.NewInbox()[len("_INBOX."):]}
		at.Pieces, err = b.putPieces(at.Name, io.MultiReader(bytes.NewReader(first), content))
	}
	name := hex.EncodeToString(sum.Sum(nil))
	if err == nil {
		at.Size = size
		err = b.putIndex(name, at)
	}
	if err != nil && at.Name != "" {
		b.removePieces(at.Name)
	}
	if err != nil {
		return "", err
	}
	return name, nil
}

// putIndex adds the index of a content. If there is one already, its pieces are as good.
func (b *blobs) putIndex(name string, at index) error {
	data, err := json.Marshal(at)
	if err != nil {
		return err
	}
	_, err = b.add("index."+name, nil, data, jetstream.WithExpectLastSequencePerSubject(0))
	if isCode(err, codeWrongLast, codeWrongLastSub) {
		if at.Name != "" {
			return b.removePieces(at.Name)
		}
		return nil
	}
	return err
}

func (b *blobs) putPieces(name string, content io.Reader) (pieces int, err error) {
	buffer := make([]byte, piece)
	for {
		n, err := io.ReadFull(content, buffer)
		if n > 0 {
			if _, err := b.add("piece."+name+"."+strconv.Itoa(pieces), nil, buffer[:n]); err != nil {
				return pieces, err
			}
			pieces++
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return pieces, nil
		case err != nil:
			return pieces, err
		}
	}
}

func (b *blobs) removePieces(name string) error {
	ctx, cancel := b.within()
	defer cancel()
	return b.Purge(ctx, jetstream.WithPurgeSubject(b.base+".piece."+name+".>"))
}

// find returns the index of a content, and false if there is none.
func (b *blobs) find(name string) (at index, ok bool, err error) {
	if len(name) != 2*sha256.Size || bytes.ContainsFunc([]byte(name), func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) {
		return at, false, fmt.Errorf("%.80q is no SHA-256 in hexadecimal digits", name)
	}
	m, ok, err := b.last("index." + name)
	if !ok {
		return at, false, err
	}
	return at, true, json.Unmarshal(m.Data, &at)
}

// Get implements state.Blobs.
func (b *blobs) Get(name string, most int64) ([]byte, error) {
	at, ok, err := b.find(name)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("content %s: %w", name, ErrMissing)
	case at.Size > most:
		return nil, fmt.Errorf("content %s has %d bytes; at most %d are read", name, at.Size, most)
	}
	content := at.Small
	if at.Name != "" {
		content = make([]byte, 0, at.Size)
	}
	for i := range at.Pieces {
		m, ok, err := b.last("piece." + at.Name + "." + strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("content %s lacks its piece %d", name, i)
		}
		content = append(content, m.Data...)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != name {
		return nil, fmt.Errorf("content %s: what is kept no longer matches its hash", name)
	}
	return content, nil
}

// ErrMissing says that a content is not kept.
var ErrMissing = errors.New("it is not kept here")

// Remove implements state.Blobs.
func (b *blobs) Remove(name string) error {
	at, ok, err := b.find(name)
	if err != nil || !ok {
		return err
	}
	ctx, cancel := b.within()
	defer cancel()
	if err := b.Purge(ctx, jetstream.WithPurgeSubject(b.base+".index."+name)); err != nil || at.Name == "" {
		return err
	}
	return b.removePieces(at.Name)
}

// A counter hashes and counts what is written to it.
type counter struct {
	hash.Hash
	size *int64
}

func (c *counter) Write(data []byte) (int, error) {
	*c.size += int64(len(data))
	return c.Hash.Write(data)
}
