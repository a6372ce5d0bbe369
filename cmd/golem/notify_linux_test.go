package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// notifiers returns the processes of golem notify with a state directory.
func notifiers(state string) (list []*os.Process) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range files {
		line, _ := os.ReadFile(name)
		if !strings.Contains(string(line), "\x00--waiting\x00") || !strings.Contains(string(line), "\x00"+state+"\x00") {
			continue
		}
		id := 0
		for _, digit := range filepath.Base(filepath.Dir(name)) {
			id = 10*id + int(digit-'0')
		}
		if p, err := os.FindProcess(id); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// TestNotifyElsewhere checks that a webhook that hangs holds up nothing, that the user hears of each call
// once, and that the message has no path and no content.
func TestNotifyElsewhere(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	state := filepath.Join(home, "state")
	u := &deskUser{t: t, dir: t.TempDir(), environ: append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=", "GOLEM_STATE="+state)}
	held, asked := make(chan struct{}), make(chan struct{}, 100)
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-held }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(held) })
	patience := time.Now().Add(5 * time.Minute)
	ended := func() bool { return len(notifiers(state)) == 0 }
	await := func(what string, is func() bool) {
		t.Helper()
		for !is() {
			if time.Now().After(patience) {
				t.Fatalf("not within five minutes: %s", what)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	end := func() {
		t.Helper()
		await("the end of golem notify", func() bool {
			for _, p := range notifiers(state) {
				p.Kill()
			}
			return ended()
		})
	}
	t.Cleanup(end)
	told := filepath.Join(home, "told")
	lines := func() []string {
		text, _ := os.ReadFile(told)
		return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	tell, config := filepath.Join(home, "tell"), filepath.Join(home, ".config", "golem", "config.yaml")
	write(tell, "#!/bin/sh\n{ cat; echo; } >> "+told+"\n", 0o755)
	u.mustGolem(0, ".", "init", "notes")

	write(config, "notify: {show: off, command: ["+tell+"], webhook: '"+hangs.URL+"/secret'}\n", 0o600)
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/salaries.md", "--content", "canary\n")
	await("the webhook was asked", func() bool { return len(asked) > 0 })
	await("the command told", func() bool { return strings.HasSuffix(lines()[0], "}") })
	if want := `{"text":"1 call waits for you in notes, low risk: write_file","tools":["write_file"],"directory":"notes","risk":"low"}`; lines()[0] != want {
		t.Errorf("got %s, want %s", lines()[0], want)
	}
	end()

	// golem has not sent the first call by all channels, so it sends it again, and then the
	// second. The content is there because the user wants it.
	write(config, "notify: {show: off, command: ["+tell+"], content: true}\n", 0o600)
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/second.md", "--content", "canary\n")
	rest := func() string { return strings.Join(lines()[1:], "") }
	await("both calls", func() bool { return strings.Contains(rest(), "/out/second.md") && ended() })
	if got := rest(); strings.Count(got, "/out/salaries.md") != 2 || strings.Count(got, "/out/second.md") != 2 || strings.Contains(got, "canary") { // in the text and the titles
		t.Errorf("got %s", got)
	}
}
