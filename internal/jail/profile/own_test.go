package profile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// ownUser returns a user with own profiles.
func ownUser(t *testing.T, files map[string]string) User {
	t.Helper()
	u := User{Home: t.TempDir(), Getenv: noVariables, Profiles: t.TempDir()}
	writeFiles(t, u.Profiles, files)
	return u
}

// TestOwnProfile checks the profiles that a user writes.
func TestOwnProfile(t *testing.T) {
	u := ownUser(t, map[string]string{
		"aider.yaml": `description: aider with my key
programs: [aider-chat]
files: [.config/aider/conventions.md]
env: [AIDER_MODEL, AIDER_CHECK_UPDATE=false]
credentials:
  files: [.config/aider/keys/oauth.json]
  env: [OPENAI_API_KEY]
  keep: [.config/aider/keys/history]
network: true
hosts: [api.example.com]
optional: [Stats.example.com, "more.example.com:443"]
`,
		"claude.yaml":  "extends: claude\nenv: [MY_VARIABLE]\n",
		"mine.yaml":    "extends: claude\ncredentials: {files: [.claude/more/token], keep: [.claude/shell-snapshots]}\n",
		"outside.yaml": "hosts: [api.example.com]\ncredentials: {outside: [{from: env:MY_KEY, header: 'X-Key: ${value}', hosts: [key.example.com]}]}\n",
		"notes.txt":    "not a profile",
	})
	writeFiles(t, u.Home, map[string]string{".config/aider/conventions.md": "be short\n", ".config/aider/keys/oauth.json": "secret\n", ".claude/.credentials.json": "claude's", ".claude/more/token": "t"})

	for program, want := range map[string]string{"aider": "aider", "/usr/local/bin/aider-chat": "aider", "claude": "claude", "codex": "codex", "other": "plain"} {
		if p, err := u.ProfileFor("", program); err != nil || p.Name != want {
			t.Errorf("%s: got %q, %v, want %q", program, p.Name, err, want)
		}
	}

	p, err := u.ProfileFor("aider", "")
	if err != nil {
		t.Fatal(err)
	}
	if p.About != "aider with my key" || !p.Net || p.File == "" || !slices.Equal(p.Set, []string{"AIDER_CHECK_UPDATE=false"}) || !slices.Equal(p.Env, []string{"AIDER_MODEL"}) ||
		!slices.Equal(p.Keys, []string{"OPENAI_API_KEY"}) || !slices.Equal(p.Hosts, []string{"api.example.com"}) || !slices.Equal(p.Optional, []string{"stats.example.com", "more.example.com"}) {
		t.Errorf("got %+v", p)
	}
	for name, want := range map[string]string{"outside": "api.example.com", "claude": "github.com (git read), gitlab.com (git read), platform.claude.com (GET, HEAD)"} {
		p, err := u.ProfileFor(name, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(policy.HostsOfRules(p.Needs(nil, noVariables).Rules...).Patterns(), ", "); got != want {
			t.Errorf("%s reaches %q, want %q", name, got, want)
		}
	}
	home, kept := t.TempDir(), t.TempDir()
	got := fillHome(t, p, home, kept)
	if got[".config/aider/conventions.md"] != "be short\n" || got[".config/aider/keys/oauth.json"] != "secret\n" {
		t.Errorf("got %q", got)
	}
	if disk := listFiles(t, home); disk[".config/aider/keys/oauth.json"] != "" {
		t.Error("a credential is on disk")
	}
	if _, ok := listFiles(t, kept)[".config/aider/keys/oauth.json"]; ok {
		t.Error("a credential is stored")
	}

	// An own profile replaces a built-in one, and can extend the one it replaces.
	if p, err = u.ProfileFor("", "claude"); err != nil || p.File == "" || !slices.Contains(p.Env, "MY_VARIABLE") || !slices.Contains(p.Logins, ".claude/.credentials.json") {
		t.Errorf("claude: got %+v, %v", p, err)
	}
	if p, err = u.ProfileFor("mine", ""); err != nil || len(p.Private) != 1 || !slices.Contains(p.Private[0].Keeps, "shell-snapshots") {
		t.Errorf("mine: got %+v, %v", p.Private, err)
	}
	if all, err := u.All(); err != nil || len(all) != 2+len(profiles("", noVariables)) {
		t.Errorf("got %d profiles, %v", len(all), err)
	}
	if _, err = u.ProfileFor("adier", ""); !errors.Is(err, sandbox.ErrNotFound) || !strings.Contains(err.Error(), "did you mean aider?") {
		t.Errorf("got %v", err)
	}
}

// TestOwnProfileRefused checks that every mistake in an own profile gives an error with
// the file, the line and what is allowed.
func TestOwnProfileRefused(t *testing.T) {
	for text, want := range map[string]string{
		"credential: {}":                                  "did you mean credentials",
		"files: [/etc/passwd]":                            "from your home directory",
		"files: [../other]":                               "from your home directory",
		"files: [.]":                                      "from your home directory",
		"files: [a/]":                                     "from your home directory",
		"files: [a/../b]":                                 "from your home directory",
		"files: [\"a\\nb\"]":                              "from your home directory",
		"credentials: {files: [.netrc]}":                  "credentials.env instead",
		"credentials: {env: [A=b]}":                       "letters, digits and _",
		"credentials: {keep: [.x/y]}":                     "below one that holds a credential",
		"credentials: {files: [a/b/c], keep: [a/b]}":      "below one that holds a credential",
		"credentials: {files: [a/b, a/c/d], keep: [a/c]}": "never keeps",
		"env: [1A]":                                       "letters, digits and _",
		"env: [A-B=c]":                                    "letters, digits and _",
		"env: [\"=x\"]":                                   "letters, digits and _",
		"extends: nothing":                                "built-in profiles are plain",
		"programs: [/usr/bin/x]":                          "without a directory",
		"hosts: [https://a.b]":                            "without scheme",
		"hosts: [\"*\"]":                                  "--net on is every host",
		"network: perhaps":                                "true",
		"- a":                                             "x.yaml",
	} {
		u := ownUser(t, map[string]string{"x.yaml": text + "\n"})
		for _, name := range []string{"x", ""} {
			_, err := u.ProfileFor(name, "x")
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "x.yaml:1") {
				t.Errorf("%s: got %v, want %q", text, err, want)
			}
		}
		if _, err := u.ProfileFor("claude", ""); err != nil {
			t.Errorf("%s: another profile by name: %v", text, err)
		}
	}
	if _, err := ownUser(t, map[string]string{"a b.yaml": ""}).ProfileFor("", "x"); err == nil || !strings.Contains(err.Error(), "rename the file") {
		t.Errorf("a name with a blank: got %v", err)
	}
	if _, err := ownUser(t, nil).ProfileFor("../x", ""); !errors.Is(err, sandbox.ErrNotFound) {
		t.Errorf("a name with a directory: got %v", err)
	}
}

// TestOwnProfileKeepsNoCredential checks that a directory, a symlink or a hard link
// among the files of a profile does not bring a credential to disk. The program still
// gets all files.
func TestOwnProfileKeepsNoCredential(t *testing.T) {
	for text, more := range map[string]string{
		"files: [.config/tool]":            ".config/tool/rules.md",
		"files: [.config]":                 ".config/tool/rules.md",
		"files: [.config/tool/auth.json]":  "",
		"files: [.config/alias]":           ".config/alias/rules.md",
		"files: [.config/same.json]":       "",
		"files: [.config/hard]":            ".config/hard/note",
		"files: [.config/tool/dir/inside]": "",
	} {
		u := ownUser(t, map[string]string{"x.yaml": text + "\ncredentials: {files: [.config/tool/auth.json, .config/tool/dir], keep: [.config/tool/chats]}\n"})
		writeFiles(t, u.Home, map[string]string{".config/tool/auth.json": "secret", ".config/tool/rules.md": "rules", ".config/tool/chats/one": "chat",
			".config/tool/dir/inside/token": "secret", ".config/hard/note": "note"})
		for _, err := range []error{
			os.Symlink("tool", filepath.Join(u.Home, ".config/alias")),
			os.Symlink("tool/auth.json", filepath.Join(u.Home, ".config/same.json")),
			os.Link(filepath.Join(u.Home, ".config/tool/auth.json"), filepath.Join(u.Home, ".config/hard/copy")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		p, err := u.ProfileFor("x", "")
		if err != nil {
			t.Fatal(err)
		}
		home, kept := t.TempDir(), t.TempDir()
		for range 2 { // a new home and an existing one
			got := fillHome(t, p, home, kept)
			if got[".config/tool/auth.json"] != "secret" || got[".config/tool/dir/inside/token"] != "secret" || more != "" && got[more] == "" {
				t.Errorf("%s: the program has %q", text, got)
			}
			for _, dir := range []string{home, kept} {
				for name, content := range listFiles(t, dir) {
					if content == "secret" {
						t.Errorf("%s: the credential is on disk, as %s", text, name)
					}
				}
			}
		}
	}
}
