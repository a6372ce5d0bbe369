package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// maxPicture is the size of a picture in the docs in bytes.
const maxPicture = 150_000

// picture takes a picture of the first tab for the docs. Only make screenshots asks for it.
func (u *deskUser) picture(dir, name string, height int64) {
	u.t.Helper()
	u.pictureOf(dir, name, 1000, height)
}

func (u *deskUser) pictureOf(dir, name string, width, height int64) {
	u.t.Helper()
	var data []byte
	u.do(page.BringToFront(), chromedp.ActionFunc(func(ctx context.Context) error {
		return emulation.SetDeviceMetricsOverride(width, height, 1, false).Do(ctx)
	}), chromedp.Evaluate(`scrollTo(0, 0)`, nil), chromedp.CaptureScreenshot(&data))
	if len(data) > maxPicture {
		u.t.Errorf("%s has %d bytes, and may have %d", name, len(data), maxPicture)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644); err != nil {
		u.t.Fatal(err)
	}
}

// drawDesk takes the pictures of the docs, with the program of make demo: a worker that reads
// a hostile letter, a commit that it staged, and two more agents.
func drawDesk(t *testing.T, u *deskUser) {
	dir, err := filepath.Abs(filepath.Join("..", "..", os.Getenv("GOLEM_TEST_PICTURES")))
	if err != nil {
		t.Fatal(err)
	}
	u.environ = append(u.environ, "HOME="+u.dir) // so that the pages show ~/letters
	if err := os.CopyFS(filepath.Join(u.dir, "letters"), os.DirFS(filepath.Join("..", "..", "examples", "gray-zone"))); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "init", "-q", "--bare", filepath.Join(u.dir, "letters.git")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	u.mustGolem(0, "letters", "trust", "--yes")
	u.golem("letters", "run", ".", "What do the letters say?", "--model", "scripted:demo.yaml")
	u.golem("letters", "run", ".", "Hand the report over", "--model", "scripted:stage.yaml")
	u.write("shop/price.py", "def price(amount, rate):\n    return amount * rate\n\n\ndef total(items):\n    return sum(items)\n\n\ndef label(name):\n    return name\n\n\ndef net(amount, tax):\n    return amount - tax\n")
	u.write("shop/Makefile", "test:\n\tpython3 -m unittest\n")
	u.mustGolem(0, "shop", "exec", "sh", "-c", `sed -i 's/return amount \* rate/return round(amount * rate, 2)/; s/return amount - tax/return max(amount - tax, 0)/' price.py; printf 'install:\n\tcp price.py /usr/local/bin\n' >>Makefile`)
	u.writeRun("tests", "", "main:\n  - text: I run all tests.\n    calls: [{tool: shell, args: {command: \"for i in $(seq 500); do echo test $i: ok; sleep 0.2; done\"}}]\n  - text: They pass.\n")
	u.writeRun("notes", "", "main:\n  - text: The old notes can go.\n    calls: [{tool: delete_file, args: {path: /app.txt}}]\n  - text: Done.\n")
	u.startRun("tests", "Run the tests until they pass")
	paused := u.startRun("notes", "Tidy up the notes")
	paused()
	u.openDesk()
	u.waitFor(u.browser, "Tidy up")
	u.picture(dir, "desk-inbox", 760)
	u.submit(chromedp.Navigate(u.base() + "live"))
	u.waitFor(u.browser, "CPU ")
	u.picture(dir, "desk-live", 480)
	u.submit(followLink("Run the tests until"))
	u.waitFor(u.browser, "test 5: ok")
	u.picture(dir, "desk-run", 620)
	u.submit(chromedp.Navigate(u.base()))
	u.submit(chromedp.Click(`.item a[href*="/session/shop-"]`))
	u.do(click(`input[aria-label="Hunk 1 of /price.py"]`))
	u.commentOn(u.browser, "/price.py", 2, "Round only when you show the price.")
	u.waitFor(u.browser, "1 comment, 1 not sent")
	u.await(`!!document.querySelector('.placed')`)
	u.do(chromedp.Evaluate(`document.querySelector('.tree').open = true`, nil))
	u.pictureOf(dir, "desk-session", 1280, 1280)
	u.do(chromedp.Evaluate(`document.querySelector('.tree').open = false`, nil))
	u.pictureOf(dir, "desk-phone", 390, 1400)
	u.submit(chromedp.Navigate(u.base()))
	u.submit(chromedp.Click(`.item a[href*="/commit/"]`))
	u.picture(dir, "desk-commit", 760)
	for _, name := range []string{"desk-inbox", "desk-live", "desk-run", "desk-session", "desk-phone", "desk-commit"} {
		if data, err := os.ReadFile(filepath.Join(dir, name+".png")); err != nil || !strings.HasPrefix(string(data), "\x89PNG") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
