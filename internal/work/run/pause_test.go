package run_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/sandbox"
)

// A test starts this binary again as a process that makes a run and may kill itself.
const (
	pauseDir  = "GOLEM_TEST_PAUSE_DIR"
	pauseKill = "GOLEM_TEST_PAUSE_KILL" // where the process kills itself; "" for nowhere
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(pauseDir); dir != "" {
		os.Exit(pauseProcess(dir))
	}
	os.Exit(m.Run())
}

// killAt kills this process if it is to be killed at a point.
func killAt(point string) {
	if os.Getenv(pauseKill) == point {
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
		select {}
	}
}

// A killingApprover kills the process after an answer.
type killingApprover struct{ tool.Keeper }

func (a killingApprover) Approve(ctx context.Context, r tool.Request) tool.Answer {
	killAt("before the answer is looked for")
	answer := a.Keeper.Approve(ctx, r)
	if answer.Verdict == tool.Undecided {
		killAt("before the pause is written")
	} else {
		killAt("after the answer was used")
	}
	return answer
}

// A killingJournal kills the process around its records.
type killingJournal struct{ tool.Journal }

func (j killingJournal) Write(r audit.Record, wait audit.Wait) error {
	killAt("before " + string(r.Kind))
	err := j.Journal.Write(r, wait)
	killAt("after " + string(r.Kind))
	return err
}

// appender is a tool that asks, and appends a line to a file of the host.
func appender(file string) tool.Tool {
	type args struct {
		Line string `json:"line"`
	}
	return tool.New(tool.Tool{Name: "append", Toolset: "test", Mode: policy.Both, ChangesState: true}, func(_ context.Context, _ tool.Names, a args) (tool.Plan, error) {
		return tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
			return tool.NewPreparation(func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
				killAt("before the effect")
				f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
				if err != nil {
					return tool.Result{}, err
				}
				fmt.Fprintln(f, a.Line)
				if err := f.Close(); err != nil {
					return tool.Result{}, err
				}
				killAt("after the effect")
				return tool.Result{Text: "appended " + a.Line}, nil
			}), nil
		}, policy.Effect{Verb: policy.Use, Target: "append"}), nil
	})
}

// pauseProcess runs or resumes a run whose model makes one call that asks, and prints the
// outcome.
func pauseProcess(dir string) int {
	fail := func(err error) int {
		fmt.Println(err)
		return 2
	}
	folder, err := state.Open(dir)
	if err != nil {
		return fail(err)
	}
	store, err := approval.Open(folder)
	if err != nil {
		return fail(err)
	}
	log, err := run.OpenLog(folder, true, time.Now)
	if err != nil {
		return fail(err)
	}
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite}}})
	if err != nil {
		return fail(err)
	}
	journal, err := audit.Open(folder, audit.Options{Now: time.Now, Session: "test"})
	if err != nil {
		return fail(err)
	}
	m := player(func(r model.Request) (model.Answer, error) {
		last := r.Messages[len(r.Messages)-1].Parts[0]
		if last.Result == nil {
			return newCallAnswer("c1", "append", `{"line":"effect"}`), nil
		}
		return newTextAnswer("the call said: " + last.Result.Text), nil
	})
	grant := policy.Grant{Files: policy.AllFiles(), Tools: policy.All(), Approvals: policy.Approvals{}.With(policy.Rule{Verb: policy.Use, Target: "append", Approval: policy.Ask})}
	w := &run.Worker{Name: "main", Model: m, ModelName: "test", Gate: tool.Gate{Tools: []tool.Tool{appender(filepath.Join(dir, "effects"))}, Grant: grant, Files: files, Workers: []string{"main"},
		Approver: killingApprover{&approval.Approver{Store: store, Policy: "p", Session: "s", Now: time.Now}}, Journal: killingJournal{journal}}}
	r := &run.Run{ID: "s", Policy: "p", Log: log, Now: time.Now, Budget: run.NewBudget(policy.Limits{}, func(string, model.Usage) (float64, bool) { return 0, true }, time.Now())}
	in := run.Input{Text: "go"}
	if log.Began() != "" {
		in = run.Input{}
	}
	o, err := r.Do(context.Background(), w, in)
	if err != nil {
		return fail(err)
	}
	killAt("at the end")
	journal.Close()
	fmt.Println(string(o.End)+":", o.Text, strings.Join(o.Pending, " "))
	return 0
}

// TestPauseKilled kills a run that pauses and resumes at every point. Its call has its
// effect at most once, and exactly once if the call had not begun.
func TestPauseKilled(t *testing.T) {
	for _, test := range []struct {
		point   string
		begun   bool // the call may have had an effect, so it is not made again
		effects int
	}{
		{"", false, 1},
		{"before the answer is looked for", false, 1},
		{"before the pause is written", false, 1},
		{"at the end", false, 1}, // between the pause and the resume, and after all of it
		{"after the answer was used", false, 1},
		{"before refusal", false, 1},
		{"after refusal", false, 1},
		{"before intent", true, 0},
		{"after intent", true, 0},
		{"before the effect", true, 0},
		{"after the effect", true, 1},
		{"before outcome", true, 1},
		{"after outcome", true, 1},
	} {
		t.Run(test.point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			folder, err := state.Open(dir)
			must(t, err)
			defer folder.Close()
			store, err := approval.Open(folder)
			must(t, err)
			start := func(point string) (out string, killed bool) {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), pauseDir+"="+dir, pauseKill+"="+point)
				text, err := cmd.Output()
				if err != nil && cmd.ProcessState.ExitCode() != -1 {
					t.Fatalf("%v: %s", err, text)
				}
				return string(text), err != nil
			}
			kills, out := 0, ""
			for range 8 {
				if kills < 2 {
					if _, killed := start(test.point); killed {
						kills++
					}
				}
				out, _ = start("")
				if strings.HasPrefix(out, "finished") {
					break
				}
				pending, err := store.Pending()
				must(t, err)
				for _, w := range pending {
					if w.Answer == nil {
						must(t, store.Answer(w.ID, approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, DigestPrefix: w.Digest}, time.Now()))
					}
				}
			}
			if kills == 0 && test.point != "" {
				t.Fatal("the process was never killed")
			}
			if unknown := strings.Contains(out, "does not know whether it was done"); !strings.HasPrefix(out, "finished") || unknown != test.begun {
				t.Errorf("got %q", out)
			}
			data, err := os.ReadFile(filepath.Join(dir, "effects"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if got := strings.Count(string(data), "effect\n"); got != test.effects {
				t.Errorf("%d effects, want %d", got, test.effects)
			}
		})
	}
}
