package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/golem-forge/golem/internal/checks/testutil"
)

// surviveAtDesk checks a session with 6,000 files and a line of 1 MB, requests of a program
// in the jail and of other sites, and clients that never read.
func surviveAtDesk(t *testing.T, u *deskUser) {
	u.write("shop/a.txt", "old\n")
	u.mustGolem(0, "shop", "exec", "sh", "-c", `mkdir -p many/1 && cd many && i=0; while [ $i -lt 6000 ]; do echo $i >1/$i.txt; i=$((i+1)); done; head -c 1000000 /dev/zero | tr '\0' x >line.txt`)
	u.openDesk()
	address, err := url.Parse(u.address)
	if err != nil {
		t.Fatal(err)
	}

	// Clients that ask for events and never read, more than the desk serves at once.
	var cookie string
	u.do(chromedp.ActionFunc(func(ctx context.Context) error {
		cookies, err := network.GetCookies().WithURLs([]string{u.base()}).Do(ctx)
		for _, c := range cookies {
			cookie = c.Name + "=" + c.Value
		}
		return err
	}))
	for range 60 {
		c, err := net.Dial("tcp", address.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET %sevents HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\n\r\n", address.Path, address.Host, cookie)
	}

	// The page lists a part of the files, and the rest when the user scrolls.
	began, before := time.Now(), peakMemory(t, u.process)
	u.openSession()
	t.Logf("opened 6,000 files after %v, with %d MB more", time.Since(began).Round(time.Millisecond), (peakMemory(t, u.process)-before)>>20)
	if more := peakMemory(t, u.process) - before; more > 60<<20 { // make bench compares with the target
		t.Errorf("opening a page took %d MB of memory", more>>20)
	}
	u.waitFor(u.browser, "6,001 files changed")
	var files, width int
	u.do(chromedp.Evaluate(`document.querySelectorAll('.file').length`, &files))
	if files < 100 || files > 400 {
		t.Errorf("the page begins with %d files", files)
	}
	u.do(chromedp.Evaluate(`(() => { const step = () => { const more = document.querySelector('.more'); if (more && document.querySelectorAll('.file').length < 700) { more.scrollIntoView(); requestAnimationFrame(step) } }; step() })()`, nil),
		chromedp.Poll(`document.querySelectorAll('.file').length >= 600`, nil, chromedp.WithPollingTimeout(browserPatience)))

	// A long line stays inside the page.
	u.do(chromedp.Evaluate(`document.querySelector('.file:has([title="/many/line.txt"]) button')?.click()`, nil), chromedp.Poll(`document.querySelector('.file:has([title="/many/line.txt"])').textContent.length >= 1000000`, nil, chromedp.WithPollingTimeout(browserPatience)),
		chromedp.Evaluate(`document.documentElement.scrollWidth - innerWidth`, &width))
	if width > 0 {
		t.Errorf("a long line makes the page %d wider than the window", width)
	}

	// A program in the jail with the network of this machine has no cookie.
	out, _ := u.golem("shop", "exec", "--net", "on", "curl", "-sS", "-o", "/dev/null", "-w", "status %{http_code}", u.base())
	if !strings.Contains(out, "status 401") {
		t.Errorf("a program in the jail: got %s", out)
	}

	// A page of another site can neither send a form, nor show the desk in a frame, nor read
	// it. It is a file here, so its origin is another one.
	file := filepath.Join(t.TempDir(), "evil.html")
	evil := fmt.Sprintf(`<iframe id=f src="%[1]s"></iframe><form method=post action="%[1]ssession/a/b"><input name=action value=apply></form><p id=out>-</p>
<script>fetch('%[1]s', {credentials: 'include'}).then(() => out.textContent = 'read', () => out.textContent = 'refused')</script>`, u.base())
	if err := os.WriteFile(file, []byte(evil), 0o644); err != nil {
		t.Fatal(err)
	}
	u.do(chromedp.Navigate("file://" + file))
	u.waitFor(u.browser, "refused")
	var framed string
	u.do(chromedp.Sleep(500*time.Millisecond), chromedp.Evaluate(`(() => { try { return document.getElementById('f').contentDocument === null ? 'foreign' : document.getElementById('f').contentDocument.body.textContent } catch (e) { return String(e) } })()`, &framed))
	if strings.Contains(framed, "Inbox") {
		t.Errorf("another site shows the desk in a frame: %s", framed)
	}
	u.submit(chromedp.Evaluate(`document.forms[0].submit()`, nil))
	if text := u.text(); !strings.Contains(text, "golem: ") || strings.Contains(text, "Everything that waits") {
		t.Errorf("a form of another site: got %s", text)
	}
}

// axe is the package that finds what people with assistive technology cannot use.
const axe = "axe-core@4.10.3"

// checkAccess looks at every kind of page with axe-core.
func checkAccess(t *testing.T, u *deskUser) {
	source, err := os.ReadFile(filepath.Join(testutil.NPM(t, strings.ReplaceAll(axe, "@", "-"), "", []string{axe}, "--ignore-scripts"), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	u.stageCommit()
	u.mustGolem(0, ".", "init", "notes")
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/a.md", "--content", "first\n")
	u.write("shop/a.txt", "old\n")
	u.mustGolem(0, "shop", "exec", "sh", "-c", "echo new >a.txt; mkdir .husky; echo x >.husky/pre-commit")
	u.writeRun("paused", "", "main:\n  - calls: [{tool: delete_file, args: {path: /app.txt}}]\n")
	u.startRun("paused", "Tidy up")()
	u.openDesk()
	check := func(page string) {
		t.Helper()
		for _, how := range []struct {
			width  int64
			scheme string
		}{{1280, "light"}, {360, "dark"}} {
			var found struct {
				Passed int
				Wrong  []string
			}
			u.do(emulate(how.width, how.scheme), chromedp.Evaluate(string(source), nil),
				chromedp.Evaluate(`axe.run({resultTypes: ['violations']}).then(r => ({passed: r.passes.length, wrong: r.violations.filter(v => v.impact === 'serious' || v.impact === 'critical').map(v => v.id + ': ' + v.nodes.map(n => n.target + ' ' + n.failureSummary).join('\n'))}))`, &found, awaitPromise))
			if found.Passed < 10 {
				t.Errorf("%s: axe-core checked only %d rules", page, found.Passed)
			}
			for _, text := range found.Wrong {
				t.Errorf("%s, %d wide, %s: %s", page, how.width, how.scheme, text)
			}
		}
	}
	check("inbox")
	for _, page := range []struct{ name, link string }{{"call", "/call/"}, {"session", "/session/"}, {"commit", "/commit/"}} {
		u.do(chromedp.Navigate(u.base()))
		u.submit(chromedp.Click(fmt.Sprintf(`.item a[href*="%s"]`, page.link)))
		check(page.name)
	}
	for _, page := range []string{"live", "journal", "pictures", "none"} {
		u.do(chromedp.Navigate(u.base() + page))
		check(page)
	}
}
