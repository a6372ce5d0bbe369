package file

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/sandbox"
)

func TestEdit(t *testing.T) {
	for _, row := range []struct{ why, content, old, new, want string }{
		{"one line", "a\nb\nc\n", "b", "B", "a\nB\nc\n"},
		{"no final newline", "a\nb", "b", "B", "a\nB"},
		{"taken away", "a\nb\n", "a\n", "", "b\n"},
		{"all of it", "abc", "abc", "", ""},
		{"byte order mark", "\xef\xbb\xbfa\n", "a", "b", "\xef\xbb\xbfb\n"},
		{"CRLF, old of two lines", "a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"},
		{"CRLF, given as it is", "a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\nc\r\n"},
		{"CRLF, old within a line", "a\r\nb\r\n", "a", "x\ny", "x\r\ny\r\nb\r\n"},
		{"CRLF, old begins with a line end", "x\r\nfoo\r\nend\r\n", "\nfoo", "\nbar\nbaz", "x\r\nbar\r\nbaz\r\nend\r\n"},
		{"CRLF, lines joined", "x\r\nfoo\r\nend\r\n", "\nfoo", " foo", "x foo\r\nend\r\n"},
		{"CRLF, a line taken away", "a\r\nb\r\nc\r\n", "\nb", "", "a\r\nc\r\n"},
		{"CRLF, old ends with a line end", "a\r\nb\r\n", "a\r\n", "x\ny\n", "x\r\ny\r\nb\r\n"},
		{"mixed, CRLF to LF by intent", "a\r\nb\r\nc\n", "a\r\n", "a\n", "a\nb\r\nc\n"},
		{"mixed, within a CRLF line", "a\r\nb\r\nc\n", "b", "b1\nb2", "a\r\nb1\r\nb2\r\nc\n"},
		{"mixed, within the last line", "a\nb\r\nc", "c", "c\nd", "a\nb\r\nc\r\nd"},
		{"mixed, old begins with a line end", "a\nb\r\nc\r\n", "\nc", "\nd", "a\nb\r\nd\r\n"},
		{"mixed, exact wins", "a\nb\r\nc\r\n", "a\nb", "x\ny", "x\ny\r\nc\r\n"},
		{"mixed, within a line", "a\nb\r\n", "a", "x\ny", "x\ny\nb\r\n"},
		{"Latin-1, ASCII edit", "caf\xe9 one\n", "one", "two", "caf\xe9 two\n"},
		{"Latin-1, odd old", "caf\xe9 one\n", "café", "thé", "th\xe9 one\n"},
		{"Latin-1, odd new", "caf\xe9 one\n", "one", "é", "caf\xe9 \xe9\n"},
		{"Latin-1 and CRLF", "caf\xe9\r\none\r\n", "café\none", "é\n1", "\xe9\r\n1\r\n"},
		{"UTF-8 with a broken byte", "é\xff one\n", "one", "é", "é\xff é\n"},
		{"neither UTF-8 nor Latin-1, ASCII edit", "\x93\xfa\x96\x7b { \n", " { ", " [ ", "\x93\xfa\x96\x7b [ \n"},
		{"UTF-8 is no Latin-1", "\xe9 é Ã©\n", "Ã©", "x", "\xe9 é x\n"},
		{"dollar signs and backslashes", "a$1b", "$1", `\0$0`, `a\0$0b`},
	} {
		s := newScene(t, map[string]string{"f": row.content})
		r := s.do("edit_file", oneEdit("/f", row.old, row.new))
		if got := s.get("proj/f"); r.Err != nil || got != row.want {
			t.Errorf("%s: %q, want %q; %v", row.why, got, row.want, r.Err)
		}
		if e, ok := r.Data.(Edited); !ok || e != (Edited{"/f", 1, filecontent.Hash([]byte(row.want))}) {
			t.Errorf("%s: %+v", row.why, r.Data)
		}
	}
}

// TestEditsInOrder checks that edits build on each other, and that either all or none are
// made.
func TestEditsInOrder(t *testing.T) {
	s := newScene(t, map[string]string{"f": "a b c\n"})
	check(t, os.Chmod(s.host("proj/f"), 0o750))
	r := s.must("edit_file", args{"path": "/f", "edits": []args{{"old": "a", "new": "x b"}, {"old": "x b b", "new": "y"}, {"old": "y c", "new": "zzz"},
		{"old": "z", "new": "w", "replace_all": true}}})
	s.want("proj/f", "www\n")
	if r.Data.(Edited).Edits != 4 || !strings.Contains(r.String(), "-a b c\n+www") {
		t.Errorf("%+v", r)
	}
	if info, err := os.Stat(s.host("proj/f")); err != nil || info.Mode() != 0o750 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	s.fails(sandbox.ErrInvalid, "edit_file", args{"path": "/f", "edits": []args{{"old": "www", "new": "v"}, {"old": "www", "new": "v"}}}, "edit 2 of 2", "does not occur")
	s.want("proj/f", "www\n")
	r = s.must("edit_file", args{"path": "/f", "edits": []args{{"old": "www", "new": "v"}, {"old": "v", "new": "www"}}})
	if len(r.Changes) != 1 || r.Changes[0].Diff != "" || r.Changes[0].Becomes != r.Changes[0].Base ||
		!strings.HasPrefix(r.Text, "nothing changed in /f") || r.Data != (Edited{"/f", 0, filecontent.Hash([]byte("www\n"))}) {
		t.Errorf("a change that changes nothing: %+v", r)
	}
	s.during = func() { s.put("proj/f", "www \n") }
	s.fails(sandbox.ErrConflict, "edit_file", args{"path": "/f", "edits": []args{{"old": "www", "new": "v"}, {"old": "v", "new": "www"}}}, "meanwhile")
}

// TestEditCountsAllPlaces: if a text occurs with several line ends or encodings, all
// places count. Each place keeps its own form.
func TestEditCountsAllPlaces(t *testing.T) {
	for _, row := range []struct{ why, content, old, new, lines, all string }{
		{"line ends", "foo\r\nbar\nfoo\nx\nfoo\r\n", "foo\n", "F\nO\n", "lines 1, 3, 5;", "F\r\nO\r\nbar\nF\nO\nx\nF\r\nO\r\n"},
		{"encodings", "caf\xe9\ncafé\n", "café", "thé", "lines 1, 2;", "th\xe9\nthé\n"},
		{"both", "é\r\n\xe9\r\né\n\xe9\n", "é\n", "è\n", "lines 1, 2, 3, 4;", "è\r\n\xe8\r\nè\n\xe8\n"},
		{"within lines", "a\r\na\na", "a", "b\nc", "lines 1, 2, 3;", "b\r\nc\r\nb\nc\nb\nc"},
		{"CRLF alone", "a\r\nb\r\nc\r\n", "\n", ";", "lines 1, 2, 3;", "a;b;c;"},
	} {
		s := newScene(t, map[string]string{"f": row.content})
		s.fails(sandbox.ErrInvalid, "edit_file", oneEdit("/f", row.old, row.new), row.lines, "replace_all")
		s.want("proj/f", row.content)
		s.must("edit_file", args{"path": "/f", "edits": []args{{"old": row.old, "new": row.new, "replace_all": true}}})
		if got := s.get("proj/f"); got != row.all {
			t.Errorf("%s: got %q, want %q", row.why, got, row.all)
		}
	}
}

// TestEditRefusesMixtures checks that golem refuses edits of binary files and edits that
// would mix line ends or encodings. The error says what to do, and the file stays.
func TestEditRefusesMixtures(t *testing.T) {
	for _, row := range []struct{ why, content, old, new, says string }{
		{"half a CRLF", "a\r\nb\r\n", "a\r", "a", "does not occur"},
		{"a CR alone", "a\r\nb\r\n", "a", "a\rq\n", "a CR alone"},
		{"the line end itself", "a\r\nb\r\n", "a\r\n", "a\n", "write_file"},
		{"UTF-16", "\xff\xfea\x00,\x00b\x00", ",", "; ", "binary or UTF-16 (UTF-16 text)"},
		{"UTF-16 without a mark", "a\x00=\x001\x00\n\x00", "=", " = ", "binary or UTF-16"},
		{"a NUL far behind", strings.Repeat("text\n", sniffed) + "\x00 end", "end", "END", "binary or UTF-16 (not text)"},
		{"an image", "\x89PNG\r\n\x1a\nabc", "abc", "x", "PNG image"},
		{"Shift JIS, odd new", "x \x93\xfa\x96\x7b\n", "x ", "é", "neither UTF-8 nor Latin-1"},
		{"Shift JIS that has UTF-8 too", "x \xc3\xa9 \x93\xfa\n", "x ", "é", "neither UTF-8 nor Latin-1"},
		{"a replacement character in old", "caf\xe9\n", "caf\uFFFD", "x", "\uFFFD stands for bytes"},
		{"a replacement character in new", "é caf\xe9 one\n", "one", "\uFFFD", "\uFFFD stands for bytes"},
	} {
		s := newScene(t, map[string]string{"f": row.content})
		s.fails(sandbox.ErrInvalid, "edit_file", oneEdit("/f", row.old, row.new), row.says)
		if s.want("proj/f", row.content); len(s.asked) > 0 {
			t.Errorf("%s: asked", row.why)
		}
	}
	s := newScene(t, map[string]string{"f": "x\n"})
	check(t, os.Truncate(s.host("proj/f"), maxEdited+1))
	s.fails(sandbox.ErrTooLarge, "edit_file", oneEdit("/f", "x", "y"), "16 MiB", "write_file")
}

// TestEditOfRepetitions checks that one edit of a large file takes limited time and
// memory, however often its text occurs.
func TestEditOfRepetitions(t *testing.T) {
	for _, row := range []struct {
		content, old string
		code         sandbox.Code
	}{
		{strings.Repeat("a", maxEdited), "a", sandbox.ErrLimit},
		{strings.Repeat("a", maxEdited), strings.Repeat("a", maxEdited/2+1), ""},
		{strings.Repeat("é", maxEdited/2-1) + "\xff", strings.Repeat("Ã©", maxEdited/8), sandbox.ErrLimit},
		{strings.Repeat("a\r\na\n", maxPlaces/8) + strings.Repeat("a", maxPlaces/2), "a", ""},
	} {
		_, err := edit{row.old, "b\nc", true}.apply([]byte(row.content))
		if got := sandbox.CodeOf(err); got != row.code {
			t.Errorf("%.10q in %.10q: %v, want %q", row.old, row.content, err, row.code)
		}
	}
}

// TestInvalidEdits checks that invalid edits fail at once, without a prompt.
func TestInvalidEdits(t *testing.T) {
	s := newScene(t, map[string]string{"f": "aaa\n", "caf": "caf\xe9"})
	s.fails(sandbox.ErrInvalid, "edit_file", args{"path": "/f", "edits": []args{}}, "no edits")
	s.fails(sandbox.ErrInvalid, "edit_file", oneEdit("/f", "", "x"), "edit 1: old is empty", "write_file")
	s.fails(sandbox.ErrInvalid, "edit_file", oneEdit("/f", "a", "a"), "the same")
	s.fails(sandbox.ErrInvalid, "edit_file", oneEdit("/f", "aa", "b"), "lines 1, 1")
	s.fails(sandbox.ErrInvalid, "edit_file", oneEdit("/caf", "c", "€"), "not UTF-8")
	s.fails(sandbox.ErrNotFound, "edit_file", oneEdit("/none", "a", "b"))
	s.fails(sandbox.ErrIsDir, "edit_file", oneEdit("/", "a", "b"))
	many := make([]args, maxEdits+1)
	for i := range many {
		many[i] = args{"old": "a", "new": "b"}
	}
	s.fails(sandbox.ErrInvalid, "edit_file", args{"path": "/f", "edits": many}, "at most")
	if len(s.asked) != 0 {
		t.Errorf("asked %d times", len(s.asked))
	}
	s.want("proj/f", "aaa\n")
}

func TestEditAmbiguous(t *testing.T) {
	s := newScene(t, map[string]string{"f": "x\n" + strings.Repeat("same\nother\n", 30), "three": "\nx\n\nx\n\nx\n"})
	s.fails(sandbox.ErrInvalid, "edit_file", oneEdit("/f", "same", "b"),
		"lines 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40 and 10 more; add context", "replace_all")
	s.fails(sandbox.ErrInvalid, "edit_file", oneEdit("/three", "\nx", "b"), "lines 1, 3, 5;")
	s.must("edit_file", args{"path": "/f", "edits": []args{{"old": "same", "new": "b", "replace_all": true}}})
	s.want("proj/f", "x\n"+strings.Repeat("b\nother\n", 30))
}

// TestEditMiss checks that an edit without a match shows the closest lines and the
// difference.
func TestEditMiss(t *testing.T) {
	long := "func main() {\n\tfmt.Println(\"hello, world\")\n\tos.Exit(0)\n}\n"
	for _, row := range []struct{ content, old, says, shows string }{
		{long, "func main() {\n    fmt.Println(\"hello, world\")\n    os.Exit(0)", "only tabs and spaces differ", "     2\t\tfmt.Println"},
		{long, "fmt.Println('hello, world')", "only quotes differ", "     2\t\tfmt.Println"},
		{long, "fmt.Println(\"hello,world\")", "only white space differs", "     2\t\tfmt.Println"},
		{long, "fmt.Println(“hello,  world”)", "only white space and quotes differ", "     2\t\tfmt.Println"},
		{long, "     2\tfmt.Println(\"hello, world\")\n     3\tos.Exit(0)", "", "     2\t\tfmt.Println"},
		{long, "     1\tfunc main() {", "only the line numbers differ: leave them out", "     1\tfunc main"},
		{long, "FMT.Println(\"hello, world\")", "only upper and lower case differ", "     2\t\tfmt.Println"},
		{"a long first line\nx\r\na long last line\n", "a long first line\nx\na long last line", "only the line ends differ", "     1\ta long first line\n     2\tx\n     3\ta long"},
		{long, "fmt.Printf(\"hello, you\")", "the closest is this:", "     2\t\tfmt.Println"},
		{long, "something else altogether", "nothing in it is like that", ""},
		{"", "x", "nothing in it is like that", ""},
		{strings.Repeat("filler\n", 5000) + long, "func main() {\n  os.Exit(1)", "the closest is this:", "  5001\tfunc main() {\n  5002\t\tfmt"},
	} {
		got := describeClosest([]byte(row.content), row.old)
		if !strings.Contains(got, row.says) || !strings.Contains(got, row.shows) {
			t.Errorf("%q: got %s\nwant %q and %q", row.old, got, row.says, row.shows)
		}
	}
	s := newScene(t, map[string]string{"f": long})
	s.fails(sandbox.ErrInvalid, "edit_file", oneEdit("/f", "os.Exit( 0 )", "x"), "edit 1 of 1", "white space", "     3\t\tos.Exit(0)")
}

// TestEditMissIsLimited checks that the size of the error and the work to find it are
// limited.
func TestEditMissIsLimited(t *testing.T) {
	line := strings.Repeat("é", 1000)
	got := describeClosest([]byte(strings.Repeat(line+"\n", 100)), strings.Repeat(line+" \n", 50))
	if n := strings.Count(got, "\n"); n != maxShown+1 || len(got) > (maxShown+1)*(2*maxChars+20)+200 || !strings.Contains(got, "40 more lines") {
		t.Errorf("%d lines, %d bytes: %s", n, len(got), got)
	}
	for _, content := range [][]byte{bytes.Repeat([]byte("}\n"), 8<<20), bytes.Repeat([]byte("abc "), 4<<20), bytes.Repeat([]byte{0xff}, 16<<20)} {
		if got := describeClosest(content, strings.Repeat("}\n", 100_000)+"z"); len(got) > 4000 {
			t.Errorf("%d bytes", len(got))
		}
	}
	e := edit{Old: "a", New: strings.Repeat("b", 1<<20), ReplaceAll: true}
	if _, err := e.apply(bytes.Repeat([]byte("a"), 1<<20)); sandbox.CodeOf(err) != sandbox.ErrTooLarge {
		t.Errorf("a file of a terabyte: %v", err)
	}
}

// TestParallelEdits makes twenty edits of one file at a time. Each succeeds or reports a
// conflict, and no edit that succeeded is lost.
func TestParallelEdits(t *testing.T) {
	const n = 20
	for _, again := range []bool{false, true} {
		var content strings.Builder
		for i := range n {
			fmt.Fprintf(&content, "line %d.\n", i)
		}
		s := newScene(t, map[string]string{"f": content.String()})
		s.gate.Grant.Approvals = s.gate.Grant.Approvals.With(policy.Rule{Verb: policy.Write, Target: "/", Approval: policy.PreApproved})
		done := make([]bool, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				for {
					r := s.do("edit_file", oneEdit("/f", fmt.Sprintf("line %d.", i), fmt.Sprintf("LINE %d.", i)))
					if done[i] = r.Err == nil; done[i] || !again && r.Err.Code == sandbox.ErrConflict {
						return
					}
					if r.Err.Code != sandbox.ErrConflict {
						t.Error(r.Err)
						return
					}
				}
			})
		}
		all.Wait()
		got, count := s.get("proj/f"), 0
		for i := range n {
			if done[i] {
				count++
			}
			if there := strings.Contains(got, fmt.Sprintf("LINE %d.", i)); there != done[i] {
				t.Errorf("edit %d: reported as done: %v, in the file: %v", i, done[i], there)
			}
		}
		if count == 0 || again && count != n {
			t.Errorf("%d of %d done", count, n)
		}
	}
}

// TestEditKeepsTheRest checks that all bytes outside an edit stay as they are.
func TestEditKeepsTheRest(t *testing.T) {
	pieces := []string{"\r\n", "\n", "\r", "\xef\xbb\xbf", "\x80", "caf\xe9", "é", "text", "\t", " ", "\xff"}
	s := newScene(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 20).Draw(t, "pieces"), "")
		})
		head, tail := some.Draw(t, "head"), some.Draw(t, "tail")
		file := head + "<old>" + tail
		memory := sandbox.NewMemory(map[string]sandbox.Object{"f": {Content: file}})
		box, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: memory, Access: sandbox.ReadWrite}}})
		if err != nil {
			t.Fatal(err)
		}
		s.over(box)
		r := s.do("edit_file", oneEdit("/f", "<old>", "<new>"))
		if got := memory.Files()["f"]; r.Err != nil || got != head+"<new>"+tail {
			t.Fatalf("%q became %q: %v", file, got, r.Err)
		}
	})
}

// FuzzEdit checks that a successful edit replaces bytes with the given text, possibly in
// the line ends and the encoding of the file. A file in which all lines end in CRLF stays
// so.
func FuzzEdit(f *testing.F) {
	f.Add([]byte("a\nb\n"), "a", "b", false)
	f.Add([]byte("a\r\nb\r\n"), "a\nb", "x\ny", true)
	f.Add([]byte("caf\xe9\r\n"), "é\n", "è", false)
	f.Add([]byte("x\r\nfoo\r\n"), "\nfoo", "\nbar\nbaz", false)
	f.Add([]byte("a\r\nb\r\n"), "a\r", "a", false)
	f.Add([]byte("a\r\nb\r\n"), "a", "a\rq\n", false)
	f.Add([]byte("foo\r\nbar\nfoo\n\xe9"), "foo\n", "é\n", true)
	f.Add([]byte("aaaa\x00"), "aa", "€", true)
	f.Fuzz(func(t *testing.T, content []byte, old, new string, all bool) {
		e := edit{old, new, all}
		if checkEdits([]edit{e}) != "" || !utf8.ValidString(old) || !utf8.ValidString(new) {
			return
		}
		before := slices.Clone(content)
		got, err := applyEdits(context.Background(), content, []edit{e})
		if !bytes.Equal(content, before) {
			t.Fatal("applyEdits has changed its input")
		}
		if err != nil {
			if !utf8.ValidString(err.Error()) || len(err.Error()) > 16<<10 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			once := bytes.Count(content, []byte(old)) == 1 && !bytes.Contains(content[bytes.Index(content, []byte(old))+1:], []byte(old))
			if once && utf8.Valid(content) && !bytes.Contains(content, []byte("\r")) {
				t.Fatalf("%q occurs once in %q: %v", old, content, err)
			}
			return
		}
		if ends := newSubject(content).ends; ends.allCRLF() && newSubject(got).ends.lf+newSubject(got).ends.cr > 0 {
			t.Fatalf("%q with %q for %q became %q", content, new, old, got)
		}
		// Nothing changes outside the places, and each place holds new.
		places, err := newSubject(content).findPlaces(old)
		if err != nil || len(places) != 1 && !all {
			t.Fatalf("%q is at %v in %q: %v", old, places, content, err)
		}
		rest := got
		for i, p := range dropOverlaps(places) {
			from := 0
			if i > 0 {
				from = dropOverlaps(places)[i-1].end
			}
			var ok bool
			if rest, ok = bytes.CutPrefix(rest, content[from:p.at]); ok {
				rest, ok = cutSpelled(rest, new)
			}
			if !ok {
				t.Fatalf("%q with %q for %q became %q", content, new, old, got)
			}
		}
		if last := dropOverlaps(places)[len(dropOverlaps(places))-1].end; !bytes.Equal(rest, content[last:]) {
			t.Fatalf("%q with %q for %q became %q", content, new, old, got)
		}
	})
}

// cutSpelled returns the content after a text, in any line ends and encoding.
func cutSpelled(content []byte, text string) ([]byte, bool) {
	latin, _ := toLatin1(text)
	latinCRLF, _ := toLatin1(toCRLF(text))
	for _, spelled := range [][]byte{[]byte(toCRLF(text)), []byte(text), latinCRLF, latin} {
		if rest, ok := bytes.CutPrefix(content, spelled); ok && (len(spelled) > 0 || text == "") {
			return rest, true
		}
	}
	return nil, false
}
