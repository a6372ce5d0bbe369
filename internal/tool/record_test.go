package tool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/policy"
)

// A waitJournal records how long each record was waited for.
type waitJournal struct{ list []string }

func (w *waitJournal) Write(r audit.Record, wait audit.Wait) error {
	w.list = append(w.list, fmt.Sprintf("%s:%d", r.Kind, wait))
	return nil
}

// TestC10RecordsAreWaitedFor checks how long the gate waits for the journal: a change
// waits for the disk, a read for nothing, and every outcome and refusal for the file.
func TestC10RecordsAreWaitedFor(t *testing.T) {
	preApproved := []policy.Rule{{Verb: policy.Write, Target: "/out", Approval: policy.PreApproved}}
	intent := func(w audit.Wait) string { return fmt.Sprintf("intent:%d outcome:%d", w, audit.Written) }
	for _, test := range []struct {
		name, path string
		verbs      []policy.Verb
		want       string
	}{
		{"read", "/out/a.md", read1, intent(audit.Queued)},
		{"write", "/out/a.md", write1, intent(audit.Durable)},
		{"delete", "/out/a.md", []policy.Verb{policy.Delete}, intent(audit.Durable)},
		{"read and write", "/out/a.md", []policy.Verb{policy.Read, policy.Write}, intent(audit.Durable)},
		{"refused", "/in/x.md", write1, fmt.Sprintf("refusal:%d", audit.Written)},
	} {
		j := &waitJournal{}
		do := readFile
		if len(test.verbs) > 1 || test.verbs[0] == policy.Write {
			do = writeFile
		}
		if test.verbs[0] == policy.Delete {
			do = removeFile
		}
		r := newRoom(t, preApproved, newEffectTool("use", policy.Both, test.verbs, do))
		r.Journal = j
		r.call(policy.Model, "use", `{"path": "`+test.path+`"}`)
		if got := strings.Join(j.list, " "); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	keeps := newEffectTool("keep", policy.Both, read1, readFile)
	keeps.ChangesState = true
	j := &waitJournal{}
	r := newRoom(t, preApproved, keeps)
	r.Journal = j
	r.call(policy.Model, "keep", `{"path": "/out/a.md"}`)
	if got := strings.Join(j.list, " "); got != intent(audit.Durable) {
		t.Errorf("a tool that keeps something: got %s", got)
	}
	for _, test := range []struct {
		r    audit.Record
		want audit.Wait
	}{
		{audit.Record{Kind: audit.Intent, Effects: []string{"read /a", "write /b"}}, audit.Durable},
		{audit.Record{Kind: audit.Intent, Effects: []string{"read /a"}}, audit.Queued},
		{audit.Record{Kind: audit.Outcome, Effects: []string{"write /b"}}, audit.Written},
		{audit.Record{Kind: audit.Refusal}, audit.Written},
		{audit.Record{Kind: audit.Answer}, audit.Written},
	} {
		if got := test.r.Least(); got != test.want {
			t.Errorf("%+v: got %d, want %d", test.r, got, test.want)
		}
	}
}
