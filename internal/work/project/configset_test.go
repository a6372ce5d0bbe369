package project_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/project"
)

func TestConfigEdit(t *testing.T) {
	for _, test := range []struct{ name, before, key, value, want string }{
		{"an empty file", "", "model", "anthropic:claude", "model: anthropic:claude\n"},
		{"a comment stays", "# mine\nmodel: a:b # old\nnotify: off\n", "model", "ollama:qwen3:8b", "# mine\nmodel: ollama:qwen3:8b\nnotify: off\n"},
		{"no line end", "notify: bell", "model", "a:b", "notify: bell\nmodel: a:b\n"},
		{"a value that needs quotes", "", "hub", "a: b", "hub: \"a: b\"\n"},
		{"no such key", "", "theme", "x", "error: no key theme"},
		{"a typo", "", "modle", "a:b", "error: no key modle that it can set; did you mean golem config set model a:b?"},
		{"a map", "", "credentials", "x", "error: no key credentials"},
		{"a new list", "", "roots", "/x", "roots: [/x]\n"},
		{"more of a list", "roots: [/a] # mine\nnotify: off\n", "roots", "/b", "roots: [/a, /b] # mine\nnotify: off\n"},
		{"lines of a list", "roots:\n  # first\n  - /a # one\n  - /b\n# end\nnotify: off\n", "roots", "/c", "roots:\n  # first\n  - /a # one\n  - /b\n  - /c\n# end\nnotify: off\n"},
		{"again", "roots: [/a]\n", "roots", "/a", "error: has /a already"},
		{"a value in a group", "theme:\n  # why\n  color: never\n", "theme.color", "auto", "theme:\n  # why\n  color: auto\n"},
		{"a new group", "notify: off", "theme.color", "never", "notify: off\ntheme:\n  color: never\n"},
		{"a new key of a group", "tools:\n    deny: [shell]\n", "tools.allow", "filesystem", "error: filesystem"},
		{"a group in braces", "theme: {color: never}\n", "theme.color", "auto", "error: golem config edit"},
		{"brackets in a text", "roots: [\"/a]\", /b]\n", "roots", "/c", "roots: [\"/a]\", /b, /c]\n"},
		{"injection", "roots: [/a]\n", "roots", "/b], network: [on", "roots: [/a, \"/b], network: [on\"]\n"},
		{"several lines", "roots: [/a,\n  /b]\n", "roots", "/c", "error: golem config edit"},
		{"a wrong word", "", "notify", "loud", "error: notify"},
		{"two lines", "", "model", "a:b\nnetwork: on", "error: no value"},
		{"braces", "{model: a:b}\n", "model", "c:d", "error: golem config edit --user"},
		{"another key in braces", "{model: a:b}\n", "notify", "off", "error: golem config edit --user"},
	} {
		got, err := project.ConfigEdit{Schema: project.ConfigSchema(), File: "config.yaml", Key: test.key, Value: test.value}.Apply([]byte(test.before))
		if err == nil {
			_, err = project.ParseConfig("config.yaml", got, "", nil)
		}
		if want, fails := strings.CutPrefix(test.want, "error: "); fails {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %q, %v, want an error with %q", test.name, got, err, want)
			}
		} else if err != nil || string(got) != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}

// TestConfigEditOfLists adds to lists of a project file, and removes from them.
func TestConfigEditOfLists(t *testing.T) {
	for _, test := range []struct {
		name, before, key, value string
		remove                   bool
		want                     string
	}{
		{"a new block", "model: a:b\n", "network.allow", "*.example.com:8443", false, "model: a:b\nnetwork:\n  allow: [\"*.example.com:8443\"]\n"},
		{"a preset", "network:\n  allow:\n    - a.example.com\n", "network.presets", "npm", false, "network:\n  presets: [npm]\n  allow:\n    - a.example.com\n"},
		{"beside a map", "network:\n  allow:\n    - {host: a.example.com, git: read}\n", "network.allow", "b.example.com", false, "error: golem config edit"},
		{"before a map", "network:\n  allow:\n    - {host: a.example.com}\n    - c.example.com\n", "network.allow", "b.example.com", false, "network:\n  allow:\n    - {host: a.example.com}\n    - c.example.com\n    - b.example.com\n"},
		{"all hosts", "network: on\n", "network.allow", "b.example.com", false, "error: network is no group"},
		{"remove a line", "network:\n  allow:\n    - a.example.com # why\n    - b.example.com\n", "network.allow", "a.example.com", true, "network:\n  allow:\n    - b.example.com\n"},
		{"remove in brackets", "network:\n  allow: [a.example.com, b.example.com] # two\n", "network.allow", "a.example.com", true, "network:\n  allow: [b.example.com] # two\n"},
		{"remove the last host", "network:\n  allow: [a.example.com]\n", "network.allow", "a.example.com", true, "network:\n  allow: []\n"},
		{"remove what is not there", "network:\n  allow: [a.example.com]\n", "network.allow", "b.example.com", true, "error: network.allow has no b.example.com"},
		{"remove from nothing", "", "network.allow", "b.example.com", true, "error: network.allow has no b.example.com"},
		{"remove the only preset", "network:\n  presets: [npm]\n", "network.presets", "npm", true, "error: only value"},
		{"remove a value", "model: a:b\n", "model", "a:b", true, "error: model is no list"},
	} {
		got, err := project.ConfigEdit{Schema: project.Schema(), File: "p.yaml", Key: test.key, Value: test.value, Remove: test.remove}.Apply([]byte(test.before))
		if want, fails := strings.CutPrefix(test.want, "error: "); fails {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %q, %v, want an error with %q", test.name, got, err, want)
			}
		} else if err != nil || string(got) != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}
