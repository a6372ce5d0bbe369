package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxID limits the length of a call's id.
const maxID = 256

// Distinct gives a new id to each call of an answer that has none, a repeated one or an
// invalid one. The same conversation and answer always get the same ids. Vendors call it
// before they return.
func Distinct(said []Message, parts []Part) {
	seen := map[string]bool{}
	for _, m := range said {
		for _, p := range m.Parts {
			if p.Call != nil {
				seen[p.Call.ID] = true
			}
		}
	}
	number := len(seen)
	for _, p := range parts {
		if p.Call == nil {
			continue
		}
		number++
		if !isID(p.Call.ID) || seen[p.Call.ID] {
			p.Call.ID = fmt.Sprintf("call_%d", number)
			for ; seen[p.Call.ID]; number++ {
				p.Call.ID = fmt.Sprintf("call_%d", number)
			}
		}
		seen[p.Call.ID] = true
	}
}

func isID(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return id != "" && len(id) <= maxID
}

// FitID returns an id for a vendor that allows at most so many characters, and none that odd
// reports. The same id always gives the same one. A conversation that another vendor began
// may have ids that are invalid here.
func FitID(id string, most int, odd func(rune) bool) string {
	if id != "" && len(id) <= most && !strings.ContainsFunc(id, odd) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}
