package forge

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// A Profile is what a program needs besides the folders it works on. It is shown
// before the program starts.
type Profile struct {
	Name   string
	About  string
	Mounts []Folder // folders of the host, to be read
	Copies []string // of the user's home, copied into the empty one when that is new
	Env    []string // names of variables that are passed on
	Set    []string // NAME=value
	Net    bool     // it is of no use without the network

	home string
}

// profiles returns those that there are, for a user's home.
func profiles(home string) []Profile {
	cache := func(rel, target string) Folder {
		return Folder{Source: filepath.Join(home, rel), Target: target, Mode: "ro"}
	}
	return []Profile{
		{Name: "plain", About: "a shell or any other program, with nothing of yours"},
		{Name: "git", About: "git with your name, without credentials", Copies: []string{".gitconfig"}},
		{Name: "go", About: "the Go tool chain, with the modules that you have",
			Mounts: []Folder{cache("go/pkg/mod", "/cache/go-mod")}, Set: []string{"GOMODCACHE=/cache/go-mod", "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local"}},
		{Name: "node", About: "Node and npm, with the cache that you have", Mounts: []Folder{cache(".npm", "/cache/npm")}, Set: []string{"npm_config_prefer_offline=true"}},
		{Name: "python", About: "Python and pip, with the cache that you have", Mounts: []Folder{cache(".cache/pip", "/cache/pip")}},
		{Name: "claude", About: "Claude Code", Net: true, Copies: []string{".gitconfig", ".claude.json", ".claude/settings.json", ".claude/.credentials.json", ".claude/CLAUDE.md"},
			Env: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"}, Set: []string{"DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1"}},
		{Name: "codex", About: "Codex CLI", Net: true, Copies: []string{".gitconfig", ".codex/config.toml", ".codex/auth.json", ".codex/AGENTS.md"},
			Env: []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY"}},
		{Name: "gemini", About: "Gemini CLI", Net: true, Copies: []string{".gitconfig", ".gemini/settings.json", ".gemini/oauth_creds.json", ".gemini/google_accounts.json"},
			Env: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"}},
		{Name: "opencode", About: "opencode", Net: true, Copies: []string{".gitconfig", ".config/opencode/opencode.json", ".local/share/opencode/auth.json"},
			Env: []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"}},
		{Name: "crush", About: "crush", Net: true, Copies: []string{".gitconfig", ".config/crush/crush.json", ".local/share/crush/crush.json"},
			Env: []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"}},
	}
}

// ProfileFor returns the profile of a name; where none is named, that of the program,
// and for others the plain one.
func ProfileFor(name, program, home string) (Profile, error) {
	list := profiles(home)
	asked := name
	if asked == "" {
		asked = filepath.Base(program)
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
		if p.Name == asked {
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
	return Profile{}, &sandbox.Error{Op: "profile", Path: name, Code: sandbox.ErrNotFound, Hint: hint}
}

// from makes the names of copies those of a home, and leaves out what is not there.
func (p Profile) from(home string) Profile {
	p.Copies = slices.Clone(p.Copies)
	p.Copies = slices.DeleteFunc(p.Copies, func(name string) bool {
		info, err := os.Stat(filepath.Join(home, name))
		return err != nil || !info.Mode().IsRegular()
	})
	p.Mounts = slices.DeleteFunc(slices.Clone(p.Mounts), func(f Folder) bool {
		_, err := os.Stat(f.Source)
		return err != nil
	})
	p.home = home
	return p
}

// fill copies into a home what the profile names and is not there yet.
func (p Profile) fill(home string) error {
	for _, name := range p.Copies {
		to := filepath.Join(home, name)
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(p.home, name))
		if err != nil {
			return plainError(name, err)
		}
		if name == ".gitconfig" {
			data = withoutCredentials(data)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return plainError(name, err)
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			return plainError(name, err)
		}
	}
	return nil
}

// withoutCredentials keeps of a git configuration the user's name and address.
func withoutCredentials(config []byte) []byte {
	var kept []string
	in := false
	for line := range strings.Lines(string(config)) {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "[") {
			in = strings.EqualFold(text, "[user]")
			if in {
				kept = append(kept, "[user]")
			}
			continue
		}
		key, _, _ := strings.Cut(text, "=")
		if key = strings.ToLower(strings.TrimSpace(key)); in && (key == "name" || key == "email") {
			kept = append(kept, "\t"+text)
		}
	}
	return []byte(strings.Join(append(kept, ""), "\n"))
}
