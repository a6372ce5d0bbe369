package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
)

// The document with the list of shown requests, and limits on what is stored.
const (
	shownDocument = "shown.json"
	maxShownKept  = 500      // requests
	maxShownEach  = 8 << 20  // bytes of one
	maxShownBytes = 64 << 20 // bytes of all
)

// A Shown is what a person had on screen when they decided. golem keeps the last ones in the
// program's state directory. The record of the decision in the journal has the hash.
type Shown struct {
	Request  tool.Request `json:"request"` // with the paths as they were shown
	Rendered []string     `json:"rendered,omitempty"`
}

// shownEntry is an element of the list of shown requests, the oldest first.
type shownEntry struct {
	Hash string `json:"hash"`
	Size int    `json:"size"`
}

// KeepShown keeps what a person had on screen, and returns its hash for the journal: "" if
// there was nothing, or if it is too large or cannot be kept. The decision counts in any
// case.
func (s *Requests) KeepShown(r tool.Request, reply Reply) string {
	if len(reply.Rendered) == 0 {
		return ""
	}
	shown := Shown{Request: r, Rendered: reply.Rendered}
	if reply.Display != nil {
		shown.Request = *reply.Display
	}
	body, err := json.Marshal(shown)
	if err != nil || len(body) > maxShownEach {
		return ""
	}
	blobs, err := s.folder.Blobs("shown")
	if err != nil {
		return ""
	}
	hash, err := blobs.Put(bytes.NewReader(body))
	if err != nil {
		return ""
	}
	err = s.folder.Update(shownDocument, func(old []byte) ([]byte, error) {
		var list []shownEntry
		if len(old) > 0 && json.Unmarshal(old, &list) != nil {
			list = nil // the contents of a damaged list stay where they are
		}
		list = slices.DeleteFunc(list, func(e shownEntry) bool { return e.Hash == hash })
		list = append(list, shownEntry{hash, len(body)})
		size := 0
		for _, e := range list {
			size += e.Size
		}
		for len(list) > maxShownKept || size > maxShownBytes {
			blobs.Remove(list[0].Hash)
			size -= list[0].Size
			list = list[1:]
		}
		return json.Marshal(list)
	})
	if err != nil {
		return ""
	}
	return hash
}

// FindShown returns what a person had on screen, by the hash in the journal.
func (s *Requests) FindShown(hash string) (shown Shown, err error) {
	blobs, err := s.folder.Blobs("shown")
	if err != nil {
		return shown, err
	}
	body, err := blobs.Get(hash, maxShownEach)
	if err == nil {
		err = errors.Join(filecontent.CheckJSON(body), json.Unmarshal(body, &shown))
	}
	return shown, err
}

// Rows returns the text that was on screen, without rows that were not. Missing counts
// those.
func (s Shown) Rows() (rows []visible.Row, missing int) {
	for _, row := range display.NewSheet(s.Request, math.MaxInt).All() {
		if row.Item == "" || slices.Contains(s.Rendered, row.Item) {
			rows = append(rows, row)
		} else {
			missing++
		}
	}
	return rows, missing
}
