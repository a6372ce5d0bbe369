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
	add  *secret
	hide []*secret
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
		noticeRefusal(answer.Request, u.add)
	}
	answer.Header.Del("Set-Cookie")
	both, isUpgrade := answer.Body.(io.ReadWriteCloser)
	for _, s := range u.hide {
		s.hideInHeader(answer.Header)
		answer.Body = &replacer{ReadCloser: answer.Body, finder: s.finder(), atEnd: func() { s.hideInHeader(answer.Trailer) }}
	}
	if isUpgrade {
		answer.Body = struct {
			io.ReadCloser
			io.Writer
		}{answer.Body, both}
	}
	return nil
}

// noticeRefusal records that a host does not accept the credential: the program cannot know
// why, because it has only the placeholder.
func noticeRefusal(r *http.Request, s *secret) {
	from, ok := r.Context().Value(streamKey{}).(*stream)
	if !ok {
		return
	}
	record := from.record(Noticed)
	record.Request = r.Method + " " + r.URL.EscapedPath()
	record.Why = "the host does not accept the credential " + s.name + " (401); if it has expired, renew it outside and start the command again"
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

// A replacer is an answer's body without the secret. It holds back bytes only as long as
// they may be the beginning of a secret (finder.held).
type replacer struct {
	io.ReadCloser
	finder *finder
	atEnd  func()

	buffer   []byte
	seen     []byte // bytes of the host: the last ones that were returned, then those that are held back
	returned int    // how many of them were returned
	ready    []byte // bytes to return
	out      []byte // the array of ready
	err      error
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
	r.seen = append(r.seen, r.buffer[:n]...)
	r.out = r.finder.hide(r.out[:0], r.seen, r.returned)
	held := 0
	switch {
	case r.err == nil:
		held = min(r.finder.held(r.seen), len(r.out))
	case r.err == io.EOF && r.atEnd != nil:
		r.atEnd()
	}
	r.ready = r.out[:len(r.out)-held]
	r.returned = len(r.seen) - held
	old := max(0, r.returned-r.finder.context)
	r.seen = slices.Delete(r.seen, 0, old)
	r.returned -= old
}
