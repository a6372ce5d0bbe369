package wire

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/secret"
	"github.com/golem-forge/golem/internal/work/model"
)

// Fault converts an error of a request or a stream for the caller. It returns the error
// of the context if that has ended, otherwise a *model.Error.
func (c *Client) Fault(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var e *model.Error
	if errors.As(err, &e) {
		return e
	}
	host := c.Base.Host
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, errFirst):
		return c.fail(model.TimedOut, fmt.Sprintf("%s did not answer within %s", host, c.First), "try again")
	case errors.Is(err, errIdle):
		return c.fail(model.TimedOut, fmt.Sprintf("the answer from %s stopped for %s", host, c.Idle), "try again")
	case errors.Is(err, errWhole):
		return c.fail(model.TimedOut, fmt.Sprintf("the answer from %s did not end within %s", host, c.Whole), "try again")
	case errors.Is(err, errLong):
		return c.fail(model.Bad, fmt.Sprintf("the answer from %s is larger than golem accepts: %d MiB of text, and %d MiB in total", host, maxKept>>20, maxAnswer>>20), "ask for less, or limit the tokens of an answer")
	case errors.As(err, &dns):
		return c.fail(c.unreached(), "the name "+strings.TrimSuffix(dns.Name, ".")+" is not found", "check the address "+c.address()+" and the network")
	case errors.Is(err, syscall.ECONNREFUSED):
		return c.fail(c.unreached(), "nothing answers at "+host, "start the server, or check the address "+c.address())
	case errors.As(err, &certificate):
		return c.fail(model.Bad, "the certificate of "+host+" is not valid: "+certificate.Err.Error(), "check the address "+c.address()+", this machine's clock and its certificate authorities")
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return c.fail(model.Bad, host+" does not speak TLS", "check the address "+c.address())
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return c.CutOff()
	case errors.As(err, &syntax), errors.As(err, &kind):
		return c.fail(model.Broken, "the answer from "+host+" is garbled: "+err.Error(), "try again")
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err // without the address, which the message has already
	}
	return c.fail(model.Broken, "the connection to "+host+": "+err.Error(), "check the network, and try again")
}

// unreached returns the class of the error for a server that is not there. If it was there
// before, it probably comes back.
func (c *Client) unreached() model.Class {
	if c.reached.Load() {
		return model.Broken
	}
	return model.Unreached
}

// A complaint is a server's error message, in all the forms that servers use.
type complaint struct {
	Kind    string
	Code    string
	Message string
	After   time.Duration // when to try again
}

func complained(text []byte) complaint {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) == nil && len(list) > 0 {
		text = list[0]
	}
	var outer struct{ Error json.RawMessage }
	if json.Unmarshal(text, &outer) == nil && len(outer.Error) > 0 {
		text = outer.Error
	}
	var inner struct {
		Type, Status, Param   Text
		Message, Code, Detail json.RawMessage
		Metadata              struct{ Raw Text }
		Details               []struct{ RetryDelay Text }
	}
	var c complaint
	if json.Unmarshal(text, &c.Message) == nil {
		return c
	}
	if json.Unmarshal(text, &inner) != nil {
		return c
	}
	c.Kind, c.Code = strings.TrimSpace(string(inner.Type+" "+inner.Status)), plain(inner.Code)
	for _, more := range []string{plain(inner.Message), plain(inner.Detail), string(inner.Metadata.Raw), string(inner.Param)} {
		if more != "" && !strings.Contains(c.Message, more) { // a gateway puts the vendor's words into metadata
			c.Message = strings.TrimSpace(c.Message + " " + more)
		}
	}
	for _, d := range inner.Details {
		if wait, err := time.ParseDuration(string(d.RetryDelay)); err == nil {
			c.After = min(max(wait, 0), maxAfter)
		}
	}
	return c
}

// plain returns the text of a JSON value: a string without its quotes, other values as they
// are.
func plain(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// Streamed returns the error that a server sent in the middle of a stream.
func (c *Client) Streamed(text []byte) error {
	said := complained(text)
	status := http.StatusInternalServerError // the answer had begun
	switch number, err := strconv.Atoi(said.Code); {
	case err == nil && number >= 400 && number < 600:
		status = number
	case strings.Contains(said.Kind+said.Code, "overloaded"):
		status = 529
	case strings.Contains(said.Kind+said.Code, "rate_limit"):
		status = http.StatusTooManyRequests
	case strings.Contains(said.Kind, "invalid_request"), strings.Contains(said.Code, "context_length"):
		status = http.StatusBadRequest
	}
	return c.class(status, said)
}

// refused returns the error for a response that is not an answer.
func (c *Client) refused(r *http.Response, text []byte) error {
	if r.StatusCode >= 300 && r.StatusCode < 400 {
		to := "elsewhere"
		if u, err := r.Location(); err == nil {
			to = "to " + u.Scheme + "://" + u.Host
		}
		return c.fail(model.Bad, c.Base.Host+" sends "+to, "golem does not follow, so that no key and no file goes there; use that address if you trust it")
	}
	said := complained(text)
	if r.StatusCode == http.StatusOK {
		if said.Message == "" {
			return c.fail(model.Bad, c.Base.Host+" answers with "+r.Header.Get("Content-Type")+" in place of a stream", "check the address "+c.address())
		}
		return c.Streamed(text)
	}
	e := c.class(r.StatusCode, said)
	e.After = max(after(r.Header), said.After)
	return e
}

// full matches messages that say that a conversation is too long.
var full = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)context_length|prompt is too long|context (length|window|size)|too many (input )?tokens|maximum.{0,40}tokens|token count.{0,40}exceeds|request_too_large`)
})

// class returns the error for a status and the server's message.
func (c *Client) class(status int, said complaint) *model.Error {
	what := fmt.Sprintf("%s answers %d", c.Base.Host, status)
	if said.Message != "" {
		what += ": " + said.Message
	}
	all := said.Kind + " " + said.Code + " " + said.Message
	switch {
	case status == http.StatusUnauthorized, strings.Contains(all, "API key not valid"):
		// The server's message contains parts of the key.
		if c.Key == "" {
			return c.fail(model.Denied, c.Base.Host+" requires a key", "set "+c.KeyFrom)
		}
		return c.fail(model.Denied, c.Base.Host+" rejects the key from "+c.KeyFrom, "set "+c.KeyFrom+" to a key for "+c.Base.Host)
	case status == http.StatusPaymentRequired, strings.Contains(all, "insufficient_quota"), strings.Contains(all, "credit balance"):
		return c.fail(model.Denied, what, "check the credit of the account that the key from "+c.KeyFrom+" belongs to")
	case status == http.StatusForbidden:
		return c.fail(model.Denied, what, "the key from "+c.KeyFrom+" may not do this at "+c.Base.Host)
	case status == http.StatusNotFound:
		return c.fail(model.Unknown, what, "check the name of the model and the address "+c.address())
	case status == http.StatusRequestEntityTooLarge, (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) && full().MatchString(all):
		return c.fail(model.TooLong, what, "send less, or start a new conversation")
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable, status == 529:
		return c.fail(model.Overloaded, what, "try again later")
	case status == http.StatusRequestTimeout:
		return c.fail(model.TimedOut, what, "try again")
	case status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported:
		return c.fail(model.Bad, what, "the server does not support this request, and would not at another try")
	case status >= 500:
		return c.fail(model.Broken, what, "try again")
	}
	return c.fail(model.Bad, what, "the server rejects this request")
}

// maxAfter limits how long a server can ask to wait.
const maxAfter = 24 * time.Hour

// after returns how long the server asks to wait: in milliseconds, in seconds, or until a time
// by its own clock.
func after(h http.Header) time.Duration {
	wait := time.Duration(0)
	text := h.Get("Retry-After")
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		wait = time.Duration(min(ms, float64(maxAfter.Milliseconds())) * float64(time.Millisecond))
	} else if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 {
		wait = time.Duration(min(seconds, maxAfter.Seconds()) * float64(time.Second))
	} else if until, err := http.ParseTime(text); err == nil {
		if now, err := http.ParseTime(h.Get("Date")); err == nil {
			wait = until.Sub(now)
		}
	}
	return min(max(wait, 0), maxAfter)
}

// clean returns a text for one line of an error, without keys.
func (c *Client) clean(text string) string {
	if len(c.Key) >= 8 { // servers without keys get a word such as none, which hides nothing
		text = strings.ReplaceAll(text, c.Key, "[key]")
		text = egress.NewHider([]string{c.Key}).Text(text) // encoded or cut
	}
	return visible.Line(secret.HideModelKeys(text, "[key]"), 500)
}
