package main

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An entry is an entry of a git tree, as GitHub's API has it.
type entry struct {
	Path string `json:"path"`
	Mode string `json:"mode"`
	Type string `json:"type"`
	SHA  string `json:"sha"`
}

// The modes of entries.
const (
	modeTree  = "040000"
	modeBlob  = "100644"
	modeSetX  = "100755"
	emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
)

// objectID returns the hash of a git object.
func objectID(kind string, content []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "%s %d\x00", kind, len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// treeID returns the hash of a tree. Git sorts directories as if their names ended with a slash.
func treeID(entries []entry) (string, error) {
	rows := map[string]string{}
	for _, e := range entries {
		sha, err := hex.DecodeString(e.SHA)
		if err != nil || len(sha) != sha1.Size {
			return "", invalid("github", "GitHub sent no hash")
		}
		name := e.Path
		if e.Mode == modeTree {
			name += "/"
		}
		rows[name] = strings.TrimPrefix(e.Mode, "0") + " " + e.Path + "\x00" + string(sha)
	}
	var content strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		content.WriteString(rows[name])
	}
	return objectID("tree", []byte(content.String())), nil
}
