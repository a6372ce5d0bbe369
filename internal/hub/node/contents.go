package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/hub"
)

// contents are the contents that this machine has fetched before, as files named by their
// hashes. Each reader checks the hash.
type contents struct{ dir string }

func (c contents) file(hash string) string { return filepath.Join(c.dir, hash[:2], hash) }

// get returns a content: from this machine, or from the hub.
func (c contents) get(ctx context.Context, client *hub.Client, p hub.Part) (io.ReadCloser, error) {
	if !hub.IsHash(p.Hash) {
		return nil, errors.New("a content without a hash")
	}
	name := c.file(p.Hash)
	if data, err := os.ReadFile(name); err == nil && hub.HashOf(data) == p.Hash {
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	data, err := client.Get(ctx, p)
	if err != nil {
		return nil, err
	}
	c.keep(name, data)
	return io.NopCloser(bytes.NewReader(data)), nil
}

// keep keeps a content for the next job. If it fails, the next job fetches it again.
func (c contents) keep(name string, data []byte) {
	if os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return
	}
	temp := name + "." + rand.Text()
	if err := os.WriteFile(temp, data, 0o600); err == nil {
		err = durable.Rename(temp, name)
		if err == nil {
			return
		}
	}
	os.Remove(temp)
}
