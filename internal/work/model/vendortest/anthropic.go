package vendortest

import (
	"net/http"
	"regexp"
	"sync"

	"github.com/golem-forge/golem/internal/work/model"
)

// A messages plays Anthropic.
type messages struct{ *Server }

var anthropicID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`) })

func (m messages) refuse(r *refusal) any {
	return object{"type": "error", "error": object{"type": "invalid_request_error", "message": r.message}}
}

func (m messages) read(path string, header http.Header, b object) (seen Seen, wrong *refusal) {
	switch bad := unknown(b, "model", "max_tokens", "stream", "temperature", "thinking", "output_config", "system", "tools", "messages"); {
	case path != "/v1/messages?":
		return seen, &refusal{status: http.StatusNotFound, message: "not found: " + path}
	case header.Get("Anthropic-Version") == "":
		return seen, refusef("anthropic-version: header is required")
	case bad != "":
		return seen, refusef("%s: Extra inputs are not permitted", bad)
	case numberOf(b, "max_tokens") < 1:
		return seen, refusef("max_tokens: Field required")
	case numberOf(b, "max_tokens") > 64_000:
		return seen, refusef("max_tokens: %.0f > 64000, which is the maximum allowed number of output tokens for %s", numberOf(b, "max_tokens"), textOf(b, "model"))
	case b["stream"] != true:
		return seen, refusef("stream: the test wants a stream")
	}
	thinking := objectOf(b, "thinking")
	if thinking != nil {
		switch kind := textOf(thinking, "type"); {
		case kind == "enabled" && (numberOf(thinking, "budget_tokens") < 1024 || numberOf(thinking, "budget_tokens") >= numberOf(b, "max_tokens")):
			return seen, refusef("thinking.budget_tokens: must be at least 1024 and less than max_tokens")
		case kind != "enabled" && kind != "adaptive":
			return seen, refusef("thinking.type: Input should be 'adaptive', 'disabled' or 'enabled'")
		case kind == "adaptive":
			return seen, refusef("adaptive thinking is not supported on this model")
		}
		if t := temperatureOf(b); t != nil && *t != 1 {
			return seen, refusef("`temperature` may only be set to 1 when thinking is enabled")
		}
		seen.Effort = model.HighEffort
	}
	marks := 0
	count := func(o object) {
		if o["cache_control"] != nil {
			marks++
		}
	}
	for _, s := range listOf(b, "system") {
		count(s)
		seen.System += textOf(s, "text")
	}
	for _, t := range listOf(b, "tools") {
		count(t)
		if objectOf(t, "input_schema")["type"] != "object" {
			return seen, refusef("tools.0.custom.input_schema.type: Field required")
		}
	}
	seen.Tools, seen.MaxTokens, seen.Temperature = toolsOf(listOf(b, "tools")), int64(numberOf(b, "max_tokens")), temperatureOf(b)
	var open []string // calls without a result
	for n, message := range listOf(b, "messages") {
		role := model.Role(textOf(message, "role"))
		content := listOf(message, "content")
		switch {
		case len(content) == 0:
			return seen, refusef("messages.%d: all messages must have non-empty content", n)
		case n == 0 && role != model.User:
			return seen, refusef("messages: first message must use the \"user\" role")
		case len(open) > 0 && role != model.User:
			return seen, refusef("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after", n)
		}
		thought, text := 0, false
		for i, block := range content {
			count(block)
			var part model.Part
			switch textOf(block, "type") {
			case "text":
				if textOf(block, "text") == "" {
					return seen, refusef("messages.%d.content.%d.text: text content blocks must be non-empty", n, i)
				}
				part.Text, text = textOf(block, "text"), true
			case "thinking":
				if thought = m.answerWith(textOf(block, "thinking"), textOf(block, "signature")); thought == 0 {
					return seen, refusef("messages.%d.content.%d: Invalid `signature` in `thinking` block", n, i)
				}
				seen.Thoughts++
				continue
			case "tool_use":
				id := textOf(block, "id")
				if !anthropicID().MatchString(id) {
					return seen, refusef("messages.%d.content.%d.tool_use.id: String should match pattern", n, i)
				}
				if from := m.calls[id]; from != 0 && from != thought {
					return seen, refusef("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`", n)
				}
				open = append(open, id)
				part.Call = &model.Call{ID: id, Tool: textOf(block, "name"), Args: string(raw(block["input"]))}
			case "tool_result":
				if len(open) == 0 || textOf(block, "tool_use_id") != open[0] || text {
					return seen, refusef("messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s", n, i, textOf(block, "tool_use_id"))
				}
				open = open[1:]
				result := ""
				for _, c := range listOf(block, "content") {
					result += textOf(c, "text")
				}
				part.Result = &model.Result{ID: textOf(block, "tool_use_id"), Text: result, Failed: block["is_error"] == true}
			case "image", "document":
				source := objectOf(block, "source")
				part.File = &model.File{Type: textOf(source, "media_type"), Data: []byte(textOf(source, "data"))}
			default:
				return seen, refusef("messages.%d.content.%d: Input tag '%s' found using 'type' does not match", n, i, textOf(block, "type"))
			}
			add(&seen.Request, role, part)
		}
		if role == model.User && len(open) > 0 {
			return seen, refusef("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", n, open[0])
		}
	}
	if marks > 4 {
		return seen, refusef("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
	}
	seen.Marked = marks > 0
	return seen, nil
}

func (m messages) write(s *stream, a answer) {
	event := func(name string, data object) {
		data["type"] = name
		s.event(name, data)
	}
	index := -1
	block := func(start object, deltas ...object) {
		index++
		event("content_block_start", object{"index": index, "content_block": start})
		for _, d := range deltas {
			event("content_block_delta", object{"index": index, "delta": d})
		}
		event("content_block_stop", object{"index": index})
	}
	event("message_start", object{"message": object{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": list{},
		"usage": object{"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1}}})
	event("ping", object{})
	block(object{"type": "thinking", "thinking": "", "signature": ""}, object{"type": "thinking_delta", "thinking": a.thought}, object{"type": "signature_delta", "signature": a.sign})
	for _, t := range a.texts {
		block(object{"type": "text", "text": ""}, object{"type": "text_delta", "text": t})
	}
	for _, c := range a.calls {
		half := len(c.args) / 2
		block(object{"type": "tool_use", "id": c.id, "name": c.tool, "input": object{}},
			object{"type": "input_json_delta", "partial_json": c.args[:half]}, object{"type": "input_json_delta", "partial_json": c.args[half:]})
	}
	stop := "end_turn"
	if len(a.calls) > 0 {
		stop = "tool_use"
	}
	event("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 5}})
	event("message_stop", object{})
}
