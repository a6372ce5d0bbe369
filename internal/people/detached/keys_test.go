package detached

import "testing"

// TestLeaver checks which keys leave, in the forms of the terminals, and which ones reach the
// program.
func TestLeaver(t *testing.T) {
	for _, test := range []struct {
		keys   []string // one read after the other
		out    string
		leaves bool
	}{
		{[]string{"abc\r"}, "abc\r", false},
		{[]string{"ab\x1ddc"}, "ab", true},
		{[]string{"ab\x1d", "d"}, "ab", true},
		{[]string{"\x1d\x04"}, "", true},
		{[]string{"\x1d\x1dd"}, "\x1dd", false},
		{[]string{"\x1dx"}, "\x1dx", false},
		{[]string{"\x1d", "x\x1d", "d"}, "\x1dx", true},
		{[]string{"\x1b[93;5u", "d"}, "", true},
		{[]string{"\x1b[93;5:1u", "\x1b[93;5:3u", "\x1b[57442;5:3u", "\x1b[100;1:1u"}, "", true},
		{[]string{"\x1b[27;5;93~", "\x1b[100u"}, "", true},
		{[]string{"\x1b[93;5ux"}, "\x1b[93;5ux", false},
		{[]string{"\x1b[93;5u\x1b[A"}, "\x1b[93;5u\x1b[A", false},
		{[]string{"\x1b[A\x1b"}, "\x1b[A\x1b", false},
	} {
		var l leaver
		got, leaves := "", false
		for _, keys := range test.keys {
			out, over := l.pass([]byte(keys))
			got, leaves = got+string(out), leaves || over
		}
		if got != test.out || leaves != test.leaves {
			t.Errorf("%q: got %q, %v; want %q, %v", test.keys, got, leaves, test.out, test.leaves)
		}
	}
}

// TestTextOf checks which line of an output is shown, and that it is visible text.
func TestTextOf(t *testing.T) {
	for output, want := range map[string]string{
		"one\r\ntwo\r\n":                   "two",
		"one\r\n\x1b[31mtwo\x1b[m\r\n\r\n": "two",
		"10 %\r20 %\r":                     "20 %",
		"one\x1b[5;1Htwo\x1b[2K":           "two",
		"\x1b]0;a title\athe text":         "the text",
		"\x1b]0;a title":                   "",
		"golem: says\n" + beginMark:        "",
		beginMark + "\x1b[31mred\nlast \x0eline\x0f \x1b[1A\x1b[m\x1b(B\x0f": "last line",
		"golem: says\n" + beginMark + "hi\n" + endMark + "end\n":             "hi",
		"evil \u202e\u009b\u2066 text\n":                                     `evil \u202e\u009b\u2066 text`,
		"":                                                                   "",
	} {
		if got := textOf(output); got != want {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
	}
}
