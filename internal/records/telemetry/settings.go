// Package telemetry turns the events of a run into spans of OpenTelemetry, and writes them
// as OTLP in JSON. Spans have names, times, counts and error codes. They have no text of
// prompts, answers, arguments and results, and no paths.
//
// The names and attributes follow the semantic conventions for generative AI: a run and
// each worker in it is invoke_agent, each answer of a model is chat, and each call is
// execute_tool.
package telemetry

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Settings say where spans go. They come from the user's environment only: no file of a
// project chooses a server that learns about runs.
type Settings struct {
	URL      *url.URL // nil if telemetry is off
	Header   http.Header
	Service  string
	Resource []Attribute
	Parent   Parent
}

// A Parent is the span of the program that started golem. It may be empty.
type Parent struct{ Trace, Span string }

// tracesPath is the path that OTLP adds to an endpoint for all signals.
const tracesPath = "/v1/traces"

// Read reads the standard variables of OpenTelemetry. Telemetry is off without an
// endpoint. The error says what to change.
func Read(lookup func(name string) string) (s Settings, err error) {
	if strings.EqualFold(lookup("OTEL_SDK_DISABLED"), "true") {
		return s, nil
	}
	exporter := lookup("OTEL_TRACES_EXPORTER")
	switch exporter {
	case "", "otlp":
	case "none":
		return s, nil
	default:
		return s, fmt.Errorf("OTEL_TRACES_EXPORTER: golem has otlp and none; set one of them")
	}
	variable := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	address, suffix := lookup(variable), ""
	if address == "" {
		variable = "OTEL_EXPORTER_OTLP_ENDPOINT"
		address, suffix = lookup(variable), tracesPath
	}
	if address == "" && exporter == "otlp" {
		address = "http://localhost:4318" // the default of OTLP over HTTP
	}
	if address == "" {
		return s, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := lookup(name); protocol != "" {
			if protocol != "http/json" {
				return s, fmt.Errorf("%s: golem sends http/json only; set it to http/json, with an endpoint for HTTP such as http://localhost:4318", name)
			}
			break
		}
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil { // the text may hold a password
		return s, fmt.Errorf("%s: not an address; set one such as http://localhost:4318", variable)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + suffix
	s.URL, s.Header = u, make(http.Header)
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for key, value := range pairs(lookup(name)) {
			s.Header.Set(key, value)
		}
	}
	s.Service = "golem"
	for key, value := range pairs(lookup("OTEL_RESOURCE_ATTRIBUTES")) {
		if key == "service.name" {
			s.Service = value
			continue
		}
		s.Resource = append(s.Resource, Text(key, value))
	}
	if name := lookup("OTEL_SERVICE_NAME"); name != "" {
		s.Service = name
	}
	s.Parent = parseParent(lookup("TRACEPARENT"))
	return s, nil
}

// pairs yields the pairs of a list such as a=1,b=2, in which values are percent-encoded.
func pairs(text string) func(yield func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		for pair := range strings.SplitSeq(text, ",") {
			key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
			if decoded, err := url.PathUnescape(value); err == nil {
				value = decoded
			}
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			plain := !strings.ContainsFunc(key+value, func(r rune) bool { return r < ' ' || r == 0x7f })
			if ok && key != "" && plain && !yield(key, value) {
				return
			}
		}
	}
}

// parseParent reads a parent in the form of the W3C: 00-TRACE-SPAN-FLAGS. It returns an
// empty one for any other text.
func parseParent(text string) Parent {
	parts := strings.Split(strings.TrimSpace(text), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || !isID(parts[1], traceBytes) || !isID(parts[2], spanBytes) {
		return Parent{}
	}
	return Parent{parts[1], parts[2]}
}

// The lengths of ids in bytes.
const (
	traceBytes = 16
	spanBytes  = 8
)

// isID reports whether a text is an id: lower-case hexadecimal digits, not all zero.
func isID(text string, bytes int) bool {
	id, err := hex.DecodeString(text)
	return err == nil && len(id) == bytes && text == strings.ToLower(text) && strings.Trim(text, "0") != ""
}
