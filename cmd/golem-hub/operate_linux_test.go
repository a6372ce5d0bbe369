package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/hub"
)

// TestBackup backs a hub up while jobs wait and run, as docs/hub.md says, and continues in a copy
// of its directory: nothing is lost or done twice. Then it restores the backup, which does not
// know what was done since. No job continues until a person says so.
func TestBackup(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	s.startNode("a", "--slots", "4", "--hold", "1s")
	var ids []string
	for i := range 6 {
		ids = append(ids, fmt.Sprintf("job%05d", i))
		w.submit(ids[i])
	}
	s.until("calls wait for approval", func() bool {
		list, err := w.maker.Jobs(t.Context(), hub.Filter{States: []hub.State{hub.Running, hub.Waiting}})
		return err == nil && len(list) >= 4
	})
	s.stopHub()
	backup, moved, restored := filepath.Join(s.dir, "backup"), filepath.Join(s.dir, "moved"), filepath.Join(s.dir, "restored")
	copyDir(t, s.data(), backup)
	must(t, os.Rename(s.data(), moved))

	s.dataDir = moved
	s.startHub()
	w.approving()
	w.check(w.await(ids, time.Minute))
	w.submit("job00010")
	w.await([]string{"job00010"}, time.Minute)

	s.hub.kill()
	must(t, os.RemoveAll(moved))
	copyDir(t, backup, restored)
	s.dataDir, s.hubArgs = restored, []string{"--restored"}
	s.startHub()
	time.Sleep(2 * deadline) // the node has time for mischief
	for id, j := range w.await(ids, time.Minute) {
		if j.State != hub.InDoubt || w.sink.times(id) != 1 {
			t.Errorf("job %s is %s, and its message arrived %d times; want it in doubt, and 1", id, j.State, w.sink.times(id))
		}
	}
	if _, err := w.maker.Job(t.Context(), "job00010"); !hub.IsCode(err, hub.CodeMissing) {
		t.Errorf("a job that the backup does not have: got %v", err)
	}
	golem := func(want string, args ...string) {
		t.Helper()
		if out, err := s.golem(s.dir, w.maker, args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("golem %s: %v, want %q:\n%s", strings.Join(args, " "), err, want, out)
		}
	}
	golem("the hub was restored from a backup", "jobs", "show", ids[0])
	golem("", "jobs", "cancel", ids[1])
	s.hubArgs = nil
	s.restartHub() // without --restored
	golem("", "jobs", "retry", ids[0])
	s.until("the job that a person continued is done", func() bool {
		j, err := w.maker.Job(t.Context(), ids[0])
		return err == nil && j.State == hub.Done
	})
	w.submit("job00011")
	w.check(w.await([]string{"job00011"}, time.Minute))
	for i, id := range ids {
		if n := w.sink.times(id); i > 0 && n != 1 {
			t.Errorf("the message of job %s arrived %d times", id, n)
		}
	}
}

// copyDir copies a directory as cp -a does.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// openRecorded starts a hub with the data of the first golem-hub that did jobs, which was recorded
// with four jobs: done, waiting, running on a node that was stopped, and queued.
func openRecorded(t *testing.T) (s *site, ids map[string]string) {
	t.Helper()
	s = &site{t: t, dir: t.TempDir(), listen: freeAddresses(t, 1)[0], nodes: make(map[string]*process)}
	must(t, os.MkdirAll(filepath.Join(s.dir, "home"), 0o700))
	t.Cleanup(s.close)
	out, err := exec.Command("tar", "-xzf", "testdata/first-version.tgz", "-C", s.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(s.dir, "jobs.json"))
	must(t, err)
	must(t, json.Unmarshal(data, &ids))
	for _, name := range []string{"submit", "approve", "node"} { // it listens somewhere else now
		c, err := hub.ReadCredentials(filepath.Join(s.dir, name+".creds"))
		must(t, err)
		c.URLs = []string{"nats://" + s.listen}
		must(t, c.Write(filepath.Join(s.dir, name+".creds")))
	}
	return s, ids
}

// TestUpgrade continues the jobs of an older golem-hub. One that waits has changes of an older
// golem, which this one refuses with a clear sentence.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	s, ids := openRecorded(t)
	s.startHub()
	client := func(name string) *hub.Client {
		c, err := hub.ReadCredentials(filepath.Join(s.dir, name+".creds"))
		must(t, err)
		made := s.connect(c)
		t.Cleanup(made.Close)
		return made
	}
	w := &work{site: s, maker: client("submit"), approvers: []*hub.Client{client("approve")}}
	w.approving()
	s.startNode("node", "--slots", "2")
	for _, state := range []string{"done", "queued", "running", "waiting"} {
		id := ids[state]
		j := w.await([]string{id}, time.Minute)[id]
		switch {
		case state == "waiting":
			if j.State != hub.Failed || !strings.Contains(j.Result.Why, "an older golem wrote its changes") || !strings.Contains(j.Result.Why, "submit the job again") {
				t.Errorf("the job that was waiting is %s: %s", j.State, j.Result.Why)
			}
		case j.State != hub.Done:
			t.Errorf("the job that was %s is %s: %s", state, j.State, j.Result.Why)
		}
		if text, err := w.maker.Get(t.Context(), hub.Part{Job: id, Hash: j.Checkpoint}); err != nil || len(text) == 0 {
			t.Errorf("the job that was %s has no checkpoint: %v", state, err)
		}
	}
}

// TestNewerData checks that a hub refuses the data of a newer one.
func TestNewerData(t *testing.T) {
	t.Parallel()
	s, _ := openRecorded(t)
	file := filepath.Join(s.data(), "hub.json")
	data, err := os.ReadFile(file)
	must(t, err)
	newer := strings.Replace(string(data), "{", `{"version":2,`, 1)
	must(t, os.WriteFile(file, []byte(newer), 0o600))
	out, err := exec.Command("golem-hub", "--data", s.data(), "--listen", s.listen).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the data is of a newer golem-hub (version 2, and this one reads up to 1); install the newer golem-hub again") {
		t.Errorf("got %v, %s", err, out)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != newer {
		t.Errorf("it changed the file: %s, %v", after, err)
	}
}

// TestSubmit checks that golem submit sends only what a job needs, and says so.
func TestSubmit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 0)
	s.startNode("a")
	dir := filepath.Join(s.dir, "program")
	const secret = "a secret beside the mounts"
	for name, text := range map[string]string{".git/config": secret, ".env": secret, "in/body.json": `{"id":"x"}`, "simple.yaml": "- calls: [{tool: list_files, args: {path: /in}}]\n- text: done\n"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := func(want string, args ...string) string { t.Helper(); return s.mustGolem(dir, w.maker, want, args...) }
	run("trusted", "trust", "--yes")
	out := run("golem: not sent, because no mount has it: .env, .git, script.yaml\n", "submit", ".", "go", "--model", "scripted:simple.yaml")
	if !strings.Contains(out, "golem: the job gets 4 files; sending 2 contents that the hub lacks (") {
		t.Errorf("got:\n%s", out)
	}
	run("golem: the job gets 4 files; the hub has them all\n", "submit", ".", "go", "--model", "scripted:simple.yaml")
	list, err := w.maker.Jobs(t.Context(), hub.Filter{})
	must(t, err)
	for _, j := range list {
		if done := w.await([]string{j.ID}, time.Minute)[j.ID]; done.State != hub.Done {
			t.Errorf("got %s: %s", done.State, done.Result.Why)
		}
		if _, err := w.maker.Get(t.Context(), hub.Part{Job: j.ID, Hash: hub.HashOf([]byte(secret))}); !hub.IsCode(err, hub.CodeMissing) {
			t.Errorf("the hub has the secret: %v", err)
		}
	}
	if _, err := w.maker.Get(t.Context(), hub.Part{Hash: hub.HashOf([]byte(secret))}); !hub.IsCode(err, hub.CodeMissing) {
		t.Errorf("the hub has the secret: %v", err)
	}
}

// TestRotateKeys replaces keys with the commands of docs/hub.md: of a submitter, a node that was
// stolen, and the administrator.
func TestRotateKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	admin := s.client(hub.Admin, "second")
	golem := func(want string, args ...string) string {
		t.Helper()
		out, err := s.golem(s.dir, admin, args...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("golem %s: %v, want %q:\n%s", strings.Join(args, " "), err, want, out)
		}
		return out
	}
	try := func(c hub.Credentials) error {
		made, err := hub.Connect(t.Context(), c, hub.Options{})
		if err == nil {
			made.Close()
		}
		return err
	}

	file := filepath.Join(s.dir, "new.creds")
	golem("", "hub", "invite", "--role", "submit", "--name", "maker", "--out", file)
	next, err := hub.ReadCredentials(file)
	must(t, err)
	golem(w.maker.Key[:8], "hub", "users")
	golem("", "hub", "revoke", w.maker.Key)
	if err := try(w.maker.Credentials); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("the old key: got %v", err)
	}
	must(t, try(next))

	// A stolen node: its key is revoked, and another node continues its job.
	old := w.maker
	w.maker = s.connect(next)
	t.Cleanup(w.maker.Close)
	sendAgain(t, w)
	s.startNode("stolen", "--hold", "1m")
	w.submit("job00001")
	s.until("the call waits on the node", func() bool {
		j, err := w.maker.Job(t.Context(), "job00001")
		return err == nil && len(j.Requests) == 1
	})
	golem("", "hub", "revoke", "stolen")
	s.startNode("other")
	w.approving()
	jobs := w.await([]string{"job00001"}, time.Minute)
	w.check(jobs)
	if j := jobs["job00001"]; j.State != hub.Done || j.Attempt != 2 {
		t.Errorf("got %s after attempt %d, want it done by the second", j.State, j.Attempt)
	}
	if _, err := old.Jobs(t.Context(), hub.Filter{}); err == nil {
		t.Error("a connection of a revoked key still works")
	}

	// The administrator's own file.
	first, err := hub.ReadCredentials(filepath.Join(s.data(), "admin.creds"))
	must(t, err)
	golem("", "hub", "revoke", "admin")
	if err := try(first); err == nil {
		t.Error("the revoked administrator connects")
	}
	must(t, os.Remove(filepath.Join(s.data(), "admin.creds")))
	s.restartHub()
	made, err := hub.ReadCredentials(filepath.Join(s.data(), "admin.creds"))
	must(t, err)
	if err := try(made); err != nil || made.Seed == first.Seed {
		t.Errorf("the new administrator: %v", err)
	}

	golem("", "hub", "revoke", "maker")
	if err := try(next); err == nil {
		t.Error("a name that was revoked connects with its new key")
	}
}

// sendAgain sends the files of the program with the key that the submitter has now.
func sendAgain(t *testing.T, w *work) {
	t.Helper()
	for _, e := range w.common {
		if e.Size == 0 {
			continue
		}
		f, err := os.Open(filepath.Join(w.dir, "program", e.Name))
		must(t, err)
		must(t, w.maker.Put(t.Context(), hub.Part{Hash: e.Hash, Size: e.Size}, f))
		f.Close()
	}
}

// TestEach submits a job for each file, for nodes with a label, and follows them with the commands
// of a submitter.
func TestEach(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 0)
	s.startNode("plain")
	dir := filepath.Join(s.dir, "program")
	for name, text := range map[string]string{"in/a.txt": "a\n", "in/b.txt": "b\n", "in/c.pdf": "%PDF-1.4\n", "simple.yaml": "- calls: [{tool: write_file, args: {path: /out/note.md, content: \"made\\n\"}}]\n- text: done\n"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := func(want string, args ...string) string { t.Helper(); return s.mustGolem(dir, w.maker, want, args...) }
	run("trusted", "trust", "--yes")
	run("next: golem jobs\n", "submit", ".", "Summarise it", "--label", "gpu", "--model", "scripted:simple.yaml", "--each", "in/a.txt", "in/b.txt", "in/c.pdf")
	list, err := w.maker.Jobs(t.Context(), hub.Filter{})
	must(t, err)
	ids := make(map[string]string)
	for _, listed := range list {
		j, err := w.maker.Job(t.Context(), listed.ID)
		must(t, err)
		spec, err := hub.OpenSpec(j.Spec)
		must(t, err)
		_, file, _ := strings.Cut(spec.Input, "Summarise it\n\nThe file: ")
		ids[file] = j.ID
		if isPDF := file == "/in/c.pdf"; isPDF != (len(spec.Attached) == 1 && spec.Attached[0] == "in/c.pdf") {
			t.Errorf("%s: attached %q", file, spec.Attached)
		}
	}
	a, b, c := ids["/in/a.txt"], ids["/in/b.txt"], ids["/in/c.pdf"]
	if len(list) != 3 || a == "" || b == "" || c == "" {
		t.Fatalf("got %d jobs: %v", len(list), ids)
	}
	time.Sleep(time.Second) // the node without the label has time for mischief
	run("it waits for a node that offers all its labels: golem node --label gpu", "jobs", "show", a)
	run("", "jobs", "cancel", b)
	run("", "jobs", "cancel", c)
	run("cancelled", "jobs", "show", b)
	run("", "jobs", "retry", b)
	s.startNode("gpu", "--label", "gpu,big")
	for _, id := range []string{a, b} {
		run("finished: done", "jobs", "logs", "-f", id)
	}
	if j := w.await([]string{a}, time.Minute)[a]; j.Attempt != 1 {
		t.Errorf("the job had %d attempts", j.Attempt)
	}
	run("job "+a+" is session", "status", "--hub")
	run("", "jobs", "rm", c)
	if out := run(a, "jobs"); strings.Contains(out, c) {
		t.Errorf("the removed job is listed:\n%s", out)
	}
}
