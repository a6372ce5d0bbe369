package spending

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/anthropic"
	"github.com/golem-forge/golem/internal/work/model/gemini"
	"github.com/golem-forge/golem/internal/work/model/openai"
)

// A form is the format of the requests and answers of an API.
type form int

const (
	noForm form = iota
	messages
	chat
	responses
	generate
)

// answerShape returns the fields of answers that a reading needs, of events and of whole
// documents.
func (f form) answerShape() shape {
	switch f {
	case messages:
		return shape{"type": nil, "model": nil, "usage": nil, "message": {"model": nil, "usage": nil}}
	case chat:
		return shape{"model": nil, "usage": nil, "service_tier": nil, "x_groq": {"usage": nil}, "choices": {"finish_reason": nil}}
	case responses:
		inner := shape{"model": nil, "usage": nil, "service_tier": nil}
		return shape{"type": nil, "object": nil, "model": nil, "usage": nil, "service_tier": nil, "response": inner}
	}
	inner := shape{"usageMetadata": nil, "modelVersion": nil, "candidates": {"finishReason": nil}, "promptFeedback": nil}
	return shape{"usageMetadata": nil, "modelVersion": nil, "candidates": inner["candidates"], "promptFeedback": nil, "response": inner}
}

// A reading is what an answer says about its usage.
type reading struct {
	form    form
	charges bool // the host says what it charges

	usage  model.Usage
	model  string
	ended  bool // the answer has its end, so its usage is complete
	ends   int  // how many ends it has
	absurd bool // a number cannot be true, or is there twice
	dear   bool // a service of another price answered
}

// A document is what the skimmed documents of all forms have.
type document struct {
	Type, Object  string
	Model         string
	ModelVersion  string
	Usage         json.RawMessage
	UsageMetadata json.RawMessage
	ServiceTier   string `json:"service_tier"`
	Message       *document
	Response      *document
	Groq          *document `json:"x_groq"`
	Choices       []struct {
		Finish *string `json:"finish_reason"`
	}
	Candidates []struct{ FinishReason string }
	Feedback   json.RawMessage `json:"promptFeedback"`
}

// take reads a skimmed document.
func (r *reading) take(k *skimmer) {
	text, ok := k.document()
	if !ok {
		r.absurd = r.absurd || k.double
		return
	}
	var d document
	list := []document{}
	if json.Unmarshal(text, &list) != nil {
		if json.Unmarshal(text, &d) != nil {
			r.absurd = true
			return
		}
		list = []document{d}
	}
	for _, d := range list {
		r.read(d)
	}
}

func (r *reading) read(d document) {
	switch r.form {
	case messages:
		r.readMessage(d)
	case chat:
		r.add(d, d.Usage)
		if d.Groq != nil {
			r.add(*d.Groq, d.Groq.Usage)
		}
		for _, c := range d.Choices {
			r.ended = r.ended || c.Finish != nil && *c.Finish != ""
		}
	case responses:
		r.readResponse(d)
	case generate:
		if d.Response != nil { // Cloud Code
			d = *d.Response
		}
		r.add(d, d.UsageMetadata)
		for _, c := range d.Candidates {
			r.ended = r.ended || c.FinishReason != ""
		}
		r.ended = r.ended || isSet(d.Feedback)
	}
}

func (r *reading) readMessage(d document) {
	switch d.Type {
	case "message_start":
		if d.Message != nil {
			r.absurd = r.absurd || r.model != ""
			r.add(*d.Message, d.Message.Usage)
		}
	case "message_delta":
		before := r.usage.Output
		r.add(d, d.Usage)
		r.ended = r.ended || isSet(d.Usage) && r.usage.Output >= before
	case "message":
		r.add(d, d.Usage)
		r.end()
	}
}

func (r *reading) readResponse(d document) {
	switch {
	case d.Response != nil && (d.Type == "response.completed" || d.Type == "response.incomplete" || d.Type == "response.failed"):
		r.add(*d.Response, d.Response.Usage)
		r.end()
	case strings.HasPrefix(d.Object, "response"):
		r.add(d, d.Usage)
		r.end()
	}
}

// end notes an end of which an answer has only one.
func (r *reading) end() {
	r.ends++
	r.ended, r.absurd = true, r.absurd || r.ends > 1
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// add adds a report of the usage. Vendors send running totals.
func (r *reading) add(d document, usage json.RawMessage) {
	if name := d.Model + d.ModelVersion; name != "" {
		r.model = name
	}
	r.dear = r.dear || isDear(d.ServiceTier)
	if !isSet(usage) {
		return
	}
	if !isPossible(usage) {
		r.absurd = true
		return
	}
	var u model.Usage
	var err error
	switch r.form {
	case messages:
		var extra struct {
			Tier  string `json:"service_tier"`
			Speed string
		}
		json.Unmarshal(usage, &extra) // other types have no meaning
		r.dear = r.dear || isDear(extra.Tier) || isDear(extra.Speed)
		u, err = anthropic.ReadUsage(usage)
	case chat:
		u, err = openai.ReadUsage(usage, r.charges)
	case responses:
		u, err = openai.ReadResponseUsage(usage)
	case generate:
		u, err = gemini.ReadUsage(usage)
	}
	r.absurd = r.absurd || err != nil
	switch {
	case r.form == messages: // each report has other numbers
		r.usage = r.usage.Max(u)
	case sum(u) >= sum(r.usage):
		r.usage = u
	}
}

// sum returns all tokens of a usage.
func sum(u usage) int64 { return u.Input + u.CacheRead + u.CacheWrite + u.Output }

// isDear reports whether a service has another price than that of the table.
func isDear(service string) bool { return service == "priority" || service == "fast" }

// isWhole reports whether the usage is complete and can be true.
func (r *reading) isWhole() bool {
	return r.ended && !r.absurd && r.usage.Input+r.usage.CacheRead+r.usage.CacheWrite > 0
}

// mostTokens is more than any model takes or writes in one answer.
const mostTokens = 4_000_000

// mostCharge is more than any answer costs, in dollars.
const mostCharge = 10_000

// isPossible reports whether all numbers of tokens in a usage are whole and neither negative
// nor absurdly large, and whether what the server charges can be true. No name is there twice.
func isPossible(usage json.RawMessage) bool {
	in := json.NewDecoder(strings.NewReader(string(usage)))
	in.UseNumber()
	return isPossibleValue(in, "", 0)
}

func isPossibleValue(in *json.Decoder, name string, depth int) bool {
	token, err := in.Token()
	if err != nil || depth > maxDepth {
		return false
	}
	switch v := token.(type) {
	case json.Delim:
		names := map[string]bool{}
		for in.More() {
			inner := name
			if v == '{' {
				key, err := in.Token()
				if inner, _ = key.(string); err != nil || names[inner] {
					return false
				}
				names[inner] = true
			}
			if !isPossibleValue(in, inner, depth+1) {
				return false
			}
		}
		_, err := in.Token()
		return err == nil
	case json.Number:
		number, err := v.Float64()
		switch {
		case name == "cost":
			return err == nil && number >= 0 && number <= mostCharge
		case isTokens(name):
			return err == nil && number >= 0 && number <= mostTokens && number == math.Trunc(number)
		}
		return true
	case nil:
		return true
	}
	return !isTokens(name) && name != "cost"
}

// isTokens reports whether the name of a field means a number of tokens.
func isTokens(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "tokens") || strings.HasSuffix(name, "tokencount")
}
