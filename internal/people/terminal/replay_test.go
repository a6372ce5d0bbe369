package terminal

import (
	"strings"
	"testing"
)

// TestQuiet checks that a quiet filter passes no question to the terminal, and otherwise what
// every filter passes.
func TestQuiet(t *testing.T) {
	for _, asks := range []string{"\x1b[c", "\x1b[>c", "\x1b[=c", "\x1b[6n", "\x1b[?6n", "\x1b[?2026$p", "\x1b[4$p", "\x1b[>q", "\x1b[?u", "\x1b[14t", "\x1b[18t", "\x1b[?1S", "\x1b[?4m",
		"\x1b[#R", "\x1bZ", "\u009a", "\x1b]11;?\a", "\x1b]4;1;?\x1b\\", "\x1b]1337;ReportCellSize\a", "\x1bP$qm\x1b\\", "\x1bP+q544e\x1b\\"} {
		f := Filter{Quiet: true}
		if got := string(f.Pass(nil, []byte("a"+asks+"b"))); strings.Trim(got, "\x1b\\") != "ab" && strings.ReplaceAll(got, "\x1b\\", "") != "ab" {
			t.Errorf("%q: got %q", asks, got)
		}
		if f := (Filter{}); string(f.Pass(nil, []byte("a"+asks+"b"))) != "a"+asks+"b" {
			t.Errorf("%q does not pass any filter: the test checks nothing", asks)
		}
	}
	for _, draws := range []string{"\x1b[31m", "\x1b[2J", "\x1b[5;5H", "\x1b[?25l", "\x1b]0;title\a", "\x1b]8;;https://example.org\x1b\\", "\x1b[>4;2m", "\x1b[>1u", "\x1b[22;0t", "\x1b[3 q", "\x1bPq#0\x1b\\"} {
		f := Filter{Quiet: true}
		if got := string(f.Pass(nil, []byte(draws))); got != draws {
			t.Errorf("%q: got %q", draws, got)
		}
	}
}

// TestReplay checks what another terminal gets: the end of the output without questions, or an
// empty screen for a full-screen program, and the settings of the program.
func TestReplay(t *testing.T) {
	for _, test := range []struct{ output, want string }{
		{"one\r\ntwo\r\n", "one\r\ntwo\r\n"},
		{"one\x1b[6ntwo", "one\x1b\\two\x1b\\"},
		{"\x1b[?2004h\x1b[>5u$ ", "\x1b[?2004h\x1b[>5u$ \x1b\\\x1b[<1u\x1b[?2004l\x1b[>5u\x1b[?2004h"},
		{"\x1b[?1049h\x1b[?25l\x1b[?1003h drawn", "\x1b[?1049h\x1b[m\x1b[H\x1b[2J\x1b[?25l\x1b[?1003h"},
		{"\x1b[?1049h drawn\x1b[?1049l after", "\x1b[?1049h drawn\x1b[?1049l after\x1b\\"},
		{"text\x1b[3", "text\x1b\\\x1b[3"}, // the rest of the sequence follows
	} {
		var f Filter
		f.Pass(nil, []byte(test.output))
		if got := string(f.Replay([]byte(test.output))); got != test.want {
			t.Errorf("%q: got %q, want %q", test.output, got, test.want)
		}
	}
}
