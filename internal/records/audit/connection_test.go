package audit_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/audit"
)

// TestConnections writes the records of connections and reads them again.
func TestConnections(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir, audit.Options{})
	allowed := audit.Connection{Call: "c1", Session: "s1", Workers: []string{"main"}, Program: "curl", Host: "api.example.org", Port: 443, Decision: "preApproved", By: "golem.yaml:3:1"}
	closed := allowed
	closed.Sent, closed.Received, closed.Took = 1200, 1<<40, 1500*time.Millisecond
	refused := audit.Connection{Call: "c2", Session: "s1", Host: "2001:db8::1", Port: 22, Decision: "blocked", Code: "not_listed", Note: "not among its hosts"}
	open := audit.Connection{Call: "c3", Session: "s1", Host: "open.example", Port: 80, Decision: "preApproved"}
	request := allowed
	request.Decision, request.By, request.Code, request.Note = "blocked", "", "refused", "PUT /: not allowed"
	for _, r := range []audit.Record{allowed.Intent(), refused.Refusal(), request.Refusal(), {Kind: audit.Intent, Call: "c1", Session: "s1", Tool: "shell"},
		{Kind: audit.Answer, Session: "s1", Tool: audit.ConnectTool, Effects: []string{"connect more.example:80"}, Decision: "yes"}, open.Intent(), closed.Outcome()} {
		ok(t, j.Write(r, audit.Written))
	}
	ok(t, j.Close())
	var list audit.Connections
	ok(t, audit.Read(openState(t, dir), audit.Filter{Tool: audit.ConnectTool}, func(r audit.Record, _ []byte) error {
		list.Add(r)
		return nil
	}))
	closed.Ended, refused.Ended, request.Ended = true, true, true
	want := []audit.Connection{closed, refused, request, open}
	for i := range list.List {
		list.List[i].Time = time.Time{}
	}
	if !reflect.DeepEqual(list.List, want) {
		t.Errorf("got\n%+v\nwant\n%+v", list.List, want)
	}
	if got := refused.Address(); got != "[2001:db8::1]:22" {
		t.Errorf("got %s", got)
	}
}
