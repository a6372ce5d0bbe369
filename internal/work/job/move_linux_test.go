package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/parcel"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
)

// A shelf is a directory that all machines of a test share: contents by hash, the last
// snapshot of a run, and the calls that were claimed.
type shelf string

func (s shelf) put(_ context.Context, hash string, _ int64, content io.Reader) error {
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(string(s), hash), data, 0o600)
}

func (s shelf) get(_ context.Context, hash string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(s), hash))
}

func (s shelf) save(made job.Snapshot) error {
	data, err := json.Marshal(made)
	if err != nil {
		return err
	}
	next := filepath.Join(string(s), "next")
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(string(s), "snapshot"))
}

func (s shelf) last() (made job.Snapshot, err error) {
	data, err := os.ReadFile(filepath.Join(string(s), "snapshot"))
	if err == nil {
		err = json.Unmarshal(data, &made)
	}
	return made, err
}

// claim reserves a call for an attempt. Nobody claims a call twice.
func (s shelf) claim(call string) error {
	f, err := os.OpenFile(filepath.Join(string(s), "claim "+strings.ReplaceAll(call, "/", "_")), os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return run.ErrInDoubt
	}
	f.Close()
	return err
}

// movingModel makes one call in each answer, whatever the results are, and ends with all
// results.
type movingModel []model.Call

func (m movingModel) Answer(_ context.Context, r model.Request, _ func(model.Piece)) (model.Answer, error) {
	at := len(r.Messages) / 2
	if at < len(m) {
		c := m[at]
		c.ID = fmt.Sprint("c", at)
		return model.Answer{Stop: model.Calls, Parts: []model.Part{{Call: &c}}}, nil
	}
	var texts []string
	for _, message := range r.Messages {
		for _, p := range message.Parts {
			if p.Result != nil {
				texts = append(texts, p.Result.Text)
			}
		}
	}
	return model.Answer{Stop: model.Done, Parts: []model.Part{{Text: strings.Join(texts, "\n")}}}, nil
}

// The calls of the run: 1.1 to 4.1. The third needs an approval.
var movingCalls = movingModel{
	{Tool: "write_file", Args: `{"path":"/new.txt","content":"new\n"}`},
	{Tool: "shell", Args: `{"command":"rm old.txt && rm -r dir && mkdir dir && echo fresh > dir/fresh && ln -sf there link && echo more >> log.txt && echo more >> big.bin && chmod 755 run.sh && mkdir empty && export WORD=kept && cd dir && echo hello > ~/note"}`},
	{Tool: "delete_file", Args: `{"path":"/asked.txt"}`},
	{Tool: "shell", Args: `{"command":"pwd; echo $WORD; cat ~/note; echo last >> ../log.txt"}`},
}

// movedFiles are the files of the program.
var movedFiles = map[string]string{
	"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay, approval: {delete: ask}}\n",
	"main.worker":             "---\nsandbox: inherit\ntoolsets: {filesystem: {}, shell: {default: {approval: preApproved}}}\n---\nWork.\n",
	"old.txt":                 "old\n", "dir/a": "a\n", "dir/b/c": "c\n", "log.txt": "log\n", "run.sh": "#!/bin/sh\n", "asked.txt": "asked\n", "same.txt": "same\n",
	"big.bin": strings.Repeat("large ", 1<<19), // golem does not keep its content
}

// movedChanges are the changes of all calls.
var movedChanges = []string{"asked.txt delete", "big.bin change", "dir/a delete", "dir/b delete", "dir/fresh create", "empty create", "link change", "log.txt change", "new.txt create", "old.txt delete", "run.sh mode"}

// newMovingJob makes the first snapshot: a program without state.
func newMovingJob(t *testing.T) (s shelf, hash string) {
	t.Helper()
	return newJob(t, movedFiles)
}

func newJob(t testing.TB, files map[string]string) (s shelf, hash string) {
	t.Helper()
	s = shelf(t.TempDir())
	dir := filepath.Join(t.TempDir(), "made")
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("here", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	tree, err := (&parcel.Reader{Put: s.put}).Read(t.Context(), dir)
	if err == nil {
		err = s.save(job.Snapshot{Program: tree})
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Load(program.Options{Dir: dir, State: t.TempDir(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s, p.Content.Hash
}

// restore makes a job in a new directory, from the last snapshot.
func (s shelf) restore(dir, hash string) (*program.Program, error) {
	made, err := s.last()
	if err != nil {
		return nil, err
	}
	return job.Restore(context.Background(), dir, program.Options{Trust: hash, Now: time.Now}, nil, made, s.get)
}

const (
	movingVariable = "GOLEM_TEST_MOVE"      // the shelf, the directory of the job, the hash
	movingKill     = "GOLEM_TEST_MOVE_KILL" // where the process kills itself
)

// TestMovingGolem is a machine that continues the run.
func TestMovingGolem(t *testing.T) {
	words := strings.Split(os.Getenv(movingVariable), "\x1f")
	if len(words) != 3 {
		return
	}
	points := map[string]int{}
	kill := func(point string) {
		points[point]++
		if os.Getenv(movingKill) == fmt.Sprintf("%s %d", point, points[point]) {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	s := shelf(words[0])
	p, err := s.restore(words[1], words[2])
	if err != nil {
		t.Fatal(err)
	}
	shots, err := job.NewSnapshotter(p, s.put, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, resumed, err := job.OpenRun(p, program.RunOptions{Model: movingCalls, ModelName: "test", Claim: func(_ context.Context, call, _ string) error {
		kill("before claim")
		err := s.claim(call)
		kill("after claim")
		return err
	}, Checkpoint: func(ctx context.Context) error {
		kill("before checkpoint")
		made, err := shots.Take(ctx)
		if err == nil {
			err = s.save(made)
		}
		kill("after checkpoint")
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	in := run.Input{Text: "go"}
	if resumed {
		in = run.Input{}
	}
	o, err := r.Do(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("outcome: %s\n", data)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// startMoving starts a machine that continues the run in a new directory.
func startMoving(t *testing.T, s shelf, hash, point string) (dir string, o run.Outcome, killed bool) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "job")
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestMovingGolem$")
	cmd.Env = append(os.Environ(), movingVariable+"="+strings.Join([]string{string(s), dir, hash}, "\x1f"), movingKill+"="+point)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.Sys().(interface{ Signaled() bool }).Signaled() {
		return dir, o, true
	}
	_, text, ok := strings.Cut(string(out), "outcome: ")
	if err != nil || !ok {
		t.Fatalf("%v: %s", err, out)
	}
	text, _, _ = strings.Cut(text, "\n")
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return dir, o, false
}

// reviewMoved returns the changes of the only session of a program. A conflict is an error.
func reviewMoved(t *testing.T, p *program.Program) (changes []string) {
	t.Helper()
	list, err := p.Storage.Sessions.List()
	if err != nil || len(list) != 1 {
		t.Fatalf("%d sessions, %v", len(list), err)
	}
	k, err := p.Storage.Sessions.Open(list[0])
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	found, _, err := k.Changes()
	if err != nil || len(k.OtherTargets()) > 0 {
		t.Fatal(err, k.OtherTargets())
	}
	for _, c := range found {
		if c.Conflict {
			t.Errorf("%s is a conflict", c.Name())
		}
		changes = append(changes, c.Path+" "+string(c.Op))
	}
	slices.Sort(changes)
	return changes
}

// checkMoved checks the journal of a program, and that golem knows where it is.
func checkMoved(t *testing.T, p *program.Program) {
	t.Helper()
	folder, err := p.Storage.OpenJournal()
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if report, err := audit.Verify(t.Context(), folder, nil); err != nil || report.Bad != nil || report.Records == 0 {
		t.Errorf("the journal: %+v, %v", report, err)
	}
	if data, err := os.ReadFile(filepath.Join(string(p.Storage.Dir()), "state.json")); err != nil || !strings.Contains(string(data), string(p.Root())) {
		t.Errorf("the state is described as %s, %v", data, err)
	}
}

// saveSnapshot saves a snapshot of a program on a shelf.
func saveSnapshot(t *testing.T, s shelf, p *program.Program) {
	t.Helper()
	shots, err := job.NewSnapshotter(p, s.put, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := shots.Take(t.Context())
	if err == nil {
		err = s.save(made)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// answerMoved answers the only waiting request, as somebody elsewhere.
func answerMoved(t *testing.T, p *program.Program) {
	t.Helper()
	waiting, err := job.Waiting(p.Storage)
	if err != nil || len(waiting) != 1 || waiting[0].Request.Digest != waiting[0].Digest || len(waiting[0].Request.Items()) == 0 {
		t.Fatalf("got %+v, %v", waiting, err)
	}
	data, err := json.Marshal(waiting)
	var sent []job.WaitingRequest
	if err == nil {
		err = json.Unmarshal(data, &sent)
	}
	if err != nil {
		t.Fatal(err)
	}
	reply := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Rendered: sent[0].Request.Items()}
	if err := job.Answer(p.Storage, waiting[0].ID, "approver A by the hub", reply, nil); err != nil {
		t.Fatal(err)
	}
	if err := job.Answer(p.Storage, waiting[0].ID, "approver B by the hub", reply, nil); err == nil {
		t.Error("a second answer counts")
	}
}

// TestRunMoves continues a run on another machine for each part of it. The run is killed at
// every claim and every checkpoint. No call is made twice, and all changes of finished calls
// are there.
func TestRunMoves(t *testing.T) {
	type point struct {
		part  int // before or after the approval
		place string
	}
	points := []point{{0, "nowhere"}}
	for part, checkpoints := range []int{6, 4} {
		for _, when := range []string{"before", "after"} {
			for i := range 2 {
				points = append(points, point{part + 1, fmt.Sprintf("%s claim %d", when, i+1)})
			}
			for i := range checkpoints {
				points = append(points, point{part + 1, fmt.Sprintf("%s checkpoint %d", when, i+1)})
			}
		}
	}
	for at, point := range points {
		t.Run(fmt.Sprintf("%d %s", point.part, point.place), func(t *testing.T) {
			t.Parallel()
			part := 1
			start := func(t *testing.T, s shelf, hash string, kills int) (string, run.Outcome, bool) {
				place := ""
				if kills == 0 && part == point.part {
					place = point.place
				}
				return startMoving(t, s, hash, place)
			}
			s, hash := newMovingJob(t)
			kills := 0
			dir, o, killed := start(t, s, hash, 0)
			for range 6 {
				if killed {
					kills++
				} else if o.End == run.Finished {
					break
				}
				if !killed && o.End == run.Paused {
					part = 2
					// The answer is given where the run was, or after the move.
					p, err := job.Open(dir, program.Options{Trust: hash, Now: time.Now}, nil)
					if at%2 == 0 {
						p, err = s.restore(filepath.Join(t.TempDir(), "answered"), hash)
					}
					if err != nil {
						t.Fatal(err)
					}
					answerMoved(t, p)
					saveSnapshot(t, s, p)
				}
				dir, o, killed = start(t, s, hash, kills)
			}
			if o.End != run.Finished {
				t.Fatalf("got %+v", o)
			}
			if point.part > 0 && kills != 1 {
				t.Errorf("killed %d times", kills)
			}
			p, err := job.Open(dir, program.Options{Trust: hash, Now: time.Now}, nil)
			if err != nil {
				t.Fatal(err)
			}
			checkMoved(t, p)
			got := reviewMoved(t, p)
			again, err := s.restore(filepath.Join(t.TempDir(), "review"), hash)
			if err != nil {
				t.Fatal(err)
			}
			if moved := reviewMoved(t, again); !slices.Equal(moved, got) {
				t.Errorf("after another move: %q, want %q", moved, got)
			}
			checkMoved(t, again)
			// A call is in doubt if the machine died after the claim and before the next
			// checkpoint, which is the one after its result.
			doubt := strings.HasPrefix(point.place, "after claim")
			switch fmt.Sprint(point.part, " ", point.place) {
			case "1 before checkpoint 2", "1 before checkpoint 4", "2 before checkpoint 1", "2 before checkpoint 3":
				doubt = true
			}
			if strings.Contains(o.Text, "does not know whether it was done") != doubt {
				t.Errorf("in doubt: %v, got %s", doubt, o.Text)
			}
			if doubt {
				return // the changes of that call are not there
			}
			if !slices.Equal(got, movedChanges) {
				t.Errorf("got %q, want %q", got, movedChanges)
			}
			if !strings.Contains(o.Text, "/dir") || !strings.Contains(o.Text, "kept\nhello") {
				t.Errorf("the directory, variables and home are not kept: %s", o.Text)
			}
			changes, err := p.Storage.Sessions.List()
			if err != nil {
				t.Fatal(err)
			}
			log, err := os.ReadFile(filepath.Join(string(p.Storage.Dir()), "sessions", changes[0].ID, "0", "upper", "log.txt"))
			if err != nil || string(log) != "log\nmore\nlast\n" {
				t.Errorf("got %q, %v", log, err)
			}
		})
	}
}

// TestCopyMoves: a session on copies moves like one on overlays. A file of the copy that the
// session has not changed is not a change afterwards, even if the program changes it.
func TestCopyMoves(t *testing.T) {
	s, hash := newMovingJob(t)
	p, err := s.restore(filepath.Join(t.TempDir(), "first"), hash)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := job.OpenRun(p, program.RunOptions{WorkerOptions: program.WorkerOptions{Copy: true}, Model: movingCalls[:2], ModelName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.Do(t.Context(), run.Input{Text: "go"}); err != nil || o.End != run.Finished {
		t.Fatalf("got %+v, %v", o, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	want := reviewMoved(t, p)
	if len(want) < 10 {
		t.Fatalf("got %q", want)
	}
	saveSnapshot(t, s, p)
	moved, err := s.restore(filepath.Join(t.TempDir(), "second"), hash)
	if err != nil {
		t.Fatal(err)
	}
	if got := reviewMoved(t, moved); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := os.WriteFile(filepath.Join(string(moved.Root()), "same.txt"), []byte("changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := reviewMoved(t, moved); !slices.Equal(got, want) {
		t.Errorf("after a change of the program: got %q, want %q", got, want)
	}
}

// TestHostileSnapshot: nothing in a snapshot makes golem work outside the directory of the
// job.
func TestHostileSnapshot(t *testing.T) {
	s, hash := newMovingJob(t)
	p, err := s.restore(filepath.Join(t.TempDir(), "first"), hash)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := job.OpenRun(p, program.RunOptions{Model: movingCalls[:2], ModelName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Do(t.Context(), run.Input{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	shots, err := job.NewSnapshotter(p, s.put, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := shots.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.MkdirAll(filepath.Join(outside, "upper"), 0o700); err != nil {
		t.Fatal(err)
	}
	in := "sessions/" + r.ID
	link := func(name string) job.Snapshot {
		return job.Snapshot{Program: made.Program, State: append(slices.DeleteFunc(slices.Clone(made.State), func(e parcel.Entry) bool { return e.Name == name || strings.HasPrefix(e.Name, name+"/") }),
			parcel.Entry{Name: name, Kind: parcel.Link, Target: outside})}
	}
	extra := func(name string) job.Snapshot {
		return job.Snapshot{Program: made.Program, State: append(slices.Clone(made.State), parcel.Entry{Name: name, Kind: parcel.Dir, Mode: 0o700})}
	}
	for name, one := range map[string]job.Snapshot{
		"the session":         link(in),
		"the overlay":         link(in + "/0"),
		"the changes":         link(in + "/0/upper"),
		"the work directory":  link(in + "/0/work"),
		"the mount point":     link(in + "/0/mount"),
		"an owner":            link(in + "/owners"),
		"the sessions":        link("sessions"),
		"the journal":         link("journal.key"),
		"changes to apply":    extra("layers"),
		"changes to undo":     extra("undo"),
		"another program":     {Program: append(slices.Clone(made.Program), parcel.Entry{Name: "zz.worker", Kind: parcel.Link, Target: "main.worker"}), State: made.State},
		"a program elsewhere": {Program: parcel.Tree{{Name: "golem-forge.config.yaml", Kind: parcel.Link, Target: filepath.Join(string(p.Root()), "golem-forge.config.yaml")}}, State: made.State},
	} {
		slices.SortFunc(one.State, func(a, b parcel.Entry) int { return strings.Compare(a.Name, b.Name) })
		if _, err := job.Restore(t.Context(), filepath.Join(t.TempDir(), "job"), program.Options{Trust: hash, Now: time.Now}, nil, one, s.get); err == nil {
			t.Errorf("%s: it was restored", name)
		}
	}

	// A machine that dropped the mark of untrusted input cannot hide what the hub knows.
	clean := job.Snapshot{Program: made.Program, State: slices.DeleteFunc(slices.Clone(made.State), func(e parcel.Entry) bool { return e.Name == in+"/untrusted" })}
	tainted, err := job.Restore(t.Context(), filepath.Join(t.TempDir(), "job"), program.Options{Trust: hash, Now: time.Now}, nil, clean, s.get)
	if err != nil {
		t.Fatal(err)
	}
	if err := job.MarkTainted(tainted.Storage, "/in"); err != nil || job.Taint(tainted.Storage) != "/in" {
		t.Errorf("got %q, %v", job.Taint(tainted.Storage), err)
	}

	// The paths of overlays are not those that a snapshot names.
	about := fmt.Sprintf(`{"Layers":[{"Dir":%q,"Store":%q}],"Targets":["/"]}`, outside, outside)
	lie := job.Snapshot{Program: made.Program, State: slices.Clone(made.State)}
	for i, e := range lie.State {
		if e.Name == in+"/about.json" {
			tree, err := (&parcel.Reader{Put: s.put}).Read(t.Context(), writeAbout(t, about))
			if err != nil {
				t.Fatal(err)
			}
			lie.State[i].Hash, lie.State[i].Size = tree[0].Hash, tree[0].Size
		}
	}
	moved, err := job.Restore(t.Context(), filepath.Join(t.TempDir(), "job"), program.Options{Trust: hash, Now: time.Now}, nil, lie, s.get)
	if err != nil {
		t.Fatal(err)
	}
	if got := reviewMoved(t, moved); len(got) < 10 {
		t.Errorf("got %q", got)
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
		t.Errorf("outside: %v, %v", list, err)
	}
}

// TestMountsMoveInside: no symlink in the files of a program lets a mount leave them, also if
// the directory of the mount does not exist yet.
func TestMountsMoveInside(t *testing.T) {
	outside := t.TempDir()
	if err := os.Mkdir(filepath.Join(outside, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	for source, target := range map[string]string{"data/there": outside, "data/new": outside, "data/a/b": outside, "data": filepath.Join(outside, "new"), "data/in": ""} {
		s, hash := newJob(t, map[string]string{"golem-forge.config.yaml": "sandbox: {root: ., mounts: [{source: " + source + ", target: /m, mode: rw}]}\n", "main.worker": "---\nsandbox: inherit\n---\nWork.\n"})
		made, err := s.last()
		if err != nil {
			t.Fatal(err)
		}
		if target != "" {
			made.Program = append(slices.DeleteFunc(made.Program, func(e parcel.Entry) bool { return strings.HasPrefix(e.Name+"/", "data/") }), parcel.Entry{Name: "data", Kind: parcel.Link, Target: target})
			slices.SortFunc(made.Program, func(a, b parcel.Entry) int { return strings.Compare(a.Name, b.Name) })
		}
		_, err = job.Restore(t.Context(), filepath.Join(t.TempDir(), "job"), program.Options{Trust: hash, Now: time.Now}, nil, made, s.get)
		if (err == nil) != (target == "") {
			t.Errorf("%s with data → %s: got %v", source, target, err)
		}
		if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
			t.Errorf("outside: %v, %v", list, err)
		}
	}
}

func writeAbout(t *testing.T, text string) (dir string) {
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "about.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPolicyMoves: approvals are bound to a program wherever it is. A mount outside the
// program is another one in another place, and such a program cannot move.
func TestPolicyMoves(t *testing.T) {
	policyOf := func(config string) string {
		dir := filepath.Join(t.TempDir(), "program")
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "in"), 0o755), os.Mkdir(filepath.Join(dir, "../near"), 0o755),
			os.WriteFile(filepath.Join(dir, "golem-forge.config.yaml"), []byte(config), 0o644)); err != nil {
			t.Fatal(err)
		}
		p, err := program.Load(program.Options{Dir: dir, State: t.TempDir(), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := job.NewSnapshotter(p, nil, nil); (err != nil) != strings.Contains(config, "near") {
			t.Errorf("%s: %v", config, err)
		}
		records, err := p.Storage.OpenRecords()
		if err != nil {
			t.Fatal(err)
		}
		defer records.Close()
		return records.Policy
	}
	const inside, outside = "sandbox: {root: ., mode: overlay, mounts: [{source: in, target: /in}]}\n", "sandbox: {root: ., mode: overlay, mounts: [{source: ../near, target: /in}]}\n"
	if one, other := policyOf(inside), policyOf(inside); one != other {
		t.Error("the policy depends on the directory of the program")
	}
	if one, other := policyOf(outside), policyOf(outside); one == other {
		t.Error("the policy does not depend on a directory outside the program")
	}
}

// openMoving restores the last snapshot and opens its run, which saves snapshots and notes
// its claims.
func openMoving(t *testing.T, s shelf, hash string, m model.Model, claims *[]string) (*program.Program, *program.Run, bool) {
	t.Helper()
	p, err := s.restore(filepath.Join(t.TempDir(), "job"), hash)
	if err != nil {
		t.Fatal(err)
	}
	shots, err := job.NewSnapshotter(p, s.put, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, resumed, err := job.OpenRun(p, program.RunOptions{Model: m, ModelName: "test",
		Claim: func(_ context.Context, call, _ string) error { *claims = append(*claims, call); return s.claim(call) },
		Checkpoint: func(ctx context.Context) error {
			made, err := shots.Take(ctx)
			if err == nil {
				err = s.save(made)
			}
			return err
		}})
	if err != nil {
		t.Fatal(err)
	}
	return p, r, resumed
}

// TestPausedCommandMoves: a command whose changes waited for an approval begins again on
// another machine, with another claim. An answer that came with the state can be forgotten.
func TestPausedCommandMoves(t *testing.T) {
	files := map[string]string{
		"golem-forge.config.yaml": "sandbox: {mounts: [{source: out, target: /out, mode: rw}], approval: {write: ask}}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets: {filesystem: {}, shell: {default: {approval: preApproved}}}\n---\nWork.\n",
		"out/log.txt":             "log\n",
	}
	s, hash := newJob(t, files)
	m := movingModel{{Tool: "shell", Args: `{"command":"echo more >> /out/log.txt"}`}}
	var claims []string
	_, r, _ := openMoving(t, s, hash, m, &claims)
	if o, err := r.Do(t.Context(), run.Input{Text: "go"}); err != nil || o.End != run.Paused {
		t.Fatalf("got %+v, %v", o, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := s.restore(filepath.Join(t.TempDir(), "forgets"), hash)
	if err != nil {
		t.Fatal(err)
	}
	answerMoved(t, p)
	if waiting, err := job.Waiting(p.Storage); err != nil || len(waiting) != 0 {
		t.Errorf("got %+v, %v", waiting, err)
	}
	if err := job.ForgetAnswers(p.Storage, nil); err != nil {
		t.Fatal(err)
	}
	answerMoved(t, p)
	saveSnapshot(t, s, p)
	p, r, resumed := openMoving(t, s, hash, m, &claims)
	defer r.Close()
	if o, err := r.Do(t.Context(), run.Input{}); err != nil || o.End != run.Finished || !resumed {
		t.Fatalf("got %+v, %v", o, err)
	}
	if log, err := os.ReadFile(filepath.Join(string(p.Root()), "out", "log.txt")); err != nil || string(log) != "log\nmore\n" {
		t.Errorf("got %q, %v", log, err)
	}
	if !slices.Equal(claims, []string{"1.1", "1.1+1"}) {
		t.Errorf("claims: %q", claims)
	}
}
