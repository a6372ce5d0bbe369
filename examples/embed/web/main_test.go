package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
)

// TestDesk decides about a call as a browser does.
func TestDesk(t *testing.T) {
	dir := t.TempDir()
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/out", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	journal, err := gate.OpenJournal(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	d := &desk{}
	g := gate.Gate{Tools: gate.FileTools(), Files: files, Grant: gate.GrantAll(), Approver: d, Journal: journal}
	agent, server := httptest.NewServer(calls(g)), httptest.NewServer(d)
	defer agent.Close()
	defer server.Close()
	for _, test := range []struct {
		name          string
		tick, answer  string
		want, content string
	}{
		{"no.md", "all", "no", "declined", ""},
		{"yes.md", "all", "yes", "created", "<b>hi</b>"},
	} {
		result := make(chan string)
		go func() {
			response, err := http.Post(agent.URL, "application/json", strings.NewReader(`{"tool": "write_file", "args": {"path": "/out/`+test.name+`", "content": "<b>hi</b>"}}`))
			if err != nil {
				result <- err.Error()
				return
			}
			body, _ := io.ReadAll(response.Body)
			result <- string(body)
		}()
		var html string
		for !strings.Contains(html, "<form") {
			response, err := http.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(response.Body)
			html = string(body)
		}
		if strings.Contains(html, "<b>hi") || !strings.Contains(html, "&lt;b&gt;hi") {
			t.Errorf("got\n%s", html)
		}
		form := url.Values{"id": {find(html, `name=id value="(.*?)"`)[0]}, "answer": {"yes"}, "seen": find(html, `name=seen value="(.*?)"`)[1:]}
		if response, err := http.PostForm(server.URL, form); err != nil || response.StatusCode != http.StatusConflict {
			t.Errorf("a box that is not ticked: got %v, %v", response, err)
		}
		form["seen"], form["answer"] = find(html, `name=seen value="(.*?)"`), []string{test.answer}
		if response, err := http.PostForm(server.URL, form); err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("got %v, %v", response, err)
		}
		if got := <-result; !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s", test.name, got)
		}
		if content, _ := os.ReadFile(filepath.Join(dir, test.name)); string(content) != test.content {
			t.Errorf("%s: got %q", test.name, content)
		}
	}
}

// find returns what the first group of a pattern matches.
func find(text, pattern string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}
