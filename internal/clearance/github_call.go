package clearance

import (
	"bytes"
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

	"github.com/golem-forge/golem/internal/clearance/git"
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
	web         *http.Client
	root        *url.URL
	owner, repo string
	token       string
	op          string // what golem does, for errors
	named       string // where the user names the repository, for errors
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
		return nil, &sandbox.Error{Op: h.op(), Path: h.target.Repo, Code: git.ErrUnreachable, Hint: "there is no token for " + root.Host + "; set GITHUB_TOKEN (of a GitHub Enterprise: GH_ENTERPRISE_TOKEN, and its name as GH_HOST), or run gh auth login"}
	}
	next := h.target.Web
	if next == nil {
		next = &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: 30 * time.Second, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10}
	}
	web := &http.Client{
		Transport:     courier{next, root, token},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	a := &api{web: web, root: root, token: token, op: h.op(), named: "repo in clearance.targets"}
	if a.op == pullRequestOp {
		a.named = "--repo"
	}
	a.owner, a.repo, _ = strings.Cut(h.target.Repo, "/")
	return a, nil
}

// rights returns the rights that the token needs.
func (a *api) rights() string {
	if a.op == pullRequestOp {
		return "contents and pull requests"
	}
	return "contents"
}

func (a *api) close() { a.web.CloseIdleConnections() }

// An object is a git object in an answer of GitHub.
type object struct {
	SHA string `json:"sha"`
}

// A refusal is an answer of GitHub other than success.
type refusal struct {
	status int
	header http.Header
	says   string // GitHub's message
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s", r.status, r.says) }

// sendJSON makes one request with a JSON body, and reads the answer into out.
func (a *api) sendJSON(ctx context.Context, method, what string, body, out any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return a.send(ctx, method, what, bytes.NewReader(data), int64(len(data)), out)
}

// send makes one request to an endpoint of the repository, and reads the answer into out.
func (a *api) send(ctx context.Context, method, what string, body io.Reader, size int64, out any) error {
	at, err := a.root.Parse(fmt.Sprintf("repos/%s/%s%s", url.PathEscape(a.owner), url.PathEscape(a.repo), what))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return err
	}
	request.ContentLength = size
	for name, value := range map[string]string{"Accept": "application/vnd.github+json", "Content-Type": "application/json", "User-Agent": "golem", "X-GitHub-Api-Version": "2022-11-28"} {
		request.Header.Set(name, value)
	}
	answer, err := a.web.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 == 2 {
		if err := json.NewDecoder(answer.Body).Decode(out); !errors.Is(err, io.EOF) { // an empty answer has no hash
			return err
		}
		return nil
	}
	var text struct {
		Message string `json:"message"`
		Errors  []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	json.NewDecoder(answer.Body).Decode(&text) // it may be a page of a proxy
	for _, e := range text.Errors {
		text.Message += " " + e.Message
	}
	return &refusal{answer.StatusCode, answer.Header, text.Message}
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
func (a *api) call(ctx context.Context, do func(context.Context) error) error {
	pause := firstWait
	for try := 1; ; try++ {
		err := a.once(ctx, do)
		if err == nil {
			return nil
		}
		var ours *sandbox.Error
		if errors.As(err, &ours) {
			return err
		}
		wait, told := a.judge(err)
		if wait < 0 || try == maxTries || ctx.Err() != nil {
			return told
		}
		if wait == 0 {
			wait, pause = pause, 3*pause
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return told
		case <-timer.C:
		}
	}
}

func (a *api) once(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	return do(ctx)
}

// judge says what to do about a request that failed. Wait is the time until the next try,
// 0 for the usual pause and -1 for no other try. Told is the error if there is no other
// try.
func (a *api) judge(err error) (wait time.Duration, told error) {
	tell := func(code sandbox.Code, hint string) error {
		return &sandbox.Error{Op: a.op, Path: a.owner + "/" + a.repo, Code: code, Hint: hint}
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) {
		return -1, tell(git.ErrUnreachable, "what answers is not GitHub's API; look at the server of "+a.named)
	}
	var r *refusal
	if !errors.As(err, &r) {
		return 0, tell(git.ErrUnreachable, "GitHub cannot be reached, or has cut the connection; try again")
	}
	says := ""
	if text := strings.ReplaceAll(r.says, a.token, "…"); text != "" {
		says = "; GitHub says: " + sandbox.Shown(text[:min(len(text), 300)])
	}
	if wait, until, limited := r.limit(); limited {
		told := tell(sandbox.ErrLimit, "GitHub takes no more requests "+until+"; try again then")
		if wait > maxWait {
			wait = -1
		}
		return wait, told
	}
	switch code := r.status; {
	case code/100 == 3:
		return -1, tell(git.ErrUnreachable, "the repository is elsewhere now; write its new name as "+a.named)
	case code == http.StatusUnauthorized:
		return -1, tell(git.ErrUnreachable, "GitHub refuses the token; set GITHUB_TOKEN to one that may write contents, or run gh auth login"+says)
	case code == http.StatusForbidden:
		return -1, tell(git.ErrUnreachable, "the token may not write there; give it the right to write "+a.rights()+says)
	case code == http.StatusNotFound:
		return -1, tell(sandbox.ErrNotFound, "there is no such repository, or the token does not see it; look at "+a.named+", and at the token's rights")
	case code == http.StatusConflict:
		return -1, tell(sandbox.ErrConflict, "the repository takes nothing now; one that is empty needs a first commit, made on GitHub or by a target of type remote"+says)
	case code >= 500:
		return 0, tell(git.ErrUnreachable, fmt.Sprintf("GitHub has trouble (%d); try again later", code))
	default:
		return -1, tell(git.ErrUnreachable, fmt.Sprintf("GitHub does not take it (%d); see whether the branch is protected%s", code, says))
	}
}

// limit reports whether a request met a rate limit, how long to wait, and the words for
// the error. It compares with the server's clock.
func (r *refusal) limit() (wait time.Duration, until string, limited bool) {
	if r.status != http.StatusForbidden && r.status != http.StatusTooManyRequests {
		return 0, "", false
	}
	if seconds, err := strconv.ParseUint(r.header.Get("Retry-After"), 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, fmt.Sprintf("for %d seconds", seconds), true
	}
	if r.header.Get("X-RateLimit-Remaining") == "0" {
		seconds, err := strconv.ParseInt(r.header.Get("X-RateLimit-Reset"), 10, 64)
		now, unknown := http.ParseTime(r.header.Get("Date"))
		if err == nil && unknown == nil {
			reset := time.Unix(seconds, 0).UTC()
			return max(reset.Sub(now), 0), "until " + reset.Format(time.RFC3339), true
		}
		return maxWait + 1, "for up to an hour", true
	}
	if r.status == http.StatusTooManyRequests || strings.Contains(strings.ToLower(r.says), "rate limit") {
		return time.Minute, "for a minute", true // as GitHub's documentation asks
	}
	return 0, "", false
}
