package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// An agent is a foreign program that works with a language model.
type agent struct {
	name    string
	install string // the package name and version for npm
	always  bool   // installed wherever npm works; the others only with GOLEM_TEST_AGENTS=all
	args    []string
	net     []string // the flags for the network; the profile has the address of a server only from variables
	asks    bool     // as an agent of an editor it asks for permission itself
	env     func(url string) []string
	files   func(url string) map[string]string // files in the user's home directory
}

// agents returns the agents that TestAgents runs. It omits crush, because the npm package
// of crush only downloads the program from another site.
func agents() []agent {
	const task = "write the file and run the command"
	return []agent{
		{name: "claude", install: "@anthropic-ai/claude-code@2.1.197", always: true,
			args: []string{"-p", task, "--dangerously-skip-permissions"},
			env: func(url string) []string {
				return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=sk-ant-test"}
			}},
		{name: "codex", install: "@openai/codex@0.166.0", always: true, net: []string{"--net", "on"},
			args: []string{"exec", task},
			env:  func(string) []string { return []string{"OPENAI_API_KEY=sk-test"} },
			files: func(url string) map[string]string {
				return map[string]string{".codex/config.toml": fmt.Sprintf(`model = "gpt-5.5"
model_provider = "loop"
[model_providers.loop]
name = "loop"
base_url = "%s/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
`, url)}
			}},
		{name: "gemini", install: "@google/gemini-cli@0.61.0",
			args: []string{"--yolo", "--skip-trust", "-p", task},
			env:  func(url string) []string { return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=test"} },
			files: func(string) map[string]string {
				return map[string]string{".gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}}`}
			}},
		{name: "opencode", install: "opencode-ai@1.18.33", net: []string{"--net", "on"},
			args: []string{"run", task},
			files: func(url string) map[string]string {
				return map[string]string{".config/opencode/opencode.json": fmt.Sprintf(`{"model": "loop/test", "provider": {"loop": {"npm": "@ai-sdk/openai-compatible",
	"options": {"baseURL": "%s/v1", "apiKey": "test"}, "models": {"test": {"name": "test"}}}}}`, url)}
			}},
		{name: "qwen", install: "@qwen-code/qwen-code@0.15.10",
			args: []string{"--yolo", "-p", task},
			env: func(url string) []string {
				return []string{"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=test"}
			},
			files: func(string) map[string]string {
				return map[string]string{".qwen/settings.json": `{"security": {"auth": {"selectedType": "openai"}}}`}
			}},
		{name: "pi", install: "@mariozechner/pi-coding-agent@0.73.1", net: []string{"--net", "on"},
			args: []string{"-p", "--provider", "loop", "--model", "test", task},
			files: func(url string) map[string]string {
				return map[string]string{".pi/agent/models.json": fmt.Sprintf(`{"providers": {"loop": {"baseUrl": "%s/v1", "api": "openai-completions", "apiKey": "test",
	"models": [{"id": "test"}]}}}`, url)}
			}},
	}
}

// ownNetworkVariable is the environment variable that is set in the process with its own network.
const ownNetworkVariable = "GOLEM_TEST_AGENTS_INSIDE"

// TestAgents runs real agents under golem exec, with a modelServer as their language
// model. The agents complete their work as usual. Their changes stay in the session, and
// the repository and the home directory do not change. The address of the modelServer is
// on the host. Agents whose profile knows it reach only that, others share golem's network,
// which holds only the loopback interface.
func TestAgents(t *testing.T) {
	t.Parallel()
	cache := testutil.NPMCache(t)
	if os.Getenv(ownNetworkVariable) != "" {
		if err := loopbackUp(); err != nil {
			t.Fatal(err)
		}
		for _, a := range agents() {
			if bin := a.bin(cache); exists(filepath.Join(bin, a.name)) {
				t.Run(a.name, func(t *testing.T) { a.try(t, bin) })
			}
		}
		return
	}
	for _, a := range agents() {
		if a.always || os.Getenv("GOLEM_TEST_AGENTS") == "all" {
			testutil.NPM(t, a.cacheDir(), a.name, []string{a.install})
		}
	}
	runInOwnNetwork(t, "TestAgents")
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// cacheDir returns the name of the agent's directory in the cache.
func (a agent) cacheDir() string { return strings.ReplaceAll(a.install, "/", "-") }

func (a agent) bin(cache string) string {
	return filepath.Join(cache, a.cacheDir(), "node_modules", ".bin")
}

// runInOwnNetwork runs a test again, in a process with its own network namespace.
func runInOwnNetwork(t *testing.T, test string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+test+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), ownNetworkVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// loopbackUp brings up the only interface of a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// try runs an agent in a new repository and then applies its changes.
func (a agent) try(t *testing.T, bin string) {
	t.Parallel() // the agents spend more time waiting than working
	model := newModelServer(t)
	home, files, try := a.world(t, bin, model)
	run := func(program string, args ...string) (stdout, stderr string) {
		t.Helper()
		stdout, stderr, err := try(program, args...)
		if err != nil {
			t.Fatalf("%s %q: %v\n%s\n%s\nresults of calls: %q\nother requests: %q", program, args, err, stdout, stderr, model.lastResults(), model.strays)
		}
		return stdout, stderr
	}
	repository := filepath.Join(home, "repository")
	before := describeTree(t, home)

	stdout, stderr := run("golem", slices.Concat([]string{"exec"}, a.net, []string{"--", a.name}, a.args)...)
	if !strings.Contains(stdout, model.lastWords) {
		t.Errorf("the last answer of the model is missing:\n%s\n%s", stdout, stderr)
	}
	if results := model.lastResults(); len(results) != 2 || !strings.Contains(results[1], "the command ran") {
		t.Errorf("the model got results %q", results)
	}
	for name := range files {
		used := !strings.HasPrefix(name, ".ssh") && !strings.HasPrefix(name, "repository")
		if used && !strings.Contains(stderr, " ~/"+name) {
			t.Errorf("golem does not say that ~/%s is copied:\n%s", name, stderr)
		}
	}

	out, _ := run("golem", "changes", "--json")
	var list struct {
		Changes []struct{ Path, Operation, Protected string }
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []string
	for _, c := range list.Changes {
		if c.Protected == "" { // golem never applies changes to .git
			got = append(got, c.Operation+" "+c.Path)
		}
	}
	if want := []string{"create /both.txt", "create /made.txt", "delete /old.txt"}; !slices.Equal(got, want) {
		t.Errorf("golem changes: got %q, want %q\n%s", got, want, out)
	}
	if after := describeTree(t, home); after != before {
		t.Errorf("the home directory has changed:\n%s\nwant:\n%s", after, before)
	}

	run("golem", "tool", "apply_changes", "--approval", "approve_all")
	if data, err := os.ReadFile(filepath.Join(repository, "both.txt")); string(data) != model.content+"old\n" {
		t.Errorf("applied: got %q, %v", data, err)
	}
}

// world makes a home directory with a repository in it. try runs a program there.
func (a agent) world(t *testing.T, bin string, model *modelServer) (home string, files map[string]string, try func(program string, args ...string) (stdout, stderr string, err error)) {
	t.Helper()
	home, files, command := a.place(t, bin, model)
	try = func(program string, args ...string) (stdout, stderr string, err error) {
		t.Helper()
		var out, told strings.Builder
		cmd := command(program, args...)
		cmd.Stdout, cmd.Stderr = &out, &told
		err = cmd.Run()
		return out.String(), told.String(), err
	}
	return home, files, try
}

// place makes the same. command returns a command there.
func (a agent) place(t *testing.T, bin string, model *modelServer) (home string, files map[string]string, command func(program string, args ...string) *exec.Cmd) {
	t.Helper()
	top := t.TempDir()
	home = filepath.Join(top, "home")
	files = map[string]string{"repository/old.txt": "old\n", ".ssh/id_test": "a secret\n", ".gitconfig": "[user]\n\tname = Somebody\n\temail = somebody@example.com\n"}
	if a.files != nil {
		maps.Copy(files, a.files(model.url))
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
	env := []string{"HOME=" + home, "GOLEM_STATE=" + filepath.Join(top, "state"), "TERM=dumb", "PATH=" + bin + ":" + os.Getenv("PATH")}
	if a.env != nil {
		env = append(env, a.env(model.url)...)
	}
	command = func(program string, args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir, cmd.Env = filepath.Join(home, "repository"), env
		return cmd
	}
	for _, args := range [][]string{{"init", "-q", "."}, {"add", "."}, {"commit", "-qm", "first"}} {
		if out, err := command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	return home, files, command
}

// describeTree describes the files below a directory by name, mode, modification time and a
// hash of the content.
func describeTree(t *testing.T, top string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %v", name, info.Mode(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(data))
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
