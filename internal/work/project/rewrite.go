package project

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// RewriteHosts returns a project file with other hosts for commands. It writes the key network anew,
// or sandbox too if the hosts are there, and keeps the lines of all other keys. The other keys of
// network stay, except presets, which are more hosts. The error is a strictyaml.Problems.
func RewriteHosts(file string, data []byte, hosts policy.Hosts) ([]byte, error) {
	tree, problems := strictyaml.Parse(file, data)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	after := tree
	if short, ok := tree.At("sandbox"); ok && short.Has("network") {
		after = after.Set([]string{"sandbox"}, without(short, "network"))
	}
	block, _ := tree.At("network")
	block = without(block, "presets")
	block.Kind = strictyaml.Map
	list := strictyaml.Node{Kind: strictyaml.List}
	for _, r := range hosts.Rules() {
		for _, ports := range writtenPorts(r) {
			r.Ports = ports
			list.Items = append(list.Items, hostNode(r))
		}
	}
	return rewrite(file, data, tree, after.Set([]string{"network"}, block.Set([]string{"allow"}, list)))
}

// writtenPorts returns the ports of a rule as the items of a list have them: one, or those of the web.
func writtenPorts(r policy.HostRule) (list [][]uint16) {
	if slices.Equal(r.Ports, []uint16{80, 443}) {
		return [][]uint16{r.Ports}
	}
	for _, port := range r.Ports {
		list = append(list, []uint16{port})
	}
	return list
}

// hostNode returns a rule as a project file has it.
func hostNode(r policy.HostRule) strictyaml.Node {
	text := func(s string) strictyaml.Node { return strictyaml.Node{Kind: strictyaml.Scalar, Text: s} }
	name := policy.HostRule{Host: r.Host, Ports: r.Ports}.String()
	if !r.NeedsRequests() {
		return text(name)
	}
	n := strictyaml.Node{Kind: strictyaml.Map}.Set([]string{"host"}, text(name))
	for _, limit := range []struct {
		key   string
		words []string
	}{{"methods", r.Methods}, {"paths", r.Paths}} {
		if len(limit.words) == 0 {
			continue
		}
		list := strictyaml.Node{Kind: strictyaml.List}
		for _, w := range limit.words {
			list.Items = append(list.Items, text(w))
		}
		n = n.Set([]string{limit.key}, list)
	}
	if r.GitRead {
		n = n.Set([]string{"git"}, text("read"))
	}
	if r.Credential != "" {
		n = n.Set([]string{"credential"}, text(r.Credential))
	}
	return n
}

// without returns a map without a key.
func without(n strictyaml.Node, key string) strictyaml.Node {
	n.Fields = slices.DeleteFunc(slices.Clone(n.Fields), func(f strictyaml.Field) bool { return f.Key.Text == key })
	return n
}

// rewrite returns the text of a file with the top keys that differ between two trees written anew.
// Comments within these keys are lost.
func rewrite(file string, data []byte, before, after strictyaml.Node) ([]byte, error) {
	byHand := func(what string) error {
		return strictyaml.Problems{{Place: strictyaml.Place{Source: file}, What: what, Hint: "change it with golem config edit"}}
	}
	lines := strings.SplitAfter(string(data), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += "\n"
	}
	for i := len(before.Fields) - 1; i >= 0; i-- { // the last first, so that the places stay right
		f := before.Fields[i]
		value, _ := after.At(f.Key.Text)
		if reflect.DeepEqual(plainValue(f.Value), plainValue(value)) {
			continue
		}
		if f.Key.Place.Col != 1 {
			return nil, byHand("the keys are not on lines of their own")
		}
		end := len(lines)
		if i+1 < len(before.Fields) {
			end = before.Fields[i+1].Key.Place.Line - 1
		}
		from := f.Key.Place.Line - 1
		for end > from+1 && (strings.TrimSpace(lines[end-1]) == "" || lines[end-1][0] == '#') { // they belong to the next key
			end--
		}
		inLine := f.Value.Kind == strictyaml.Map && f.Value.Place.Line == f.Key.Place.Line && !hasMaps(value)
		lines = slices.Replace(lines, from, end, renderKey(f.Key.Text, value, inLine)...)
	}
	for _, f := range after.Fields {
		if !before.Has(f.Key.Text) {
			if len(before.Fields) > 0 && before.Fields[0].Key.Place.Col != 1 {
				return nil, byHand("the keys are not on lines of their own")
			}
			lines = append(lines, renderKey(f.Key.Text, f.Value, false)...)
		}
	}
	text := []byte(strings.Join(lines, ""))
	read, problems := strictyaml.Parse(file, text)
	if len(problems) > 0 || !reflect.DeepEqual(plainValue(read), plainValue(after)) { // the layout of the file misled it
		return nil, byHand("golem cannot write it line by line")
	}
	return text, nil
}

// renderKey returns a key at the top with its value as lines.
func renderKey(key string, n strictyaml.Node, inLine bool) []string {
	if inLine || n.Kind != strictyaml.Map || len(n.Fields) == 0 {
		return []string{key + ": " + renderFlow(n) + "\n"}
	}
	lines := []string{key + ":\n"}
	for _, f := range n.Fields {
		if !isLong(f.Value) {
			lines = append(lines, "  "+f.Key.Text+": "+renderFlow(f.Value)+"\n")
			continue
		}
		lines = append(lines, "  "+f.Key.Text+":\n")
		for _, one := range f.Value.Items {
			lines = append(lines, "    - "+renderFlow(one)+"\n")
		}
		for _, one := range f.Value.Fields {
			lines = append(lines, "    "+flowScalar(one.Key.Text)+": "+renderFlow(one.Value)+"\n")
		}
	}
	return lines
}

// isLong reports whether a value takes several lines: a list or map of maps.
func isLong(n strictyaml.Node) bool {
	return slices.ContainsFunc(n.Items, func(one strictyaml.Node) bool { return one.Kind == strictyaml.Map }) ||
		slices.ContainsFunc(n.Fields, func(f strictyaml.Field) bool { return f.Value.Kind == strictyaml.Map })
}

// hasMaps reports whether a value in a map takes several lines.
func hasMaps(n strictyaml.Node) bool {
	return slices.ContainsFunc(n.Fields, func(f strictyaml.Field) bool { return isLong(f.Value) })
}

// renderFlow returns a value on one line.
func renderFlow(n strictyaml.Node) string {
	var parts []string
	switch n.Kind {
	case strictyaml.Map:
		for _, f := range n.Fields {
			parts = append(parts, flowScalar(f.Key.Text)+": "+renderFlow(f.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case strictyaml.List:
		for _, one := range n.Items {
			parts = append(parts, renderFlow(one))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case strictyaml.Null:
		return "null"
	}
	if n.Quoted { // in quotes it is a text
		return strconv.Quote(n.Text)
	}
	return flowScalar(n.Text)
}

// RewriteMounts returns a project file in which commands and tools may write only where a session
// wrote: paths are what it changed. Other writable directories become read-only. With split, so
// does the root if the changes in it are all in directories of it, which get mounts of their own. The
// error is a strictyaml.Problems.
func (p *Project) RewriteMounts(file string, data []byte, paths []string, split bool) ([]byte, error) {
	tree, problems := strictyaml.Parse(file, data)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	used := make(map[string][]string) // by target
	for _, name := range paths {
		if i := p.mountOf(name); i >= 0 {
			used[p.Mounts[i].Target] = append(used[p.Mounts[i].Target], name)
		}
	}
	top, ok := tree.At("sandbox")
	if !ok {
		return data, nil
	}
	for _, m := range p.Mounts {
		if m.Access() < sandbox.ReadWrite || p.Dialect == "mounts" && m.Target == "/" {
			continue
		}
		if len(used[m.Target]) == 0 {
			top = setReadOnly(top, m)
		}
	}
	if i := p.mountOf("/"); i >= 0 && p.Dialect == "mounts" && p.Mounts[i].Access() >= sandbox.ReadWrite && top.Has("root") {
		dirs, apart := directories(used["/"])
		if len(dirs) == 0 {
			top = readOnly(top)
		} else if split && apart && p.Mounts[i].Suffixes == nil && p.Mounts[i].MaxFileBytes == 0 {
			top = splitRoot(top, p.Mounts[i].Mode, dirs)
		}
	}
	return rewrite(file, data, tree, tree.Set([]string{"sandbox"}, top))
}

// readOnly returns the map of a directory with the mode ro.
func readOnly(n strictyaml.Node) strictyaml.Node {
	return without(n, "readonly").Set([]string{"mode"}, scalarNode(strictyaml.Place{}, "ro"))
}

// setReadOnly makes one mount, zone or path read-only, if it has a map of its own.
func setReadOnly(top strictyaml.Node, m Mount) strictyaml.Node {
	for _, key := range []string{"zones", "paths"} {
		if one, ok := top.At(key, m.Name); ok && m.Name != "" && one.Kind == strictyaml.Map {
			return top.Set([]string{key, m.Name}, readOnly(one))
		}
	}
	list, ok := top.At("mounts")
	if !ok || m.Name != "" {
		return top
	}
	list.Items = slices.Clone(list.Items)
	for i, one := range list.Items {
		target, _ := one.At("target")
		if name, why := canonicalTarget(target.Text); why == "" && name == m.Target {
			list.Items[i] = readOnly(one)
		}
	}
	return top.Set([]string{"mounts"}, list)
}

// directories returns the directories of the root that paths are in, and whether each path is in one.
func directories(paths []string) (dirs []string, apart bool) {
	apart = true
	for _, name := range paths {
		dir, _, in := strings.Cut(strings.TrimPrefix(name, "/"), "/")
		dirs, apart = append(dirs, dir), apart && in
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), apart
}

// splitRoot makes the root read-only, and adds mounts for directories of it.
func splitRoot(top strictyaml.Node, mode string, dirs []string) strictyaml.Node {
	root, _ := top.At("root")
	top = readOnly(top)
	list, _ := top.At("mounts")
	list.Kind, list.Items = strictyaml.List, slices.Clone(list.Items)
	for _, dir := range dirs {
		source := strings.TrimSuffix(root.Text, "/") + "/" + dir
		one := strictyaml.Node{Kind: strictyaml.Map}
		for _, f := range [][2]string{{"source", source}, {"target", "/" + dir}, {"mode", mode}} {
			one = one.Set([]string{f[0]}, scalarNode(strictyaml.Place{}, f[1]))
		}
		list.Items = append(list.Items, one)
	}
	return top.Set([]string{"mounts"}, list)
}
