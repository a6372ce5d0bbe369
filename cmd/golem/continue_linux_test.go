package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestContinueAsks checks that a command in a session that continues gets more of the network
// only if the user says yes at a terminal. golem asks once, also after a declined question, and
// records the answer in the journal.
func TestContinueAsks(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "echo b > a.txt")
	start := func(args ...string) { p.startAt(120, append([]string{"exec", "-c"}, args...)...) }
	start("--net", "api.example.com", "echo", "ran")
	p.answer("network: api.example.com", "n\r")
	if code, seen := p.waitForEnd(); code != 3 || strings.Contains(seen, "\nran") || !strings.Contains(seen, "--net off continues with what it has; --session new starts another session") {
		t.Errorf("declined: code %d\n%s", code, seen)
	}
	if out, code := p.golem("exec", "-c", "--net", "api.example.com", "echo", "ran"); code != 3 || strings.Contains(out, "\nran") {
		t.Errorf("without a terminal: code %d\n%s", code, out)
	}
	start("--net", "api.example.com", "echo", "ran")
	p.answer("You are about to give the command more than session", "y\r")
	if code, seen := p.waitForEnd(); code != 0 || !strings.Contains(seen, "ran") {
		t.Errorf("approved: code %d\n%s", code, seen)
	}
	for _, args := range [][]string{{"--net", "api.example.com"}, {"--net", "off"}} { // the same, and less
		if out, code := p.golem(append(append([]string{"exec", "-c"}, args...), "echo", "ran")...); code != 0 || !strings.Contains(out, "ran") {
			t.Errorf("%q after the approval: code %d\n%s", args, code, out)
		}
	}
	for _, more := range [][]string{{"--net", "on"}, {"--net", "api.example.com,*.example.com"}, {"--net", "api.example.com:8443"}, {"--env", "HOME"}, {"--env", "MY_TOKEN=x"}} {
		if out, code := p.golem(append(append([]string{"exec", "-c"}, more...), "echo", "ran")...); code != 3 || strings.Contains(out, "\nran") {
			t.Errorf("%q: code %d\n%s", more, code, out)
		}
	}
	if out, code := p.golem("audit", "show"); code != 0 || !strings.Contains(out, "golem continue") {
		t.Errorf("the journal lacks the answers: code %d\n%s", code, out)
	}

	i := slices.IndexFunc(p.env, func(e string) bool { return strings.HasPrefix(e, "GOLEM_STATE=") && !slices.Contains(os.Environ(), e) })
	state := strings.TrimPrefix(p.env[i], "GOLEM_STATE=")

	// A record that is missing or damaged permits nothing.
	files, err := filepath.Glob(filepath.Join(state, "*", "sessions", "*", "rights.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	for _, text := range []string{"", "{", `{"all_hosts":true,"until":"monday"}`, `{"all_hosts":true} {}`, "null x"} {
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code := p.golem("exec", "-c", "echo", "ran"); code != 3 || strings.Contains(out, "\nran") || !strings.Contains(out, "golem has no record of what the session began with") {
			t.Errorf("%q: code %d\n%s", text, code, out)
		}
	}
}
