package project

import (
	"fmt"
	"slices"

	"github.com/golem-forge/golem/internal/strictyaml"
)

// The spellings of a sandbox's directories.
const (
	mounts    = "mounts"
	zones     = "zones"
	paths     = "paths"
	unwritten = "default"
)

// dialect finds out by the keys which spelling the file uses. It returns false if the
// form is wrong, or if the file mixes two spellings.
func (l *loader) dialect(n strictyaml.Node) (string, bool) {
	if n.Kind != strictyaml.Map || l.wrong[n.Place] {
		return "", false
	}
	var first strictyaml.Field
	dialect, ok := unwritten, true
	for _, f := range n.Fields {
		if l.wrong[f.Key.Place] || f.Key.Text == "mode" && l.wrong[f.Value.Place] {
			return "", false
		}
		is := spelling(f)
		switch {
		case is == "":
		case dialect == unwritten:
			dialect, first = is, f
		case is != dialect:
			l.problems.Add(written(f), fmt.Sprintf("%s is the %s, %s (%s) the %s", named(f), spellings[is],
				named(first), written(first).Place, spellings[dialect]), "keep one of the two spellings")
			ok = false
		}
	}
	root, has := field(n, "root")
	switch {
	case has && dialect == unwritten:
		dialect = mounts
	case has && dialect == paths:
		l.problems.Add(written(root), fmt.Sprintf("%s is not of the %s, as %s (%s) is", named(root), spellings[paths],
			named(first), written(first).Place), "each path has a root of its own; keep one of the two spellings")
		ok = false
	}
	return dialect, ok
}

var spellings = map[string]string{mounts: "mount spelling", zones: "zone spelling", paths: "llm-do spelling"}

// spelling returns the spelling that a key of the sandbox belongs to, "" if it belongs to
// several.
func spelling(f strictyaml.Field) string {
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

// named returns the full name of a key of the sandbox, with its value if only the value
// identifies the spelling.
func named(f strictyaml.Field) string {
	if f.Key.Text == "mode" {
		return "sandbox.mode: " + f.Value.Text
	}
	return "sandbox." + f.Key.Text
}

// written returns a node at the place of a key, or of its value if that came from
// elsewhere.
func written(f strictyaml.Field) strictyaml.Node {
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
