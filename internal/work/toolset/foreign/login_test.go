package foreign

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/keyring"
	"github.com/golem-forge/golem/sandbox"
)

// An authServer is an MCP server and the server of its logins, on this machine. It is
// strict: it refuses every request that a standard does not allow.
type authServer struct {
	*httptest.Server
	t     *testing.T
	inner http.Handler

	mu       sync.Mutex
	client   string // the registered client
	redirect string
	codes    map[string]url.Values // what the user has allowed, by code
	access   string                // the token that the server accepts
	refresh  string
	count    int
	expires  int  // seconds
	refuse   bool // to renew
	seen     []string
	resource map[string]any // changes to the metadata
	server   map[string]any
	token    map[string]any // changes to the answer with a token
}

func newAuthServer(t *testing.T) *authServer {
	t.Helper()
	a := &authServer{t: t, inner: sdkServer(true), codes: make(map[string]url.Values), expires: 3600}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *authServer) address() string { return a.URL + "/mcp" }

func (a *authServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.seen = append(a.seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
	a.mu.Unlock()
	reply := func(code int, fixed, changed map[string]any) {
		for k, v := range changed {
			fixed[k] = v
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(fixed)
	}
	refuse := func(why string) { reply(http.StatusBadRequest, map[string]any{"error": why}, nil) }
	switch r.URL.Path {
	case "/mcp":
		a.mu.Lock()
		ok := a.access != "" && r.Header.Get("Authorization") == "Bearer "+a.access
		a.mu.Unlock()
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+a.URL+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		a.inner.ServeHTTP(w, r)
	case "/.well-known/oauth-protected-resource/mcp":
		reply(http.StatusOK, map[string]any{"resource": a.address(), "authorization_servers": []string{a.URL}, "scopes_supported": []string{"read"}}, a.resource)
	case "/.well-known/oauth-authorization-server":
		if a.server["redirect"] != nil {
			http.Redirect(w, r, a.server["redirect"].(string), http.StatusFound)
			return
		}
		reply(http.StatusOK, map[string]any{"issuer": a.URL, "authorization_endpoint": a.URL + "/authorize", "token_endpoint": a.URL + "/token", "registration_endpoint": a.URL + "/register",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"}}, a.server)
	case "/register":
		var m struct {
			Redirects []string `json:"redirect_uris"`
			Method    string   `json:"token_endpoint_auth_method"`
		}
		json.NewDecoder(r.Body).Decode(&m)
		if len(m.Redirects) != 1 || !strings.HasPrefix(m.Redirects[0], "http://127.0.0.1:") || m.Method != "none" {
			refuse("invalid_redirect_uri")
			return
		}
		a.client, a.redirect = "client-1", m.Redirects[0]
		reply(http.StatusCreated, map[string]any{"client_id": a.client, "redirect_uris": m.Redirects, "token_endpoint_auth_method": "none"}, nil)
	case "/authorize":
		q := r.URL.Query()
		if q.Get("response_type") != "code" || q.Get("client_id") != a.client || q.Get("redirect_uri") != a.redirect || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || len(q.Get("state")) < 16 || q.Get("resource") != a.address() {
			a.t.Errorf("authorize: %v", q)
			refuse("invalid_request")
			return
		}
		a.count++
		code := fmt.Sprint("code-", a.count)
		a.codes[code] = q
		http.Redirect(w, r, a.redirect+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	case "/token":
		body, _ := io.ReadAll(r.Body)
		q, _ := url.ParseQuery(string(body))
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case q.Get("client_id") != a.client || q.Get("resource") != a.address():
			refuse("invalid_target")
			return
		case q.Get("grant_type") == "authorization_code":
			given := a.codes[q.Get("code")]
			delete(a.codes, q.Get("code"))
			sum := sha256.Sum256([]byte(q.Get("code_verifier")))
			if given == nil || base64.RawURLEncoding.EncodeToString(sum[:]) != given.Get("code_challenge") || q.Get("redirect_uri") != a.redirect {
				refuse("invalid_grant")
				return
			}
		case q.Get("grant_type") != "refresh_token" || q.Get("refresh_token") != a.refresh || a.refuse:
			refuse("invalid_grant")
			return
		}
		a.count++
		a.access, a.refresh = fmt.Sprint("access-token-", a.count), fmt.Sprint("refresh-token-", a.count) // each refresh token works once
		reply(http.StatusOK, map[string]any{"access_token": a.access, "token_type": "Bearer", "refresh_token": a.refresh, "expires_in": a.expires}, a.token)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// browse is a user who allows everything: it returns what the browser brings back.
func browse(_ context.Context, address, _ string) (url.Values, error) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Get(address)
	if err != nil {
		return nil, err
	}
	answer.Body.Close()
	back, err := answer.Location()
	if err != nil {
		return nil, err
	}
	return back.Query(), nil
}

func (a *authServer) options() LoginOptions {
	return LoginOptions{Name: "far", URL: a.address(), Requests: http.DefaultTransport, Redirect: "http://127.0.0.1:4321/callback", Ask: browse}
}

// A plainDialer sends requests without a key.
type plainDialer struct{}

func (plainDialer) Check() (bool, error)    { return false, nil }
func (plainDialer) Dial() (Requests, error) { return plainRequests{http.DefaultTransport}, nil }

type plainRequests struct{ http.RoundTripper }

func (plainRequests) Hidden() []string { return nil }
func (plainRequests) Close() error     { return nil }

// A loginShelf keeps a login in memory.
type loginShelf struct {
	login Login
	kept  int
}

func (s *loginShelf) store(address string) *LoginStore {
	return &LoginStore{Name: "far", URL: address, Requests: http.DefaultTransport,
		Find: func() (Login, error) {
			if s.login.Token == nil {
				return Login{}, ErrNoLogin
			}
			return s.login, nil
		},
		Keep: func(l Login) error {
			s.login = l
			s.kept++
			return nil
		}}
}

// ask calls the tool of a server with a login.
func (s *loginShelf) ask(t *testing.T, address, text string) (string, error) {
	t.Helper()
	server := NewServer("far", Program{Time: time.Minute, Remote: &Remote{URL: address, Source: address, Dialer: plainDialer{}, Login: s.store(address)}}, nil)
	defer server.Close()
	args, _ := json.Marshal(map[string]string{"text": text})
	r, secrets, err := server.call(context.Background(), nil, "echo", args)
	if err != nil {
		return "", err
	}
	return newResult("far_echo", r, tool.Accepted{}, secrets).Text, nil
}

// TestLogIn checks a login, its use, and how golem renews it.
func TestLogIn(t *testing.T) {
	a, shelf := newAuthServer(t), &loginShelf{}
	if _, err := shelf.ask(t, a.address(), "hello"); err == nil || !strings.Contains(err.Error(), "golem mcp login far logs in") {
		t.Errorf("without a login: got %v", err)
	}
	login, err := LogIn(context.Background(), a.options())
	if err != nil {
		t.Fatal(err)
	}
	if login.URL != a.address() || login.Resource != a.address() || login.TokenURL != a.URL+"/token" || login.ClientID != "client-1" || login.Token.RefreshToken == "" {
		t.Errorf("got %+v", login)
	}
	shelf.login = login
	first := a.access
	if got, err := shelf.ask(t, a.address(), "my "+first); err != nil || got != "you said my [a secret of the user's]" || shelf.kept > 0 {
		t.Errorf("got %q, %v, %d stored", got, err, shelf.kept)
	}

	// it has expired: golem renews it before the request
	shelf.login.Token.Expiry = time.Now().Add(-time.Minute)
	if got, err := shelf.ask(t, a.address(), a.access+" "+first); err != nil || strings.Contains(got, "token-") || shelf.kept != 1 || a.access == first || shelf.login.Token.AccessToken != a.access || shelf.login.Token.RefreshToken != a.refresh {
		t.Errorf("got %q, %v, %d stored, token %s", got, err, shelf.kept, a.access)
	}

	// the server takes it back early: golem renews it once
	a.access = "another"
	if got, err := shelf.ask(t, a.address(), "hello"); err != nil || got != "you said hello" || shelf.kept != 2 {
		t.Errorf("got %q, %v, %d stored", got, err, shelf.kept)
	}

	// another golem has renewed it
	stale := shelf.login
	old := *stale.Token
	old.AccessToken, old.RefreshToken, old.Expiry = "old", "old", time.Now().Add(-time.Minute)
	other := &LoginStore{Name: "far", URL: a.address(), Requests: http.DefaultTransport, Find: func() (Login, error) { return shelf.login, nil }}
	stale.Token = &old
	l := &loggedIn{LoginStore: other, fail: func(why string) error { return errors.New(why) }, login: stale}
	if token, err := l.Token(); err != nil || token.AccessToken != "old" && token.AccessToken != a.access || l.login.Token.AccessToken != a.access {
		t.Errorf("got %v, %v", token, err)
	}

	// the server refuses to renew it
	a.refuse = true
	shelf.login.Token.Expiry = time.Now().Add(-time.Minute)
	_, err = shelf.ask(t, a.address(), "hello")
	if err == nil || !strings.Contains(err.Error(), "refuses to renew it (400 invalid_grant); golem mcp login far logs in again") || sandbox.CodeOf(err) != "denied" {
		t.Errorf("got %v, code %s", err, sandbox.CodeOf(err))
	}

	// a login without a token to renew it
	shelf.login.Token.RefreshToken = ""
	if _, err = shelf.ask(t, a.address(), "hello"); err == nil || !strings.Contains(err.Error(), "your login has expired; golem mcp login far") {
		t.Errorf("got %v", err)
	}
}

// TestLoginOfAnotherServer checks that a server does not get the login at another one.
func TestLoginOfAnotherServer(t *testing.T) {
	a, thief := newAuthServer(t), newAuthServer(t)
	login, err := LogIn(context.Background(), a.options())
	if err != nil {
		t.Fatal(err)
	}
	shelf := &loginShelf{login: login}
	if _, err := shelf.ask(t, thief.address(), "hello"); err == nil || !strings.Contains(err.Error(), "the login is for another server; golem mcp login far") {
		t.Errorf("got %v", err)
	}
	for _, r := range thief.seen {
		if strings.Contains(r, login.Token.AccessToken) {
			t.Errorf("the other server got %s", r)
		}
	}
	if one, two := LoginName(a.address()), LoginName(thief.address()); one == two || !strings.HasPrefix(one, keyring.LoginPrefix) || keyring.CheckName(one) != "" {
		t.Errorf("names %s, %s", one, two)
	}
	if name := LoginName("https://[::1]:9/" + strings.Repeat("a", 200)); keyring.CheckName(name) != "" {
		t.Errorf("name %s: %s", name, keyring.CheckName(name))
	}
}

// TestLoginAttacks checks servers that lie, and browsers that come back with the answer of
// somebody else.
func TestLoginAttacks(t *testing.T) {
	for name, test := range map[string]struct {
		resource, server, token map[string]any
		back                    url.Values // what the browser brings, nil for an honest one
		want                    string
	}{
		"wrong state":         {back: url.Values{"code": {"code-1"}, "state": {"another"}}, want: "state mismatch"},
		"wrong code":          {back: url.Values{"code": {"stolen"}}, want: "400 invalid_grant"},
		"declined":            {back: url.Values{"error": {"access_denied"}, "error_description": {"no\x1b[2J"}}, want: "access_denied"},
		"wrong issuer":        {server: map[string]any{"issuer": "https://other.example.org"}, want: "does not match"},
		"no PKCE":             {server: map[string]any{"code_challenge_methods_supported": []string{}}, want: "PKCE"},
		"private address":     {server: map[string]any{"token_endpoint": "https://10.0.0.1/token"}, want: "login failed"},
		"other local port":    {server: map[string]any{"registration_endpoint": "http://localhost:1/register"}, want: "which is not https"},
		"local name":          {server: map[string]any{"token_endpoint": "https://localhost/token"}, want: "which is no public host"},
		"private server":      {resource: map[string]any{"authorization_servers": []string{"https://localhost"}}, want: "which is no public host"},
		"script":              {server: map[string]any{"authorization_endpoint": "javascript:alert(1)"}, want: "login failed"},
		"redirect":            {server: map[string]any{"redirect": "https://evil.example.org/"}, want: "follows no redirect"},
		"token of other kind": {token: map[string]any{"token_type": "mac"}, want: "knows only Bearer"},
		"token with a line":   {token: map[string]any{"access_token": "a\r\nX-Evil: 1"}, want: "characters that no header may have"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthServer(t)
			a.resource, a.server, a.token = test.resource, test.server, test.token
			o := a.options()
			o.Ask = func(ctx context.Context, address, host string) (url.Values, error) {
				back, err := browse(ctx, address, host)
				for k, v := range test.back {
					back[k] = v
				}
				return back, err
			}
			login, err := LogIn(context.Background(), o)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\x1b\r\n") {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if login.Token != nil {
				t.Errorf("got the token %+v", login.Token)
			}
		})
	}
}

// TestWrongResource checks that golem ignores metadata for another server, and metadata that
// leads to private addresses or goes without TLS. It asks the server itself then, always for a
// token for the server that the worker file names.
func TestWrongResource(t *testing.T) {
	for _, resource := range []map[string]any{
		{"resource": "https://bank.example.org/mcp"},
		{"authorization_servers": []string{"https://169.254.169.254"}},
		{"authorization_servers": []string{"https://[fd00::1]"}},
		{"authorization_servers": []string{"http://auth.example.org"}},
	} {
		a := newAuthServer(t)
		a.resource = resource
		o := a.options()
		asked := &askedHosts{}
		o.Requests = asked
		login, err := LogIn(context.Background(), o)
		if err != nil || login.Resource != a.address() || login.TokenURL != a.URL+"/token" {
			t.Errorf("%v: got %+v, %v", resource, login, err)
		}
		for _, host := range asked.hosts {
			if "http://"+host != a.URL {
				t.Errorf("%v: golem asked %s", resource, host)
			}
		}
	}
}

// askedHosts notes the hosts of requests.
type askedHosts struct{ hosts []string }

func (a *askedHosts) RoundTrip(r *http.Request) (*http.Response, error) {
	a.hosts = append(a.hosts, r.URL.Host)
	return http.DefaultTransport.RoundTrip(r)
}
