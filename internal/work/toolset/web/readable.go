package web

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxDepth is how deep elements are nested at most; deeper ones are dropped.
const maxDepth = 400

// readable returns the text of an HTML page: its title, paragraphs, headings, lists,
// tables and links with their addresses. Scripts, styles and hidden elements are dropped.
func readable(page string, base *url.URL) string {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil { // elements are nested too deeply
		return "(golem cannot read this page: " + err.Error() + ")\n"
	}
	w := &writer{base: base}
	w.node(root, 0)
	return strings.TrimSpace(w.b.String()) + "\n"
}

// A writer writes the text of a page.
type writer struct {
	base   *url.URL
	b      strings.Builder
	breaks int  // line breaks that are due before more text
	space  bool // a space is due before more text
	pre    int  // depth of elements with their own line breaks
}

var (
	dropped = []atom.Atom{atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Object, atom.Canvas, atom.Meta, atom.Link, atom.Select, atom.Textarea}
	blocks  = []atom.Atom{atom.P, atom.Div, atom.Section, atom.Article, atom.Main, atom.Header, atom.Footer, atom.Nav, atom.Aside, atom.Form, atom.Fieldset, atom.Figure, atom.Figcaption,
		atom.Ul, atom.Ol, atom.Dl, atom.Dt, atom.Dd, atom.Table, atom.Blockquote, atom.Pre, atom.Title, atom.Details, atom.Summary, atom.Address, atom.Hr,
		atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6}
	headings = []atom.Atom{atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6}
)

// node writes a node and what is in it.
func (w *writer) node(n *html.Node, depth int) {
	switch {
	case depth > maxDepth:
		return
	case n.Type == html.TextNode:
		w.text(n.Data)
		return
	case n.Type == html.ElementNode && (slices.Contains(dropped, n.DataAtom) || isHidden(n)):
		return
	}
	end := w.begin(n)
	for c := range n.ChildNodes() {
		w.node(c, depth+1)
	}
	end()
}

// begin writes what comes before the content of an element. The function that it returns
// writes what comes after it.
func (w *writer) begin(n *html.Node) (end func()) {
	end = func() {}
	switch {
	case n.Type != html.ElementNode:
	case slices.Contains(headings, n.DataAtom):
		w.line(2)
		w.raw(strings.Repeat("#", slices.Index(headings, n.DataAtom)+1) + " ")
		return func() { w.line(2) }
	case n.DataAtom == atom.Pre:
		w.line(2)
		w.pre++
		return func() { w.pre--; w.line(2) }
	case n.DataAtom == atom.Br:
		w.line(1)
	case n.DataAtom == atom.Li:
		w.line(1)
		w.raw("- ")
		return func() { w.line(1) }
	case n.DataAtom == atom.Tr:
		w.line(1)
		return func() { w.line(1) }
	case n.DataAtom == atom.Td, n.DataAtom == atom.Th:
		return func() { w.raw(" |"); w.space = true }
	case n.DataAtom == atom.Img:
		if alt := strings.TrimSpace(attribute(n, "alt")); alt != "" {
			w.text("[image: " + alt + "]")
		}
	case n.DataAtom == atom.A:
		return w.link(n)
	case slices.Contains(blocks, n.DataAtom):
		w.line(2)
		return func() { w.line(2) }
	}
	return end
}

// link returns a function that writes the address of a link after its text.
func (w *writer) link(n *html.Node) func() {
	before := w.b.Len()
	return func() {
		to, err := w.base.Parse(strings.TrimSpace(attribute(n, "href")))
		if w.b.Len() == before || err != nil || to.Scheme != "http" && to.Scheme != "https" {
			return
		}
		same := *to
		if same.Fragment = ""; same.String() == w.base.String() { // a place on this page
			return
		}
		if address := to.String(); !strings.HasSuffix(w.b.String()[before:], address) {
			w.raw(" (" + address + ")")
		}
	}
}

// text writes text with single spaces, or as it is in a pre element.
func (w *writer) text(text string) {
	if w.pre > 0 {
		w.raw(text)
		return
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		w.space = w.space || text != ""
		return
	}
	w.space = w.space || strings.TrimLeft(text, " \t\r\n\f") != text
	w.raw(strings.Join(words, " "))
	w.space = strings.TrimRight(text, " \t\r\n\f") != text
}

// raw writes text after the line breaks or the space that are due.
func (w *writer) raw(text string) {
	switch {
	case w.b.Len() == 0:
	case w.breaks > 0:
		w.b.WriteString(strings.Repeat("\n", w.breaks))
	case w.space && !strings.HasSuffix(w.b.String(), " "):
		w.b.WriteByte(' ')
	}
	w.breaks, w.space = 0, false
	w.b.WriteString(text)
}

// line makes sure that more text starts after n line breaks.
func (w *writer) line(n int) {
	w.breaks, w.space = max(w.breaks, n), false
}

// isHidden reports whether a page says that nobody sees an element.
func isHidden(n *html.Node) bool {
	style := strings.ReplaceAll(strings.ToLower(attribute(n, "style")), " ", "")
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "hidden" }) || attribute(n, "aria-hidden") == "true" ||
		strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden")
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
