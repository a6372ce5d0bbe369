package profile

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/secret"
)

// A Key is a credential with which a program logs in at some hosts. If the network of the
// program is limited, golem adds the credential to requests, and the program gets a
// placeholder. The value comes from one of Variable, File and Secret.
type Key struct {
	Name     string   // of the credential
	Variable string   // an environment variable
	File     string   // a file of the home, in JSON, or lines NAME=value
	Field    string   // the field of the file: "tokens.access_token"
	Shared   bool     // the file may hold keys for other purposes, which stay as they are
	Secret   string   // a secret of golem secret
	As       string   // the variable in which the program gets the placeholder of a Secret
	Header   string   // as in the key credentials of the configuration
	Hosts    []string // the hosts that it is for
	Server   string   // the user's variable with the URL of another server instead
}

// Source describes where the value of a key comes from.
func (k Key) Source() string {
	switch {
	case k.Variable != "":
		return "$" + k.Variable
	case k.File != "":
		return "the login in ~/" + k.File
	}
	return "your secret " + k.Secret
}

// Headers of vendors.
const (
	bearer = "Authorization: Bearer ${value}"
	apiKey = "x-api-key: ${value}"
	google = "x-goog-api-key: ${value}"
)

// gitHosts are hosts from which every agent can clone and fetch. They take no data of
// somebody else by such requests.
func gitHosts() []string { return []string{"github.com", "gitlab.com"} }

// A vendor is a service that many agents use.
type vendor struct {
	name, header, server string
	hosts, variables     []string
}

// keys returns the ways to log in at a vendor: by its variables, by fields of a file and
// by a secret.
func (v vendor) keys(file string, fields ...string) []Key {
	var list []Key
	for _, variable := range v.variables {
		list = append(list, Key{Name: v.name, Variable: variable, Header: v.header, Hosts: v.hosts, Server: v.server})
	}
	for _, field := range fields {
		list = append(list, Key{Name: v.name, File: file, Field: field, Header: v.header, Hosts: v.hosts, Server: v.server})
	}
	return append(list, Key{Name: v.name, Secret: v.name, As: v.variables[0], Header: v.header, Hosts: v.hosts, Server: v.server})
}

func claudeKeys() []Key {
	hosts := []string{"api.anthropic.com"}
	key := func(k Key, header string) Key {
		k.Name, k.Header, k.Hosts, k.Server = "anthropic", header, hosts, "ANTHROPIC_BASE_URL"
		return k
	}
	return []Key{ // in the order in which Claude Code prefers them
		key(Key{Variable: "ANTHROPIC_AUTH_TOKEN"}, bearer),
		key(Key{File: ".claude/settings.json", Field: "env.ANTHROPIC_AUTH_TOKEN", Shared: true}, bearer),
		key(Key{Variable: "ANTHROPIC_API_KEY"}, apiKey),
		key(Key{File: ".claude/settings.json", Field: "env.ANTHROPIC_API_KEY", Shared: true}, apiKey),
		key(Key{Variable: "CLAUDE_CODE_OAUTH_TOKEN"}, bearer),
		key(Key{File: ".claude/.credentials.json", Field: "claudeAiOauth.accessToken"}, bearer),
		key(Key{File: ".claude.json", Field: "primaryApiKey"}, apiKey),
		key(Key{Secret: "anthropic", As: "ANTHROPIC_API_KEY"}, apiKey),
	}
}

func codexKeys() []Key {
	const file = ".codex/auth.json"
	openai := vendor{"openai", bearer, "OPENAI_BASE_URL", []string{"api.openai.com"}, []string{"CODEX_API_KEY", "OPENAI_API_KEY"}}
	return append(openai.keys(file, "OPENAI_API_KEY"),
		Key{Name: "chatgpt", Variable: "CODEX_ACCESS_TOKEN", Header: bearer, Hosts: []string{"chatgpt.com"}},
		Key{Name: "chatgpt", File: file, Field: "tokens.access_token", Header: bearer, Hosts: []string{"chatgpt.com"}})
}

func geminiKeys() []Key {
	gemini := vendor{"gemini", google, "GOOGLE_GEMINI_BASE_URL", []string{"generativelanguage.googleapis.com"}, []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}}
	return append(gemini.keys(".gemini/.env", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
		Key{Name: "google", File: ".gemini/oauth_creds.json", Field: "access_token", Header: bearer, Hosts: []string{"cloudcode-pa.googleapis.com"}})
}

func qwenKeys() []Key {
	openai := vendor{"openai", bearer, "OPENAI_BASE_URL", []string{"api.openai.com"}, []string{"OPENAI_API_KEY"}}
	dashscope := vendor{"dashscope", bearer, "", []string{"dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"}, []string{"DASHSCOPE_API_KEY"}}
	return slices.Concat(
		[]Key{{Name: "qwen", File: ".qwen/oauth_creds.json", Field: "access_token", Header: bearer, Hosts: []string{"portal.qwen.ai"}}},
		openai.keys(".qwen/.env", "OPENAI_API_KEY"), dashscope.keys(".qwen/.env", "DASHSCOPE_API_KEY"))
}

// manyKeys returns the keys of a program that supports many vendors. Field returns the
// field of its file with the key of a vendor. Server is the variable with the address of a
// server that is compatible with OpenAI's.
func manyKeys(file, server string, field func(vendor string) string) []Key {
	var list []Key
	for _, v := range []vendor{
		{"anthropic", apiKey, "", []string{"api.anthropic.com"}, []string{"ANTHROPIC_API_KEY"}},
		{"openai", bearer, server, []string{"api.openai.com"}, []string{"OPENAI_API_KEY"}},
		{"openrouter", bearer, "", []string{"openrouter.ai"}, []string{"OPENROUTER_API_KEY"}},
		{"gemini", google, "", []string{"generativelanguage.googleapis.com"}, []string{"GEMINI_API_KEY"}},
		{"groq", bearer, "", []string{"api.groq.com"}, []string{"GROQ_API_KEY"}},
	} {
		fields := []string{}
		if file != "" {
			fields = append(fields, field(v.name))
		}
		if file != "" && v.name == "gemini" {
			fields = append(fields, field("google"))
		}
		list = append(list, v.keys(file, fields...)...)
	}
	return list
}

// keyField returns the field with the key of a vendor in the file auth.json of opencode
// and pi.
func keyField(vendor string) string { return vendor + ".key" }

func opencodeKeys() []Key {
	const file = ".local/share/opencode/auth.json"
	zen := vendor{"opencode", bearer, "", []string{"opencode.ai"}, []string{"OPENCODE_API_KEY"}}
	return slices.Concat(manyKeys(file, "", keyField), zen.keys(file, keyField("opencode")),
		[]Key{{Name: "anthropic", File: file, Field: "anthropic.access", Header: bearer, Hosts: []string{"api.anthropic.com"}},
			{Name: "gemini", Variable: "GOOGLE_GENERATIVE_AI_API_KEY", Header: google, Hosts: []string{"generativelanguage.googleapis.com"}}})
}

func piKeys() []Key {
	const file = ".pi/agent/auth.json"
	return append(manyKeys(file, "", keyField),
		Key{Name: "anthropic", File: file, Field: "anthropic.access", Header: bearer, Hosts: []string{"api.anthropic.com"}})
}

func copilotKeys() []Key {
	copilot := vendor{"copilot", bearer, "", []string{"api.githubcopilot.com", "api.individual.githubcopilot.com", "api.business.githubcopilot.com", "api.enterprise.githubcopilot.com", "api.github.com"},
		[]string{"COPILOT_GITHUB_TOKEN"}}
	return copilot.keys("")
}

func antigravityKeys() []Key {
	gemini := vendor{"antigravity", google, "", []string{"generativelanguage.googleapis.com"}, []string{"ANTIGRAVITY_API_KEY"}}
	return gemini.keys("")
}

func cnKeys() []Key {
	hub := vendor{"continue", bearer, "", []string{"api.continue.dev"}, []string{"CONTINUE_API_KEY"}}
	return append(manyKeys("", "", nil), hub.keys("")...)
}

func crushKeys() []Key {
	list := manyKeys(".local/share/crush/crush.json", "", func(vendor string) string { return "providers." + vendor + ".api_key" })
	for i := range list {
		list[i].Shared = list[i].File != ""
	}
	return list
}

func aiderKeys() []Key {
	deepseek := vendor{"deepseek", bearer, "", []string{"api.deepseek.com"}, []string{"DEEPSEEK_API_KEY"}}
	return append(manyKeys("", "OPENAI_API_BASE", nil), deepseek.keys("")...)
}

// isTokenName reports whether a field of a file, or a variable, holds a credential.
func isTokenName(name string) bool {
	return slices.Contains([]string{"access", "refresh", "key"}, strings.ToLower(name)) || secret.IsName(name)
}
