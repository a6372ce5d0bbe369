package desk

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/people/device"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/work/program"
)

const (
	// maxListeners is how many pages listen for changes at the same time.
	maxListeners = 200
	// lookEvery is how often the desk looks for changes that other processes made.
	lookEvery = 250 * time.Millisecond
	// refreshEvery is how often a page reads the changes of sessions again. Commands in a
	// session change files anywhere in its overlay, so nothing cheaper shows it.
	refreshEvery = 15 * time.Second
	// writeWithin is how long a browser may take to read an event.
	writeWithin = 10 * time.Second
)

// A live tells the open pages that something has changed.
type live struct {
	options program.Options
	now     func() time.Time

	mu        sync.Mutex
	listeners map[chan news]bool
}

// A news says what has changed. A page that gets one of them reads only what it shows.
type news string

// The news.
const (
	changed  news = "changed"  // what waits for the user
	activity news = "activity" // a record in a journal, or a step of a run
)

func newLive(o program.Options) *live {
	return &live{options: o, now: o.Now, listeners: make(map[chan news]bool)}
}

// notify tells all pages that what waits has changed.
func (l *live) notify() { l.send(changed) }

// send tells all pages. A page that has not read the last news gets no second one: it reads
// everything when it gets that one.
func (l *live) send(n news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.listeners {
		select {
		case c <- n:
			continue
		default:
		}
		if n != changed {
			continue
		}
		select { // changed includes activity
		case <-c:
		default:
		}
		select {
		case c <- n:
		default:
		}
	}
}

// listen returns a channel of changes. ok is false if too many pages listen.
func (l *live) listen() (c chan news, stop func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.listeners) >= maxListeners {
		return nil, nil, false
	}
	c = make(chan news, 1)
	l.listeners[c] = true
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.listeners, c)
	}, true
}

func (l *live) isHeard() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.listeners) > 0
}

// watch notifies when the state of a program changes, until ctx ends.
func (l *live) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last, refreshed := l.fingerprint(), l.now()
	steps := l.steps()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !l.isHeard() {
			continue
		}
		if now := l.fingerprint(); now != last || l.now().Sub(refreshed) > refreshEvery {
			last, refreshed, steps = now, l.now(), l.steps()
			l.notify()
		} else if now := l.steps(); now != steps {
			steps = now
			l.send(activity)
		}
	}
}

// steps returns a text that changes when a journal or the log of a run gets longer.
func (l *live) steps() string {
	var text strings.Builder
	known, _ := inventory.Programs(l.options.StateBase())
	for _, k := range known {
		logs, _ := filepath.Glob(filepath.Join(escapeGlob(string(k.State)), "journal*"))
		runs, _ := filepath.Glob(filepath.Join(escapeGlob(string(k.State)), "sessions", "*", "run*"))
		for _, name := range append(logs, runs...) {
			if info, err := os.Stat(name); err == nil && !info.IsDir() {
				fmt.Fprintln(&text, name, info.ModTime().UnixNano(), info.Size())
			}
		}
	}
	return text.String()
}

// escapeGlob returns a pattern that matches only a path.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// fingerprint returns a text that changes when a call, an answer, a session, a staged commit or
// a device comes or goes.
func (l *live) fingerprint() string {
	known, err := inventory.Programs(l.options.StateBase())
	var text strings.Builder
	fmt.Fprintln(&text, err)
	if info, err := os.Stat(device.File(l.options.StateBase())); err == nil {
		fmt.Fprintln(&text, "devices", info.ModTime().UnixNano(), info.Size())
	}
	for _, k := range known {
		for _, name := range []string{"approvals.json", "answers", "sessions", "staged.json", "staged"} {
			if info, err := os.Stat(filepath.Join(string(k.State), name)); err == nil {
				fmt.Fprintln(&text, k.State, name, info.ModTime().UnixNano(), info.Size())
			}
		}
	}
	return text.String()
}

// ServeHTTP implements http.Handler. It sends an event for each change.
func (l *live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.serve(w, r, func() bool { return true })
}

// serve sends an event for each change, as long as the browser may have it.
func (l *live) serve(w http.ResponseWriter, r *http.Request, allowed func() bool) {
	heard, stop, ok := l.listen()
	if !ok {
		refuse(w, http.StatusServiceUnavailable, "too many pages are open")
		return
	}
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	send := func(text string) bool {
		control.SetWriteDeadline(l.now().Add(writeWithin))
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	if !send("retry: 1000\n\n") {
		return
	}
	alive := time.NewTicker(30 * time.Second) // finds a browser that is gone
	defer alive.Stop()
	for {
		text := ": alive\n\n"
		select {
		case <-r.Context().Done():
			return
		case n := <-heard:
			text = "event: " + string(n) + "\ndata: \n\n"
		case <-alive.C:
		}
		if !allowed() || !send(text) {
			return
		}
	}
}
