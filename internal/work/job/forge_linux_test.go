package job_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/parcel"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
)

// forgedFiles are the files of the program in fuzz tests.
var forgedFiles = map[string]string{
	"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay, mounts: [{source: out, target: /out, mode: rw}]}\napproval: {mode: approve_all}\n",
	"main.worker":             "---\nsandbox: inherit\ntoolsets: {filesystem: {}, shell: {default: {approval: preApproved}}}\n---\nWork.\n",
	"a.txt":                   "a\n", "dir/b.txt": "b\n", "out/log.txt": "log\n",
}

// forgedCalls are the calls from which the first inputs come.
var forgedCalls = movingModel{
	{Tool: "shell", Args: `{"command":"echo more >> a.txt; rm dir/b.txt; mkdir dir/new; ln -s b link; rm -r dir; mkdir dir; echo c > dir/c; echo more > /out/new.txt"}`},
}

// textOf writes a tree as text for a fuzz test, which forge reads: for each entry its kind, name and
// target, and then its content.
func textOf(t testing.TB, tree parcel.Tree, s shelf, under string) string {
	t.Helper()
	var text strings.Builder
	for _, e := range tree {
		name, ok := strings.CutPrefix(e.Name, under)
		if !ok || e.Kind == parcel.Dir && len(e.Attributes) == 0 {
			continue
		}
		content := []byte(e.Target)
		if e.Kind == parcel.File && e.Size > 0 {
			var err error
			if content, err = os.ReadFile(filepath.Join(string(s), e.Hash)); err != nil {
				t.Fatal(err)
			}
		}
		text.WriteString("\n-- " + string(e.Kind) + " " + name + "\n" + string(content))
	}
	return text.String()
}

// contents are contents by their hashes.
type contents map[string][]byte

func (c contents) get(_ context.Context, hash string) (io.ReadCloser, error) {
	data, ok := c[hash]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// forge reads the tree of a text, with the directories above each entry. Its contents have
// their hashes, because every reader checks them.
func (c contents) forge(text, under string) (t parcel.Tree) {
	all := make(map[string]parcel.Entry)
	for part := range strings.SplitSeq(text, "\n-- ") {
		head, content, _ := strings.Cut(part, "\n")
		kind, name, _ := strings.Cut(head, " ")
		if name == "" {
			continue
		}
		name = path.Join(under, name)
		e := parcel.Entry{Name: name, Kind: parcel.Kind(kind)}
		switch e.Kind {
		case parcel.File:
			sum := sha256.Sum256([]byte(content))
			e.Hash, e.Size, e.Mode = hex.EncodeToString(sum[:]), int64(len(content)), 0o600
			c[e.Hash] = []byte(content)
		case parcel.Dir:
			e.Mode, e.Attributes = 0o700, map[string][]byte{parcel.Opaque: []byte("y"), parcel.Origin: {}}
		case parcel.Link:
			e.Target = content
		}
		all[name] = e
		for up := path.Dir(name); up != "." && up != "/"; up = path.Dir(up) {
			if all[up].Kind == "" {
				all[up] = parcel.Entry{Name: up, Kind: parcel.Dir, Mode: 0o700}
			}
		}
	}
	for _, e := range all {
		t = append(t, e)
	}
	slices.SortFunc(t, func(a, b parcel.Entry) int { return strings.Compare(a.Name, b.Name) })
	return t
}

// forgedJob makes a real run, from which the first inputs of the fuzz tests come.
func forgedJob(f *testing.F) (s shelf, hash string, begin, end job.Snapshot, session string) {
	f.Helper()
	s, hash = newJob(f, forgedFiles)
	begin, err := s.last()
	if err != nil {
		f.Fatal(err)
	}
	p, err := s.restore(filepath.Join(f.TempDir(), "job"), hash)
	if err != nil {
		f.Fatal(err)
	}
	// A file that is as new as the session may have changed after its start, so golem keeps no
	// content of it.
	time.Sleep(50 * time.Millisecond) // longer than a tick of the clock
	r, _, err := job.OpenRun(p, program.RunOptions{Model: forgedCalls, ModelName: "test"})
	if err != nil {
		f.Fatal(err)
	}
	o, err := r.Do(f.Context(), run.Input{Text: "go"})
	if err := errors.Join(err, r.Close()); err != nil || o.End != run.Finished {
		f.Fatalf("got %+v, %v", o, err)
	}
	shots, err := job.NewSnapshotter(p, s.put, nil)
	if err != nil {
		f.Fatal(err)
	}
	if end, err = shots.Take(f.Context()); err != nil {
		f.Fatal(err)
	}
	return s, hash, begin, end, r.ID
}

// seeds adds the real session, and forgeries of it that golem met before.
func seeds(f *testing.F, s shelf, end job.Snapshot, session string) (real string) {
	f.Helper()
	real = textOf(f, end.State, s, "sessions/"+session+"/")
	f.Add(real)
	for _, change := range [][2]string{
		{`"Path":"a.txt"`, `"Path":"../outside/mine.txt"`}, {`"Path":"a.txt"`, `"Path":"/etc/passwd"`}, {`"Path":"dir"`, `"Path":"."`}, {`"Size":`, `"Size":-`},
		{`"Content":1`, `"Content":-1`}, {`"Content":1`, `"Content":9223372036854775807`}, {"-- file 0/upper/a.txt", "-- link 0/upper/a.txt"}, {`"Targets":["/"`, `"Targets":["/","/","/out"`}, {`"Store":`, `"IsCopy":true,"Store":`},
	} {
		if !strings.Contains(real, change[0]) {
			f.Fatalf("the session has no %s: this forgery is the real session", change[0])
		}
		f.Add(strings.ReplaceAll(real, change[0], change[1]))
	}
	f.Add("\n-- file about.json\n{\"Layers\":[{}],\"Targets\":[\"/\"]}\n-- link 0/bases\n../../../../../outside/mine.txt")
	return real
}

// surroundings describes everything outside the directory in which golem may write.
func surroundings(t *testing.T, dir string) string {
	t.Helper()
	tree, err := (&parcel.Reader{}).Read(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// review reads all changes of all sessions, as golem diff does, and returns how many there are.
func review(t *testing.T, p *program.Program) (n int) {
	t.Helper()
	list, err := p.Storage.Sessions.List()
	if err != nil {
		return 0
	}
	for _, one := range list {
		k, err := p.Storage.Sessions.Open(one)
		if err != nil {
			continue
		}
		found, _, _ := k.Changes()
		for _, c := range found {
			if !filepath.IsLocal(c.Path) {
				t.Errorf("a change of %q", c.Path)
			}
		}
		n += len(found)
		k.Close()
	}
	return n
}

// FuzzReceive brings forged sessions of a node here. Nothing outside the session changes.
func FuzzReceive(f *testing.F) {
	s, _, begin, end, session := forgedJob(f)
	real := seeds(f, s, end, session)
	f.Fuzz(func(t *testing.T, text string) {
		above := t.TempDir()
		dir, outside := filepath.Join(above, "program"), filepath.Join(above, "outside")
		if err := errors.Join(parcel.Write(t.Context(), dir, begin.Program, parcel.Limits{}, s.get), os.Mkdir(outside, 0o700), os.WriteFile(filepath.Join(outside, "mine.txt"), []byte("mine\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		p, err := program.Load(program.Options{Dir: dir, State: filepath.Join(above, "state"), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		before := surroundings(t, dir) + surroundings(t, outside)
		c := contents{}
		r := job.Result{Source: "job x", Begin: begin, End: job.Snapshot{Program: end.Program, State: c.forge(text, "sessions/"+session)}}
		get := func(ctx context.Context, hash string) (io.ReadCloser, error) {
			if content, err := c.get(ctx, hash); err == nil {
				return content, nil
			}
			return s.get(ctx, hash)
		}
		_, _, err = job.Receive(t.Context(), p, r, get)
		if n := review(t, p); text == real && (err != nil || n < 4) {
			t.Fatalf("the real session: %d changes, %v", n, err)
		}
		if got := surroundings(t, dir) + surroundings(t, outside); got != before {
			t.Fatalf("got %s, want %s", got, before)
		}
	})
}

// FuzzRestore continues a job from a forged checkpoint, as a node does. Nothing outside the
// directory of the job changes.
func FuzzRestore(f *testing.F) {
	s, hash, begin, end, session := forgedJob(f)
	real := seeds(f, s, end, session)
	whole := textOf(f, end.State, s, "")
	f.Add(whole)
	f.Fuzz(func(t *testing.T, text string) {
		above := t.TempDir()
		outside := filepath.Join(above, "outside")
		if err := errors.Join(os.Mkdir(outside, 0o700), os.WriteFile(filepath.Join(outside, "mine.txt"), []byte("mine\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		before := surroundings(t, outside)
		c := contents{}
		under := "sessions/" + session
		if strings.Contains(text, " sessions/") {
			under = ""
		}
		forged := job.Snapshot{Program: begin.Program, State: c.forge(text, under)}
		get := func(ctx context.Context, hash string) (io.ReadCloser, error) {
			if content, err := c.get(ctx, hash); err == nil {
				return content, nil
			}
			return s.get(ctx, hash)
		}
		p, err := job.Restore(t.Context(), filepath.Join(above, "job"), program.Options{Trust: hash, Now: time.Now}, nil, forged, get)
		n := 0
		if err == nil {
			job.ForgetAnswers(p.Storage, nil)
			job.MarkTainted(p.Storage, "x")
			job.Waiting(p.Storage)
			n = review(t, p)
		}
		if (text == real || text == whole) && (err != nil || n < 4) {
			t.Fatalf("the real session: %d changes, %v", n, err)
		}
		if got := surroundings(t, outside); got != before {
			t.Fatalf("got %s, want %s", got, before)
		}
		if list, err := os.ReadDir(above); err != nil || len(list) > 2 {
			t.Fatalf("got %v, %v", list, err)
		}
	})
}
