package visible_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/people/visible"
)

// hostile are texts that would move the cursor, set colours, hide, reorder or rename
// something, or answer for the user, if they were printed unchanged.
var hostile = []string{
	"\x1b[2K\r", "\x1b[8mhidden\x1b[0m", "\x1b]0;title\a", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "\x1b]52;c;eQo=\a", "\x1bP1$r\x1b\\",
	"\x9b2J", "\u009b2J", "\u0085", "\a\b\v\f\x00\x7f", "a\rb", "\u202efdp.sh", "\u2066x\u2069", "\u200b\u200d\ufeff\u2060\u00ad", "\U000e0041\U000e007f",
	"\ufe0f\U000e0100", "\u2028\u2029", "\u3164\u115f\u2800", "a" + strings.Repeat("\u0301", 50), "\u0338", "\xff\xc3\xe2\x80", "\ud7ff\ue000\uffff",
}

// TestText checks the escapes of hostile texts.
func TestText(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"plain text, ü and 漢\n\tas it is", "plain text, ü and 漢\n\tas it is"},
		{"\x1b[31m", `\x1b[31m`},
		{"a\rb\x00", `a\rb\x00`},
		{"\u202e\u200b\u2066", `\u202e\u200b\u2066`},
		{"\U000e0041", `\U000e0041`},
		{"\u009b1m", `\u009b1m`},
		{"\xff\xc3", `\xff\xc3`},
		{"\ufffd", "\ufffd"},
		{"'\\", `'\`},
		{"e\u0301, q\u0307\u0323", "e\u0301, q\u0307\u0323"},
		{"a" + strings.Repeat("\u0301", 6), "a" + strings.Repeat("\u0301", 4) + `\u0301\u0301`},
		{"\u0301a\n\u0301\t\u0301\x1b\u0301", `\u0301a` + "\n" + `\u0301` + "\t" + `\u0301\x1b\u0301`},
	} {
		if got := visible.Text(test.text); got != test.want {
			t.Errorf("Text(%q): got %q, want %q", test.text, got, test.want)
		}
	}
}

// TestProse checks that prose keeps what languages and emoji need, and that nothing else
// invisible passes.
func TestProse(t *testing.T) {
	for _, text := range []string{
		"❤\ufe0f 👩\u200d👩\u200d👧 1\ufe0f\u20e3 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f \U0001fae9", "10\u202f000\u00a0€, «\u00a0oui\u00a0»", "日本\u3000語", "葛\U000e0100",
		"می\u200cخواهم", "क्\u200dष", "שלום!\u200f (a)", "\u200eabc", "\u0645\u061c1", "\u1820\u180b", "ภา\u200bษา", "⠁\u2800⠃", "e\u0301\n\t",
	} {
		if got := visible.Prose(text); got != text {
			t.Errorf("Prose(%q): got %q", text, got)
		}
	}
	for _, test := range []struct{ text, want string }{
		{"a\u200bb\u2060c", `a\u200bb\u2060c`}, {"a\u200db", `a\u200db`}, {"a\ufe0f", `a\ufe0f`}, {"❤\ufe0f\ufe0f", "❤\ufe0f" + `\ufe0f`},
		{"\u202eabc\u202c", `\u202eabc\u202c`}, {"\u2066a\u2069", `\u2066a\u2069`}, {"a\u200e\u200f", "a\u200e" + `\u200f`}, {"\u2028", `\u2028`},
		{"\x1b[2Ja\rb\x9b", `\x1b[2Ja\rb\x9b`}, {"\U000e0041", `\U000e0041`}, {"a\u3164", `a\u3164`}, {"a" + strings.Repeat("\u0301", 5), "a" + strings.Repeat("\u0301", 4) + `\u0301`},
	} {
		if got := visible.Prose(test.text); got != test.want {
			t.Errorf("Prose(%q): got %q, want %q", test.text, got, test.want)
		}
	}
}

// TestData checks that text for a program keeps every character except controls.
func TestData(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"❤\ufe0f\u202f\u200d\u00a0\u200f\u202e\ufeff\u2028\U000e0041\ue000\ufffd\n\t\r\n", "❤\ufe0f\u202f\u200d\u00a0\u200f\u202e\ufeff\u2028\U000e0041\ue000\ufffd\n\t\r\n"},
		{"a\x1b[2J\rb\x00\x7f\u009b\xff", `a\x1b[2J\rb\x00\x7f\u009b\xff`},
	} {
		if got := visible.Data(test.text); got != test.want {
			t.Errorf("Data(%q): got %q, want %q", test.text, got, test.want)
		}
	}
}

// TestLine checks texts on one line and their shortening.
func TestLine(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"a\nb\tc\r", 100, `a\nb\tc\r`},
		{"abcdef", 6, "abcdef"},
		{"漢漢漢漢漢漢", 6, "漢漢漢漢漢漢"},
		{"abcdefg", 6, "abcd…(1 characters omitted)…fg"},
		{"a\n" + strings.Repeat("x", 1000) + "z", 3, `a\…(1001 characters omitted)…z`},
		{"abcd" + "e\u0301\u0301f", 3, "ab…(5 characters omitted)…f"},
		{"abcdefe\u0301", 3, "ab…(6 characters omitted)…"},
		{"abc", 0, "…(3 characters omitted)…"},
	} {
		if got := visible.Line(test.text, test.most); got != test.want {
			t.Errorf("Line(%q, %d): got %q, want %q", test.text, test.most, got, test.want)
		}
	}
}

// TestWriter checks that a character may arrive in pieces, and that an incomplete one is
// escaped at the end.
func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := visible.NewWriter(&out)
	for _, step := range []struct{ text, want string }{
		{"a\xe6\xbc", "a"},
		{"", "a"},
		{"\xa2b", "a漢b"},
		{"\xe2", "a漢b"},
		{"\x80", "a漢b"},
		{"\xae", `a漢b\u202e`},
		{"\xf0", `a漢b\u202e`},
		{"x\xc2", `a漢b\u202e\xf0x`},
	} {
		if n, err := w.Write([]byte(step.text)); n != len(step.text) || err != nil {
			t.Fatalf("write %q: got %d, %v", step.text, n, err)
		}
		if got := out.String(); got != step.want {
			t.Errorf("after %q: got %q, want %q", step.text, got, step.want)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), `a漢b\u202e\xf0x\xc2`; got != want {
		t.Errorf("closed: got %q, want %q", got, want)
	}
}

// broken fails once and then accepts everything.
type broken struct {
	err error
	got string
}

func (b *broken) Write(text []byte) (int, error) {
	if err := b.err; err != nil {
		b.err = nil
		return 0, err
	}
	b.got += string(text)
	return len(text), nil
}

// TestWriterFails checks that a failure is kept, and that no text with a gap is written.
func TestWriterFails(t *testing.T) {
	full := errors.New("full")
	to := &broken{err: full}
	w := visible.NewWriter(to)
	for range 2 {
		if n, err := w.Write([]byte("a")); n != 0 || err != full {
			t.Errorf("write: got %d, %v, want 0, %v", n, err, full)
		}
	}
	if got := w.Close(); got != full {
		t.Errorf("close: got %v, want %v", got, full)
	}
	if got := w.Err(); got != full || to.got != "" {
		t.Errorf("got %v and %q, want %v and nothing", got, to.got, full)
	}
}

// TestJSON checks that JSON escapes hostile text.
func TestJSON(t *testing.T) {
	got, err := visible.JSON(map[string]string{"a<b": "\x1b\u202e\U000e0041\x7f\n漢e\u0301"})
	want := "{\n  \"a<b\": \"\\u001b\\u202e\\udb40\\udc41\\u007f\\n漢e\u0301\"\n}\n"
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if got, err := visible.JSON(func() {}); err == nil {
		t.Errorf("a function: got %q, want an error", got)
	}
}

// FuzzVisible checks for any text and any split into writes that the output has nothing
// that a terminal interprets or a reader does not see, and that JSON keeps its value.
func FuzzVisible(f *testing.F) {
	for _, text := range hostile {
		f.Add([]byte(text), uint8(1), 20)
		f.Add([]byte("/out/"+text+"\n+ "+text), uint8(3), 7)
	}
	f.Fuzz(func(t *testing.T, data []byte, piece uint8, most int) {
		text := string(data)
		whole := visible.Text(text)
		mustBePlain(t, "Text", whole, "\n\t")
		mustBePlain(t, "Cut", visible.Cut(strings.ReplaceAll(whole, "\n", ""), most), "\t")
		line := visible.Line(text, most)
		mustBePlain(t, "Line", line, "")
		if got := utf8.RuneCountInString(line); got > max(0, most)+len("…( characters omitted)…")+20 {
			t.Errorf("Line(%q, %d): got %d characters", text, most, got)
		}

		var out bytes.Buffer
		w := visible.NewWriter(&out)
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+int(piece%7))
			w.Write(rest[:n])
			mustBePlain(t, "Writer", out.String(), "\n\t")
			rest = rest[n:]
		}
		w.Close()
		if got := out.String(); got != whole {
			t.Errorf("in pieces of %d: got %q, want %q", 1+piece%7, got, whole)
		}

		for what, want := range map[string]string{"Prose": visible.Prose(text), "Data": visible.Data(text)} {
			var out bytes.Buffer
			w := visible.NewProseWriter(&out)
			if what == "Data" {
				w = visible.NewWriter(&out).ForData()
			}
			for rest := data; len(rest) > 0; {
				n := min(len(rest), 1+int(piece%7))
				w.Write(rest[:n])
				rest = rest[n:]
			}
			w.Close()
			if got := out.String(); got != want {
				t.Errorf("%s in pieces of %d: got %q, want %q", what, 1+piece%7, got, want)
			}
			if !utf8.ValidString(want) || strings.ContainsFunc(strings.ReplaceAll(want, "\r\n", ""), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
				t.Errorf("%s: a control character in %q", what, want)
			}
		}

		doc, err := visible.JSON(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		mustBePlain(t, "JSON", string(doc), "\n")
		var got, want map[string]string
		usual, _ := json.Marshal(map[string]string{text: text})
		if json.Unmarshal(usual, &want) != nil || json.Unmarshal(doc, &got) != nil || len(got) != 1 {
			t.Fatalf("JSON of %q: got %q", text, doc)
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("JSON of %q reads back as %q", text, got)
			}
		}
	})
}

// mustBePlain checks that a text is safe for a terminal. It does not use sandbox.Plain,
// so that it also finds a gap in that table.
func mustBePlain(t *testing.T, what, text, kept string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: not UTF-8: %q", what, text)
	}
	marks := 0
	for _, r := range text {
		switch {
		case strings.ContainsRune(kept, r):
		case !unicode.IsGraphic(r), unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Bidi_Control):
			t.Errorf("%s: %U is not escaped in %q", what, r, text)
		case r < 0x20, r >= 0x7f && r <= 0xa0, r == 0xad, // C0, C1, no-break space, soft hyphen
			r >= 0x2000 && r <= 0x200f, r >= 0x2028 && r <= 0x202f, r >= 0x205f && r <= 0x206f, r == 0x2800, r == 0x3000, r >= 0xe0000:
			t.Errorf("%s: %U is not escaped in %q", what, r, text)
		}
		if marks++; !unicode.IsMark(r) {
			marks = 0
		}
		if marks > 4 {
			t.Errorf("%s: %d marks on one character in %q", what, marks, text)
		}
	}
}

// TestEveryCharacter tries every character, each after a letter that it may combine with.
func TestEveryCharacter(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		mustBePlain(t, "Text", visible.Text("a"+string(r)), "\n\t")
	}
}

// TestCount checks the plural of nouns.
func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 files", 1: "1 file", 2: "2 files", 1_000: "1,000 files", 6_000_123: "6,000,123 files"} {
		if got := visible.Count(n, "file"); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

// TestAmount checks the units of sizes.
func TestAmount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 9_999: "9999 bytes", 10_000: "10 KB", 9_999_999_999: "9999 MB", 50 << 30: "53 GB"} {
		if got := visible.Amount(n); got != want {
			t.Errorf("Amount(%d): got %q, want %q", n, got, want)
		}
	}
}
