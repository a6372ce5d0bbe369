package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// commentOn writes a comment below the line with a number of a file on the page in a tab.
func (u *deskUser) commentOn(tab context.Context, name string, line int, text string) {
	u.t.Helper()
	u.doIn(tab, page.BringToFront(), chromedp.Evaluate(fmt.Sprintf(`(() => { const file = document.querySelector('.name[title=%q]').closest('.file');
		const n = [...file.querySelectorAll('.num:not(.old)')].find(n => n.textContent === '%d'); n.scrollIntoView({block: 'center'}); n.click();
		document.querySelector('.comment-form textarea').value = %q; document.querySelector('.comment-form .save').click() })()`, name, line, text), nil))
}

// checkPlaced waits until a tab has exactly some comments below lines, each with its line.
func (u *deskUser) checkPlaced(tab context.Context, want ...string) {
	u.t.Helper()
	slices.Sort(want)
	var got []string
	for end := time.Now().Add(browserPatience / 4); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		u.doIn(tab, chromedp.Evaluate(`[...document.querySelectorAll('.file .comment')].filter(c => getComputedStyle(c.querySelector('.said')).display !== 'none').map(c => { let e = c; while (e.previousElementSibling && !e.classList.contains('line')) e = e.previousElementSibling;
			return (e.classList.contains('line') ? e.querySelector('.text').textContent : '(the file)') + ': ' + c.querySelector('.said').textContent + ', ' + c.querySelector('.now').textContent })`, &got))
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
	}
	u.t.Errorf("below the lines: got %q, want %q", got, want)
}

// commentAtDesk writes comments at lines in two tabs, and compares them with the next version of
// the agent.
func commentAtDesk(t *testing.T, u *deskUser) {
	u.write("shop/app.go", "package shop\n\nfunc price() int {\n\treturn 1\n}\n\nfunc tax() int {\n\treturn 2\n}\n")
	u.mustGolem(0, "shop", "exec", "sh", "-c", `sed -i -e 's/return 1/return 10/' -e 's/return 2/return 20 \/\/ <b>\xe2\x80\xae/' app.go; printf 'new\n' >b.txt`)
	u.openDesk()
	u.openSession()
	var numbers []string
	u.do(chromedp.Evaluate(`[...document.querySelectorAll('.name[title="/app.go"]')[0].closest('.file').querySelectorAll('.line')].map(l => [...l.querySelectorAll('.num')].map(n => n.textContent).join('|') + ' ' + l.querySelector('.text').textContent)`, &numbers))
	for _, want := range []string{"4| \treturn 1", "|4 \treturn 10", "8| \treturn 2", "|8 \treturn 20 // <b>\\u202e", "7|7 func tax() int {"} {
		if !slices.Contains(numbers, want) {
			t.Errorf("the lines have the numbers %q, want also %q", numbers, want)
		}
	}

	// Two tabs comment on the same line. Each gets the comment of the other, without loading
	// its page again, and keeps what it has ticked.
	other := u.newTab()
	var address string
	u.do(chromedp.Location(&address), click(`label:has([title="/b.txt"])`))
	u.doIn(other, chromedp.Navigate(address))
	hostile := "why <img src=x onerror=\"document.title='owned'\"> 10?\n\x1b[2J\u202e"
	u.commentOn(u.browser, "/app.go", 4, hostile)
	u.waitFor(u.browser, "1 comment, 1 not sent")
	u.doIn(other, page.BringToFront())
	u.waitFor(other, "1 comment, 1 not sent")
	u.commentOn(other, "/app.go", 4, "and the test?")
	u.waitFor(other, "2 comments, 2 not sent")
	u.do(page.BringToFront())
	u.waitFor(u.browser, "2 comments, 2 not sent")
	shown := `why <img src=x onerror="document.title='owned'"> 10?` + "\n" + `\x1b[2J\u202e`
	for _, tab := range []context.Context{u.browser, other} {
		u.checkPlaced(tab, "\treturn 10: and the test?, not changed since", "\treturn 10: "+shown+", not changed since")
	}
	ticked := false
	u.do(chromedp.Evaluate(`document.querySelector('label:has([title="/b.txt"]) input').checked && document.title !== 'owned' && !document.querySelector('.comment img')`, &ticked))
	if !ticked {
		t.Error("a tick is gone, or a comment has markup")
	}

	// The agent moves the line of one comment, and the page has the old content. A comment on it
	// is refused, and the text stays.
	u.commentOn(u.browser, "/app.go", 8, "too much")
	u.waitFor(u.browser, "3 comments, 3 not sent")
	u.mustGolem(0, "shop", "exec", "--session", "last", "sh", "-c", `sed -i -e 's/return 10/return 11/' -e '1a // shop' app.go`)
	u.commentOn(u.browser, "/app.go", 7, "late")
	u.waitFor(u.browser, "the file changed since the page showed it")
	kept := ""
	u.do(chromedp.Evaluate(`document.querySelector('.comment-form textarea').value`, &kept))
	if kept != "late" {
		t.Errorf("the text of a refused comment: got %q", kept)
	}
	u.submit(chromedp.Reload())
	u.checkPlaced(u.browser, "(the file): and the test?, changed since", "(the file): "+shown+", changed since", "\treturn 20 // <b>\\u202e: too much, moved to line 9, not changed since")
	u.screenshot("comments")

	// The keyboard alone: the button of a hunk, a range, Ctrl and Enter. Enter in a field sends no
	// form.
	u.do(chromedp.Evaluate(`document.querySelector('button[aria-label="Comment on /b.txt"]').focus()`, nil), chromedp.KeyEvent("\r"), chromedp.WaitVisible(".comment-form", chromedp.ByQuery), chromedp.Focus(".comment-form .to", chromedp.ByQuery), chromedp.KeyEvent("\r"), chromedp.Focus(".comment-form textarea", chromedp.ByQuery), chromedp.KeyEvent("by keyboard"), chromedp.Evaluate(`document.querySelector('.comment-form textarea').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', ctrlKey: true, bubbles: true}))`, nil))
	u.waitFor(u.browser, "4 comments")
	if out := u.mustGolem(0, "shop", "comments"); !strings.Contains(out, "b.txt, line 1: not changed since") || !strings.Contains(out, "» by keyboard") || !strings.Contains(out, `» \x1b[2J\u202e`) || !strings.Contains(out, "golem desk, in a browser") {
		t.Errorf("golem comments: got\n%s", out)
	}
	u.do(chromedp.Evaluate(`document.querySelector('#comments [aria-label="Remove the comment on /b.txt, line 1"]').click()`, nil))
	u.waitFor(u.browser, "3 comments")

	// A form without the nonce of a page.
	status := 0
	u.do(chromedp.Evaluate(`fetch(document.getElementById('comments').dataset.at, {method: 'POST', body: new URLSearchParams({nonce: 'x', text: 'forged'})}).then(r => r.status)`, &status, awaitPromise))
	if out := u.mustGolem(0, "shop", "comments"); status != 409 || strings.Contains(out, "forged") {
		t.Errorf("a form without a nonce: got the status %d, and\n%s", status, out)
	}
}

// sendComments sends comments from the page to a worker, and shows which lines its next version
// changed.
func sendComments(t *testing.T, u *deskUser) {
	u.writeRun("price", "", `main:
  - calls: [{tool: write_file, args: {path: /app.go, content: "package app\nprice := 10\nrest\n"}}]
  - text: I raised the price.
  - calls: [{tool: write_file, args: {path: /app.go, content: "package app\nprice := 1\nrest\n"}}]
  - text: I kept it.
`)
	if code, out := u.startRun("price", "Raise the price")(); code != 0 {
		t.Fatal(out)
	}
	u.openDesk()
	u.openSession()
	u.commentOn(u.browser, "/app.go", 2, "keep 1, please")
	u.waitFor(u.browser, "1 comment, 1 not sent")
	u.commentOn(u.browser, "/app.go", 3, "why?")
	u.waitFor(u.browser, "2 comments, 2 not sent")
	u.submit(chromedp.Evaluate(`document.querySelector('#comments button[value=resume]').click()`, nil))
	u.waitFor(u.browser, "golem continues the run")
	u.await(`document.body.textContent.includes('I kept it.')`) // the browser leaves out the text of events that are not on the screen
	u.submit(chromedp.Reload())
	u.checkPlaced(u.browser, "(the file): keep 1, please, changed since", "rest: why?, not changed since")
	u.await(`document.body.textContent.includes('Please answer 2 comments')`)
	if text := u.text(); strings.Contains(text, "not sent") || strings.Contains(text, "Send to the agent") {
		t.Errorf("after the comments were sent:\n%s", text)
	}
	u.screenshot("sent")

	// A session of another program has no run to continue.
	u.mustGolem(0, "price", "exec", "--name", "other", "sh", "-c", "echo x >b.txt")
	u.mustGolem(0, "price", "comments", "add", "--session", "other", "b.txt:1", "no")
	u.do(chromedp.Navigate(u.base()))
	u.await(`[...document.querySelectorAll('.item')].some(i => i.textContent.includes('@other'))`)
	u.submit(chromedp.Evaluate(`[...document.querySelectorAll('.item')].find(i => i.textContent.includes('@other')).querySelector('a').click()`, nil))
	u.waitFor(u.browser, "golem comments send other | golem exec --session other CMD")
}

// markViewed marks files as viewed. A mark folds a file, falls away with its content, and counts
// for no approval.
func markViewed(t *testing.T, u *deskUser) {
	u.write("shop/app/a.txt", "old\n")
	u.mustGolem(0, "shop", "exec", "sh", "-c", "echo new >app/a.txt; echo b >app/b.txt; mkdir .husky; echo x >.husky/pre-commit; mkdir many; for i in $(seq 300); do echo $i >many/$i; done")
	u.openDesk()
	u.openSession()
	file := func(name string) string {
		return fmt.Sprintf(`document.querySelector('.name[title=%q]').closest('.file')`, name)
	}
	viewed := func(name string) {
		t.Helper()
		u.do(page.BringToFront(), chromedp.Evaluate(file(name)+`.scrollIntoView(), `+file(name)+`.querySelector('[data-viewed]').click()`, nil))
	}
	u.await(`document.getElementById('viewed-count').textContent === '0 of 303 files viewed'`)
	viewed("/app/a.txt")
	u.await(`document.getElementById('viewed-count').textContent === '1 of 303 files viewed' && ` + file("/app/a.txt") + `.querySelector('.pieces').hidden`)
	u.screenshot("viewed")

	// After a reload the file is closed. A form that claims it was on the screen does not count.
	u.submit(chromedp.Reload())
	u.await(`document.getElementById('viewed-count').textContent === '1 of 303 files viewed' && !` + file("/app/a.txt") + `.querySelector('.pieces') && ` + file("/app/a.txt") + `.querySelector('[data-viewed]').checked && document.querySelector('.tree a[title="/app/a.txt"]').className === 'done'`)
	u.submit(chromedp.Evaluate(`(() => { const f = document.querySelector('form.pick'), i = `+file("/app/a.txt")+`.id.slice(5); document.querySelector('input[data-file="' + i + '"]').checked = true; f.elements.seen.value = i + ',' + i + '.1'; f.querySelector('button[value=apply]').click() })()`, nil))
	u.waitFor(u.browser, "Your decision")
	u.await(`document.querySelector('form.answer').dataset.before === '' && document.querySelector('form.answer button.yes').disabled`)

	// The agent changes the file: the mark is gone. A page that shows the old content sets none.
	u.openSession()
	u.mustGolem(0, "shop", "exec", "--session", "last", "sh", "-c", "echo newer >app/a.txt; echo bb >app/b.txt")
	viewed("/app/b.txt")
	u.await(file("/app/b.txt") + `.textContent.includes('this page did not show the content that the file has now') && !` + file("/app/b.txt") + `.querySelector('[data-viewed]').checked`)
	u.submit(chromedp.Reload())
	u.await(file("/app/a.txt") + `.textContent.includes('changed since you looked') && ` + file("/app/a.txt") + `.textContent.includes('newer') && !` + file("/app/a.txt") + `.querySelector('[data-viewed]').checked`)

	// The tree leads to a file that the page has not loaded, and the keys to the files.
	u.do(chromedp.Evaluate(`document.querySelector('.tree a[title="/many/99"]').click()`, nil))
	u.await(`document.querySelector('.file.current .name')?.title === '/many/99'`)
	u.do(chromedp.Evaluate(`document.querySelector('.tree a[title="/app/b.txt"]').click()`, nil))
	u.await(`document.querySelector('.file.current .name')?.title === '/app/b.txt'`)
	u.do(chromedp.KeyEvent("j"))
	u.await(`document.querySelector('.file.current .name').title !== '/app/b.txt'`)
	u.do(chromedp.KeyEvent("k"))
	u.await(`document.querySelector('.file.current .name').title === '/app/b.txt'`)
	u.do(chromedp.KeyEvent("xv"))
	u.await(`document.querySelector('.file.current [data-viewed]').checked && document.querySelector('.file.current [data-file]').checked && document.getElementById('viewed-count').textContent === '1 of 303 files viewed'`)

	// On a phone the tree is closed, and everything is on the screen.
	u.do(emulate(390, "light"))
	u.submit(chromedp.Reload())
	u.await(`!document.querySelector('.tree').open && document.documentElement.scrollWidth <= innerWidth`)
	u.do(chromedp.Evaluate(`document.querySelector('.tree').open = true; document.querySelector('.tree a[title="/app/b.txt"]').click()`, nil))
	u.await(`document.querySelector('.file.current .name')?.title === '/app/b.txt' && !document.querySelector('.tree').open && document.querySelector('.file.current').getBoundingClientRect().top < 100`)
	u.do(emulate(1280, "light"))
}
