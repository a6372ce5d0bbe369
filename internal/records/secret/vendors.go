package secret

import "slices"

// A Vendor is a service whose keys have well-known names.
type Vendor struct {
	Name      string   // as golem names its secret
	Variables []string // environment variables that hold its keys
	Hosts     []string // the hosts that its keys are for, in the form of package policy
}

// Vendors returns the services whose keys golem sends to no other host.
func Vendors() []Vendor {
	return []Vendor{
		{"anthropic", []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"}, []string{"*.anthropic.com", "claude.ai", "*.claude.ai", "*.claude.com"}},
		{"openai", []string{"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"}, []string{"*.openai.com", "chatgpt.com"}},
		{"gemini", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"}, []string{"*.googleapis.com"}},
		{"openrouter", []string{"OPENROUTER_API_KEY"}, []string{"openrouter.ai", "*.openrouter.ai"}},
		{"groq", []string{"GROQ_API_KEY"}, []string{"*.groq.com"}},
		{"deepseek", []string{"DEEPSEEK_API_KEY"}, []string{"*.deepseek.com"}},
		{"copilot", []string{"COPILOT_GITHUB_TOKEN"}, []string{"*.githubcopilot.com", "api.github.com"}},
		{"antigravity", []string{"ANTIGRAVITY_API_KEY"}, []string{"*.googleapis.com"}},
		{"continue", []string{"CONTINUE_API_KEY"}, []string{"*.continue.dev"}},
		{"opencode", []string{"OPENCODE_API_KEY"}, []string{"opencode.ai", "*.opencode.ai"}},
		{"dashscope", []string{"DASHSCOPE_API_KEY"}, []string{"*.aliyuncs.com"}},
		{"github", []string{"GITHUB_TOKEN", "GH_TOKEN"}, []string{"github.com", "*.github.com", "*.githubusercontent.com"}},
	}
}

// VendorOf returns the vendor whose key is in an environment variable, or has a name among
// the user's secrets. Either text may be empty.
func VendorOf(variable, name string) (Vendor, bool) {
	for _, v := range Vendors() {
		if v.Name == name || slices.Contains(v.Variables, variable) {
			return v, true
		}
	}
	return Vendor{}, false
}
