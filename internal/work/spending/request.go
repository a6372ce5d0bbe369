package spending

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/models"
)

// A place is what a host and a path mean.
type place struct {
	form   form
	vendor string // as in the names of models
	model  string // in the path, "" if the body has it
	plan   bool   // a subscription pays for the request
	// free is true for requests that cost nothing, such as counting tokens.
	free bool
	// known is true at a vendor's own host, where everything else may cost something.
	known bool
}

// plans are hosts that only subscriptions use. What they charge has no price list.
var plans = []string{"chatgpt.com", "cloudcode-pa.googleapis.com", "portal.qwen.ai", "opencode.ai",
	"api.githubcopilot.com", "api.individual.githubcopilot.com", "api.business.githubcopilot.com", "api.enterprise.githubcopilot.com"}

// findPlace returns what a request asks for. header is the name of the header with the
// credential.
func findPlace(r *http.Request, host, header string) place {
	p := place{vendor: models.VendorAt(host), plan: slices.Contains(plans, host)}
	p.known = p.vendor != "" || p.plan
	name := path.Clean(r.URL.Path)
	last := path.Base(name)
	before, verb, hasVerb := strings.Cut(last, ":")
	switch {
	case hasVerb && slices.Contains([]string{"generateContent", "streamGenerateContent"}, verb):
		p.form = generate
		if before != "v1internal" { // Cloud Code has the model in the body
			p.model = before
		}
	case strings.HasSuffix(name, "/messages"):
		p.form = messages
		p.plan = p.plan || host == "api.anthropic.com" && strings.EqualFold(header, "Authorization")
	case strings.HasSuffix(name, "/chat/completions"):
		p.form = chat
	case strings.HasSuffix(name, "/responses"), strings.HasSuffix(name, "/responses/compact"):
		p.form = responses
	}
	if p.vendor == "" {
		p.vendor = map[form]string{messages: "anthropic", chat: "openai", responses: "openai", generate: "gemini"}[p.form]
	}
	p.free = p.form == noForm && isFree(r, host, name, verb)
	return p
}

// isFree reports whether a request at a vendor cannot cost anything: it reads, or it is one of
// those that agents make besides asking a model.
func isFree(r *http.Request, host, name, verb string) bool {
	within := func(tops ...string) bool {
		return slices.ContainsFunc(tops, func(top string) bool { return strings.HasPrefix(name, top) })
	}
	switch {
	case r.Header.Get("Upgrade") != "":
		return false
	case r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions || r.Method == http.MethodDelete:
		return true
	case strings.HasSuffix(name, "/messages/count_tokens"), verb == "countTokens", host == "api.github.com":
		return true
	case host == "api.anthropic.com":
		return within("/api/event_logging/", "/api/oauth/", "/api/claude_code/", "/api/claude_cli/", "/api/hello")
	case host == "chatgpt.com":
		return within("/backend-api/codex/analytics-events/", "/backend-api/plugins/", "/backend-api/otel/")
	case host == "cloudcode-pa.googleapis.com":
		return slices.Contains([]string{"loadCodeAssist", "onboardUser", "retrieveUserQuota", "listExperiments", "recordCodeAssistMetrics", "recordConversationOffered", "getCodeAssistGlobalUserSetting", "setCodeAssistGlobalUserSetting", "fetchAdminControls"}, verb)
	}
	return false
}

// A question is what a request asks of a model at most.
type question struct {
	model  string // as the vendor names it
	most   model.Usage
	server string // a tool of the vendor's own whose cost has no maximum
	dear   bool   // it asks for a service of another price
}

// The parts of requests with an influence on the cost. Contents keep only their types.
func (f form) requestShape() shape {
	source := shape{"type": nil}
	part := shape{"type": nil, "source": source}
	inner := shape{"type": nil, "source": source, "content": part}
	switch f {
	case messages:
		return shape{"model": nil, "max_tokens": nil, "service_tier": nil, "speed": nil, "inference_geo": nil, "mcp_servers": nil, "container": nil,
			"tools": {"type": nil}, "messages": {"content": inner}}
	case chat:
		return shape{"model": nil, "max_tokens": nil, "max_completion_tokens": nil, "n": nil, "service_tier": nil, "tools": {"type": nil},
			"web_search_options": nil, "plugins": nil, "search_parameters": nil, "messages": {"content": {"type": nil}}}
	case responses:
		return shape{"model": nil, "max_output_tokens": nil, "service_tier": nil, "tools": {"type": nil},
			"previous_response_id": nil, "conversation": nil, "prompt": nil, "background": nil,
			"input": {"type": nil, "content": {"type": nil}, "output": {"type": nil}}}
	}
	any := shape{}
	body := shape{"generationConfig": {"candidateCount": nil}, "generation_config": {"candidate_count": nil}, "cachedContent": nil, "cached_content": nil,
		"tools": {"functionDeclarations": any, "function_declarations": any, "googleSearch": any, "google_search": any, "googleSearchRetrieval": any, "google_search_retrieval": any,
			"codeExecution": any, "code_execution": any, "urlContext": any, "url_context": any, "googleMaps": any, "google_maps": any, "fileSearch": any, "file_search": any,
			"enterpriseWebSearch": any, "enterprise_web_search": any, "computerUse": any, "computer_use": any, "mcpServers": any, "mcp_servers": any},
		"contents": {"parts": {"inlineData": any, "inline_data": any, "fileData": any, "file_data": any}}}
	whole := shape{"model": nil, "request": body}
	for name, s := range body {
		whole[name] = s
	}
	return whole
}

// clientTools are the beginnings of the types of tools that the agent runs itself.
var clientTools = []string{"function", "custom", "bash_", "text_editor_", "computer", "memory_", "local_shell", "apply_patch", "namespace", "tool_search"}

// textTypes are the types of contents whose length in bytes limits their tokens.
var textTypes = []string{"", "text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal", "tool_use", "tool_result", "thinking", "redacted_thinking", "message", "function_call", "function_call_output",
	"custom_tool_call", "custom_tool_call_output", "local_shell_call", "local_shell_call_output", "reasoning", "compaction", "compaction_summary", "tool_reference", "tool_search_call", "tool_search_output", "additional_tools", "agent_message"}

// imageTypes are the types of images. An image may be short and have many tokens.
var imageTypes = []string{"image", "input_image", "image_url"}

const (
	mostImage = 20_000  // tokens of an image
	mostAdded = 2_000   // tokens that a vendor adds to a request, such as the text about tools
	mostHeld  = 2100000 // tokens that a model takes
	mostTimes = 128     // answers to one request
)

// mostOutput is the number of tokens that models of a vendor write at most, 0 if the vendor
// does not say so.
func mostOutput(vendor string) int64 {
	return map[string]int64{"anthropic": 128_000, "openai": 128_000, "gemini": 65_536}[vendor]
}

// mostInput is the number of tokens that models of a vendor read at most.
func mostInput(vendor string) int64 {
	switch vendor {
	case "anthropic", "openai", "gemini":
		return mostHeld / 2
	}
	return mostHeld
}

// readQuestion reads the body of a request. It returns false if it is not as the form says.
func (p place) readQuestion(body []byte) (q question, ok bool) {
	k := newSkimmer(p.form.requestShape())
	k.add(body)
	text, ok := k.document()
	var fields map[string]any
	if !ok || json.Unmarshal(text, &fields) != nil {
		return q, false
	}
	q.model, _ = fields["model"].(string)
	if p.model != "" {
		q.model = p.model
	}
	q.model = strings.TrimPrefix(q.model, "models/")
	tier, _ := fields["service_tier"].(string)
	speed, _ := fields["speed"].(string)
	q.dear = isDear(tier) || isDear(speed) || fields["inference_geo"] != nil && fields["inference_geo"] != "global"
	inner, isWrapped := fields["request"].(map[string]any)
	if p.form == generate && isWrapped {
		fields = inner
	}
	q.server = serverTool(fields)
	input := int64(len(body)) + mostAdded
	images, isOpen := countMedia(fields)
	if input += images * mostImage; isOpen || input > mostInput(p.vendor) {
		input = mostInput(p.vendor)
	}
	q.most = model.Usage{Input: input, Output: p.mostAnswer(fields, input)}
	if p.vendor == "anthropic" { // writing a cache costs more than reading
		q.most.CacheWrite, q.most.Input = input, 0
		if bytes.Contains(body, []byte("1h")) || bytes.Contains(body, []byte(`\u`)) {
			q.most.CacheHour = input
		}
	}
	return q, q.model != ""
}

// mostAnswer returns how many tokens an answer may have, also if there are several.
func (p place) mostAnswer(fields map[string]any, input int64) int64 {
	most := mostOutput(p.vendor)
	if most == 0 {
		most = mostInput(p.vendor) // the context
	}
	asked := func(name string) (int64, bool) {
		n, ok := fields[name].(float64)
		return int64(n), ok && n >= 1 && n <= mostTokens && n == float64(int64(n))
	}
	declared := int64(0)
	for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
		if n, ok := asked(name); ok {
			declared = max(declared, n)
		}
	}
	if (p.vendor == "anthropic" || p.vendor == "openai") && declared > 0 { // others do not count thoughts
		most = declared
	}
	times, ok := asked("n")
	for outer, name := range map[string]string{"generationConfig": "candidateCount", "generation_config": "candidate_count"} {
		config, _ := fields[outer].(map[string]any)
		if n, is := config[name].(float64); is && n >= 1 && n <= mostTimes {
			times, ok = max(times, int64(n)), true
		}
	}
	switch {
	case ok:
	case fields["n"] != nil: // a vendor may read what golem does not
		times = mostTimes
	default:
		times = 1
	}
	return most * times
}

// serverTool returns the name of a tool that the vendor runs itself, "" for none.
func serverTool(fields map[string]any) string {
	for _, name := range []string{"mcp_servers", "web_search_options", "plugins", "search_parameters"} {
		if fields[name] != nil {
			return name
		}
	}
	if fields["background"] == true {
		return "background"
	}
	tools, _ := fields["tools"].([]any)
	for _, each := range tools {
		t, _ := each.(map[string]any)
		for name := range t {
			if name != "type" && !strings.EqualFold(strings.ReplaceAll(name, "_", ""), "functionDeclarations") {
				return name
			}
		}
		kind, isText := t["type"].(string)
		if (isText || t["type"] != nil) && !slices.ContainsFunc(clientTools, func(start string) bool { return strings.HasPrefix(kind, start) }) {
			return kind
		}
	}
	return ""
}

// countMedia counts the images of a request. isOpen is true if it has contents whose tokens
// the length of the request does not limit.
func countMedia(fields map[string]any) (images int64, isOpen bool) {
	for _, name := range []string{"previous_response_id", "conversation", "prompt", "cachedContent", "cached_content", "container"} {
		isOpen = isOpen || fields[name] != nil
	}
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for name, one := range v {
				kind, _ := one.(string)
				switch {
				case name == "source":
					s, _ := one.(map[string]any)
					isOpen = isOpen || s["type"] == "file"
				case name == "inlineData", name == "inline_data", name == "fileData", name == "file_data":
					isOpen = true
				case name != "type":
					walk(one)
				case slices.Contains(imageTypes, kind):
					images++
				default:
					isOpen = isOpen || !slices.Contains(textTypes, kind)
				}
			}
		}
	}
	for _, name := range []string{"messages", "input", "contents"} {
		walk(fields[name])
	}
	return images, isOpen
}
