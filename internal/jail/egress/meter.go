package egress

import (
	"io"
	"net/http"
	"net/http/httptrace"
)

// Metered says where a request goes, and with which credential.
type Metered struct {
	Host, Credential string
	Header           string // the name of the header that carries the credential
}

// A Measure gets the answer to one request, as the host sent it. Its methods are called in
// this order. End is always called, and the others only if it came that far.
type Measure interface {
	Sent()              // a connection to the host was ready, so the host may have the request
	Answered(code int)  // the head of the answer came, with its status code
	Write(piece []byte) // a piece of the answer's body came
	End()
}

// measure starts to measure a request with a credential. If the meter refuses the request,
// measure answers it and returns false.
func (s *stream) measure(w http.ResponseWriter, r *http.Request, secret *secret) (Measure, bool) {
	if s.n.o.Meter == nil || secret == nil {
		return nil, true
	}
	m, refused := s.n.o.Meter(r, Metered{s.host, secret.name, secret.header})
	if refused == nil {
		return m, true
	}
	defer refused.Body.Close()
	record := s.record(Denied)
	record.Request, record.Why = r.Method+" "+r.URL.EscapedPath(), refused.Status
	s.n.report(record)
	for name, values := range refused.Header {
		w.Header()[name] = values
	}
	w.Header().Set("X-Golem", "refused")
	w.WriteHeader(refused.StatusCode)
	io.Copy(w, refused.Body)
	return nil, false
}

// traceSent tells a measure when the request may have left.
func traceSent(r *http.Request) *http.Request {
	m := secretsOf(r.Context()).measure
	if m == nil {
		return r
	}
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { m.Sent() }}))
}

// measureAnswer gives an answer to its measure while the program reads it.
func measureAnswer(answer *http.Response) {
	if m := secretsOf(answer.Request.Context()).measure; m != nil && answer.StatusCode != http.StatusSwitchingProtocols {
		m.Answered(answer.StatusCode)
		answer.Body = &measured{answer.Body, m}
	}
}

// A measured body gives its bytes to a measure, too.
type measured struct {
	io.ReadCloser
	measure Measure
}

func (b *measured) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.measure.Write(to[:n])
	return n, err
}
