package egress

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
)

type secretKey struct{}

// withSecret returns a request whose answer must not have the secret.
func withSecret(r *http.Request, s *secret) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), secretKey{}, s))
}

func secretOf(ctx context.Context) *secret {
	s, _ := ctx.Value(secretKey{}).(*secret)
	return s
}

// hideSecret replaces the secret in an answer by its placeholder, and removes cookies:
// they would be another authentication.
func hideSecret(answer *http.Response) error {
	if len(answer.Trailer) > 0 {
		answer.Header.Del("Content-Length") // HTTP/1.1 has trailers only without a length
	}
	s := secretOf(answer.Request.Context())
	if s == nil {
		return nil
	}
	for _, coding := range answer.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return refusal("the server compressed its answer, so golem cannot keep the credential " + s.name + " out of it")
		}
	}
	if answer.StatusCode == http.StatusUnauthorized {
		noticeRefusal(answer.Request, s)
	}
	answer.Header.Del("Set-Cookie")
	s.hideInHeader(answer.Header)
	body := &replacer{ReadCloser: answer.Body, pairs: s.pairs, atEnd: func() { s.hideInHeader(answer.Trailer) }}
	answer.Body = body
	if both, ok := body.ReadCloser.(io.ReadWriteCloser); ok { // after an upgrade
		answer.Body = struct {
			*replacer
			io.Writer
		}{body, both}
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

func (s *secret) hideInHeader(h http.Header) {
	for name, values := range h {
		if strings.Contains(lower(name), lower(s.value)) { // net/http has changed its case
			delete(h, name)
			continue
		}
		for i, v := range values {
			for _, p := range s.pairs {
				v = strings.ReplaceAll(v, string(p.hidden), string(p.shown))
			}
			values[i] = v
		}
	}
}

// A hidingWriter replaces the secret in answers that come before the real one, such as
// 103 Early Hints, which the reverse proxy passes on by itself.
type hidingWriter struct {
	http.ResponseWriter
	s *secret
}

func (w hidingWriter) WriteHeader(code int) {
	if code < 200 {
		w.Header().Del("Set-Cookie")
		w.s.hideInHeader(w.Header())
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap gives http.ResponseController the writer's other methods.
func (w hidingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A replacer replaces texts by others of the same length. It holds back bytes only as
// long as they may be the beginning of such a text. It does not hold back fewer than
// minHeld, so that the last byte of a message does not wait for the next message. If they
// are the beginning of a text, it replaces the rest.
type replacer struct {
	io.ReadCloser
	pairs []pair
	atEnd func()

	buffer []byte
	tail   []byte // the last bytes that were returned
	held   []byte // read and not yet returned; the first ready bytes can be
	ready  int
	err    error
}

const minHeld = 4

func (r *replacer) Read(b []byte) (int, error) {
	for r.ready == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill()
	}
	n := copy(b, r.held[:r.ready])
	r.tail = append(r.tail, r.held[max(0, n-minHeld+1):n]...)
	r.tail = r.tail[max(0, len(r.tail)-minHeld+1):]
	r.held, r.ready = r.held[n:], r.ready-n
	return n, nil
}

// fill reads more and replaces what is complete.
func (r *replacer) fill() {
	if r.buffer == nil {
		r.buffer = make([]byte, copySize)
	}
	n, err := r.ReadCloser.Read(r.buffer)
	all := slices.Concat(r.tail, r.held, r.buffer[:n])
	for _, p := range r.pairs {
		for i := 0; ; i += len(p.hidden) {
			at := bytes.Index(all[i:], p.hidden)
			if at < 0 {
				break
			}
			i += at
			copy(all[i:], p.shown)
		}
	}
	r.held = all[len(r.tail):]
	r.ready = len(r.held)
	if err != nil {
		if r.err = err; r.err == io.EOF && r.atEnd != nil {
			r.atEnd()
		}
		return
	}
	for _, p := range r.pairs {
		for size := min(len(p.hidden)-1, len(all)); size >= minHeld; size-- {
			if bytes.HasSuffix(all, p.hidden[:size]) {
				r.ready = max(0, min(r.ready, len(r.held)-size))
				break
			}
		}
	}
}
