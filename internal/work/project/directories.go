package project

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// readMounts reads the recommended spelling: a root at /, and mounts.
func (l *loader) readMounts(n strictyaml.Node) {
	root, has := n.At("root")
	if !has {
		for _, key := range []string{"mode", "readonly", "suffixes", "max_file_bytes", "trust"} {
			if f, ok := field(n, key); ok {
				l.problems.Add(keyNode(f), fullKeyName(f)+" is about the root, and there is none", "write root: . beside it, or put it on a mount")
			}
		}
	} else if l.isValid(root) {
		e := entry{label: "sandbox", key: "root", at: root, target: "/", source: root, node: n, whole: true, mode: "rw"}
		e.folder, e.ok = l.hostPath("sandbox.root", root)
		l.tree = l.tree.Set([]string{"sandbox"}, l.addMount(e))
	}
	list, has := n.At("mounts")
	if !has || l.wrong[list.Place] {
		l.unclear = l.unclear || has
		return
	}
	if !l.checkMountCount("sandbox.mounts", list) {
		return
	}
	list.Items = slices.Clone(list.Items)
	for i, item := range list.Items {
		list.Items[i] = l.readMount(fmt.Sprintf("sandbox.mounts[%d]", i), item)
	}
	l.tree = l.tree.Set([]string{"sandbox", "mounts"}, list)
}

// maxMounts limits the directories of a sandbox. golem compares each with every other,
// for every worker.
const maxMounts = 100

// checkMountCount reports whether a sandbox has at most maxMounts directories, and adds a problem if
// not. The root, cache and workspace count too.
func (l *loader) checkMountCount(label string, n strictyaml.Node) bool {
	count := len(l.project.Mounts) + len(n.Items) + len(n.Fields)
	if count > maxMounts {
		l.problems.Add(n, fmt.Sprintf("%s: %d directories", label, count), fmt.Sprintf("a sandbox has at most %d; mount one above them", maxMounts))
		l.unclear = true
	}
	return count <= maxMounts
}

// readMount reads one of the mounts, and returns it with its effective values.
func (l *loader) readMount(label string, item strictyaml.Node) strictyaml.Node {
	source, hasSource := item.At("source")
	target, hasTarget := item.At("target")
	if !l.isValid(item) {
		l.unclear = true
		return item
	}
	if !hasSource || !hasTarget {
		l.unclear = true
		l.problems.Add(item, label+": a mount has a source and a target", "write {source: ./in, target: /in}")
		return item
	}
	e := entry{label: label, key: "source", at: item, source: source, node: item, mode: "rw"}
	e.folder, e.ok = l.hostPath(label+".source", source)
	var why string
	if e.target, why = canonicalTarget(target.Text); why != "" {
		l.problems.Add(target, label+".target: "+sandbox.Shown(target.Text)+why, targetHint)
		l.unclear, e.ok = true, false
	}
	return l.addMount(e)
}

// readZones reads the older spelling. It also sets the default directories if no spelling is
// used.
func (l *loader) readZones(n strictyaml.Node) {
	mode := strictyaml.Node{Place: strictyaml.Default, Text: "sandboxed"}
	if m, ok := n.At("mode"); ok {
		mode = m
	}
	direct := mode.Text == "direct"
	under := ""
	if !direct {
		under = l.zoneRoot(n)
		if under == "" {
			l.unclear = true
			return
		}
	} else if f, ok := field(n, "root"); ok {
		l.problems.Add(keyNode(f), "sandbox.root has no meaning with sandbox.mode: direct ("+mode.Place.String()+")",
			"direct takes paths as they are; remove one of the two")
	}
	l.setEffective(mode.Place, mode.Text, "sandbox", "mode")
	if !n.Has("zones") {
		workspace := l.readShorthand(n, "workspace", "./workspace", under, under)
		cache, base := "./cache", under
		if w, ok := l.valueAt("sandbox", "workspace"); ok && direct {
			if cache, base = strings.TrimRight(w.Text, "/")+"/.cache", workspace; base == "" && !n.Has("cache") {
				return // the problem was added at the workspace
			}
		}
		l.readShorthand(n, "cache", cache, under, base)
		return
	}
	for _, name := range []string{"cache", "workspace"} {
		if n.Has(name) {
			l.readShorthand(n, name, "", under, "")
		}
	}
	l.readNamed(n, entry{key: "path", mode: "rw"}, "zones", under)
}

// zoneRoot returns the directory that holds sandboxed zones, "" if there is none.
func (l *loader) zoneRoot(n strictyaml.Node) string {
	root, has := n.At("root")
	if !has {
		root = scalarNode(strictyaml.Default, ".sandbox")
		l.setEffective(strictyaml.Default, root.Text, "sandbox", "root")
	}
	if !l.isValid(root) {
		return ""
	}
	folder, _ := l.hostPath("sandbox.root", root)
	return folder
}

// readShorthand reads cache: or workspace:, which are zones with only a path, and returns the
// directory. If the key is missing, the directory lies in base.
func (l *loader) readShorthand(n strictyaml.Node, name, path, under, base string) string {
	e := entry{label: "sandbox." + name, name: name, target: "/" + name, mode: "rw"}
	var has bool
	if e.source, has = n.At(name); !has {
		e.source, e.base = scalarNode(strictyaml.Default, path), base
		l.setEffective(strictyaml.Default, path, "sandbox", name)
	}
	if !l.isValid(e.source) {
		l.unclear = true
		return ""
	}
	e.at = e.source
	e.folder, e.ok = l.zonePath(e.label, e.source, under)
	l.addMount(e)
	return e.folder
}

// zonePath returns the directory of a zone on the host. If under is not empty, the zone
// must lie below it.
func (l *loader) zonePath(label string, n strictyaml.Node, under string) (string, bool) {
	if under == "" {
		return l.hostPath(label, n)
	}
	if what, hint := checkPathText(n.Text); what != "" {
		l.problems.Add(n, label+": "+what, hint)
		return "", false
	}
	if !filepath.IsLocal(filepath.FromSlash(n.Text)) || strings.HasPrefix(n.Text, "~") {
		l.problems.Add(n, label+": "+sandbox.Shown(n.Text)+" does not lie under sandbox.root",
			"with mode: sandboxed all zones do; write a path relative to it, or mode: direct for paths as they are")
		return "", false
	}
	return filepath.Join(under, filepath.FromSlash(n.Text)), true
}

// readPaths reads the spelling of llm-do.
func (l *loader) readPaths(n strictyaml.Node) {
	l.readNamed(n, entry{key: "root", mode: "ro"}, "paths", "")
}

// readNamed reads the zones, or the paths of llm-do. Each is mounted at its name. The entry
// like holds their common values.
func (l *loader) readNamed(n strictyaml.Node, like entry, group, under string) {
	list, _ := n.At(group)
	if l.wrong[list.Place] {
		l.unclear = true
		return
	}
	if !l.checkMountCount("sandbox."+group, list) {
		return
	}
	for _, f := range list.Fields {
		e := like
		e.label, e.at, e.name, e.node = "sandbox."+group+"."+sandbox.Shown(f.Key.Text), f.Key, f.Key.Text, f.Value
		if l.locateEntry(&e, under) {
			l.tree = l.tree.Set([]string{"sandbox", group, e.name}, l.addMount(e))
		}
	}
}

// locateEntry finds the target and the directory of a zone or of a path of llm-do.
func (l *loader) locateEntry(e *entry, under string) bool {
	if !l.isValid(e.at) || !l.isValid(e.node) {
		l.unclear = true
		return false
	}
	why := ": " + checkName(e.name)
	if why == ": " {
		e.target, why = canonicalTarget("/" + e.name)
	}
	if why != "" {
		l.unclear = true
		l.problems.Add(e.at, e.label+why, "it would stand at /"+sandbox.Shown(e.name)+"; choose another name")
		return false
	}
	var has bool
	if e.source, has = e.node.At(e.key); !has {
		l.unclear = true
		l.problems.Add(e.at, e.label+" has no "+e.key, "name its directory, such as "+e.key+": ./"+e.name)
		return false
	}
	e.folder, e.ok = l.zonePath(e.label+"."+e.key, e.source, under)
	return true
}
