package desk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// A server serves the pages of one user.
type server struct {
	options program.Options
	resume  inbox.Starter
	front   string   // names the desk and the user's account in the journal
	secrets []string // that the journal must not show
	guard   *guard
	live    *live
	actions actions
	resumed resumed
	inbox   *inbox.Reader
	watcher *inbox.Watcher
	events  inbox.Timelines
	hub     *hubPages   // nil for none
	devices *deviceGate // of the pages for devices, nil for the user's own browser
	pages   pages
}

// Serve serves the desk at an address of this machine until ctx ends.
func Serve(ctx context.Context, o inbox.DeskOptions) error {
	if err := checkLoopback(o.Listen); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return &sandbox.Error{Op: "--listen", Path: o.Listen, Code: sandbox.ErrInvalid, Hint: "golem cannot listen there: " + err.Error() + "; with --listen 127.0.0.1:0 golem chooses a free port"}
	}
	defer l.Close()
	if o.Demo {
		return serveDemo(ctx, l, o)
	}
	s := newServer(o, hostFor(o.Listen, l.Addr().String()))
	if o.Devices.URL != "" {
		stop, err := serveDevices(ctx, o.Devices, s)
		if err != nil {
			return err
		}
		defer stop()
	}
	removeLeft(s.options.Now())
	file, held, err := s.writeFile()
	if err != nil {
		return err
	}
	defer held.Close()
	defer os.RemoveAll(filepath.Dir(file))
	login := s.guard.login
	s.guard.login = func(w http.ResponseWriter) { // nobody needs the file any more, and golem may be killed
		os.RemoveAll(filepath.Dir(file))
		login(w)
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	wait.Go(func() { s.live.watch(watching) })
	if s.hub != nil {
		wait.Go(func() { s.hub.Watch(watching) })
	}
	return serveUntil(watching, l, s.guard, func() { o.Ready(s.guard.address(), file) })
}

// serveUntil serves until ctx ends.
func serveUntil(ctx context.Context, l net.Listener, handler http.Handler, ready func()) error {
	h := newHTTPServer(ctx, handler)
	defer context.AfterFunc(ctx, func() { h.Close() })()
	ready()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newHTTPServer returns a server with limits for clients that are slow.
func newHTTPServer(ctx context.Context, handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), BaseContext: func(net.Listener) context.Context { return ctx }}
}

// checkLoopback returns an error unless an address is one of this machine only.
func checkLoopback(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return &sandbox.Error{Op: "--listen", Path: listen, Code: sandbox.ErrInvalid, Hint: "it is an address with a port, such as 127.0.0.1:8137"}
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return nil
	}
	return &sandbox.Error{Op: "--listen", Path: listen, Code: sandbox.ErrInvalid,
		Hint: "golem desk is only for this machine; use 127.0.0.1:PORT, and ssh -L to reach it from elsewhere, or golem desk pair to decide from another device"}
}

// hostFor returns the name and the port of the desk in the browser. at is the address that
// golem listens on. If the user chose the port, another server may have had it before, and
// may have left a service worker in the browser that sees every request to the same name and
// port. So the name is a new one below localhost, which browsers take for this machine.
func hostFor(listen, at string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" || host != "127.0.0.1" && host != "::1" { // browsers know only these two
		return at
	}
	return "desk-" + strings.ToLower(rand.Text()) + ".localhost:" + port
}

func newServer(o inbox.DeskOptions, host string) *server {
	o.Options.Examined, o.Options.Histories = &session.Examined{}, &storage.Histories{}
	s := &server{options: o.Options, front: o.Front, secrets: o.Secrets, resume: o.Resume, guard: newGuard(host), live: newLive(o.Options), inbox: &inbox.Reader{Options: o.Options}}
	s.watcher = &inbox.Watcher{Options: o.Options, Reader: s.inbox}
	s.pages.now = o.Options.Now
	mux := http.NewServeMux()
	add := adder(mux, s)
	add("GET /{$}", s.showInbox)
	add("GET /list", s.showList)
	add("GET /live", s.showLive)
	add("GET /activities", s.showActivities)
	add("POST /control/{program}/{id}", s.control)
	mux.Handle("GET /events", s.live)
	mux.HandleFunc("GET /assets/{name}", serveAsset)
	add("GET /call/{program}/{id}", s.showCall)
	add("GET /call/{program}/{id}/file/{index}", s.showFile)
	add("GET /call/{program}/{id}/state", s.showState)
	add("POST /call/{program}/{id}", s.decide)
	if o.Hub != nil {
		s.hub = &hubPages{o.Hub, s}
		s.hub.addTo(add)
	}
	add("GET /decision/{program}/{id}", s.showDecision)
	add("GET /session/{program}/{id}", s.showSession)
	add("POST /session/{program}/{id}", s.decideSession)
	add("GET /session/{program}/{id}/files", s.showFiles)
	add("GET /session/{program}/{id}/comments", notePages{s}.showComments)
	add("POST /session/{program}/{id}/comments", notePages{s}.changeComments)
	add("POST /session/{program}/{id}/viewed", notePages{s}.markViewed)
	add("GET /session/{program}/{id}/file/{index}", s.showChange)
	add("GET /session/{program}/{id}/timeline", s.showTimeline)
	add("GET /session/{program}/{id}/now", s.showNow)
	add("GET /session/{program}/{id}/state", s.showSessionState)
	add("GET /journal", s.showJournal)
	add("GET /journal/export/{format}", s.exportJournal)
	add("GET /pictures", s.showPictures)
	add("GET /commit/{program}/{id}", s.showCommit)
	add("POST /commit/{program}/{id}", s.decideCommit)
	add("GET /commit/{program}/{id}/file/{index}", s.showCommitFile)
	add("GET /commit/{program}/{id}/state", s.showCommitState)
	add("/", func(_ http.ResponseWriter, r *http.Request) error {
		return &sandbox.Error{Op: "page", Path: r.URL.Path, Code: sandbox.ErrNotFound, Hint: "the inbox lists everything that waits"}
	})
	s.guard.next = mux
	s.guard.policy = contentPolicy()
	s.guard.login = func(w http.ResponseWriter) {
		s.render(w, http.StatusOK, "login", view{Title: "Logged in", Prefix: s.guard.prefix})
	}
	return s
}

// adder returns a function that adds a page of a desk to mux.
func adder(mux *http.ServeMux, s *server) func(pattern string, h handler) {
	return func(pattern string, h handler) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				s.fail(w, err)
			}
		})
	}
}

// dirPrefix begins the name of the directory with the file that leads a browser to the desk.
// newPrefix begins it until the directory is marked as in use. It is empty then.
const (
	dirPrefix = "golem-desk-"
	newPrefix = "golem-new-desk-"
)

// makeDir makes that directory. It is in use until the file is closed.
func makeDir() (dir string, held *os.File, err error) {
	made, err := os.MkdirTemp("", newPrefix)
	if err != nil {
		return "", nil, err
	}
	if held, err = hold(made); err == nil {
		dir = filepath.Join(filepath.Dir(made), dirPrefix+strings.TrimPrefix(filepath.Base(made), newPrefix))
		err = durable.Rename(made, dir)
	}
	if err != nil {
		held.Close()
		return "", nil, errors.Join(err, os.Remove(made))
	}
	return dir, held, nil
}

// writeFile writes the file that leads a browser to the desk. Its directory is in use until
// held is closed.
func (s *server) writeFile() (name string, held *os.File, err error) {
	dir, held, err := makeDir()
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(dir, "desk.html")
	var page = template.Must(template.New("").Parse(`<!doctype html><meta charset="utf-8"><title>golem desk</title><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={{.}}"><a href="{{.}}">golem desk</a>` + "\n"))
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(page.Execute(f, s.guard.address()), f.Close())
	}
	if err != nil {
		held.Close()
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return file, held, nil
}

// A view is what a page shows.
type view struct {
	Title  string
	Prefix string // the random path of the desk
	Home   string
	Hub    bool // there are pages for a hub
	Device bool // it is for a paired device
	Now    time.Time
	Data   any
}

// WithData returns the view with other data, for a part of a page.
func (v view) WithData(data any) view {
	v.Data = data
	return v
}

// A handler answers a request. If it returns an error, it has written nothing, and the page
// shows the error.
type handler func(w http.ResponseWriter, r *http.Request) error

// render writes a page. It returns nil, the result of a handler that has answered.
func (s *server) render(w http.ResponseWriter, status int, name string, v view) error {
	v.Prefix, v.Home, v.Hub, v.Device, v.Now = s.guard.prefix, s.options.Home, s.hub != nil, s.devices != nil, s.options.Now()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := templates().ExecuteTemplate(w, name, v); err != nil {
		io.WriteString(w, "<p>golem could not write the rest of this page") // the browser is gone, or the page ends here
	}
	return nil
}

// keepPage answers that the page is up to date: htmx keeps it as it is. It returns nil.
func keepPage(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// fail shows an error.
func (s *server) fail(w http.ResponseWriter, err error) {
	s.render(w, statusOf(err), "failed", view{Title: "Not done", Data: visible.Text(err.Error())})
}

// statusOf returns the status of a page that shows an error.
func statusOf(err error) int {
	switch sandbox.CodeOf(err) {
	case sandbox.ErrNotFound:
		return http.StatusNotFound
	case sandbox.ErrExists, sandbox.ErrConflict:
		return http.StatusConflict
	case sandbox.ErrInvalid, "unseen", "blocked", "untrusted":
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// An inboxView is the content of the inbox.
type inboxView struct {
	Items      []inbox.Item
	Hidden     int // how many sessions with changes are not among them
	Problems   []inbox.Problem
	Hub        hubProblem
	Done       string // what the last page did
	Nonce      string
	Activities activitiesView
}

// maxChanges is how many sessions with changes the inbox lists.
const maxChanges = 100

// limitItems returns the items without the sessions after the first maxChanges, and how many
// those are. The riskiest come first.
func limitItems(items []inbox.Item) (shown []inbox.Item, hidden int) {
	sessions := 0
	for _, it := range items {
		if it.Kind == inbox.KindChanges {
			if sessions++; sessions > maxChanges {
				hidden++
				continue
			}
		}
		shown = append(shown, it)
	}
	return shown, hidden
}

// showInbox shows everything that waits, and what runs.
func (s *server) showInbox(w http.ResponseWriter, r *http.Request) error {
	items, problems, list, err := s.watcher.ItemsWithActivities(r.Context())
	if err != nil {
		return err
	}
	nonce := s.addControlPage()
	shown, hidden := limitItems(s.hub.addItems(items))
	v := inboxView{Items: shown, Hidden: hidden, Problems: problems, Hub: s.hub.problem(), Done: s.actions.takeNote(r.URL.Query().Get("done")), Nonce: nonce, Activities: activitiesView{List: list, Nonce: nonce, Short: true}}
	return s.render(w, http.StatusOK, "inbox", view{Title: fmt.Sprintf("Inbox (%d)", len(v.Items)+hidden), Data: v})
}

// showList shows only the list of the inbox, for a page that is open.
func (s *server) showList(w http.ResponseWriter, r *http.Request) error {
	items, problems, err := s.inbox.Items(r.Context())
	if err != nil {
		return err
	}
	shown, hidden := limitItems(s.hub.addItems(items))
	return s.render(w, http.StatusOK, "list", view{Data: inboxView{Items: shown, Hidden: hidden, Problems: problems, Nonce: r.URL.Query().Get("page")}})
}
