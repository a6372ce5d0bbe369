package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// browserPatience is how long a page may take on a busy machine.
const browserPatience = 2 * time.Minute

// A deskUser is a user with golem's state, a running desk and a browser.
type deskUser struct {
	t       *testing.T
	dir     string // holds the programs
	environ []string
	address string          // what golem desk printed
	process int             // of golem desk
	first   context.Context // the browser of all users
	cookies cdp.BrowserContextID
	browser context.Context // the first tab of this user
}

// TestDesk decides in a real browser. All its tests use one browser, each with its own
// cookies.
func TestDesk(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed; scripts/need chromium=chromium installs it")
	}
	dir, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) // a process of the browser may still write there

	// chromedp starts the browser with Pdeathsig, which kills it when the thread that
	// started it ends. Other tests in this process end threads.
	goruntime.LockOSThread()
	t.Cleanup(goruntime.UnlockOSThread)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.UserDataDir(dir), chromedp.Flag("host-resolver-rules", "MAP "+reboundName+" 127.0.0.1"), chromedp.WSURLReadTimeout(browserPatience))
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	limited, cancel := context.WithTimeout(allocated, 10*time.Minute)
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(limited)
	t.Cleanup(cancel)
	if err := chromedp.Run(browser); err != nil { // starts it
		t.Fatal(err)
	}
	tests := map[string]func(*testing.T, *deskUser){"Approve": approveAtDesk, "Phone": approveOnPhone, "Changed": refuseChangedContent, "Unseen": nameUnseen, "Inert": keepInert, "Apply": applyAtDesk, "All": tickAllAtDesk, "Unviewed": nameUnviewed, "Push": pushAtDesk, "Supervise": superviseAtDesk, "Five": superviseFive, "Race": raceAtDesk, "Survive": surviveAtDesk, "Worker": refuseServiceWorker, "Rebind": refuseRebinding, "Tabs": openTabs, "Access": checkAccess, "Hub": approveAtHub, "HubChanged": refuseAtHub, "HubGone": loseHub, "HubDoubt": retryInDoubt, "Colours": colourSyntax, "Comments": commentAtDesk, "Send": sendComments, "Viewed": markViewed, "Lists": compareLists}
	if os.Getenv("GOLEM_TEST_PICTURES") != "" {
		tests["Pictures"], tests["PicturesHub"] = drawDesk, drawHub
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			test(t, &deskUser{t: t, first: browser, dir: t.TempDir(), environ: append(os.Environ(), "HOME="+home, "GOLEM_STATE="+filepath.Join(home, "state"), "DISPLAY=", "WAYLAND_DISPLAY=")})
		})
	}
}

// golem runs a command in a directory of the user, and returns its output and exit code.
func (u *deskUser) golem(dir string, args ...string) (string, int) {
	u.t.Helper()
	cmd := exec.Command("golem", args...)
	cmd.Dir, cmd.Env = filepath.Join(u.dir, dir), u.environ
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		u.t.Fatalf("golem %s: %v", args[:min(2, len(args))], err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// mustGolem is like golem, and fails unless the exit code is as wanted.
func (u *deskUser) mustGolem(code int, dir string, args ...string) string {
	u.t.Helper()
	out, got := u.golem(dir, args...)
	if got != code {
		u.t.Fatalf("golem %s: got exit code %d, want %d\n%s", args[:min(2, len(args))], got, code, out)
	}
	return out
}

// pending returns the ids of the calls that wait.
func (u *deskUser) pending(dir string) (ids []string) {
	u.t.Helper()
	var list struct{ Pending []struct{ ID, Answer string } }
	if err := json.Unmarshal([]byte(u.mustGolem(0, dir, "approvals", "--json")), &list); err != nil {
		u.t.Fatal(err)
	}
	for _, p := range list.Pending {
		if p.Answer == "" {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// startDesk starts golem desk.
func (u *deskUser) startDesk(args ...string) {
	u.t.Helper()
	cmd := exec.Command("golem", append([]string{"desk", "--no-open"}, args...)...)
	cmd.Dir, cmd.Env = u.dir, u.environ
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	u.process = cmd.Process.Pid
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		u.t.Fatalf("golem desk printed no address: %v", err)
	}
	u.address = strings.TrimSpace(line)
}

// openDesk starts golem desk, and a browser that logs in.
func (u *deskUser) openDesk() {
	u.t.Helper()
	u.startDesk()
	err := chromedp.Run(u.first, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		u.cookies, err = target.CreateBrowserContext().Do(ofBrowser(ctx))
		return err
	}))
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		chromedp.Run(u.first, chromedp.ActionFunc(func(ctx context.Context) error {
			return target.DisposeBrowserContext(u.cookies).Do(ofBrowser(ctx))
		}))
	})
	u.browser = u.newTab()
	u.do(chromedp.Navigate(u.address))
	u.waitFor(u.browser, "Everything that waits for you")
}

// base returns the address of the inbox.
func (u *deskUser) base() string { base, _, _ := strings.Cut(u.address, "?"); return base }

// newTab opens a tab of the user.
func (u *deskUser) newTab() context.Context {
	u.t.Helper()
	var id target.ID
	err := chromedp.Run(u.first, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		id, err = target.CreateTarget("about:blank").WithBrowserContextID(u.cookies).WithNewWindow(u.browser == nil).Do(ofBrowser(ctx))
		return err
	}))
	if err != nil {
		u.t.Fatal(err)
	}
	tab, cancel := chromedp.NewContext(u.first, chromedp.WithTargetID(id))
	u.t.Cleanup(cancel)
	if err := chromedp.Run(tab); err != nil {
		u.t.Fatal(err)
	}
	return tab
}

// ofBrowser returns a context for commands to the browser, in place of a tab.
func ofBrowser(ctx context.Context) context.Context {
	return cdp.WithExecutor(ctx, chromedp.FromContext(ctx).Browser)
}

// awaitPromise makes Evaluate wait for the result of a promise.
func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// do runs actions in the first tab.
func (u *deskUser) do(actions ...chromedp.Action) {
	u.t.Helper()
	u.doIn(u.browser, actions...)
}

func (u *deskUser) doIn(tab context.Context, actions ...chromedp.Action) {
	u.t.Helper()
	limited, cancel := context.WithTimeout(tab, browserPatience)
	defer cancel()
	for _, action := range actions {
		err := chromedp.Run(limited, action)
		for err != nil && strings.Contains(err.Error(), "Cannot find context") { // the next page came before the action began
			time.Sleep(20 * time.Millisecond)
			err = chromedp.Run(limited, action)
		}
		if err != nil {
			u.t.Fatalf("the browser: %v\n%s", err, u.textIn(tab))
		}
	}
}

// text returns the text of the page in the first tab.
func (u *deskUser) text() string { u.t.Helper(); return u.textIn(u.browser) }

func (u *deskUser) textIn(tab context.Context) (text string) {
	u.t.Helper()
	if err := chromedp.Run(tab, chromedp.Evaluate(`document.body.innerText`, &text)); err != nil {
		return "no page: " + err.Error()
	}
	return text
}

// waitFor waits until the page in a tab has a text. The tab may load another page meanwhile.
func (u *deskUser) waitFor(tab context.Context, want string) {
	u.t.Helper()
	text := ""
	for end := time.Now().Add(browserPatience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text = u.textIn(tab); strings.Contains(text, want) {
			return
		}
	}
	u.t.Fatalf("the page has no %q:\n%s", want, text)
}

// await waits until an expression is true in the first tab. The tab may load another page
// meanwhile.
func (u *deskUser) await(expression string) {
	u.t.Helper()
	for end := time.Now().Add(browserPatience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		is := false
		if err := chromedp.Run(u.browser, chromedp.Evaluate(expression, &is)); err == nil && is {
			return
		}
	}
	u.t.Fatalf("never true: %s\n%s", expression, u.text())
}

// submit runs actions that lead to another page, and waits for that page.
func (u *deskUser) submit(actions ...chromedp.Action) {
	u.t.Helper()
	u.do(chromedp.Evaluate(`document.body.dataset.old = 'yes'`, nil))
	u.do(actions...)
	for end := time.Now().Add(browserPatience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		loaded := false
		if err := chromedp.Run(u.browser, chromedp.Evaluate(`!!document.body && !document.body.dataset.old && document.readyState === 'complete'`, &loaded)); err == nil && loaded {
			return
		}
	}
	u.t.Fatalf("no other page was loaded:\n%s", u.text())
}

// viewAll scrolls until the button Approve works. A browser draws only the tab in front.
func (u *deskUser) viewAll(tab context.Context) {
	u.t.Helper()
	u.doIn(tab, page.BringToFront(), chromedp.Evaluate(`(() => { let at = 0; const step = () => {
			if (document.querySelector('form.answer[data-ready] button.yes:enabled')) return;
			at += innerHeight / 2; if (at > document.body.scrollHeight) at = 0;
			scrollTo(0, at); requestAnimationFrame(step) }; step() })()`, nil),
		chromedp.Poll(`!!document.querySelector('form.answer[data-ready] button.yes:enabled')`, nil, chromedp.WithPollingTimeout(browserPatience)))
}

// screenshot keeps a picture of a page in the directory of GOLEM_TEST_SCREENSHOTS.
func (u *deskUser) screenshot(name string) {
	dir := os.Getenv("GOLEM_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	var picture []byte
	for _, width := range []int64{360, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			u.do(page.BringToFront(), emulate(width, scheme), chromedp.FullScreenshot(&picture, 100))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture, 0o644); err != nil {
				u.t.Fatal(err)
			}
		}
	}
	u.do(emulate(1280, "light"))
}

// approveAtDesk approves and declines calls.
func approveAtDesk(t *testing.T, u *deskUser) {
	u.mustGolem(0, ".", "init", "notes")
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/a.md", "--content", "first\nsecond\n")
	u.openDesk()
	u.waitFor(u.browser, "/out/a.md")
	u.screenshot("inbox")

	// The address works once.
	response, err := http.Get(u.address)
	if err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(response.Body)
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized || !strings.Contains(string(said), "works once") {
		t.Errorf("the address a second time: got %s, %s", response.Status, said)
	}

	// The list follows calls that other processes make.
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/late.md", "--content", "x")
	u.waitFor(u.browser, "/out/late.md")

	// Two tabs show the call. One approves it after it showed everything, and the other
	// learns that.
	ids := u.pending("notes")
	other := u.newTab()
	for _, tab := range []context.Context{u.browser, other} {
		u.doIn(tab, chromedp.Navigate(u.base()), followLink("/out/a.md"), chromedp.WaitVisible("form.answer"))
	}
	u.do(page.BringToFront()) // a browser draws only the tab in front
	u.waitFor(u.browser, "second")
	u.screenshot("call")
	u.viewAll(u.browser)
	u.submit(chromedp.Evaluate(`document.querySelector("button.yes").click()`, nil))
	if text := u.text(); !strings.Contains(text, "Approved: "+ids[0]) || !strings.Contains(text, "golem desk, in a browser") {
		t.Errorf("after the approval:\n%s", text)
	}
	u.screenshot("decision")
	u.doIn(other, page.BringToFront()) // a tab in the background updates when it is in front again
	u.waitFor(other, "does not wait any more")
	u.do(page.BringToFront())
	u.mustGolem(0, "notes", "tool", "write_file", "--path", "/out/a.md", "--content", "first\nsecond\n")
	if got, err := os.ReadFile(filepath.Join(u.dir, "notes", "out", "a.md")); err != nil || string(got) != "first\nsecond\n" {
		t.Errorf("the call: got %q, %v", got, err)
	}
	shown := u.mustGolem(0, "notes", "audit", "show", ids[0])
	for _, want := range []string{", with golem desk, in a browser", "completely on screen", "the content of /out/a.md", "the text that was on screen; its hash is the one in the journal:\n┃ You are about to create /out/a.md", "\n┃ + first\n┃ + second\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("golem audit show: got no %q in\n%s", want, shown)
		}
	}

	// Declined, with a reason for the worker.
	u.do(chromedp.Navigate(u.base()), followLink("/out/late.md"), chromedp.WaitVisible("form.answer"), chromedp.SendKeys(`input[name=reason]`, "not like this"))
	u.submit(chromedp.Evaluate(`document.querySelector("button.no").click()`, nil))
	if out := u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/late.md", "--content", "x"); !strings.Contains(out, "you declined: not like this") {
		t.Errorf("a declined call: got %s", out)
	}
}

// refuseChangedContent checks that a decision counts only for the content that the page
// showed, and that a page decides once.
func refuseChangedContent(t *testing.T, u *deskUser) {
	u.mustGolem(0, ".", "init", "notes")
	file := filepath.Join(u.dir, "notes", "out", "a.md")
	if err := os.WriteFile(file, []byte("hi\nold line\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	edit := []string{"tool", "edit_file", "--path", "/out/a.md", "--old", "hi", "--new", "ho"}
	u.mustGolem(3, "notes", edit...)
	u.openDesk()
	u.do(followLink("/out/a.md"), chromedp.WaitVisible("form.answer"))
	u.viewAll(u.browser)

	// The file changes, and the same call waits with other changes. golem tells the page so,
	// but the page may have sent its form before.
	u.do(chromedp.Evaluate(`window.kept = document.querySelector('form.answer').cloneNode(true); 1`, nil))
	if err := os.WriteFile(file, []byte("hi\nanother line\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	u.mustGolem(3, "notes", edit...)
	u.submit(chromedp.Evaluate(`document.body.append(window.kept); window.kept.querySelector('button.yes').click()`, nil))
	u.waitFor(u.browser, "The content has changed since you looked at it")
	if text := u.text(); !strings.Contains(text, "another line") {
		t.Errorf("the new content is not shown:\n%s", text)
	}
	u.mustGolem(3, "notes", edit...) // not approved
	u.viewAll(u.browser)
	u.submit(chromedp.Evaluate(`document.querySelector("button.yes").click()`, nil))
	u.mustGolem(0, "notes", edit...)
}

// followLink clicks the first link with a part in its text or address, once there is one. The
// page finds the link itself, because the inbox may replace its rows at any moment.
func followLink(part string) chromedp.Action {
	return chromedp.Poll(fmt.Sprintf(`(() => {
		const link = [...document.links].find(a => a.textContent.includes(%[1]q) || a.href.includes(%[1]q));
		if (link) setTimeout(() => link.click()); // afterwards, because the next page ends this function
		return !!link;
	})()`, part), nil)
}

// nameUnseen checks that the page names what was not on the screen, and that an
// approval without it is recorded as such.
func nameUnseen(t *testing.T, u *deskUser) {
	u.mustGolem(0, ".", "init", "notes")
	long := strings.Repeat("one more line\n", 2000)
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/long.md", "--content", long)
	id := u.pending("notes")[0]
	u.openDesk()
	u.do(followLink("/out/long.md"))
	u.await(`!!document.querySelector('form.answer') && [...document.querySelectorAll('button')].some(b => b.textContent.includes('View 2,00'))`)
	u.screenshot("unseen")

	// A form that claims more than the page showed is refused, and the file is named.
	u.submit(chromedp.Evaluate(`const f = document.querySelector('form.answer'); f.elements.seen.value = 'call,change 0,content 0'; f.querySelector('button.yes').disabled = false; f.querySelector('button.yes').click()`, nil))
	u.waitFor(u.browser, "golem did not count your approval")
	if text := u.text(); !strings.Contains(text, "the content of /out/long.md") {
		t.Errorf("the file that was not viewed is not named:\n%s", text)
	}
	u.submit(chromedp.Click(`button[value=approve-unseen]`)) // without the box
	u.waitFor(u.browser, "golem did not count your approval")
	u.await(`document.querySelector('form.answer').elements.seen.value.includes('call')`)
	u.submit(chromedp.Click(`input[name=unseen]`), chromedp.Click(`button[value=approve-unseen]`))
	u.waitFor(u.browser, "Approved: "+id)
	if out := u.mustGolem(0, "notes", "audit", "show", id); !strings.Contains(out, "not everything: approved unseen") {
		t.Errorf("golem audit show: got\n%s", out)
	}

	// The file counts after the page showed all of it.
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/next.md", "--content", long)
	u.do(chromedp.Navigate(u.base()), followLink("/out/next.md"))
	u.await(`(() => { // the button works after the script has run
		const b = document.querySelector('form.answer') && [...document.querySelectorAll('button')].find(b => b.textContent.includes('View 2,00'));
		if (b) b.click();
		return document.body.innerText.includes('one more line') })()`)
	u.waitFor(u.browser, "one more line")
	u.viewAll(u.browser)
	id = u.pending("notes")[0]
	u.submit(chromedp.Evaluate(`document.querySelector("button.yes").click()`, nil))
	if out := u.mustGolem(0, "notes", "audit", "show", id); !strings.Contains(out, "completely on screen") {
		t.Errorf("golem audit show: got\n%s", out)
	}
}

// keepInert checks that names and content are only text for the browser.
func keepInert(t *testing.T, u *deskUser) {
	u.mustGolem(0, ".", "init", "notes")
	evil := `</span></h2><script>window.owned = 1</script><img src=x onerror="window.owned = 1"><a href="javascript:window.owned = 1">go</a><div hx-get="/" hx-trigger="load"></div>`
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/"+strings.ReplaceAll(evil, "/", "∕"), "--content", evil+"\n\u202ereversed\u2066 \x1b[31mred\n"+strings.Repeat("x", 100<<10)+"\n")
	u.openDesk()
	check := func(where string) {
		t.Helper()
		var found struct {
			Owned         bool
			Tags          int
			Width, Window float64
		}
		u.do(chromedp.Evaluate(`({owned: !!window.owned, tags: document.querySelectorAll('main script, main img, main a[href^="javascript"], main [hx-get="/"]').length, width: document.documentElement.scrollWidth, window: innerWidth})`, &found))
		if found.Owned || found.Tags > 0 {
			t.Errorf("%s: text became part of the page: %+v", where, found)
		}
		if found.Width > found.Window {
			t.Errorf("%s: the page is %v wide, and the window %v", where, found.Width, found.Window)
		}
	}
	u.waitFor(u.browser, "<script>")
	check("inbox")
	u.do(chromedp.Click(`.item h2 a`), chromedp.WaitVisible("form.answer"))
	u.waitFor(u.browser, `\u202e`)
	check("call")
	u.do(emulate(360, "dark"))
	check("call on a narrow screen")
	if text := u.text(); strings.ContainsAny(text, "\u202e\u2066\x1b") || !strings.Contains(text, `\u202ereversed`) {
		t.Error("the page has characters that reorder or hide text")
	}
}
