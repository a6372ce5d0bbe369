package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
)

// A way is one of the ways in which a program's requests pass golem.
type way struct {
	name, url string
	rule      policy.HostRule
	protocol  string
}

var ways = []way{
	{"plain", "http://example.com", policy.HostRule{Host: "example.com"}, "http/1.1"},
	{"passed on", "https://example.com", policy.HostRule{Host: "example.com"}, "h2"},
	{"ended, HTTP/1.1", "https://example.com", policy.HostRule{Host: "example.com", Methods: []string{"GET", "POST"}}, "http/1.1"},
	{"ended, HTTP/2", "https://example.com", policy.HostRule{Host: "example.com", Methods: []string{"GET", "POST"}}, "h2"},
	{"credential, HTTP/1.1", "https://example.com", policy.HostRule{Host: "example.com", Credential: "c"}, "http/1.1"},
	{"credential, HTTP/2", "https://example.com", policy.HostRule{Host: "example.com", Credential: "c"}, "h2"},
}

// open opens a world in which requests go this way.
func (y way) open(t *testing.T, handler http.Handler) (*world, *tls.Config) {
	w := newWorld(t, y.rule)
	w.options.Credentials = map[string]egress.Credential{"c": {Value: token, Header: "X-Api-Key: ${value}"}}
	w.openWithTLS(w.site("example.com", handler))
	config := &tls.Config{RootCAs: w.options.Roots, NextProtos: []string{y.protocol}}
	if y.rule.NeedsRequests() {
		config = w.trustAuthority(y.protocol)
	}
	return w, config
}

// TestStreaming checks that golem passes on each piece of an answer, and of a request, as
// soon as it has it.
func TestStreaming(t *testing.T) {
	for _, y := range ways {
		t.Run(y.name, func(t *testing.T) {
			t.Parallel()
			w, config := y.open(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				http.NewResponseController(out).EnableFullDuplex()
				out.Header().Set("Content-Type", "text/event-stream")
				out.Header().Set("Trailer", "X-End")
				in := bufio.NewReader(r.Body)
				for {
					line, err := in.ReadString('\n')
					if err != nil {
						break
					}
					fmt.Fprintf(out, "data: %s\n", line)
					out.(http.Flusher).Flush()
				}
				out.Header().Set("X-End", "yes")
			}))
			body, send := io.Pipe()
			t.Cleanup(func() { send.Close() })
			go io.WriteString(send, "one\n")
			client := w.client(config)
			client.Timeout = time.Minute
			answer, err := client.Post(y.url+"/", "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			lines := bufio.NewReader(answer.Body)
			for _, text := range []string{"one", "two", "three"} {
				if text != "one" {
					io.WriteString(send, text+"\n")
				}
				got, err := lines.ReadString('\n')
				if err != nil || got != "data: "+text+"\n" {
					t.Fatalf("got %q, %v", got, err)
				}
				lines.ReadString('\n')
			}
			send.Close()
			if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 || answer.Trailer.Get("X-End") != "yes" {
				t.Errorf("got %q, %v, trailer %v", rest, err, answer.Trailer)
			}
		})
	}
}

// TestContinue checks that a program that waits for "100 Continue" gets it, and that a
// server that refuses gets no body.
func TestContinue(t *testing.T) {
	for _, y := range ways {
		t.Run(y.name, func(t *testing.T) {
			t.Parallel()
			w, config := y.open(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				fmt.Fprint(out, len(b))
			}))
			continued := false
			trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { continued = continued || code == 100; return nil }, Got100Continue: func() { continued = true }}
			r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", y.url+"/", strings.NewReader(strings.Repeat("x", 100_000)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Expect", "100-continue")
			client := w.client(config)
			client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if b, err := io.ReadAll(answer.Body); err != nil || string(b) != "100000" || !continued {
				t.Errorf("got %q, %v, continued %v", b, err, continued)
			}
		})
	}
}

// TestWebsocket checks an upgrade: bytes pass both ways, and the secret does not pass.
func TestWebsocket(t *testing.T) {
	for _, y := range ways {
		if y.protocol == "h2" {
			continue
		}
		t.Run(y.name, func(t *testing.T) {
			t.Parallel()
			w, config := y.open(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				c, buffered, err := out.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				message := "key " + r.Header.Get("X-Api-Key") + "\n"
				for i := range len(message) { // each byte in a fragment of its own
					c.Write([]byte{map[bool]byte{true: 1}[i == 0] | map[bool]byte{true: 0x80}[i == len(message)-1], 1, message[i]})
				}
				line, _ := buffered.ReadString('\n')
				fmt.Fprintf(c, "\x81%c%s", len(line)-6, line[6:])
			}))
			c := w.mustDial("example.com", map[bool]uint16{true: 443, false: 80}[strings.HasPrefix(y.url, "https")])
			if strings.HasPrefix(y.url, "https") {
				config.ServerName = "example.com"
				c = tls.Client(c, config)
			}
			c.SetDeadline(time.Now().Add(time.Minute))
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
			in := bufio.NewReader(c)
			answer, err := http.ReadResponse(in, nil)
			if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("got %v, %v", answer, err)
			}
			want := "key \n"
			if y.rule.Credential != "" {
				want = "key " + w.placeholder("c") + "\n"
			}
			var got strings.Builder
			for range len(want) {
				frame := make([]byte, 3)
				if _, err := io.ReadFull(in, frame); err != nil {
					t.Fatal(err)
				}
				got.WriteByte(frame[2])
			}
			if got.String() != want {
				t.Errorf("got %q, want %q", got.String(), want)
			}
			io.WriteString(c, "\x81\x86\x00\x00\x00\x00hello\n")
			if got, err := in.ReadString('\n'); err != nil || !strings.HasSuffix(got, "hello\n") {
				t.Errorf("got %q, %v", got, err)
			}
			c.Close()
			w.awaitStep(egress.Closed, "example.com")
		})
	}
}

// TestLargeBodies checks that every byte of a large body arrives, each way.
func TestLargeBodies(t *testing.T) {
	const size = 32 << 20
	for _, y := range ways {
		t.Run(y.name, func(t *testing.T) {
			w, config := y.open(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				if n != size || err != nil {
					t.Errorf("the server got %d bytes, %v", n, err)
				}
				io.Copy(out, io.LimitReader(zeros{}, size))
			}))
			client := w.client(config)
			answer, err := client.Post(y.url+"/", "text/plain", io.LimitReader(zeros{}, size))
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if n != size || err != nil {
				t.Errorf("the program got %d bytes, %v", n, err)
			}
			client.CloseIdleConnections()
			if r := w.awaitStep(egress.Closed, "example.com"); r.Sent < size || r.Received < size {
				t.Errorf("got %+v", r)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
