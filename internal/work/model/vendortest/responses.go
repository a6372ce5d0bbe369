package vendortest

import (
	"fmt"
	"net/http"

	"github.com/golem-forge/golem/internal/work/model"
)

// A responses plays OpenAI's API responses.
type responses struct{ *Server }

func (responses) refuse(r *refusal) any {
	return object{"error": object{"message": r.message, "type": "invalid_request_error", "param": r.param, "code": r.code}}
}

func (p responses) read(path string, _ http.Header, b object) (seen Seen, wrong *refusal) {
	bad := unknown(b, "model", "input", "instructions", "tools", "stream", "store", "include", "max_output_tokens", "temperature", "reasoning", "text")
	include, _ := b["include"].(list)
	switch {
	case path != "/responses?":
		return seen, &refusal{status: http.StatusNotFound, message: "Not found: " + path}
	case bad != "":
		return seen, unsupported(bad, "Unknown parameter: '%s'.", bad)
	case b["temperature"] != nil:
		return seen, unsupported("temperature", "Unsupported parameter: 'temperature' is not supported with this model.")
	case numberOf(b, "max_output_tokens") > 128_000:
		return seen, unsupported("max_output_tokens", "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 128000, but got %.0f instead.", numberOf(b, "max_output_tokens"))
	case b["stream"] != true || b["store"] != false:
		return seen, refusef("the test wants a stream that is not stored")
	case len(include) != 1 || include[0] != "reasoning.encrypted_content":
		return seen, refusef("the test wants reasoning.encrypted_content")
	}
	seen.System, seen.MaxTokens = textOf(b, "instructions"), int64(numberOf(b, "max_output_tokens"))
	seen.Effort = model.Effort(textOf(objectOf(b, "reasoning"), "effort"))
	seen.Schema = raw(objectOf(objectOf(b, "text"), "format")["schema"])
	for n, t := range listOf(b, "tools") {
		if textOf(t, "name") == "" || objectOf(t, "parameters") == nil {
			return seen, unsupported(fmt.Sprintf("tools[%d].name", n), "Missing required parameter: 'tools[%d].name'.", n)
		}
		if t["strict"] != false && objectOf(t, "parameters")["additionalProperties"] != false {
			return seen, refusef("Invalid schema for function '%s': 'additionalProperties' is required to be supplied and to be false.", textOf(t, "name"))
		}
	}
	seen.Tools = toolsOf(listOf(b, "tools"))
	open, thought := map[string]bool{}, 0
	items := listOf(b, "input")
	for n, item := range items {
		kind := textOf(item, "type")
		follows := thought // the thought directly before, or before the call before
		switch kind {
		case "reasoning":
			if thought = p.answerWith("", textOf(item, "encrypted_content")); thought == 0 {
				return seen, &refusal{http.StatusBadRequest, "The encrypted content for item " + textOf(item, "id") + " could not be verified.", "", "invalid_encrypted_content"}
			}
			if item["summary"] == nil {
				return seen, refusef("Missing required parameter: 'input[%d].summary'.", n)
			}
			if n+1 == len(items) || textOf(items[n+1], "role") == "user" || textOf(items[n+1], "type") == "function_call_output" {
				return seen, refusef("Item '%s' of type 'reasoning' was provided without its required following item.", textOf(item, "id"))
			}
			seen.Thoughts++
		case "function_call":
			id := textOf(item, "call_id")
			if from := p.calls[id]; from != 0 && from != follows {
				return seen, refusef("Item '%s' of type 'function_call' was provided without its required 'reasoning' item: 'rs_%d'.", id, from)
			}
			open[id] = true
			add(&seen.Request, model.Assistant, model.Part{Call: &model.Call{ID: id, Tool: textOf(item, "name"), Args: textOf(item, "arguments")}})
		case "function_call_output":
			id := textOf(item, "call_id")
			if !open[id] {
				return seen, refusef("No tool call found for function call output with call_id %s.", id)
			}
			delete(open, id)
			add(&seen.Request, model.User, model.Part{Result: &model.Result{ID: id, Text: textOf(item, "output")}})
		case "message":
			role, want := model.Role(textOf(item, "role")), "input_text"
			if role == model.Assistant {
				want = "output_text"
			} else {
				thought = 0
			}
			for _, part := range listOf(item, "content") {
				switch kind := textOf(part, "type"); {
				case kind == want:
					add(&seen.Request, role, model.Part{Text: textOf(part, "text")})
				case kind == "input_image" && role == model.User:
					add(&seen.Request, role, inline(textOf(part, "image_url")))
				case kind == "input_file" && role == model.User:
					add(&seen.Request, role, inline(textOf(part, "file_data")))
				default:
					return seen, unsupported(fmt.Sprintf("input[%d].content", n), "Invalid value: '%s'. Supported values are: '%s'.", kind, want)
				}
			}
		default:
			return seen, unsupported(fmt.Sprintf("input[%d]", n), "Invalid value: '%s'.", kind)
		}
	}
	for id := range open {
		return seen, refusef("No tool output found for function call %s.", id)
	}
	return seen, nil
}

func (p responses) write(s *stream, a answer) {
	number := 0
	event := func(name string, data object) {
		data["type"], data["sequence_number"] = name, number
		number++
		s.event(name, data)
	}
	index := -1
	item := func(start, end object, pieces func()) {
		index++
		event("response.output_item.added", object{"output_index": index, "item": start})
		pieces()
		event("response.output_item.done", object{"output_index": index, "item": end})
	}
	response := object{"id": "resp_1", "object": "response", "model": "loop", "status": "in_progress", "output": list{}, "usage": nil, "error": nil, "incomplete_details": nil}
	event("response.created", object{"response": response})
	event("response.in_progress", object{"response": response})
	id := fmt.Sprintf("rs_%d", a.number)
	item(object{"type": "reasoning", "id": id, "summary": list{}, "encrypted_content": "begun"}, object{"type": "reasoning", "id": id, "summary": list{}, "encrypted_content": a.sign}, func() {})
	for _, t := range a.texts {
		item(object{"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": list{}},
			object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": list{object{"type": "output_text", "text": t, "annotations": list{}, "logprobs": list{}}}}, func() {
				event("response.content_part.added", object{"output_index": index, "content_index": 0, "part": object{"type": "output_text", "text": ""}})
				event("response.output_text.delta", object{"output_index": index, "content_index": 0, "delta": t, "obfuscation": "x"})
				event("response.output_text.done", object{"output_index": index, "content_index": 0, "text": t})
				event("response.content_part.done", object{"output_index": index, "content_index": 0, "part": object{"type": "output_text", "text": t}})
			})
	}
	for _, c := range a.calls {
		one := func(args, status string) object {
			return object{"type": "function_call", "id": "fc_" + c.id, "call_id": c.id, "name": c.tool, "arguments": args, "status": status}
		}
		item(one("", "in_progress"), one(c.args, "completed"), func() {
			event("response.function_call_arguments.delta", object{"output_index": index, "item_id": "fc_" + c.id, "delta": c.args[:len(c.args)/2]})
			event("response.function_call_arguments.delta", object{"output_index": index, "item_id": "fc_" + c.id, "delta": c.args[len(c.args)/2:]})
			event("response.function_call_arguments.done", object{"output_index": index, "item_id": "fc_" + c.id, "arguments": c.args})
		})
	}
	response["status"] = "completed"
	response["usage"] = object{"input_tokens": 10, "input_tokens_details": object{"cached_tokens": 3}, "output_tokens": 5, "output_tokens_details": object{"reasoning_tokens": 2}, "total_tokens": 15}
	event("response.completed", object{"response": response})
}
