package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// refuseServiceWorker checks that a service worker, which a server left in the browser that
// had the port of the desk before, gets neither the address of the desk nor a page of it.
func refuseServiceWorker(t *testing.T, u *deskUser) {
	u.openDesk()
	const change = `.then(async r => new Response('STOLEN ' + await r.text(), {headers: {'Content-Type': 'text/html'}}))`
	for name, script := range map[string]string{
		"forwards the request": `addEventListener('fetch', e => e.respondWith(fetch(e.request)` + change + `))`,
		"gets it in advance": `addEventListener('activate', e => e.waitUntil(registration.navigationPreload.enable()));
addEventListener('fetch', e => e.respondWith(e.preloadResponse` + change + `))`,
		"answers itself":      `addEventListener('fetch', e => e.respondWith(new Response('STOLEN ' + e.request.url, {headers: {'Content-Type': 'text/html'}})))`,
		"waits for the login": `addEventListener('fetch', e => { if (!e.request.url.includes('token')) e.respondWith(fetch(e.request)` + change + `) })`,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		before := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/worker.js" {
				w.Header().Set("Content-Type", "text/javascript")
				io.WriteString(w, "addEventListener('install', () => skipWaiting());\n"+script)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, `<script>navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready).then(r => { const wait = () => r.active.state === 'activated' ? document.body.append('registered') : setTimeout(wait, 20); wait() })</script><body>`)
		})}
		go before.Serve(l)
		u.do(chromedp.Navigate("http://" + l.Addr().String()))
		u.waitFor(u.browser, "registered")
		before.Close()
		u.startDesk("--listen", l.Addr().String())
		if name == "answers itself" { // the worker is there
			u.do(chromedp.Navigate("http://" + l.Addr().String() + "/x?token=secret"))
			if text := u.text(); !strings.Contains(text, "STOLEN") {
				t.Errorf("no service worker: %s", text)
			}
		}
		u.do(chromedp.Navigate(u.address))
		u.waitFor(u.browser, "Everything that waits for you")
		u.do(chromedp.Navigate(u.base()))
		if text := u.text(); strings.Contains(text, "STOLEN") {
			t.Errorf("a service worker that %s still gets the pages: %s", name, text)
		}
	}
}
