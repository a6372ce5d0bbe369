package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem"
)

// TestService runs a command for a user, who applies what they have read.
func TestService(t *testing.T) {
	homes := t.TempDir()
	if err := os.Mkdir(filepath.Join(homes, "ann"), 0o700); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&service{homes: homes, state: t.TempDir(), workspaces: map[string]*golem.Workspace{}})
	defer server.Close()
	post := func(path, kind, body string) (int, string) {
		t.Helper()
		response, err := http.Post(server.URL+path, kind, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	exec := func(line string) (a answer) {
		t.Helper()
		args, _ := json.Marshal([]string{"sh", "-c", line})
		status, text := post("/ann", "application/json", string(args))
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK {
			t.Fatalf("got %d, %s", status, text)
		}
		return a
	}
	apply := func(digest string) int {
		t.Helper()
		status, text := post("/ann/apply", "application/x-www-form-urlencoded", url.Values{"digest": {digest}}.Encode())
		t.Log(text)
		return status
	}
	first := exec("echo one >a; echo out; exit 3")
	if first.Code != 3 || first.Stdout != "out\n" || len(first.Pages) != 1 || !strings.Contains(first.Pages[0], "+ one") {
		t.Errorf("got %+v", first)
	}
	second := exec("echo two >a")
	for name, digest := range map[string]string{"none": "", "that of an earlier answer": first.Digest} {
		if status := apply(digest); status != http.StatusConflict {
			t.Errorf("the digest is %s: got %d", name, status)
		}
	}
	if status := apply(second.Digest); status != http.StatusOK {
		t.Errorf("got %d", status)
	}
	if text, _ := os.ReadFile(filepath.Join(homes, "ann", "a")); string(text) != "two\n" {
		t.Errorf("got %q", text)
	}
	for _, user := range []string{"/bob", "/%2e%2e", "/Ann"} {
		if status, text := post(user, "application/json", `["true"]`); status == http.StatusOK {
			t.Errorf("%s: got %s", user, text)
		}
	}
}
