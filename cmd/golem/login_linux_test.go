package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A loginServer is an MCP server that wants a login, and the server of the login.
type loginServer struct {
	*httptest.Server
	inner http.Handler

	mu     sync.Mutex
	number int
	access string
	life   int // of a token, in seconds
	refuse bool
	tokens []string
}

func (s *loginServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := func(v map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	}
	switch r.URL.Path {
	case "/mcp":
		if s.access == "" || r.Header.Get("Authorization") != "Bearer "+s.access {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.URL+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.inner.ServeHTTP(w, r)
	case "/.well-known/oauth-protected-resource/mcp":
		reply(map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}})
	case "/.well-known/oauth-authorization-server":
		reply(map[string]any{"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "registration_endpoint": s.URL + "/register", "code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"}})
	case "/register":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(map[string]any{"client_id": "golem-1", "token_endpoint_auth_method": "none"})
	case "/authorize":
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"c"}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	case "/token":
		if s.refuse {
			w.WriteHeader(http.StatusBadRequest)
			reply(map[string]any{"error": "invalid_grant"})
			return
		}
		s.number++
		s.access = fmt.Sprintf("canary-access-%d", s.number)
		refresh := fmt.Sprintf("canary-refresh-%d", s.number)
		s.tokens = append(s.tokens, s.access, refresh)
		reply(map[string]any{"access_token": s.access, "token_type": "Bearer", "refresh_token": refresh, "expires_in": s.life})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// TestLogin logs in at an MCP server as a user does, uses it, and lets the login expire. No
// token gets into the state.
func TestLogin(t *testing.T) {
	t.Parallel()
	s := &loginServer{inner: remoteServer(), life: 3600}
	s.Server = httptest.NewServer(s)
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	_, state, plain := newTrustedProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  network: [\"" + host + "\"]\n  mounts: [{source: ./out, target: /out}]\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  mcp:\n    far: {url: " + s.URL + "/mcp}\n---\nWork.\n",
		"demo.yaml":               "- calls: [{tool: far_echo, args: {text: hello}}]\n- text: Done.\n",
		"out/kept":                "",
	})
	home := t.TempDir()
	golem := func(args ...string) *exec.Cmd {
		cmd := plain(args...)
		cmd.Env = append(cmd.Env, "HOME="+home, "XDG_CONFIG_HOME=", "XDG_RUNTIME_DIR=", "DBUS_SESSION_BUS_ADDRESS=")
		return cmd
	}
	expect := func(want string, args ...string) {
		t.Helper()
		out, _ := golem(args...).CombinedOutput()
		if !strings.Contains(string(out), want) {
			t.Errorf("golem %s: want %s in\n%s", strings.Join(args, " "), want, out)
		}
		if strings.Contains(string(out), "canary") {
			t.Errorf("golem %s shows a token:\n%s", strings.Join(args, " "), out)
		}
	}
	expect("golem mcp login far logs in", "tools", "--accept", "far", "--yes")
	expect("there is no login at far; golem mcp login far logs in", "mcp", "logout", "far")
	expect("did you mean far?", "mcp", "login", "fra")
	logIn := func() {
		t.Helper()
		cmd := golem("mcp", "login", "far", "--no-open")
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said []string
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			said = append(said, lines.Text())
			if !strings.HasPrefix(lines.Text(), s.URL+"/authorize") {
				continue
			}
			address, _ := url.Parse(lines.Text())
			back := address.Query().Get("redirect_uri")
			for _, wrong := range []string{back + "?code=stolen&state=guessed", back + "?code=stolen", strings.TrimSuffix(back, "callback")} {
				if answer, err := http.Get(wrong); err != nil || answer.StatusCode < 400 {
					t.Errorf("%s: got %v, %v", wrong, answer, err)
				}
			}
			if answer, err := http.Get(lines.Text()); err != nil || answer.StatusCode != http.StatusOK {
				t.Errorf("the browser got %v, %v", answer, err)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("golem mcp login: %v\n%s", err, strings.Join(said, "\n"))
		}
	}
	logIn()
	expect("echo", "tools", "--accept", "far", "--yes")
	run := []string{"run", ".", "go", "--approval", "approve_all", "--model", "scripted:demo.yaml"}
	expect("you said hello", run...)
	expect("mcp-login-127.0.0.1-", "secret", "ls")

	s.life = 1 // golem renews such a token before each use
	s.access = "gone"
	expect("you said hello", run...)
	expect("you said hello", run...)
	if s.number < 3 {
		t.Errorf("%d tokens, want one for each run", s.number)
	}
	before := treesOf(t, home)
	expect("this run stores no new token", append(run, "--sandbox", "memory")...)
	if after := treesOf(t, home); strings.Join(before, "\n") != strings.Join(after, "\n") {
		t.Error("a run with --sandbox changed the secrets")
	}
	s.refuse = true
	expect("golem mcp login far logs in again", run...)
	expect("deleted the login", "mcp", "logout", "far")
	expect("golem mcp login far logs in", run...)

	filepath.WalkDir(state, func(name string, e fs.DirEntry, _ error) error {
		if data, err := os.ReadFile(name); err == nil {
			for _, token := range s.tokens {
				if strings.Contains(string(data), token) {
					t.Errorf("%s has a token", name)
				}
			}
		}
		return nil
	})
}
