package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// A phone is a device that signs as the page of a device does.
type phone struct {
	u      *deskUser
	base   string // http://127.0.0.1:PORT
	key    *ecdsa.PrivateKey
	client *http.Client
}

// serveDevices writes the user's configuration, and starts the desk for devices.
func (u *deskUser) serveDevices() (base string) {
	u.t.Helper()
	at := freeAddress(u.t)
	u.configureDevices("{url: 'http://" + at + "', listen: '" + at + "'}")
	u.startDesk()
	return "http://" + at
}

// configureDevices writes the key desk to the user's configuration.
func (u *deskUser) configureDevices(text string) {
	u.t.Helper()
	home := filepath.Dir(u.dir + "-home")
	for _, v := range u.environ {
		if value, ok := strings.CutPrefix(v, "HOME="); ok {
			home = value
		}
	}
	config := filepath.Join(home, ".config", "golem", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("desk: "+text+"\n"), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// pair runs golem desk pair at a terminal. claim opens the link, and returns what the device shows.
func (u *deskUser) pair(claim func(link string) (word string), args ...string) (out string, err error) {
	u.t.Helper()
	person, terminal := newTerminal(u.t)
	screen := testutil.NewScreen(u.t)
	go screen.Watch(person)
	cmd := exec.Command("golem", append([]string{"desk", "pair"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = u.dir, append(u.environ, "TERM=xterm"), terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	terminal.Close()
	screen.Until("within five minutes:\r\nhttp")
	screen.Until("\r\n")
	shown, _ := screen.Seen()
	_, link, _ := strings.Cut(shown, "within five minutes:\r\n")
	link, _, _ = strings.Cut(link, "\r\n")
	word := claim(link)
	screen.Until(" > ")
	if _, err := person.WriteString(word + "\r"); err != nil {
		u.t.Fatal(err)
	}
	err = cmd.Wait()
	<-screen.Over()
	out, _ = screen.Seen()
	return out, err
}

func newPhone(u *deskUser, base string) *phone {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		u.t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	return &phone{u, base, key, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (p *phone) point() string {
	point, err := p.key.PublicKey.Bytes()
	if err != nil {
		p.u.t.Fatal(err)
	}
	return hex.EncodeToString(point)
}

func (p *phone) id() string {
	sum := sha256.Sum256([]byte(p.point()))
	return hex.EncodeToString(sum[:])[:16]
}

func (p *phone) sign(lines ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	r, s, err := ecdsa.Sign(rand.Reader, p.key, sum[:])
	if err != nil {
		p.u.t.Fatal(err)
	}
	return hex.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// ask sends a request, and returns the status and the text.
func (p *phone) ask(method, path string, form url.Values, header ...string) (int, string) {
	p.u.t.Helper()
	r, err := http.NewRequest(method, p.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.u.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	response, err := p.client.Do(r)
	if err != nil {
		p.u.t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, html.UnescapeString(string(body))
}

// claim uses the code of a link.
func (p *phone) claim(link string) string {
	_, code, _ := strings.Cut(link, "#")
	_, word := p.ask("POST", "/pair", url.Values{"code": {code}, "key": {p.point()}})
	return word
}

func field(page, name string) string {
	if m := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page); m != nil {
		return m[1]
	}
	return ""
}

// login logs the device in, and returns what it sent.
func (p *phone) login() url.Values {
	_, page := p.ask("GET", "/", nil)
	challenge := field(page, "challenge")
	form := url.Values{"device": {p.id()}, "challenge": {challenge}, "signature": {p.sign("golem login 1", p.base, p.id(), challenge)}}
	if status, said := p.ask("POST", "/login", form); status != http.StatusSeeOther {
		p.u.t.Fatalf("login: %d %s", status, said)
	}
	return form
}

// decision returns the form of a decision about a call whose page the device opens now.
func (p *phone) decision(path, answer string, clock time.Duration) url.Values {
	p.u.t.Helper()
	status, page := p.ask("GET", path, nil)
	if status != http.StatusOK {
		p.u.t.Fatalf("the call: %d %s", status, page)
	}
	var seen []string
	for _, m := range regexp.MustCompile(`data-item="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(seen, m[1]) {
			seen = append(seen, m[1])
		}
	}
	form := url.Values{"nonce": {field(page, "nonce")}, "digest": {field(page, "digest")}, "seen": {strings.Join(seen, ",")}, "answer": {answer}, "reason": {""}, "expires": {fmt.Sprint(time.Now().Add(clock + 2*time.Minute).Unix())}}
	p.signDecision(path, form)
	return form
}

func (p *phone) signDecision(path string, form url.Values) {
	form.Set("signature", p.sign("golem decision 1", p.base, p.id(), path, form.Get("digest"), form.Get("nonce"), form.Get("expires"), form.Get("answer"), form.Get("seen"), form.Get("reason")))
}

// TestDevices pairs a device, and attacks what it may do.
func TestDevices(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	u := &deskUser{t: t, dir: t.TempDir(), environ: append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=", "GOLEM_STATE="+filepath.Join(home, "state"))}
	u.mustGolem(0, ".", "init", "notes")
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/a.md", "--content", "first\n")
	base := u.serveDevices()
	p, thief := newPhone(u, base), newPhone(u, base)

	// Pairing: at a terminal, the word decides, and a link works once.
	if out := u.mustGolem(2, ".", "desk", "pair", "phone", "--may", "high"); !strings.Contains(out, "golem desk pair asks you at a terminal") {
		t.Errorf("without a terminal: %s", out)
	}
	if out, err := u.pair(func(link string) string { thief.claim(link); return "00000000" }, "phone"); err == nil || !strings.Contains(out, "golem did not pair it") {
		t.Errorf("a wrong word: %v\n%s", err, out)
	}
	out, err := u.pair(func(link string) string {
		word := p.claim(link)
		if said := thief.claim(link); !strings.Contains(said, "this code was used") {
			t.Errorf("the link a second time: %s", said)
		}
		return word
	}, "phone", "--may", "low")
	if err != nil || !strings.Contains(out, "phone is paired ("+p.id()+")") {
		t.Fatalf("pair: %v\n%s", err, out)
	}
	if out := u.mustGolem(0, ".", "audit", "show", p.id()); !strings.Contains(out, "a person paired a device") || !strings.Contains(out, "phone may approve up to low risk") || !strings.Contains(out, "golem desk pair, at a terminal") {
		t.Errorf("the journal does not have the pairing: %s", out)
	}
	if out := u.mustGolem(0, ".", "desk", "devices"); !strings.Contains(out, "phone  "+p.id()+"  may approve up to low risk") {
		t.Errorf("the list: %s", out)
	}

	// Login: with the key only, and each challenge once.
	if status, page := thief.ask("GET", "/", nil); status != http.StatusUnauthorized || strings.Contains(page, "a.md") {
		t.Errorf("without a device: %d", status)
	}
	sent := p.login()
	if status, said := p.ask("POST", "/login", sent); status != http.StatusForbidden {
		t.Errorf("the same login again: %d %s", status, said)
	}
	_, page := thief.ask("GET", "/", nil)
	forged := url.Values{"device": {p.id()}, "challenge": {field(page, "challenge")}, "signature": {thief.sign("golem login 1", base, p.id(), field(page, "challenge"))}}
	if status, _ := thief.ask("POST", "/login", forged); status != http.StatusForbidden {
		t.Errorf("a login with another key: %d", status)
	}
	_, inbox := p.ask("GET", "/", nil)
	link := regexp.MustCompile(`href="(/call/[^"]+)"`).FindStringSubmatch(inbox)
	if link == nil {
		t.Fatalf("the inbox has no call:\n%s", inbox)
	}
	path := link[1]
	for _, other := range []string{"/journal", "/live", "/pictures", "/session/x/y"} {
		if status, _ := p.ask("GET", other, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", other, status)
		}
	}

	// Decisions that do not count.
	id := u.pending("notes")[0]
	refused := func(what string, form url.Values, want string, header ...string) {
		t.Helper()
		if status, said := p.ask("POST", path, form, header...); status < 400 || !strings.Contains(said, want) {
			t.Errorf("%s: %d, want %q\n%s", what, status, want, said)
		}
		if !slices.Contains(u.pending("notes"), id) {
			t.Fatalf("%s was counted", what)
		}
	}
	change := func(form url.Values, key, value string) url.Values { form.Set(key, value); return form }
	refused("another site", p.decision(path, "approve", 0), "another site", "Sec-Fetch-Site", "cross-site")
	refused("another name", p.decision(path, "approve", 0), "not the address", "Host", "evil.example")
	refused("no signature", change(p.decision(path, "approve", 0), "signature", ""), "the signature is not one of this device")
	refused("another answer", change(p.decision(path, "decline", 0), "answer", "approve"), "the signature is not one of this device")
	refused("more seen", change(p.decision(path, "approve", 0), "seen", ""), "the signature is not one of this device")
	form := p.decision(path, "approve", 0)
	thief.base = base
	form.Set("signature", thief.sign("golem decision 1", base, p.id(), path, form.Get("digest"), form.Get("nonce"), form.Get("expires"), "approve", form.Get("seen"), ""))
	refused("another key", form, "the signature is not one of this device")
	form = p.decision(path, "approve", 0)
	form.Set("signature", p.sign("golem decision 1", "https://evil.example", p.id(), path, form.Get("digest"), form.Get("nonce"), form.Get("expires"), "approve", form.Get("seen"), ""))
	refused("signed at another origin", form, "the signature is not one of this device")
	refused("a clock a day behind", p.decision(path, "approve", -24*time.Hour), "the clock of the device is wrong")
	refused("a clock a day ahead", p.decision(path, "approve", 24*time.Hour), "the clock of the device is wrong")
	refused("not viewed", p.decision(path, "approve-unseen", 0), "decide at your machine")
	refused("a rule", p.decision(path, "approve-always", 0), "decide at your machine")
	used := p.decision(path, "approve", -24*time.Hour)
	refused("a wrong clock", used, "the clock")
	refused("the page again", used, "this page was used already")
	form = p.decision(path, "approve", 0)
	fresh := p.decision(path, "approve", 0)
	refused("the signature of another page", change(fresh, "signature", form.Get("signature")), "the signature is not one of this device")

	// Another device with a session of its own cannot use what this one signed. It reads the link
	// from the QR code at a terminal.
	shown := ""
	out, err = u.pair(func(link string) string { shown = link; return thief.claim(link) }, "tablet")
	if err != nil {
		t.Fatalf("pair: %v\n%s", err, out)
	}
	code := slices.DeleteFunc(slices.Collect(strings.Lines(out)), func(line string) bool { return !strings.HasPrefix(line, "\x1b[38;5;16") })
	if got := testutil.ReadQR(t, code); got != shown {
		t.Errorf("the QR code has %s, want %s", got, shown)
	}
	thief.login()
	form = p.decision(path, "approve", 0)
	if status, said := thief.ask("POST", path, form); status < 400 || !strings.Contains(said, "another device opened this page") {
		t.Errorf("a transferred decision: %d %s", status, said)
	}
	if status, said := thief.ask("POST", path, thief.decision(path, "approve", 0)); status < 400 || !strings.Contains(said, "may only decline") {
		t.Errorf("beyond its scope: %d %s", status, said)
	}

	// A removed device neither sees nor decides.
	form = thief.decision(path, "decline", 0)
	u.mustGolem(0, ".", "desk", "devices", "rm", "tablet")
	if out := u.mustGolem(0, ".", "audit", "show", "--all", "--decision", "revoked"); !strings.Contains(out, "the user removed tablet") {
		t.Errorf("the journal does not have the removal: %s", out)
	}
	if out := u.mustGolem(0, ".", "audit", "show", thief.id()); !strings.Contains(out, "a person removed a device") || !strings.Contains(out, "a person paired a device") {
		t.Errorf("the journal does not have the device: %s", out)
	}
	if status, said := thief.ask("POST", path, form); status != http.StatusUnauthorized || !slices.Contains(u.pending("notes"), id) {
		t.Errorf("a removed device decided: %d %s", status, said)
	}

	// The decision that counts, and its record.
	if status, said := p.ask("POST", path, p.decision(path, "approve", 0)); status != http.StatusSeeOther {
		t.Fatalf("the approval: %d %s", status, said)
	}
	if out := u.mustGolem(0, "notes", "audit", "show", id); !strings.Contains(out, "on the device phone ("+p.id()+")") {
		t.Errorf("the journal does not name the device:\n%s", out)
	}

	// Content that changed since the page showed it.
	u.mustGolem(0, "notes", "tool", "write_file", "--path", "/out/a.md", "--content", "first\n")
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/a.md", "--content", "second\n")
	_, inbox = p.ask("GET", "/", nil)
	if link = regexp.MustCompile(`href="(/call/[^"]+)"`).FindStringSubmatch(inbox); link == nil {
		t.Fatalf("the inbox has no call:\n%s", inbox)
	}
	path = link[1]
	form = p.decision(path, "approve", 0)
	form.Set("digest", strings.Repeat("0", 64))
	p.signDecision(path, form)
	id = filepath.Base(path)
	refused("another digest", form, "The content has changed")
	form = p.decision(path, "approve", 0)
	if err := os.WriteFile(filepath.Join(u.dir, "notes", "out", "a.md"), []byte("first, and then more\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/a.md", "--content", "second\n")
	if status, said := p.ask("POST", path, form); status != http.StatusConflict || !strings.Contains(said, "The content has changed since you looked at it") || !strings.Contains(said, "and then more") {
		t.Errorf("the content changed: %d %s", status, said)
	}
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/a.md", "--content", "second\n")
}

// TestDevicesTLS pairs a device and declines a call from it in each way that docs/desk.md has for
// reaching the desk: golem does TLS itself, a proxy with TLS such as that of a private network
// passes requests on, and a tunnel leads to localhost.
func TestDevicesTLS(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewUnstartedServer(nil)
	proxy.StartTLS()
	t.Cleanup(proxy.Close)
	roots := proxy.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	file := filepath.Join(t.TempDir(), "both.pem")
	key, err := x509.MarshalPKCS8PrivateKey(proxy.TLS.Certificates[0].PrivateKey)
	if err == nil {
		err = os.WriteFile(file, slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.TLS.Certificates[0].Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	// dialing returns a client that connects to an address, whatever the name of the host.
	dialing := func(at string) *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, at)
		}}}
	}
	for name, c := range map[string]struct {
		config string // with the address for LISTEN
		base   string // with the address that the device uses for AT
		serve  func(t *testing.T, listen string) (at string)
	}{
		"certificate": {"{url: 'https://LISTEN', listen: 'LISTEN', certificate: " + file + ", key: " + file + "}", "https://AT", func(_ *testing.T, listen string) string { return listen }},
		"proxy": {"{url: 'https://example.com', listen: 'LISTEN'}", "https://example.com", func(t *testing.T, listen string) string {
			pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(&url.URL{Scheme: "http", Host: listen})
				if r.Out.Host = r.In.Host; r.In.URL.Path == "/without-name" {
					r.Out.Host = listen
				}
			}}
			s := httptest.NewTLSServer(pass)
			t.Cleanup(s.Close)
			return s.Listener.Addr().String()
		}},
		"tunnel": {"{url: 'http://localhost:PORT', listen: 'LISTEN'}", "http://localhost:PORT", func(t *testing.T, listen string) string {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					from, err := l.Accept()
					if err != nil {
						return
					}
					if to, err := net.Dial("tcp", listen); err == nil {
						go func() { io.Copy(to, from); to.Close() }()
						go func() { io.Copy(from, to); from.Close() }()
					}
				}
			}()
			return l.Addr().String()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			u := &deskUser{t: t, dir: t.TempDir(), environ: append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=", "GOLEM_STATE="+filepath.Join(home, "state"))}
			u.mustGolem(0, ".", "init", "notes")
			u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/a.md", "--content", "first\n")
			listen := freeAddress(t)
			at := c.serve(t, listen)
			_, port, _ := net.SplitHostPort(at)
			place := strings.NewReplacer("LISTEN", listen, "AT", at, "PORT", port).Replace
			u.configureDevices(place(c.config))
			u.startDesk()
			p := newPhone(u, place(c.base))
			dialed := dialing(at)
			dialed.Jar, dialed.CheckRedirect = p.client.Jar, p.client.CheckRedirect
			p.client = dialed
			out, err := u.pair(func(link string) string {
				if !strings.HasPrefix(link, p.base+"/pair#") {
					t.Errorf("the link is %s", link)
				}
				return p.claim(link)
			}, "phone")
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			p.login()
			_, host, _ := strings.Cut(p.base, "://")
			if cookies := p.client.Jar.Cookies(&url.URL{Scheme: "http", Host: host, Path: "/"}); len(cookies) != 0 && name == "proxy" {
				t.Errorf("the cookie goes over plain HTTP: %v", cookies)
			}
			_, inbox := p.ask("GET", "/", nil)
			link := regexp.MustCompile(`href="(/call/[^"]+)"`).FindStringSubmatch(inbox)
			if link == nil {
				t.Fatalf("the inbox has no call:\n%s", inbox)
			}
			if status, said := p.ask("POST", link[1], p.decision(link[1], "decline", 0)); status != http.StatusSeeOther || len(u.pending("notes")) != 0 {
				t.Errorf("the decline: %d %s", status, said)
			}
			switch name {
			case "certificate":
				response, err := http.Get("http://" + listen + "/pair")
				if err != nil {
					t.Fatal(err)
				}
				if response.Body.Close(); response.StatusCode != http.StatusBadRequest {
					t.Errorf("plain HTTP: %s", response.Status)
				}
			case "proxy":
				if status, said := p.ask("GET", "/without-name", nil); status != http.StatusForbidden || !strings.Contains(said, "a proxy must keep the name of the host") {
					t.Errorf("a proxy that changes the name: %d %s", status, said)
				}
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		home := t.TempDir()
		u := &deskUser{t: t, dir: t.TempDir(), environ: append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=", "GOLEM_STATE="+filepath.Join(home, "state"))}
		for config, want := range map[string]string{
			"{url: 'https://desk.example.net', listen: '0.0.0.0:0'}":                                                 "without desk.certificate golem listens on this machine only",
			"{url: 'https://desk.example.net', listen: '127.0.0.1:0', certificate: /missing.pem, key: /missing.pem}": "/missing.pem",
		} {
			u.configureDevices(config)
			if out, code := u.golem(".", "desk", "--no-open"); code == 0 || !strings.Contains(out, want) {
				t.Errorf("%s: exit code %d, want %q\n%s", config, code, want, out)
			}
		}
		u.configureDevices("{url: 'http://desk.example.net'}")
		if out, _ := u.golem(".", "status"); !strings.Contains(out, "desk.url: no address that devices use") {
			t.Errorf("without TLS: %s", out)
		}
	})
}
