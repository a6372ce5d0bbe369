package worker

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

const maxFile = 1 << 20 // the largest size of a worker file in bytes

// A page is a worker file in two parts.
type page struct {
	head  string // the YAML
	above int    // the number of lines before it
	body  string // the text after the front matter
}

// split divides a file into its front matter and its body. A file that does not start
// with ---, after comments and empty lines, is YAML as a whole.
func (r *reader) split(data []byte) (page, bool) {
	top := strictyaml.Node{Place: r.w.Place}
	if len(data) > maxFile {
		r.problems.Add(top, fmt.Sprintf("%d bytes", len(data)), fmt.Sprintf("a worker file may have %d", maxFile))
		return page{}, false
	}
	if !utf8.Valid(data) {
		r.problems.Add(top, "not UTF-8", "save the file as UTF-8")
		return page{}, false
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	whole := strings.ReplaceAll(string(data), "\r\n", "\n")

	rest, line := whole, 0
	for rest != "" {
		var now string
		now, rest, _ = strings.Cut(rest, "\n")
		line++
		if isFence(now) {
			return r.splitFenced(rest, line)
		}
		if now = strings.TrimSpace(now); now != "" && now[0] != '#' {
			break
		}
	}
	return page{head: whole}, true
}

// splitFenced divides the text after the opening line, which has the number line.
func (r *reader) splitFenced(text string, line int) (page, bool) {
	for at := 0; at < len(text); {
		now, _, _ := strings.Cut(text[at:], "\n")
		next := min(at+len(now)+1, len(text))
		if isFence(now) {
			return page{head: text[:at], above: line, body: text[next:]}, true
		}
		at = next
	}
	r.problems.Add(strictyaml.Node{Place: strictyaml.Place{Source: r.file, Line: line, Col: 1}}, "front matter that does not end",
		"write --- on a line of its own after the keys; plain YAML begins without it")
	return page{}, false
}

// isFence reports whether a line opens or closes the front matter.
func isFence(line string) bool { return strings.TrimRight(line, " \t") == "---" }

// readPrompt returns the prompt from the body or a key. Two promptKey are a problem.
func (r *reader) readPrompt(top strictyaml.Node, page page) string {
	found, at := page.body, "the body of the file"
	if strings.TrimSpace(found) == "" {
		at = ""
	}
	for _, key := range []string{"instructions", "prompt"} {
		n, ok := top.At(key)
		switch {
		case !ok || n.Kind != strictyaml.Scalar:
		case at != "":
			r.problems.Add(n, key+": a second prompt", "it is in "+at+" already; keep one")
		default:
			found, at = n.Text, key
		}
	}
	return found
}
