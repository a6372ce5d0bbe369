package program

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// Content is the files that come with a program and say what it may do.
type Content struct {
	Hash  string // "" if there are none
	Files map[string]string
}

func newContent(file string, data []byte, workers []*worker.Worker, b toolFiles) Content {
	c := Content{Files: map[string]string{}}
	for name, data := range b {
		c.Files["./"+name] = recordedText(data) // it is not one of the others, whatever its name
	}
	if file != "" {
		c.Files[file] = string(data)
	}
	for _, w := range workers {
		c.Files[w.File] = string(w.Content)
	}
	if len(c.Files) > 0 {
		h := sha256.New()
		for _, name := range c.names() {
			fmt.Fprintf(h, "%d %s %d %s", len(name), name, len(c.Files[name]), c.Files[name])
		}
		c.Hash = hex.EncodeToString(h.Sum(nil))
	}
	return c
}

// maxContent bounds what is kept to be held against later content.
const maxContent = 16 << 20

func (c Content) size() int {
	sum := 0
	for _, text := range c.Files {
		sum += len(text)
	}
	return sum
}

// Others returns the files of the content that are not among the names.
func (c Content) Others(names []string) []string {
	return slices.DeleteFunc(c.names(), func(name string) bool { return slices.Contains(names, name) })
}

func (c Content) names() []string {
	names := make([]string, 0, len(c.Files))
	for name := range c.Files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// trustFile holds what the user has trusted, newest last.
const trustFile = "trust.json"

// keptTrusts bounds how much of the past is kept.
const keptTrusts = 20

type trustRecord struct {
	Hash  string            `json:"hash"`
	Time  time.Time         `json:"time"`
	Root  string            `json:"root"`
	Files map[string]string `json:"files,omitempty"`
}

// Trusted reports whether the user trusts the program's content as it is now. A
// program that brings no content needs no trust.
func (p *Program) Trusted() (bool, error) {
	switch {
	case p.Content.Hash == "":
		return true, nil
	case p.options.Trust == "":
	case p.options.Trust == p.Content.Hash:
		return true, nil
	default:
		return false, &sandbox.Error{Op: "trust", Code: "untrusted",
			Hint: "--trust names other content than this program's; look at it with golem trust"}
	}
	records, err := p.trustRecords()
	return slices.ContainsFunc(records, func(r trustRecord) bool { return r.Hash == p.Content.Hash }), err
}

// trustRecords returns what was trusted before. Where there is no state yet,
// none is made: to look leaves nothing behind.
func (p *Program) trustRecords() ([]trustRecord, error) {
	if _, err := os.Lstat(p.state); err != nil {
		return nil, nil
	}
	folder, err := state.Open(p.state)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	data, err := folder.Read(trustFile)
	if err != nil || data == nil {
		return nil, err
	}
	return readTrust(data)
}

func readTrust(data []byte) ([]trustRecord, error) {
	var records []trustRecord
	if data == nil {
		return nil, nil
	}
	if err := json.Unmarshal(data, &records); err != nil {
		return nil, fmt.Errorf("the record of what you trust is damaged: %w; move %s away and trust again", err, trustFile)
	}
	return records, nil
}

// Trust records that the user trusts the program's content as it is now.
func (p *Program) Trust() error {
	if p.Content.Hash == "" {
		return nil
	}
	folder, err := state.Open(p.state)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Update(trustFile, func(old []byte) ([]byte, error) {
		records, err := readTrust(old)
		if err != nil {
			return nil, err
		}
		records = slices.DeleteFunc(records, func(r trustRecord) bool { return r.Hash == p.Content.Hash })
		for i := range records {
			records[i].Files = nil // only the last are held against what comes next
		}
		records = append(records, trustRecord{p.Content.Hash, p.options.Now(), p.root, p.Content.Files})
		return json.MarshalIndent(records[max(0, len(records)-keptTrusts):], "", "\t")
	})
}

// TrustDiff returns how the content differs from what was trusted last, as a
// unified diff: "" if nothing was trusted yet or nothing has changed.
func (p *Program) TrustDiff() (string, error) {
	records, err := p.trustRecords()
	if err != nil || len(records) == 0 {
		return "", err
	}
	last := records[len(records)-1]
	names := slices.Concat(p.Content.names(), Content{Files: last.Files}.names())
	slices.Sort(names)
	var b strings.Builder
	for _, name := range slices.Compact(names) {
		b.WriteString(udiff.Unified(quoteAll(name), quoteAll(name), last.Files[name], p.Content.Files[name]))
	}
	return b.String(), nil
}
