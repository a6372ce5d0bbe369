package web_test

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// demoPage is the demo in the installed package.
const demoPage = "/node_modules/@golem-forge/browser/demo/index.html"

// testDemo uses the demo as a person would, with the scripted worker and GitHub.
func testDemo(t *testing.T, browser context.Context, server *site) {
	tab, printed := newTab(t, browser)
	p := page{t, tab}
	server.open(t, tab, demoPage)
	p.click("#open button")
	p.wait("!document.querySelector('#opened').hidden")

	// The scripted worker.
	p.click("#run button")
	p.wait("document.querySelector('#ask').open")
	if shown := p.text("document.querySelector('#ask').innerText"); !strings.Contains(shown, "# Pancakes") || !strings.Contains(shown, "write /work/shopping.md") {
		t.Errorf("the dialog shows\n%s", shown)
	}
	p.click("#ask [value=approve]")
	p.status("The worker has ended.")
	log := p.text("document.querySelector('#log').innerText")
	for _, want := range []string{"read_file: error: ", "write_file: created /drafts/shopping.md", "write_file: created /work/shopping.md", "Done."} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}

	// A model of the user.
	m := newLoopbackModel(t,
		turn{calls: []toolCall{call("write_file", map[string]string{"path": "/work/real.md", "content": "real\n"}), {name: "write_file", args: `{"path": "/drafts/cut.md"`}, {name: "constructor", args: "{}"}}},
		turn{text: "Written."},
		turn{cut: true, calls: []toolCall{call("write_file", map[string]string{"path": "/drafts/cut.md", "content": "cut"})}})
	p.fill("#run", "model", "real", "endpoint", "http://example.com", "key", testKey, "name", "scripted", "prompt", "Write it.")
	p.click("#run button")
	p.status("it must have https")
	p.fill("#run", "endpoint", m.URL+"/v1")
	p.click("#run button")
	p.wait("document.querySelector('#ask').open")
	p.click("#ask [value=approve]")
	p.status("The worker has ended.")
	if log := p.text("document.querySelector('#log').innerText"); !strings.Contains(log, "write_file: created /work/real.md") || strings.Count(log, "error: ") != 2 || !strings.Contains(log, "Written.") {
		t.Errorf("the log is\n%s", log)
	}
	if asked := m.seen(); len(asked) != 2 || !strings.Contains(asked[1], "created /work/real.md") || !strings.Contains(asked[1], "Write it.") {
		t.Errorf("the model got %q", asked)
	}
	p.click("#run button")
	p.status("the answer of the model is too long")
	if where := p.text("location.href + document.cookie + localStorage.length + sessionStorage.length"); !strings.HasSuffix(where, "/demo/#demo00") || p.await(findInOPFS, testKey) != "[]" || strings.Contains(printed.String(), testKey) {
		t.Errorf("the key is somewhere: %s\n%s", where, printed)
	}

	// A second tab gets a message, and a reload finds everything again.
	other, _ := newTab(t, browser)
	server.open(t, other, demoPage+"#demo")
	page{t, other}.status("another tab or sandbox has this workspace open")
	if err := chromedp.Run(tab, chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	p.status("The workspace demo is open.")
	if files := p.text("document.querySelector('#files').innerText"); !strings.Contains(files, "/drafts/shopping.md") || !strings.Contains(files, "/work/shopping.md") || !strings.Contains(files, "/work/real.md") || strings.Contains(files, "cut.md") {
		t.Errorf("after the reload there are\n%s", files)
	}

	p.click("#verify")
	p.wait("document.querySelector('#verdict').textContent.includes('unchanged')")

	// GitHub.
	g := newLoopbackGitHub(t)
	p.fill("#github", "repository", "ada/notes", "token", testToken, "api", g.URL, "paths", "docs\nREADME.md", "message", "add the list")
	p.click("#github [value=pull]")
	p.status("Pulled 3 files.")
	p.fill("#github", "paths", "shopping.md")
	p.click("#github [value=stage]")
	p.wait("!document.querySelector('#push').hidden")
	if shown := p.text("document.querySelector('#review').innerText"); !strings.Contains(shown, "+# Pancakes") || !strings.Contains(shown, "add the list") {
		t.Errorf("the review shows\n%s", shown)
	}
	p.click("#push")
	p.status("Pushed commit ")
	if text := g.git("", "show", "main:shopping.md"); !strings.HasPrefix(text, "# Pancakes\n") {
		t.Errorf("GitHub has %q", text)
	}
	if p.text("location.href.includes("+quote(testToken)+")") != "false" || strings.Contains(printed.String(), testToken) {
		t.Errorf("the token is in the address or the console:\n%s", printed)
	}
	if strings.Contains(printed.String(), "Uncaught") || strings.Contains(printed.String(), "Content Security Policy") {
		t.Errorf("the console:\n%s", printed)
	}
}
