package foreign

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/keyring"
	"github.com/golem-forge/golem/sandbox"
)

// A Login is what a server over HTTP has let the user do, by OAuth. golem stores it as a
// secret, and sends it to no other server.
type Login struct {
	URL          string           `json:"url"` // of the server
	Resource     string           `json:"resource"`
	TokenURL     string           `json:"token_url"`
	ClientID     string           `json:"client_id"`
	ClientSecret string           `json:"client_secret,omitempty"`
	Style        oauth2.AuthStyle `json:"style"`
	Token        *oauth2.Token    `json:"token"`
}

// LoginName returns the name of the secret with the login at the server with an address.
func LoginName(address string) string {
	host := "server"
	if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
		host = strings.Map(func(r rune) rune {
			if r == ':' {
				return '.'
			}
			return r
		}, u.Hostname())
	}
	sum := sha256.Sum256([]byte(address))
	return keyring.LoginPrefix + host[:min(len(host), 40)] + "-" + hex.EncodeToString(sum[:6])
}

// Hidden returns the secrets of a login.
func (l Login) Hidden() (list []string) {
	if l.Token != nil {
		list = append(list, l.Token.AccessToken, l.Token.RefreshToken)
	}
	list = append(list, l.ClientSecret)
	var set []string
	for _, text := range list {
		if text != "" {
			set = append(set, text)
		}
	}
	return set
}

// LoginOptions say how a user logs in.
type LoginOptions struct {
	Name     string            // of the server
	URL      string            // of the server
	Requests http.RoundTripper // sends all requests of golem
	Redirect string            // where the browser returns, on this machine

	// Ask lets the user log in at an address, and returns the query with which the browser
	// comes back. Host is that of the address.
	Ask func(ctx context.Context, address, host string) (url.Values, error)
}

// LogIn logs the user in at a server. The server says where: golem reads its metadata (RFC
// 9728, RFC 8414), registers itself (RFC 7591) and asks for a token for this server only
// (RFC 8707), with PKCE.
func LogIn(ctx context.Context, o LoginOptions) (login Login, err error) {
	fail := func(hint string) (Login, error) {
		return Login{}, &sandbox.Error{Op: "login", Path: o.Name, Code: "failed", Hint: hint}
	}
	server, err := url.Parse(o.URL)
	if err != nil {
		return fail("its address is none; correct url in the worker file")
	}
	client := &http.Client{Transport: loginRequests{o.Requests, server}, CheckRedirect: func(*http.Request, []*http.Request) error { return errLoginRedirect }}
	request, answer, err := knock(ctx, client, o.URL)
	if err != nil {
		return fail(describeLogin(err))
	}
	if answer.StatusCode != http.StatusUnauthorized {
		answer.Body.Close()
		return fail(fmt.Sprintf("the server answers %d to a request without a login, so it asks for none; golem tools --accept %s lists its tools", answer.StatusCode, o.Name))
	}
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		RedirectURL: o.Redirect, Client: client, RequestRefreshToken: true, AcceptUnadvertisedIss: true,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "golem", RedirectURIs: []string{o.Redirect},
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none"}},
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			at, err := url.Parse(args.URL)
			if err == nil {
				err = checkLoginHost(at, server)
			}
			if err != nil {
				return nil, err
			}
			login.Resource = at.Query().Get("resource")
			back, err := o.Ask(ctx, args.URL, at.Host)
			if err != nil {
				return nil, err
			}
			if why := back.Get("error"); why != "" {
				return nil, errors.New("it says " + visible.Line(strings.TrimSpace(why+" "+back.Get("error_description")), 200))
			}
			return &auth.AuthorizationResult{Code: back.Get("code"), State: back.Get("state"), Iss: back.Get("iss")}, nil
		},
		NewTokenSource: func(_ context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			if err := checkToken(t); err != nil {
				return nil, err
			}
			login.TokenURL, login.ClientID, login.ClientSecret, login.Style, login.Token = c.Endpoint.TokenURL, c.ClientID, c.ClientSecret, c.Endpoint.AuthStyle, t
			return oauth2.StaticTokenSource(t), nil
		},
	})
	if err != nil {
		return Login{}, err
	}
	if err := handler.Authorize(ctx, request, answer); err != nil {
		if ctx.Err() != nil {
			return Login{}, context.Cause(ctx)
		}
		return fail(describeLogin(err))
	}
	if login.Token == nil {
		return fail("the server gave no token; try again")
	}
	login.URL = o.URL
	return login, nil
}

// knock sends a request without a login, as a client begins.
func knock(ctx context.Context, client *http.Client, address string) (*http.Request, *http.Response, error) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + protocol + `","capabilities":{},"clientInfo":{"name":"golem","version":"1"}}}`
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(hello))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("User-Agent", "golem")
	answer, err := client.Do(request)
	return request, answer, err
}

// errLoginRedirect is the error of a server of a login that answers with another address.
var errLoginRedirect = errors.New("it redirects to another address, and golem follows no redirect here")

// describeLogin returns why a login failed, without the parts of the error that name
// functions of the SDK.
func describeLogin(err error) string {
	var wrong *oauth2.RetrieveError
	var broken *url.Error
	switch {
	case errors.As(err, &wrong):
		return "the server of the login refuses: " + visible.Line(strings.TrimSpace(fmt.Sprintf("%d %s %s", wrong.Response.StatusCode, wrong.ErrorCode, wrong.ErrorDescription)), 200)
	case errors.As(err, &broken):
		err = fmt.Errorf("%s: %w", broken.URL, broken.Err)
	}
	return "the login failed: " + visible.Line(err.Error(), 300)
}

// checkToken returns an error for a token that golem could not send as it is.
func checkToken(t *oauth2.Token) error {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case !strings.EqualFold(t.Type(), "Bearer"):
		return errors.New("the token is of the type " + visible.Line(t.Type(), 20) + ", and golem knows only Bearer")
	case t.AccessToken == "" || len(t.AccessToken) > 16<<10 || strings.ContainsFunc(t.AccessToken, odd) || strings.ContainsFunc(t.RefreshToken, odd):
		return errors.New("the token has characters that no header may have")
	}
	return nil
}

// loginRequests send the requests of a login. The server chooses their addresses, so they
// reach public hosts with TLS, and nothing on this machine, except for a server that is
// there itself.
type loginRequests struct {
	inner  http.RoundTripper
	server *url.URL
}

// RoundTrip implements http.RoundTripper.
func (l loginRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := checkLoginHost(r.URL, l.server); err != nil {
		return nil, err
	}
	answer, err := l.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = &limitedBody{ReadCloser: answer.Body, left: 1 << 20, over: func() error { return errors.New("it sent more than 1 MiB") }}
	return answer, nil
}

// checkLoginHost returns an error if the metadata of a server names an address that golem
// must not ask.
func checkLoginHost(at, server *url.URL) error {
	if at.Hostname() == server.Hostname() && at.Scheme == server.Scheme {
		return nil
	}
	_, notName := netip.ParseAddr(at.Hostname())
	switch host := strings.TrimSuffix(strings.ToLower(at.Hostname()), "."); {
	case at.Scheme != "https":
		return fmt.Errorf("its metadata names %s, which is not https", visible.Line(at.String(), 100))
	case notName == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") || at.User != nil:
		return fmt.Errorf("its metadata names %s, which is no public host", visible.Line(at.Host, 100))
	}
	return nil
}

// A LoginStore keeps the login at one server.
type LoginStore struct {
	Name     string // of the server
	URL      string // of the server
	Requests http.RoundTripper
	Find     func() (Login, error) // the error is ErrNoLogin if there is none
	Keep     func(Login) error     // nil if a new token may not be stored
}

// ErrNoLogin is the error of a store without a login.
var ErrNoLogin = errors.New("no login")

// logIn says what the user types to log in.
func (s *LoginStore) logIn() string { return "golem mcp login " + visible.CommandLine(s.Name) }

// A loggedIn adds the token of a login to requests. It implements auth.OAuthHandler.
type loggedIn struct {
	*LoginStore
	fail func(why string) error // marks the connection as unusable

	mu      sync.Mutex
	login   Login
	hidden  []string
	renewed string // the token that the server gave for one that it refused
}

// open returns the login of a store, nil if there is none.
func (s *LoginStore) open(fail func(why string) error) (*loggedIn, error) {
	if s == nil {
		return nil, nil
	}
	l, err := s.Find()
	switch {
	case errors.Is(err, ErrNoLogin):
		return nil, nil
	case err != nil:
		return nil, err
	case l.URL != s.URL || l.Token == nil:
		return nil, fail("the login is for another server; " + s.logIn())
	}
	return &loggedIn{LoginStore: s, fail: fail, login: l, hidden: l.Hidden()}, nil
}

// TokenSource implements auth.OAuthHandler.
func (l *loggedIn) TokenSource(context.Context) (oauth2.TokenSource, error) { return l, nil }

// Token implements oauth2.TokenSource. It refreshes the token shortly before it expires.
func (l *loggedIn) Token() (*oauth2.Token, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.login.Token.Valid() {
		return l.login.Token, nil
	}
	return l.login.Token, l.refresh(context.Background())
}

// Authorize implements auth.OAuthHandler. The server has refused the token of a request, so
// golem refreshes it once.
func (l *loggedIn) Authorize(ctx context.Context, request *http.Request, answer *http.Response) error {
	io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16))
	answer.Body.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if answer.StatusCode == http.StatusForbidden {
		return l.fail("the server answers 403: your login does not allow this; " + l.logIn() + " logs in again")
	}
	if request.Header.Get("Authorization") != "Bearer "+l.login.Token.AccessToken {
		return nil // it has a new one already
	}
	err := l.refresh(ctx)
	l.renewed = l.login.Token.AccessToken
	return err
}

// hasRenewed reports whether a request has a token that is as new as can be.
func (l *loggedIn) hasRenewed(r *http.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed != "" && r.Header.Get("Authorization") == "Bearer "+l.renewed
}

// refreshTime is how long a request for a new token may take.
const refreshTime = 30 * time.Second

// refresh replaces the token. Another golem may have done so.
func (l *loggedIn) refresh(ctx context.Context) error {
	stored, err := l.Find()
	if err == nil && stored.URL == l.URL && stored.Token != nil && stored.Token.AccessToken != l.login.Token.AccessToken && stored.Token.Valid() {
		l.use(stored)
		return nil
	}
	server, err := url.Parse(l.URL)
	switch {
	case err != nil:
		return err
	case l.login.Token.RefreshToken == "":
		return l.fail("your login has expired; " + l.logIn() + " logs in again")
	case l.Keep == nil:
		return l.fail("your login has expired, and this run stores no new token; " + l.logIn() + " logs in again, and golem run without --sandbox renews it")
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	client := &http.Client{Transport: withResource{loginRequests{l.Requests, server}, l.login.Resource}, CheckRedirect: func(*http.Request, []*http.Request) error { return errLoginRedirect }}
	config := oauth2.Config{ClientID: l.login.ClientID, ClientSecret: l.login.ClientSecret, Endpoint: oauth2.Endpoint{TokenURL: l.login.TokenURL, AuthStyle: l.login.Style}}
	token, err := config.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client), &oauth2.Token{RefreshToken: l.login.Token.RefreshToken}).Token()
	if err == nil {
		err = checkToken(token)
	}
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response.StatusCode < 500:
		return l.fail("your login has ended, the server refuses to renew it (" + visible.Line(strings.TrimSpace(fmt.Sprintf("%d %s", refused.Response.StatusCode, refused.ErrorCode)), 60) + "); " + l.logIn() + " logs in again")
	case err != nil:
		return l.fail("golem cannot renew your login: " + describeLogin(err) + "; try again, or " + l.logIn())
	}
	next := l.login
	next.Token = token
	l.use(next)
	if err := l.Keep(next); err != nil {
		return l.fail("golem cannot store your renewed login: " + err.Error() + "; " + l.logIn() + " logs in again")
	}
	return nil
}

// use sends the token of a login from now on.
func (l *loggedIn) use(next Login) {
	l.login = next
	l.hidden = append(l.hidden, next.Hidden()...)
}

// secrets returns all secrets that were sent.
func (l *loggedIn) secrets() []string {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.hidden...)
}

// withResource adds the resource to requests for a new token, as RFC 8707 has it.
type withResource struct {
	http.RoundTripper
	resource string
}

// RoundTrip implements http.RoundTripper.
func (w withResource) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	form.Set("resource", w.resource)
	sent := r.Clone(r.Context())
	text := form.Encode()
	sent.Body, sent.ContentLength = io.NopCloser(bytes.NewReader([]byte(text))), int64(len(text))
	return w.RoundTripper.RoundTrip(sent)
}
