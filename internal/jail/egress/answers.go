package egress

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

type secretKey struct{}

// A use of secrets: the one that golem adds to a request, nil for none, and those that its
// answer must not have.
type use struct {
	add     *secret
	hide    []*secret
	measure Measure // of the request, nil for none
}

func withSecrets(r *http.Request, u use) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), secretKey{}, u))
}

func secretsOf(ctx context.Context) use {
	u, _ := ctx.Value(secretKey{}).(use)
	return u
}

// secrets returns the secrets that the host of the stream gets. It may repeat one in the
// answer to another request.
func (s *stream) secrets() (list []*secret) {
	for _, rule := range s.rules {
		if secret := s.n.secrets[rule.Credential]; secret != nil && !slices.Contains(list, secret) {
			list = append(list, secret.all()...)
		}
	}
	return list
}

// checkAnswer refuses an answer with too many headers, and hides secrets in others.
func checkAnswer(answer *http.Response) error {
	fields := 0
	for _, values := range answer.Header {
		fields += len(values)
	}
	if fields > maxFields {
		return refusal(fmt.Sprintf("the answer has %d headers, more than %d", fields, maxFields))
	}
	measureAnswer(answer)
	if s, ok := answer.Request.Context().Value(streamKey{}).(*stream); ok {
		s.passed.add(requestName(answer.Request))
	}
	return hideSecrets(answer)
}

// hideSecrets replaces secrets in an answer by their placeholders, and removes cookies:
// they would be another authentication.
func hideSecrets(answer *http.Response) error {
	if len(answer.Trailer) > 0 {
		answer.Header.Del("Content-Length") // HTTP/1.1 has trailers only without a length
	}
	u := secretsOf(answer.Request.Context())
	if len(u.hide) == 0 {
		return nil
	}
	for _, coding := range answer.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return refusal("the server compressed its answer, so golem cannot keep the credential " + u.hide[0].name + " out of it")
		}
	}
	if answer.StatusCode == http.StatusUnauthorized && u.add != nil {
		// The program cannot know why, because it has only the placeholder.
		notice(answer.Request, "the host does not accept the credential "+u.add.name+" (401); if it has expired, renew it outside and start the command again")
	}
	answer.Header.Del("Set-Cookie")
	var finders []*finder
	for _, s := range u.hide {
		s.hideInHeader(answer.Header)
		finders = append(finders, s.finder())
	}
	if both, isUpgrade := answer.Body.(io.ReadWriteCloser); isUpgrade {
		if answer.Header.Get("Sec-Websocket-Extensions") != "" {
			return refusal("the server uses an extension of websockets that nobody offered, so golem cannot keep the credential " + u.hide[0].name + " out of its messages")
		}
		answer.Body = newSocket(both, finders, func(why string) { notice(answer.Request, why) })
		return nil
	}
	for i, s := range u.hide {
		answer.Body = &replacer{ReadCloser: answer.Body, hiding: hiding{finder: finders[i]}, atEnd: func() { s.hideInHeader(answer.Trailer) }}
	}
	return nil
}

// notice records something that the user should know about a request.
func notice(r *http.Request, why string) {
	from, ok := r.Context().Value(streamKey{}).(*stream)
	if !ok {
		return
	}
	record := from.record(Noticed)
	record.Request, record.Why = r.Method+" "+r.URL.EscapedPath(), why
	from.n.report(record)
}

// hideInHeader hides the secret in the values of a header. It removes a name that has a part
// of the secret: net/http has changed its case.
func (s *secret) hideInHeader(h http.Header) {
	for name, values := range h {
		if s.folded().hideText(lower(name)) != lower(name) {
			delete(h, name)
			continue
		}
		for i, v := range values {
			values[i] = s.finder().hideText(v)
		}
	}
}

// A hidingWriter replaces secrets in answers that come before the real one, such as
// 103 Early Hints, which the reverse proxy passes on by itself.
type hidingWriter struct {
	http.ResponseWriter
	secrets []*secret
}

func (w hidingWriter) WriteHeader(code int) {
	if code < 200 {
		w.Header().Del("Set-Cookie")
		for _, s := range w.secrets {
			s.hideInHeader(w.Header())
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap gives http.ResponseController the writer's other methods.
func (w hidingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A replacer is an answer's body without the secret.
type replacer struct {
	io.ReadCloser
	hiding
	atEnd func()

	buffer []byte
	ready  []byte // bytes to return
	err    error
}

func (r *replacer) Read(b []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill()
	}
	n := copy(b, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// fill reads more and hides the secret in it.
func (r *replacer) fill() {
	if r.buffer == nil {
		r.buffer = make([]byte, copySize)
	}
	var n int
	n, r.err = r.ReadCloser.Read(r.buffer)
	r.ready = r.add(r.buffer[:n], r.err != nil)
	if r.err == io.EOF && r.atEnd != nil {
		r.atEnd()
	}
}

// A hiding replaces a secret in a text that comes in pieces. It holds back bytes only as long
// as they may be the beginning of a secret (finder.held).
type hiding struct {
	finder   *finder
	seen     []byte // bytes of the host: the last ones that were returned, then those that are held back
	returned int    // how many of them were returned
	out      []byte // the array of the bytes that add returned
}

// add returns the bytes that pass after more bytes of the text, until the next call. If the
// text ends there, it holds back none.
func (h *hiding) add(more []byte, ends bool) []byte {
	h.seen = append(h.seen, more...)
	h.out = h.finder.hide(h.out[:0], h.seen, h.returned)
	held := 0
	if !ends {
		held = min(h.finder.held(h.seen), len(h.out))
	}
	h.returned = len(h.seen) - held
	old := max(0, h.returned-h.finder.context)
	h.seen = slices.Delete(h.seen, 0, old)
	h.returned -= old
	return h.out[:len(h.out)-held]
}
