package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A packageServer is an Internet with package registries: files by their URLs.
type packageServer struct {
	files map[string]string

	mu       sync.Mutex
	requests []string
}

func (s *packageServer) answer(w http.ResponseWriter, scheme, host string, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+scheme+"://"+host+r.URL.Path)
	s.mu.Unlock()
	content, ok := s.files[scheme+"://"+host+r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/") {
		w.Header().Set("Content-Type", "text/html")
	}
	w.Write([]byte(content))
}

// run returns the output of a command and its error.
func (s *packageServer) run(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// start makes the server the user's proxy, and returns the environment of a user and an
// empty directory.
func (s *packageServer) start(t *testing.T) (env []string, dir string) {
	t.Helper()
	top := t.TempDir()
	dir = filepath.Join(top, "work")
	proxy, authority, end, err := serveInternet(s.answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	trusted := filepath.Join(top, "authority.pem")
	for _, err := range []error{os.Mkdir(dir, 0o755), os.Mkdir(filepath.Join(top, "home"), 0o755), os.WriteFile(trusted, authority, 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return []string{"HOME=" + filepath.Join(top, "home"), "GOLEM_STATE=" + filepath.Join(top, "state"), "PATH=" + os.Getenv("PATH"), "HTTPS_PROXY=" + proxy, "HTTP_PROXY=" + proxy,
		"SSL_CERT_FILE=" + trusted}, dir
}

// check checks that the server got requests, all of them reads from the hosts.
func (s *packageServer) check(t *testing.T, hosts ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if !slices.ContainsFunc(hosts, func(h string) bool { return strings.HasPrefix(r, "GET https://"+h+"/") }) {
			t.Errorf("a server got %s", r)
		}
	}
	if len(s.requests) == 0 {
		t.Error("no server got a request")
	}
	s.requests = nil
}

func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// packTar returns an archive with names and contents.
func packTar(t *testing.T, files [][2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	archive := tar.NewWriter(gz)
	for _, f := range files {
		if err := archive.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(archive, f[1])
	}
	for _, end := range []func() error{archive.Close, gz.Close} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// packZip returns an archive with names and contents.
func packZip(t *testing.T, files [][2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		w, err := z.Create(f[0])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, f[1])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// recipe returns the lines of the first sh block below a heading of docs/agents.md.
func recipe(t *testing.T, heading string) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n### "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n### ")
	_, block, has := strings.Cut(section, "\n```sh\n")
	if block, _, _ = strings.Cut(block, "\n```"); !ok || !has || !strings.HasPrefix(block, "golem exec ") || !strings.Contains(block, "\n") {
		t.Fatalf("docs/agents.md: below %q is no recipe of two lines: %q", heading, block)
	}
	return strings.Split(block, "\n")
}

// TestNpmRecipe installs a package with npm as the guide says, with the registry of the
// user's settings. The only write that passes is npm's question about known problems.
func TestNpmRecipe(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("npm", "--version").CombinedOutput(); err != nil {
		t.Skipf("npm does not work here: %v\n%s", err, out)
	}
	archive := packTar(t, [][2]string{{"package/package.json", `{"name": "hello", "version": "1.0.0", "main": "index.js"}`}, {"package/index.js", "module.exports = 'hello from the registry'\n"}})
	sum := sha512.Sum512(archive)
	integrity := "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	const file, audit = "https://npm.example.com/hello/-/hello-1.0.0.tgz", "POST https://npm.example.com/-/npm/v1/security/"
	s := &packageServer{files: map[string]string{file: string(archive)}}
	env, dir := s.start(t)
	writeAll(t, dir, map[string]string{"package.json": `{"name": "mine", "version": "1.0.0", "dependencies": {"hello": "1.0.0"}, "scripts": {"test": "node -p \"require('hello')\""}}`,
		"package-lock.json": fmt.Sprintf(`{"name": "mine", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "mine", "version": "1.0.0", "dependencies": {"hello": "1.0.0"}},
	"node_modules/hello": {"version": "1.0.0", "resolved": %q, "integrity": %q}}}`, file, integrity)})
	writeAll(t, filepath.Join(filepath.Dir(dir), "home"), map[string]string{".npmrc": "registry=https://npm.example.com/\n"})
	lines := recipe(t, "Node")
	if out, err := s.run(t, dir, env, "bash", "-c", lines[0]); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	audits := len(s.requests)
	s.requests = slices.DeleteFunc(s.requests, func(r string) bool { return strings.HasPrefix(r, audit) })
	if audits -= len(s.requests); audits == 0 {
		t.Error("npm has not asked about known problems")
	}
	s.check(t, "npm.example.com")
	if out, err := s.run(t, dir, env, "bash", "-c", lines[1]); err != nil || !strings.Contains(out, "hello from the registry") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.run(t, dir, env, "golem", "exec", "--net", "+npm", "--", "npm", "publish"); err == nil || len(s.requests) > 0 && !strings.HasPrefix(s.requests[0], "GET ") {
		t.Errorf("%v\n%s\n%q", err, out, s.requests)
	}
}

// goSum returns the hash of files in go.sum.
func goSum(files [][2]string) string {
	var list strings.Builder
	for _, f := range files {
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256([]byte(f[1])), f[0])
	}
	sum := sha256.Sum256([]byte(list.String()))
	return "h1:" + base64.StdEncoding.EncodeToString(sum[:])
}

// TestGoRecipe builds a program with a module as the guide says, with the user's proxy.
func TestGoRecipe(t *testing.T) {
	t.Parallel()
	const at, base = "example.com/hello@v1.0.0/", "https://go.example.com/example.com/hello/@v/v1.0.0"
	const mod = "module example.com/hello\n\ngo 1.20\n"
	files := [][2]string{{at + "go.mod", mod}, {at + "hello.go", "package hello\n\nconst Text = \"hello from the proxy\"\n"}}
	s := &packageServer{files: map[string]string{base + ".info": `{"Version": "v1.0.0"}`, base + ".mod": mod, base + ".zip": string(packZip(t, files))}}
	env, dir := s.start(t)
	writeAll(t, filepath.Join(filepath.Dir(dir), "home"), map[string]string{".config/go/env": "GOPROXY=https://go.example.com\nGOSUMDB=off\nGOTOOLCHAIN=local\n"})
	writeAll(t, dir, map[string]string{"go.sum": "example.com/hello v1.0.0 " + goSum(files) + "\nexample.com/hello v1.0.0/go.mod " + goSum([][2]string{{"go.mod", mod}}) + "\n",
		"main_test.go": "package main\n\nimport (\n\t\"testing\"\n\n\t\"example.com/hello\"\n)\n\nfunc TestText(t *testing.T) {\n\tif hello.Text == \"\" {\n\t\tt.Error(\"empty\")\n\t}\n}\n",
		"go.mod":       "module example.com/mine\n\ngo 1.20\n\nrequire example.com/hello v1.0.0\n", "main.go": "package main\n\nimport \"example.com/hello\"\n\nfunc main() { println(hello.Text) }\n"})
	lines := recipe(t, "Go")
	if out, err := s.run(t, dir, env, "bash", "-c", lines[0]); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.check(t, "go.example.com")
	if out, err := s.run(t, dir, env, "bash", "-c", lines[1]+" -v"); err != nil || !strings.Contains(out, "--- PASS: TestText") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.run(t, dir, env, "golem", "exec", "--session", "last", "--", "./mine"); err != nil || !strings.Contains(out, "hello from the proxy") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPipRecipe installs a package with pip as the guide says. The index is that of the
// user's settings, and its page leads to another host for the file.
func TestPipRecipe(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("python3", "-m", "pip", "--version").CombinedOutput(); err != nil {
		t.Skipf("pip does not work here: %v\n%s", err, out)
	}
	const info = "hello-1.0.dist-info/"
	wheel := packZip(t, [][2]string{{"hello.py", "text = 'hello from the index'\n"}, {info + "METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}, {info + "RECORD", "hello.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"}})
	const file = "https://files.example.org/hello-1.0-py3-none-any.whl"
	s := &packageServer{files: map[string]string{file: string(wheel),
		"https://pip.example.com/simple/hello/": fmt.Sprintf(`<a href="%s#sha256=%x">hello-1.0-py3-none-any.whl</a>`, file, sha256.Sum256(wheel))}}
	env, dir := s.start(t)
	writeAll(t, dir, map[string]string{"requirements.txt": "hello==1.0\n", "main.py": "import hello\nprint(hello.text)\n"})
	writeAll(t, filepath.Join(filepath.Dir(dir), "home"), map[string]string{".config/pip/pip.conf": "[global]\nindex-url = https://pip.example.com/simple\n"})
	// The index of this test has its files at another host, which the recipe does not name.
	lines := recipe(t, "Python")
	if out, err := s.run(t, dir, env, "bash", "-c", strings.Replace(lines[0], "+pypi", "+pypi,files.example.org", 1)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.check(t, "pip.example.com", "files.example.org")
	if out, err := s.run(t, dir, env, "bash", "-c", lines[1]); err != nil || !strings.Contains(out, "hello from the index") {
		t.Errorf("%v\n%s", err, out)
	}
	// The hosts of a preset take no uploads.
	if out, err := s.run(t, dir, env, "golem", "exec", "--net", "+pypi", "--", "curl", "-sS", "-d", "stolen", "https://pip.example.com/legacy/"); err != nil || !strings.Contains(out, "golem refused this request") || len(s.requests) > 0 {
		t.Errorf("%v\n%s\n%q", err, out, s.requests)
	}
}

// TestCargoRecipe builds a package with cargo as the guide says: with the hosts of a
// sparse registry, by a list and by rules that let only reads pass.
func TestCargoRecipe(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("rustc", "--print", "sysroot").Output()
	rust := strings.TrimSpace(string(out))
	if err != nil || !exists(filepath.Join(rust, "bin", "cargo")) {
		t.Skipf("cargo does not work here: %v", err)
	}
	crate := packTar(t, [][2]string{{"greet-1.0.0/Cargo.toml", "[package]\nname = \"greet\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"}, {"greet-1.0.0/src/lib.rs", "pub fn greet() -> &'static str { \"hello\" }\n"}})
	s := &packageServer{files: map[string]string{
		"https://index.example.com/config.json":        `{"dl": "https://crates.example.com/{crate}/{version}.crate"}`,
		"https://index.example.com/gr/ee/greet":        fmt.Sprintf(`{"name":"greet","vers":"1.0.0","deps":[],"cksum":"%x","features":{},"yanked":false}`+"\n", sha256.Sum256(crate)),
		"https://crates.example.com/greet/1.0.0.crate": string(crate),
	}}
	project := map[string]string{
		"Cargo.toml":         "[package]\nname = \"mine\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ngreet = { version = \"1\", registry = \"example\" }\n",
		"src/lib.rs":         "pub fn text() -> &'static str { greet::greet() }\n",
		".cargo/config.toml": "[registries.example]\nindex = \"sparse+https://index.example.com/\"\n",
	}
	path := "PATH=" + filepath.Join(rust, "bin") + ":" + os.Getenv("PATH") // rustup has no settings in a new home
	t.Run("list", func(t *testing.T) {
		env, dir := s.start(t)
		writeAll(t, dir, project)
		if err := os.Link(filepath.Join(dir, "../authority.pem"), filepath.Join(dir, "authority.pem")); err != nil { // golem passes TLS on
			t.Fatal(err)
		}
		out, err := s.run(t, dir, append(env, path), "golem", "exec", "--net", "index.example.com,crates.example.com", "--env", "CARGO_HTTP_CAINFO=authority.pem", "--", "cargo", "build")
		if err != nil || !strings.Contains(out, "Compiling greet v1.0.0") || !strings.Contains(out, "Finished") {
			t.Errorf("%v\n%s", err, out)
		}
		s.check(t, "index.example.com", "crates.example.com")
	})
	t.Run("recipe", func(t *testing.T) {
		env, dir := s.start(t)
		writeAll(t, dir, project)
		writeAll(t, dir, map[string]string{"src/lib.rs": project["src/lib.rs"] + "#[test]\nfn greets() { assert_eq!(text(), \"hello\"); }\n",
			".cargo/config.toml": project[".cargo/config.toml"] + "[http]\ncainfo = \"authority.pem\"\n"})
		if err := os.Link(filepath.Join(dir, "../authority.pem"), filepath.Join(dir, "authority.pem")); err != nil {
			t.Fatal(err)
		}
		lines := recipe(t, "Rust")
		if out, err := s.run(t, dir, append(env, path), "bash", "-c", lines[0]); err != nil || !strings.Contains(out, "Compiling greet v1.0.0") {
			t.Fatalf("%v\n%s", err, out)
		}
		s.check(t, "index.example.com", "crates.example.com")
		if out, err := s.run(t, dir, append(env, path), "bash", "-c", lines[1]); err != nil || !strings.Contains(out, "test greets ... ok") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("reads", func(t *testing.T) {
		env, dir := s.start(t)
		writeAll(t, dir, project)
		writeAll(t, dir, map[string]string{"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay}\nnetwork:\n  allow:\n    - {host: index.example.com, methods: [GET]}\n    - {host: crates.example.com, methods: [GET]}\n"})
		if out, err := s.run(t, dir, env, "golem", "trust", "--yes"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := s.run(t, dir, append(env, path), "golem", "exec", "--", "cargo", "build")
		if err != nil || !strings.Contains(out, "Finished") {
			t.Errorf("%v\n%s", err, out)
		}
		s.check(t, "index.example.com", "crates.example.com")
		if out, err := s.run(t, dir, env, "golem", "exec", "--", "curl", "-sS", "-T", "Cargo.toml", "https://index.example.com/api/v1/crates/new"); err != nil || !strings.Contains(out, "golem refused this request") || len(s.requests) > 0 {
			t.Errorf("%v\n%s\n%q", err, out, s.requests)
		}
	})
}
