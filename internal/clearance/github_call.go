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

// How long GitHub is waited for.
const (
	maxCall   = 5 * time.Minute        // for one request, of which the largest is 133 MB
	maxWait   = 2 * time.Minute        // until it takes requests again
	maxTries  = 3                      // of one request
	firstWait = 250 * time.Millisecond // after one that failed; three times as long after the next
	maxAnswer = 16 << 20               // bytes of an answer
)

// An api is the API of one repository.
type api struct {
	client      *github.Client
	web         *http.Client
	root        *url.URL
	owner, repo string
	token       string
}

// dial prepares the API for a push.
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
		next = &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: 30 * time.Second, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute}
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

// renew makes the client anew: one that was told to wait would ask the clock of
// this machine whether it has, and not the server's.
func (a *api) renew() {
	a.client = github.NewClient(a.web)
	a.client.BaseURL, a.client.UserAgent = a.root, "golem"
}

func (a *api) close() { a.web.CloseIdleConnections() }

// path returns that of an endpoint of git's objects.
func (a *api) path(what string) string {
	return fmt.Sprintf("repos/%s/%s/git/%s", a.owner, a.repo, what)
}

// A courier takes the token to the one server that it is for, and brings back no
// more than can be an answer.
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
		answer.Body = bounded{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}

// CloseIdleConnections is found by the client that has the courier.
func (c courier) CloseIdleConnections() {
	if t, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

type bounded struct {
	io.Reader
	io.Closer
}

// call makes a request until it is answered for good. All of them can be made
// twice: objects have their content for a name, and a branch that was moved is
// where it should be.
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

// judge says what an answer that is none means: how long to wait before the next
// try, 0 for as long as it seems fit and -1 for not at all, and what is told if
// there is none.
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

// said returns what an answer says of its refusal.
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

// limit reports whether a request was one too many, how long to wait and how that
// is told. The server's own clock says how late it is.
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
		return time.Minute, "for a minute", true // as GitHub asks for
	}
	return 0, "", false
}
