package web_test

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// A page is a tab that a test looks at.
type page struct {
	t   *testing.T
	tab context.Context
}

// text evaluates an expression.
func (p page) text(expression string) string {
	p.t.Helper()
	var text string
	if err := chromedp.Run(p.tab, chromedp.Evaluate("String("+expression+")", &text)); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// wait waits until an expression holds.
func (p page) wait(expression string) {
	p.t.Helper()
	for end := time.Now().Add(patience); p.text(expression) != "true"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s does not become true; the page says\n%s", expression, p.text("document.body.innerText"))
		}
	}
}
