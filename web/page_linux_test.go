package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
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

// await calls an asynchronous function with a text, and returns its value.
func (p page) await(function, arg string) string {
	p.t.Helper()
	var text string
	wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	if err := chromedp.Run(p.tab, chromedp.Evaluate(fmt.Sprintf("(%s)(%s).then(String)", function, quote(arg)), &text, wait)); err != nil {
		p.t.Fatalf("%s: %v", function, err)
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

// status waits for a line of the status.
func (p page) status(part string) {
	p.t.Helper()
	p.wait("document.querySelector('#status').textContent.includes(" + quote(part) + ")")
}

func quote(text string) string {
	data, _ := json.Marshal(text) // a string can always be encoded
	return string(data)
}

func (p page) click(selector string) {
	p.t.Helper()
	p.text("document.querySelector(" + quote(selector) + ").click()")
}

// fill types into the fields of a form.
func (p page) fill(form string, fields ...string) {
	p.t.Helper()
	for i := 0; i < len(fields); i += 2 {
		p.text(fmt.Sprintf("document.querySelector(%s).elements[%s].value = %s", quote(form), quote(fields[i]), quote(fields[i+1])))
	}
}
