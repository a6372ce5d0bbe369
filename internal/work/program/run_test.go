package program

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/scripted"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
)

// seen is a model that keeps its requests.
type seen struct {
	model.Model
	mu       sync.Mutex
	requests []model.Request
}

func (s *seen) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	return s.Model.Answer(ctx, r, tell)
}

// runScript runs a program of these files with a script, and returns the results of the tools,
// one per line. It passes events to tell.
func runScript(t *testing.T, files map[string]string, script string, asker approval.Asker, tell ...func(run.Event)) (said string, asked *seen, o run.Outcome) {
	t.Helper()
	options := writeProgram(t, files)
	p := loadProgram(t, options)
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	m, err := scripted.New("demo.yaml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	asked = &seen{Model: m}
	var b strings.Builder
	r, err := p.OpenRun(RunOptions{WorkerOptions: WorkerOptions{Session: session.New, Asker: asker}, Model: asked, ModelName: "scripted:demo.yaml", OnEvent: func(e run.Event) {
		for _, one := range tell {
			one(e)
		}
		if e.Type == run.ToolResult {
			fmt.Fprintf(&b, "%s %s: %s\n", strings.Join(e.Chain, ">"), e.Tool, strings.Join(strings.Fields(e.Text), " "))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if o, err = r.Do(t.Context(), run.Input{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	return b.String(), asked, o
}

type fixedAsker func(tool.Request) approval.Reply

func (s fixedAsker) Ask(_ context.Context, r tool.Request) approval.Reply { return s(r) }

// TestRunChild: a child has only the permissions that both its own file and its caller
// have. This holds for file tools, for commands and for the list of tools for its model.
func TestRunChild(t *testing.T) {
	var chains []string
	said, asked, o := runScript(t, map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./data, target: /data, mode: ro}\n    - {source: ./work, target: /work1, approval: {write: ask}}\n    - {source: ./out, target: /out, approval: {write: preApproved}}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  filesystem:\n  shell: {default: {approval: preApproved}}\n  workers: {allowed_workers: [child]}\n---\nWork.\n",
		"child.worker":            "---\ndescription: Works.\nsandbox:\n  zones:\n    - {name: data, mode: ro}\n    - {name: work1, approval: {write: preApproved}}\ntoolsets:\n  filesystem:\n  shell: {default: {approval: preApproved}}\n---\nWork.\n",
		"data/x":                  "data\n", "work/x": "work\n", "out/x": "out\n",
	}, `
main:
  - calls: [{tool: child, args: {input: go}}]
  - calls: [{tool: child, args: {input: go, restrict: /data}}]
  - text: done
child:
  - calls:
      - {tool: shell, args: {command: "cat /data/x /out/x; touch /data/y; ls /"}}
      - {tool: write_file, args: {path: /work1/new, content: x}}
      - {tool: apply_changes, args: {}}
      - {tool: child, args: {input: again}}
  - text: first
  - calls:
      - {tool: read_file, args: {path: /work1/x}}
      - {tool: shell, args: {command: "cat /data/x; ls /work1"}}
  - text: second
`, fixedAsker(func(r tool.Request) approval.Reply {
		chains = append(chains, strings.Join(r.Workers, ">")+" "+r.Tool)
		return approval.Reply{}
	}))
	if !o.OK() {
		t.Errorf("%+v\n%s", o, said)
	}
	for _, want := range []string{
		"main>child shell: exit 2", "data", "cat: /out/x: No such file or directory", "touch: cannot touch '/data/y': Read-only file system",
		"main>child apply_changes: Error: apply_changes: manual_only", "main>child child: Error: call child: unknown_tool",
		"main>child read_file: Error: read /work1/x: not_found", "ls: cannot access '/work1'",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	// The caller needs approval, so the child needs it too, although its own file does
	// not ask.
	if len(chains) != 1 || chains[0] != "main>child write_file" {
		t.Errorf("asked about %q", chains)
	}
	for _, r := range asked.requests {
		for _, offered := range r.Tools {
			switch offered.Name {
			case "apply_changes", "undo", "discard_changes":
				t.Errorf("%s is offered %s", r.Worker, offered.Name)
			}
		}
		for _, text := range []string{r.System, fmt.Sprint(r.Messages)} {
			if strings.Contains(text, t.TempDir()[:8]) {
				t.Errorf("a path of the host reached the model: %s", text)
			}
		}
	}
}

// TestRunCallSandbox: a caller restricts a worker with sandbox: {restrict, readonly} or
// with the same keys next to input. The restriction holds for the workers below, too, and
// nobody can name files that the caller does not have.
func TestRunCallSandbox(t *testing.T) {
	said, _, o := runScript(t, map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./data, target: /data}\n    - {source: ./work, target: /work1}\napproval: {mode: approve_all}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  filesystem:\n  workers: {allowed_workers: [child, below]}\n---\nWork.\n",
		"child.worker":            "---\ndescription: Works.\nsandbox: inherit\ntoolsets:\n  filesystem:\n  workers: {allowed_workers: [below]}\n---\nWork.\n",
		"below.worker":            "---\ndescription: Works.\nsandbox: inherit\ntoolsets: [filesystem]\n---\nWork.\n",
		"data/in/x":               "data\n", "data/y": "y\n", "work/x": "work\n",
	}, `
main:
  - calls:
      - {tool: child, args: {input: go, sandbox: {restrict: /data/in, readonly: true}}}
      - {tool: child, args: {input: a, sandbox: {restrict: /nowhere}}}
      - {tool: child, args: {input: b, sandbox: {restrict: /data}, restrict: /work1}}
      - {tool: child, args: {input: c, sandbox: {restrict: ../data}}}
      - {tool: child, args: {input: d, sandbox: {restrict: /data, mode: rw}}}
      - {tool: below, args: {input: go, restrict: /data, sandbox: {restrict: /data, readonly: true}}}
  - text: done
child:
  - calls:
      - {tool: read_file, args: {path: /data/in/x}}
      - {tool: read_file, args: {path: /data/y}}
      - {tool: write_file, args: {path: /data/in/x, content: x}}
      - {tool: below, args: {input: e, sandbox: {restrict: /work1}}}
      - {tool: below, args: {input: f, sandbox: {restrict: /data/out}}}
      - {tool: below, args: {input: go, sandbox: {restrict: /data, readonly: false}}}
  - text: done
below:
  - calls:
      - {tool: read_file, args: {path: /data/in/x}}
      - {tool: read_file, args: {path: /data/y}}
      - {tool: write_file, args: {path: /data/in/x, content: x}}
  - text: done
  - calls:
      - {tool: read_file, args: {path: /data/y}}
      - {tool: write_file, args: {path: /data/y, content: x}}
      - {tool: read_file, args: {path: /work1/x}}
  - text: done
`, nil)
	if !o.OK() {
		t.Errorf("%+v\n%s", o, said)
	}
	for _, want := range []string{
		"main>child read_file: /data/in/x", "main>child read_file: Error: read /data/y: not_found", "main>child write_file: Error: write /data/in/x: read_only",
		"main child: Error: call /nowhere: exceeds_parent; restrict names files that you do not have; you have: /data, /work1",
		"main child: Error: call: invalid_args; restrict and sandbox.restrict name two directories",
		"main child: Error: call ../data: invalid", "main child: Error: child: invalid_args; unknown argument sandbox.mode",
		"main>child below: Error: call /work1: exceeds_parent; restrict names files that you do not have; you have: /data/in", "main>child below: Error: call /data/out: exceeds_parent",
		"main>child>below read_file: /data/in/x", "main>child>below read_file: Error: read /data/y: not_found", "main>child>below write_file: Error: write /data/in/x: read_only",
		"main>below read_file: /data/y", "main>below write_file: Error: write /data/y: read_only", "main>below read_file: Error: read /work1/x: not_found",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
}

// TestRunDepth: the depth counts per chain of calls, even with many calls at once.
func TestRunDepth(t *testing.T) {
	files := map[string]string{"golem-forge.config.yaml": "delegation: {maxDepth: 2}\n"}
	script := "main:\n  - calls:\n"
	for range 50 {
		script += "      - {tool: a, args: {input: x}}\n"
	}
	script += "  - text: done\n"
	for _, w := range []struct{ name, calls string }{{"main", "a, b, c"}, {"a", "b, c"}, {"b", "c"}, {"c", ""}} {
		toolsets := ""
		if w.calls != "" {
			toolsets = "toolsets: {workers: {allowed_workers: [" + w.calls + "]}}\n"
		}
		files[w.name+".worker"] = "---\ndescription: Works.\n" + toolsets + "---\nWork.\n"
	}
	script += "a:\n  each:\n    - calls: [{tool: b, args: {input: x}}]\n    - text: done\nb:\n  each:\n    - calls: [{tool: c, args: {input: x}}]\n    - text: done\n"
	said, _, o := runScript(t, files, script, nil)
	if !o.OK() || strings.Count(said, "main>a>b c: Error: call c: depth; workers may call each other at most 2 deep") != 50 || strings.Count(said, "main a: done") != 50 {
		t.Errorf("%+v\n%s", o, said)
	}
}

// TestRunPreamble: an error of a child names no path of the host. A proposal stays as it
// was proposed. An infinite schema fails before it is used.
func TestRunPreamble(t *testing.T) {
	files := map[string]string{"main.worker": "---\ntoolsets: {workers: {allowed_workers: [\"*\"]}}\n---\nWork.\n",
		"a.worker": "---\ndescription: x\n---\nWork.\n", "b.worker": "---\ndescription: x\ncompatible_models: [\"openai:*\"]\n---\nWork.\n",
		"c.worker": "---\ndescription: x\noutput_schema: {$ref: \"#\"}\n---\nWork.\n"}
	options := writeProgram(t, files)
	p := loadProgram(t, options)
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	script := options.Dir + "/demo.yaml"
	m, err := scripted.New(script, []byte(`
main:
  - calls:
      - {tool: a, args: {input: x}}
      - {tool: b, args: {input: x}}
      - {tool: c, args: {input: x}}
      - {tool: worker_create, args: {name: new, description: x, instructions: first}}
  - calls: [{tool: worker_create, args: {name: new, description: x, instructions: second}}]
  - text: done
a: [{expect: never, text: x}]
c: [{text: "1"}]
`))
	if err != nil {
		t.Fatal(err)
	}
	asked := &seen{Model: m}
	r, err := p.OpenRun(RunOptions{WorkerOptions: WorkerOptions{Session: session.New, Asker: fixedAsker(func(r tool.Request) approval.Reply {
		return approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, Rendered: r.Items()}
	})}, Model: asked, ModelName: "scripted:" + script})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Do(t.Context(), run.Input{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for _, m := range asked.requests[len(asked.requests)-1].Messages {
		for _, part := range m.Parts {
			if part.Result != nil {
				told.WriteString(part.Result.Text + "\n")
			}
		}
	}
	for _, want := range []string{"its model did not answer (bad)", "written for openai:*, and the model is scripted:demo.yaml", "output_schema: # refers to itself without end", "proposed already"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("no %q in\n%s", want, told.String())
		}
	}
	if strings.Contains(told.String(), options.Dir) {
		t.Errorf("a path of the host reached the model:\n%s", told.String())
	}
	if w, err := r.Gate.Session.Proposal("new"); err != nil || !strings.Contains(w.Content, "first") {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestWorkersAtOnce: workers that only read, or write to different directories, work at
// once. Those that share a directory work one after the other.
func TestWorkersAtOnce(t *testing.T) {
	files := func(mode string) map[string]string {
		return map[string]string{
			"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./data, target: /data, mode: " + mode + ", approval: {write: preApproved}}\n",
			"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  filesystem:\n  workers: {allowed_workers: [child]}\n---\nWork.\n",
			"child.worker":            "---\ndescription: Works.\nsandbox: inherit\ntoolsets:\n  filesystem:\n---\nWork.\n",
			"data/a/x":                "a\n", "data/b/x": "b\n",
		}
	}
	for _, test := range []struct {
		name, mode, first, second string
		atOnce                    bool
	}{
		{"only read", "ro", "{input: one}", "{input: two}", true},
		{"asked to read only", "rw", "{input: one, readonly: true}", "{input: two, readonly: true}", true},
		{"different directories", "rw", "{input: one, restrict: /data/a}", "{input: two, restrict: /data/b}", true},
		{"the same directory", "rw", "{input: one}", "{input: two}", false},
		{"one reads what the other writes", "rw", "{input: one, readonly: true}", "{input: two, restrict: /data/b}", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var events []run.Event
			_, _, o := runScript(t, files(test.mode), "main:\n  - calls: [{tool: child, args: "+test.first+"}, {tool: child, args: "+test.second+"}]\n  - text: done\n"+
				"child:\n  each:\n    - {wait: 1s, text: ok}\n", nil, func(e run.Event) { events = append(events, e) })
			if !o.OK() {
				t.Fatalf("%+v", o)
			}
			started, atOnce := 0, false
			for _, e := range events {
				switch e.Type {
				case run.Started:
					started++
				case run.ToolResult:
					atOnce = atOnce || started == 2
					started = 0
				}
			}
			if atOnce != test.atOnce {
				t.Errorf("at once: %v, want %v", atOnce, test.atOnce)
			}
		})
	}
}
