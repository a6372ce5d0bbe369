package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// superviseFive supervises five agents from one page: it approves a call and continues its
// run, applies changes, pushes a commit, stops one agent, and ends another.
func superviseFive(t *testing.T, u *deskUser) {
	const endless = "main:\n  - calls: [{tool: shell, args: {command: \"while :; do echo %s; sleep 0.2; done\"}}]\n  - text: done\n"
	u.writeRun("tests", "", fmt.Sprintf(endless, "testing"))
	u.writeRun("build", "", fmt.Sprintf(endless, "building"))
	u.writeRun("notes", "", "main:\n  - calls: [{tool: delete_file, args: {path: /app.txt}}]\n  - text: done\n")
	u.writeRun("shop", "", "main:\n  - calls: [{tool: write_file, args: {path: /app.txt, content: \"new\\n\"}}]\n  - text: done\n")
	u.writeRun("report", "clearance: {targets: {origin: {type: bare, path: ../store.git}}}\n", "main:\n  - calls: [{tool: write_file, args: {path: /report.md, content: \"all is well\\n\"}}]\n  - calls: [{tool: git_stage, args: {files: [/report.md], message: Add the report}}]\n  - text: done\n")
	u.write("report/main.worker", "---\nsandbox: inherit\ntoolsets: [filesystem, git]\n---\nWork.\n")
	u.mustGolem(0, "report", "trust", "--yes")
	store := filepath.Join(u.dir, "store.git")
	if out, err := exec.Command("git", "init", "-q", "--bare", store).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ended := make(map[string]func() (int, string))
	for _, name := range []string{"tests", "build", "notes", "shop", "report"} {
		ended[name] = u.startRun(name, "Task of "+name)
	}
	for name, want := range map[string]int{"notes": 3, "shop": 0, "report": 0} {
		if code, out := ended[name](); code != want {
			t.Fatalf("%s: got %d\n%s", name, code, out)
		}
	}
	u.openDesk()
	for _, want := range []string{"delete_file: delete /app.txt", "Task of shop", "Add the report", "main calls shell: testing", "main calls shell: building"} {
		u.waitFor(u.browser, want)
	}
	inbox := func() { t.Helper(); u.submit(chromedp.Navigate(u.base())) }
	confirm := func(want string) {
		t.Helper()
		u.waitFor(u.browser, "Your decision")
		u.viewAll(u.browser)
		u.submit(click("button.yes"))
		u.waitFor(u.browser, want)
	}

	// Approve, and let the run continue.
	u.submit(click(`.item a[href*="/call/notes-"]`))
	confirm("can continue now")
	u.submit(click("button[value=resume]"))
	for end := time.Now().Add(browserPatience); ; time.Sleep(100 * time.Millisecond) {
		if out, _ := u.golem("notes", "diff"); strings.Contains(out, "app.txt") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the approved call was not made")
		}
	}

	// Apply.
	inbox()
	u.submit(click(`.items a[href*="/session/shop-"]`))
	u.do(click(`label:has([title="/app.txt"])`))
	u.submit(click(`button[value=apply]`))
	confirm("golem undo restores")
	if got := u.read("shop/app.txt"); got != "new\n" {
		t.Errorf("the applied file: got %q", got)
	}

	// Push.
	inbox()
	u.submit(click(`.item a[href*="/commit/report-"]`))
	u.submit(click("button[value=push]"))
	confirm("golem pushed exactly what you reviewed")
	if out, err := exec.Command("git", "-C", store, "log", "--format=%s", "--all").CombinedOutput(); err != nil || string(out) != "Add the report\n" {
		t.Errorf("the repository: got %q, %v", out, err)
	}

	// End both that still run. The others are not touched.
	for _, name := range []string{"tests", "build"} {
		inbox()
		u.submit(click(`.activity:has(a[href*="/` + name + `-"]) button[value=end]`))
		u.submit(click(`button[value=end]`))
		if code, out := ended[name](); code != 143 {
			t.Errorf("%s: got %d\n%s", name, code, out)
		}
	}
	if out := u.mustGolem(0, ".", "audit", "show", "--all", "--json"); strings.Count(out, "golem desk, in a browser") < 3 {
		t.Errorf("the journal does not say where the decisions were made: %s", out)
	}
}
