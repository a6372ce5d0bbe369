package main

import (
	"encoding/csv"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// stageCommit makes a program and stages a commit in it.
func (u *deskUser) stageCommit() {
	u.t.Helper()
	u.write("proj/golem-forge.config.yaml", "sandbox: {root: ., mode: overlay}\nclearance:\n  targets:\n    origin: {type: bare, path: ../store.git}\n")
	u.write("proj/main.worker", "---\nsandbox: inherit\ntoolsets: [filesystem, git]\n---\nWork.\n")
	u.write("proj/leak.py", "key = \"AKIA"+"Z7QF3WX5N2LPR4TB\"\n")
	u.write("proj/.github/workflows/ci.yml", "on: push\n")
	u.write("proj/note.md", "a note\n")
	if out, err := exec.Command("git", "init", "-q", "--bare", filepath.Join(u.dir, "store.git")).CombinedOutput(); err != nil {
		u.t.Fatalf("%v\n%s", err, out)
	}
	u.mustGolem(0, "proj", "trust", "--yes")
	u.mustGolem(0, "proj", "tool", "git_stage", "--files", "leak.py", "--files", "note.md", "--files", ".github/workflows/ci.yml", "--message", "Add <b>three</b>")
}

// pushAtDesk reviews a staged commit, overrides a scanner with a reason, and pushes. Then it
// looks at the journal and the pictures.
func pushAtDesk(t *testing.T, u *deskUser) {
	u.stageCommit()
	u.openDesk()
	u.waitFor(u.browser, "Add <b>three</b>")
	u.submit(followLink("three"))
	text := u.text()
	order := []string{"Findings", "secrets", "Where it comes from", "1 file that becomes code", "ci.yml", "The other files", "note.md", "Push or discard"}
	at := 0
	for _, want := range order {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("the page has no %q after %q:\n%s", want, text[:at], text)
		}
		at += i
	}
	u.screenshot("commit")

	// A file that a scanner holds back needs a reason.
	u.submit(click("button[value=push]"))
	u.waitFor(u.browser, "golem pushed nothing")
	u.do(chromedp.SendKeys(`input[name="reason-0"]`, "a key of nobody"))
	u.submit(click("button[value=push]"))
	u.waitFor(u.browser, "Your decision")
	u.viewAll(u.browser)
	u.submit(click("button.yes"))
	u.waitFor(u.browser, "golem pushed exactly what you reviewed")
	if out, err := exec.Command("git", "-C", filepath.Join(u.dir, "store.git"), "log", "--format=%s", "--all").CombinedOutput(); err != nil || string(out) != "Add <b>three</b>\n" {
		t.Errorf("the repository: got %q, %v", out, err)
	}
	if out := u.mustGolem(0, "proj", "audit", "show", "--json"); !strings.Contains(out, "leak.py=a key of nobody") {
		t.Errorf("the journal has no reason: %s", out)
	}

	// The journal, filtered, and exported as golem audit prints it.
	u.do(chromedp.Navigate(u.base() + "journal?tool=git_push"))
	text = u.text()
	if !strings.Contains(text, "chain whole") || !strings.Contains(text, "git_push") || !strings.Contains(text, "golem desk, in a browser") || strings.Contains(text, "git_stage\t") {
		t.Errorf("the journal:\n%s", text)
	}
	u.screenshot("journal")

	// A call that no person decided about is neither approved nor declined.
	u.do(chromedp.Navigate(u.base() + "journal?tool=git_stage"))
	u.submit(click(`a[href*="/decision/"]`))
	if text := u.text(); strings.Contains(text, "Declined") || strings.Contains(text, "Approved") {
		t.Errorf("a call that a rule allowed:\n%s", text)
	}
	u.do(chromedp.Navigate(u.base() + "journal?tool=git_push"))
	var exported string
	u.do(chromedp.Evaluate(`fetch('journal/export/json?tool=git_push').then(r => r.text())`, &exported, awaitPromise))
	var got, want struct{ Records []map[string]any }
	if err := json.Unmarshal([]byte(exported), &got); err != nil {
		t.Fatalf("%v: %s", err, exported)
	}
	if err := json.Unmarshal([]byte(u.mustGolem(0, "proj", "audit", "show", "--json", "--tool", "git_push")), &want); err != nil {
		t.Fatal(err)
	}
	if len(got.Records) == 0 || len(got.Records) != len(want.Records) || got.Records[0]["seal"] != want.Records[0]["seal"] {
		t.Errorf("the export has %d records, golem audit show %d", len(got.Records), len(want.Records))
	}
	u.do(chromedp.Evaluate(`fetch('journal/export/csv?tool=git_push').then(r => r.text())`, &exported, awaitPromise))
	if rows, err := csv.NewReader(strings.NewReader(exported)).ReadAll(); err != nil || len(rows) != len(want.Records)+1 {
		t.Errorf("the CSV has %d rows, %v", len(rows), err)
	}

	// The pictures.
	var pictures int
	u.do(chromedp.Navigate(u.base()+"pictures"), chromedp.Evaluate(`document.querySelectorAll('svg.picture rect:not(.hit)').length`, &pictures))
	if pictures < 3 || !strings.Contains(u.text(), "Approvals by hand and by rule") {
		t.Errorf("the pictures have %d parts:\n%s", pictures, u.text())
	}
	u.screenshot("pictures")
}
