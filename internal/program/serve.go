package program

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/tool"
)

// A Service says how other agents are served: over these streams or, with HTTP, there.
type ServeOptions struct {
	In      io.ReadCloser
	Out     io.Writer
	Errs    io.Writer // for the user
	HTTP    *HTTPOptions
	Version string
	// Wait is how long an answer of the user is waited for.
	Wait time.Duration
	// Opened is told when the door is open, or why it is not.
	OnOpen func(error)
	// Show returns a request as a person is shown it, and the items that this shows.
	Show func(tool.Request) (text string, items []string)
}

// A Listening is the place where agents are served over HTTP.
type HTTPOptions struct {
	Address   string
	Anywhere  bool     // it need not be this machine's own
	Hosts     []string // by which it is called, besides its address
	Origins   []string // of pages that may use it
	Token     string   // "" for a new one
	Cert, Key string   // files, for TLS
}

// Tail returns the last records, at most n, of what was done through this door, as they
// are in the journal, a line each.
func (d *Gate) Tail(n int) ([]byte, error) {
	var b bytes.Buffer
	err := audit.Last(d.records.folder, audit.Filter{Session: d.records.session}, n, func(_ audit.Record, line []byte) error {
		b.Write(append(bytes.TrimSpace(line), '\n'))
		return nil
	})
	return b.Bytes(), err
}

// Secret returns a key that is kept with the program under a name, and makes it where
// there is none.
func (d *Gate) Secret(name string) (key []byte, err error) {
	err = d.records.folder.Update(name+".key", func(old []byte) ([]byte, error) {
		if len(old) == 0 {
			key = make([]byte, 32)
			rand.Read(key)
			return fmt.Appendf(nil, "%x\n", key), nil
		}
		var err error
		if key, err = hex.DecodeString(strings.TrimSpace(string(old))); err != nil || len(key) != 32 {
			return nil, fmt.Errorf("%s.key in the state folder holds no key; remove it, and a new one is made", name)
		}
		return old, nil
	})
	return key, err
}
