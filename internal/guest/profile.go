package guest

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A Profile is what a program needs besides the folders it works on. It is shown
// before the program starts.
type Profile struct {
	Name     string
	About    string
	Programs []string     // that it is for, besides the one of its name
	Mounts   []jail.Mount // folders of the host, to be read
	Copies   []string     // files and folders of the user's home, copied into the empty one when that is new
	Logins   []string     // such that hold credentials, or may, as settings with the keys of MCP servers
	Env      []string     // names of variables that are passed on
	Keys     []string     // such that are credentials
	Set      []string     // NAME=value
	Lines    []Line       // of files of the home
	Net      bool         // it is of no use without the network

	Home string // of the user, "" where it is not known
}

// A Line is a setting that a file of the home has, whatever the user's says.
type Line struct{ File, Section, Key, Value string }

// profiles returns those that there are, for a user's home and variables.
func profiles(home string, getenv func(string) string) []Profile {
	git := []string{".gitconfig", ".config/git/config"}
	proxies := []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
		"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR"}
	keys := []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY"} // of agents that know many providers
	with := func(list []string, more ...string) []string { return slices.Concat(list, more) }

	// A cache of modules that cannot be written is of use as a source of modules: what
	// the program needs it unpacks at home.
	modules := cmp.Or(getenv("GOMODCACHE"), filepath.Join(cmp.Or(firstOf(getenv("GOPATH")), filepath.Join(home, "go")), "pkg", "mod"))
	downloads := jail.Mount{Source: sandbox.Host(filepath.Join(modules, "cache", "download")), Target: "/cache/go-mod"}

	return []Profile{
		{Name: "plain", About: "a shell or any other program, with nothing of yours"},
		{Name: "git", About: "git with your name, without credentials", Copies: git, Env: proxies},
		{Name: "go", About: "the Go tool chain, with the modules that you have", Programs: []string{"gofmt"}, Copies: git,
			Mounts: []jail.Mount{downloads}, Env: with(proxies, "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOEXPERIMENT", "CGO_ENABLED"),
			Set: []string{"GOPROXY=file://" + downloads.Target + "," + cmp.Or(getenv("GOPROXY"), "direct"), "GOFLAGS=-modcacherw"}},
		{Name: "node", About: "Node and its package managers, without credentials", Programs: []string{"npm", "npx", "pnpm", "yarn", "corepack"},
			Copies: with(git, ".npmrc"), Env: with(proxies, "npm_config_registry", "NODE_ENV"), Set: []string{"npm_config_update_notifier=false"}},
		{Name: "python", About: "Python and pip, without credentials", Programs: []string{"python3", "pip", "pip3"},
			Copies: git, Env: proxies, Set: []string{"PIP_DISABLE_PIP_VERSION_CHECK=1"}},
		{Name: "claude", About: "Claude Code", Net: true,
			Copies: with(git, ".claude/CLAUDE.md", ".claude/keybindings.json", ".claude/agents", ".claude/commands", ".claude/skills", ".claude/output-styles"),
			Logins: []string{".claude.json", ".claude/.credentials.json", ".claude/settings.json"},
			Env: with(proxies, "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL",
				"ANTHROPIC_DEFAULT_HAIKU_MODEL", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"),
			Keys: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_OAUTH_TOKEN"},
			// What is read-only cannot be updated. That it is in a sandbox it must know,
			// to work for root without questions.
			Set: []string{"DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1"}},
		{Name: "codex", About: "Codex CLI", Net: true,
			Copies: with(git, ".codex/AGENTS.md", ".codex/prompts", ".codex/rules", ".codex/skills"),
			Logins: []string{".codex/auth.json", ".codex/config.toml"},
			Env:    with(proxies, "OPENAI_BASE_URL"),
			Keys:   []string{"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"},
			// Its own sandbox needs namespaces, and the server that it leaves behind a
			// socket in the file system: the jail gives neither.
			Lines: []Line{{".codex/config.toml", "", "sandbox_mode", `"danger-full-access"`}, {".codex/config.toml", "", "check_for_update_on_startup", "false"},
				{".codex/config.toml", "features", "daemon_auto_start", "false"}}},
		{Name: "gemini", About: "Gemini CLI", Net: true,
			Copies: with(git, ".gemini/GEMINI.md", ".gemini/google_accounts.json", ".gemini/commands"),
			Logins: []string{".gemini/oauth_creds.json", ".gemini/.env", ".gemini/settings.json"},
			Env: with(proxies, "GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI",
				"GOOGLE_GENAI_USE_GCA"),
			Keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
			Set:  []string{"SANDBOX=golem"}}, // it starts none of its own
		{Name: "opencode", About: "opencode", Net: true,
			Copies: with(git, ".config/opencode/tui.json", ".config/opencode/AGENTS.md",
				".config/opencode/agent", ".config/opencode/agents", ".config/opencode/command", ".config/opencode/commands", ".config/opencode/skill",
				".config/opencode/skills", ".config/opencode/themes"),
			Logins: []string{".local/share/opencode/auth.json", ".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"},
			Env:    proxies, Keys: with(keys, "OPENCODE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
			Set: []string{"OPENCODE_DISABLE_AUTOUPDATE=1"}},
		{Name: "crush", About: "crush", Net: true,
			Copies: with(git, ".config/crush/CRUSH.md", ".config/crush/skills"),
			Logins: []string{".local/share/crush/crush.json", ".config/crush/crush.json", ".config/crush/crushrc"},
			Env:    with(proxies, "CRUSH_DISABLE_METRICS", "DO_NOT_TRACK"), Keys: keys},
	}
}

// firstOf is the first of a list of folders.
func firstOf(list string) string {
	if dirs := filepath.SplitList(list); len(dirs) > 0 {
		return dirs[0]
	}
	return ""
}

// ProfileFor returns the profile of a name; where none is named, that of the program,
// and for others the plain one.
func ProfileFor(name, program, home string, getenv func(string) string) (Profile, error) {
	list := profiles(home, getenv)
	asked := name
	if asked == "" {
		asked = filepath.Base(program)
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
		if p.Name == asked || name == "" && slices.Contains(p.Programs, asked) {
			return p.from(home), nil
		}
	}
	if name == "" {
		return list[0].from(home), nil
	}
	hint := "there are " + strings.Join(names, ", ")
	if near := sandbox.Nearest(name, names); len(near) > 0 {
		hint = "did you mean " + near[0] + "? " + hint
	}
	return Profile{}, &sandbox.Error{Op: "--profile", Path: name, Code: sandbox.ErrNotFound, Hint: hint}
}

// from leaves out what a home does not have. What is named without saying where counts
// for none: it would be in the folder that the program works on.
func (p Profile) from(home string) Profile {
	if !filepath.IsAbs(home) {
		home = ""
	}
	missing := func(name string) bool {
		info, err := os.Stat(filepath.Join(home, name))
		return home == "" || err != nil || !info.Mode().IsRegular() && !info.IsDir()
	}
	p.Copies = slices.DeleteFunc(slices.Clone(p.Copies), missing)
	p.Logins = slices.DeleteFunc(slices.Clone(p.Logins), missing)
	p.Mounts = slices.DeleteFunc(slices.Clone(p.Mounts), func(m jail.Mount) bool {
		_, err := os.Stat(string(m.Source))
		return err != nil || !filepath.IsAbs(string(m.Source))
	})
	p.Home = home
	return p
}

// Brings reports whether a file of a program's home may be there by the profile alone.
func (p Profile) Brings(name string) bool {
	for _, copied := range slices.Concat(p.Copies, p.Logins) {
		if within(copied, name) {
			return true
		}
	}
	return slices.ContainsFunc(p.Lines, func(l Line) bool { return l.File == name })
}

// Fill copies into a home what the profile names and is not there yet. A program that had
// the home before may have left anything there: nothing is written through a link.
func (p Profile) Fill(home string) error {
	root, err := os.OpenRoot(home)
	if err != nil {
		return plainError("the home of programs", err)
	}
	defer root.Close()
	names := slices.Concat(p.Copies, p.Logins)
	for _, l := range p.Lines {
		if !slices.Contains(names, l.File) {
			names = append(names, l.File)
		}
	}
	for _, name := range names {
		if taken(root, name) {
			continue
		}
		if err := p.copy(name, root); err != nil {
			return plainError(name, err)
		}
	}
	return nil
}

// taken reports whether something is at a name of a home, or is no folder on the way
// there.
func taken(home *os.Root, name string) bool {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		if info, err := home.Lstat(name[:i]); err == nil && !info.IsDir() {
			return true
		}
	}
	_, err := home.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// copy copies a file or folder. Of a folder it is the plain files.
func (p Profile) copy(name string, home *os.Root) error {
	from, err := filepath.EvalSymlinks(filepath.Join(p.Home, name))
	if p.Home == "" || errors.Is(err, fs.ErrNotExist) {
		return p.write(name, home, nil) // it has lines alone
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return p.write(path.Join(name, filepath.ToSlash(rel)), home, data)
	})
}

// write writes a file of the home, as far as its content is for the program.
func (p Profile) write(name string, home *os.Root, data []byte) error {
	if kept, ok := filters()[name]; ok {
		data = kept(data)
	}
	for _, l := range slices.Backward(p.Lines) {
		if l.File == name {
			data = l.in(data)
		}
	}
	if err := home.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	return home.WriteFile(name, data, 0o600)
}

// Roomy returns limits of which those that nobody has set are for a program that stays,
// and builds and tests by many others: it is to notice them no sooner than the machine.
func Roomy(l jail.Limits) jail.Limits {
	l.Memory = cmp.Or(l.Memory, 16<<30)
	l.Processes = cmp.Or(l.Processes, 8192)
	l.Files = cmp.Or(l.Files, 65536)
	l.FileSize = cmp.Or(l.FileSize, 64<<30)
	l.Temp = cmp.Or(l.Temp, 2<<30)
	return l
}
