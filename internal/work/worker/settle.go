package worker

import (
	"strconv"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// normalize returns the tree in the form that the schema describes. It reports problems that
// need a better hint than the schema has: keys that belong elsewhere, and empty values.
func (r *reader) normalize(top strictyaml.Node) strictyaml.Node {
	top = r.removeMisplaced(top, nil, map[string]string{
		"child_sandbox": "a child's access comes from its own file: its sandbox: within this one's",
	})
	top = r.removeMisplaced(top, []string{"sandbox"}, map[string]string{
		"root":      "that is the project's; a worker takes part of it by restrict, zones or paths",
		"mounts":    "that is the project's; a worker takes part of it by restrict, zones or paths, such as zones: [{name: out, mode: rw}] for /out",
		"mode":      "that is the project's; a worker has readonly, and a mode in each of its zones",
		"cache":     "that is the project's; a worker says zones: [{name: cache}]",
		"workspace": "that is the project's; a worker says zones: [{name: workspace}]",
	})
	for _, key := range []string{"output_schema_ref", "server_side_tools"} { // llm-do writes them without a value
		if n, ok := top.At(key); ok && n.Kind != strictyaml.Scalar && len(n.Items)+len(n.Fields) == 0 {
			top = removeKey(top, key)
		}
	}
	if n, ok := top.At("sandbox"); ok && n.Kind == strictyaml.Null {
		r.problems.Add(n, "sandbox: nothing",
			"write inherit for all of the parent's files, zones: [] for none, or leave the key out")
		top = removeKey(top, "sandbox")
	}
	if n, ok := top.At("sandbox", "zones"); ok && n.Kind == strictyaml.Null {
		r.problems.Add(n, "sandbox.zones: nothing", "name zones, or write [] for no files at all")
		sandbox, _ := top.At("sandbox")
		top = top.Set([]string{"sandbox"}, removeKey(sandbox, "zones"))
	}
	if n, ok := top.At("toolsets"); ok && n.Kind == strictyaml.List {
		top = top.Set([]string{"toolsets"}, r.toolsetMap(n))
	}
	return r.removeUnsafeVariables(top)
}

// removeMisplaced reports keys of a map that belong elsewhere, and removes them.
func (r *reader) removeMisplaced(top strictyaml.Node, keys []string, hints map[string]string) strictyaml.Node {
	n, ok := top.At(keys...)
	if !ok || n.Kind != strictyaml.Map {
		return top
	}
	where := ""
	if len(keys) > 0 {
		where = " in " + keys[len(keys)-1]
	}
	for _, f := range n.Fields {
		if hint, ok := hints[f.Key.Text]; ok {
			r.problems.Add(f.Key, "unknown key "+strconv.Quote(f.Key.Text)+where, hint)
			n = removeKey(n, f.Key.Text)
		}
	}
	return top.Set(keys, n)
}

// toolsetMap turns a list of toolsets into a map. An item is a name, or a map with one name
// and its settings.
func (r *reader) toolsetMap(list strictyaml.Node) strictyaml.Node {
	all := strictyaml.Node{Place: list.Place, Kind: strictyaml.Map}
	for _, item := range list.Items {
		field := strictyaml.Field{Key: item, Value: strictyaml.Node{Place: item.Place}}
		if item.Kind == strictyaml.Map && len(item.Fields) == 1 {
			field = item.Fields[0]
		}
		switch {
		case field.Key.Kind != strictyaml.Scalar:
			r.problems.Add(item, "toolsets: "+item.Kind.String()+" in the list", "each is a name, or a map of one name: - shell: {…}")
		case all.Has(field.Key.Text):
			r.problems.Add(field.Key, "toolsets: "+sandbox.Shown(field.Key.Text)+" twice", "keep one")
		default:
			all.Fields = append(all.Fields, field)
		}
	}
	return all
}
