package profile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/secret"
)

// TestKeys checks that every key of a built-in profile can be used, and is for the vendor's
// hosts only.
func TestKeys(t *testing.T) {
	for _, p := range profiles("/home/me", noVariables) {
		if p.Net != (len(p.Outside) > 0) {
			t.Errorf("%s needs the network: %v, and has %d keys", p.Name, p.Net, len(p.Outside))
		}
		for _, k := range p.Outside {
			where := p.Name + ": " + k.Source()
			if why := secret.CheckHeader(k.Header); why != "" || k.Name == "" || len(k.Hosts) == 0 {
				t.Errorf("%s: %+v: %s", where, k, why)
			}
			if k.Variable != "" && !slices.Contains(p.Keys, k.Variable) || k.Secret != "" && !slices.Contains(p.Keys, k.As) {
				t.Errorf("%s is not among the credentials of the profile", where)
			}
			if k.Server != "" && !slices.Contains(p.Env, k.Server) {
				t.Errorf("%s: the program does not get %s", where, k.Server)
			}
			if k.File != "" && (!slices.Contains(p.Logins, k.File) || k.Field == "") {
				t.Errorf("%s is no login of the profile", where)
			}
			if v, ok := secret.VendorOf(k.Variable, k.Secret); ok {
				for _, host := range k.Hosts {
					within := policy.Grant{Hosts: policy.HostsOf(host)}.Within(policy.Grant{Hosts: policy.HostsOf(v.Hosts...)})
					if len(within) > 0 {
						t.Errorf("%s goes to %s, which is not a host of %s", where, host, v.Name)
					}
				}
			} else if k.Variable+k.Secret != "" {
				t.Errorf("%s is of no vendor", where)
			}
		}
	}
}

func TestParseServer(t *testing.T) {
	for text, want := range map[string]string{
		"https://gateway.example/v1":    "gateway.example:443 false",
		"http://127.0.0.1:8080":         "127.0.0.1:8080 true",
		"http://localhost:11434/v1":     "127.0.0.1:11434 true",
		" https://Gateway.Example:444 ": "gateway.example:444 false",
		"http://[2001:db8::1]:80":       "[2001:db8::1]:80 true",
		"":                              "none",
		"gateway.example":               "none",
		"ftp://gateway.example":         "none",
		"https://*/":                    "none",
		"https://a.example:0/":          "none",
		"https://a.example,b.example/":  "none",
	} {
		r, plain, ok := parseServer(text)
		got := "none"
		if ok {
			got = fmt.Sprint(r.String(), " ", plain)
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// TestLogins checks which logins golem finds, and that the program gets nothing of them.
func TestLogins(t *testing.T) {
	const canary = "canary-0123456789"
	none := func(string) (string, error) { return "", errors.New("none") }
	placeholder := func(value string) (string, error) { return strings.Repeat("x", len(value)), nil }
	for _, c := range []struct {
		profile string
		env     string            // NAME=value, …
		files   map[string]string // of the home
		want    string            // source and hosts of the logins
		warn    string            // files that may still have credentials
	}{
		{"claude", "ANTHROPIC_API_KEY=" + canary, nil, "$ANTHROPIC_API_KEY api.anthropic.com", ""},
		{"claude", "ANTHROPIC_API_KEY=" + canary + ",ANTHROPIC_AUTH_TOKEN=tok-" + canary, nil, "$ANTHROPIC_AUTH_TOKEN api.anthropic.com", ""},
		{"claude", "ANTHROPIC_API_KEY=short", nil, "", ""},
		{"claude", "ANTHROPIC_API_KEY=" + canary + ",ANTHROPIC_BASE_URL=https://mine.example", nil, "$ANTHROPIC_API_KEY mine.example:443", ""},
		{"claude", "ANTHROPIC_API_KEY=" + canary + ",ANTHROPIC_BASE_URL=nonsense", nil, "$ANTHROPIC_API_KEY", ""},
		{"claude", "", map[string]string{".claude.json": `{"primaryApiKey": "` + canary + `", "theme": "dark"}`}, "the login in ~/.claude.json api.anthropic.com", ""},
		{"claude", "", map[string]string{".claude/.credentials.json": canary}, "", ".claude/.credentials.json"}, // no known format
		{"claude", "", map[string]string{".claude/.credentials.json": `token = "` + canary + `"`}, "", ".claude/.credentials.json"},
		{"claude", "", map[string]string{".claude/settings.json": `{"env": {"ANTHROPIC_API_KEY": "` + canary + `"}}`}, "the login in ~/.claude/settings.json api.anthropic.com", ""},
		{"codex", "", map[string]string{".codex/auth.json": `{"OPENAI_API_KEY": null, "tokens": {"access_token": "` + canary + `", "refresh_token": "r-` + canary + `", "account_id": "1"}}`},
			"the login in ~/.codex/auth.json chatgpt.com", ""},
		{"codex", "OPENAI_API_KEY=" + canary, map[string]string{".codex/config.toml": "[mcp_servers.x.env]\nX_TOKEN = \"0123456789\"\n"}, "$OPENAI_API_KEY api.openai.com", ".codex/config.toml"},
		{"gemini", "", map[string]string{".gemini/.env": "export GEMINI_API_KEY='" + canary + "'\n# x\n"}, "the login in ~/.gemini/.env generativelanguage.googleapis.com", ""},
		{"opencode", "OPENAI_API_KEY=" + canary, map[string]string{".local/share/opencode/auth.json": `{"anthropic": {"type": "oauth", "access": "a-` + canary + `", "refresh": "r-` + canary + `"}}`},
			"$OPENAI_API_KEY api.openai.com, the login in ~/.local/share/opencode/auth.json api.anthropic.com", ""},
		{"opencode", "", map[string]string{".config/opencode/opencode.json": `{"provider": {"x": {"options": {"apiKey": "{env:X_API_KEY}"}}}}`}, "", ""},
		{"opencode", "", map[string]string{".config/opencode/opencode.json": `{"provider": {"x": {"options": {"apiKey": "0123456789"}}}}`}, "", ".config/opencode/opencode.json"},
		{"pi", "", map[string]string{".pi/agent/auth.json": `{"openai": {"type": "api_key", "key": "` + canary + `"}}`}, "the login in ~/.pi/agent/auth.json api.openai.com", ""},
		{"aider", "DEEPSEEK_API_KEY=" + canary, nil, "$DEEPSEEK_API_KEY api.deepseek.com", ""},
		{"python", "OPENAI_API_KEY=" + canary, nil, "", ""},
	} {
		home := t.TempDir()
		writeFiles(t, home, c.files)
		getenv := func(name string) string {
			for one := range strings.SplitSeq(c.env, ",") {
				if n, value, _ := strings.Cut(one, "="); n == name {
					return value
				}
			}
			return ""
		}
		p, err := User{Home: home, Getenv: getenv}.ProfileFor(c.profile, "")
		if err != nil {
			t.Fatal(err)
		}
		logins := p.FindLogins(getenv, none)
		var got []string
		var known []Replacement
		for _, l := range logins {
			text := l.Source()
			for _, r := range l.Rules {
				r.Credential = ""
				text += " " + r.String()
			}
			got = append(got, text)
			known = append(known, Replacement{l.Value, strings.Repeat("p", len(l.Value))})
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s %s: got logins %q, want %q", c.profile, c.env, text, c.want)
		}
		hidden := p.WithoutKeys(logins, known, placeholder, getenv)
		for _, name := range hidden.Keys {
			if len(p.Outside) > 0 && strings.Contains(getenv(name), canary) {
				t.Errorf("%s %s: it gets %s", c.profile, c.env, name)
			}
		}
		var warn []string
		for _, file := range hidden.Logins {
			if !slices.Contains(hidden.Hidden, file) && len(p.Outside) > 0 {
				warn = append(warn, file)
			}
		}
		if text := strings.Join(warn, ", "); text != c.warn {
			t.Errorf("%s %v: got a warning about %q, want %q", c.profile, c.files, text, c.warn)
		}
		for name, text := range fillHome(t, hidden, t.TempDir(), t.TempDir()) {
			if strings.Contains(text, canary) && len(c.want) > 0 {
				t.Errorf("%s: the program gets %s: %s", c.profile, filepath.Base(name), text)
			}
		}
	}
}

// TestNeeds checks the hosts that a program has without --net.
func TestNeeds(t *testing.T) {
	const git, hello = ", github.com (git read), gitlab.com (git read)", ", platform.claude.com (GET, HEAD)"
	for _, c := range []struct{ profile, env, want, private, instead string }{
		{"claude", "", git[len(", "):] + hello, "", ""}, // with a key of its own, it could send everything to the vendor
		{"claude", "ANTHROPIC_API_KEY=0123456789", "api.anthropic.com (credential anthropic)" + git + hello, "", ""},
		{"claude", "ANTHROPIC_BASE_URL=http://gateway.corp", "gateway.corp:80" + git + hello, "gateway.corp", "api.anthropic.com"},
		{"claude", "ANTHROPIC_BASE_URL=http://127.0.0.1:8080", "127.0.0.1:8080" + git + hello, "", "api.anthropic.com"},
		{"qwen", "OPENAI_BASE_URL=http://127.0.0.1:8080", "127.0.0.1:8080" + git, "", "api.openai.com"},
		{"opencode", "GROQ_API_KEY=0123456789", "api.groq.com (credential groq)" + git + ", models.dev (GET, HEAD), models.opencode.ai (GET, HEAD)", "", ""},
		{"python", "", "", "", ""},
		{"plain", "", "", "", ""},
	} {
		getenv := func(name string) string {
			value, _ := strings.CutPrefix(c.env, name+"=")
			if value == c.env {
				return ""
			}
			return value
		}
		p, err := User{Home: t.TempDir(), Getenv: getenv}.ProfileFor(c.profile, "")
		if err != nil {
			t.Fatal(err)
		}
		n := p.Needs(p.FindLogins(getenv, func(string) (string, error) { return "", errors.New("none") }), getenv)
		got := strings.Join(policy.HostsOfRules(n.Rules...).Patterns(), ", ")
		if got != c.want || strings.Join(n.Private, ",") != c.private || strings.Join(n.Instead, ",") != c.instead {
			t.Errorf("%s %s: got %s, %q, %q, want %s, %s, %s", c.profile, c.env, got, n.Private, n.Instead, c.want, c.private, c.instead)
		}
	}
}

// TestLocalServers checks that golem finds the addresses of this machine in the settings of
// an agent.
func TestLocalServers(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{
		".codex/config.toml": "[model_providers.local]\nbase_url = \"http://localhost:11434/v1\"\nother = \"http://127.0.0.1:11434/x\"\nremote = \"http://localhost.example.org/\"\nodd = \"http://localhost:99999/\"\n",
		".codex/auth.json":   `{"OPENAI_API_KEY": "x", "url": "https://[::1]/"}`,
	} {
		file := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := User{Home: home, Getenv: noVariables}.ProfileFor("codex", "")
	if err != nil {
		t.Fatal(err)
	}
	want := []LocalServer{{".codex/auth.json", "https://[::1]", 443}, {".codex/config.toml", "http://localhost:11434", 11434}}
	if got := p.LocalServers(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
