package desk

import (
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/work/program"
)

// start serves a desk without any state, and returns its address and a client without a
// cookie that follows no redirects.
func start(t *testing.T) (*server, *http.Client) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(inbox.DeskOptions{Options: program.Options{State: t.TempDir(), Home: t.TempDir(), Now: time.Now}, Front: "golem desk, in a browser"}, listener.Addr().String())
	h := &httptest.Server{Listener: listener, Config: &http.Server{Handler: s.guard}}
	h.Start()
	t.Cleanup(h.Close)
	client := h.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, client
}

// ask sends a request, and returns the status and the body.
func ask(t *testing.T, c *http.Client, method, url string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// TestGuard checks who gets a page.
func TestGuard(t *testing.T) {
	s, c := start(t)
	base := "http://" + s.guard.host + s.guard.prefix
	last := "" // the body of the last response
	want := func(what string, status int, method, url string, change func(*http.Request)) *http.Response {
		t.Helper()
		response, body := ask(t, c, method, url, change)
		if response.StatusCode != status {
			t.Errorf("%s: got %s, want %d: %s", what, response.Status, status, body)
		}
		last = body
		return response
	}
	address := s.guard.address()
	want("without a cookie", 401, "GET", base, nil)
	want("outside the random path", 401, "GET", "http://"+s.guard.host+"/", nil)
	want("a wrong token", 401, "GET", base+"?token=x", nil)
	if !strings.Contains(last, "the token in this address is wrong") {
		t.Errorf("a wrong token: got %s", last)
	}
	want("a token by POST", 401, "POST", address, nil)
	want("another name for the host", 403, "GET", address, func(r *http.Request) { r.Host = "evil.example:80" })

	response := want("the token", 200, "GET", address, nil)
	cookies := response.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Path != s.guard.prefix || cookies[0].Domain != "" {
		t.Fatalf("the cookie: got %v", cookies)
	}
	for name, value := range map[string]string{"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if got := response.Header.Get(name); got != value {
			t.Errorf("%s: got %q, want %q", name, got, value)
		}
	}
	if got := response.Header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'; ") || strings.Contains(got, "unsafe") || !strings.Contains(got, "frame-ancestors 'none'") {
		t.Errorf("the content security policy: got %q", got)
	}
	want("the token again", 401, "GET", address, nil)
	if !strings.Contains(last, "was used already") {
		t.Errorf("the token again: got %s", last)
	}
	if want("a wrong token after the right one", 401, "GET", base+"?token=x", nil); !strings.Contains(last, "is wrong") {
		t.Errorf("a wrong token after the right one: got %s", last)
	}
	c.Jar, _ = cookiejar.New(nil)
	c.Jar.SetCookies(response.Request.URL, cookies)
	want("the token again in the same browser", 303, "GET", address, nil)
	want("the inbox", 200, "GET", base, nil)
	want("with the cookie, under another name", 403, "GET", base, func(r *http.Request) { r.Host = "localhost.evil.example" })
	want("a form of another site", 403, "POST", base+"call/a/b", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	want("a form of another port", 403, "POST", base+"call/a/b", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") })
	want("a form of another origin", 403, "POST", base+"call/a/b", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") })
	want("a form without a nonce", 409, "POST", base+"call/a/b", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") })
	want("a page that does not exist", 404, "GET", base+"none", nil)
	want("a file outside the assets", 404, "GET", base+"assets/base.html", nil)
}

// TestHost checks that the desk has a new name if the user chose its port, and no other.
func TestHost(t *testing.T) {
	for listen, want := range map[string]string{"127.0.0.1:0": "at", "[::1]:0": "at", "127.0.0.2:8137": "at", "127.0.0.1:8137": ".localhost:8137", "[::1]:8137": ".localhost:8137"} {
		one, other := hostFor(listen, "at"), hostFor(listen, "at")
		if !strings.HasSuffix(one, want) || (one == other) != (want == "at") {
			t.Errorf("%s: got %s and %s", listen, one, other)
		}
	}
	s, c := start(t)
	at := s.guard.host
	s.guard.host = "desk-x.localhost:80"
	address := strings.Replace(s.guard.address(), s.guard.host, at, 1)
	for host, status := range map[string]int{at: 403, "localhost:80": 403, "desk-y.localhost:80": 403, "x.desk-x.localhost:80": 403, "desk-x.localhost": 403} {
		if response, _ := ask(t, c, "GET", address, func(r *http.Request) { r.Host = host }); response.StatusCode != status {
			t.Errorf("%s: got %s", host, response.Status)
		}
	}
	if response, _ := ask(t, c, "GET", address, func(r *http.Request) { r.Host = s.guard.host }); response.StatusCode != 200 {
		t.Errorf("its own name: got %s", response.Status)
	}
}

// TestLogin checks that only the browser itself can log in, and that another try uses up the
// token.
func TestLogin(t *testing.T) {
	for _, one := range []struct {
		name, value string
		status      int
	}{{"Sec-Fetch-Dest", "document", 200}, {"Sec-Fetch-Site", "none", 200}, {"Sec-Fetch-Site", "cross-site", 200}, // the file that leads to the desk
		{"Sec-Fetch-Dest", "empty", 403}, {"Sec-Fetch-Dest", "iframe", 403}, {"Sec-Fetch-Site", "same-origin", 403}, {"Service-Worker-Navigation-Preload", "true", 403}} {
		s, c := start(t)
		address := s.guard.address()
		response, _ := ask(t, c, "GET", address, func(r *http.Request) { r.Header.Set(one.name, one.value) })
		if response.StatusCode != one.status || (len(response.Cookies()) > 0) != (one.status == 200) || response.Header.Get("Clear-Site-Data") != `"storage"` {
			t.Errorf("%s: %s: got %s and %v", one.name, one.value, response.Status, response.Header)
		}
		if response, _ := ask(t, c, "GET", address, nil); response.StatusCode != 401 {
			t.Errorf("%s: %s, the token again: got %s", one.name, one.value, response.Status)
		}
	}
}

// TestPages checks that a page decides once, and only about its own call.
func TestPages(t *testing.T) {
	p := pages{now: time.Now}
	one := &page{program: "p", id: "a", digest: "d", sent: map[string]bool{"call": true}}
	p.add(one)
	if p.addSent(one.nonce, "p", "b", "d", "x") || p.addSent(one.nonce, "p", "a", "e", "x") || !p.addSent(one.nonce, "p", "a", "d", "content 0") {
		t.Error("addSent does not check the call and the digest")
	}
	if got := one.rendered("call,content 0,content 1,call"); strings.Join(got, ",") != "call,content 0" {
		t.Errorf("rendered: got %q", got)
	}
	if _, err := p.use(one.nonce, "p", "b"); err == nil {
		t.Error("a page decided about another call")
	}
	if _, err := p.use(one.nonce, "p", "a"); err != nil {
		t.Error(err)
	}
	if _, err := p.use(one.nonce, "p", "a"); err == nil {
		t.Error("a page decided twice")
	}
	for range maxPages + 10 {
		p.add(&page{})
	}
	if len(p.all) != maxPages {
		t.Errorf("got %d pages, want %d", len(p.all), maxPages)
	}
}

// TestDiscards checks that a choice of hunks never discards a whole file, and that a wrong
// choice discards nothing.
func TestDiscards(t *testing.T) {
	p := &page{files: []string{"/a", "/b"}}
	for _, test := range []struct {
		picks []string
		want  string // "" for an error
	}{{nil, "/"}, {[]string{"1", "0"}, "/a /b"}, {[]string{"1", "1.1", "1.2"}, "/b"}, {[]string{"0.1"}, ""}, {[]string{"0", "1.mode"}, ""}, {[]string{"7"}, ""}, {[]string{"x"}, ""}, {[]string{"0.x"}, ""}} {
		names, err := p.discards(test.picks)
		if got := strings.Join(names, " "); (err == nil) != (test.want != "") || err == nil && got != test.want {
			t.Errorf("%q: got %q, %v, want %q", test.picks, got, err, test.want)
		}
	}
}

// TestListeners checks that pages that never read hold up nobody, and that their number is
// limited.
func TestListeners(t *testing.T) {
	l := newLive(program.Options{State: t.TempDir(), Now: time.Now})
	var first chan news
	for range maxListeners {
		c, stop, ok := l.listen()
		if !ok {
			t.Fatal("refused too early")
		}
		defer stop()
		first = c
	}
	if _, _, ok := l.listen(); ok {
		t.Errorf("more than %d pages listen", maxListeners)
	}
	for range 100 {
		l.notify() // nobody reads
	}
	if len(first) != 1 {
		t.Errorf("got %d events, want 1", len(first))
	}
	<-first
	for _, n := range []news{activity, changed, activity} {
		l.send(n)
	}
	if got := <-first; got != changed {
		t.Errorf("got %q after activity and a change, want the change", got)
	}
}

// TestWriteFile checks that only the user can read the file that leads to the desk.
func TestWriteFile(t *testing.T) {
	s, _ := start(t)
	t.Setenv("TMPDIR", t.TempDir())
	file, held, err := s.writeFile()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the file: got %v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), s.guard.prefix) {
		t.Errorf("got %q, %v", text, err)
	}
}
