package desk

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/people/device"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// Limits of devices.
const (
	sessionLives  = 12 * time.Hour
	decisionLives = 5 * time.Minute // the longest time for which a device may sign
	maxLogins     = 20              // of one device; the oldest ends first
)

// deviceCookie is the name of the cookie of a device.
const deviceCookie = "golem_device"

// deviceGate lets only paired devices in, at another address than the user's own browser. A
// device proves with its key who it is, and signs each decision with it.
type deviceGate struct {
	origin string // https://HOST
	host   string
	store  *device.Store
	now    func() time.Time
	check  *http.CrossOriginProtection
	desk   *server
	mux    *http.ServeMux

	challenges *challenges

	mu       sync.Mutex
	sessions map[string]deviceSession // by cookie
}

type deviceSession struct {
	device string
	until  time.Time
}

// newDeviceGate returns the pages for devices of a desk.
func newDeviceGate(at string, store *device.Store, s *server) (*deviceGate, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	g := &deviceGate{origin: u.Scheme + "://" + u.Host, host: u.Host, store: store, now: s.options.Now, check: http.NewCrossOriginProtection(), mux: http.NewServeMux(), challenges: newChallenges(s.options.Now), sessions: make(map[string]deviceSession)}
	d := &server{options: s.options, front: s.front, secrets: s.secrets, guard: &guard{prefix: "/"}, live: s.live, inbox: s.inbox, watcher: s.watcher, devices: g}
	d.pages.now, g.desk = s.options.Now, d
	add := adder(g.mux, d)
	add("GET /{$}", d.showInbox)
	add("GET /list", d.showList)
	g.mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		d.live.serve(w, r, func() bool {
			_, err := g.deviceOf(r)
			return err == nil
		})
	})
	add("GET /call/{program}/{id}", d.showCall)
	add("GET /call/{program}/{id}/file/{index}", d.showFile)
	add("GET /call/{program}/{id}/state", d.showState)
	add("POST /call/{program}/{id}", d.decide)
	add("GET /decision/{program}/{id}", d.showDecision)
	add("/", func(_ http.ResponseWriter, r *http.Request) error {
		return &sandbox.Error{Op: "page", Path: r.URL.Path, Code: sandbox.ErrNotFound, Hint: "a device shows the inbox and the calls in it; use golem desk on your machine for the rest"}
	})
	return g, nil
}

// ServeHTTP implements http.Handler.
func (g *deviceGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w, contentPolicy())
	if r.Host != g.host {
		refuse(w, http.StatusForbidden, "this is not the address of the key desk.url in the configuration; a proxy must keep the name of the host")
		return
	}
	if err := g.check.Check(r); err != nil {
		refuse(w, http.StatusForbidden, "a page of another site sent this request")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if name, ok := strings.CutPrefix(r.URL.Path, "/assets/"); ok && r.Method == http.MethodGet {
		r.SetPathValue("name", name)
		serveAsset(w, r)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /pair":
		g.desk.render(w, http.StatusOK, "device-pair", view{Title: "Pair this device"})
		return
	case "POST /pair":
		key := r.PostFormValue("key")
		if err := g.store.Claim(r.PostFormValue("code"), key); err != nil {
			refuse(w, http.StatusForbidden, err.Error())
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, device.Word(key))
		return
	case "POST /login":
		g.login(w, r)
		return
	}
	d, err := g.deviceOf(r)
	if err != nil {
		g.desk.render(w, http.StatusUnauthorized, "device-login", view{Title: "Log in to golem desk", Data: g.challenges.add()})
		return
	}
	g.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), deviceKey{}, d)))
}

// login logs a device in that has signed a challenge.
func (g *deviceGate) login(w http.ResponseWriter, r *http.Request) {
	challenge := r.PostFormValue("challenge")
	old := &sandbox.Error{Op: "login", Code: "blocked", Hint: "this page was used or is too old; open the desk again"}
	until, ok := g.challenges.check(challenge)
	if !ok { // nobody can make golem read files or check signatures with a text of their own
		refuse(w, http.StatusForbidden, old.Error())
		return
	}
	d, err := g.store.Find(r.PostFormValue("device"))
	if err == nil {
		err = d.Verify(r.PostFormValue("signature"), "golem login 1", g.origin, d.ID, challenge)
	}
	if err == nil && !g.challenges.use(challenge, until) {
		err = old
	}
	if err != nil {
		refuse(w, http.StatusForbidden, err.Error())
		return
	}
	value := g.addSession(d.ID)
	http.SetCookie(w, &http.Cookie{Name: deviceCookie, Value: value, Path: "/", HttpOnly: true, Secure: strings.HasPrefix(g.origin, "https:"), SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// addSession returns the cookie of a new session of a device.
func (g *deviceGate) addSession(id string) (cookie string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first, logins := "", 0
	for cookie, s := range g.sessions {
		switch {
		case !g.now().Before(s.until):
			delete(g.sessions, cookie)
		case s.device == id:
			if logins++; first == "" || s.until.Before(g.sessions[first].until) {
				first = cookie
			}
		}
	}
	if logins >= maxLogins {
		delete(g.sessions, first)
	}
	cookie = rand.Text()
	g.sessions[cookie] = deviceSession{id, g.now().Add(sessionLives)}
	return cookie
}

// deviceOf returns the device that sent a request. A device that was removed is none.
func (g *deviceGate) deviceOf(r *http.Request) (device.Device, error) {
	cookie, err := r.Cookie(deviceCookie)
	if err != nil {
		return device.Device{}, err
	}
	g.mu.Lock()
	s, ok := g.sessions[cookie.Value]
	g.mu.Unlock()
	if !ok || !g.now().Before(s.until) {
		return device.Device{}, http.ErrNoCookie
	}
	return g.store.Find(s.device)
}

// deviceKey is the key of the device in the context of a request.
type deviceKey struct{}

// checkDecision returns the device that has signed a decision, as the front for the journal. The
// signature covers the device, the call, the digest of what the page showed, its nonce, the
// answer and a time until which it counts.
func (g *deviceGate) checkDecision(r *http.Request, one *page, call waitingCall) (front string, err error) {
	d, _ := r.Context().Value(deviceKey{}).(device.Device)
	refuse := func(hint string) error {
		return &sandbox.Error{Op: "decide", Path: call.id, Code: "blocked", Hint: hint}
	}
	form := r.PostForm.Get
	if one.device == "" || one.device != d.ID {
		return "", refuse("another device opened this page; open it again on this one")
	}
	if err := d.Verify(form("signature"), "golem decision 1", g.origin, d.ID, r.URL.Path, one.digest, one.nonce, form("expires"), form("answer"), form("seen"), form("reason")); err != nil {
		return "", err
	}
	seconds, err := strconv.ParseInt(form("expires"), 10, 64)
	if left := time.Unix(seconds, 0).Sub(g.now()); err != nil || left < 0 || left > decisionLives {
		return "", refuse("the clock of the device is wrong, or the decision came too late; set the clock, and decide again")
	}
	switch form("answer") {
	case "decline":
	case "approve":
		if call.request.OnlyUser || call.request.Guess != "" {
			return "", refuse("it changes what you trust; decide at your machine: golem approve " + call.id)
		}
		risk := inbox.High.String() // in doubt
		p, err := inbox.OpenProgram(g.desk.options, call.program)
		if err != nil {
			return "", err
		}
		for _, item := range g.desk.inbox.WaitingIn(p, "") {
			if item.ID == call.id {
				risk = item.Risk.String()
			}
		}
		if !d.MayApprove(risk) {
			return "", refuse("the call has a " + risk + " risk, and " + sandbox.Shown(d.Name) + " may only " + d.MayText() + "; decide at your machine: golem approve " + call.id)
		}
	default:
		return "", refuse("a device may approve what was on its screen, or decline; decide at your machine: golem approve " + call.id)
	}
	front = deviceFront(d)
	if _, account, has := strings.Cut(g.desk.front, audit.AccountMark); has {
		front += audit.AccountMark + account
	}
	return front, nil
}

// deviceFront returns the front of the answers of a device, without the user's account.
func deviceFront(d device.Device) string {
	return "golem desk, on the device " + d.Name + " (" + d.ID + ")"
}

// hasAnswered reports whether records have an answer of a device to a request.
func hasAnswered(d device.Device, request string, records []audit.Record) bool {
	return slices.ContainsFunc(records, func(r audit.Record) bool {
		front, _, _ := strings.Cut(r.Front, audit.AccountMark)
		return r.Kind == audit.Answer && r.Request == request && front == deviceFront(d)
	})
}

// serveDevices serves the pages for devices until ctx ends.
func serveDevices(ctx context.Context, o project.Desk, s *server) (stop func(), err error) {
	if o.Certificate == "" {
		if err := checkLoopback(o.Listen); err != nil {
			return nil, &sandbox.Error{Op: "desk.listen", Path: o.Listen, Code: sandbox.ErrInvalid, Hint: "without desk.certificate golem listens on this machine only, for a proxy with TLS; write 127.0.0.1:PORT"}
		}
	}
	var secure *tls.Config
	if o.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(o.Certificate, cmp.Or(o.Key, o.Certificate))
		if err != nil {
			return nil, &sandbox.Error{Op: "desk.certificate", Path: o.Certificate, Code: sandbox.ErrInvalid, Hint: "golem cannot use it with its key: " + err.Error()}
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	store, err := device.Open(s.options.StateBase(), s.options.Now)
	if err != nil {
		return nil, err
	}
	g, err := newDeviceGate(o.URL, store, s)
	var l net.Listener
	if err == nil {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	}
	if err != nil {
		store.Close()
		return nil, &sandbox.Error{Op: "desk.listen", Path: o.Listen, Code: sandbox.ErrInvalid, Hint: "golem cannot listen there: " + err.Error()}
	}
	h := newHTTPServer(ctx, g)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if h.TLSConfig = secure; secure != nil {
			h.ServeTLS(l, "", "")
		} else {
			h.Serve(l)
		}
	}()
	return func() {
		h.Close()
		<-ended
		store.Close()
	}, nil
}
