package shell

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// standIn is a service that runs nothing. A test ends it.
type standIn struct {
	printed []byte
	done    chan struct{}
	result  jail.Result
}

func (s *standIn) Output(offset, most int64) jail.Piece {
	total := int64(len(s.printed))
	if offset < 0 {
		offset = max(offset+total, 0)
	}
	offset = min(offset, total)
	return jail.Piece{From: offset, Text: s.printed[offset:min(offset+most, total)], Total: total}
}

func (s *standIn) Done() <-chan struct{}        { return s.done }
func (s *standIn) Result() (jail.Result, error) { return s.result, nil }
func (s *standIn) Stop()                        { s.end(jail.Result{Code: 143, Signal: "SIGTERM", Took: time.Second}) }
func (s *standIn) Kill()                        { s.Stop() }

func (s *standIn) end(r jail.Result) {
	select {
	case <-s.done:
	default:
		s.result = r
		close(s.done)
	}
}

// fakeServer is a Server that starts stand-ins.
type fakeServer struct {
	list    []*standIn
	command []jail.Command
	ends    *jail.Result // if set, services end at once with this result
}

func (h *fakeServer) Serve(_ *sandbox.Sandbox, c jail.Command, _ bool) (Service, error) {
	s := &standIn{done: make(chan struct{}), printed: []byte("begun\n")}
	if h.ends != nil {
		s.end(*h.ends)
	}
	h.list, h.command = append(h.list, s), append(h.command, c)
	return s, nil
}

// withServices returns a world in which services can run.
func withServices(t *testing.T, rules ...policy.Rule) (*world, *fakeServer) {
	t.Helper()
	w, h := newWorld(t, newMounts(), rules...), &fakeServer{}
	services := NewServices(h, func() time.Time { return time.Unix(100, 0) }, false)
	t.Cleanup(services.Close)
	services.early = time.Millisecond
	w.Tools = Set{Runner: w.runner, Place: NewPlace(Standing{Set: map[string]string{"A": "1"}}, nil), Services: services}.Tools()
	return w, h
}

func (w *world) call(t *testing.T, name string, args any) tool.Result {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return w.Do(t.Context(), policy.Model, tool.Call{Tool: name, Args: b})
}

func (w *world) text(t *testing.T, name string, args any) string {
	t.Helper()
	return w.call(t, name, args).String()
}

// TestServices checks that starting a service asks for approval as a command does, and
// that listing, reading and stopping it does not.
func TestServices(t *testing.T) {
	w, h := withServices(t)
	got := w.text(t, "service_start", startArgs{Command: "npm run dev", Name: "web"})
	if want := "web: running for 0.0 s; printed 6 bytes; continue with offset 6\nbegun\nnote: read-only for services: /out"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(w.asked.list) != 1 || formatEffects(w.asked.list[0].ToApprove) != "run npm run dev" {
		t.Errorf("asked %+v", w.asked.list)
	}
	if c := h.command[0]; c.Dir != "/out" || strings.Join(c.Env, " ") != "A=1" || c.Args[len(c.Args)-1] != "npm run dev" {
		t.Errorf("started %+v", c)
	}
	h.list[0].printed = []byte("begun\nä" + strings.Repeat("x", 10))
	for _, step := range []struct {
		tool string
		args any
		want string
	}{
		{"service_list", nil, "web: running for 0.0 s, 18 bytes printed; npm run dev"},
		{"service_output", outputArgs{Name: "web", Offset: 6}, "web: running for 0.0 s; printed 18 bytes, here 6 to 18; continue with offset 18\näxxxxxxxxxx"},
		{"service_output", outputArgs{Name: "web", Offset: 7}, "web: running for 0.0 s; printed 18 bytes, here 8 to 18; continue with offset 18\nxxxxxxxxxx"},
		{"service_output", outputArgs{Name: "web", Offset: 18}, "web: running for 0.0 s; printed 18 bytes; continue with offset 18"},
		{"service_output", nameArgs{Name: "web"}, "web: running for 0.0 s; printed 18 bytes; continue with offset 18\nbegun\näxxxxxxxxxx"},
		{"service_output", nameArgs{Name: "api"}, "Error: service_output api: not_found; there is web"},
		{"service_start", startArgs{Command: "x", Name: "web"}, "Error: service_start web: limit; a service with this name is running; choose another name, or call service_stop first"},
		{"service_start", startArgs{Command: "x", Name: "a b"}, "Error: service_start: invalid_args; name: letters, digits, dots, dashes and underscores, at most 32"},
		{"service_start", startArgs{Command: " "}, "Error: service_start: invalid_args; command: it is empty"},
		{"service_start", startArgs{Command: "x", Cwd: "/none"}, "Error: run /none: not_found; readable: /in, /out; the nearest: "},
		{"service_stop", nameArgs{Name: "web"}, "web: stopped after 1.0 s; printed 18 bytes\nbegun\näxxxxxxxxxx"},
		{"service_stop", nameArgs{Name: "web"}, "web: stopped after 1.0 s; printed 18 bytes\nbegun\näxxxxxxxxxx"},
		{"service_list", nil, "web: stopped after 1.0 s, 18 bytes printed; npm run dev"},
	} {
		if step.args == nil {
			step.args = noArgs{}
		}
		if got := w.text(t, step.tool, step.args); !strings.HasPrefix(got, strings.TrimSuffix(step.want, "readable: /in, /out; the nearest: ")) {
			t.Errorf("%s %+v:\ngot  %s\nwant %s", step.tool, step.args, got, step.want)
		}
	}
	if asked := len(w.asked.list); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestServiceEnds checks that the next result, of any tool, reports once that a service
// has ended.
func TestServiceEnds(t *testing.T) {
	w, h := withServices(t)
	w.call(t, "service_start", startArgs{Command: "/usr/bin/serve -p 8000"})
	w.call(t, "service_start", startArgs{Command: "serve"})
	h.list[0].end(jail.Result{Code: 1, Took: 2 * time.Second})
	const want = "service serve has ended: exit 1 after 2.0 s; service_output returns its output"
	if notes := strings.Join(w.run(t, args{Command: "x"}).Notes, "; "); !strings.Contains(notes, want) {
		t.Errorf("got %s", notes)
	}
	if notes := strings.Join(w.run(t, args{Command: "x"}).Notes, "; "); strings.Contains(notes, "service") {
		t.Errorf("again: %s", notes)
	}
	h.list[1].end(jail.Result{Code: 137, Signal: "SIGKILL", Hit: []jail.Limit{jail.MemoryLimit}})
	if got := w.text(t, "service_output", nameArgs{Name: "serve"}); !strings.HasSuffix(got, "note: service serve-2 has ended by SIGKILL after 0.0 s, at its limit of memory; service_output returns its output") {
		t.Errorf("got %s", got)
	}
	h.ends = &jail.Result{Code: 127}
	got := w.text(t, "service_start", startArgs{Command: "nosuch", Name: "serve"})
	if want := "serve: ended: exit 127 after 0.0 s; printed 6 bytes\nbegun\nnote: read-only for services: /out"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestServicesAreLimited checks the limits of running and of remembered services.
func TestServicesAreLimited(t *testing.T) {
	w, h := withServices(t)
	for i := range maxServices {
		if r := w.call(t, "service_start", startArgs{Command: "x", Name: fmt.Sprint("s", i)}); !r.OK() {
			t.Fatal(r.Err)
		}
	}
	r := w.call(t, "service_start", startArgs{Command: "x"})
	if r.OK() || r.Err.Code != sandbox.ErrLimit || !strings.Contains(r.Err.Hint, "call service_stop for one of s0, s1") {
		t.Errorf("got %v", r.Err)
	}
	h.ends = &jail.Result{}
	h.list[0].end(jail.Result{})
	for i := range 3 * maxKnown {
		if r := w.call(t, "service_start", startArgs{Command: "x", Name: fmt.Sprint("t", i)}); !r.OK() {
			t.Fatal(r.Err)
		}
	}
	list := w.call(t, "service_list", noArgs{}).Data.([]Served)
	if len(list) > maxKnown || list[0].Name != "s1" || !list[0].Running || list[len(list)-1].Name != fmt.Sprint("t", 3*maxKnown-1) {
		t.Errorf("%d services are listed: %+v", len(list), list)
	}
}

// TestServicesAreJudged checks that the rules for commands also decide about services.
func TestServicesAreJudged(t *testing.T) {
	w, h := withServices(t)
	rules := policy.Shell{}.With(policy.ShellLayer{NoDefault: true, Rules: []policy.ShellRule{
		{Pattern: "npm run", Approval: policy.PreApproved}, {Pattern: "rm", Approval: policy.Blocked, From: "w:1"}}})
	w.Tools = Set{Runner: w.runner, Rules: rules, Services: NewServices(h, time.Now, false)}.Tools()
	if r := w.call(t, "service_start", startArgs{Command: "npm run dev"}); !r.OK() || len(w.asked.list) != 0 {
		t.Errorf("allowed: %v, asked %d times", r.Err, len(w.asked.list))
	}
	if r := w.call(t, "service_start", startArgs{Command: "npm run dev; rm -r x"}); r.OK() || r.Err.Code != "blocked" || len(h.list) != 1 {
		t.Errorf("blocked: %v", r.Err)
	}
	if r := w.call(t, "service_start", startArgs{Command: "node server.js"}); !r.OK() || len(w.asked.list) != 1 {
		t.Errorf("other: %v, asked %d times", r.Err, len(w.asked.list))
	}
	w.runner.unable = &sandbox.Error{Op: "shell", Code: jail.ErrNoSandbox}
	if r := w.call(t, "service_start", startArgs{Command: "npm run dev"}); r.OK() || r.Err.Code != jail.ErrNoSandbox {
		t.Errorf("no sandbox: %v", r.Err)
	}
}

// TestNoServices checks that a golem that ends with the call refuses services before it
// asks for approval.
func TestNoServices(t *testing.T) {
	w, h := withServices(t)
	w.Tools = Set{Runner: w.runner, Services: NewServices(h, time.Now, true)}.Tools()
	for name, args := range map[string]any{"service_start": startArgs{Command: "x"}, "service_list": noArgs{}, "service_output": nameArgs{"x"}, "service_stop": nameArgs{"x"}} {
		if r := w.call(t, name, args); r.OK() || !strings.Contains(r.Err.Hint, "a service runs as long as the golem process that started it") {
			t.Errorf("%s: got %v", name, r.Err)
		}
	}
	if len(w.asked.list)+len(h.list) > 0 {
		t.Error("asked, or started")
	}
}
