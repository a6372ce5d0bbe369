package vendortest

import "sync/atomic"

// Vendors returns all vendors that a server can play, each with a model that thinks.
func Vendors() []Vendor {
	const bearer, authorization = "Bearer ", "Authorization"
	usage := "stream_options"
	vendors := []Vendor{
		{Name: "Anthropic", Model: "anthropic:claude-sonnet-4-5", BaseVar: "ANTHROPIC_BASE_URL", KeyVar: "ANTHROPIC_API_KEY", Header: "X-Api-Key",
			newProtocol: func(s *Server) protocol { return messages{s} }},
		{Name: "OpenAI, responses", Model: "openai:gpt-5", BaseVar: "OPENAI_BASE_URL", KeyVar: "OPENAI_API_KEY", Header: authorization, Scheme: bearer,
			newProtocol: func(s *Server) protocol { return responses{s} }},
		{Name: "OpenAI, chat", Model: "openai:gpt-5", BaseVar: "OPENAI_BASE_URL", KeyVar: "OPENAI_API_KEY", Header: authorization, Scheme: bearer,
			newProtocol: func(s *Server) protocol {
				return chat{Server: s, path: "/chat/completions", fields: []string{usage, "reasoning_effort"}, newMax: true, files: "file"}
			}},
		{Name: "Gemini", Model: "gemini:gemini-3-pro-preview", BaseVar: "GEMINI_BASE_URL", KeyVar: "GEMINI_API_KEY", Header: "X-Goog-Api-Key",
			newProtocol: func(s *Server) protocol { return gemini{s} }},
		{Name: "OpenRouter", Model: "openrouter:anthropic/claude-sonnet-4.5", BaseVar: "OPENROUTER_BASE_URL", KeyVar: "OPENROUTER_API_KEY", Header: authorization, Scheme: bearer,
			newProtocol: func(s *Server) protocol {
				return chat{Server: s, path: "/chat/completions", fields: []string{usage, "reasoning"}, said: []string{"reasoning", "reasoning_details"}, files: "file", thoughts: inDetails}
			}},
		{Name: "Mistral", Model: "mistral:magistral-medium-latest", BaseVar: "MISTRAL_BASE_URL", KeyVar: "MISTRAL_API_KEY", Header: authorization, Scheme: bearer,
			newProtocol: func(s *Server) protocol {
				return chat{Server: s, path: "/chat/completions", fields: []string{"reasoning_effort"}, files: "document_url", thoughts: inChunks, nine: true}
			}},
		{Name: "DeepSeek", Model: "deepseek:deepseek-v4-pro", BaseVar: "DEEPSEEK_BASE_URL", KeyVar: "DEEPSEEK_API_KEY", Header: authorization, Scheme: bearer,
			newProtocol: func(s *Server) protocol {
				return chat{Server: s, path: "/chat/completions", fields: []string{usage, "thinking", "reasoning_effort"}, said: []string{"reasoning_content"}, noImages: true, thoughts: inField}
			}},
		{Name: "Groq", Model: "groq:openai/gpt-oss-120b", BaseVar: "GROQ_BASE_URL", KeyVar: "GROQ_API_KEY", Header: authorization, Scheme: bearer,
			newProtocol: func(s *Server) protocol {
				return chat{Server: s, path: "/chat/completions", fields: []string{usage, "reasoning_effort"}, said: []string{"reasoning"}, thoughts: inReasoning}
			}},
		{Name: "xAI", Model: "xai:grok-4", BaseVar: "XAI_BASE_URL", KeyVar: "XAI_API_KEY", Header: authorization, Scheme: bearer,
			newProtocol: func(s *Server) protocol { // its models think without being told how much
				return chat{Server: s, path: "/chat/completions", fields: []string{usage}, said: []string{"reasoning_content"}, thoughts: inField}
			}},
		{Name: "Ollama", Model: "ollama:qwen3", BaseVar: "OLLAMA_HOST",
			newProtocol: func(s *Server) protocol {
				return chat{Server: s, path: "/v1/chat/completions", lenient: true, thoughts: inReasoning, whole: true}
			}},
		{Name: "vLLM", Model: "openai:Qwen/Qwen3-32B", BaseVar: "OPENAI_BASE_URL", KeyVar: "OPENAI_API_KEY", Header: authorization, Scheme: bearer,
			newProtocol: func(s *Server) protocol {
				return chat{Server: s, path: "/chat/completions", lenient: true, thoughts: inReasoning, window: 12_000}
			}},
	}
	count := new(atomic.Int64)
	for i := range vendors {
		vendors[i].count = count
	}
	return vendors
}
