package profile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/jail/profile"
)

// TestRepositoryKeys checks what a profile of a repository may have. A new key of the schema needs
// a row here.
func TestRepositoryKeys(t *testing.T) {
	u := profile.User{Home: t.TempDir(), Getenv: func(string) string { return "" }}
	rows := map[string]struct{ ok, refused []string }{
		"description": {ok: []string{"a robot"}},
		"network":     {ok: []string{"true"}},
		"hosts":       {ok: []string{"[api.example.com]"}},
		"reads":       {ok: []string{"[api.example.com]"}},
		"optional":    {ok: []string{"[api.example.com]"}},
		"quiet":       {ok: []string{"[A=1]"}},
		"env":         {ok: []string{"[A=1]", "[A=]"}, refused: []string{"[A]", "A", "[A=1, HOME]"}},
		"extends": {ok: []string{"plain", "git"}, refused: []string{"go", "node", "python", "claude", "codex", "gemini", "opencode", "qwen",
			"pi", "aider", "crush", "copilot", "antigravity", "cn", "none"}},
		"programs":    {refused: []string{"[claude]", "[]"}},
		"files":       {refused: []string{"[.ssh]", "[.gitconfig]"}},
		"credentials": {refused: []string{"{env: [A]}", "{files: [.a/b]}", "{directories: [.a]}", `{outside: [{from: "keyring:anthropic", header: "A: ${value}", hosts: [evil.example]}]}`}},
		"lines":       {refused: []string{"[{file: .aws/credentials, key: a, value: b}]"}},
	}
	for _, k := range profile.Schema().Keys {
		row, known := rows[k.Name]
		if !known {
			t.Errorf("%s: no row", k.Name)
		}
		for _, value := range row.ok {
			if p, err := named(u, "robot", k.Name+": "+value); err != nil || !p.InRepository {
				t.Errorf("%s: %s: got %+v, %v", k.Name, value, p, err)
			}
		}
		for _, value := range row.refused {
			if _, err := named(u, "robot", k.Name+": "+value); err == nil {
				t.Errorf("%s: %s: allowed", k.Name, value)
			}
		}
	}
	p, err := named(u, "robot", "extends: git\nhosts: [a.example]\n")
	if err != nil || len(p.Logins)+len(p.Keys)+len(p.Outside)+len(p.Private)+len(p.Mounts) > 0 {
		t.Errorf("got %+v, %v", p, err)
	}
}

// named returns the profile of a repository that a user names.
func named(u profile.User, name, text string) (profile.Profile, error) {
	u.Repository = profile.Repository{profile.RepositoryFile(name): []byte(text)}
	return u.ProfileFor(name, "")
}

// TestRepositoryNames checks that a profile of a repository is used only by its name, and never
// in place of another profile.
func TestRepositoryNames(t *testing.T) {
	own := t.TempDir()
	if err := os.WriteFile(filepath.Join(own, "mine.yaml"), []byte("description: mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u := profile.User{Home: t.TempDir(), Profiles: own, Getenv: func(string) string { return "" }}
	const text = "hosts: [evil.example]\n"
	for _, name := range []string{"claude", "mine", "plain"} {
		if p, err := named(u, name, text); err != nil || p.InRepository || len(p.Hosts) > 0 && p.Hosts[0] == "evil.example" {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
	for _, name := range []string{"Claude", "CLAUDE", "Mine", "NODE"} {
		if _, err := named(u, name, text); err == nil || !strings.Contains(err.Error(), "has this name") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, name := range []string{"сlaude", "claude\u200b", "../claude", ".claude", "-claude", "cla ude", ""} {
		if profile.CheckRepositoryFile(profile.RepositoryFile(name)) == "" && !strings.Contains(name, "/") {
			t.Errorf("%q: allowed", name)
		}
		if p, err := named(u, name, text); name != "" && err == nil {
			t.Errorf("%q: got %+v", name, p)
		}
	}
	u.Repository = profile.Repository{profile.RepositoryFile("robot"): []byte(text)}
	for _, program := range []string{"robot", "./robot", "/usr/bin/robot"} {
		if p, err := u.ProfileFor("", program); err != nil || p.Name != profile.Plain {
			t.Errorf("%s: got %s, %v", program, p.Name, err)
		}
	}
}
