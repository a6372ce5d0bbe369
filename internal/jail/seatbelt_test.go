package jail

import (
	"path/filepath"
	"strings"
	"testing"

	tests "github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/sandbox"
)

// hostilePath has all characters that could end a string of the profile or begin a rule.
const hostilePath = "/Users/u/a\") (allow default) (\"b\\\") ; \n(allow network*)\t\x7f'ü*"

// TestSeatbelt compares the text of profiles. Nothing on this system can run them.
func TestSeatbelt(t *testing.T) {
	for name, p := range map[string]Policy{
		"none": {},
		"mounts": {Mounts: []Mount{
			{Source: "/Users/u/in", Target: "/in"},
			{Source: "/Users/u/out", Target: "/out", Write: true},
			{Source: "/Users/u/notes", Target: Work, Write: true},
			{Target: Work + "/a/hidden"},
			{Source: "/Users/u/notes/b/c/fixed", Target: Work + "/b/c/fixed"},
			{Source: "/Users/u/elsewhere", Target: Work + "/lib", Write: true},
		}},
		"network": {Network: true},
		"hostile": {Mounts: []Mount{{Source: hostilePath, Target: "/odd", Write: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			tests.Golden(t, filepath.Join("testdata", "seatbelt", name+".sb"), seatbelt(p, "/private/tmp/golem-1"))
		})
	}
}

// A fate is an operation on a file that a profile allows or denies.
type fate struct{ op, name string }

// judge evaluates the rules of a profile for files: the last rule that matches the
// operation and the name holds.
func judge(t *testing.T, text string, f fate) bool {
	t.Helper()
	allowed := false
	for rule := range strings.Lines(text) {
		forms := parse(t, rule)
		if len(forms) != 1 {
			t.Fatalf("%q is %d rules", rule, len(forms))
		}
		words := forms[0].list
		if words[0].word == "version" || words[1].word == "default" {
			continue
		}
		about, all, where := false, true, false
		for _, w := range words[1:] {
			if w.list == nil {
				prefix, star := strings.CutSuffix(w.word, "*")
				about = about || w.word == f.op || star && strings.HasPrefix(f.op, prefix)
				continue
			}
			all = false
			name := w.list[1].word
			switch w.list[0].word {
			case "literal":
				where = where || f.name == name
			case "subpath":
				where = where || f.name == name || strings.HasPrefix(f.name, strings.TrimSuffix(name, "/")+"/")
			}
		}
		if about && (all || where) {
			allowed = words[0].word == "allow"
		}
	}
	return allowed
}

// A form is a word or a list of forms.
type form struct {
	word string
	list []form
}

// parse reads lists, words, and strings with escapes, as a Scheme reader does.
func parse(t *testing.T, text string) []form {
	t.Helper()
	stack := [][]form{nil}
	for i := 0; i < len(text); i++ {
		top := len(stack) - 1
		switch c := text[i]; {
		case c == '(':
			stack = append(stack, nil)
		case c == ')' && top > 0:
			stack[top-1] = append(stack[top-1], form{list: append([]form{}, stack[top]...)})
			stack = stack[:top]
		case c == '"':
			var b strings.Builder
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] != '\\' {
					b.WriteByte(text[i])
					continue
				}
				i++
				if text[i] == 'x' {
					b.WriteByte(hex(text[i+1])<<4 | hex(text[i+2]))
					i += 2
				} else {
					b.WriteByte(text[i])
				}
			}
			stack[top] = append(stack[top], form{word: b.String()})
		case c == ' ' || c == '\n':
		case c == ';' || c == ')':
			t.Fatalf("%q at %d of %q", c, i, text)
		default:
			from := i
			for i < len(text) && !strings.ContainsRune(" \n()\";", rune(text[i])) {
				i++
			}
			stack[top] = append(stack[top], form{word: text[from:i]})
			i--
		}
	}
	if len(stack) != 1 {
		t.Fatalf("%q does not end", text)
	}
	return stack[0]
}

func hex(c byte) byte { return byte(strings.IndexByte("0123456789abcdef", c)) }

// TestSeatbeltFates checks the operations that profiles allow. No command opens a file
// that it is not shown, no file can be moved out of its rule, and no name ends its
// string.
func TestSeatbeltFates(t *testing.T) {
	p := Policy{Mounts: []Mount{
		{Source: "/u/in", Target: "/in"},
		{Source: "/u/notes", Target: Work, Write: true},
		{Target: Work + "/a/hidden"},
		{Source: "/u/notes/b/c/fixed", Target: Work + "/b/c/fixed"},
		{Source: "/u/other", Target: Work + "/lib", Write: true},
		{Source: "/u/notes/x/y", Target: "/y"},
		{Source: hostilePath, Target: "/odd"},
	}}
	text := seatbelt(p, "/t")
	for _, test := range []struct {
		op, name string
		want     bool
	}{
		{"file-read-data", "/u/in/a", true},
		{"file-write-data", "/u/in/a", false},
		{"file-write-unlink", "/u/in", false},
		{"file-read-data", "/u/inside", false},
		{"file-read-data", "/u/secret", false},
		{"file-read-data", "/u", false},
		{"file-read-metadata", "/u", true},
		{"file-read-metadata", "/u/secret", false},
		{"file-read-data", "/private/etc/ssl/cert.pem", true},
		{"file-read-data", "/private/etc/master.passwd", false},
		{"file-read-data", "/private/etc/sudoers", false},
		{"process-exec", "/usr/bin/git", true},
		{"process-exec", "/u/bin/tool", false},
		{"process-exec", "/u/in/tool", true},
		{"file-write-data", "/u/notes/a/b", true},
		{"file-write-create", "/u/notes/new", true},
		{"file-write-unlink", "/u/notes/a/b", true},
		{"file-write-unlink", "/u/notes", false},
		{"file-read-data", "/u/notes/a/hidden/x", false},
		{"file-write-create", "/u/notes/a/hidden", false},
		{"file-write-unlink", "/u/notes/a/hidden", false},
		{"file-write-unlink", "/u/notes/a", false}, // a move would also move the hidden directory
		{"file-read-data", "/u/notes/b/c/fixed/x", true},
		{"file-write-data", "/u/notes/b/c/fixed/x", false},
		{"file-write-unlink", "/u/notes/b/c/fixed", false},
		{"file-write-unlink", "/u/notes/b/c", false},
		{"file-write-unlink", "/u/notes/b", false},
		{"file-write-data", "/u/notes/b/c/free", true},
		{"file-read-data", "/u/notes/lib/x", false}, // another directory is mounted there
		{"file-write-data", "/u/other/x", true},
		{"file-write-data", "/u/notes/x/y/z", false},
		{"file-write-unlink", "/u/notes/x", false},
		{"file-link", "/u/notes/a/b", false},
		{"file-read-data", hostilePath + "/x", true},
		{"file-write-data", hostilePath + "/x", false},
		{"file-write-data", "/t/x", true},
		{"file-write-data", "/dev/null", true},
		{"file-read-data", "/dev/disk0", false},
		{"network-outbound", "/private/var/run/mDNSResponder", false},
		{"mach-lookup", "", false},
	} {
		if got := judge(t, text, fate{test.op, test.name}); got != test.want {
			t.Errorf("%s %q: got %v, want %v", test.op, test.name, got, test.want)
		}
	}
	p.Network = true
	text = seatbelt(p, "/t")
	for name, want := range map[string]bool{"": true, "/private/var/run/mDNSResponder": true, "/private/var/run/docker.sock": false} {
		if got := judge(t, text, fate{"network-outbound", name}); got != want {
			t.Errorf("network, %q: got %v, want %v", name, got, want)
		}
	}
}

// FuzzSeatbelt checks that every name stays one string.
func FuzzSeatbelt(f *testing.F) {
	f.Add(hostilePath)
	f.Add("/a\\")
	f.Add("/a\x00\xff")
	f.Fuzz(func(t *testing.T, name string) {
		forms := parse(t, quoted(name))
		if len(forms) != 1 || forms[0].list != nil || forms[0].word != name {
			t.Errorf("%q is read as %+v", name, forms)
		}
		if strings.ContainsAny(quoted(name), "\n\r") {
			t.Errorf("%q is on two lines", name)
		}
		for _, rule := range strings.SplitAfter(seatbelt(Policy{Mounts: []Mount{{Source: sandbox.Host("/" + name), Target: "/m"}}}, "/t"), "\n") {
			if rule != "" && len(parse(t, rule)) != 1 {
				t.Errorf("%q is not one rule", rule)
			}
		}
	})
}
