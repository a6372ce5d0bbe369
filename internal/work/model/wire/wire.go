// Package wire holds what the vendors' protocols share: HTTP requests with a stream as
// the answer. It sends a key only to the host that the key is for, even if that host
// redirects. It ends a connection to a server that falls silent. Every failure becomes a
// model.Error without a key in it.
package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golem-forge/golem/internal/work/model"
)

// A Server is the address of a model and the key for it.
type Server struct {
	Model  string // the model's name in the request, for errors
	Base   *url.URL
	Header string // the header for the key
	Scheme string // prefix of the key in the header, such as "Bearer "
	Key    string // "" for none
	// KeyFrom says, for errors, where the key was found or searched.
	KeyFrom string

	Transport http.RoundTripper // sends the requests; nil for one without a proxy
	First     time.Duration     // timeout for the first byte of an answer; 0 means 5 minutes
	Idle      time.Duration     // timeout between two bytes; 0 means 2 minutes
	Whole     time.Duration     // timeout for a whole answer; 0 means 1 hour
}

// maxAnswer limits the bytes of a stream.
const maxAnswer = 64 << 20

// A Client sends requests to one server.
type Client struct {
	Server
	http    *http.Client
	reached atomic.Bool // the server has answered before
	learned learned
}

// NewClient returns a client for a server.
func NewClient(s Server) *Client {
	if s.First == 0 {
		s.First = 5 * time.Minute
	}
	if s.Idle == 0 {
		s.Idle = 2 * time.Minute
	}
	if s.Whole == 0 {
		s.Whole = time.Hour
	}
	if s.Transport == nil {
		s.Transport = &http.Transport{ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10}
	}
	return &Client{Server: s, http: &http.Client{
		Transport:     s.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Causes with which a request is cancelled from inside.
var (
	errFirst = errors.New("no answer in time")
	errIdle  = errors.New("the answer stopped")
	errWhole = errors.New("the answer does not end")
	errLong  = errors.New("the answer is too large")
)

// do sends a request with the key. A response that is neither a stream nor a JSON document
// is an error.
func (c *Client) do(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	r = r.Clone(ctx)
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		r.Header.Del(name)
	}
	if c.Key != "" && r.URL.Scheme == c.Base.Scheme && r.URL.Host == c.Base.Host {
		r.Header.Set(c.Header, c.Scheme+c.Key)
	}
	timer := time.AfterFunc(c.First, func() { cancel(errFirst) })
	response, err := c.http.Do(r)
	if err != nil {
		timer.Stop()
		cancel(nil)
		if cause := context.Cause(ctx); errors.Is(cause, errFirst) {
			err = cause
		}
		return nil, err
	}
	c.reached.Store(true)
	whole := time.AfterFunc(c.Whole, func() { cancel(errWhole) })
	response.Body = &body{ReadCloser: response.Body, ctx: ctx, cancel: cancel, timer: timer, whole: whole, idle: c.Idle, left: maxAnswer}
	if response.StatusCode == http.StatusOK && (isStream(response) || isJSON(response)) {
		return response, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // a partial body is enough
	return nil, c.refused(response, text)
}

// maxRefusal limits how much of a response golem reads for an error message.
const maxRefusal = 64 << 10

// isJSON reports whether a response is a JSON document.
func isJSON(r *http.Response) bool {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return strings.HasSuffix(media, "json")
}

// isStream reports whether a response may be a stream of events. A response without a
// clear content type counts as one.
func isStream(r *http.Response) bool {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return media != "text/html" && !strings.HasSuffix(media, "json") && !strings.HasSuffix(media, "xml")
}

// A body is the body of a response. Reading it fails if the server falls silent.
type body struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	whole  *time.Timer
	idle   time.Duration
	left   int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errLong
	}
	if n > 0 && b.timer.Stop() {
		b.timer = time.AfterFunc(b.idle, func() { b.cancel(errIdle) })
	}
	if err != nil && err != io.EOF {
		if cause := context.Cause(b.ctx); cause != nil {
			err = cause
		}
	}
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	b.whole.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}

// fail returns an error of the model, with the server's words made fit for one line.
func (c *Client) fail(class model.Class, what, hint string) *model.Error {
	return &model.Error{Class: class, Model: c.Model, What: c.clean(what), Hint: hint}
}

// Bad returns the error for a malformed answer.
func (c *Client) Bad(format string, args ...any) error {
	return c.fail(model.Bad, fmt.Sprintf(format, args...), "the server sent what golem does not understand: check the address "+c.address())
}

// Failed returns the error for an answer that the server gave up.
func (c *Client) Failed(format string, args ...any) error {
	return c.fail(model.Broken, fmt.Sprintf(format, args...), "try again")
}

// CutOff returns the error for a stream that ended too early.
func (c *Client) CutOff() error {
	return c.fail(model.Broken, "the answer from "+c.Base.Host+" broke off", "try again")
}

// address returns the server's address for messages.
func (c *Client) address() string { return c.Base.Scheme + "://" + c.Base.Host + c.Base.Path }
