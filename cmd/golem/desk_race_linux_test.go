package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// raceAtDesk checks that two reviewers who decide about the same hunk apply it once, that the
// other tab learns of it soon, that another user of the machine learns nothing, and that a
// tab says when its desk has ended.
func raceAtDesk(t *testing.T, u *deskUser) {
	temp := filepath.Join(u.dir, "temp")
	if err := os.Mkdir(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	u.environ = append(u.environ, "TMPDIR="+temp)
	u.write("shop/a.txt", "old\n")
	u.mustGolem(0, "shop", "exec", "sh", "-c", "echo new >a.txt")
	u.openDesk()

	// Both tabs show the question for the same hunk. The second one is a window of its own,
	// because a browser draws only the tab in front.
	ask := func(tab context.Context) {
		t.Helper()
		u.doIn(tab, page.BringToFront(), chromedp.Navigate(u.base()), followLink("changed,"), chromedp.WaitVisible("form.pick"), click(`label:has([title="/a.txt"])`), click(`button[value=apply]`), chromedp.WaitVisible("form.answer"))
		u.viewAll(tab)
	}
	other := u.newWindow()
	ask(u.browser)
	ask(other)
	u.doIn(other, chromedp.Evaluate(`window.kept = document.querySelector('form.answer').cloneNode(true);
		new MutationObserver(() => { if (!window.told && document.body.innerText.includes('does not wait any more')) window.told = Date.now() }).observe(document.body, {subtree: true, childList: true}); 1`, nil))
	var clicked, told float64
	u.do(chromedp.Evaluate(`Date.now()`, &clicked))
	u.submit(click("button.yes"))
	u.waitFor(u.browser, "golem undo restores")
	if got := u.read("shop/a.txt"); got != "new\n" {
		t.Errorf("the hunk: got %q", got)
	}
	u.waitFor(other, "does not wait any more")
	u.doIn(other, chromedp.Poll(`window.told`, &told, chromedp.WithPollingTimeout(browserPatience)))
	t.Logf("the other tab learned of the decision %.0f ms after the click", told-clicked)
	if told-clicked > 10_000 { // a busy machine; the goal is 200 ms
		t.Errorf("the other tab learned of the decision after %.0f ms", told-clicked)
	}

	// The form of the other tab may be on its way already. It changes nothing.
	u.write("shop/a.txt", "edited\n")
	u.doIn(other, chromedp.Evaluate(`document.body.append(window.kept); window.kept.querySelector('button.yes').click()`, nil))
	u.waitFor(other, "Not done")
	if got := u.read("shop/a.txt"); got != "edited\n" {
		t.Errorf("the second reviewer applied it again: got %q", got)
	}

	// Another user of this machine.
	if os.Getuid() == 0 {
		cmd := exec.Command("sh", "-c", `cat "$1"/golem-desk-*/* /proc/"$2"/environ /proc/"$2"/mem; ls /proc/"$2"/fd; tr '\0' ' ' </proc/"$2"/cmdline; curl -s "$3"`, "sh", temp, strconv.Itoa(u.process), u.base())
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, _ := cmd.CombinedOutput()
		_, token, _ := strings.Cut(u.address, "?token=")
		if strings.Contains(string(out), token) || strings.Contains(string(out), "GOLEM_STATE") || !strings.Contains(string(out), "log in with the address") {
			t.Errorf("another user: got %s", out)
		}
	}

	// The desk ends. Its tabs say so, and an old cookie does not open a new desk.
	u.do(chromedp.Navigate(u.base()))
	u.waitFor(u.browser, "Everything that waits for you")
	p, err := os.FindProcess(u.process)
	if err != nil {
		t.Fatal(err)
	}
	p.Signal(os.Interrupt)
	u.waitFor(u.browser, "golem desk has ended")
}

// newWindow opens a window of the user.
func (u *deskUser) newWindow() context.Context {
	u.t.Helper()
	old := u.browser
	u.browser = nil
	defer func() { u.browser = old }()
	return u.newTab()
}

// TestExploreChanged checks that golem status -i refuses an approval of a call that has
// changed since it was shown.
func TestExploreChanged(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, nil, "true")
	if out, code := p.golem("init", "notes"); code != 0 {
		t.Fatal(out)
	}
	p.write("notes/out/a.md", "hi\nold line\n")
	edit := []string{"tool", "-C", "notes", "edit_file", "--path", "/out/a.md", "--old", "hi", "--new", "ho"}
	if out, code := p.golem(edit...); code != 3 {
		t.Fatalf("code %d\n%s", code, out)
	}
	p.startAt(100, "status", "-i")
	p.typeKeys("waiting for you: 1 item", "\r")
	p.screen.Until("[y]es")
	p.write("notes/out/a.md", "hi\nanother line\n")
	if out, code := p.golem(edit...); code != 3 {
		t.Fatalf("code %d\n%s", code, out)
	}
	time.Sleep(time.Second) // a question counts only after a while
	p.typeKeys("", "y")
	p.typeKeys("these wait", "q")
	p.waitForEnd()
	if out, code := p.golem(edit...); code != 3 {
		t.Errorf("a call that was never shown counts as approved: code %d\n%s", code, out)
	}
}

// TestReviewPlain pushes a staged commit line by line.
func TestReviewPlain(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, nil, "true")
	p.write("golem-forge.config.yaml", "sandbox: {root: ., mode: overlay}\nclearance:\n  targets:\n    origin: {type: bare, path: ../store.git}\n")
	p.write("main.worker", "---\nsandbox: inherit\ntoolsets: {filesystem: , git: }\n---\nWork.\n")
	store := filepath.Join(filepath.Dir(p.dir), "store.git")
	if out, err := exec.Command("git", "init", "-q", "--bare", store).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{"trust", "--yes"}, {"tool", "write_file", "--path", "/note.md", "--content", "a note\n"}, {"tool", "git_stage", "--files", "/note.md", "--message", "Add a note"}} {
		if out, code := p.golem(args...); code != 0 {
			t.Fatalf("%v: code %d\n%s", args, code, out)
		}
	}
	p.startAt(100, "review", "-i", "--plain")
	p.answer("You are about to push commit", "y\r")
	p.answer("You are about to", "y\r")
	if code, seen := p.waitForEnd(); code != 0 || strings.Contains(seen, "\x1b[?1049h") {
		t.Errorf("code %d\n%q", code, seen)
	}
	if out, err := exec.Command("git", "-C", store, "log", "--format=%s", "--all").CombinedOutput(); err != nil || string(out) != "Add a note\n" {
		t.Errorf("the repository: got %q, %v", out, err)
	}
}
