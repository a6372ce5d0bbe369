package model

import "fmt"

// maxID is how long the id of a call may be.
const maxID = 256

// Distinct gives ids of their own to those calls of an answer that have none, or one that
// is in the conversation already, or one that is no word. The same conversation and answer
// always get the same ids. Vendors call it before they return.
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
