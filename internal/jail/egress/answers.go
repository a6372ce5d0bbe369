package egress

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
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
//
// White space may split a secret, and however much of it comes between two parts, golem must
// see both at once. So seen has only the first blanks of a run, and blanks has the others.
type hiding struct {
	finder   *finder
	seen     []byte // bytes of the host: the last ones that were returned, then those that are held back
	returned int    // how many of them were returned
	run      int    // how many bytes of blanks came last
	blanks   []blank
	out      []byte // the array of the bytes that hide returned
	full     []byte // that of the bytes that add returned
}

// A blank is white space that seen lacks before an index.
type blank struct {
	at   int
	text []byte
}

// maxRun is how many bytes of a run of white space seen has: more than maxGap, so that two
// lists of numbers do not become one.
const maxRun = maxGap + 2

// add returns the bytes that pass after more bytes of the text, until the next call. If the
// text ends there, it holds back none.
func (h *hiding) add(more []byte, ends bool) []byte {
	h.append(more)
	h.out = h.finder.hide(h.out[:0], h.seen, h.returned)
	held := 0
	if !ends {
		held = min(h.finder.held(h.seen), len(h.out))
	}
	pass := h.fill(h.out[:len(h.out)-held])
	h.returned = len(h.seen) - held
	old := max(0, h.returned-h.finder.context)
	h.seen = slices.Delete(h.seen, 0, old)
	h.returned -= old
	for i := range h.blanks {
		h.blanks[i].at -= old
	}
	return pass
}

// append appends bytes of the host to seen and blanks.
func (h *hiding) append(more []byte) {
	start := 0 // of the bytes that were not appended
	for i, c := range more {
		if c > ' ' && c < utf8.RuneSelf || c == 0 {
			h.run = 0
			continue
		}
		size := 0 // of the blank that ends here
		if c <= ' ' {
			size = 1
		} else {
			h.seen, start = append(h.seen, more[start:i+1]...), i+1
			r, n := utf8.DecodeLastRune(h.seen)
			switch {
			case r == utf8.RuneError: // the character may continue
				continue
			case blankSize(h.seen[len(h.seen)-n:]) == 0:
				h.run = 0
				continue
			}
			size = n
		}
		if h.run += size; h.run <= maxRun {
			continue
		}
		h.seen, start = append(h.seen, more[start:i+1]...), i+1
		h.drop(size)
	}
	h.seen = append(h.seen, more[start:]...)
}

// drop moves the last bytes of seen to blanks, except for those that were returned.
func (h *hiding) drop(size int) {
	at := len(h.seen) - size
	text := h.seen[max(at, h.returned):]
	h.returned = min(h.returned, at)
	if n := len(h.blanks); n == 0 || h.blanks[n-1].at != at {
		h.blanks = append(h.blanks, blank{at: at})
	}
	last := &h.blanks[len(h.blanks)-1]
	last.text = append(last.text, text...)
	h.seen = h.seen[:at]
}

// fill returns the first bytes of those that were not returned, with their blanks.
func (h *hiding) fill(pass []byte) []byte {
	if len(h.blanks) == 0 {
		return pass
	}
	h.full = h.full[:0]
	from, done := h.returned, 0
	for _, b := range h.blanks {
		if b.at > h.returned+len(pass) {
			break
		}
		h.full = append(append(h.full, pass[from-h.returned:b.at-h.returned]...), b.text...)
		from, done = b.at, done+1
	}
	h.blanks = slices.Delete(h.blanks, 0, done)
	return append(h.full, pass[from-h.returned:]...)
}
