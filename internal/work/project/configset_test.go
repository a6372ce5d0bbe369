package project_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/project"
)

func TestSetConfig(t *testing.T) {
	for _, test := range []struct{ name, before, key, value, want string }{
		{"an empty file", "", "model", "anthropic:claude", "model: anthropic:claude\n"},
		{"a comment stays", "# mine\nmodel: a:b # old\nnotify: off\n", "model", "ollama:qwen3:8b", "# mine\nmodel: ollama:qwen3:8b\nnotify: off\n"},
		{"no line end", "notify: bell", "model", "a:b", "notify: bell\nmodel: a:b\n"},
		{"a value that needs quotes", "", "hub", "a: b", "hub: \"a: b\"\n"},
		{"no such key", "", "theme", "x", "error: no key theme"},
		{"a typo", "", "modle", "a:b", "error: no key modle with one value; did you mean golem config set model a:b?"},
		{"a list", "", "roots", "/x", "error: no key roots"},
		{"a wrong word", "", "notify", "loud", "error: notify"},
		{"two lines", "", "model", "a:b\nnetwork: on", "error: no value"},
		{"braces", "{model: a:b}\n", "model", "c:d", "error: golem config edit --user"},
		{"another key in braces", "{model: a:b}\n", "notify", "off", "error: golem config edit --user"},
	} {
		got, err := project.SetConfig("config.yaml", []byte(test.before), "", nil, test.key, test.value)
		if want, fails := strings.CutPrefix(test.want, "error: "); fails {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %q, %v, want an error with %q", test.name, got, err, want)
			}
		} else if err != nil || string(got) != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}
