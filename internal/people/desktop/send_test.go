package desktop_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/people/desktop"
)

// at returns an address of a test server with more of it.
func at(s *httptest.Server, user, path string) string {
	return strings.Replace(s.URL, "http://", "http://"+user, 1) + path
}

// TestWebhookForms checks what a webhook of each form gets.
func TestWebhookForms(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization") + " " + r.Header.Get("Title") + " " + r.Header.Get("Click") + " " + string(body)
	}))
	defer server.Close()
	notice := desktop.Notice{Text: "1 call waits <@all> & more", Tools: []string{"write_file"}, Risk: "high", Link: "https://desk.example/"}
	for _, one := range []struct{ form, user, want string }{
		{"", "", `POST /x    {"text":"1 call waits \u003c@all\u003e \u0026 more","tools":["write_file"],"risk":"high","link":"https://desk.example/"}`},
		{"ntfy", ":tk@", "POST /x Bearer tk golem https://desk.example/ 1 call waits <@all> & more"},
		{"slack", "", `POST /x    {"text":"1 call waits \u0026lt;@all\u0026gt; \u0026amp; more"}`},
		{"discord", "u:p@", `POST /x Basic dTpw   {"allowed_mentions":{"parse":[]},"content":"1 call waits \u003c@all\u003e \u0026 more"}`},
		{"matrix", ":tk@", `{"body":"1 call waits \u003c@all\u003e \u0026 more","msgtype":"m.text"}`},
	} {
		if err := (desktop.Channels{Webhook: at(server, one.user, "/x"), Form: one.form}).Send(t.Context(), notice); err != nil {
			t.Errorf("%s: %v", one.form, err)
		}
		if one.form == "matrix" && !(strings.HasPrefix(got, "PUT /x/") && strings.Contains(got, "Bearer tk") && strings.HasSuffix(got, one.want)) || one.form != "matrix" && got != one.want {
			t.Errorf("%s: got %s", one.form, got)
		}
	}
}

// TestWebhookFails checks that golem follows no redirect, gives up after a number of attempts,
// stops when nothing waits any more, and never prints the address.
func TestWebhookFails(t *testing.T) {
	asked, led := 0, 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { led++ }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.URL.Path == "/moved-secret" {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	var waited time.Duration
	c := desktop.Channels{Webhook: server.URL + "/hook-secret", Pause: func(_ context.Context, d time.Duration) error { waited += d; return nil }}
	err := c.Deliver(t.Context(), func() (desktop.Notice, bool) { return desktop.Notice{}, true })
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "500") || asked != 6 || waited < 50*time.Minute || waited > 70*time.Minute {
		t.Errorf("after %d attempts and %s: %v", asked, waited, err)
	}
	asked = 0
	if err := c.Deliver(t.Context(), func() (desktop.Notice, bool) { return desktop.Notice{}, asked < 2 }); err != nil || asked != 2 {
		t.Errorf("when nothing waits any more: %d attempts, %v", asked, err)
	}
	c.Webhook = server.URL + "/moved-secret"
	if err := c.Send(t.Context(), desktop.Notice{}); err == nil || led != 0 || !strings.Contains(err.Error(), "follows no redirect") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a redirect: %v, and golem followed it %d times", err, led)
	}
	c.Webhook = "http://:secret@127.0.0.1:1/secret"
	if err := c.Send(t.Context(), desktop.Notice{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("nobody listens: %v", err)
	}
}

// TestWebhookHangs checks that golem does not wait for a server that never answers, and sends
// by the other channels.
func TestWebhookHangs(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the test programs are shell scripts")
	}
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	defer server.Close()
	defer close(held)
	dir := t.TempDir()
	for name, to := range map[string]string{"tell": "told", "sendmail": "mailed"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n{ echo \"$*\"; cat; } > "+filepath.Join(dir, to)+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tried := 0
	c := desktop.Channels{Webhook: server.URL, Command: []string{filepath.Join(dir, "tell"), "-x"}, Mail: "me@example.org", Directories: []string{dir}, Environ: []string{"PATH=/bin:/usr/bin"}, Pause: func(context.Context, time.Duration) error {
		if tried++; tried == 2 {
			return errors.New("the test ends")
		}
		return nil
	}}
	if err := c.Deliver(t.Context(), func() (desktop.Notice, bool) { return desktop.Notice{Text: "1 call waits é"}, true }); err == nil || tried != 2 {
		t.Errorf("%d attempts, %v", tried, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "told")); string(got) != "-x\n{\"text\":\"1 call waits é\"}" {
		t.Errorf("the command got %q, %v", got, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "mailed")); !strings.HasPrefix(string(got), "-i -- me@example.org\nTo: me@example.org\nSubject: =?utf-8?q?golem:_1_call_waits_=C3=A9?=\n") || !strings.HasSuffix(string(got), "\n\n1 call waits é\n") {
		t.Errorf("sendmail got %q, %v", got, err)
	}
}
