package desk

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/people/device"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/program"
)

func TestMain(m *testing.M) {
	if code, is := changes.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// A deviceStand is a desk for devices whose clock the test sets.
type deviceStand struct {
	*deviceGate
	t     *testing.T
	desk  *server
	base  string
	ahead atomic.Int64 // of the clock, in nanoseconds
}

func newDeviceStand(t *testing.T) *deviceStand {
	t.Helper()
	s := &deviceStand{t: t}
	now := func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.base = "http://" + listener.Addr().String()
	s.desk = newServer(inbox.DeskOptions{Options: program.Options{State: t.TempDir(), Home: t.TempDir(), Now: now}, Front: "golem desk, in a browser"}, "desk")
	store, err := device.Open(s.desk.options.StateBase(), now)
	if err == nil {
		t.Cleanup(func() { store.Close() })
		s.deviceGate, err = newDeviceGate(s.base, store, s.desk)
	}
	if err != nil {
		t.Fatal(err)
	}
	h := &httptest.Server{Listener: listener, Config: &http.Server{Handler: s.deviceGate}}
	h.Start()
	t.Cleanup(h.Close)
	return s
}

// A testDevice signs as the page of a device does.
type testDevice struct {
	*deviceStand
	key    *ecdsa.PrivateKey
	id     string
	cookie *http.Cookie
}

// newDevice pairs a device.
func (s *deviceStand) newDevice(name, may string) *testDevice {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	raw, err := key.PublicKey.Bytes()
	if err != nil {
		s.t.Fatal(err)
	}
	code, err := s.store.Offer(name, may)
	if err != nil {
		s.t.Fatal(err)
	}
	d := &testDevice{deviceStand: s, key: key}
	response, word := d.ask("POST", "/pair", url.Values{"code": {code}, "key": {hex.EncodeToString(raw)}})
	one, err := s.store.Confirm(code, word, "")
	if err != nil {
		s.t.Fatalf("%s %s: %v", response.Status, word, err)
	}
	d.id = one.ID
	return d
}

func (d *testDevice) sign(lines ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	r, s, err := ecdsa.Sign(rand.Reader, d.key, sum[:])
	if err != nil {
		d.t.Fatal(err)
	}
	return hex.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// ask sends a request with the cookie of the device.
func (d *testDevice) ask(method, path string, form url.Values, header ...string) (*http.Response, string) {
	d.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, body := ask(d.t, client, method, d.base+path, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Body = io.NopCloser(strings.NewReader(form.Encode()))
		if d.cookie != nil {
			r.AddCookie(d.cookie)
		}
		for i := 0; i+1 < len(header); i += 2 {
			if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
				r.Host = header[i+1]
			}
		}
	})
	return response, html.UnescapeString(body)
}

func formField(page, name string) string {
	if m := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page); m != nil {
		return m[1]
	}
	return ""
}

// challenge opens the page to log in.
func (d *testDevice) challenge() string {
	d.t.Helper()
	d.cookie = nil
	_, page := d.ask("GET", "/", nil)
	return formField(page, "challenge")
}

// loginForm returns what the page of a device sends for a challenge.
func (d *testDevice) loginForm(challenge string) url.Values {
	return url.Values{"device": {d.id}, "challenge": {challenge}, "signature": {d.sign("golem login 1", d.base, d.id, challenge)}}
}

// login logs the device in, and reports whether golem let it.
func (d *testDevice) login(form url.Values) bool {
	d.t.Helper()
	response, _ := d.ask("POST", "/login", form)
	for _, c := range response.Cookies() {
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Domain != "" {
			d.t.Errorf("the cookie: %v", c)
		}
		d.cookie = c
	}
	return response.StatusCode == http.StatusSeeOther && d.cookie != nil
}

// TestDeviceLogin checks who logs in as a device, and that others who ask for many challenges
// do not keep it out.
func TestDeviceLogin(t *testing.T) {
	s := newDeviceStand(t)
	phone, tablet := s.newDevice("phone", "low"), s.newDevice("tablet", "low")
	challenge := phone.challenge()
	for range 500 {
		tablet.challenge()
	}
	forged := phone.loginForm(challenge)
	forged.Set("signature", tablet.sign("golem login 1", s.base, phone.id, challenge))
	if tablet.login(forged) {
		t.Error("another key logs in")
	}
	other := phone.loginForm(challenge)
	other.Set("signature", phone.sign("golem login 1", "https://evil.example", phone.id, challenge))
	if tablet.login(other) {
		t.Error("what was signed at another address logs in")
	}
	form := phone.loginForm(challenge)
	if !phone.login(form) {
		t.Fatal("the phone cannot log in after the attempts of others")
	}
	if tablet.login(form) {
		t.Error("a login counts twice")
	}
	end, rest, _ := strings.Cut(phone.challenge(), ".")
	for _, made := range []string{"", "x", "9223372036854775807.x.", "9" + end + "." + rest, end + "." + rest + "0"} {
		if phone.login(phone.loginForm(made)) {
			t.Errorf("the challenge %q logs in", made)
		}
	}
	challenge = phone.challenge()
	s.ahead.Add(int64(challengeLives + time.Second))
	if phone.login(phone.loginForm(challenge)) {
		t.Error("an old challenge logs in")
	}
	for range maxLogins + 3 {
		if !phone.login(phone.loginForm(phone.challenge())) {
			t.Fatal("the phone cannot log in")
		}
	}
	if n := len(s.sessions); n != maxLogins {
		t.Errorf("the phone has %d sessions, want %d", n, maxLogins)
	}
	if response, _ := phone.ask("GET", "/", nil); response.StatusCode != http.StatusOK {
		t.Errorf("the newest session: %s", response.Status)
	}
	s.ahead.Add(int64(sessionLives + time.Second))
	if response, _ := phone.ask("GET", "/", nil); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("an old session: %s", response.Status)
	}
	phone.login(phone.loginForm(phone.challenge()))
	for header, value := range map[string]string{"Host": "evil.example", "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		if response, _ := phone.ask("POST", "/", nil, header, value); response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s: %s", header, value, response.Status)
		}
	}
	if n := len(s.challenges.used); n != 1 {
		t.Errorf("golem keeps %d challenges, want only the last one", n)
	}
}

// TestRemovedDevice checks that nothing of a device counts after its removal, and that its
// stream of events ends.
func TestRemovedDevice(t *testing.T) {
	s := newDeviceStand(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.desk.live.watch(ctx)
	}()
	t.Cleanup(func() { stop(); <-watched })
	phone, tablet := s.newDevice("phone", "low"), s.newDevice("tablet", "low")
	listen := func(d *testDevice) *bufio.Reader {
		if !d.login(d.loginForm(d.challenge())) {
			t.Fatal("no login")
		}
		r, err := http.NewRequestWithContext(ctx, "GET", s.base+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(d.cookie)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		b := bufio.NewReader(response.Body)
		if line, err := b.ReadString('\n'); err != nil || !strings.HasPrefix(line, "retry:") {
			t.Fatalf("%s: %q, %v", response.Status, line, err)
		}
		return b
	}
	ofPhone, ofTablet := listen(phone), listen(tablet)
	challenge := tablet.challenge()
	if !tablet.login(tablet.loginForm(tablet.challenge())) {
		t.Fatal("no login")
	}
	other, err := device.Open(s.desk.options.StateBase(), time.Now) // as golem desk devices rm does, in another process
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Remove("tablet", ""); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(ofTablet); err != nil || strings.Contains(string(rest), "event:") {
		t.Errorf("the removed device hears %q, %v", rest, err)
	}
	if response, _ := tablet.ask("GET", "/", nil); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a page for the removed device: %s", response.Status)
	}
	if tablet.login(tablet.loginForm(challenge)) {
		t.Error("the removed device logs in")
	}
	for line := ""; !strings.HasPrefix(line, "event: changed"); {
		if line, err = ofPhone.ReadString('\n'); err != nil {
			t.Fatalf("the other device hears nothing more: %v", err)
		}
	}
}

// waitingCallOf makes a program in which a call waits, and returns the page of the call.
func (s *deviceStand) waitingCallOf(content string) (path string) {
	s.t.Helper()
	dir := s.t.TempDir()
	for name, text := range map[string]string{"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./out, target: /out}\n", "out/old.txt": "",
		"main.worker": "---\nsandbox: inherit\ntoolsets: [filesystem]\n---\nWork.\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	o := s.desk.options
	o.Dir = dir
	p, err := program.Load(o)
	if err == nil {
		err = p.Trust()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	g, err := p.OpenWorker(program.WorkerOptions{Run: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer g.Close()
	args, _ := json.Marshal(map[string]string{"path": "/out/a.txt", "content": content})
	got := g.Do(s.t.Context(), policy.Model, tool.Call{Tool: "write_file", Args: args})
	if got.Pending == nil {
		s.t.Fatalf("the call does not wait: %+v", got)
	}
	return "/call/" + filepath.Base(string(p.Storage.Dir())) + "/" + got.Pending.ID
}

// decision returns the form of a decision about a call, whose page the device opens.
func (d *testDevice) decision(path, answer string, change map[string]string) url.Values {
	d.t.Helper()
	response, page := d.ask("GET", path, nil)
	if response.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %s", response.Status, page)
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`data-item="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		seen[m[1]] = true
	}
	var items []string
	for item := range maps.Keys(seen) {
		items = append(items, item)
	}
	form := url.Values{"nonce": {formField(page, "nonce")}, "digest": {formField(page, "digest")}, "seen": {strings.Join(items, ",")}, "answer": {answer}, "reason": {""}, "expires": {fmt.Sprint(d.now().Add(2 * time.Minute).Unix())}}
	for key, value := range change {
		form.Set(key, value)
	}
	form.Set("signature", d.sign("golem decision 1", d.base, d.id, path, form.Get("digest"), form.Get("nonce"), form.Get("expires"), form.Get("answer"), form.Get("seen"), form.Get("reason")))
	return form
}

// TestDeviceDecisions checks which decisions of a device count.
func TestDeviceDecisions(t *testing.T) {
	s := newDeviceStand(t)
	path := s.waitingCallOf("text\n")
	phone, watch := s.newDevice("phone", "low"), s.newDevice("watch", "decline")
	for _, d := range []*testDevice{phone, watch} {
		if !d.login(d.loginForm(d.challenge())) {
			t.Fatal("no login")
		}
	}
	refused := func(what string, d *testDevice, form url.Values, want string) {
		t.Helper()
		response, said := d.ask("POST", path, form)
		if response.StatusCode < 400 || !strings.Contains(said, want) {
			t.Errorf("%s: %s, want %q\n%s", what, response.Status, want, said)
		}
	}
	with := func(form url.Values, key, value string) url.Values { form.Set(key, value); return form }
	const signature = "the signature is not one of this device"
	refused("no signature", phone, with(phone.decision(path, "approve", nil), "signature", ""), signature)
	refused("a decline that became an approval", phone, with(phone.decision(path, "decline", nil), "answer", "approve"), signature)
	refused("a later end", phone, with(phone.decision(path, "approve", nil), "expires", "9999999999"), signature)
	refused("another reason", phone, with(phone.decision(path, "decline", nil), "reason", "x"), signature)
	refused("more seen", phone, with(phone.decision(path, "approve", map[string]string{"seen": ""}), "seen", "call"), signature)
	form := phone.decision(path, "approve", nil)
	refused("the signature of another page", phone, with(phone.decision(path, "approve", nil), "signature", form.Get("signature")), signature)
	refused("the key of another device", phone, with(form, "signature", watch.sign("golem decision 1", s.base, phone.id, path, form.Get("digest"), form.Get("nonce"), form.Get("expires"), "approve", form.Get("seen"), "")), signature)
	for _, late := range []time.Duration{-24 * time.Hour, -time.Second, decisionLives + time.Minute, 24 * time.Hour} {
		refused("a clock that is wrong", phone, phone.decision(path, "approve", map[string]string{"expires": fmt.Sprint(s.now().Add(late).Unix())}), "the clock of the device is wrong")
	}
	refused("no time", phone, phone.decision(path, "approve", map[string]string{"expires": ""}), "the clock of the device is wrong")
	form = phone.decision(path, "approve", nil)
	refused("a page of another device", watch, form, "another device opened this page")
	refused("the page again", phone, form, "this page was used already")
	refused("another digest", phone, phone.decision(path, "approve", map[string]string{"digest": strings.Repeat("0", 64)}), "The content has changed")
	refused("not all seen", phone, phone.decision(path, "approve", map[string]string{"seen": ""}), "golem did not count your approval")
	refused("beyond the scope", watch, watch.decision(path, "approve", nil), "may only decline")
	for _, answer := range []string{"approve-always", "approve-unseen", "", "yes"} {
		refused("the answer "+answer, phone, phone.decision(path, answer, nil), "decide at your machine")
	}
	// The call still waits, so none of these was counted.
	if response, said := phone.ask("POST", path, phone.decision(path, "approve", nil)); response.StatusCode != http.StatusSeeOther {
		t.Fatalf("the approval: %s\n%s", response.Status, said)
	}
	if response, page := phone.ask("GET", strings.Replace(path, "/call/", "/decision/", 1), nil); response.StatusCode != http.StatusOK || !strings.Contains(page, "on the device phone ("+phone.id+")") {
		t.Errorf("%s: the decision does not name the device:\n%s", response.Status, page)
	}
	// The rest of the journal is none of the device's business, nor is this to another device.
	hidden := func(d *testDevice, at string) {
		t.Helper()
		if response, page := d.ask("GET", at, nil); response.StatusCode != http.StatusNotFound || strings.Contains(page, "<h2>The journal") {
			t.Errorf("%s reads %s: %s", d.id, at, response.Status)
		}
	}
	answered := strings.Replace(path, "/call/", "/decision/", 1)
	hidden(watch, answered)
	folder, err := inbox.OpenJournal(s.desk.options, strings.Split(path, "/")[2])
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	_, request, _ := strings.Cut(strings.TrimPrefix(path, "/call/"), "/")
	records := 0
	if err := audit.Read(folder, audit.Filter{}, func(r audit.Record, _ []byte) error {
		records++
		for _, id := range []string{fmt.Sprint(r.Number), r.Call, r.Digest} {
			if id != "" && id != request {
				hidden(phone, answered[:strings.LastIndex(answered, "/")+1]+id)
			}
		}
		return nil
	}); err != nil || records < 2 {
		t.Fatalf("%d records, %v", records, err)
	}
	path = s.waitingCallOf("other\n")
	if response, said := watch.ask("POST", path, watch.decision(path, "decline", nil)); response.StatusCode != http.StatusSeeOther {
		t.Errorf("a decline of a device that may decline: %s\n%s", response.Status, said)
	}
}

// TestDeviceTrust checks that no device approves what changes the user's trust, whatever it may
// approve, and that a risk that golem does not know is high.
func TestDeviceTrust(t *testing.T) {
	s := newDeviceStand(t)
	path := s.waitingCallOf("text\n")
	key, id, _ := strings.Cut(strings.TrimPrefix(path, "/call/"), "/")
	strong, weak := s.newDevice("strong", "high"), s.newDevice("weak", "medium")
	for _, c := range []struct {
		device  *testDevice
		request tool.Request
		id      string
		want    string
	}{
		{strong, tool.Request{}, id, ""},
		{strong, tool.Request{OnlyUser: true}, id, "it changes what you trust"},
		{strong, tool.Request{Guess: "a guess"}, id, "it changes what you trust"},
		{weak, tool.Request{}, id, ""},
		{weak, tool.Request{}, "gone", "the call has a high risk"},
		{strong, tool.Request{}, "gone", ""},
	} {
		d, err := s.store.Find(c.device.id)
		if err != nil {
			t.Fatal(err)
		}
		one := &page{device: d.ID, digest: "d", nonce: "n"}
		form := url.Values{"expires": {fmt.Sprint(s.now().Add(time.Minute).Unix())}, "answer": {"approve"}}
		form.Set("signature", c.device.sign("golem decision 1", s.base, d.ID, path, "d", "n", form.Get("expires"), "approve", "", ""))
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), deviceKey{}, d), "POST", path, nil)
		r.PostForm = form
		_, err = s.checkDecision(r, one, waitingCall{program: key, id: c.id, request: c.request})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %+v: got %v, want %q", d.Name, c.request, err, c.want)
		}
	}
}
