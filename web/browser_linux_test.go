package web_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience is how long a page may take on a busy machine.
const patience = 5 * time.Minute

// newBrowser starts a headless Chromium, and returns its first tab.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed; scripts/need chromium=chromium installs it")
	}
	dir, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) // a process of the browser may still write there

	// chromedp starts the browser with Pdeathsig, which kills it when the thread that
	// started it ends.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(dir), chromedp.WSURLReadTimeout(patience))
	allocated, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	limited, cancel := context.WithTimeout(allocated, 3*patience)
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(limited)
	t.Cleanup(cancel)
	if err := chromedp.Run(browser); err != nil { // starts it
		t.Fatal(err)
	}
	return browser
}

// build builds a Go program for the browser.
func build(t *testing.T, to string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{args[0], "-o", to}, args[1:]...)...)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// goroot returns the directory of Go.
func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// testWorker runs a test binary in a Worker, and posts what it prints.
const testWorker = `
importScripts('/wasm_exec.js');
let text = '';
const decoder = new TextDecoder();
globalThis.fs.writeSync = (_, buffer) => { text += decoder.decode(buffer, {stream: true}); return buffer.length; };
const post = code => fetch('/result?code=' + code, {method: 'POST', body: text});
(async () => {
	const go = new Go();
	go.argv = ['test', ...new URLSearchParams(location.search).getAll('arg')];
	go.exit = post;
	const {instance} = await WebAssembly.instantiateStreaming(fetch('/test.wasm'), go.importObject);
	await go.run(instance);
})().catch(e => { text += e.stack; post(2); });
`

// runTests runs the tests of a package in a Worker, and returns their exit code and output.
func runTests(t *testing.T, browser context.Context, pkg string, args ...string) (code, output string) {
	t.Helper()
	dir := t.TempDir()
	begin := time.Now()
	build(t, filepath.Join(dir, "test.wasm"), "test", "-c", "-vet=off", "-ldflags=-s -w", "-gcflags=all=-l", pkg) // as scripts/npm, which shares the cache
	t.Logf("built in %v", time.Since(begin).Round(time.Second))
	type result struct{ code, output string }
	done := make(chan result, 1)
	mux := http.NewServeMux()
	mux.Handle("/wasm_exec.js", http.FileServer(http.Dir(filepath.Join(goroot(t), "lib/wasm"))))
	mux.Handle("/test.wasm", http.FileServer(http.Dir(dir)))
	mux.HandleFunc("/worker.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		io.WriteString(w, testWorker)
	})
	mux.HandleFunc("/result", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		done <- result{r.URL.Query().Get("code"), string(text) + errorText(err)}
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<!doctype html><title>tests</title><script>new Worker('/worker.js' + location.search)</script>")
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	query := ""
	for _, arg := range args {
		query += "&arg=" + arg
	}
	tab, cancel := chromedp.NewContext(browser)
	defer cancel()
	if err := chromedp.Run(tab, chromedp.Navigate(server.URL+"/?"+strings.TrimPrefix(query, "&"))); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-done:
		return r.code, r.output
	case <-tab.Done():
		t.Fatalf("the tests in the browser do not end: %v", errors.Join(tab.Err(), context.Cause(tab)))
	}
	return "", ""
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestBackend runs the suite and the attacks of sandboxtest on OPFS.
func TestBackend(t *testing.T) {
	browser := newBrowser(t)
	// A test waits for the browser most of the time, so three run at once.
	args := []string{"-test.short", "-test.parallel=3"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	if only := os.Getenv("GOLEM_TEST_BROWSER_RUN"); only != "" {
		args = append(args, "-test.run="+only)
	}
	code, output := runTests(t, browser, "../sandbox/opfs", args...)
	if code != "0" {
		t.Errorf("exit code %s", code)
	}
	t.Log(output)
}
