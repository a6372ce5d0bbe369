package scan

import (
	"bytes"
	"html"
	"path"
	"regexp"
	"strings"
	"sync"
)

var svgTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)<(?:[\w-]+:)?svg[\s>]`) })

// isSVG looks at the name or the first tag. A web page may contain both images and
// scripts.
func isSVG(name string, data []byte) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".svg":
		return true
	case ".html", ".htm", ".xhtml", ".vue", ".svelte", ".md":
		return false
	}
	head := bytes.TrimLeft(data[:min(len(data), 1024)], "\xef\xbb\xbf \t\r\n")
	return bytes.HasPrefix(head, []byte("<")) && svgTag().Match(head)
}

// lookSVG finds parts of an SVG image that run.
func lookSVG(n *notes, data []byte) {
	if text := narrowed(data); text != nil {
		data = text
	}
	if bytes.IndexByte(data, '&') >= 0 {
		data = []byte(html.UnescapeString(string(data)))
	}
	runs := svgActs(data)
	if !runs && bytes.ContainsAny(data, "\t\n\r") {
		// Browsers ignore these characters in an address.
		tight := make([]byte, 0, len(data))
		for _, c := range data {
			if c != '\t' && c != '\n' && c != '\r' {
				tight = append(tight, c)
			}
		}
		runs = svgActs(tight)
	}
	if runs {
		n.hold(0, "SVG: a script, or a part that runs as one")
	}
}

// svgWords occur in everything that runs. Each has a check of the text around it.
var svgWords = []struct {
	word string
	runs func(data []byte, at, end int) bool
}{
	{"script", func(data []byte, at, end int) bool {
		return isElement(data, at, end) || isAddress(data, at, end)
	}},
	{"iframe", isElement}, {"embed", isElement}, {"object", isElement}, {"foreignobject", isElement}, {"handler", isElement},
	{"on", isHandler},
	{"<!entity", func([]byte, int, int) bool { return true }},
	{"data:text/html", func([]byte, int, int) bool { return true }},
	{"attributename", func(data []byte, _, end int) bool {
		end = quoteAfter(data, end)
		return end >= 0 && len(data) >= end+2 && lower[data[end]] == 'o' && lower[data[end+1]] == 'n'
	}},
}

var svgKeywords = sync.OnceValue(func() *keywords {
	var words []string
	for _, w := range svgWords {
		words = append(words, w.word)
	}
	return newKeywords(words)
})

// svgActs reports whether an image contains something that runs. It reads each byte only
// a few times, whatever the image contains.
func svgActs(data []byte) (found bool) {
	svgKeywords().find(data, func(word, at int) bool {
		w := svgWords[word]
		found = w.runs(data, at, at+len(w.word))
		return !found
	})
	return found
}

// isElement reports whether a word is the name of an element, possibly with a prefix.
func isElement(data []byte, at, end int) bool {
	if end >= len(data) || !isSpace(data[end]) && data[end] != '>' && data[end] != '/' || at == 0 {
		return false
	}
	if data[at-1] == ':' {
		from := at - 1
		for from > 0 && (nameLetter(data[from-1]) && data[from-1] != '.') {
			from--
		}
		if from == at-1 {
			return false
		}
		at = from
	}
	return at > 0 && data[at-1] == '<'
}

// isAddress reports whether a word is the end of javascript: or vbscript:.
func isAddress(data []byte, at, end int) bool {
	before := string(bytes.ToLower(data[max(0, at-4):at]))
	if before != "java" && !strings.HasSuffix(before, "vb") {
		return false
	}
	for end < len(data) && isSpace(data[end]) {
		end++
	}
	return end < len(data) && data[end] == ':'
}

// isHandler reports whether an attribute such as onload with a value begins here.
func isHandler(data []byte, at, end int) bool {
	const least = 4 // letters after "on"
	if at == 0 || !isSpace(data[at-1]) && !bytes.ContainsRune([]byte(`"'/`), rune(data[at-1])) {
		return false
	}
	from := end
	for end < len(data) && lower[data[end]] >= 'a' && lower[data[end]] <= 'z' {
		end++
	}
	return end-from >= least && quoteAfter(data, end) >= 0
}

// quoteAfter returns where a quoted value of an assignment begins, or -1.
func quoteAfter(data []byte, at int) int {
	for _, sign := range []string{"=", `"'`} {
		for at < len(data) && isSpace(data[at]) {
			at++
		}
		if at == len(data) || strings.IndexByte(sign, data[at]) < 0 {
			return -1
		}
		at++
	}
	return at
}

// isSpace reports whether a byte is white space, like \s in a regular expression.
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r' }
