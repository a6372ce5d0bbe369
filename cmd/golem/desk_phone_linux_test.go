package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// approveOnPhone pairs a second profile of the browser, 390 pixels wide, and approves a call there.
func approveOnPhone(t *testing.T, u *deskUser) {
	u.mustGolem(0, ".", "init", "notes")
	u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/a.md", "--content", strings.Repeat("A line of the report that is longer than a phone is wide.\n", 60))
	base := u.serveDevices()
	err := chromedp.Run(u.first, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		u.cookies, err = target.CreateBrowserContext().Do(ofBrowser(ctx))
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		chromedp.Run(u.first, chromedp.ActionFunc(func(ctx context.Context) error { return target.DisposeBrowserContext(u.cookies).Do(ofBrowser(ctx)) }))
	})
	u.browser = u.newTab()
	u.do(page.BringToFront(), emulation.SetDeviceMetricsOverride(390, 844, 1, true))
	shoot := func(name string) {
		var wide int
		if u.do(chromedp.Evaluate(`document.documentElement.scrollWidth`, &wide)); wide > 390 {
			t.Errorf("%s is %d pixels wide", name, wide)
		}
		if dir := os.Getenv("GOLEM_TEST_SCREENSHOTS"); dir != "" {
			var picture []byte
			u.do(chromedp.CaptureScreenshot(&picture))
			if err := os.WriteFile(filepath.Join(dir, "phone-"+name+".png"), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, err := u.pair(func(link string) (word string) {
		u.do(chromedp.Navigate(link), chromedp.WaitVisible("#pair"), chromedp.Evaluate(`document.getElementById("pair").click()`, nil))
		u.waitFor(u.browser, "Type this at the terminal")
		u.do(chromedp.Text("#word", &word))
		shoot("pair")
		return word
	}, "phone", "--may", "low")
	if err != nil {
		t.Fatalf("pair: %v\n%s", err, out)
	}
	exported := ""
	u.do(chromedp.Evaluate(`new Promise(done => { const r = indexedDB.open('golem', 1); r.onsuccess = () => { const g = r.result.transaction('keys').objectStore('keys').get('device'); g.onsuccess = () => crypto.subtle.exportKey('pkcs8', g.result.key).then(() => done('exported'), e => done(e.name)) } })`, &exported, awaitPromise))
	if exported != "InvalidAccessError" {
		t.Errorf("the key of the device: %s", exported)
	}
	id := u.pending("notes")[0]
	u.do(chromedp.Navigate(base + "/"))
	u.waitFor(u.browser, "Everything that waits for you")
	shoot("inbox")
	u.do(followLink("/out/a.md"), chromedp.WaitVisible("form.answer"))
	shoot("call")
	u.viewAll(u.browser)
	u.do(chromedp.Evaluate(`document.getElementById("decision").scrollIntoView()`, nil))
	shoot("viewed")
	u.submit(chromedp.Evaluate(`document.querySelector("button.yes").click()`, nil))
	u.waitFor(u.browser, "Approved: "+id)
	if text := u.text(); !strings.Contains(text, "on the device phone (") {
		t.Errorf("after the approval:\n%s", text)
	}
	shoot("decision")
	if left := u.pending("notes"); len(left) != 0 {
		t.Errorf("still pending: %v", left)
	}
	if text, err := os.ReadFile(filepath.Join(u.dir, "notes", "out", "a.md")); err == nil {
		t.Errorf("the file was written before the call was made again: %s", text)
	}
	u.mustGolem(0, "notes", "tool", "write_file", "--path", "/out/a.md", "--content", strings.Repeat("A line of the report that is longer than a phone is wide.\n", 60))
}
