package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestTelemetry runs an example with a collector of OpenTelemetry on this machine. Without
// the variables golem sends nothing. A collector that fails or hangs changes nothing about
// the run.
func TestTelemetry(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	mode := "works"
	ended := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		is := mode
		if is == "works" {
			bodies = append(bodies, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("X-Key")+"\n"+string(body))
		}
		mu.Unlock()
		switch is {
		case "fails":
			http.Error(w, "no", http.StatusInternalServerError)
		case "redirects":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		case "hangs":
			<-ended
		}
	}))
	defer collector.Close()
	defer close(ended)
	dir, golem := example(t, "orchestrator")
	if out, err := golem("trust", "--yes").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(env ...string) (string, time.Duration) {
		t.Helper()
		cmd := golem("run", ".", "Report on the bridge", "--model", "scripted:demo.yaml")
		cmd.Env = append(cmd.Env, env...)
		began := time.Now()
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "check finds it right") {
			t.Errorf("%v: %v\n%s", env, err, out)
		}
		return string(out), time.Since(began)
	}
	if run(); len(bodies) > 0 {
		t.Errorf("sent without being asked: %s", bodies)
	}
	endpoint := "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL
	run(endpoint, "OTEL_EXPORTER_OTLP_HEADERS=X-Key=sesame", "OTEL_SERVICE_NAME=checks")
	mu.Lock()
	if len(bodies) == 0 {
		t.Fatal("nothing was sent")
	}
	count := map[string]int{}
	for _, text := range bodies {
		head, body, _ := strings.Cut(text, "\n")
		if head != "POST /v1/traces application/json sesame" {
			t.Errorf("got %s", head)
		}
		var sent struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes []struct{ Key string } }
				ScopeSpans []struct {
					Spans []struct {
						Name                               string
						StartTimeUnixNano, EndTimeUnixNano string
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatal(err)
		}
		for _, s := range sent.ResourceSpans[0].ScopeSpans[0].Spans {
			kind, _, _ := strings.Cut(s.Name, " ")
			count[kind]++
			if s.StartTimeUnixNano == "" || s.EndTimeUnixNano < s.StartTimeUnixNano {
				t.Errorf("times of %+v", s)
			}
		}
		for _, content := range []string{"bridge", "/in", dir, "demo.yaml", "sesame"} {
			if strings.Contains(body, content) {
				t.Errorf("the spans have %s: %s", content, body)
			}
		}
		if !strings.Contains(body, `{"stringValue":"checks"}`) {
			t.Errorf("no name of the service: %s", body)
		}
	}
	if count["invoke_agent"] != 4 || count["chat"] != 10 || count["execute_tool"] != 8 {
		t.Errorf("got %v", count)
	}
	mu.Unlock()
	if out, err := golem("audit", "show", "--net").CombinedOutput(); err != nil || !strings.Contains(string(out), "telemetry") {
		t.Errorf("the journal has no request: %v\n%s", err, out)
	}
	for is, want := range map[string]string{"fails": "22 spans not sent: ", "redirects": "22 spans not sent: ", "hangs": "22 spans not sent: "} {
		mu.Lock()
		mode = is
		mu.Unlock()
		if out, took := run(endpoint); !strings.Contains(out, want) || took > 20*time.Second {
			t.Errorf("%s: %v\n%s", is, took, out)
		}
	}
	if out, _ := run("OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:1", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"); !strings.Contains(out, "golem sends http/json only") {
		t.Errorf("got %s", out)
	}
}
