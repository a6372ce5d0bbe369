package clearance

import (
	"encoding/json"
	"unicode/utf8"
)

// A packed is the stored form of a staged commit. JSON cannot hold a name that is not
// UTF-8, so such names are in a map, by the index of their file.
type packed struct {
	*StagedCommit
	Names map[int][]byte `json:"names,omitempty"`
}

func pack(c *StagedCommit) ([]byte, error) {
	p := packed{c, map[int][]byte{}}
	for i, f := range c.Files {
		if !utf8.ValidString(f.Path) {
			p.Names[i] = []byte(f.Path)
		}
	}
	return json.Marshal(p)
}

func unpack(data []byte, id string) (*StagedCommit, error) {
	p := packed{StagedCommit: &StagedCommit{ID: id}}
	err := json.Unmarshal(data, &p)
	for i, name := range p.Names {
		if i >= 0 && i < len(p.Files) {
			p.Files[i].Path = string(name)
		}
	}
	return p.StagedCommit, err
}
