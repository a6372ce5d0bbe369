package review

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/workerfile"
)

// code returns a flag for a file that becomes code.
func code(c FileChange) []Flag {
	why, ok := Code(c.Path)
	if (!ok || why == hidden) && bytes.HasPrefix(c.New, []byte("#!")) && c.Mode != link && c.Operation != remove {
		why, ok = script, true
	}
	if (!ok || why == hidden || why == script) && (workerfile.IsWorker(c.Path, c.New) || workerfile.IsWorker(c.Path, c.Old)) {
		why, ok = worker, true
	}
	if !ok {
		return nil
	}
	f := flag(Becomes, c.Path, "%s", why)
	switch {
	case c.Operation == update && c.Old == nil && c.Diff == "" && !c.Cut && c.Mode != c.OldMode:
		f.Risk-- // only the permission bits change; many such files must not hide new code
	case c.Operation == update:
		f.Risk += 2 // the user has it in use; new files of the kind must not hide it
	}
	if why == script {
		f.Risk -= 7 // it does not run by itself
	}
	if why == hidden {
		f.Risk = risks[Mode] // files of known programs come first
	}
	switch {
	case c.Operation == remove:
		f.Text += "; it is deleted"
		f.Deleted = true
		f.Risk -= 30
	case manifests[fold(path.Base(c.Path))]:
		changed, known := scripts(c)
		switch {
		case !known:
		case len(changed) > 0:
			f.Text += "; these change: " + visible.Line(strings.Join(changed, ", "), 300)
			f.Risk++
		default:
			f.Text += "; its scripts and what it installs do not change"
			f.Risk = risks[Unchanged]
		}
	}
	return []Flag{f}
}

// manifests are documents of which only some parts run code.
var manifests = map[string]bool{"package.json": true, "composer.json": true, "deno.json": true}

// inert are the keys of a manifest that run nothing.
var inert = []string{
	"name", "version", "description", "keywords", "homepage", "bugs", "license", "licenses", "author", "authors", "contributors", "funding", "private", "support", "$schema",
}

// scripts returns which keys of a manifest change, except inert ones. For values that are
// objects, such as scripts, it returns the keys in them. Known is false if a document
// cannot be parsed without doubt.
func scripts(c FileChange) (changed []string, known bool) {
	if c.Cut || c.New == nil {
		return nil, false
	}
	old, ok := document(c.Old)
	if !ok && len(c.Old) > 0 {
		return nil, false
	}
	current, ok := document(c.New)
	if !ok {
		return nil, false
	}
	for _, key := range different(old, current) {
		if slices.Contains(inert, key) {
			continue
		}
		before, _ := document(old[key])
		after, ok := document(current[key])
		parts := different(before, after)
		if !ok || len(parts) == 0 {
			changed = append(changed, key)
		}
		for _, part := range parts {
			changed = append(changed, key+"."+part)
		}
	}
	return changed, true
}

// document parses the first level of a JSON object. It refuses an object with a repeated
// key, because parsers disagree about which one counts.
func document(text []byte) (map[string]json.RawMessage, bool) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	object := make(map[string]json.RawMessage)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil, false
		}
		if _, twice := object[key.(string)]; twice {
			return nil, false
		}
		object[key.(string)] = value
	}
	_, err := d.Token()
	return object, err == nil
}

// different returns the keys whose values differ, sorted.
func different(a, b map[string]json.RawMessage) []string {
	keys := slices.Sorted(maps.Keys(a))
	for key := range b {
		if _, ok := a[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.DeleteFunc(keys, func(key string) bool {
		x, in := a[key]
		y, out := b[key]
		return in == out && string(x) == string(y)
	})
}
