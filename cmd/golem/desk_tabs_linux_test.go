package main

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// reboundName is a name of another site that leads the browser to this machine.
const reboundName = "rebound.test"

// refuseRebinding checks that a site whose name leads to this machine can neither log in nor
// read a page, and that its try does not use up the token.
func refuseRebinding(t *testing.T, u *deskUser) {
	u.openDesk()
	for _, args := range [][]string{nil, {"--listen", freeAddress(t)}} {
		u.startDesk(args...)
		address, err := url.Parse(u.address)
		if err != nil {
			t.Fatal(err)
		}
		own := address.Host
		for _, path := range []string{u.address, u.base()} {
			u.do(chromedp.Navigate(strings.Replace(path, own, reboundName+":"+address.Port(), 1)))
			if text := u.text(); !strings.Contains(text, "this is not the address of golem desk") {
				t.Errorf("another name for this machine: got %s", text)
			}
		}
		// The page of the other name asks for the desk.
		var got string
		u.do(chromedp.Evaluate(`fetch(location.href).then(async r => r.status + ' ' + await r.text())`, &got, awaitPromise))
		if !strings.HasPrefix(got, "403 golem: ") {
			t.Errorf("a page of another name reads the desk: %s", got)
		}
		u.do(chromedp.Navigate(u.address))
		u.waitFor(u.browser, "Everything that waits for you")
		u.do(chromedp.Navigate(strings.Replace(u.base(), own, reboundName+":"+address.Port(), 1)))
		if text := u.text(); !strings.Contains(text, "this is not the address of golem desk") {
			t.Errorf("another name for this machine after the login: got %s", text)
		}
	}
}

// openTabs checks that a tab learns what another one decides, without reloading its page and
// without asking again and again, and that the desk answers while 50 tabs are open.
func openTabs(t *testing.T, u *deskUser) {
	u.mustGolem(0, ".", "init", "notes")
	for _, name := range []string{"a", "b"} {
		u.mustGolem(3, "notes", "tool", "write_file", "--path", "/out/"+name+".md", "--content", "x\n")
	}
	u.openDesk()
	other := u.newTab()
	u.doIn(other, chromedp.Navigate(u.base()), chromedp.Evaluate(`window.kept = 1`, nil))
	decline := func(name string) {
		t.Helper()
		u.do(page.BringToFront(), chromedp.Navigate(u.base()), followLink("/out/"+name+".md"), chromedp.WaitVisible("form.answer"))
		u.submit(chromedp.Evaluate(`document.querySelector("button.no").click()`, nil))
		u.waitFor(u.browser, "Declined")
	}
	lists := `performance.getEntriesByType('resource').filter(e => e.name.includes('/list')).length`
	var before, after int
	u.doIn(other, chromedp.Evaluate(lists, &before))
	decline("a")
	u.doIn(other, page.BringToFront(), chromedp.Poll(`!document.body.innerText.includes('/out/a.md') && document.body.innerText.includes('/out/b.md')`, nil, chromedp.WithPollingTimeout(browserPatience)),
		chromedp.Evaluate(lists, &after))
	kept := 0
	u.doIn(other, chromedp.Evaluate(`window.kept || 0`, &kept))
	if kept != 1 {
		t.Error("the other tab loaded its page again")
	}
	if n := after - before; n < 1 || n > 20 {
		t.Errorf("the other tab asked %d times for the list", n)
	}

	// 50 tabs at the same time. Only one of them listens, so the others can load.
	for range 50 {
		if err := chromedp.Run(u.first, chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := target.CreateTarget(u.base()).WithBrowserContextID(u.cookies).WithBackground(true).Do(ofBrowser(ctx))
			return err
		})); err != nil {
			t.Fatal(err)
		}
	}
	decline("b")
	u.doIn(other, page.BringToFront(), chromedp.Poll(`!document.body.innerText.includes('/out/b.md')`, nil, chromedp.WithPollingTimeout(browserPatience)))
	u.doIn(other, chromedp.Evaluate(`window.kept || 0`, &kept))
	if kept != 1 {
		t.Error("with 50 tabs, the other tab loaded its page again")
	}
}

// freeAddress returns an address of this machine that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
