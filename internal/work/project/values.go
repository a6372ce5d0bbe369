package project

import (
	"fmt"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// A Value is a key with its effective value and the place that sets it.
type Value struct {
	Key  string
	Text string // as it would be written; "" for none
	From strictyaml.Place
}

// Values returns every key of the schema with its effective value, in the order
// of the schema. A key with entries has the keys of each: sandbox.zones.data.path,
// sandbox.mounts[0].source.
func (p *Project) Values() []Value {
	var list []Value
	collect(Schema(), "", p.tree, true, &list)
	return list
}

// PlaceOf returns the place that sets the value of a key.
func (p *Project) PlaceOf(key string) strictyaml.Place {
	for _, v := range p.Values() {
		if v.Key == key {
			return v.From
		}
	}
	return strictyaml.Default
}

func collect(key strictyaml.Key, name string, n strictyaml.Node, written bool, list *[]Value) {
	if i := slices.IndexFunc(key.Or, func(k strictyaml.Key) bool { return k.Type == strictyaml.Group }); i >= 0 && n.Kind == strictyaml.Map {
		key.Type, key.Keys = strictyaml.Group, key.Or[i].Keys
	}
	switch {
	case key.Type == strictyaml.Group:
		for _, k := range key.Keys {
			v, ok := n.At(k.Name)
			collect(k, joinKeys(name, k.Name), v, written && ok, list)
		}
	case key.Type == strictyaml.Named && len(n.Fields) > 0:
		for _, f := range n.Fields {
			collect(strictyaml.Key{Type: strictyaml.Group, Keys: key.Keys}, joinKeys(name, f.Key.Text), f.Value, true, list)
		}
	case key.Type == strictyaml.Groups && len(n.Items) > 0:
		for i, item := range n.Items {
			if item.Kind == strictyaml.Scalar {
				*list = append(*list, Value{fmt.Sprintf("%s[%d]", name, i), item.Text, item.Place})
				continue
			}
			collect(strictyaml.Key{Type: strictyaml.Group, Keys: key.Keys}, fmt.Sprintf("%s[%d]", name, i), item, true, list)
		}
	case written:
		*list = append(*list, Value{name, formatNode(n), n.Place})
	default:
		*list = append(*list, Value{name, key.Default, strictyaml.Default})
	}
}

func joinKeys(name, key string) string {
	if name == "" {
		return key
	}
	return name + "." + key
}

// formatNode formats a scalar or a list of scalars as in the file.
func formatNode(n strictyaml.Node) string {
	if n.Kind == strictyaml.List {
		return "[" + strings.Join(n.Texts(), ", ") + "]"
	}
	return n.Text
}
