package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
)

// A strictServer accepts only HTTP/1.1 requests in a form that all servers read alike:
// every line ends in CR LF, no line is folded, there is one host, and a body has one
// length. So nobody after golem can see a request that golem did not see.
type strictServer struct {
	l     net.Listener
	mu    sync.Mutex
	list  []string
	wrong []string // what other servers might read in another way
}

// newStrictServer starts a server, with TLS if there is a configuration.
func newStrictServer(t testing.TB, config *tls.Config) *strictServer {
	s := &strictServer{l: listen(t)}
	if config != nil {
		s.l = tls.NewListener(s.l, config)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := s.l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(time.Minute))
				for r := bufio.NewReader(c); s.serve(r); {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
		}
	})
	t.Cleanup(func() { s.l.Close(); serving.Wait() })
	return s
}

var (
	strictRequest = regexp.MustCompile(`^([A-Z]+) (\S+) HTTP/1\.1\r\n$`)
	strictHeader  = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([^\\x00-\\x08\\x0a-\\x1f\\x7f]*)\r\n$")
	strictChunk   = regexp.MustCompile(`^[0-9a-f]+\r\n$`)
)

// serve reads one request. It returns false at the end of the connection.
func (s *strictServer) serve(r *bufio.Reader) bool {
	line := func(what string, want *regexp.Regexp) []string {
		text, err := r.ReadString('\n')
		found := want.FindStringSubmatch(text)
		if err == nil && found == nil {
			s.reject("%q as %s", text, what)
		}
		return found
	}
	first := line("the first line", strictRequest)
	if first == nil {
		return false
	}
	header := map[string][]string{}
	for {
		if b, err := r.Peek(2); err != nil || string(b) == "\r\n" {
			r.Discard(2)
			break
		}
		field := line("a header", strictHeader)
		if field == nil {
			return false
		}
		header[strings.ToLower(field[1])] = append(header[strings.ToLower(field[1])], field[2])
	}
	hosts, lengths, codings := header["host"], header["content-length"], header["transfer-encoding"]
	if len(hosts) != 1 || len(lengths)+len(codings) > 1 {
		s.reject("hosts %q, lengths %q and codings %q", hosts, lengths, codings)
		return false
	}
	size := 0
	switch {
	case lengths != nil:
		size, _ = strconv.Atoi(lengths[0])
		if _, err := io.CopyN(io.Discard, r, int64(size)); err != nil {
			return false
		}
	case codings != nil:
		for {
			chunk := line("the size of a chunk", strictChunk)
			if chunk == nil {
				return false
			}
			n, _ := strconv.ParseInt(strings.TrimSpace(chunk[0]), 16, 32)
			io.CopyN(io.Discard, r, n)
			size += int(n)
			switch end, err := r.ReadString('\n'); {
			case err != nil: // golem has ended a request that the program has not
				return false
			case end != "\r\n":
				s.reject("%q after a chunk", end)
				return false
			}
			if n == 0 {
				break
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, fmt.Sprintf("%s %s%s %d", first[1], hosts[0], first[2], size))
	return true
}

func (s *strictServer) reject(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// take returns the requests that the server got, and forgets them.
func (s *strictServer) take(t testing.TB) []string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range s.wrong {
		t.Errorf("the server got %s", what)
	}
	list := s.list
	s.list, s.wrong = nil, nil
	return list
}

func (s *strictServer) seen(t testing.TB) string { return strings.Join(s.take(t), ", ") }

const (
	post  = "POST / HTTP/1.1\r\nHost: example.com\r\n"
	evil  = "GET /evil HTTP/1.1\r\nHost: evil.org\r\n\r\n"
	empty = "0\r\n\r\n"
)

// smugglingCases are requests that servers read in different ways, and what the server gets.
var smugglingCases = map[string]struct{ raw, want string }{
	"length before chunks":         {post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + empty + evil, "POST example.com/ 0"},
	"chunks before length":         {post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + empty + evil, "POST example.com/ 0"},
	"two codings":                  {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + empty + evil, ""},
	"two codings in a line":        {post + "Transfer-Encoding: identity, chunked\r\n\r\n" + empty + evil, ""},
	"a coding with a tab":          {post + "Transfer-Encoding:\tchunked\r\n\r\n" + empty, "POST example.com/ 0"},
	"a coding with a control":      {post + "Transfer-Encoding: \x0bchunked\r\n\r\n" + empty + evil, ""},
	"a coding in quotes":           {post + "Transfer-Encoding: \"chunked\"\r\n\r\n" + empty + evil, ""},
	"a coding in HTTP/1.0":         {"POST / HTTP/1.0\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + empty + evil, "POST example.com/ 5"},
	"a folded coding":              {post + "X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + empty, "POST example.com/ 5"},
	"a coding on the next line":    {post + "Transfer-Encoding:\r\n chunked\r\n\r\n" + empty, "POST example.com/ 0"},
	"a folded length":              {post + "Content-Length: 0\r\n 40\r\n\r\n" + evil, ""},
	"a length with a sign":         {post + "Content-Length: +0\r\n\r\n" + evil, ""},
	"a negative length":            {post + "Content-Length: -1\r\n\r\n" + evil, ""},
	"a length in a list":           {post + "Content-Length: 0, 40\r\n\r\n" + evil, ""},
	"a length in hex":              {post + "Content-Length: 0x28\r\n\r\n" + evil, ""},
	"a length with an underscore":  {post + "Content-Length: 4_0\r\n\r\n" + evil, ""},
	"a length that is too long":    {post + "Content-Length: 18446744073709551616\r\n\r\n" + evil, ""},
	"the same length twice":        {post + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", "POST example.com/ 2"},
	"a length of a GET":            {"GET / HTTP/1.1\r\nHost: example.com\r\nContent-Length: " + strconv.Itoa(len(evil)) + "\r\n\r\n" + evil, "GET example.com/ " + strconv.Itoa(len(evil))},
	"lines without CR":             {"GET / HTTP/1.1\nHost: example.com\n\n", "GET example.com/ 0"},
	"a host after a bare LF":       {"GET / HTTP/1.1\r\nX: y\nHost: evil.org\r\nHost: example.com\r\n\r\n", ""},
	"a bare CR in a header":        {"GET / HTTP/1.1\r\nX: y\rHost: evil.org\r\nHost: example.com\r\n\r\n", ""},
	"a bare CR in the first line":  {"GET / HTTP/1.1\rX: y\r\nHost: example.com\r\n\r\n", ""},
	"a NUL in a header":            {"GET / HTTP/1.1\r\nHost: example.com\r\nX: a\x00b\r\n\r\n", ""},
	"a name with a space":          {"GET / HTTP/1.1\r\nHost: example.com\r\nX Y: z\r\n\r\n", ""},
	"a line without a colon":       {"GET / HTTP/1.1\r\nHost: example.com\r\nHost evil.org\r\n\r\n", ""},
	"a first header with a space":  {"GET / HTTP/1.1\r\n Host: evil.org\r\nHost: example.com\r\n\r\n", ""},
	"a folded host":                {"GET / HTTP/1.1\r\nHost: example.com\r\n\t.evil.org\r\n\r\n", ""},
	"hosts in a list":              {"GET / HTTP/1.1\r\nHost: example.com, evil.org\r\n\r\n", ""},
	"two equal hosts":              {"GET / HTTP/1.1\r\nHost: example.com\r\nHost: example.com\r\n\r\n", ""},
	"a host in brackets":           {"GET / HTTP/1.1\r\nHost: [example.com]\r\n\r\n", ""},
	"a host with a path":           {"GET / HTTP/1.1\r\nHost: example.com/evil.org\r\n\r\n", ""},
	"a host with two ports":        {"GET / HTTP/1.1\r\nHost: example.com:80:80\r\n\r\n", ""},
	"an absolute URL wins":         {"GET http://evil.org/ HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
	"an absolute URL as user":      {"GET http://example.com@evil.org/ HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
	"a URL with a fragment":        {"GET /x#y HTTP/1.1\r\nHost: example.com\r\n\r\n", "GET example.com/x%23y 0"},
	"a path without a slash":       {"GET evil.org/ HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
	"two spaces in the first line": {"GET  / HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
	"a version in the query":       {"GET /?x HTTP/1.0 HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
	"a tab in the first line":      {"GET /x\tHTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
	"a version of two digits":      {"GET / HTTP/1.10\r\nHost: example.com\r\n\r\n", ""},
	"a chunk in hex with 0x":       {post + "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + evil, ""},
	"a chunk with an underscore":   {post + "Transfer-Encoding: chunked\r\n\r\n0_0\r\n\r\n" + evil, ""},
	"a chunk with a sign":          {post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + evil, ""},
	"a chunk longer than its size": {post + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n" + empty + evil, ""},
	"a chunk with an extension":    {post + "Transfer-Encoding: chunked\r\n\r\n2;x=\"y\"\r\nhi\r\n" + empty, "POST example.com/ 2"},
	"a chunk that ends in LF":      {post + "Transfer-Encoding: chunked\r\n\r\n2\nhi\n0\n\n", ""},
	"a host in a trailer":          {post + "Trailer: Host\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: evil.org\r\n\r\n", "POST example.com/ 0"},
	"a length in a trailer":        {post + "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 9\r\n\r\n", ""},
	"a trailer that nobody named":  {post + "Transfer-Encoding: chunked\r\n\r\n0\r\nHost: evil.org\r\n\r\n", "POST example.com/ 0"},
	"hop by hop":                   {"GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Host, X-Y\r\nX-Y: z\r\n\r\n", "GET example.com/ 0"},
	"a length made hop by hop":     {post + "Connection: Content-Length, Transfer-Encoding\r\nContent-Length: " + strconv.Itoa(len(evil)) + "\r\n\r\n" + evil, "POST example.com/ " + strconv.Itoa(len(evil))},
	"CONNECT with a body":          {"CONNECT evil.org:443 HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\n\r\n" + evil, ""},
	"an upgrade to TLS":            {"OPTIONS * HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n", "OPTIONS example.com* 0"},
	"a websocket that is none":     {"GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n" + evil, "GET example.com/ 0"},
	"TRACE":                        {"TRACE / HTTP/1.1\r\nHost: example.com\r\n\r\n", "TRACE example.com/ 0"},
	"a method in lower case":       {"connect evil.org:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", ""},
}

// TestSmuggling sends requests that servers read in different ways. golem refuses them, or
// sends them on in a form that leaves no choice. It does so for plain HTTP and inside TLS.
func TestSmuggling(t *testing.T) {
	for name, test := range smugglingCases {
		for _, ended := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", ended"}[ended], func(t *testing.T) {
				t.Parallel()
				rule := policy.HostRule{Host: "example.com"}
				if ended {
					rule.Paths = []string{"/**"}
				}
				w := newWorld(t, rule)
				secure := w.site("example.com", &requestLog{})
				plain, inTLS := newStrictServer(t, nil), newStrictServer(t, &tls.Config{Certificates: secure.TLS.Certificates, NextProtos: []string{"http/1.1"}})
				w.host("example.com", 80, plain.l.Addr())
				w.host("example.com", 443, inTLS.l.Addr())
				w.openWithTLS(secure)
				server, raw := plain, test.raw
				var answer string
				if ended {
					server, raw = inTLS, strings.ReplaceAll(raw, "example.com:80", "example.com:443")
					config := w.trustAuthority("http/1.1")
					config.ServerName = "example.com"
					c := tls.Client(w.mustDial("example.com", 443), config)
					c.SetDeadline(time.Now().Add(30 * time.Second))
					io.WriteString(c, raw)
					var first bytes.Buffer
					if r, err := http.ReadResponse(bufio.NewReader(io.TeeReader(c, &first)), nil); err == nil {
						io.Copy(io.Discard, r.Body)
					}
					c.CloseWrite()
					rest, _ := io.ReadAll(c)
					answer = first.String() + string(rest)
				} else {
					answer = exchange(w.mustDial("example.com", 80), raw)
				}
				if got := server.seen(t); got != test.want {
					t.Errorf("the server got %q, want %q; the program got %q", got, test.want, answer)
				}
			})
		}
	}
}

// rawHTTP2 is a program that speaks HTTP/2 frame by frame.
type rawHTTP2 struct {
	t      testing.TB
	c      net.Conn
	framer *http2.Framer
	stream uint32
}

func (w *world) rawHTTP2(t testing.TB, host string) *rawHTTP2 {
	t.Helper()
	config := w.trustAuthority("h2")
	config.ServerName = host
	c := tls.Client(w.mustDial(host, 443), config)
	c.SetDeadline(time.Now().Add(30 * time.Second))
	io.WriteString(c, http2.ClientPreface)
	p := &rawHTTP2{t: t, c: c, framer: http2.NewFramer(c, c), stream: 1}
	p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := p.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return p
}

// begin sends a request and returns its number. A request with a body has one field "" in
// front of it.
func (p *rawHTTP2) begin(fields ...string) uint32 {
	var b bytes.Buffer
	encode := func(list []string) []byte {
		b.Reset()
		encoder := hpack.NewEncoder(&b)
		encoder.SetMaxDynamicTableSize(0)
		for i := 0; i+1 < len(list); i += 2 {
			encoder.WriteField(hpack.HeaderField{Name: list[i], Value: list[i+1]})
		}
		return slices.Clone(b.Bytes())
	}
	id := p.stream
	p.stream += 2
	header, rest, hasBody := fields, []string(nil), false
	if i := slices.Index(fields, ""); i >= 0 {
		header, rest, hasBody = fields[:i], fields[i+1:], true
	}
	p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: encode(header), EndHeaders: true, EndStream: !hasBody})
	if hasBody {
		p.framer.WriteData(id, len(rest) == 1, []byte(rest[0]))
		if len(rest) > 1 {
			p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: encode(rest[1:]), EndHeaders: true, EndStream: true})
		}
	}
	return id
}

// send sends a request and returns the status of the answer, or what ended the request.
// Fields are names and values. A field "" is followed by the body, and then by trailers.
func (p *rawHTTP2) send(fields ...string) string {
	p.t.Helper()
	id := p.begin(fields...)
	for {
		f, err := p.framer.ReadFrame()
		if err != nil {
			return "end"
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID == id {
				return f.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return "reset"
			}
		case *http2.GoAwayFrame:
			return "end"
		case *http2.SettingsFrame:
			if !f.IsAck() {
				p.framer.WriteSettingsAck()
			}
		}
	}
}

// TestHTTP2Smuggling sends HTTP/2 requests that would be other requests in HTTP/1.1, and
// several authorities over one connection.
func TestHTTP2Smuggling(t *testing.T) {
	request := func(more ...string) []string {
		return append([]string{":method", "GET", ":scheme", "https", ":authority", "example.com", ":path", "/"}, more...)
	}
	changed := func(name, value string) []string {
		list := request()
		list[slices.Index(list, name)+1] = value
		return list
	}
	post := func(more ...string) []string {
		return append(changed(":method", "POST"), more...)
	}
	for name, test := range map[string]struct {
		fields []string
		want   string // that the server gets
		code   string
	}{
		"allowed":                  {request(), "GET example.com/ 0", "200"},
		"another authority":        {changed(":authority", "evil.org"), "", "403"},
		"a user in the authority":  {changed(":authority", "example.com@evil.org"), "", "403 reset"},
		"a line in the authority":  {changed(":authority", "example.com\r\nHost: evil.org"), "", "end reset 400 403"},
		"another host":             {request("host", "evil.org"), "GET example.com/ 0", "200 400 reset"},
		"only another host":        {slices.Delete(request("host", "evil.org"), 4, 6), "", "403"},
		"no authority":             {slices.Delete(request(), 4, 6), "", "403"},
		"two authorities":          {slices.Insert(request(), 6, ":authority", "evil.org"), "", "reset end"},
		"an absolute path":         {changed(":path", "https://evil.org/"), "", "403 reset"},
		"a path without a slash":   {changed(":path", "evil.org/"), "", "reset 400 403"},
		"a line in the path":       {changed(":path", "/ HTTP/1.1\r\nHost: evil.org\r\n\r\n"), "", "reset 400 403"},
		"a space in the path":      {changed(":path", "/x HTTP/1.1"), "GET example.com/x%20HTTP/1.1 0", "200"},
		"a space in the query":     {changed(":path", "/?x HTTP/1.1"), "", "403"},
		"another byte in a query":  {changed(":path", "/?x\xff"), "GET example.com/?x\xff 0", "200 403"},
		"a fragment":               {changed(":path", "/x#y"), "GET example.com/x%23y 0", "200"},
		"a line in the method":     {changed(":method", "GET / HTTP/1.1\r\nX: y"), "", "reset 400 403 502 end"},
		"a space in the method":    {changed(":method", "GET /evil"), "", "reset 400 403 502 end"},
		"another scheme":           {changed(":scheme", "ftp"), "", "reset 403 200"},
		"a line in a value":        {request("x", "y\r\nHost: evil.org"), "", "reset end"},
		"a bare LF in a value":     {request("x", "y\nHost: evil.org"), "", "reset end"},
		"a NUL in a value":         {request("x", "y\x00z"), "", "reset end"},
		"a line in a name":         {request("x\r\nhost", "evil.org"), "", "reset end"},
		"a colon in a name":        {request("x: y", "z"), "", "reset end"},
		"a name in upper case":     {request("Host", "evil.org"), "", "reset end"},
		"a coding":                 {post("transfer-encoding", "chunked", "", "0\r\n\r\n"+evil), "", "reset end 400"},
		"a connection":             {request("connection", "close"), "", "reset end 400"},
		"an upgrade":               {request("upgrade", "websocket"), "", "reset end 400"},
		"less than the length":     {post("content-length", "100", "", "hi"), "", "reset end 400 502"},
		"more than the length":     {post("content-length", "1", "", evil), "", "reset end 400 502"},
		"two lengths":              {post("content-length", "0", "content-length", "2", "", "hi"), "", "reset end 400 502"},
		"a request in a body":      {post("", evil), "POST example.com/ " + strconv.Itoa(len(evil)), "200"},
		"CONNECT":                  {[]string{":method", "CONNECT", ":authority", "evil.org:443"}, "", "403"},
		"CONNECT to the host":      {[]string{":method", "CONNECT", ":authority", "example.com:443"}, "", "403"},
		"CONNECT with a protocol":  {append(changed(":method", "CONNECT"), ":protocol", "websocket"), "", "reset end 403"},
		"a host in a trailer":      {post("", "hi", "host", "evil.org"), "POST example.com/ 2", "200 400 reset end"},
		"a pseudo-header later":    {request("x", "y", ":path", "/evil"), "", "reset end"},
		"an unknown pseudo-header": {append([]string{":evil", "x"}, request()...), "", "reset end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, policy.HostRule{Host: "example.com", Paths: []string{"/**"}})
			secure := w.site("example.com", &requestLog{})
			server := newStrictServer(t, &tls.Config{Certificates: secure.TLS.Certificates, NextProtos: []string{"http/1.1"}})
			w.host("example.com", 443, server.l.Addr())
			w.openWithTLS(secure)
			p := w.rawHTTP2(t, "example.com")
			if code := p.send(test.fields...); !slices.Contains(strings.Fields(test.code), code) {
				t.Errorf("the program got %s, want %s", code, test.code)
			}
			p.c.Close()
			w.network.Close()
			if got := server.seen(t); got != test.want && got != "" {
				t.Errorf("the server got %q, want %q", got, test.want)
			} else if got == "" && test.code == "200" {
				t.Error("the server got nothing")
			}
		})
	}
}

// TestManyAuthorities sends requests for several hosts over one HTTP/2 connection. Each
// host has its own credential, and gets none of the others.
func TestManyAuthorities(t *testing.T) {
	got := make(chan string, 10)
	w := newVendor(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Host + " " + r.Header.Get("X-Api-Key") }))
	p := w.rawHTTP2(t, "example.com")
	for authority, want := range map[string]string{"example.com": "200", "git.example.com": "403", "api.example.com": "403", "evil.org": "403", "EXAMPLE.com:443": "200"} {
		if code := p.send(":method", "GET", ":scheme", "https", ":authority", authority, ":path", "/"); code != want {
			t.Errorf("%s: got %s, want %s", authority, code, want)
		}
	}
	close(got)
	for one := range got {
		if one != "example.com "+token && one != "EXAMPLE.com:443 "+token {
			t.Errorf("a server got %s", one)
		}
	}
}

// newECH returns the configuration of an encrypted hello with an outer name, for clients
// and for the server.
func newECH(t *testing.T, outer string) (list []byte, key tls.EncryptedClientHelloKey) {
	t.Helper()
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := private.PublicKey().Bytes()
	b := append([]byte{7, 0, 0x20, 0, byte(len(public))}, public...) // number, X25519
	b = append(b, 0, 4, 0, 1, 0, 1, 32, byte(len(outer)))            // HKDF-SHA256 and AES-128-GCM
	b = append(append(b, outer...), 0, 0)
	config := append(binary.BigEndian.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(b))), b...)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(config))), config...), tls.EncryptedClientHelloKey{Config: config, PrivateKey: private.Bytes()}
}

// TestEncryptedHello sends encrypted hellos. golem sees the outer name only, which must be
// that of the host. The host may read another name inside: that is domain fronting. Where
// golem ends TLS, an encrypted hello hides nothing.
func TestEncryptedHello(t *testing.T) {
	hello := make(chan string, 9)
	start := func(rule policy.HostRule) (*world, []byte) {
		w := newWorld(t, rule)
		secure := w.site("example.com", &requestLog{})
		list, key := newECH(t, "example.com")
		l := tls.NewListener(listen(t), &tls.Config{Certificates: secure.TLS.Certificates, EncryptedClientHelloKeys: []tls.EncryptedClientHelloKey{key},
			GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) { hello <- h.ServerName; return nil, nil }})
		go http.Serve(l, &requestLog{}) // ends with the listener
		t.Cleanup(func() { l.Close() })
		w.host("example.com", 443, l.Addr())
		return w.openWithTLS(secure), list
	}
	w, list := start(policy.HostRule{Host: "example.com"})
	other, _ := newECH(t, "evil.org")
	shake := func(w *world, config *tls.Config) error {
		config.MinVersion = tls.VersionTLS13
		c := tls.Client(w.mustDial("example.com", 443), config)
		defer c.Close()
		c.SetDeadline(time.Now().Add(30 * time.Second))
		return c.Handshake()
	}
	if err := shake(w, &tls.Config{ServerName: "front.example.com", EncryptedClientHelloConfigList: list, RootCAs: w.options.Roots}); err != nil {
		t.Errorf("an encrypted hello with the name of the host: %v", err)
	}
	if got := <-hello; got != "front.example.com" {
		t.Errorf("the server read %s", got)
	}
	if err := shake(w, &tls.Config{ServerName: "example.com", EncryptedClientHelloConfigList: other, RootCAs: w.options.Roots}); err == nil {
		t.Error("an encrypted hello with another outer name passed")
	}
	w.await("the outer name", func(r egress.Event) bool { return strings.Contains(r.Why, "names evil.org") })
	if !slices.Equal(w.dialled, []string{"203.0.113.1:443"}) {
		t.Errorf("golem dialled %v", w.dialled)
	}

	w, list = start(policy.HostRule{Host: "example.com", Methods: []string{"GET"}})
	config := w.trustAuthority()
	config.ServerName, config.EncryptedClientHelloConfigList = "front.example.com", list
	var rejected *tls.ECHRejectionError
	if err := shake(w, config); !errors.As(err, &rejected) {
		t.Errorf("an encrypted hello to golem itself: %v", err)
	}
	if len(hello) > 0 || len(w.dialled) > 0 {
		t.Errorf("golem dialled %v", w.dialled)
	}
}

// oneSession is a cache that offers one session to every server.
type oneSession struct {
	mu  sync.Mutex
	one *tls.ClientSessionState
}

func (c *oneSession) Get(string) (*tls.ClientSessionState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.one, c.one != nil
}

func (c *oneSession) Put(_ string, s *tls.ClientSessionState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.one == nil {
		c.one = s
	}
}

// TestResumedSessions takes a TLS session from one host to another. The name in each hello
// counts, and golem's own sessions are valid for one connection.
func TestResumedSessions(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		got := make(chan string, 10)
		w := newVendor(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got <- r.Host + " " + r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
		}))
		cache := &oneSession{}
		request := func(dialled, name string) (tls.ConnectionState, error) {
			c := tls.Client(w.mustDial(dialled, 443), &tls.Config{ServerName: name, InsecureSkipVerify: true, ClientSessionCache: cache, MaxVersion: version})
			defer c.Close()
			c.SetDeadline(time.Now().Add(30 * time.Second))
			if err := c.Handshake(); err != nil {
				return tls.ConnectionState{}, err
			}
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
			_, err := io.ReadAll(c)
			return c.ConnectionState(), err
		}
		if _, err := request("example.com", "example.com"); err != nil {
			t.Fatal(err)
		}
		if cache.one == nil {
			t.Fatal("no session to resume")
		}
		for _, name := range []string{"example.com", "api.example.com", "git.example.com"} {
			state, err := request(name, name)
			if err != nil || state.DidResume || !slices.Equal(state.PeerCertificates[0].DNSNames, []string{name}) {
				t.Errorf("%s: resumed %v, %v", name, state.DidResume, err)
			}
		}
		for _, pair := range [][2]string{{"example.com", "git.example.com"}, {"git.example.com", "example.com"}, {"api.example.com", ""}} {
			if _, err := request(pair[0], pair[1]); err == nil {
				t.Errorf("a session with %s for %q passed", pair[0], pair[1])
			}
		}
		close(got)
		want := []string{"example.com " + token, "example.com " + token, "api.example.com ", "git.example.com Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+otherSecret))}
		var all []string
		for one := range got {
			all = append(all, one)
		}
		if !slices.Equal(all, want) {
			t.Errorf("the servers got %q, want %q", all, want)
		}
	}
	// The same for TLS that golem passes on: the host may resume, but not for another name.
	w := newWorld(t, rules("example.com", "api.example.com")...)
	server := w.site("example.com", &requestLog{})
	w.host("api.example.com", 443, server.Listener.Addr())
	w.open()
	cache := &oneSession{}
	for _, test := range []struct {
		dialled, name string
		ok            bool
	}{{"example.com", "example.com", true}, {"example.com", "example.com", true}, {"example.com", "api.example.com", false}, {"api.example.com", "example.com", false}, {"example.com", "evil.org", false}} {
		c := tls.Client(w.mustDial(test.dialled, 443), &tls.Config{ServerName: test.name, InsecureSkipVerify: true, ClientSessionCache: cache, MaxVersion: tls.VersionTLS12})
		if err := c.Handshake(); (err == nil) != test.ok {
			t.Errorf("a session for %s at %s: %v", test.name, test.dialled, err)
		}
		c.Close()
	}
}

// TestPlaceholders puts placeholders everywhere in requests. The host of the credential
// gets the value in its header and nowhere else, and other hosts get the placeholder.
func TestPlaceholders(t *testing.T) {
	got := make(chan string, 1)
	w := newVendor(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get("X-Api-Key")
		r.Header.Del("X-Api-Key")
		got <- fmt.Sprintf("%s | %s %s %v %s %v", key, r.Host, r.RequestURI, r.Header, body, r.Trailer)
	}))
	fake, git := w.placeholder("vendor"), w.placeholder("git")
	for _, protocol := range []string{"http/1.1", "h2"} {
		for host, key := range map[string]string{"example.com": token, "api.example.com": ""} {
			r, err := http.NewRequest("GET", "https://"+host+"/"+fake+"?x="+fake+"&y="+git, struct{ io.Reader }{strings.NewReader(fake + " " + git)})
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Note", fake+" "+git)
			r.Header.Set("User-Agent", "agent "+fake)
			r.Header.Set("Referer", "https://example.com/"+git)
			r.Trailer = http.Header{"X-Api-Key": {"attacker"}, "X-Late": {fake}}
			answer, err := w.client(w.trustAuthority(protocol)).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			all := <-got
			has, rest, _ := strings.Cut(all, " | ")
			if has != key || strings.Contains(rest, token) || strings.Contains(rest, otherSecret) || strings.Count(rest, fake) < 5 || strings.Count(rest, git) < 3 {
				t.Errorf("%s %s: got %s", protocol, host, all)
			}
			if host == "example.com" && (strings.Contains(rest, "attacker") || strings.Contains(rest, "X-Late")) {
				t.Errorf("%s: a trailer passed to a host with a credential: %s", protocol, all)
			}
		}
	}
	for _, where := range []string{"the path", "the query", "X-Note", "User-Agent", "Referer"} {
		w.await("a placeholder in "+where, func(r egress.Event) bool {
			return r.Step == egress.Noticed && r.Host == "api.example.com" && strings.Contains(r.Why, "in "+where+":")
		})
	}
}

// TestEncodedEcho checks that an answer does not have the secret in an encoding that hosts
// use for headers they got: in a URL, as JSON, in base64, or as the name of a header.
func TestEncodedEcho(t *testing.T) {
	const odd = "odd/key+with=signs&0123456789/abcdefghijklmnop"
	w := newWorld(t, policy.HostRule{Host: "example.com", Credential: "c"})
	w.options.Credentials = map[string]egress.Credential{"c": {Value: odd, Header: "X-Api-Key: ${value}"}}
	w.openWithTLS(w.site("example.com", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key")
		out.Header().Set("Location", "https://example.com/?key="+url.QueryEscape(key))
		for _, text := range []string{url.QueryEscape(key), url.PathEscape(key), strings.ReplaceAll(key, "/", `\/`), strings.ReplaceAll(key, "&", `\u0026`),
			strings.ReplaceAll(key, "&", "&amp;"), base64.StdEncoding.EncodeToString([]byte(key)), base64.RawURLEncoding.EncodeToString([]byte(key)), fmt.Sprintf("%x", key), fmt.Sprintf("%X", key)} {
			fmt.Fprintln(out, text)
		}
	})))
	answer, err := w.client(w.trustAuthority()).Get("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(body))
	if len(lines) != 9 {
		t.Errorf("got %q", lines)
	}
	fake := w.placeholder("c")
	for _, line := range append(lines, answer.Header.Get("Location")) {
		for _, encoded := range []string{odd, url.QueryEscape(odd), url.PathEscape(odd), strings.ReplaceAll(odd, "/", `\/`), strings.ReplaceAll(odd, "&", `\u0026`), strings.ReplaceAll(odd, "&", "&amp;"),
			base64.StdEncoding.EncodeToString([]byte(odd)), base64.RawURLEncoding.EncodeToString([]byte(odd)), fmt.Sprintf("%x", odd), fmt.Sprintf("%X", odd)} {
			if strings.Contains(line, encoded) {
				t.Errorf("the answer has %s", line)
			}
		}
	}
	if !slices.Contains(lines, fmt.Sprintf("%X", fake)) || !slices.Contains(lines, fmt.Sprintf("%x", fake)) {
		t.Errorf("the placeholder is missing in %q", lines)
	}

	w = newVendor(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("X-"+r.Header.Get("X-Api-Key"), "1")
		out.Header().Set("X-Other", "1")
	}))
	for _, protocol := range []string{"http/1.1", "h2"} {
		answer, err := w.client(w.trustAuthority(protocol)).Get("https://example.com/")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if all := strings.ToLower(fmt.Sprint(answer.Header)); strings.Contains(all, strings.ToLower(token)) || answer.Header.Get("X-Other") != "1" {
			t.Errorf("%s: got %s", protocol, all)
		}
	}
}

// TestPlaceholderShape checks that a placeholder has nothing of a secret but its length, a
// prefix that all secrets of the kind have, and the set of its characters.
func TestPlaceholderShape(t *testing.T) {
	for _, test := range []struct{ value, form string }{
		{"sk-proj-REALKEY-0123456789abcdefABCDEF", `^sk-proj-[A-Za-z0-9]{19}placeholder$`},
		{"REALKEY-PART_0123456789abcdefABCDEF", `^[A-Za-z0-9]{24}placeholder$`},
		{"acme_live_0123456789abcdef", `^[a-z0-9]{26}$`},
		{"ghp_0123456789abcdefABCDEF0123456789abcd", `^ghp_[A-Za-z0-9]{25}placeholder$`},
		{"github_pat_11ABCDEFG0123456789_abcdefghijklmnop", `^github_pat_[A-Za-z0-9]{25}placeholder$`},
		{"0123456789abcdef0123456789abcdef", `^[0-9a-f]{32}$`},
		{"AKIA0123456789ABCDEF", `^AKIA[0-9A-Z]{16}$`},
		{"6fa459ea-ee8a-3ca4-894e-db77e160355e", `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlIG9mIHRoZSB0b2tlbg", `^eyJhbGciOiJIUzI1NiJ9\.eyJzdWIiOiJ4In0\.[A-Za-z0-9]{19}placeholder$`},
		{"eyJhbGciOiJ.eyJub3QganNvbg.c2lnbmF0dXJlIG9mIHRoZSB0b2tlbg", `^x{11}\.x{14}\.[A-Za-z0-9]{19}placeholder$`},
		{"abcdABCD", `^[A-Za-z0-9]{8}$`},
	} {
		classes := 0
		for range 20 {
			got, err := egress.NewPlaceholder(test.value)
			if err != nil || !regexp.MustCompile(test.form).MatchString(got) || len(got) != len(test.value) {
				t.Fatalf("%s: got %q, %v, want %s", test.value, got, err, test.form)
			}
			same := true
			for i := range got {
				same = same && unicode.IsDigit(rune(got[i])) == unicode.IsDigit(rune(test.value[i])) && unicode.IsUpper(rune(got[i])) == unicode.IsUpper(rune(test.value[i]))
			}
			if same {
				classes++
			}
		}
		if classes > 10 {
			t.Errorf("%s: the placeholders have its digits and letters in the same places", test.value)
		}
	}
}

// TestTokenClaims: the placeholder of a JSON Web Token is a token that clients can read. It
// has the names and times of the real one, and none of its texts. The host's other tokens
// may have the same claims, so they stay.
func TestTokenClaims(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	const signature = "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
	head := encode([]byte(`{"alg":"RS256","kid":"key-of-a-tenant","typ":"JWT"}`))
	token := head + "." + encode([]byte(`{ "sub" : "u\"1\\", "exp":1900000000,"iat":1.5e9, "org": {"name":"Müller \u00e9","id":-4711,"ok":true,"none":null}, "scopes":["read","write:9"], "":"" }`)) + "." + signature
	placeholder, err := egress.NewPlaceholder(token)
	if err != nil || len(placeholder) != len(token) {
		t.Fatalf("got %q, %v", placeholder, err)
	}
	parts := strings.Split(placeholder, ".")
	for i, want := range []string{
		`{"alg":"RS256","kid":"xxxxxxxxxxxxxxx","typ":"JWT"}`,
		`{ "sub" : "xxxxxx", "exp":1900000000,"iat":1.5e9, "org": {"name":"xxxxxxxxxxxxxx","id":-1111,"ok":true,"none":null}, "scopes":["xxxx","xxxxxxx"], "":"" }`,
	} {
		if got, err := base64.RawURLEncoding.DecodeString(parts[i]); err != nil || string(got) != want {
			t.Errorf("part %d: got %s, %v, want %s", i, got, err, want)
		}
	}
	h := egress.NewHider([]string{token})
	if got := h.Text("it is " + token[:len(token)-2]); strings.Contains(got, token[len(head)+20:len(head)+40]) || strings.Contains(got, signature[:20]) {
		t.Errorf("got %s", got)
	}
	other := strings.TrimSuffix(token, signature) + "c2lnbmF0dXJlIG9mIGFub3RoZXIgdG9rZW4"
	if got := h.Text(other); got != other {
		t.Errorf("another token: got %s, want %s", got, other)
	}
}

// TestPartsOfSecrets checks that no part of a secret comes back, wherever it stands in a
// message that the host encodes, once or twice, and wherever the host cuts it.
func TestPartsOfSecrets(t *testing.T) {
	const few = 10 // 40 bits of a key in hex; fewer of others
	std, raw := base64.StdEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	decode := func(text string) []byte {
		b, _ := base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(text))
		return b
	}
	inHex := func(b []byte) []byte {
		b, _ = hex.DecodeString(strings.ToLower(string(b)))
		return b
	}
	each := func(format string) func([]byte) string {
		return func(b []byte) (text string) {
			for _, c := range b {
				text += fmt.Sprintf(format, c)
			}
			return text
		}
	}
	unescape := func(text string) []byte {
		text, _ = url.PathUnescape(text)
		text, _ = url.PathUnescape(html.UnescapeString(text))
		if plain, err := strconv.Unquote(`"` + text + `"`); err == nil {
			text = plain
		}
		return []byte(text)
	}
	forms := []struct {
		name   string
		encode func([]byte) string
		decode func(string) []byte
	}{
		{"plain", func(b []byte) string { return string(b) }, unescape},
		{"base64", std, decode},
		{"base64 for URLs", raw, decode},
		{"base64 twice", func(b []byte) string { return std([]byte(std(b))) }, func(s string) []byte { return decode(string(decode(s))) }},
		{"hex in base64", func(b []byte) string { return std(fmt.Appendf(nil, "%x", b)) }, func(s string) []byte { return inHex(decode(s)) }},
		{"base64 in hex", func(b []byte) string { return fmt.Sprintf("%x", std(b)) }, func(s string) []byte { return decode(string(inHex([]byte(s)))) }},
		{"hex", each("%02x"), func(s string) []byte { return inHex([]byte(s)) }},
		{"HEX", each("%02X"), func(s string) []byte { return inHex([]byte(s)) }},
		{"hex with spaces", each("%02x "), func(s string) []byte { return inHex([]byte(strings.ReplaceAll(s, " ", ""))) }},
		{"percent", each("%%%02X"), unescape},
		{"percent twice", each("%%25%02x"), unescape},
		{"JSON", each(`\u%04x`), unescape},
		{"entities", each("&#%d;"), unescape},
		{"hex entities", each("&#x%x;"), unescape},
		{"UTF-16", each("%c\x00"), func(s string) []byte { return []byte(strings.ReplaceAll(s, "\x00", "")) }},
		{"base64 in lines", func(b []byte) string {
			var lines []string
			for line := range slices.Chunk([]byte(std(b)), 24) {
				lines = append(lines, string(line))
			}
			return strings.Join(lines, "\r\n")
		}, func(s string) []byte { return decode(strings.ReplaceAll(s, "\r\n", "")) }},
	}
	for _, key := range []string{token, otherSecret, "0123456789abcdef0123456789abcdef"[:31] + "5", "q7/Zm+4w9=Kx&2Lp0aR~8vT!3sYd6Hf"} {
		w := newWorld(t, policy.HostRule{Host: "example.com", Credential: "c"})
		w.options.Credentials = map[string]egress.Credential{"c": {Value: key, Header: "X-Api-Key: ${value}"}}
		var message []byte
		w.openWithTLS(w.site("example.com", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Api-Key") != key {
				t.Error("the host did not get the key")
			}
			out.Header().Set("X-Echo", strings.NewReplacer("\r\n", " ", "\x00", " ").Replace(string(message)))
			out.Write(message)
		})))
		fake := w.placeholder("c")
		public := 0
		for public < len(key) && key[public] == fake[public] {
			public++
		}
		client := w.client(w.trustAuthority())
		for _, form := range forms {
			for offset, before := range []string{"", "X", "Ke", "X-Key: "} {
				for cut, part := range map[string]string{"": key, "its end": key[:len(key)-2], "its half": key[:len(key)/2+public/2], "its start": key[5:], "both": key[5 : len(key)-2]} {
					if form.name == "base64 in lines" && cut != "" {
						continue // a line has too few characters of the rest
					}
					message = []byte(form.encode([]byte(before + part + "\n}")))
					answer, err := client.Get("https://example.com/")
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(answer.Body)
					answer.Body.Close()
					if err != nil || len(body) != len(message) {
						t.Fatalf("%s without %s: got %q, %v", form.name, cut, body, err)
					}
					for _, got := range []string{string(form.decode(string(body))), string(form.decode(answer.Header.Get("X-Echo")))} {
						for i := public; i+few <= len(key); i++ {
							if strings.Contains(got, key[i:i+few]) {
								t.Fatalf("%s of %s at %d without %s: got %q", form.name, key, offset, cut, got)
							}
						}
					}
					if got := string(form.decode(string(body))); cut == "" && (form.name == "base64" || form.name == "base64 for URLs") && got != before+fake+"\n}" {
						t.Errorf("%s at %d: got %q, want the placeholder %q", form.name, offset, got, fake)
					}
				}
			}
		}
	}
}

// TestGuesses checks that a program which has a host echo its guesses does not learn from
// the answer whether a short one is right.
func TestGuesses(t *testing.T) {
	w := newVendor(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		io.Copy(out, r.Body)
		out.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	for end := len("sk-ant-api03-"); end < len("sk-ant-api03-")+7; end++ {
		var got [2]string
		for i, guess := range []string{token[:end] + "!", token[:end-1] + "*!"} {
			answer, err := w.client(w.trustAuthority()).Post("https://example.com/", "text/plain", strings.NewReader(guess+" "))
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, len(guess))
			if _, err := io.ReadFull(answer.Body, b); err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			got[i] = strings.TrimPrefix(string(b), guess)
		}
		if got[0] != got[1] {
			t.Errorf("a guess of %d characters: got %q", end, got)
		}
	}
}

// TestRebinding checks a name that has another address for each question. golem connects
// to the address that it has checked, and checks again for each connection.
func TestRebinding(t *testing.T) {
	w := newWorld(t, rules("example.com")...)
	var log requestLog
	w.site("example.com", &log)
	inner := listen(t)
	t.Cleanup(func() { inner.Close() })
	private := netip.MustParseAddr("10.0.0.7")
	w.servers[netip.AddrPortFrom(private, 80)] = inner.Addr().String()
	public := w.names["example.com"]
	asked := 0
	w.options.Resolve = func(context.Context, string) ([]netip.Addr, error) {
		if asked++; asked%2 == 0 {
			return []netip.Addr{private}, nil
		}
		return public, nil
	}
	w.open()
	for i := range 6 {
		client := w.client(nil)
		code, body, err := get(client, "http://example.com/")
		if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[asked%2 == 1]; err != nil || code != want {
			t.Errorf("connection %d: got %d, %q, %v, want %d", i, code, body, err, want)
		}
		client.CloseIdleConnections()
		w.network.CloseIdle()
	}
	if slices.ContainsFunc(w.dialled, func(to string) bool { return !strings.HasPrefix(to, "203.0.113.1:") }) || asked < 6 {
		t.Errorf("golem dialled %v for %d questions", w.dialled, asked)
	}
}

// TestReplacer reads answers in pieces of every size. The secret does not come through, and
// the end of a message does not wait for the next message.
func TestReplacer(t *testing.T) {
	w := newVendor(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key")
		text := "<" + key + key[:7] + key + key[:len(key)-1] + "." + fmt.Sprintf("%x", key) + ">"
		step, _ := strconv.Atoi(r.URL.Query().Get("step"))
		for part := range slices.Chunk([]byte(text), step) {
			out.Write(part)
			out.(http.Flusher).Flush()
		}
	}))
	fake := w.placeholder("vendor")
	want := "<" + fake + token[:7] + fake + fake[:len(token)-1] + "." + fmt.Sprintf("%x", fake) + ">"
	for step := range len(token) + 2 {
		_, body, err := get(w.client(w.trustAuthority()), fmt.Sprintf("https://example.com/?step=%d", step+1))
		if err != nil || body != want {
			t.Fatalf("pieces of %d bytes: got %q, %v, want %q", step+1, body, err, want)
		}
	}

	messages := make(chan string)
	w = newVendor(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		for m := range messages {
			io.WriteString(out, m)
			out.(http.Flusher).Flush()
		}
	}))
	client := w.client(w.trustAuthority())
	client.Timeout = 30 * time.Second
	go func() { messages <- token[:3] }()
	answer, err := client.Get("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b := make([]byte, 3)
	if _, err := io.ReadFull(answer.Body, b); err != nil || string(b) != token[:3] {
		t.Errorf("the end of the message came as %q, %v", b, err)
	}
	messages <- token[3:] + "!"
	close(messages)
	if rest, err := io.ReadAll(answer.Body); err != nil || string(rest) != w.placeholder("vendor")[3:]+"!" {
		t.Errorf("got %q, %v", rest, err)
	}
}

// TestQuestionsStayInside asks many DNS questions below a pattern of the list and
// elsewhere. None of them leaves: golem resolves a name only when a program connects to it.
func TestQuestionsStayInside(t *testing.T) {
	w := newWorld(t, rules("*.example.com")...)
	w.site("example.com", &requestLog{})
	w.site("a.example.com", &requestLog{})
	var asked []string
	w.options.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
		asked = append(asked, name)
		return w.resolve(ctx, name)
	}
	w.open()
	data := strings.Repeat(strings.Repeat("s", 60)+".", 3)
	for _, network := range []string{"udp", "tcp"} {
		for _, zone := range []string{"example.com.", "evil.org."} {
			for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeTXT, dnsmessage.TypeMX, dnsmessage.TypeNS, dnsmessage.TypeSRV, dnsmessage.TypePTR, dnsmessage.TypeALL, 10, 64, 65} {
				q := question(data+zone, kind)
				b, err := q.Pack()
				if err != nil {
					t.Fatal(err)
				}
				if m, _ := w.send(network, b); len(m.Answers) > 1 || len(m.Answers) == 1 && kind != dnsmessage.TypeA {
					t.Errorf("%s %v: got %v", network, kind, m.Answers)
				}
			}
		}
	}
	if len(asked) > 0 {
		t.Errorf("golem asked for %q", asked)
	}
	if code, _, err := get(w.client(nil), "http://a.example.com/"); err != nil || code != 200 || !slices.Equal(asked, []string{"a.example.com"}) {
		t.Errorf("got %d, %v; golem asked for %q", code, err, asked)
	}
}

// fuzzWorld is a world for many inputs, with a strict server and a rule that limits
// requests.
func fuzzWorld(f *testing.F) (*world, *strictServer) {
	w := newWorld(f, policy.HostRule{Host: "example.com", Methods: []string{"GET", "POST"}, Paths: []string{"/a/**"}})
	secure := w.site("example.com", &requestLog{})
	server := newStrictServer(f, &tls.Config{Certificates: secure.TLS.Certificates, NextProtos: []string{"http/1.1"}})
	plain := newStrictServer(f, nil)
	w.host("example.com", 80, plain.l.Addr())
	w.host("example.com", 443, server.l.Addr())
	w.options.Record = func(egress.Event) error { return nil }
	w.openWithTLS(secure)
	return w, map[bool]*strictServer{true: server, false: plain}[strings.Contains(f.Name(), "HTTP2")]
}

var allowedRequest = regexp.MustCompile(`^(GET|POST) (?i:example\.com)\.?(:80|:443|:)?/a(/[^/?]*)*(\?.*)? \d+$`)

func checkAllowed(t *testing.T, server *strictServer) {
	t.Helper()
	for _, r := range server.take(t) {
		path, _, _ := strings.Cut(r, "?")
		if !allowedRequest.MatchString(r) || strings.Contains(path, "/../") || strings.Contains(path, "//") || strings.Contains(strings.ToLower(path), "%2f") {
			t.Errorf("the server got %q", r)
		}
	}
}

// FuzzHTTP1 sends any bytes as plain HTTP. The server gets only requests that the rule
// allows, in a form that all servers read alike.
func FuzzHTTP1(f *testing.F) {
	w, server := fuzzWorld(f)
	for _, c := range smugglingCases {
		f.Add([]byte(c.raw))
		f.Add([]byte(strings.ReplaceAll(c.raw, " / ", " /a/b ")))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w.t = t
		c, err := w.dial("example.com", 80)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		c.Write(raw)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		checkAllowed(t, server)
	})
}

// FuzzHTTP2 sends any fields as a request of HTTP/2, which golem sends on as HTTP/1.1.
func FuzzHTTP2(f *testing.F) {
	w, server := fuzzWorld(f)
	f.Add("GET", "example.com", "/a/b", "x-y", "z", "")
	f.Add("POST", "example.com", "/a/b?c", "content-length", "5", "0\r\n\r\n")
	f.Add("POST", "EXAMPLE.com:443", "/a/../b", "host", "evil.org", evil)
	f.Add("CONNECT", "evil.org", "http://evil.org/a/b", "transfer-encoding", "chunked", evil)
	f.Add("GET", "example.com\r\nHost: evil.org", "/a/b HTTP/1.1\r\n\r\nGET /evil", "te: x\r\n", "y\nHost: evil.org", "")
	f.Fuzz(func(t *testing.T, method, authority, path, name, value, body string) {
		w.t = t
		p := w.rawHTTP2(t, "example.com")
		defer p.c.Close()
		fields := []string{":method", method, ":scheme", "https", ":authority", authority, ":path", path}
		if name != "" {
			fields = append(fields, name, value)
		}
		if body != "" {
			fields = append(fields, "", body)
		}
		p.send(fields...)
		checkAllowed(t, server)
	})
}
