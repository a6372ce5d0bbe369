package telemetry

import (
	"encoding/json"
	"strconv"
	"time"
)

// A Span is a step of a run with its times.
type Span struct {
	ID, Parent string
	Name       string
	Kind       Kind
	Start, End time.Time
	Attributes []Attribute
	Error      bool
}

// A Kind is the kind of a span, with the numbers of OTLP.
type Kind int

// The kinds of spans.
const (
	Internal Kind = 1
	Client   Kind = 3
)

// An Attribute is a name with a text or a number.
type Attribute struct {
	key    string
	text   string
	number int64
	amount *float64 // in place of the others
	isText bool
}

// Text returns an attribute with a text.
func Text(key, value string) Attribute { return Attribute{key: key, text: value, isText: true} }

// Number returns an attribute with a whole number.
func Number(key string, value int64) Attribute { return Attribute{key: key, number: value} }

// Amount returns an attribute with a number that may have a fraction.
func Amount(key string, value float64) Attribute { return Attribute{key: key, amount: &value} }

// MarshalJSON implements json.Marshaler. OTLP writes whole numbers as texts.
func (a Attribute) MarshalJSON() ([]byte, error) {
	value := map[string]any{"intValue": strconv.FormatInt(a.number, 10)}
	switch {
	case a.amount != nil:
		value = map[string]any{"doubleValue": *a.amount}
	case a.isText:
		value = map[string]any{"stringValue": a.text}
	}
	return json.Marshal(map[string]any{"key": a.key, "value": value})
}

// statusError is the code of a span that failed.
const statusError = 2

// encode returns spans of a trace as a request of OTLP.
func encode(s Settings, version, trace string, spans []Span) ([]byte, error) {
	nanos := func(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
	list := []map[string]any{}
	for _, span := range spans {
		one := map[string]any{"traceId": trace, "spanId": span.ID, "name": span.Name, "kind": int(span.Kind),
			"startTimeUnixNano": nanos(span.Start), "endTimeUnixNano": nanos(span.End), "attributes": span.Attributes}
		if span.Parent != "" {
			one["parentSpanId"] = span.Parent
		}
		if span.Error {
			one["status"] = map[string]any{"code": statusError}
		}
		list = append(list, one)
	}
	resource := append([]Attribute{Text("service.name", s.Service), Text("service.version", version)}, s.Resource...)
	return json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{
		"resource":   map[string]any{"attributes": resource},
		"scopeSpans": []any{map[string]any{"scope": map[string]any{"name": "golem", "version": version}, "spans": list}},
	}}})
}
