package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/telemetry"
	"github.com/golem-forge/golem/internal/records/version"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
)

// How often golem sends spans, how long one request may take, and how long golem waits for
// the last one at the end of a run.
const (
	sendEvery   = 5 * time.Second
	sendTimeout = 10 * time.Second
	lastSend    = 3 * time.Second
)

// A tracer sends the spans of a run to a server of OpenTelemetry. It never delays the run,
// and its errors do not fail the run. A nil tracer does nothing.
type tracer struct {
	*telemetry.Spans
	settings telemetry.Settings
	requests *network.OwnRequests
	client   *http.Client

	halt  chan struct{}
	ended chan struct{}
	once  sync.Once

	mu  sync.Mutex
	why error // why the last request failed
}

// newTracer returns the tracer that the user's environment asks for, nil for none. A policy
// without a network allows none.
func newTracer(p *program.Program, tell func(string)) *tracer {
	settings, err := telemetry.Read(os.Getenv)
	if err != nil {
		tell("no spans are sent: " + err.Error())
	}
	if err != nil || settings.URL == nil {
		return nil
	}
	if place, denied := p.Project.Ceiling.DeniedURL(settings.URL.String()); denied {
		tell("no spans are sent: " + place.String() + " does not allow the host " + visible.Text(settings.URL.Host))
		return nil
	}
	requests := network.NewOwnRequests("telemetry", "your OTEL_EXPORTER_OTLP_ENDPOINT", time.Now)
	t := &tracer{Spans: telemetry.NewRecorder(settings, version.Release), settings: settings, requests: requests, halt: make(chan struct{}), ended: make(chan struct{}),
		client: &http.Client{Transport: requests, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	return t
}

// others returns the requests for the journal of a run.
func (t *tracer) others() []*network.OwnRequests {
	if t == nil {
		return nil
	}
	return []*network.OwnRequests{t.requests}
}

// also returns a function that passes events on to the tracer, too.
func (t *tracer) also(tell func(run.Event)) func(run.Event) {
	if t == nil {
		return tell
	}
	return func(e run.Event) {
		t.Tell(e)
		tell(e)
	}
}

// begin begins to send spans of a session.
func (t *tracer) begin(session string) {
	if t == nil {
		return
	}
	t.SetSession(session)
	go func() {
		defer close(t.ended)
		tick := time.NewTicker(sendEvery)
		defer tick.Stop()
		for {
			select {
			case <-t.halt:
				return
			case <-tick.C:
				t.send(sendTimeout)
			}
		}
	}()
}

// end sends the last spans, and reports how many were not sent.
func (t *tracer) end(tell func(string)) {
	if t == nil {
		return
	}
	t.once.Do(func() {
		close(t.halt)
		select {
		case <-t.ended:
			t.send(lastSend)
		case <-time.After(lastSend): // a request is in progress; closing its transport ends it
			t.requests.Close()
			<-t.ended
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if n := t.Dropped(); n > 0 {
			why := errors.New("there were too many")
			if t.why != nil {
				why = t.why
			}
			tell(fmt.Sprintf("%s not sent: %s", visible.Count(n, "span"), visible.Line(why.Error(), 200)))
		}
	})
}

// send sends the spans that are complete.
func (t *tracer) send(limit time.Duration) {
	body, spans, err := t.Take()
	if spans == 0 {
		return
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		err = t.post(ctx, body)
	}
	if err != nil {
		t.Drop(spans)
		t.mu.Lock()
		t.why = err
		t.mu.Unlock()
	}
}

func (t *tracer) post(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.settings.URL.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range t.settings.Header {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "golem")
	answer, err := t.client.Do(request)
	if err != nil {
		return errors.New(t.settings.URL.Host + " does not answer")
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so the connection can be used again
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", t.settings.URL.Host, answer.Status)
	}
	return nil
}
