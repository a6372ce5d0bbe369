package profile

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// profiles returns the built-in profiles for a user's home and variables.
func profiles(home string, getenv func(string) string) []Profile {
	git, proxies := Common()
	keys := []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY"} // for agents that support many providers
	with := func(list []string, more ...string) []string { return slices.Concat(list, more) }

	// A read-only module cache still works as a source of modules: the program unpacks
	// what it needs in its home.
	modules := cmp.Or(getenv("GOMODCACHE"), filepath.Join(cmp.Or(firstOf(getenv("GOPATH")), filepath.Join(home, "go")), "pkg", "mod"))
	downloads := jail.Mount{Source: sandbox.Host(filepath.Join(modules, "cache", "download")), Target: "/cache/go-mod"}

	return []Profile{
		{Name: Plain, About: "a shell or any other program, without credentials", Copies: git},
		{Name: "git", About: "git with your name, without credentials", Copies: git, Env: proxies},
		{Name: "go", About: "the Go tool chain, with the modules that you have", Programs: []string{"gofmt"}, Copies: git,
			Mounts: []jail.Mount{downloads}, Env: with(proxies, "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOEXPERIMENT", "CGO_ENABLED"),
			Set: []string{"GOPROXY=file://" + downloads.Target + "," + cmp.Or(getenv("GOPROXY"), "direct"), "GOFLAGS=-modcacherw"}},
		{Name: "node", About: "Node and its package managers, without credentials", Programs: []string{"npm", "npx", "pnpm", "yarn", "corepack"},
			Copies: with(git, ".npmrc"), Env: with(proxies, "npm_config_registry", "NODE_ENV"), Set: []string{"npm_config_update_notifier=false"}},
		{Name: "python", About: "Python and pip, without credentials", Programs: []string{"python3", "pip", "pip3"},
			Copies: with(git, ".config/pip/pip.conf", ".pip/pip.conf"), Env: proxies, Set: with(withoutPasswords(getenv, "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"), "PIP_DISABLE_PIP_VERSION_CHECK=1")},
		{Name: "claude", About: "Claude Code", Net: true, Outside: claudeKeys(), Reads: []string{"platform.claude.com"},
			Optional: []string{"statsig.anthropic.com", "sentry.io", "http-intake.logs.us5.datadoghq.com", "browser-intake-us5-datadoghq.com", "mcp-proxy.anthropic.com",
				"storage.googleapis.com", "downloads.claude.ai", "raw.githubusercontent.com"}, Dropped: []string{"ANTHROPIC_CUSTOM_HEADERS"}, Quiet: []string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"},
			Copies:  with(git, ".claude/CLAUDE.md", ".claude/keybindings.json", ".claude/agents", ".claude/commands", ".claude/skills", ".claude/output-styles"),
			Logins:  []string{".claude.json", ".claude/.credentials.json", ".claude/settings.json"},
			Private: []Private{{".claude", []string{"projects", "todos", "tasks", "plans", "file-history"}}},
			Env: with(proxies, "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL",
				"ANTHROPIC_DEFAULT_HAIKU_MODEL", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"),
			Keys: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_OAUTH_TOKEN"},
			// A read-only program cannot be updated. IS_SANDBOX lets it work as root
			// without questions. CLAUDE_CONFIG_DIR puts .claude.json in the directory of
			// the other credentials.
			Set: []string{"DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1", "CLAUDE_CONFIG_DIR=" + jail.Home + "/.claude"}},
		{Name: "codex", About: "Codex CLI", Net: true, Outside: codexKeys(),
			// Without a login at ChatGPT it still asks chatgpt.com for plugins and experiments.
			Optional: []string{"ab.chatgpt.com", "chatgpt.com", "api.github.com", "raw.githubusercontent.com", "persistent.oaistatic.com"},
			Copies:   with(git, ".codex/AGENTS.md", ".codex/prompts", ".codex/rules", ".codex/skills"),
			Logins:   []string{".codex/auth.json", ".codex/config.toml"},
			Private:  []Private{{".codex", []string{"sessions", "archived_sessions"}}},
			Env:      with(proxies, "OPENAI_BASE_URL"),
			Keys:     []string{"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"},
			// Its own sandbox needs namespaces, and the server that it leaves behind
			// needs a socket in the file system. The jail gives neither.
			Lines: []Line{{".codex/config.toml", "", "sandbox_mode", `"danger-full-access"`}, {".codex/config.toml", "", "check_for_update_on_startup", "false"},
				{".codex/config.toml", "features", "daemon_auto_start", "false"}}},
		{Name: "gemini", About: "Gemini CLI", Net: true, Outside: geminiKeys(), Optional: []string{"play.googleapis.com", "api.github.com", "raw.githubusercontent.com"}, Quiet: []string{"GEMINI_TELEMETRY_ENABLED=false"},
			Copies:  with(git, ".gemini/GEMINI.md", ".gemini/google_accounts.json", ".gemini/commands"),
			Logins:  []string{".gemini/oauth_creds.json", ".gemini/.env", ".gemini/settings.json"},
			Private: []Private{{".gemini", []string{"tmp", "history"}}},
			Env: with(proxies, "GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI",
				"GOOGLE_GENAI_USE_GCA"),
			Keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
			// It must not start its own sandbox. SANDBOX would prevent that too, but it
			// also means that Gemini is inside its sandbox. Then it cannot restart
			// itself, as it does after a trust question.
			Set: []string{"GEMINI_SANDBOX=false"}},
		{Name: "opencode", About: "opencode", Net: true, Outside: opencodeKeys(), Optional: []string{"api.github.com"}, Reads: []string{"models.dev", "models.opencode.ai"},
			Copies: with(git, ".config/opencode/tui.json", ".config/opencode/AGENTS.md",
				".config/opencode/agent", ".config/opencode/agents", ".config/opencode/command", ".config/opencode/commands", ".config/opencode/skill",
				".config/opencode/skills", ".config/opencode/themes"),
			Logins:  []string{".local/share/opencode/auth.json", ".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"},
			Private: []Private{{".local/share/opencode", []string{"storage", "snapshot"}}, {".config/opencode", nil}},
			Env:     proxies, Keys: with(keys, "OPENCODE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
			Set: []string{"OPENCODE_DISABLE_AUTOUPDATE=1"}},
		{Name: "qwen", About: "Qwen Code", Net: true, Outside: qwenKeys(), Optional: []string{"gb4w8c3ygj-default-sea.rum.aliyuncs.com", "play.googleapis.com"},
			Copies:  with(git, ".qwen/QWEN.md", ".qwen/commands", ".qwen/agents", ".qwen/skills"),
			Logins:  []string{".qwen/oauth_creds.json", ".qwen/.env", ".qwen/settings.json"},
			Private: []Private{{".qwen", []string{"tmp", "projects", "history", "todos"}}},
			Env:     with(proxies, "OPENAI_BASE_URL", "OPENAI_MODEL"),
			Keys:    []string{"OPENAI_API_KEY", "DASHSCOPE_API_KEY"},
			Set:     []string{"QWEN_SANDBOX=false"}}, // the jail gives no namespaces for a sandbox of its own
		{Name: "pi", About: "pi", Net: true, Outside: piKeys(),
			Copies:  with(git, ".pi/agent/AGENTS.md", ".pi/agent/keybindings.json", ".pi/agent/prompts", ".pi/agent/skills", ".pi/agent/themes"),
			Logins:  []string{".pi/agent/auth.json", ".pi/agent/models.json", ".pi/agent/settings.json"},
			Private: []Private{{".pi/agent", []string{"sessions"}}},
			Env:     proxies, Keys: keys,
			Set: []string{"PI_SKIP_VERSION_CHECK=1"}},
		{Name: "aider", About: "aider", Net: true, Outside: aiderKeys(), Optional: []string{"us.i.posthog.com", "app.posthog.com", "raw.githubusercontent.com"},
			Copies: git,
			Env:    with(proxies, "OPENAI_API_BASE", "AIDER_MODEL", "AIDER_WEAK_MODEL", "AIDER_EDITOR_MODEL"),
			Keys:   with(keys, "DEEPSEEK_API_KEY"),
			Set:    []string{"AIDER_CHECK_UPDATE=false"}},
		{Name: "crush", About: "crush", Net: true, Outside: crushKeys(), Reads: []string{"catwalk.charm.land"}, Quiet: []string{"CRUSH_DISABLE_METRICS=1"}, Optional: []string{"data.charm.land", "api.github.com"},
			Copies:  with(git, ".config/crush/CRUSH.md", ".config/crush/skills"),
			Logins:  []string{".local/share/crush/crush.json", ".config/crush/crush.json", ".config/crush/crushrc"},
			Private: []Private{{".local/share/crush", nil}, {".config/crush", nil}},
			Env:     with(proxies, "CRUSH_DISABLE_METRICS", "DO_NOT_TRACK"), Keys: keys},
		{Name: "copilot", About: "GitHub Copilot CLI", Net: true, Outside: copilotKeys(),
			Optional: []string{"copilot-telemetry.githubusercontent.com", "telemetry.individual.githubcopilot.com", "collector.github.com", "default.exp-tas.com"},
			Copies:   with(git, ".copilot/copilot-instructions.md", ".copilot/agents", ".copilot/skills"),
			Logins:   []string{".copilot/config.json", ".copilot/settings.json", ".copilot/mcp-config.json"},
			Private:  []Private{{".copilot", []string{"session-state", "history-session-state"}}},
			// A GH_TOKEN may do more than Copilot needs, so only the variable of Copilot
			// itself counts.
			Env: with(proxies, "COPILOT_MODEL"), Keys: []string{"COPILOT_GITHUB_TOKEN"},
			Set: []string{"COPILOT_AUTO_UPDATE=false"}},
		{Name: "antigravity", About: "Antigravity CLI", Net: true, Outside: antigravityKeys(), Programs: []string{"agy"}, Optional: []string{"play.googleapis.com"},
			Copies:  with(git, ".gemini/GEMINI.md"),
			Logins:  []string{".gemini/antigravity-cli/settings.json", ".gemini/antigravity-cli/mcp_config.json"},
			Private: []Private{{".gemini", []string{"antigravity-cli/conversations", "antigravity-cli/brain"}}},
			Env:     with(proxies, "GOOGLE_CLOUD_PROJECT"), Keys: []string{"ANTIGRAVITY_API_KEY"},
			Set: []string{"ANTIGRAVITY_SANDBOX=false"}}, // the jail gives no namespaces for a sandbox of its own
		{Name: "cn", About: "Continue CLI", Net: true, Outside: cnKeys(), Quiet: []string{"CONTINUE_TELEMETRY_ENABLED=0"},
			Optional: []string{"us.i.posthog.com", "app.posthog.com"},
			Copies:   with(git, ".continue/rules", ".continue/prompts", ".continue/skills"),
			Logins:   []string{".continue/config.yaml", ".continue/.env", ".continue/auth.json"},
			Private:  []Private{{".continue", []string{"sessions"}}},
			Env:      with(proxies, "CONTINUE_TELEMETRY_ENABLED"), Keys: with(keys, "CONTINUE_API_KEY")},
	}
}

// firstOf returns the first of a list of directories.
func firstOf(list string) string {
	if dirs := filepath.SplitList(list); len(dirs) > 0 {
		return dirs[0]
	}
	return ""
}
