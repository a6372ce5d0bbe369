package desk

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/work/program"
)

// TestLongInbox checks that the inbox shows the first of many sessions, every call, and how
// to list the rest.
func TestLongInbox(t *testing.T) {
	var items []inbox.Item
	for i := range maxChanges + 7 {
		items = append(items, inbox.Item{Kind: inbox.KindChanges, ID: fmt.Sprint("s", i), Title: fmt.Sprintf("session-%d.", i)})
	}
	items = append(items, inbox.Item{Kind: inbox.KindCall, ID: "call", Title: "the call"})
	shown, hidden := limitItems(items)
	s, _ := start(t)
	w := httptest.NewRecorder()
	s.render(w, 200, "list", view{Data: inboxView{Items: shown, Hidden: hidden}})
	page := w.Body.String()
	if n := strings.Count(page, "session-"); n != maxChanges || !strings.Contains(page, "the call") || !strings.Contains(page, "Not listed: 7 sessions with changes. <code>golem status --all --last 0</code>") {
		t.Errorf("%d sessions:\n%s", n, page)
	}
}

// TestLoginFile checks that the file which leads a browser to the desk is gone after the
// login, and not only when the desk ends.
func TestLoginFile(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	ready := make(chan [2]string, 1)
	o := program.Options{State: t.TempDir(), Home: t.TempDir(), Now: time.Now}
	go func() {
		ended <- Serve(ctx, inbox.DeskOptions{Options: o, Listen: "127.0.0.1:0",
			Ready: func(address, file string) { ready <- [2]string{address, file} }})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var at [2]string
	select {
	case at = <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal("the desk ended")
	}
	dir := filepath.Dir(at[1])
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	response, body := ask(t, http.DefaultClient, "GET", at[0], func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		r.Header.Set("Sec-Fetch-Dest", "document")
	})
	if _, err := os.Stat(dir); response.StatusCode != 200 || !os.IsNotExist(err) {
		t.Errorf("%s, %v, want that %s does not exist\n%s", response.Status, err, dir, body)
	}
}

// TestNextCommand checks that the commands on a page have the name of a session, or its id if
// it has none.
func TestNextCommand(t *testing.T) {
	for _, c := range []struct {
		item inbox.Item
		want string
	}{
		{inbox.Item{Kind: inbox.KindChanges, ID: "k3xq2a", Name: "fix-login", Directory: "/home/u/shop"}, "golem diff -C ~/shop @fix-login"},
		{inbox.Item{Kind: inbox.KindChanges, ID: "k3xq2a", Directory: "/home/u/shop"}, "golem diff -C ~/shop @k3xq2a"},
		{inbox.Item{Kind: inbox.KindRun, ID: "k3xq2a", Name: "fix-login", Directory: "/srv/my shop"}, "golem run '/srv/my shop' --resume fix-login"},
	} {
		if got := nextCommand(c.item, "/home/u"); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.item, got, c.want)
		}
	}
}
