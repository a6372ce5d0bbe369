package web

import (
	"net/url"
	"strings"
	"testing"
)

// TestReadable compares pages with their readable text.
func TestReadable(t *testing.T) {
	base, err := url.Parse("https://docs.example.org/a/b")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ page, want string }{
		{"<p>one<p>two", "one\n\ntwo"},
		{"a <b>bold</b>, <i> spaced </i>end", "a bold, spaced end"},
		{"line<br>break", "line\nbreak"},
		{"<h2>Title</h2>text", "## Title\n\ntext"},
		{"<ul><li>one<li>two<ul><li>deep</ul></ul>", "- one\n- two\n\n- deep"},
		{"<pre>a  b\n  c</pre>", "a  b\n  c"},
		{`<a href="c">near</a> <a href="//x.example/">far</a> <a href="#top">up</a> <a href="javascript:x()">no</a>`,
			"near (https://docs.example.org/a/c) far (https://x.example/) up no"},
		{`<a href="https://x.example/">https://x.example/</a>`, "https://x.example/"},
		{`<a href="c"></a>after`, "after"},
		{"<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b |\n1 | 2 |"},
		{"<script>x</script><style>y</style><template>z</template><noscript>n</noscript>text", "text"},
		{`<p hidden>x</p><p style="Display : none">x</p><p aria-hidden=true>x</p>text`, "text"},
		{`<img alt="A cat">`, "[image: A cat]"},
		{strings.Repeat("<div>", 10_000) + "deep", "(golem cannot read this page: html: open stack of elements exceeds 512 nodes)"},
		{"<title>T</title>body", "T\n\nbody"},
		{"", ""},
	}
	for _, test := range tests {
		if got := strings.TrimSuffix(readable(test.page, base), "\n"); got != test.want {
			t.Errorf("%.60s: got %.300q, want %q", test.page, got, test.want)
		}
	}
}

// TestCut cuts at lines and never inside a character, and all parts together are the text.
func TestCut(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("ü", maxText), strings.Repeat("a line\n", maxText), strings.Repeat("x", 2*maxText+1)} {
		var all strings.Builder
		for start := 0; ; {
			part, next := cut(text, start)
			all.WriteString(part)
			if len(part) > maxText || strings.ToValidUTF8(part, "?") != part {
				t.Fatalf("a part of %d bytes, or a broken one", len(part))
			}
			if next == 0 {
				break
			}
			start = next
		}
		if all.String() != text {
			t.Errorf("the parts of %d bytes have %d", len(text), all.Len())
		}
	}
}
