package desk

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/inbox"
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
