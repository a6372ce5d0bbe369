package clearance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v68/github"

	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/sandbox"
)

// Limits of the calls to GitHub.
const (
	maxCall   = 5 * time.Minute        // for one request; the largest has 133 MB
	maxWait   = 2 * time.Minute        // until a rate limit ends
	maxTries  = 3                      // tries of one request
	firstWait = 250 * time.Millisecond // after the first failure; three times as long after the next
	maxAnswer = 16 << 20               // bytes of a response
)

// An api is a client for the API of one repository.
type api struct {
	client      *github.Client
	web         *http.Client
	root        *url.URL
	owner, repo string
	token       string
}

// dial prepares the client for a push. It sends no request.
func (h hub) dial(ctx context.Context) (*api, error) {
	base := "https://api.github.com/"
	if h.target.server() != git.GitHub {
		base = h.target.server() + "/api/v3/"
	}
	root, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	token := h.Token(ctx)
	if token == "" {
		return nil, &sandbox.Error{Op: "push", Path: h.target.Repo, Code: git.ErrUnreachable, Hint: "there is no token for " + root.Host + "; set GITHUB_TOKEN (of a GitHub Enterprise: GH_ENTERPRISE_TOKEN), or run gh auth login"}
	}
	next := h.target.Web
	if next == nil {
		next = &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: 30 * time.Second, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10}
	}
	web := &http.Client{
		Transport:     courier{next, root, token},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	a := &api{web: web, root: root, token: token}
	a.owner, a.repo, _ = strings.Cut(h.target.Repo, "/")
	a.renew()
	return a, nil
}

// renew creates a new client. After a rate limit the old one would wait by the clock of
// this machine instead of the server's.
func (a *api) renew() {
	a.client = github.NewClient(a.web)
	a.client.BaseURL, a.client.UserAgent = a.root, "golem"
}

func (a *api) close() { a.web.CloseIdleConnections() }

// path returns the path of an endpoint for git objects.
func (a *api) path(what string) string {
	return fmt.Sprintf("repos/%s/%s/git/%s", a.owner, a.repo, what)
}

// A courier adds the token to requests to its own server only, and limits the size of
// responses.
type courier struct {
	next  http.RoundTripper
	to    *url.URL
	token string
}

func (c courier) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.URL.Scheme == c.to.Scheme && r.URL.Host == c.to.Host {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.next.RoundTrip(r)
	if err == nil {
		answer.Body = limitedBody{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}

// CloseIdleConnections closes the connections of the transport behind the courier. The
// HTTP client calls it.
func (c courier) CloseIdleConnections() {
	if t, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

type limitedBody struct {
	io.Reader
	io.Closer
}

// call repeats a request until it succeeds or must not be retried. Every request can be
// made twice: objects are named by their content, and moving a branch again changes
// nothing.
func (a *api) call(ctx context.Context, do func(context.Context) (*github.Response, error)) error {
	pause := firstWait
	for try := 1; ; try++ {
		answer, err := a.once(ctx, do)
		if err == nil {
			return nil
		}
		var ours *sandbox.Error
		if errors.As(err, &ours) {
			return err
		}
		wait, told := a.judge(answer, err)
		if wait < 0 || try == maxTries || ctx.Err() != nil {
			return told
		}
		if wait == 0 {
			wait, pause = pause, 3*pause
		}
		a.renew()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return told
		case <-timer.C:
		}
	}
}

func (a *api) once(ctx context.Context, do func(context.Context) (*github.Response, error)) (*github.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	return do(ctx)
}

// judge says what to do about a request that failed. Wait is the time until the next try,
// 0 for the usual pause and -1 for no other try. Told is the error if there is no other
// try.
func (a *api) judge(answer *github.Response, err error) (wait time.Duration, told error) {
	tell := func(code sandbox.Code, hint string) error {
		return &sandbox.Error{Op: "push", Path: a.owner + "/" + a.repo, Code: code, Hint: hint}
	}
	says := ""
	if text := strings.ReplaceAll(said(err), a.token, "…"); text != "" {
		says = "; GitHub says: " + sandbox.Shown(text[:min(len(text), 300)])
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	ok := answer != nil && answer.Response != nil
	if !ok || answer.StatusCode/100 == 2 && !errors.As(err, &syntax) && !errors.As(err, &kind) {
		return 0, tell(git.ErrUnreachable, "GitHub cannot be reached, or has cut the connection; push again")
	}
	if wait, until, limited := limit(answer.Response, said(err)); limited {
		told := tell(sandbox.ErrLimit, "GitHub takes no more requests "+until+"; push again then")
		if wait > maxWait {
			wait = -1
		}
		return wait, told
	}
	switch code := answer.StatusCode; {
	case code/100 == 2:
		return -1, tell(git.ErrUnreachable, "what answers is not GitHub's API; look at url in clearance.targets")
	case code/100 == 3:
		return -1, tell(git.ErrUnreachable, "the repository is elsewhere now; write its new name as repo in clearance.targets")
	case code == http.StatusUnauthorized:
		return -1, tell(git.ErrUnreachable, "GitHub refuses the token; set GITHUB_TOKEN to one that may write contents, or run gh auth login"+says)
	case code == http.StatusForbidden:
		return -1, tell(git.ErrUnreachable, "the token may not write there; give it the right to write contents"+says)
	case code == http.StatusNotFound:
		return -1, tell(sandbox.ErrNotFound, "there is no such repository, or the token does not see it; look at repo in clearance.targets, and at the token's rights")
	case code == http.StatusConflict:
		return -1, tell(sandbox.ErrConflict, "the repository takes nothing now; one that is empty needs a first commit, made on GitHub or by a target of type remote"+says)
	case code >= 500:
		return 0, tell(git.ErrUnreachable, fmt.Sprintf("GitHub has trouble (%d); push again later", code))
	default:
		return -1, tell(git.ErrUnreachable, fmt.Sprintf("GitHub does not take it (%d); see whether the branch is protected%s", code, says))
	}
}

// said returns the message of GitHub in an error.
func said(err error) string {
	var other *github.ErrorResponse
	var rate *github.RateLimitError
	var abuse *github.AbuseRateLimitError
	switch {
	case errors.As(err, &other):
		text := other.Message
		for _, e := range other.Errors {
			text += " " + e.Message
		}
		return text
	case errors.As(err, &rate):
		return rate.Message
	case errors.As(err, &abuse):
		return abuse.Message
	}
	return ""
}

// limit reports whether a request met a rate limit, how long to wait, and the words for
// the error. It compares with the server's clock.
func limit(r *http.Response, says string) (wait time.Duration, until string, limited bool) {
	if r.StatusCode != http.StatusForbidden && r.StatusCode != http.StatusTooManyRequests {
		return 0, "", false
	}
	if seconds, err := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, fmt.Sprintf("for %d seconds", seconds), true
	}
	if r.Header.Get("X-RateLimit-Remaining") == "0" {
		seconds, err := strconv.ParseInt(r.Header.Get("X-RateLimit-Reset"), 10, 64)
		now, unknown := http.ParseTime(r.Header.Get("Date"))
		if err == nil && unknown == nil {
			reset := time.Unix(seconds, 0).UTC()
			return max(reset.Sub(now), 0), "until " + reset.Format(time.RFC3339), true
		}
		return maxWait + 1, "for up to an hour", true
	}
	if r.StatusCode == http.StatusTooManyRequests || strings.Contains(strings.ToLower(says), "rate limit") {
		return time.Minute, "for a minute", true // as GitHub's documentation asks
	}
	return 0, "", false
}
