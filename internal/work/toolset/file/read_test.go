package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// TestReadFile checks the text that a model sees for files of every kind, on both
// backends.
func TestReadFile(t *testing.T) {
	files := map[string]string{
		"plain":  "one\ntwo\n",
		"open":   "one\ntwo",
		"blank":  "\n\n",
		"empty":  "",
		"crlf":   "one\r\ntwo\r\n",
		"mixed":  "one\r\ntwo\nthree\rfour\n",
		"bom":    "\ufeffone\n",
		"latin":  "caf\xe9\n",
		"number": "1\tone\n",
	}
	for _, c := range []struct {
		name   string
		header string // without the path and the version
		lines  string
	}{
		{"plain", "lines 1 to 2 of 2; ", "     1\tone\n     2\ttwo\n"},
		{"open", "lines 1 to 2 of 2; no line end after the last line", "     1\tone\n     2\ttwo\n"},
		{"blank", "lines 1 to 2 of 2; ", "     1\t\n     2\t\n"},
		{"empty", "empty file; ", ""},
		{"crlf", "lines 1 to 2 of 2; CRLF line ends", "     1\tone\n     2\ttwo\n"},
		{"mixed", "lines 1 to 3 of 3; mixed line ends", "     1\tone\n     2\ttwo\n     3\tthree\rfour\n"},
		{"bom", "lines 1 to 1 of 1; begins with a byte order mark", "     1\tone\n"},
		{"latin", "lines 1 to 1 of 1; not UTF-8: invalid bytes are shown as \uFFFD; edit_file keeps them", "     1\tcaf\uFFFD\n"},
		{"number", "lines 1 to 1 of 1; ", "     1\t1\tone\n"},
	} {
		disk, _ := newGate(t, files)
		for kind, g := range map[string]*tool.Gate{"disk": disk, "memory": memoryGate(t, files)} {
			r := call(t, g, "read_file", `{"path":"`+c.name+`"}`)
			if r.Err != nil {
				t.Errorf("%s, %s: %v", kind, c.name, r.Err)
				continue
			}
			d := r.Data.(*readData)
			want := "/" + c.name + ": " + strings.Replace(c.header, "; ", "; version "+d.Version+"; ", 1)
			want = strings.TrimSuffix(want, "; ") + "\n" + c.lines
			if r.Text != want {
				t.Errorf("%s, %s:\ngot  %q\nwant %q", kind, c.name, r.Text, want)
			}
			if want := string(bytes.Runes([]byte(files[c.name]))); d.Content != want {
				t.Errorf("%s, %s: content %q, want %q", kind, c.name, d.Content, want)
			}
		}
	}
}

// TestReadFileWindow reads parts of a file of five lines, also with invalid numbers.
func TestReadFileWindow(t *testing.T) {
	g, _ := newGate(t, map[string]string{"five": "a\nb\nc\nd\ne\n"})
	for _, c := range []struct {
		args string
		want string // content
		more int64
	}{
		{`"offset":2,"limit":2`, "b\nc\n", 4},
		{`"offset":4`, "d\ne\n", 0},
		{`"offset":5,"limit":1`, "e\n", 0},
		{`"offset":-2`, "d\ne\n", 0},
		{`"offset":-4,"limit":2`, "b\nc\n", 4},
		{`"offset":-99`, "a\nb\nc\nd\ne\n", 0},
		{`"offset":0,"limit":1`, "a\n", 2},
		{`"limit":0`, "a\nb\nc\nd\ne\n", 0},
		{`"limit":-5`, "a\nb\nc\nd\ne\n", 0},
		{`"offset":6`, "", 0},
		{`"offset":4611686018427387904,"limit":4611686018427387904`, "", 0},
		{`"offset":-4611686018427387904,"limit":4611686018427387904`, "a\nb\nc\nd\ne\n", 0},
		{`"cursor":"3@4"`, "c\nd\ne\n", 0},
		{`"cursor":"3@4","offset":4`, "d\ne\n", 0},
		{`"cursor":"3@4","offset":1,"limit":1`, "a\n", 2},
		{`"cursor":"9@4611686018427387904"`, "", 0},
	} {
		r := call(t, g, "read_file", `{"path":"/five",`+c.args+`}`)
		if r.Err != nil {
			t.Errorf("%s: %v", c.args, r.Err)
			continue
		}
		d := r.Data.(*readData)
		if d.Content != c.want || d.NextOffset != c.more {
			t.Errorf("%s: got %q, next %d; want %q, next %d", c.args, d.Content, d.NextOffset, c.want, c.more)
		}
		if more := fmt.Sprintf("[more: offset %d]", c.more); strings.Contains(r.Text, more) != (c.more > 0) {
			t.Errorf("%s: %q", c.args, r.Text)
		}
	}
	checkContains(t, callOK(t, g, "read_file", `{"path":"/five","offset":6}`), "it has 5 lines, and none from 6 on")
	for _, cursor := range []string{"x", "0@0", "1@-1", "1", "@", "1@2@3"} {
		callRefused(t, g, "read_file", `{"path":"/five","cursor":"`+cursor+`"}`, sandbox.ErrInvalid)
	}
}

// TestReadLongLine reads a long line to its end by the cursors in the results.
func TestReadLongLine(t *testing.T) {
	line := strings.Repeat("äb", 3500)
	g, _ := newGate(t, map[string]string{"long": "short\n" + line + "\nlast\n"})
	checkContains(t, callOK(t, g, "read_file", `{"path":"long"}`), "     2\t"+line[:3000]+"… [long line cut; cursor 2@3006 continues in it]\n     3\tlast\n")
	got := ""
	for cursor := "2@6"; cursor != ""; {
		d := call(t, g, "read_file", `{"path":"long","limit":1,"cursor":"`+cursor+`"}`).Data.(*readData)
		got += strings.TrimSuffix(d.Content, "\n")
		cursor = strings.Join(d.CutLines, " ")
	}
	if got != line {
		t.Errorf("the parts make %d bytes, want %d", len(got), len(line))
	}
}

// TestReadPageBounds checks that no result is larger than a page, and that the next page
// begins at the end of the last.
func TestReadPageBounds(t *testing.T) {
	for name, content := range map[string]string{
		"empty lines": strings.Repeat("\n", 300_000),
		"lines":       strings.Repeat(strings.Repeat("x", 99)+"\n", 20_000),
		"wide":        strings.Repeat(strings.Repeat("€", 1999)+"\n", 500),
	} {
		g := memoryGate(t, map[string]string{"f": content})
		got, offset := "", int64(1)
		for offset > 0 {
			r := call(t, g, "read_file", fmt.Sprintf(`{"path":"f","limit":1000000,"offset":%d}`, offset))
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if len(r.Text) > maxPage+1024 {
				t.Fatalf("%s: a page of %d bytes", name, len(r.Text))
			}
			d := r.Data.(*readData)
			got += d.Content
			offset = d.NextOffset
		}
		if got != content {
			t.Errorf("%s: the pages make %d bytes, want %d", name, len(got), len(content))
		}
	}
	g := memoryGate(t, map[string]string{"f": strings.Repeat("x\n", 3000)})
	if d := call(t, g, "read_file", `{"path":"f"}`).Data.(*readData); d.LastLine != 2000 || d.NextOffset != 2001 {
		t.Errorf("unasked, lines to %d, then %d; want 2000, 2001", d.LastLine, d.NextOffset)
	}
}

// TestReadBinary checks that golem recognizes text by its content. For other files the
// error says what to do.
func TestReadBinary(t *testing.T) {
	g, _ := newGate(t, map[string]string{
		"a.pdf":     "%PDF-1.7\nplain so far\n",
		"b.png":     "\x89PNG\r\n\x1a\n",
		"nul.txt":   "text\x00text",
		"late.txt":  strings.Repeat("text\n", 4000) + "\x00\n",
		"ctrl":      "\x01\x02\x03\x04abc",
		"utf16.txt": "\xff\xfet\x00e\x00",
		"text.pdf":  "only called so\n",
		"esc":       "\x1b[1mbold\x1b[0m\ttab\fpage\n",
	})
	for name, kind := range map[string]string{
		"a.pdf": "PDF, 22 bytes", "b.png": "PNG image", "nul.txt": "not text, 9 bytes", "ctrl": "not text", "utf16.txt": "UTF-16 text", "late.txt": "not text",
	} {
		args := `{"path":"` + name + `","offset":1,"limit":5000}`
		checkContains(t, callRefused(t, g, "read_file", args, sandbox.ErrInvalid),
			"/"+name, "cannot read a binary file as text", kind, "attachments", "the user", "file_info")
		if name != "late.txt" {
			callRefused(t, g, "sandbox_read_text", `{"path":"`+name+`"}`, sandbox.ErrInvalid)
		}
	}
	checkContains(t, callOK(t, g, "read_file", `{"path":"text.pdf"}`), "     1\tonly called so\n")
	checkContains(t, callOK(t, g, "read_file", `{"path":"esc"}`), "     1\t\x1b[1mbold\x1b[0m\ttab\fpage\n")
}

// bigFile creates a host file of numbered lines, a little larger than size.
func bigFile(t *testing.T, name string, size int) (lines int) {
	t.Helper()
	var b bytes.Buffer
	for b.Len() <= size {
		lines++
		fmt.Fprintf(&b, "line %d %s\n", lines, strings.Repeat("x", 80))
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return lines
}

// countAllocated returns how many bytes f allocates.
func countAllocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestReadLarge reads parts of a file of 100 MB. The work and the memory are limited at
// any position, and every line can be reached.
func TestReadLarge(t *testing.T) {
	g, dir := newGate(t, nil)
	total := bigFile(t, filepath.Join(dir, "big"), 100_000_000)
	page := func(args string) *readData {
		t.Helper()
		var r tool.Result
		used := countAllocated(func() { r = call(t, g, "read_file", `{"path":"big",`+args+`}`) })
		if used > 16<<20 {
			t.Errorf("%s allocates %d bytes", args, used)
		}
		if r.Err != nil {
			t.Fatalf("%s: %v", args, r.Err)
		}
		return r.Data.(*readData)
	}
	if d := page(`"limit":2`); !strings.HasPrefix(d.Content, "line 1 x") || d.LastLine != 2 || d.Cursor == "" || d.TotalLines != 0 {
		t.Errorf("the start: %+v", d)
	}
	if d := page(`"offset":-2`); d.FirstLine != -2 || d.LastLine != -1 || d.Cursor != "" || !strings.HasPrefix(d.Content, fmt.Sprintf("line %d x", total-1)) {
		t.Errorf("the end: %+v", d)
	}
	if d := page(`"offset":400000,"limit":1`); !strings.HasPrefix(d.Content, "line 400000 x") || d.FirstLine != 400000 {
		t.Errorf("middle: got %+v", d)
	}
	// A line beyond the limit of one call is found in two.
	far := fmt.Sprintf(`"offset":%d,"limit":1`, total-10)
	d := page(far)
	if d.Content != "" || d.Cursor == "" {
		t.Fatalf("a line near the end: got %+v", d)
	}
	if d = page(far + `,"cursor":"` + d.Cursor + `"`); !strings.HasPrefix(d.Content, fmt.Sprintf("line %d x", total-10)) || d.FirstLine != int64(total-10) {
		t.Errorf("a line near the end: got %+v", d)
	}
	if d = page(fmt.Sprintf(`"offset":%d,"cursor":"%s"`, total+5, d.Cursor)); d.Content != "" || d.Cursor != "" {
		t.Errorf("after the end: %+v", d)
	}
	checkContains(t, callRefused(t, g, "sandbox_read_text", `{"path":"big"}`, sandbox.ErrTooLarge), "read_file")
}

// TestReadLargePages reads a file of 5 MB by its cursors, from the start and from a line
// counted from the end.
func TestReadLargePages(t *testing.T) {
	g, dir := newGate(t, nil)
	name := filepath.Join(dir, "big")
	bigFile(t, name, 5_000_000)
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for start, want := range map[string]string{
		`"limit":2000`:  string(want),
		`"offset":-300`: string(bytes.Join(bytes.SplitAfter(want, newline)[bytes.Count(want, newline)-300:], nil)),
	} {
		got := ""
		for args := start; args != ""; {
			r := call(t, g, "read_file", `{"path":"big",`+args+`}`)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			d := r.Data.(*readData)
			got += d.Content
			if args = ""; d.Cursor != "" {
				checkContains(t, r.Text, "[more: cursor "+d.Cursor+"]")
				args = `"limit":100000,"cursor":"` + d.Cursor + `"`
			}
		}
		if got != want {
			t.Errorf("%s: the pages make %d bytes, want %d", start, len(got), len(want))
		}
	}
}

// TestReadLargeLongLines reads a large file whose lines are longer than one read. The
// lines stay separate, and the rest of each can be read.
func TestReadLargeLongLines(t *testing.T) {
	g, _ := newGate(t, map[string]string{"f": strings.Repeat(strings.Repeat("x", 2_500_000)+"\n", 2) + "end\n"})
	d := call(t, g, "read_file", `{"path":"f"}`).Data.(*readData)
	cut := strings.Repeat("x", maxLine) + "\n"
	if d.Content != cut+cut+"end\n" || d.TotalLines != 3 || len(d.CutLines) != 2 || d.CutLines[1] != "2@2502001" {
		t.Errorf("got %d bytes, %d lines, cut at %v", len(d.Content), d.TotalLines, d.CutLines)
	}
	d = call(t, g, "read_file", `{"path":"f","cursor":"2@5000000"}`).Data.(*readData)
	if d.Content != "x\nend\n" || d.FirstLine != 2 || d.TotalLines != 3 {
		t.Errorf("got %q from line %d", d.Content, d.FirstLine)
	}
}

// TestReadHugeLine reads a sparse file that is one line of 200 MB. The result is limited
// for every request.
func TestReadHugeLine(t *testing.T) {
	g, dir := newGate(t, map[string]string{"line": strings.Repeat("x", 100_000)})
	if err := os.Truncate(filepath.Join(dir, "line"), 200<<20); err != nil {
		t.Fatal(err)
	}
	d := call(t, g, "read_file", `{"path":"line"}`).Data.(*readData)
	if d.Content != strings.Repeat("x", maxLine) || d.LastLine != 1 || d.Cursor == "" {
		t.Errorf("got %d bytes of line %d, cursor %q", len(d.Content), d.LastLine, d.Cursor)
	}
	callRefused(t, g, "read_file", `{"path":"line","offset":-1}`, sandbox.ErrInvalid) // NULs
}

// TestReadVersion passes the version of a read to a write.
func TestReadVersion(t *testing.T) {
	g, dir := newGate(t, map[string]string{"a": "one\n"})
	version := call(t, g, "read_file", `{"path":"a"}`).Data.(*readData).Version
	args := func(content string) string {
		return fmt.Sprintf(`{"path":"a","content":%q,"if_version":%q}`, content, version)
	}
	callOK(t, g, "write_file", args("two\n"))
	hostFile(t, filepath.Join(dir, "a"), "three\n")
	callRefused(t, g, "write_file", args("four\n"), sandbox.ErrConflict)
}

// TestReadFiles reads several files. A file that cannot be read has its error in its
// place.
func TestReadFiles(t *testing.T) {
	g, _ := newGate(t, map[string]string{"a": "one\n", "d/b": "two\n", "bin": "\x00", "big": strings.Repeat("0123456789\n", 20_000)})
	r := call(t, g, "read_files", `{"paths":["a","/missing","d","../x","bin","d/b","a\u0000","big"]}`)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	checkContains(t, r.Text, "/a: lines 1 to 1 of 1", "     1\tone\n", "Error: read /missing: not_found", "Error: read /d: is_dir",
		"Error: read ../x: invalid", "Error: read /bin: invalid", "/d/b: lines 1 to 1 of 1", "     1\ttwo\n", "[more: offset ")
	list := r.Data.([]readEach)
	if len(list) != 8 || list[0].Content != "one\n" || list[1].Error == "" || list[5].Content != "two\n" || list[7].NextOffset == 0 {
		t.Errorf("got %+v", list)
	}
	many := strings.TrimSuffix(strings.Repeat(`"big",`, 50), ",")
	r = call(t, g, "read_files", `{"paths":[`+many+`]}`)
	if len(r.Text) > tool.MaxResult || r.Err != nil {
		t.Errorf("50 files make %d bytes; %v", len(r.Text), r.Err)
	}
	checkContains(t, r.Text, "Error: read /big: limit; the answer is full")
	callRefused(t, g, "read_files", `{"paths":[]}`, sandbox.ErrInvalid)
	callRefused(t, g, "read_files", `{"paths":[`+many+`,"a"]}`, sandbox.ErrInvalid)
	callRefused(t, g, "read_files", `{"paths":null}`, "invalid_args")
}

// TestReadText reads windows as llm-do did.
func TestReadText(t *testing.T) {
	text := strings.Repeat("añ€😀\r\n", 200_000)
	g, _ := newGate(t, map[string]string{"f": text, "latin": "caf\xe9\xe9s", "empty": ""})
	runes := []rune(text)
	for _, c := range []struct {
		args        string
		first, last int
	}{
		{``, 0, 20_000},
		{`,"offset":3,"max_chars":1`, 3, 4},
		{`,"offset":-1,"max_chars":2`, 0, 2},
		{`,"offset":4611686018427387904`, len(runes), len(runes)},
		{`,"max_chars":0`, 0, 0},
		{`,"max_chars":-5`, 0, 0},
		{`,"max_chars":1000000000000`, 0, maxWindow},
		{`,"max_chars":4611686018427387904,"offset":1199999`, 1_199_999, 1_200_000},
	} {
		r := call(t, g, "sandbox_read_text", `{"path":"f"`+c.args+`}`)
		if r.Err != nil {
			t.Errorf("%s: %v", c.args, r.Err)
			continue
		}
		want := readTextData{string(runes[c.first:c.last]), c.last < len(runes), int64(len(runes)), int64(c.first), int64(c.last - c.first)}
		if got := r.Data.(readTextData); got != want {
			t.Errorf("%s: got %d to %d of %d, truncated %v", c.args, got.Offset, got.CharsRead, got.TotalChars, got.Truncated)
		}
		if r.Text != want.Content || len(r.Notes) > 0 != want.Truncated {
			t.Errorf("%s: text of %d bytes, notes %v", c.args, len(r.Text), r.Notes)
		}
	}
	if got := callOK(t, g, "sandbox_read_text", `{"path":"latin"}`); got != "caf\uFFFD\uFFFDs" {
		t.Errorf("got %q", got)
	}
	if got := callOK(t, g, "sandbox_read_text", `{"path":"empty"}`); got != "" {
		t.Errorf("got %q", got)
	}
}

// FuzzReadWindow reads any content with any numbers. Nothing panics, the output is UTF-8,
// and the pages or windows together are the text of the file.
func FuzzReadWindow(f *testing.F) {
	f.Add([]byte("a\nb\r\nc"), int64(1), int64(2), int64(3))
	f.Add([]byte("\ufeffä€\xff\xfe\n\n\r\n"), int64(-2), int64(0), int64(-1))
	f.Add(bytes.Repeat([]byte("x"), 5000), int64(math.MinInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, content []byte, offset, limit, chars int64) {
		if len(content) > 10_000 {
			return // windows of one character each take long
		}
		want := string(bytes.Runes(content))
		total := wholeText(content).countLines()
		for _, large := range []bool{false, true} {
			open := func() *text {
				if large {
					large := largeText(t.Context(), bytes.NewReader(content), int64(len(content)))
					large.step = 7 // so that most data crosses the border of two reads
					return large
				}
				return wholeText(content)
			}
			p, err := wish{offset: offset, limit: limit, most: 1000}.readPage(open(), total)
			if err != nil || !utf8.ValidString(toValidText(p.shown)) {
				t.Fatalf("large %v: %v, %q", large, err, p.shown)
			}
			if got, want := lastLines(t, open, total), endOf(content, 3); got != want {
				t.Fatalf("large %v: the last lines are %q, want %q", large, got, want)
			}
			if got := allPages(t, open, max(1, limit%100)); got != want {
				t.Fatalf("large %v: the pages make %q, want %q", large, got, want)
			}
		}
		got := ""
		for at := int64(0); at < int64(utf8.RuneCount(content)); {
			part, first, last := window(content, at, max(1, chars%100))
			if first != at || last <= at {
				t.Fatalf("a window at %d is %d to %d", at, first, last)
			}
			got, at = got+toValidText(part), last
		}
		if got != want {
			t.Fatalf("the windows make %q, want %q", got, want)
		}
		window(content, offset, chars)
	})
}

// allPages reads a text to its end, including the rest of lines that are cut.
func allPages(t *testing.T, open func() *text, limit int64) string {
	var b strings.Builder
	for s := (spot{1, 0}); ; {
		p, err := wish{limit: limit, cursor: s, most: 1000}.readPage(open(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.cut) > 0 { // read up to the cut line, and then the rest of the line
			before, _ := wish{limit: p.cut[0].line - s.line, cursor: s, most: 1 << 20}.readPage(open(), 0)
			if p.cut[0].line > s.line {
				b.WriteString(toValidText(before.content))
				s = before.next
				continue
			}
			b.WriteString(toValidText(p.content[:p.cut[0].at-s.at]))
			s = p.cut[0]
			continue
		}
		b.WriteString(toValidText(p.content))
		if !p.more {
			return b.String()
		}
		s = p.next
	}
}

// lastLines reads the last three lines, with long lines cut.
func lastLines(t *testing.T, open func() *text, total int64) string {
	p, err := wish{offset: -3, limit: 3, most: 1 << 20}.readPage(open(), total)
	if err != nil {
		t.Fatal(err)
	}
	return string(p.content)
}

// endOf returns the last n lines of a content, with long lines cut.
func endOf(content []byte, n int) string {
	all := bytes.SplitAfter(content, newline)
	if len(all[len(all)-1]) == 0 {
		all = all[:len(all)-1]
	}
	var b strings.Builder
	for _, line := range all[max(0, len(all)-n):] {
		end := bytes.TrimSuffix(line, newline)
		if len(end) < len(line) {
			end = bytes.TrimSuffix(end, []byte("\r"))
		}
		b.Write(end[:prefix(end, maxLine)])
		b.Write(line[len(end):])
	}
	return b.String()
}

// TestToolsAreSmall checks that the tool descriptions in each request to a model stay
// below 8 KB and omit words that a model does not need.
func TestToolsAreSmall(t *testing.T) {
	type offer struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		InputSchema any    `json:"inputSchema"`
	}
	var all []offer
	for _, one := range Tools() {
		if !one.Unlisted {
			all = append(all, offer{one.Name, one.Description, one.Schema()})
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) >= 8000 {
		t.Errorf("%d bytes, want less than 8000", len(b))
	}
	if len(all) != 13 || len(Tools()) != 16 {
		t.Errorf("%d of %d tools are offered, want 13 of 16", len(all), len(Tools()))
	}
	for _, word := range []string{"mount", "zone", "host", "sandbox", "workspace"} {
		if strings.Contains(strings.ToLower(string(b)), word) {
			t.Errorf("%q is in the description of a tool", word)
		}
	}
	t.Logf("%d bytes", len(b))
}
