package model

import "fmt"

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
