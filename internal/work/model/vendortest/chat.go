package vendortest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/work/model"
)

// A chat plays a server with OpenAI's chat completions, in the dialect of a vendor.
type chat struct {
	*Server
	path     string
	fields   []string // of a request, besides those that all servers know
	said     []string // fields of a message of the model, besides those that all servers know
	lenient  bool     // ignores fields that it does not know
	newMax   bool     // refuses max_tokens, and a temperature
	noImages bool
	files    string // the type of parts with a PDF; "" for none
	thoughts thoughts
	nine     bool  // ids have nine characters, and no message of the user comes after a result
	whole    bool  // calls come as a whole, without pieces, all with the index 0
	window   int64 // tokens of a conversation and its answer; 0 for many
}

// thoughts is how a vendor sends thoughts and wants them back.
type thoughts int

const (
	noThoughts  thoughts = iota // keeps them
	inField                     // in reasoning_content, back with the calls of the turn
	inReasoning                 // in reasoning, back or not
	inDetails                   // in reasoning_details, back unchanged
	inChunks                    // as parts of the content, back or not
)

var nineID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9]{9}$`) })

func (c chat) refuse(r *refusal) any {
	if c.nine {
		return object{"object": "error", "type": "invalid_request_error", "message": object{"detail": list{object{"type": "extra_forbidden", "loc": list{"body", r.param}, "msg": r.message}}}}
	}
	return object{"error": object{"message": r.message, "type": "invalid_request_error", "param": r.param, "code": r.code}}
}

func (c chat) read(path string, _ http.Header, b object) (seen Seen, wrong *refusal) {
	known := append([]string{"model", "messages", "tools", "stream", "max_tokens", "max_completion_tokens", "temperature", "response_format"}, c.fields...)
	bad := unknown(b, known...)
	most := int64(max(numberOf(b, "max_tokens"), numberOf(b, "max_completion_tokens")))
	switch {
	case path != c.path+"?":
		return seen, &refusal{status: http.StatusNotFound, message: "404 page not found: " + path}
	case bad != "" && !c.lenient && c.nine:
		return seen, &refusal{http.StatusUnprocessableEntity, "Extra inputs are not permitted", bad, ""}
	case bad != "" && !c.lenient:
		return seen, unsupported(bad, "Unrecognized request argument supplied: %s", bad)
	case c.newMax && b["max_tokens"] != nil:
		return seen, unsupported("max_tokens", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
	case c.newMax && b["temperature"] != nil && numberOf(b, "temperature") != 1:
		return seen, unsupported("temperature", "Unsupported value: 'temperature' does not support %v with this model. Only the default (1) value is supported.", b["temperature"])
	case c.window > 0 && most > c.window-20:
		return seen, unsupported("max_tokens", "'max_tokens' or 'max_completion_tokens' is too large: %d. This model's maximum context length is %d tokens and your request has 20 input tokens (%d > %d - 20).", most, c.window, most, c.window)
	case b["stream"] != true:
		return seen, refusef("the test wants a stream")
	}
	seen.MaxTokens, seen.Temperature = most, temperatureOf(b)
	seen.Effort = model.Effort(textOf(b, "reasoning_effort") + textOf(objectOf(b, "reasoning"), "effort"))
	if textOf(objectOf(b, "thinking"), "type") == "disabled" {
		seen.Effort = model.NoEffort
	}
	seen.Schema = raw(objectOf(objectOf(b, "response_format"), "json_schema")["schema"])
	for _, t := range listOf(b, "tools") {
		seen.Tools = append(seen.Tools, toolsOf([]object{objectOf(t, "function")})...)
	}
	var open []string // calls without a result
	before := ""
	all := listOf(b, "messages")
	for n, m := range all {
		role := textOf(m, "role")
		if len(open) > 0 && role != "tool" {
			return seen, refusef("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", open[0])
		}
		if c.nine && before == "tool" && role == "user" {
			return seen, refusef("Unexpected role 'user' after role 'tool'")
		}
		before = role
		switch role {
		case "system", "developer":
			seen.System += textOf(m, "content")
		case "user":
			parts, wrong := c.parts(m)
			if wrong != nil {
				return seen, wrong
			}
			add(&seen.Request, model.User, parts...)
		case "tool":
			id := textOf(m, "tool_call_id")
			if len(open) == 0 || open[0] != id {
				return seen, refusef("messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
			}
			open = open[1:]
			add(&seen.Request, model.User, model.Part{Result: &model.Result{ID: id, Text: textOf(m, "content")}})
		case "assistant":
			if bad := unknown(m, append([]string{"role", "content", "tool_calls"}, c.said...)...); bad != "" && !c.lenient {
				return seen, unsupported(bad, "messages.%d: property '%s' is unsupported", n, bad)
			}
			calls := listOf(m, "tool_calls")
			if m["content"] == nil && len(calls) == 0 {
				return seen, refusef("messages.%d: assistant message must have either content or tool_calls, but not none", n)
			}
			parts, wrong := c.parts(m)
			if wrong != nil {
				return seen, wrong
			}
			number := 0
			for _, one := range calls {
				id, f := textOf(one, "id"), objectOf(one, "function")
				if c.nine && !nineID().MatchString(id) {
					return seen, refusef("Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", id)
				}
				if !json.Valid([]byte(textOf(f, "arguments"))) {
					return seen, refusef("messages.%d: the arguments of a call are no JSON", n)
				}
				number = max(number, c.calls[id])
				open = append(open, id)
				parts = append(parts, model.Part{Call: &model.Call{ID: id, Tool: textOf(f, "name"), Args: textOf(f, "arguments")}})
			}
			back, wrong := c.back(m, number)
			if wrong != nil {
				return seen, wrong
			}
			seen.Thoughts += back
			add(&seen.Request, model.Assistant, parts...)
		default:
			return seen, refusef("messages.%d: unknown role %q", n, role)
		}
	}
	if len(open) > 0 {
		return seen, refusef("The following tool_call_ids did not have response messages: %s", open[0])
	}
	return seen, nil
}

// back counts the thoughts in a message of the model, which has calls of an answer with a
// number, 0 for none. It refuses the message if it lacks one that the vendor wants.
func (c chat) back(m object, number int) (count int, wrong *refusal) {
	want := answer{number: number}.signed()
	switch c.thoughts {
	case inField:
		thought, has := m["reasoning_content"].(string)
		if number > 0 && (!has || thought != want.thought) {
			return 0, refusef("The reasoning_content in the thinking mode must be passed back to the API.")
		}
		if thought != "" {
			count++
		}
	case inReasoning:
		if strings.HasPrefix(textOf(m, "reasoning"), "Thought ") {
			count++
		}
	case inDetails:
		if number > 0 && string(raw(m["reasoning_details"])) != c.lists[want.sign] {
			return 0, refusef("Provider returned error: thinking blocks cannot be modified: got %s, want %s", raw(m["reasoning_details"]), c.lists[want.sign])
		}
		count = len(listOf(m, "reasoning_details")) / 2
	case inChunks:
		for _, part := range listOf(m, "content") {
			if textOf(part, "type") == "thinking" {
				count++
			}
		}
	}
	return count, nil
}

// parts converts the content of a message.
func (c chat) parts(m object) (parts []model.Part, wrong *refusal) {
	if text := textOf(m, "content"); text != "" {
		return []model.Part{{Text: text}}, nil
	}
	for _, p := range listOf(m, "content") {
		switch kind := textOf(p, "type"); {
		case kind == "text":
			parts = append(parts, model.Part{Text: textOf(p, "text")})
		case kind == "image_url" && !c.noImages:
			parts = append(parts, inline(textOf(objectOf(p, "image_url"), "url")))
		case kind == "file" && c.files == kind:
			parts = append(parts, inline(textOf(objectOf(p, "file"), "file_data")))
		case kind == "document_url" && c.files == kind:
			parts = append(parts, inline(textOf(p, "document_url")))
		case kind == "thinking" && c.thoughts == inChunks:
		default:
			return nil, refusef("unknown variant `%s`, expected `text`", kind)
		}
	}
	return parts, nil
}

func (c chat) write(s *stream, a answer) {
	chunk := func(delta object, finish any) {
		s.event("", object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "loop",
			"choices": list{object{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": nil}}})
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	half := len(a.thought) / 2
	for i, piece := range []string{a.thought[:half], a.thought[half:]} {
		switch c.thoughts {
		case inField:
			chunk(object{"content": nil, "reasoning_content": piece}, nil)
		case inReasoning:
			chunk(object{"content": "", "reasoning": piece}, nil)
		case inChunks:
			chunk(object{"content": list{object{"type": "thinking", "thinking": list{object{"type": "text", "text": piece}}}}}, nil)
		case inDetails:
			chunk(object{"content": "", "reasoning": piece, "reasoning_details": list{object{"type": "reasoning.text", "text": piece, "format": "anthropic-claude-v1", "index": 0}}}, nil)
			if i == 1 {
				chunk(object{"content": "", "reasoning": nil, "reasoning_details": list{object{"type": "reasoning.text", "signature": a.sign, "format": "anthropic-claude-v1", "index": 0}}}, nil)
				chunk(object{"content": "", "reasoning_details": list{object{"type": "reasoning.encrypted", "data": a.sign, "id": "rs_" + a.sign, "format": "openai-responses-v1", "index": 1}}}, nil)
				c.lists[a.sign] = string(raw(list{
					object{"type": "reasoning.text", "text": a.thought, "signature": a.sign, "format": "anthropic-claude-v1", "index": 0},
					object{"type": "reasoning.encrypted", "data": a.sign, "id": "rs_" + a.sign, "format": "openai-responses-v1", "index": 1}}))
			}
		}
	}
	for _, t := range a.texts {
		chunk(object{"content": t}, nil)
	}
	finish := "stop"
	for i, one := range a.calls {
		function := object{"name": one.tool, "arguments": one.args}
		if finish = "tool_calls"; c.whole {
			chunk(object{"tool_calls": list{object{"index": 0, "id": one.id, "type": "function", "function": function}}}, nil)
			continue
		}
		function["arguments"] = ""
		chunk(object{"tool_calls": list{object{"index": i, "id": one.id, "type": "function", "function": function}}}, nil)
		for _, piece := range []string{one.args[:len(one.args)/2], one.args[len(one.args)/2:]} {
			chunk(object{"tool_calls": list{object{"index": i, "function": object{"arguments": piece}}}}, nil)
		}
	}
	chunk(object{}, finish)
	usage := object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	switch c.thoughts {
	case inField:
		usage["prompt_cache_hit_tokens"] = 3
	case inDetails: // OpenRouter
		usage["cost"] = 0.00095
		fallthrough
	case noThoughts:
		usage["prompt_tokens_details"] = object{"cached_tokens": 3}
	}
	s.event("", object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "loop", "choices": list{}, "usage": usage})
	s.w.Write([]byte("data: [DONE]\n\n"))
}
