package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/work/job"
)

// A deskHub is a hub with a node, both real processes, for a user of the desk.
type deskHub struct {
	*deskUser
	server  string // the program golem-hub
	data    string
	listen  string
	process *exec.Cmd
}

// newDeskHub starts a hub and a node, and makes the user an approver of the hub that the
// configuration names.
func newDeskHub(t *testing.T, u *deskUser) *deskHub {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &deskHub{deskUser: u, server: filepath.Join(t.TempDir(), "golem-hub"), data: filepath.Join(t.TempDir(), "data"), listen: l.Addr().String()}
	l.Close()
	if out, err := exec.Command("go", "build", "-o", h.server, "../golem-hub").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	home := t.TempDir()
	u.environ = append(u.environ, "XDG_CONFIG_HOME="+filepath.Join(home, "config"), "GOLEM_HUB=")
	config := filepath.Join(home, "config", "golem")
	if err := os.MkdirAll(config, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "config.yaml"), []byte("hub: "+filepath.Join(config, "mine.creds")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start()
	for _, one := range []struct{ role, name, file string }{{"node", "build-1", filepath.Join(u.dir, "node.creds")}, {"node", "fake", filepath.Join(u.dir, "fake.creds")},
		{"approve", "reviewer", filepath.Join(config, "mine.creds")}, {"approve", "second", filepath.Join(u.dir, "second.creds")}} {
		u.mustGolem(0, ".", "hub", "invite", "--data", h.data, "--role", one.role, "--name", one.name, "--out", one.file)
	}
	node := exec.Command("golem", "node", "--creds", filepath.Join(u.dir, "node.creds"), "--label", "gpu", "--slots", "4")
	own := t.TempDir()
	node.Dir, node.Env = own, append(os.Environ(), "HOME="+own, "GOLEM_STATE="+filepath.Join(own, "state"), "XDG_CONFIG_HOME=", "GOLEM_HUB=")
	node.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(node) })
	return h
}

// end ends a process as Ctrl-C does, or after a while at once.
func end(cmd *exec.Cmd) {
	cmd.Process.Signal(os.Interrupt)
	late := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
	defer late.Stop()
	cmd.Wait()
}

// start starts the hub, and waits until it answers.
func (h *deskHub) start() {
	h.t.Helper()
	h.process = exec.Command(h.server, "--data", h.data, "--listen", h.listen)
	h.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := h.process.Start(); err != nil {
		h.t.Fatal(err)
	}
	started := h.process
	h.t.Cleanup(func() { end(started) })
	for until := time.Now().Add(browserPatience); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", h.listen)
		if err == nil {
			c.Close()
			if _, err = os.Stat(filepath.Join(h.data, "admin.creds")); err == nil {
				return
			}
		}
		if time.Now().After(until) {
			h.t.Fatalf("the hub does not start: %v", err)
		}
	}
}

// connect connects with credentials in a file.
func (h *deskHub) connect(file string) *hub.Client {
	h.t.Helper()
	credentials, err := hub.ReadCredentials(file)
	if err != nil {
		h.t.Fatal(err)
	}
	c, err := hub.Connect(h.t.Context(), credentials, hub.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	return c
}

// evilText is text that becomes part of a page if nobody escapes it.
const evilText = `<script>window.owned = 1</script><img src=x onerror="window.owned = 1"><a href="javascript:window.owned = 1">go</a><div hx-get="/" hx-trigger="load"></div>`

// newProgram makes a program whose run writes a file after an approval. Its name, its input, and
// what the model writes are hostile.
func (h *deskHub) newProgram(name, content string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Join(h.dir, name, "out"), 0o700); err != nil {
		h.t.Fatal(err)
	}
	said, err := json.Marshal(content)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(name+"/golem-forge.config.yaml", "sandbox:\n  mounts:\n    - {source: ./out, target: /out, mode: overlay, approval: {write: ask}}\n")
	h.write(name+"/main.worker", "---\nsandbox: inherit\ntoolsets:\n  filesystem:\n---\nWork.\n")
	h.write(name+"/script.yaml", fmt.Sprintf("- {text: %s, calls: [{tool: write_file, args: {path: /out/paper.md, content: %s}}]}\n- {text: %s}\n", said, said, said))
	h.mustGolem(0, name, "trust", "--yes")
}

// submitJob submits the program and returns the id of the job.
func (h *deskHub) submitJob(name string, more ...string) string {
	h.t.Helper()
	return h.submitInput(name, "Summarise "+evilText, more...)
}

// submitInput is submitJob with an input.
func (h *deskHub) submitInput(name, input string, more ...string) string {
	h.t.Helper()
	out := h.mustGolem(0, name, append([]string{"submit", ".", input, "--model", "scripted:script.yaml"}, more...)...)
	_, id, _ := strings.Cut(out, "next: golem jobs logs -f ")
	id, _, _ = strings.Cut(id, "\n")
	return id
}

// waitForCall waits until a call of a job waits, and returns the job.
func waitForCall(t *testing.T, c *hub.Client, id string) hub.Job {
	t.Helper()
	for until := time.Now().Add(browserPatience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		j, err := c.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if len(j.Requests) > 0 {
			return j
		}
		if j.State.IsOver() {
			t.Fatalf("the job is over: %+v", j)
		}
	}
	t.Fatal("no call waits")
	return hub.Job{}
}

// checkInert checks that no text became part of the page.
func (h *deskHub) checkInert(where string) {
	h.t.Helper()
	var found struct {
		Owned         bool
		Tags          int
		Width, Window float64
	}
	h.do(chromedp.Evaluate(`({owned: !!window.owned, tags: document.querySelectorAll('main script, main img, main a[href^="javascript"], main [hx-get="/"]').length, width: document.documentElement.scrollWidth, window: innerWidth})`, &found))
	if found.Owned || found.Tags > 0 {
		h.t.Errorf("%s: text became part of the page: %+v", where, found)
	}
	if found.Width > found.Window {
		h.t.Errorf("%s: the page is %v wide, and the window %v", where, found.Width, found.Window)
	}
}

// click clicks on a part of the page that golem replaces again and again, and waits for the next
// page.
func (h *deskHub) click(selector string) {
	h.t.Helper()
	h.submit(chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).click()", selector), nil))
}

// approveAtHub approves a call of a job at the desk. The job continues, and the changes come
// here.
func approveAtHub(t *testing.T, u *deskUser) {
	h := newDeskHub(t, u)
	name := "n<img src=x onerror='window.owned=1'>"
	h.newProgram(name, evilText+"\nsecond line\n")
	id := h.submitJob(name, "--label", "gpu")
	h.openDesk()
	h.waitFor(u.browser, "and at your hub")
	h.waitFor(u.browser, "write_file: ")
	h.checkInert("inbox")
	h.screenshot("hub-inbox")
	h.do(chromedp.Navigate(h.base() + "jobs"))
	h.waitFor(u.browser, "1 call to decide")
	for _, want := range []string{id, "running", "build-1", "gpu", "You are reviewer, with the role approve", "1 of 4 slots"} {
		h.waitFor(u.browser, want)
	}
	h.checkInert("jobs")
	h.screenshot("hub-jobs")

	h.do(chromedp.Navigate(h.base()), followLink("write_file: "), chromedp.WaitVisible("form.answer"))
	h.waitFor(u.browser, "second line")
	h.waitFor(u.browser, "at your hub")
	h.checkInert("call")
	h.screenshot("hub-call")
	client := h.connect(filepath.Join(u.dir, "second.creds"))
	call := waitForCall(t, client, id).Requests[0]
	if text := u.text(); !strings.Contains(text, call.Digest) {
		t.Errorf("the page does not name the digest %s:\n%s", call.Digest, text)
	}
	h.viewAll(u.browser)
	h.submit(chromedp.Evaluate(`document.querySelector("button.yes").click()`, nil))
	for _, want := range []string{"Approved: " + call.ID, "golem desk, in a browser", "job " + id} {
		h.waitFor(u.browser, want)
	}
	h.screenshot("hub-decision")

	// The journal of this machine has the decision, and so has the journal of the job.
	shown := h.mustGolem(0, ".", "audit", "show", call.ID)
	for _, want := range []string{", with golem desk, in a browser", "completely on screen", "the content of /out/paper.md", "the text that was on screen; its hash is the one in the journal:", "┃ + second line"} {
		if !strings.Contains(shown, want) {
			t.Errorf("golem audit show: got no %q in\n%s", want, shown)
		}
	}
	h.do(chromedp.Navigate(h.base() + "job/" + id))
	h.waitFor(u.browser, "✓ done")
	h.waitFor(u.browser, "Fetch the changes")
	h.waitFor(u.browser, "<script>")
	h.checkInert("job")
	h.screenshot("hub-job")
	if text := journalOf(t, client, id); !strings.Contains(text, "golem desk, in a browser") || !strings.Contains(text, "approver reviewer") || !strings.Contains(text, `"text":"`) {
		t.Errorf("the journal of the job:\n%s", text)
	}
	h.do(chromedp.Navigate(h.base()+"pictures"), chromedp.WaitVisible("main h1"))
	h.waitFor(u.browser, "1 by hand, 0 by rule")
	h.waitFor(u.browser, ", 1 call") // that waited

	// The inbox offers the changes, and the job becomes a session.
	h.do(chromedp.Navigate(h.base()))
	h.waitFor(u.browser, "a job is done: 1 changed file to fetch")
	h.do(followLink("a job is done"), chromedp.WaitVisible("#job-fetch"))
	h.click("#job-fetch")
	h.waitFor(u.browser, "job "+id+" is session")
	h.waitFor(u.browser, "paper.md")
	h.do(chromedp.Navigate(h.base()))
	h.waitFor(u.browser, "1 file changed")
	h.waitUntilGone("a job is done")
}

// waitUntilGone waits until the page has no text any more.
func (h *deskHub) waitUntilGone(text string) {
	h.t.Helper()
	for until := time.Now().Add(browserPatience); strings.Contains(h.text(), text); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			h.t.Fatalf("the page still has %q:\n%s", text, h.text())
		}
	}
}

// journalOf returns the journal of a job, from its last checkpoint.
func journalOf(t *testing.T, c *hub.Client, id string) string {
	t.Helper()
	j, err := c.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	get := func(hash string) []byte {
		data, err := c.Get(t.Context(), hub.Part{Job: id, Hash: hash})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var s job.Snapshot
	if err := json.Unmarshal(get(j.Checkpoint), &s); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range s.State {
		if strings.HasPrefix(e.Name, "journal") && strings.HasSuffix(e.Name, ".jsonl") {
			all.Write(get(e.Hash))
		}
	}
	return all.String()
}

// refuseAtHub checks that a decision counts only for what the page showed, that the second
// approver learns who was faster, and that the page says who may not decide.
func refuseAtHub(t *testing.T, u *deskUser) {
	h := newDeskHub(t, u)
	h.newProgram("one", "the first content\n")
	h.newProgram("two", "the second content\n")
	second := h.connect(filepath.Join(u.dir, "second.creds"))
	one, two := h.submitJob("one", "--label", "gpu"), h.submitJob("two", "--label", "gpu")
	read := func(id string) (hub.Request, []byte) {
		j := waitForCall(t, second, id)
		text, err := second.Get(t.Context(), hub.Part{Job: id, Hash: j.Requests[0].Hash})
		if err != nil {
			t.Fatal(err)
		}
		return j.Requests[0], text
	}
	first, firstText := read(one)
	other, otherText := read(two)

	// A node asks about one content, and then about another under the same id.
	node := h.connect(filepath.Join(u.dir, "fake.creds"))
	fake := h.submitJob("one", "--label", "fake")
	taken, err := node.Take(t.Context(), hub.Offer{Labels: []string{"fake"}, Wait: 10 * time.Second})
	if err != nil || taken == nil || taken.ID != fake {
		t.Fatalf("the node took %v, %v", taken, err)
	}
	at := hub.Attempt{Job: fake, Number: taken.Attempt}
	beating, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for beating.Err() == nil {
			node.Beat(beating, at)
			time.Sleep(time.Second)
		}
	}()
	ask := func(r hub.Request, text []byte) {
		t.Helper()
		if err := node.Put(t.Context(), hub.Part{Job: fake, Attempt: taken.Attempt, Hash: r.Hash, Size: int64(len(text))}, bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		r.ID, r.Decided = "same1234", nil
		if err := node.Ask(t.Context(), hub.Question{Attempt: at, Requests: []hub.Request{r}}); err != nil {
			t.Fatal(err)
		}
	}
	ask(first, firstText)
	h.openDesk()
	h.waitFor(u.browser, "3 items")
	h.do(chromedp.Navigate(h.base()+"job/"+fake+"/call/same1234"), chromedp.WaitVisible("form.answer"))
	h.waitFor(u.browser, "the first content")
	h.viewAll(u.browser)
	h.do(chromedp.Evaluate(`window.kept = document.querySelector('form.answer').cloneNode(true); 1`, nil))
	ask(other, otherText)
	h.waitFor(u.browser, "the call changed since it was shown")
	h.submit(chromedp.Evaluate(`document.body.append(window.kept); window.kept.querySelector('button.yes').click()`, nil))
	h.waitFor(u.browser, "The content has changed since you looked at it")
	h.waitFor(u.browser, "the second content")
	if j := waitForCall(t, second, fake); j.Requests[0].Decided != nil {
		t.Error("a decision about the old content counts")
	}
	h.viewAll(u.browser)
	h.submit(chromedp.Evaluate(`document.querySelector("button.yes").click()`, nil))
	h.waitFor(u.browser, "Approved: same1234")
	j := waitForCall(t, second, fake)
	spec, err := hub.OpenSpec(j.Spec)
	if err != nil || j.Requests[0].Decided == nil {
		t.Fatalf("no decision: %+v, %v", j.Requests, err)
	}
	d, err := hub.OpenDecision(*j.Requests[0].Decided, spec, j.Requests[0])
	if err != nil || !d.Reply.Yes || d.Hash != other.Hash || d.Name != "reviewer" || !strings.HasPrefix(d.Reply.Front, "golem desk, in a browser") || len(d.Reply.Rendered) == 0 {
		t.Errorf("the decision: got %+v, %v", d, err)
	}

	// A page decides once.
	response, err := http.Post(h.base()+"job/"+one+"/call/"+first.ID, "application/x-www-form-urlencoded", strings.NewReader("answer=approve"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized && response.StatusCode != http.StatusForbidden {
		t.Errorf("a decision without a cookie: got %s", response.Status)
	}

	// Somebody else is faster.
	h.do(chromedp.Navigate(h.base()+"job/"+one+"/call/"+first.ID), chromedp.WaitVisible("form.answer"))
	h.viewAll(u.browser)
	h.do(chromedp.Evaluate(`window.kept = document.querySelector('form.answer').cloneNode(true); 1`, nil))
	h.mustGolem(0, ".", "approve", "--hub", "--creds", filepath.Join(u.dir, "second.creds"), first.ID)
	h.waitFor(u.browser, "This call does not wait any more")
	h.waitFor(u.browser, "second approved it")
	h.submit(chromedp.Evaluate(`document.body.append(window.kept); window.kept.querySelector('button.no').click()`, nil))
	h.waitFor(u.browser, "second approved it")
	h.screenshot("hub-late")

	// The page says who may decide before it asks.
	elsewhere := h.submitJob("two", "--label", "gpu", "--approver", "second")
	call := waitForCall(t, second, elsewhere).Requests[0]
	h.do(chromedp.Navigate(h.base() + "job/" + elsewhere))
	h.waitFor(u.browser, "Waits for a decision: write_file")
	h.click(".waits a")
	h.waitFor(u.browser, "does not name you as an approver; these may decide: second")
	var forms int
	h.do(chromedp.Evaluate(`document.querySelectorAll('form.answer').length`, &forms))
	if forms != 0 {
		t.Error("the page asks somebody who may not decide")
	}
	h.screenshot("hub-blocked")
	h.do(chromedp.Navigate(h.base()))
	h.waitFor(u.browser, other.ID)
	if text := u.text(); strings.Contains(text, call.ID) {
		t.Errorf("the inbox:\n%s", text)
	}

	// Cancel and retry.
	h.do(chromedp.Navigate(h.base()+"job/"+elsewhere), chromedp.WaitVisible("#job-cancel"))
	h.click("#job-cancel")
	h.waitFor(u.browser, "cancelled")
	h.do(chromedp.WaitVisible("#job-retry"))
	h.click("#job-retry")
	h.waitFor(u.browser, "is queued again")
	h.waitFor(u.browser, "Waits for a decision")
}

// loseHub stops the hub while pages are open. They say so, the rest works, and they recover.
func loseHub(t *testing.T, u *deskUser) {
	h := newDeskHub(t, u)
	h.newProgram("one", "the content\n")
	id := h.submitJob("one", "--label", "gpu")
	h.openDesk()
	h.waitFor(u.browser, "write_file: ")
	job := h.newTab()
	h.doIn(job, chromedp.Navigate(h.base()+"job/"+id))
	h.waitFor(job, "Waits for a decision")
	h.do(page.BringToFront())
	end(h.process)
	h.waitFor(u.browser, "golem cannot ask your hub")
	for _, want := range []string{"the hub at nats://" + h.listen + " does not answer; check that golem hub runs there", "This page shows what the hub said last", "write_file: "} {
		h.waitFor(u.browser, want)
	}
	h.screenshot("hub-gone")

	// The desk still works, and no page waits for the hub.
	h.mustGolem(3, "one", "tool", "write_file", "--path", "/out/local.md", "--content", "x")
	h.waitFor(u.browser, "/out/local.md")
	for _, path := range []string{"", "jobs", "job/" + id, "live"} {
		began := time.Now()
		h.do(chromedp.Navigate(h.base()+path), chromedp.WaitVisible("main h1"))
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the page %q took %v without the hub", path, took)
		}
	}
	h.do(chromedp.Navigate(h.base()), followLink("/job/"))
	h.waitFor(u.browser, "Not done")
	h.waitFor(u.browser, "check that golem hub runs there")

	h.do(chromedp.Navigate(h.base()))
	h.waitFor(u.browser, "golem cannot ask your hub")
	h.start()
	h.waitUntilGone("golem cannot ask your hub")
	h.do(followLink("/job/"), chromedp.WaitVisible("form.answer"))
	h.viewAll(u.browser)
	h.submit(chromedp.Evaluate(`document.querySelector("button.yes").click()`, nil))
	h.waitFor(u.browser, "Approved: ")
	h.doIn(job, page.BringToFront())
	h.waitFor(job, "✓ done")
}

// retryInDoubt shows a job in doubt. The desk asks before it makes the call again.
func retryInDoubt(t *testing.T, u *deskUser) {
	h := newDeskHub(t, u)
	h.newProgram("one", "the content\n")
	node, second := h.connect(filepath.Join(u.dir, "fake.creds")), h.connect(filepath.Join(u.dir, "second.creds"))
	id := h.submitJob("one", "--label", "fake")
	take := func(want int) {
		t.Helper()
		taken, err := node.Take(t.Context(), hub.Offer{Labels: []string{"fake"}, Wait: browserPatience})
		if err != nil || taken == nil || taken.ID != id || taken.Attempt != want {
			t.Fatalf("the node took %+v, %v, want attempt %d of %s", taken, err, want, id)
		}
	}
	take(1)
	first := hub.Attempt{Job: id, Number: 1}
	if _, err := node.Claim(t.Context(), hub.Claim{Attempt: first, Call: "call1", Tool: "send_mail<b>", Digest: "d", Nonce: "n"}); err != nil {
		t.Fatal(err)
	}
	if err := node.End(t.Context(), hub.End{Attempt: first, State: hub.InDoubt, Doubt: &hub.Doubt{Call: "call1", Tool: "send_mail<b>"}}); err != nil {
		t.Fatal(err)
	}
	h.openDesk()
	h.waitFor(u.browser, "a job is in doubt: a machine was cut off during a call")
	h.waitFor(u.browser, "nobody knows whether send_mail<b> was done")
	h.waitFor(u.browser, "high risk")
	h.checkInert("inbox")
	h.screenshot("hub-doubt-inbox")
	h.do(followLink("a job is in doubt"), chromedp.WaitVisible("#job-retry"))
	h.waitFor(u.browser, "In doubt: attempt 1 began send_mail<b> and was cut off")
	h.checkInert("job")
	h.screenshot("hub-doubt")

	// Retry asks first, and going back changes nothing.
	h.click("#job-retry")
	h.waitFor(u.browser, "Make the call in doubt again?")
	h.waitFor(u.browser, "it is done a second time now")
	h.screenshot("hub-doubt-retry")
	state := func() hub.State {
		t.Helper()
		j, err := second.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return j.State
	}
	if got := state(); got != hub.InDoubt {
		t.Fatalf("before the user has answered: the job is %s", got)
	}
	h.click("main a.button")
	h.waitFor(u.browser, "▲ in doubt")
	h.click("#job-retry")
	h.waitFor(u.browser, "Make the call in doubt again?")
	h.click("button[value=retry]")
	h.waitFor(u.browser, "job "+id+" is queued again")
	take(2)
	if _, err := node.Claim(t.Context(), hub.Claim{Attempt: hub.Attempt{Job: id, Number: 2}, Call: "call1", Tool: "send_mail<b>", Digest: "d", Nonce: "m"}); err != nil {
		t.Errorf("the call may be made again: %v", err)
	}
	h.do(chromedp.Navigate(h.base()))
	h.waitUntilGone("a job is in doubt")
}

// drawHub takes the picture of the jobs in the docs: one is done, one failed, and two wait.
func drawHub(t *testing.T, u *deskUser) {
	dir, err := filepath.Abs(filepath.Join("..", "..", os.Getenv("GOLEM_TEST_PICTURES")))
	if err != nil {
		t.Fatal(err)
	}
	h := newDeskHub(t, u)
	client := h.connect(filepath.Join(u.dir, "second.creds"))
	h.newProgram("papers", "# Findings\n\n- The sample has 41 plants.\n- Shade halves their growth.\n")
	h.newProgram("letters", "Nobody asks for money.\n")
	h.newProgram("tests", "")
	h.write("tests/script.yaml", "- fail: denied\n")
	done := h.submitInput("papers", "Summarise the first paper")
	h.mustGolem(0, ".", "approve", "--hub", waitForCall(t, client, done).Requests[0].ID)
	h.submitInput("tests", "Run the tests until they pass", "--label", "gpu")
	waitForCall(t, client, h.submitInput("papers", "Summarise the second paper", "--label", "gpu"))
	waitForCall(t, client, h.submitInput("letters", "What do the letters say?"))
	h.openDesk()
	h.do(chromedp.Navigate(h.base() + "jobs"))
	for _, want := range []string{"✓ done", "✗ failed", "1 call to decide"} {
		h.waitFor(u.browser, want)
	}
	h.picture(dir, "desk-jobs", 620)
}

// TestNotifyHub checks that golem desk tells the user elsewhere once about each call that waits at
// the hub, also if several desks run, and with no path, content or link.
func TestNotifyHub(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	u := &deskUser{t: t, dir: t.TempDir(), environ: append(os.Environ(), "HOME="+home, "GOLEM_STATE="+filepath.Join(home, "state"), "DISPLAY=", "WAYLAND_DISPLAY=")}
	h := newDeskHub(t, u)
	tell, told := filepath.Join(home, "tell"), filepath.Join(home, "told")
	if err := os.WriteFile(tell, []byte("#!/bin/sh\n{ cat; echo; } >> "+told+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	config := ""
	for _, v := range u.environ {
		if dir, ok := strings.CutPrefix(v, "XDG_CONFIG_HOME="); ok {
			config = filepath.Join(dir, "golem", "config.yaml")
		}
	}
	text, err := os.ReadFile(config)
	if err == nil {
		err = os.WriteFile(config, append(text, "desk: {url: https://desk.example.net, listen: '127.0.0.1:0'}\nnotify: {show: off, command: ["+tell+"]}\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.newProgram("secret", "canary\n")
	client := h.connect(filepath.Join(u.dir, "second.creds"))
	lines := func() []string {
		text, _ := os.ReadFile(told)
		whole := text[:bytes.LastIndexByte(text, '\n')+1] // the program may be writing the last one
		return slices.Collect(strings.Lines(string(whole)))
	}
	const want = `{"text":"1 call waits for you at the hub, low risk: write_file","tools":["write_file"],"directory":"hub","risk":"low"}` + "\n"
	until := func(n int) {
		t.Helper()
		for late := time.Now().Add(browserPatience + waitsLong); len(lines()) < n; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("golem told %q, want %d lines", lines(), n)
			}
		}
		if got := lines(); len(got) != n || got[n-1] != want {
			t.Errorf("golem told %q, want %d times %s", got, n, want)
		}
	}
	waitForCall(t, client, h.submitInput("secret", "work", "--label", "gpu"))
	u.startDesk()
	u.startDesk()
	until(1)
	waitForCall(t, client, h.submitInput("secret", "work again", "--label", "gpu"))
	until(2)
	time.Sleep(waitsLong + 5*time.Second) // both desks look again
	until(2)
}

// waitsLong is how long a call waits before golem tells the user.
const waitsLong = 10 * time.Second
