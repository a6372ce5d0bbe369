package project

import (
	"fmt"
	"slices"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// The spellings of a sandbox's directories.
const (
	mounts    = "mounts"
	zones     = "zones"
	paths     = "paths"
	unwritten = "default"
)

// findSpelling finds out by the keys which spelling the file uses. It returns false if the
// form is wrong, or if the file mixes two spellings.
func (l *loader) findSpelling(n strictyaml.Node) (string, bool) {
	if n.Kind != strictyaml.Map || l.wrong[n.Place] {
		return "", false
	}
	var first strictyaml.Field
	dialect, ok := unwritten, true
	for _, f := range n.Fields {
		if l.wrong[f.Key.Place] || f.Key.Text == "mode" && l.wrong[f.Value.Place] {
			return "", false
		}
		is := spellingOf(f)
		switch {
		case is == "":
		case dialect == unwritten:
			dialect, first = is, f
		case is != dialect:
			l.problems.Add(keyNode(f), fmt.Sprintf("%s is the %s, %s (%s) the %s", fullKeyName(f), spellings[is],
				fullKeyName(first), keyNode(first).Place, spellings[dialect]), "keep one of the two spellings")
			ok = false
		}
	}
	root, has := field(n, "root")
	switch {
	case has && dialect == unwritten:
		dialect = mounts
	case has && dialect == paths:
		l.problems.Add(keyNode(root), fmt.Sprintf("%s is not of the %s, as %s (%s) is", fullKeyName(root), spellings[paths],
			fullKeyName(first), keyNode(first).Place), "each path has a root of its own; keep one of the two spellings")
		ok = false
	}
	return dialect, ok
}

var spellings = map[string]string{mounts: "mount spelling", zones: "zone spelling", paths: "llm-do spelling"}

// spellingOf returns the spelling that a key of the sandbox belongs to, "" if it belongs to
// several.
func spellingOf(f strictyaml.Field) string {
	switch f.Key.Text {
	case "zones", "cache", "workspace":
		return zones
	case "paths":
		return paths
	case "mode":
		if f.Value.Text == "sandboxed" || f.Value.Text == "direct" {
			return zones
		}
		return mounts
	case "mounts", "readonly", "suffixes", "max_file_bytes", "trust":
		return mounts
	}
	return ""
}

// fullKeyName returns the full name of a key of the sandbox, with its value if only the value
// identifies the spelling.
func fullKeyName(f strictyaml.Field) string {
	if f.Key.Text == "mode" {
		return "sandbox.mode: " + f.Value.Text
	}
	return "sandbox." + f.Key.Text
}

// keyNode returns a node at the place of a key, or of its value if that came from
// elsewhere.
func keyNode(f strictyaml.Field) strictyaml.Node {
	if f.Value.Place.Source != f.Key.Place.Source {
		return f.Value
	}
	return f.Key
}

func field(n strictyaml.Node, key string) (strictyaml.Field, bool) {
	i := slices.IndexFunc(n.Fields, func(f strictyaml.Field) bool { return f.Key.Text == key })
	if i < 0 {
		return strictyaml.Field{}, false
	}
	return n.Fields[i], true
}
