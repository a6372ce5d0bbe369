package models_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/models"
)

// repeat answers with the events of an answer, but sends the first event with a mark until the
// client leaves or until enough bytes are sent. It adds the bytes to sent.
func repeat(events []string, mark string, pause time.Duration, sent *atomic.Int64) http.HandlerFunc {
	at := slices.IndexFunc(events, func(e string) bool { return strings.Contains(e, mark) })
	return func(w http.ResponseWriter, r *http.Request) {
		stream(events[:at]...)(w, r)
		for r.Context().Err() == nil && sent.Load() < 1<<30 {
			n, err := fmt.Fprint(w, events[at])
			if sent.Add(int64(n)); err != nil {
				return
			}
			if pause > 0 {
				w.(http.Flusher).Flush()
				time.Sleep(pause)
			}
		}
	}
}

// TestFloods: the client leaves a server that sends text or thoughts without end, and keeps
// little of it.
func TestFloods(t *testing.T) {
	forEachVendor(t, func(t *testing.T, d dialect) {
		mark := strings.Repeat("flood ", 2000)
		for name, say := range map[string]sampleAnswer{
			"text": {text: []string{mark}}, "thinking": {thinking: []string{mark}}, "arguments": {calls: []called{{"a", "w", []string{`{"content":"` + mark}}}},
			"small pieces": {text: []string{"flood "}},
		} {
			if name == "arguments" && d.whole || name == "small pieces" && d.path != "/chat/completions" {
				continue
			}
			var sent atomic.Int64
			say.stop = d.stops[model.Done]
			s := startServer(t, repeat(d.events(say), "flood ", 0, &sent))
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			peak := uint64(0)
			pieces := 0
			_, err := open(t, d, s.URL).Answer(context.Background(), hello, func(model.Piece) {
				if pieces++; pieces%10_000 == 0 {
					runtime.ReadMemStats(&after)
					peak = max(peak, after.HeapAlloc)
				}
			})
			mustFail(t, err, model.Bad, "is larger than golem accepts")
			runtime.ReadMemStats(&after)
			if peak = max(peak, after.HeapAlloc); peak > before.HeapAlloc+256<<20 {
				t.Errorf("%s: the heap grew from %d to %d MiB", name, before.HeapAlloc>>20, peak>>20)
			}
			if n := sent.Load(); n > 100<<20 {
				t.Errorf("%s: the client read on until %d MiB", name, n>>20)
			}
		}
	})
}

// TestTooManyCalls: an answer with more calls than any model makes is an error.
func TestTooManyCalls(t *testing.T) {
	forEachVendor(t, func(t *testing.T, d dialect) {
		for count, bad := range map[int]bool{1000: false, 10_000: true} {
			say := sampleAnswer{stop: d.stops[model.Calls]}
			for i := range count {
				say.calls = append(say.calls, called{fmt.Sprint("c", i), "w", []string{"{}"}})
			}
			body := strings.Join(d.events(say), "")
			a, err := open(t, d, startServer(t, answer(200, "text/event-stream", body)).URL).Answer(context.Background(), hello, nil)
			if !bad {
				if err != nil || len(a.Calls()) != count {
					t.Errorf("%d calls: got %d, %v", count, len(a.Calls()), err)
				}
				continue
			}
			mustFail(t, err, model.Bad, "has more than 4096 calls")
		}
	})
}

// TestSlowAnswers: the client leaves a server that never ends its answer, however it keeps the
// connection alive.
func TestSlowAnswers(t *testing.T) {
	forEachVendor(t, func(t *testing.T, d dialect) {
		limit := func(o *models.Options) { o.Whole, o.Idle = 300*time.Millisecond, 10*time.Second }
		events := d.events(sampleAnswer{text: []string{"slow"}, stop: d.stops[model.Done]})
		for name, kept := range map[string][]string{
			"pieces":   events,
			"comments": {events[0], ": slow\n\n"},
			"nothing":  {events[0], "event: slow\n\n"},
		} {
			var sent atomic.Int64
			s := startServer(t, repeat(kept, "slow", 10*time.Millisecond, &sent))
			begun := time.Now()
			_, err := open(t, d, s.URL, limit).Answer(context.Background(), hello, nil)
			mustFail(t, err, model.TimedOut, "did not end within 300ms")
			if took := time.Since(begun); took > 8*time.Second {
				t.Errorf("%s: it took %s", name, took)
			}
		}
	})
}

// TestFalseUsage: numbers that cannot be true do not break an answer, and never count as less
// than nothing.
func TestFalseUsage(t *testing.T) {
	forEachVendor(t, func(t *testing.T, d dialect) {
		whole := strings.Join(d.events(sampleAnswer{text: []string{"ok"}, stop: d.stops[model.Done]}), "")
		for _, number := range []string{"-5", "1e300", "99999999999999999999999", `"12"`, "null", `{}`, "1.5", `"many"`, "[]"} {
			lie := whole
			for _, real := range []string{":10,", ":7,", ":7}", ":40,", ":30,", ":30}", ":4,", ":47,", ":3,", ":3}", ":1}"} {
				lie = strings.ReplaceAll(lie, real, ":"+number+real[len(real)-1:])
			}
			for _, index := range []string{`"index"`, `"created"`, `"sequence_number"`, `"output_index"`} { // these are not usage
				lie = strings.ReplaceAll(lie, index+":"+number, index+":0")
			}
			a, err := open(t, d, startServer(t, answer(200, "text/event-stream", lie)).URL).Answer(context.Background(), hello, nil)
			if err != nil || a.Text() != "ok" {
				t.Errorf("%s: got %v, %v\n%s", number, a, err, lie)
				continue
			}
			for _, n := range []int64{a.Usage.Input, a.Usage.Output, a.Usage.CacheRead, a.Usage.CacheWrite} {
				if n < 0 || n > 1<<41 {
					t.Errorf("%s: got %+v", number, a.Usage)
				}
			}
		}
	})
}

// TestInvalidText: text that is not valid Unicode becomes valid, and arguments that are not
// cannot be mistaken for valid ones.
func TestInvalidText(t *testing.T) {
	forEachVendor(t, func(t *testing.T, d dialect) {
		for _, bad := range []string{"\xff\xfe", "\xc3", "\xed\xa0\x80", `\ud800`, `\udc00\ud800`} {
			said := strings.ReplaceAll(strings.Join(d.events(sampleAnswer{thinking: []string{"MARK"}, text: []string{"aMARKb"}, stop: d.stops[model.Done]}), ""), "MARK", bad)
			a, err := open(t, d, startServer(t, answer(200, "text/event-stream", said)).URL).Answer(context.Background(), hello, nil)
			if err != nil || !utf8.ValidString(a.Text()) || !strings.HasPrefix(a.Text(), "a") || !strings.HasSuffix(a.Text(), "b") {
				t.Errorf("%q: got %q, %v", bad, a.Text(), err)
			}
			said = strings.ReplaceAll(strings.Join(d.events(sampleAnswer{calls: []called{{"a", "w", []string{`{"path":"MARK"}`}}}, stop: d.stops[model.Calls]}), ""), "MARK", bad)
			a, err = open(t, d, startServer(t, answer(200, "text/event-stream", said)).URL).Answer(context.Background(), hello, nil)
			if err != nil || len(a.Calls()) != 1 || utf8.ValidString(a.Calls()[0].Args) {
				t.Errorf("%q: got %+v, %v", bad, a, err)
			}
		}
	})
}

// TestDuplicates: a server that sends every event twice does not make golem run a call with
// arguments that the model did not write.
func TestDuplicates(t *testing.T) {
	forEachVendor(t, func(t *testing.T, d dialect) {
		var twice []string
		for _, e := range d.events(sampleAnswer{text: []string{"Look."}, calls: []called{{"a", "w", []string{`{"path":`, `"/a"}`}}, {"b", "w", []string{`{}`}}}, stop: d.stops[model.Calls]}) {
			twice = append(twice, e, e)
		}
		a, err := open(t, d, startServer(t, stream(twice...)).URL).Answer(context.Background(), hello, nil)
		if err != nil {
			mustFail(t, err, model.Bad)
			return
		}
		for _, c := range a.Calls() {
			if json.Valid([]byte(c.Args)) && c.Args != `{"path":"/a"}` && c.Args != "{}" {
				t.Errorf("got %+v", c)
			}
		}
	})
}
