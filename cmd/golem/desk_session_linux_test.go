package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// write writes a file of the user.
func (u *deskUser) write(name, content string) {
	u.t.Helper()
	file := filepath.Join(u.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		u.t.Fatal(err)
	}
}

// read returns a file of the user.
func (u *deskUser) read(name string) string {
	u.t.Helper()
	data, err := os.ReadFile(filepath.Join(u.dir, name))
	if err != nil {
		u.t.Fatal(err)
	}
	return string(data)
}

// click clicks the first element that a query selects, in the middle of the screen. The bar
// with the buttons covers the end of the screen.
func click(query string) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: 'center'}); e.click() })()`, query), nil)
}

// openSession opens the page of the only session in the inbox.
func (u *deskUser) openSession() {
	u.t.Helper()
	u.do(chromedp.Navigate(u.base()), chromedp.WaitVisible(`//a[contains(., "changed,")]`))
	u.submit(followLink("changed,"))
	u.do(chromedp.WaitVisible("form.pick"))
}

// tickAllAtDesk ticks all files of a list that the page loads in parts.
func tickAllAtDesk(t *testing.T, u *deskUser) {
	u.write("shop/keep.txt", "as it was\n")
	u.mustGolem(0, "shop", "exec", "sh", "-c", "for i in $(seq 502); do echo $i >f$i; done")
	u.openDesk()
	u.openSession()
	u.do(chromedp.Evaluate(`document.getElementById('pick-all').click()`, nil))
	u.waitFor(u.browser, "Chosen: 502 files.")
	u.do(chromedp.Evaluate(`document.getElementById('pick-all').click()`, nil))
	u.waitFor(u.browser, "Tick what you want to apply.")
}

// applyAtDesk applies some hunks of a session, and checks that exactly those are on the disk.
func applyAtDesk(t *testing.T, u *deskUser) {
	lines := make([]string, 60)
	for i := range lines {
		lines[i] = fmt.Sprint("line ", i+1)
	}
	old := strings.Join(lines, "\n") + "\n"
	u.write("shop/app.txt", old)
	u.write("shop/keep.txt", "as it was\n")
	u.mustGolem(0, "shop", "exec", "sh", "-c", "sed -i -e 's/^line 2$/first/' -e 's/^line 30$/second/' -e 's/^line 58$/third/' app.txt; echo other >keep.txt; echo said by the command")
	u.openDesk()
	u.openSession()
	u.screenshot("session")
	if text := u.text(); !strings.Contains(text, "sh") || !strings.Contains(text, "keep.txt") || !strings.Contains(text, "exec by you") {
		t.Errorf("the page of the session:\n%s", text)
	}
	hunk := func(n int) string { return fmt.Sprintf(`input[aria-label="Hunk %d of /app.txt"]`, n) }
	u.do(click(hunk(1)), click(hunk(3)))
	u.waitFor(u.browser, "Chosen: 2 parts.")
	u.submit(click(`button[value=apply]`))
	u.waitFor(u.browser, "Your decision")
	if text := u.text(); !strings.Contains(text, "first") || !strings.Contains(text, "third") || strings.Contains(text, "second") || strings.Contains(text, "keep.txt") {
		t.Errorf("the page shows other changes than the chosen ones:\n%s", text)
	}
	u.screenshot("apply")
	u.viewAll(u.browser)
	u.submit(click("button.yes"))
	u.waitFor(u.browser, "golem undo restores")
	want := strings.Replace(strings.Replace(old, "line 2\n", "first\n", 1), "line 58\n", "third\n", 1)
	if got := u.read("shop/app.txt"); got != want {
		t.Errorf("on the disk: got\n%s", got)
	}
	if got := u.read("shop/keep.txt"); got != "as it was\n" {
		t.Errorf("a file that was not chosen: got %q", got)
	}

	// The session changes after the page was shown.
	u.openSession()
	u.do(click(`label:has([title="/keep.txt"])`))
	u.mustGolem(0, "shop", "exec", "--session", "last", "sh", "-c", "echo swapped >keep.txt")
	u.submit(click(`button[value=apply]`))
	u.waitFor(u.browser, "The content has changed since you looked at it")
	if text := u.text(); !strings.Contains(text, "swapped") || !strings.Contains(text, "/keep.txt") {
		t.Errorf("the new content is not shown:\n%s", text)
	}
	if got := u.read("shop/keep.txt"); got != "as it was\n" {
		t.Errorf("swapped content was applied: %q", got)
	}

	// It changes after golem asked.
	u.do(click(`label:has([title="/keep.txt"])`))
	u.submit(click(`button[value=apply]`))
	u.viewAll(u.browser)
	u.mustGolem(0, "shop", "exec", "--session", "last", "sh", "-c", "echo again >keep.txt")
	u.submit(click("button.yes"))
	u.waitFor(u.browser, "The content has changed since you looked at it")
	if got := u.read("shop/keep.txt"); got != "as it was\n" || !strings.Contains(u.text(), "again") {
		t.Errorf("swapped content was applied: %q, and the page is\n%s", got, u.text())
	}

	// Discard asks as well.
	u.openSession()
	u.submit(click(`button[value=discard]`))
	u.waitFor(u.browser, "Your decision")
	u.viewAll(u.browser)
	u.submit(click("button.yes"))
	u.waitFor(u.browser, "Nothing to apply")
	if out := u.mustGolem(0, "shop", "status"); strings.Contains(out, "app.txt") {
		t.Errorf("golem status after the discard: %s", out)
	}
}

// nameUnviewed checks that files which were not on the screen are named, and applied only
// after the user confirmed that.
func nameUnviewed(t *testing.T, u *deskUser) {
	u.write("shop/a.txt", "old\n")
	u.mustGolem(0, "shop", "exec", "sh", "-c", "mkdir new; for i in $(seq 300); do echo $i >new/$i.txt; done; seq 5000 >new/long.txt")
	u.openDesk()
	u.openSession()
	u.waitFor(u.browser, "301 files changed")
	u.do(chromedp.Evaluate(`(() => { const step = () => { scrollTo(0, document.body.scrollHeight); if (document.querySelector('.more')) requestAnimationFrame(step) }; step() })()`, nil),
		chromedp.WaitVisible(`//span[@title="/new/long.txt"]`))
	u.do(click(`label:has([title="/new/long.txt"])`))
	u.submit(click(`button[value=apply]`))
	u.waitFor(u.browser, "not on your screen yet")
	u.submit(chromedp.Evaluate(`(() => { const f = document.querySelector('form.answer'); f.elements.seen.value = 'call,change 0,content 0'; f.querySelector('button.yes').disabled = false; f.querySelector('button.yes').click() })()`, nil))
	u.waitFor(u.browser, "the content of /new/long.txt")
	if _, err := os.Stat(filepath.Join(u.dir, "shop/new/long.txt")); err == nil {
		t.Fatal("a file that was not viewed was applied")
	}
	u.submit(click(`input[name=unseen]`), click(`button[value=approve-unseen]`))
	u.waitFor(u.browser, "golem undo restores")
	if got := u.read("shop/new/long.txt"); !strings.HasSuffix(got, "\n5000\n") {
		t.Errorf("the file: got %d bytes", len(got))
	}
	if _, err := os.Stat(filepath.Join(u.dir, "shop/new/1.txt")); err == nil {
		t.Error("a file that was not chosen was applied")
	}
}

// colourSyntax checks that diffs have the colours of their language in the browser, and that
// the text stays what it is.
func colourSyntax(t *testing.T, u *deskUser) {
	u.write("shop/app.go", "package shop\n\nfunc price() int {\n\treturn 1\n}\n")
	added := "\treturn 12 // \"<b onclick=x>\" \u202e & more"
	u.write("shop/new.go", "package shop\n\nfunc price() int {\n"+added+"\n}\n")
	u.mustGolem(0, "shop", "exec", "sh", "-c", "mv new.go app.go")
	u.openDesk()
	u.openSession()
	u.screenshot("colours")
	var found struct {
		Lines   []string
		Kinds   []string
		Colours int
		Tags    int
	}
	read := func() {
		t.Helper()
		u.do(chromedp.Evaluate(`(() => { const lines = [...document.querySelectorAll('.file .line .text')], spans = [...document.querySelectorAll('.file .text span')];
			return {lines: lines.map(e => e.textContent), kinds: spans.map(e => e.className + ' ' + e.textContent), colours: new Set(spans.map(e => getComputedStyle(e).color)).size, tags: document.querySelectorAll('.text b').length} })()`, &found))
	}
	read()
	want := strings.Replace(added, "\u202e", `\u202e`, 1)
	if !slices.Contains(found.Lines, want) || found.Tags > 0 {
		t.Errorf("the lines: got %q, want also %q", found.Lines, want)
	}
	for _, kind := range []string{"code-keyword func", "code-name price", "code-number 12", "code-comment " + strings.TrimPrefix(want, "\treturn 12 ")} {
		if !slices.Contains(found.Kinds, kind) {
			t.Errorf("the parts: got %q, want also %q", found.Kinds, kind)
		}
	}
	if found.Colours < 4 {
		t.Errorf("the browser uses %d colours for them", found.Colours)
	}

	// The page that asks has them too, and the approval covers the same text.
	u.do(click(`label:has([title="/app.go"])`))
	u.submit(click(`button[value=apply]`))
	u.waitFor(u.browser, "Your decision")
	read()
	if !slices.Contains(found.Lines, want) || !slices.Contains(found.Kinds, "code-number 12") || found.Tags > 0 {
		t.Errorf("the page that asks: got %q, %q", found.Lines, found.Kinds)
	}
	u.viewAll(u.browser)
	u.submit(click("button.yes"))
	u.waitFor(u.browser, "golem undo restores")
	if got := u.read("shop/app.go"); !strings.Contains(got, added) {
		t.Errorf("on the disk: %q", got)
	}
}
