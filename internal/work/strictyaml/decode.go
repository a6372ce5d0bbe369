package strictyaml

import (
	"strings"
	"time"
)

// Decode sets variables to the values of a map. It takes a pointer for each key. The name of a
// key in a nested map has dots: "budget.turns". A variable keeps its value if the key is
// missing, if skip, which may be nil, refuses the value, or if the value does not have the type of the variable,
// which Check reports.
func (n Node) Decode(into map[string]any, skip func(Node) bool) {
	for name, to := range into {
		if value, ok := n.At(strings.Split(name, ".")...); ok && (skip == nil || !skip(value)) {
			value.decode(to)
		}
	}
}

func (n Node) decode(to any) {
	switch to := to.(type) {
	case *Node:
		*to = n
	case *[]Node:
		*to = n.scalars()
	case *[]string:
		*to = n.Texts()
	case *string:
		*to = n.Text
	case *bool:
		*to = n.Bool()
	case **bool:
		value := n.Bool()
		*to = &value
	case *int:
		set(to, n.Int)
	case *int64:
		set(to, n.Bytes)
	case *float64:
		set(to, n.Number)
	case **float64:
		*to = new(float64)
		set(*to, n.Number)
	case *time.Duration:
		set(to, n.Duration)
	default:
		panic("strictyaml: a variable of a type that Decode does not know")
	}
}

// set sets a number, if the text is one.
func set[T, V int | int64 | float64 | time.Duration](to *T, parse func() (V, error)) {
	if value, err := parse(); err == nil {
		*to = T(value)
	}
}

// scalars returns the items of a list that are single values. Check reports the others.
func (n Node) scalars() (list []Node) {
	for _, item := range n.Items {
		if item.Kind == Scalar {
			list = append(list, item)
		}
	}
	return list
}
