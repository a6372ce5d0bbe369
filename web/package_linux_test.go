package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
)

// maxWasm is the largest size of golem.wasm with brotli.
const maxWasm = 1_500_000

// pack makes the package, as scripts/npm does for a release, and installs it from the tarball.
// It returns the directory with node_modules.
func pack(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"npm", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed; scripts/need node=nodejs npm=npm installs it")
		}
	}
	dir := t.TempDir()
	run(t, dir, "bash", absolute(t, "../scripts/npm"), dir)
	tarballs, err := filepath.Glob(filepath.Join(dir, "golem-forge-browser-*.tgz"))
	if err != nil || len(tarballs) != 1 {
		t.Fatalf("tarballs: %v, %v", tarballs, err)
	}
	write(t, filepath.Join(dir, "package.json"), `{"private": true}`)
	run(t, dir, "npm", "install", "--silent", "--offline", "--no-audit", "--no-fund", tarballs[0])
	return dir
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a program, and returns its stdout.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, &stderr)
	}
	return string(out)
}

// A site serves the installed package and the tests for the browser.
type site struct {
	*httptest.Server
	mux     *http.ServeMux
	results chan string // what pages post
	kept    sync.Map    // further things that pages post, by name
}

func newSite(t *testing.T, dir string) *site {
	t.Helper()
	mux := http.NewServeMux()
	s := &site{mux: mux, results: make(chan string, 1)}
	mux.Handle("/node_modules/", http.FileServer(http.Dir(dir)))
	mux.Handle("/testdata/", http.FileServer(http.Dir(".")))
	mux.HandleFunc("/result", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		s.results <- string(text) + errorText(err)
	})
	mux.HandleFunc("/keep", func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("name")
		if text, ok := s.kept.Load(name); ok && r.Method == http.MethodGet {
			io.WriteString(w, text.(string))
			return
		}
		text, err := io.ReadAll(r.Body)
		s.kept.Store(name, string(text)+errorText(err))
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// serve serves a directory.
func (s *site) serve(prefix, dir string) {
	s.mux.Handle(prefix, http.StripPrefix(prefix, http.FileServer(http.Dir(dir))))
}

// A console holds what a page printed.
type console struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// newTab opens a tab, and returns its console.
func newTab(t *testing.T, browser context.Context) (context.Context, *console) {
	t.Helper()
	tab, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	printed := &console{}
	chromedp.ListenTarget(tab, func(event any) {
		printed.mu.Lock()
		defer printed.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			for _, arg := range e.Args {
				text := string(arg.Value)
				if err := json.Unmarshal(arg.Value, &text); err != nil && arg.Preview != nil {
					text = describe(arg.Preview)
				}
				printed.text.WriteString(text + "\n")
			}
		case *runtime.EventExceptionThrown:
			printed.text.WriteString(e.ExceptionDetails.Error() + "\n")
		}
	})
	return tab, printed
}

// describe prints an object as the console does.
func describe(o *runtime.ObjectPreview) string {
	var parts []string
	for _, p := range o.Properties {
		parts = append(parts, p.Name+": "+p.Value)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// open opens a page.
func (s *site) open(t *testing.T, tab context.Context, path string) {
	t.Helper()
	if err := chromedp.Run(tab, chromedp.Navigate(s.URL+path)); err != nil {
		t.Fatal(err)
	}
}

// result waits for what a page posts.
func (s *site) result(t *testing.T, tab context.Context, printed *console) string {
	t.Helper()
	select {
	case text := <-s.results:
		return text
	case <-tab.Done():
		t.Fatalf("the page does not end: %v\n%s", context.Cause(tab), printed)
	case <-time.After(patience):
		t.Fatalf("the page does not end\n%s", printed)
	}
	return ""
}

// runModule runs the functions of a module in testdata as subtests, and returns the console.
func (s *site) runModule(t *testing.T, browser context.Context, module string, before ...chromedp.Action) string {
	t.Helper()
	tab, printed := newTab(t, browser)
	if err := chromedp.Run(tab, before...); err != nil {
		t.Fatal(err)
	}
	s.open(t, tab, "/testdata/page.html?module="+module)
	s.report(t, s.result(t, tab, printed), printed)
	return printed.String()
}

// report makes a subtest of each result that a page has posted.
func (s *site) report(t *testing.T, text string, printed *console) {
	t.Helper()
	var results []struct {
		Name, Error string
		MS          float64
	}
	if err := json.Unmarshal([]byte(text), &results); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(printed.String(), "Uncaught") {
		t.Error("an error that nobody caught")
	}
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			t.Logf("%.0f ms", r.MS)
			if r.Error != "" {
				t.Error(r.Error)
			}
		})
	}
	if len(results) == 0 || t.Failed() || testing.Verbose() {
		t.Logf("%d tests in the page; its console:\n%s", len(results), printed)
	}
}

// TestPackage uses the package as an npm user would, in Chromium.
func TestPackage(t *testing.T) {
	dir := pack(t)
	module := filepath.Join(dir, "node_modules/@golem-forge/browser")
	t.Run("size", func(t *testing.T) {
		if _, err := exec.LookPath("brotli"); err != nil {
			t.Skip("brotli is not installed; scripts/need brotli=brotli installs it")
		}
		small := run(t, module, "brotli", "--stdout", "--best", "--lgwin=24", "golem.wasm")
		if t.Logf("golem.wasm has %d bytes with brotli", len(small)); len(small) >= maxWasm {
			t.Errorf("the limit is %d", maxWasm)
		}
	})
	browser := newBrowser(t)
	server := newSite(t, dir)
	t.Run("api", func(t *testing.T) {
		server.runModule(t, browser, "api.js")
		testExport(t, server)
	})
	t.Run("github", func(t *testing.T) {
		testGitHub(t, server, func(module string) string { return server.runModule(t, browser, module) })
	})
	t.Run("quota", func(t *testing.T) {
		own := newSite(t, dir)
		own.runModule(t, browser, "quota.js", storage.OverrideQuotaForOrigin(own.URL).WithQuotaSize(6<<20))
	})
	t.Run("reload", func(t *testing.T) { testReload(t, browser, server) })
	t.Run("demo", func(t *testing.T) { testDemo(t, browser, newSite(t, dir)) })
	t.Run("example", func(t *testing.T) { testExample(t, browser, dir) })
	t.Run("firefox", func(t *testing.T) { testFirefox(t, dir) })
	t.Run("readme", func(t *testing.T) { testReadme(t, browser, dir) })
}

// testReload ends a page in the middle of writes, and looks at the files then.
func testReload(t *testing.T, browser context.Context, server *site) {
	for round := range 4 {
		tab, cancel := chromedp.NewContext(browser)
		defer cancel()
		server.open(t, tab, "/testdata/page.html?module=writer.js")
		page{t, tab}.wait("globalThis.written > 0")
		time.Sleep(rand.N(200 * time.Millisecond))
		if round%2 == 0 {
			cancel() // closes the tab
		} else {
			server.open(t, tab, "/testdata/check.js")
		}
		server.runModule(t, browser, "reader.js")
	}
}

// testExport verifies the journal that a page has exported, with golem itself.
func testExport(t *testing.T, server *site) {
	text, ok := server.kept.Load("journal.jsonl")
	if !ok {
		t.Fatal("no page has exported a journal")
	}
	dir := t.TempDir()
	run(t, ".", "go", "build", "-o", dir, "../cmd/golem")
	write(t, filepath.Join(dir, "journal.jsonl"), text.(string))
	got := run(t, dir, "./golem", "audit", "verify", "journal.jsonl")
	if want := fmt.Sprintf("%d records, chain whole", strings.Count(text.(string), "\n")); !strings.HasPrefix(got, want) {
		t.Errorf("golem audit verify prints\n%s\nwant %s", got, want)
	}
}

// testReadme runs the first block of the README, and compares what it prints.
func testReadme(t *testing.T, browser context.Context, dir string) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string) string {
		_, after, ok := strings.Cut(string(text), "```"+kind+"\n")
		content, _, ends := strings.Cut(after, "```\n")
		if !ok || !ends {
			t.Fatalf("README.md has no block %s", kind)
		}
		return content
	}
	server := newSite(t, dir)
	page := strings.Replace(`<!doctype html><title>readme</title><script type="importmap">{"imports": {"@golem-forge/browser": "/node_modules/@golem-forge/browser/index.js"}}</script>
<script type="module">EXAMPLE
await fetch('/result', {method: 'POST'});</script>`, "EXAMPLE", block("js"), 1)
	write(t, filepath.Join(dir, "node_modules/readme.html"), page)
	tab, printed := newTab(t, browser)
	server.open(t, tab, "/node_modules/readme.html")
	server.result(t, tab, printed)
	want := strings.TrimSpace(block("text"))
	for end := time.Now().Add(10 * time.Second); strings.TrimSpace(printed.String()) != want; time.Sleep(50 * time.Millisecond) { // the console is late
		if time.Now().After(end) {
			t.Fatalf("the example prints\n%s\nand README.md says\n%s", printed, want)
		}
	}
}
