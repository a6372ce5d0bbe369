package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// writeRun writes a program whose worker follows a script.
func (u *deskUser) writeRun(dir, settings, script string) {
	u.t.Helper()
	u.write(dir+"/golem-forge.config.yaml", "sandbox: {root: ., mode: overlay, approval: {write: preApproved, delete: ask}}\nmodel: scripted:model.yaml\n"+settings)
	u.write(dir+"/main.worker", "---\nsandbox: inherit\ntoolsets: [filesystem, shell]\nshell_default: {approval: preApproved}\n---\nWork.\n")
	u.write(dir+"/model.yaml", script)
	u.write(dir+"/app.txt", "old\n")
	u.mustGolem(0, dir, "trust", "--yes")
}

// startRun starts a run without a terminal. ended returns its exit code and output when it
// has ended.
func (u *deskUser) startRun(dir, input string) (ended func() (int, string)) {
	u.t.Helper()
	var out strings.Builder
	cmd := exec.Command("golem", "run", ".", input)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = u.dir+"/"+dir, u.environ, &out, &out
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		cmd.Wait()
		close(over)
	}()
	u.t.Cleanup(func() {
		cmd.Process.Kill()
		<-over
	})
	return func() (int, string) {
		select {
		case <-over:
			return cmd.ProcessState.ExitCode(), out.String()
		case <-time.After(browserPatience):
			u.t.Fatal("the run does not end")
			return 0, ""
		}
	}
}

// superviseAtDesk watches runs on one page, stops one and continues it, approves a call of
// another and continues that one, and decides about a host.
func superviseAtDesk(t *testing.T, u *deskUser) {
	u.writeRun("shop", "", `main:
  - text: I test it.
    calls: [{tool: shell, args: {command: "while [ ! -e /tmp/never ]; do echo '<b>tick</b>'; sleep 0.2; done"}}]
  - text: All of it works.
`)
	u.writeRun("notes", "", `main:
  - text: I remove the old file.
    calls: [{tool: delete_file, args: {path: /app.txt}}]
  - text: It is gone.
`)
	u.writeRun("crawler", "network: {allow: [api.example.org], ask: true}\n", `main:
  - text: I only think.
`)
	stopped, paused := u.startRun("shop", "Test the shop"), u.startRun("notes", "Tidy up")
	if code, out := paused(); code != 3 {
		t.Fatalf("the run that needs an approval: got %d\n%s", code, out)
	}
	u.openDesk()

	// The inbox lists both runs, and the page of a session shows the output of a command
	// while it runs, as text.
	for _, want := range []string{"Test the shop", "▶ running", "Tidy up", "Ⅱ paused", "Waits for you: delete_file", "memory"} {
		u.waitFor(u.browser, want)
	}
	u.screenshot("running")
	u.submit(followLink("Test the shop"))
	u.waitFor(u.browser, "main calls shell")
	u.waitFor(u.browser, "<b>tick</b>\n<b>tick</b>\n<b>tick</b>\n<b>tick</b>")
	u.screenshot("output")

	// Live counts what the jail uses, and ends the run.
	u.do(chromedp.Navigate(u.base() + "live"))
	u.waitFor(u.browser, "CPU ")
	u.submit(click(`li:has(a[href*="/shop-"]) button[value=stop]`))
	u.waitFor(u.browser, "stops after its current call")
	u.submit(click(`li:has(a[href*="/shop-"]) button[value=end]`))
	u.waitFor(u.browser, "The run can continue later")
	u.submit(click(`button[value=end]`))
	if code, out := stopped(); code != 130 {
		t.Errorf("the run that the desk ended: got %d\n%s", code, out)
	}

	// It can continue, in a process of its own that the desk starts.
	u.write("shop/model.yaml", "main:\n  - text: I test it.\n    calls: [{tool: list_files, args: {path: /}}]\n  - text: All of it works.\n")
	u.waitFor(u.browser, "Resume")
	u.submit(click(`li:has(a[href*="/shop-"]) button[value=resume]`))
	u.waitFor(u.browser, "golem continues the run")
	u.submit(chromedp.Navigate(u.base()+"journal"), chromedp.Navigate(u.base()+"live"))
	u.waitGone(`a[href*="/shop-"]`)

	// An approved call of a run: the page of the decision continues it.
	u.submit(chromedp.Navigate(u.base()))
	u.submit(chromedp.Click(`.item a[href*="/call/notes-"]`))
	u.viewAll(u.browser)
	u.submit(click("button.yes"))
	u.waitFor(u.browser, "Its run is paused, and can continue now")

	// A program that changed since the user trusted it does not continue, and the page says so.
	var decision string
	worker := u.read("notes/main.worker")
	u.write("notes/main.worker", worker+"Do more.\n")
	u.do(chromedp.Location(&decision))
	u.submit(click("button[value=resume]"))
	u.waitFor(u.browser, "before you trust them; golem trust -C")
	u.write("notes/main.worker", worker)
	u.do(chromedp.Navigate(decision))
	u.submit(click("button[value=resume]"))
	u.waitFor(u.browser, "1 file changed")
	u.waitGone(`.activity a[href*="/notes-"]`)
	if out := u.mustGolem(0, "notes", "diff"); !strings.Contains(out, "app.txt") {
		t.Errorf("the call that was approved was not made:\n%s", out)
	}

	// A host that a command asked for waits like any other call.
	out, _ := u.golem("crawler", "exec", "curl", "-sm", "5", "http://data.example.net/")
	if !strings.Contains(out, "it asked for data.example.net") {
		t.Fatalf("a host that is not on the list: got %s", out)
	}
	u.waitFor(u.browser, "Unknown host")
	u.submit(click(`.item a[href*="/call/crawler-"]`))
	u.waitFor(u.browser, "data.example.net")
	u.viewAll(u.browser)
	u.screenshot("host")
	u.submit(click("button.no"))
	u.waitFor(u.browser, "Declined")
	if out := u.mustGolem(0, "crawler", "audit", "show", "--json", "--decision", "no"); !strings.Contains(out, "data.example.net") || !strings.Contains(out, "golem desk, in a browser") {
		t.Errorf("the journal has no decision about the host: %s", out)
	}

	// A host that the user always allows. The page shows the rule before.
	out, _ = u.golem("crawler", "exec", "curl", "-sm", "5", "http://more.example.net/")
	if !strings.Contains(out, "it asked for more.example.net") {
		t.Fatalf("a host that is not on the list: got %s", out)
	}
	u.do(chromedp.Navigate(u.base()))
	u.waitFor(u.browser, "Unknown host")
	u.submit(click(`.item a[href*="/call/crawler-"]`))
	u.waitFor(u.browser, "more.example.net")
	var rule string
	u.do(chromedp.Text("#always", &rule))
	u.viewAll(u.browser)
	u.submit(click("button[value=approve-always]"))
	u.waitFor(u.browser, "Approved")
	_, rule, _ = strings.Cut(rule, "revoke: ")
	if out := u.mustGolem(0, "crawler", "approvals"); rule == "" || !strings.Contains(out, rule) || !strings.Contains(out, "more.example.net") {
		t.Errorf("the page showed the rule %q, and golem remembers %s", rule, out)
	}
	if out := u.mustGolem(0, "crawler", "audit", "show", "--json", "--decision", "yes"); !strings.Contains(out, "remembered as rule ") {
		t.Errorf("the journal has no rule: %s", out)
	}
	for range 2 { // also after the answer itself was used
		if out, _ := u.golem("crawler", "exec", "curl", "-sm", "5", "http://more.example.net/"); strings.Contains(out, "it asked for") {
			t.Errorf("a host that is always allowed: got %s", out)
		}
	}

	// A button works once, and a process that does not work in the session is never ended.
	u.do(page.BringToFront(), chromedp.Navigate(u.base()+"live"))
	var status int
	u.do(chromedp.Evaluate(`fetch('control/shop/none', {method: 'POST', body: new URLSearchParams({action: 'end', nonce: 'x'})}).then(r => r.status)`, &status, awaitPromise))
	if status != 409 {
		t.Errorf("a button without a page: got %d", status)
	}
	if _, err := os.Stat(u.dir + "/shop/app.txt"); err != nil {
		t.Error(err)
	}
}

// waitGone waits until no element matches a query.
func (u *deskUser) waitGone(query string) {
	u.t.Helper()
	for end := time.Now().Add(browserPatience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		n := -1
		if err := chromedp.Run(u.browser, chromedp.Evaluate(`document.readyState === 'complete' ? document.querySelectorAll(`+"`"+query+"`"+`).length : -1`, &n)); err == nil && n == 0 {
			return
		}
	}
	u.t.Fatalf("the page still has %s:\n%s", query, u.text())
}
