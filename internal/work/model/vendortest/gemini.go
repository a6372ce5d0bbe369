package vendortest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/golem-forge/golem/internal/work/model"
)

// A gemini plays Google.
type gemini struct{ *Server }

func (gemini) refuse(r *refusal) any {
	return object{"error": object{"code": r.status, "message": r.message, "status": "INVALID_ARGUMENT"}}
}

func (g gemini) read(path string, _ http.Header, b object) (seen Seen, wrong *refusal) {
	config := objectOf(b, "generationConfig")
	thinking := objectOf(config, "thinkingConfig")
	for _, check := range []struct {
		at    string
		o     object
		known []string
	}{
		{"", b, []string{"contents", "systemInstruction", "tools", "generationConfig"}},
		{" at 'generation_config'", config, []string{"maxOutputTokens", "temperature", "thinkingConfig", "responseMimeType", "responseJsonSchema"}},
		{" at 'generation_config.thinking_config'", thinking, []string{"thinkingLevel", "includeThoughts"}},
	} {
		if bad := unknown(check.o, check.known...); bad != "" {
			return seen, refusef("Invalid JSON payload received. Unknown name \"%s\"%s: Cannot find field.", bad, check.at)
		}
	}
	level := textOf(thinking, "thinkingLevel")
	switch {
	case path != "/models/gemini-3-pro-preview:streamGenerateContent?alt=sse":
		return seen, &refusal{status: http.StatusNotFound, message: "not found: " + path}
	case numberOf(config, "maxOutputTokens") > 65_536:
		return seen, refusef("Unable to submit request because it has a maxOutputTokens value of %.0f but the supported range is from 1 (inclusive) to 65537 (exclusive).", numberOf(config, "maxOutputTokens"))
	case level != "" && level != "low" && level != "high":
		return seen, refusef("Thinking level %s is not supported for this model.", strings.ToUpper(level))
	}
	for _, p := range listOf(objectOf(b, "systemInstruction"), "parts") {
		seen.System += textOf(p, "text")
	}
	for _, t := range listOf(b, "tools") {
		for _, f := range listOf(t, "functionDeclarations") {
			if bad := unknown(f, "name", "description", "parametersJsonSchema"); bad != "" {
				return seen, refusef("Invalid JSON payload received. Unknown name \"%s\" at 'tools[0].function_declarations[0]': Cannot find field.", bad)
			}
		}
		seen.Tools = append(seen.Tools, toolsOf(listOf(t, "functionDeclarations"))...)
	}
	seen.MaxTokens, seen.Temperature, seen.Effort, seen.Schema = int64(numberOf(config, "maxOutputTokens")), temperatureOf(config), model.Effort(level), raw(config["responseJsonSchema"])
	var open []string // the tools of calls without a result
	for n, c := range listOf(b, "contents") {
		role := model.User
		if textOf(c, "role") == "model" {
			role = model.Assistant
		}
		parts := listOf(c, "parts")
		if len(parts) == 0 || n == 0 && role != model.User {
			return seen, refusef("contents[%d].parts must not be empty", n)
		}
		if len(open) > 0 && role == model.Assistant {
			return seen, refusef("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
		}
		first := true
		for i, p := range parts {
			if bad := unknown(p, "text", "functionCall", "functionResponse", "inlineData", "thoughtSignature"); bad != "" {
				return seen, refusef("Invalid JSON payload received. Unknown name \"%s\" at 'contents[%d].parts[%d]': Cannot find field.", bad, n, i)
			}
			sign := textOf(p, "thoughtSignature")
			number := g.answerWith("", sign)
			if sign != "" && number == 0 && sign != "skip_thought_signature_validator" {
				return seen, refusef("Thought signature is not valid")
			}
			if number > 0 {
				seen.Thoughts++
			}
			var part model.Part
			switch call, result, data := objectOf(p, "functionCall"), objectOf(p, "functionResponse"), objectOf(p, "inlineData"); {
			case call != nil:
				if first && sign == "" {
					return seen, refusef("Function call `%s` in the `%d.` content block is missing a `thought_signature`.", textOf(call, "name"), n)
				}
				if from := g.calls[textOf(call, "id")]; first && from != 0 && from != number {
					return seen, refusef("Thought signature is not the one of the call")
				}
				first = false
				open = append(open, textOf(call, "name"))
				part.Call = &model.Call{ID: textOf(call, "id"), Tool: textOf(call, "name"), Args: string(raw(call["args"]))}
			case result != nil:
				if len(open) == 0 || open[0] != textOf(result, "name") {
					return seen, refusef("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
				}
				open = open[1:]
				response := objectOf(result, "response")
				part.Result = &model.Result{ID: textOf(result, "id"), Text: textOf(response, "output") + textOf(response, "error"), Failed: response["error"] != nil}
			case data != nil:
				part.File = &model.File{Type: textOf(data, "mimeType"), Data: []byte(textOf(data, "data"))}
			default:
				part.Text = textOf(p, "text")
			}
			add(&seen.Request, role, part)
		}
		if len(open) > 0 && role == model.User {
			return seen, refusef("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
	}
	return seen, nil
}

func (g gemini) write(s *stream, a answer) {
	chunk := func(part object, finish string) {
		candidate := object{"index": 0, "content": object{"role": "model", "parts": list{part}}}
		usage := object{"promptTokenCount": 10, "cachedContentTokenCount": 3, "totalTokenCount": 10}
		if finish != "" {
			candidate["finishReason"] = finish
			usage = object{"promptTokenCount": 10, "cachedContentTokenCount": 3, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 15}
		}
		s.event("", object{"candidates": list{candidate}, "usageMetadata": usage, "modelVersion": "loop", "responseId": "r"})
	}
	for _, t := range a.texts {
		chunk(object{"text": t}, "")
	}
	for i, c := range a.calls {
		args := object{}
		json.Unmarshal([]byte(c.args), &args) // scripts have objects
		part := object{"functionCall": object{"id": c.id, "name": c.tool, "args": args}}
		if i == 0 {
			part["thoughtSignature"] = a.sign
		}
		chunk(part, "")
	}
	last := object{"text": ""}
	if len(a.calls) == 0 {
		last["thoughtSignature"] = a.sign
	}
	chunk(last, "STOP")
}
