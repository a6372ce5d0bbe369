package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/parcel"
	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/program"
)

// A site is a hub with nodes, all real processes, on this machine.
type site struct {
	t       testing.TB
	dir     string
	dataDir string // of the hub, if it is not data in dir
	listen  string
	hub     *process
	hubArgs []string
	others  []*process // the other hubs of a cluster
	nodes   map[string]*process
	reach   string // what the nodes let jobs reach
}

// A process is a command with its output in a file.
type process struct {
	*exec.Cmd
	log  string
	args []string
}

const deadline = 3 * time.Second

// newSite starts a hub.
func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), listen: freeAddresses(t, 1)[0], nodes: make(map[string]*process)}
	must(t, os.MkdirAll(filepath.Join(s.dir, "home"), 0o700))
	t.Cleanup(s.close)
	s.startHub()
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) data() string { return cmp.Or(s.dataDir, filepath.Join(s.dir, "data")) }

// start starts a process of this site.
func (s *site) start(name string, args ...string) *process {
	s.t.Helper()
	p := &process{exec.Command(args[0], args[1:]...), filepath.Join(s.dir, name+".log"), args}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(s.t, err)
	defer out.Close()
	p.Stdout, p.Stderr = out, out
	p.Env = append(os.Environ(), "HOME="+filepath.Join(s.dir, "home"), "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "GOLEM_STATE=")
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(s.t, p.Start())
	return p
}

// kill ends a process like kill -9.
func (p *process) kill() {
	p.Process.Kill()
	p.Wait()
}

func (s *site) startHub() {
	s.t.Helper()
	s.hub = s.start("hub", append([]string{"golem-hub", "--data", s.data(), "--listen", s.listen, "--deadline", deadline.String()}, s.hubArgs...)...)
	s.until("the hub starts", func() bool {
		c, err := net.Dial("tcp", s.listen)
		if err != nil {
			return false
		}
		c.Close()
		return fileExists(filepath.Join(s.data(), "admin.creds"))
	})
}

// freeAddresses returns addresses of this machine that nobody uses now.
func freeAddresses(t testing.TB, n int) (list []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list
}

// newCluster starts three hubs that are one. start starts the hub of a number again.
func newCluster(t testing.TB) (s *site, start func(i int)) {
	t.Helper()
	s = &site{t: t, dir: t.TempDir(), nodes: make(map[string]*process), others: make([]*process, 3)}
	must(t, os.MkdirAll(filepath.Join(s.dir, "home"), 0o700))
	t.Cleanup(s.close)
	at := freeAddresses(t, 6)
	data := func(i int) string { return filepath.Join(s.dir, []string{"data", "data1", "data2"}[i]) }
	start = func(i int) {
		t.Helper()
		routes := []string{}
		for other := range 3 {
			if other != i {
				routes = append(routes, at[3+other])
			}
		}
		s.others[i] = s.start(fmt.Sprint("hub", i), "golem-hub", "--data", data(i), "--name", fmt.Sprint("hub", i), "--listen", at[i], "--public", strings.Join(at[:3], ","),
			"--cluster", strings.Join(routes, ","), "--cluster-listen", at[3+i], "--deadline", deadline.String())
	}
	start(0)
	secret := filepath.Join(data(0), "hub.json")
	s.until("the first hub has a secret", func() bool { return fileExists(secret) })
	text, err := os.ReadFile(secret)
	must(t, err)
	for i := 1; i < 3; i++ {
		must(t, os.MkdirAll(data(i), 0o700))
		must(t, os.WriteFile(filepath.Join(data(i), "hub.json"), text, 0o600))
		start(i)
	}
	for i := range 3 {
		s.until("a hub of the cluster has started", func() bool { return fileExists(filepath.Join(data(i), "admin.creds")) })
	}
	return s, start
}

func fileExists(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Size() > 0
}

// until waits until a condition holds.
func (s *site) until(what string, is func() bool) {
	s.t.Helper()
	for range 3600 { // three minutes, because elections of a cluster take long on a busy machine
		if is() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatalf("waited in vain: %s\n%s", what, s.logs())
}

// stopHub stops the hub as an operator does.
func (s *site) stopHub() {
	s.t.Helper()
	must(s.t, s.hub.Process.Signal(syscall.SIGTERM))
	must(s.t, s.hub.Wait())
}

func (s *site) restartHub() {
	s.t.Helper()
	s.hub.kill()
	s.startHub()
}

// startNode starts a node with its own credentials and directory.
func (s *site) startNode(name string, args ...string) {
	s.t.Helper()
	s.startNodeIn(nil, name, args...)
}

// startNodeIn starts a node by a command, such as one that enters a namespace.
func (s *site) startNodeIn(command []string, name string, args ...string) {
	s.t.Helper()
	creds := filepath.Join(s.dir, name+".creds")
	if _, err := os.Stat(creds); err != nil {
		must(s.t, s.invite(hub.Node, name).Write(creds))
	}
	if s.reach != "" {
		args = append([]string{"--reach", s.reach}, args...)
	}
	s.nodes[name] = s.start(name, slices.Concat(command, []string{"golem", "node", "--creds", creds, "--dir", filepath.Join(s.dir, "node-"+name)}, args)...)
}

func (s *site) close() {
	for _, p := range s.nodes {
		p.kill()
	}
	for _, p := range append(s.others, s.hub) {
		if p != nil {
			p.kill()
		}
	}
	if s.t.Failed() {
		s.t.Log(s.logs())
	}
}

// logs returns the end of what the processes have printed.
func (s *site) logs() string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(s.dir, "*.log"))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		fmt.Fprintf(&all, "== %s\n%s\n", filepath.Base(file), data[max(0, len(data)-3000):])
	}
	return all.String()
}

// invite returns new credentials of a role.
func (s *site) invite(role hub.Role, name string) hub.Credentials {
	s.t.Helper()
	admin, err := hub.ReadCredentials(filepath.Join(s.data(), "admin.creds"))
	must(s.t, err)
	c := s.connect(admin)
	defer c.Close()
	seed, key, err := hub.NewSeed()
	must(s.t, err)
	must(s.t, c.Invite(s.t.Context(), hub.Invitation{Key: key, Role: role, Name: name}))
	admin.Role, admin.Name, admin.Seed = role, name, seed
	return admin
}

func (s *site) connect(c hub.Credentials) *hub.Client {
	s.t.Helper()
	client, err := hub.Connect(s.t.Context(), c, hub.Options{})
	must(s.t, err)
	return client
}

// client connects somebody new of a role.
func (s *site) client(role hub.Role, name string) *hub.Client {
	s.t.Helper()
	c := s.connect(s.invite(role, name))
	s.t.Cleanup(c.Close)
	return c
}

// golem runs golem in a directory with credentials, and returns what it prints.
func (s *site) golem(dir string, c *hub.Client, args ...string) (string, error) {
	s.t.Helper()
	creds := filepath.Join(s.dir, "of-"+c.Name+".creds")
	must(s.t, c.Credentials.Write(creds))
	cmd := exec.Command("golem", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(s.dir, "home"), "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "GOLEM_STATE=", "GOLEM_HUB="+creds)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mustGolem is golem for a command that must succeed and print a text.
func (s *site) mustGolem(dir string, c *hub.Client, want string, args ...string) string {
	s.t.Helper()
	out, err := s.golem(dir, c, args...)
	if err != nil || !strings.Contains(out, want) {
		s.t.Fatalf("golem %s: %v, want %q:\n%s", strings.Join(args, " "), err, want, out)
	}
	return out
}

// jobIn returns the id in what golem submit printed.
func jobIn(out string) string {
	_, id, _ := strings.Cut(out, "next: golem jobs logs -f ")
	id, _, _ = strings.Cut(id, "\n")
	return id
}

// A sink is a service outside of golem that counts what reaches it.
type sink struct {
	*httptest.Server
	mu    sync.Mutex
	count map[string]int
	slow  time.Duration
}

func newSink(t testing.TB) *sink {
	s := &sink{count: make(map[string]int)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		var body struct{ ID string }
		if err := json.Unmarshal(data, &body); err != nil {
			t.Errorf("the sink got %q", data)
		}
		s.mu.Lock()
		s.count[body.ID]++
		s.mu.Unlock()
		time.Sleep(s.slow)
	}))
	t.Cleanup(s.Close)
	return s
}

// arrived returns how many messages have arrived, each counted once.
func (s *sink) arrived() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.count)
}

func (s *sink) times(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[id]
}

// A work makes jobs that send one message to the sink, after an approval.
type work struct {
	*site
	maker     *hub.Client
	approvers []*hub.Client
	sink      *sink
	common    parcel.Tree
	trust     string
	script    string // of the model, instead of the usual one
}

func newWork(s *site, approvers int) *work {
	s.t.Helper()
	w := &work{site: s, maker: s.client(hub.Submit, "maker"), sink: newSink(s.t)}
	s.reach = w.sink.Listener.Addr().String()
	for i := range approvers {
		w.approvers = append(w.approvers, s.client(hub.Approve, fmt.Sprint("approver", i)))
	}
	dir := filepath.Join(s.dir, "program")
	must(s.t, os.MkdirAll(filepath.Join(dir, "out"), 0o700))
	must(s.t, os.WriteFile(filepath.Join(dir, "golem-forge.config.yaml"), []byte("sandbox:\n  mounts:\n    - {source: ./out, target: /out, mode: overlay}\n    - {source: ./in, target: /in, mode: ro}\nclearance:\n  endpoints:\n    sink: {url: "+w.sink.URL+", mode: both}\n"), 0o600))
	must(s.t, os.MkdirAll(filepath.Join(dir, "in"), 0o700))
	must(s.t, os.WriteFile(filepath.Join(dir, "main.worker"), []byte("---\nsandbox: inherit\ntoolsets: {filesystem: , clearance: }\n---\nWork.\n"), 0o600))
	must(s.t, os.WriteFile(filepath.Join(dir, "script.yaml"), []byte(`- calls: [{tool: write_file, args: {path: /out/note.md, content: "made\n"}}]
- calls: [{tool: api_send, args: {endpoint: sink, path: /in/body.json}}]
- text: sent
`), 0o600))
	p, err := program.Load(program.Options{Dir: dir, StateHome: s.dir, Now: time.Now})
	must(s.t, err)
	w.trust = p.Content.Hash
	reader := parcel.Reader{Put: func(ctx context.Context, hash string, size int64, content io.Reader) error {
		return w.maker.Put(ctx, hub.Part{Hash: hash, Size: size}, content)
	}}
	w.common, err = reader.Read(s.t.Context(), dir)
	must(s.t, err)
	return w
}

// submit makes a job that sends a message with its own id.
func (w *work) submit(id string) {
	w.t.Helper()
	signed, err := w.prepare(w.t.Context(), id, "")
	must(w.t, err)
	must(w.t, w.maker.Submit(w.t.Context(), signed))
}

// submitAll submits jobs while the hub may be away, one after the other.
func (w *work) submitAll(ctx context.Context, ids []string) error {
	for _, id := range ids {
		for {
			err := w.trySubmit(ctx, id)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s was not submitted: %w", id, err)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}

func (w *work) trySubmit(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	signed, err := w.prepare(ctx, id, "")
	if err != nil {
		return err
	}
	return w.maker.Submit(ctx, signed)
}

// prepare sends the files of a job, with more in one of them, and signs the job.
func (w *work) prepare(ctx context.Context, id, more string) (hub.Signed, error) {
	put := func(data []byte) (string, error) {
		sum := sha256.Sum256(data)
		hash := hex.EncodeToString(sum[:])
		return hash, w.maker.Put(ctx, hub.Part{Hash: hash, Size: int64(len(data))}, bytes.NewReader(data))
	}
	snapshot := job.Snapshot{}
	for _, e := range w.common {
		if snapshot.Program = append(snapshot.Program, e); e.Name != "in" {
			continue
		}
		for _, file := range []struct{ name, text string }{{"in/body.json", fmt.Sprintf(`{"id":%q}`, id)}, {"in/more.txt", more}, {"in/script.yaml", w.script}} {
			entry := parcel.Entry{Name: file.name, Kind: parcel.File, Mode: 0o600, Size: int64(len(file.text)), Modified: time.Unix(1, 0).UTC()}
			hash, err := put([]byte(file.text))
			if err != nil {
				return hub.Signed{}, err
			}
			entry.Hash = hash
			snapshot.Program = append(snapshot.Program, entry)
		}
	}
	text, err := json.Marshal(snapshot)
	if err != nil {
		return hub.Signed{}, err
	}
	spec := hub.Spec{ID: id, Hub: w.maker.Hub, User: w.maker.Key, Name: "sender", Trust: w.trust, Input: "send it", Model: "scripted:script.yaml"}
	if w.script != "" {
		spec.Model = "scripted:in/script.yaml"
	}
	if spec.Files, err = put(text); err != nil {
		return hub.Signed{}, err
	}
	for _, a := range w.approvers {
		spec.Approvers = append(spec.Approvers, a.Key)
	}
	return hub.SignSpec(w.maker.Credentials, spec)
}

// approve answers every call that waits, until ctx ends, as a person would who looks at it.
func (w *work) approve(ctx context.Context, a *hub.Client) {
	for ctx.Err() == nil {
		jobs, err := a.Jobs(ctx, hub.Filter{States: []hub.State{hub.Running, hub.Waiting}})
		if err != nil {
			continue
		}
		for _, j := range jobs {
			for _, r := range j.Requests {
				if r.Decided == nil && ctx.Err() == nil {
					if err := decide(ctx, a, j, r, true); err != nil && !hub.IsCode(err, hub.CodeDecided) && ctx.Err() == nil && !hub.IsCode(err, hub.CodeMissing) {
						w.t.Errorf("approve: %v", err)
					}
				}
			}
		}
		time.Sleep(time.Duration(20+rand.IntN(50)) * time.Millisecond)
	}
}

// decide signs an answer to a request after reading it.
func decide(ctx context.Context, a *hub.Client, j hub.Job, r hub.Request, yes bool) error {
	text, err := a.Get(ctx, hub.Part{Job: j.ID, Hash: r.Hash})
	if err != nil {
		return err
	}
	var request tool.Request
	if err := json.Unmarshal(text, &request); err != nil {
		return err
	}
	signed, err := hub.SignDecision(a.Credentials, hub.Decision{Hub: a.Hub, Job: j.ID, Request: r.ID, Hash: r.Hash, By: a.Key, Name: a.Name, Reply: hub.Reply{Yes: yes, Rendered: request.Items(), Front: "a test"}, Time: time.Now()})
	if err != nil {
		return err
	}
	return a.Decide(ctx, j.ID, signed)
}

// await waits until every job of the list is over or in doubt, and returns them.
func (w *work) await(ids []string, patience time.Duration) map[string]hub.Job {
	w.t.Helper()
	end := time.Now().Add(patience)
	found := make(map[string]hub.Job)
	for time.Now().Before(end) && !w.t.Failed() {
		for _, id := range ids {
			if _, ok := found[id]; ok {
				continue
			}
			ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
			j, err := w.maker.Job(ctx, id)
			cancel()
			if err != nil {
				continue // the hub is away for a moment
			}
			if j.State.IsOver() || j.State == hub.InDoubt {
				found[id] = j
			} else {
				break // the others are not sooner
			}
		}
		if len(found) == len(ids) {
			return found
		}
		time.Sleep(100 * time.Millisecond)
	}
	left := []string{}
	for _, id := range ids {
		if _, ok := found[id]; !ok && len(left) < 5 {
			j, err := w.maker.Job(w.t.Context(), id)
			left = append(left, fmt.Sprintf("%s: %s attempt %d turn %d node %.8s %v", id, j.State, j.Attempt, j.Turn, j.Node, err))
		}
	}
	w.t.Fatalf("%d of %d jobs are over; for example:\n%s", len(found), len(ids), strings.Join(left, "\n"))
	return nil
}
