package terminal

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// filterOutput returns what a filter passes of output that is split at cuts.
func filterOutput(f *Filter, output []byte, cuts ...int) []byte {
	var got []byte
	from := 0
	for _, cut := range append(cuts, len(output)) {
		got = f.Pass(got, output[from:cut])
		from = cut
	}
	return got
}

// TestFilter checks which sequences pass and which are dropped.
func TestFilter(t *testing.T) {
	const st = "\x1b\\"
	long := strings.Repeat("\x00", longest)
	for _, test := range []struct{ output, want string }{
		{"plain\r\n", "plain\r\n"},
		{"\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"},
		{"é “52;” ”52;x\x07 \xff\x80 ☃ 😀", "é “52;” ”52;x\x07 \xff\x80 ☃ 😀"},
		{"a\x1b]52;c;aGk=\x07b", "a" + st + "b"},
		{"a\x1b]52;c;aGk=\x1b\\b", "a" + st + "b"},
		{"a\x1b]52;c;?\x1b[31mb", "a" + st + "\x1b[31mb"},
		{"a\x1b]52\x07b", "a" + st + "b"},
		{"a\x1b]52\x1b\\b", "a" + st + "b"},
		{"a\x1b]52;c;x\x18b", "a" + st + "b"},
		{"a\x1b]52;c;x\x9cb", "a" + st + "b"},
		{"a\x1b]0052;c;x\x07b", "a" + st + "b"},
		{"a\x1b] +52;c;x\x07b", "a" + st + "b"},
		{"a\x1b]4294967348;c;x\x07b", "a" + st + "b"},
		{"a\x1b\x00\n]\x005\x7f2\x00;c;x\x07b", "a" + st + "b"},
		{"a\x9d52;c;x\x07b", "a" + st + "b"},
		{"a\u009d52;c;x\u009cb", "a" + st + "b"},
		{"a\xe2\x9d52;c;x\x07b", "a\xe2" + st + "b"},
		{"a\xe0\x82\x9d52;c;x\x07b", "a\xe0\x82" + st + "b"},
		{"a\x1bPtmux;\x1b\x1b]52;c;x\x07\x1b\\b", "a" + st + "\x1b" + st + "\x1b\\b"},
		{"a\x1b]5522;x\x07b", "a" + st + "b"},
		{"a\x1b]1337;Copy=:aGk=\x07b", "a" + st + "b"},
		{"a\x1b]1337;CopyToClipboard=x\x07b", "a" + st + "b"},
		{"a\x1b]1337;Clear\x07\x1b]1337\x07\x1b]133;A\x07b", "a\x1b]1337;Clear\x07\x1b]1337\x07\x1b]133;A\x07b"},
		{"a\x1b]51;[\"call\",\"f\"]\x07b", "a" + st + "b"},
		{"a\x1bP@kitty-cmd{\"cmd\":\"launch\"}\x1b\\b", "a" + st + "b"},
		{"a\x90@kitty-\x00cmd{}\x9cb", "a" + st + "b"},
		{"a\x1bPtmux;\x1b\x1bP@kitty-cmd{}\x1b\x1b\\\x1b\\b", "a" + st + "\x1b" + st + "\x1b\x1b\\\x1b\\b"},
		{"a\x1bP@kitty\x1b\\\x1bP+q544e\x1b\\\x1bP\x1b\\b", "a" + st + "\x1bP+q544e\x1b\\\x1bP\x1b\\b"},
		{"a\x1b]4;2;#000\x07\x1b]11;?\x1b\\b", "a\x1b]4;2;#000\x07\x1b]11;?\x1b\\b"},
		{"a\x1b[21t\x1b[020;1t\x9b21tb", "a" + st + st + st + "b"},
		{"a\x1b[22;0t\x1b[18t\x1b[?21t\x1b[21 tb", "a\x1b[22;0t\x1b[18t" + st + st + "b"},
		{"a\x1b" + long + "]52;c;x\x07b", "a" + st + "]52;c;x\x07b"},
		{"a\x1b[" + long + "1mb", "a" + st + "b"},
		// The rest of two sequences must not form a new one.
		{"\x1b\x1b]52;x\x07]52;y\x07", "\x1b" + st + "]52;y\x07"},
		{"\x1b]5\x1b]52;x\x072;y\x07", "\x1b]5" + st + "2;y\x07"},
		{"\x1b[2\x1b[21t1t", "\x1b[2" + st + "1t"},
		// An incomplete sequence is held back.
		{"a\x1b]52", "a"}, {"a\x1b[1;3", "a"}, {"a\xe2\x80", "a"}, {"a\x1b", "a"},
	} {
		if got := string(filterOutput(&Filter{}, []byte(test.output))); got != test.want {
			t.Errorf("%q: got %q, want %q", test.output, got, test.want)
		}
	}
}

// TestUndo checks the output that resets a terminal after a program.
func TestUndo(t *testing.T) {
	const (
		st    = "\x1b\\"
		fresh = "\x1b[m\x1b(B\x0f\x1b[J"
		paint = "\x1b]104" + st + "\x1b]110" + st + "\x1b]111" + st + "\x1b]112" + st + "\x1b]117" + st + "\x1b]119" + st + "\x1b]R" + st
	)
	for _, test := range []struct{ output, want string }{
		{"plain é\n", ""},
		{"\x1b[1;31mx\x1b[0m", st},
		{"\x1b[1;31mx", st + "\x1b[m"},
		{"\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?1000;1006h\x1b=", st + "\x1b>\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[?1049l" + fresh},
		{"\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l", st + fresh},
		{"\x1b[>1u\x1b[>3u\x1b[<u\x1b[?1049h", st + "\x1b[<1u\x1b[?1049l\x1b[<1u" + fresh},
		{"\x1b[=1u\x1b[>4;2m\x1b[4h\x1b[2;5r\x1b[5 q\x0e\x1b(0", st + "\x1b(B\x0f\x1b[0 q\x1b[4l\x1b[>4m\x1b[=0u\x1b7\x1b[r\x1b8"},
		{"\x1b[>4;2m\x1b[>4m\x1b[?7l\x1b[?12h", st + "\x1b[?7h"},
		{"\x1b[?1049h\x1bc", st},
		// A saved style is reset, so that it cannot hide what golem prints next.
		{"\x1b[8m\x1b7\x1b[m\x1b8", st + fresh},
		{"\x1b[8m\x1b[s\x1b[m\x1b[u", st + fresh},
		{"\x1b[8m\x1b[#{\x1b[m\x1b[#}", st + fresh},
		{"\x1b[8m\x1b[?1048h\x1b[m\x1b[?1048l", st + fresh},
		{"as if golem had said it\x1b[H", st + fresh},
		{"\x1b[?1000h\x1b[?1000s\x1b[?1000l\x1b[?1000r", st + "\x1b[?1000l"},
		{"\x1b[>4;2m\x1b[>1;0m", st + "\x1b[>4m"},
		{"\x1b]4;2;#000\x07", st + paint}, {"\x1b]10;rgb:0/0/0\x1b\\\x1bc", st + paint}, {"\x1b]P2000000", st + paint}, {"\x1b]21;color2=black\x07", st + paint},
		{"\x1b]11;?\x07\x1b]4;2;?\x1b\\ text\x1b]0;title\x07", st},
	} {
		f := &Filter{}
		filterOutput(f, []byte(test.output))
		if got := string(f.Undo()); got != test.want {
			t.Errorf("%q: got %q, want %q", test.output, got, test.want)
		}
	}
	// Settings made after Undo are undone separately.
	f := &Filter{}
	filterOutput(f, []byte("\x1b[?1049h\x1b[?1003"))
	f.Undo()
	filterOutput(f, []byte("h"))
	if got, want := string(f.Undo()), st+"\x1b[?1003l"; got != want {
		t.Errorf("again: got %q, want %q", got, want)
	}
	for output, want := range map[string]int{"x\x1b[1mx\x1b[2J\x1b[4;5H\x1b(B": -1, "\x1b[6n": 0, "\x05": -1, "\x1b]11;?\x07": 0, "\x1bP$qm\x1b\\": 0, "\x1b[?1003h": 0, "\x1b[c\x1b[0c\x1bZ\x9a\u009a\x1b[>c": 5} {
		f := &Filter{}
		filterOutput(f, []byte(output))
		if asked, names := f.Asked(); asked != (want >= 0) || names != max(want, 0) {
			t.Errorf("%q: got %v, %d; want %d", output, asked, names, want)
		}
	}
}

// TestFilterStopsWhatReachesFurther checks that the filter drops sequences that define
// keys, move files, report variables, print, or change how sequences are parsed. Similar
// harmless sequences pass.
func TestFilterStopsWhatReachesFurther(t *testing.T) {
	const st = "\x1b\\"
	for _, output := range []string{
		"\x1bP0;1|17/6c730d\x1b\\", "\x1bP|17/6c\x1b\\", "\x901;1|17/6c\x9c", "\u00900|17/6c\u009c", "\x1bP0\x00;1\x7f|17/6c\x1b\\", // DECUDK
		"\x1bP1;0;1!z1b5d35323b633b\x1b\\", "\x1bP1;1;0{ @AAAA\x1b\\", "\x1bP+p544e3d78\x1b\\", // macros, fonts, termcap
		"\x1b]5113;ac=send;id=x\x07", "\x1b]05113;ac=send\x1b\\", "\x9d5113;x\x9c", // files of kitty
		"\x1b]1337;ReportVariable=dXNlci54\x07", "\x1b]1337;reportvariable=x\x1b\\", "\x1b]1337;RequestUpload=format=tgz\x07", "\x1b]1337;OpenURL=:aGk=\x07",
		"\x1b]1337;File=name=eA==;inline=0:aGk=\x07", "\x1b]1337;File=name=eA==:aGk=\x07", "\x1b]1337;File=:aGk=\x07", "\x1b]1337;File=inline=1;inline=0:aGk=\x07",
		"\x1b]1337;MultipartFile=name=eA==\x07", "\x1b]1337;Custom=id=x:y\x07", "\x1b]1337;New=x\x07", "\x1b]1337x\x07",
		"\x1b]3;WM_NAME=x\x07", "\x1b]46;/tmp/log\x07", "\x1b]50;font\x07",
		"\x1b_Gt=f;L2V0Yy9wYXNzd2Q=\x1b\\", "\x1b_Ga=T,t=t;eA==\x1b\\", "\x1b_Ga=q,f=100,t=s,S=4;eA==\x1b\\", "\x9fGt=f;eA==\x9c", "\u009fGt=f;eA==\u009c", // pictures in files
		"\x1b_Ga=T,t=d,t=f;eA==\x1b\\", "\x1b_Gt=f,t=d;eA==\x1b\\", "\x1b_Gt\x00=\x7ff;eA==\x1b\\", "\x1b_\x00Gt=f;eA==\x1b\\", "\x1b_Gt =f;eA==\x1b\\", "\x1b_G t=f;eA==\x1b\\", "\x1b_Gt;eA==\x1b\\",
		"\x1b_Ga=T\u00e9,t=f;eA==\x1b\\", "\x1b_Gt=F;eA==\x1b\\", "\x1b_Ga=T:t=f;eA==\x1b\\", "\x1b_Gt=f\x1b\\",
		"\x1b_Ga=T,f=100,t=d,m=1;aGk=\x1b\\", "\x1b_Gm=0;aGk=\x1b\\", "\x1b_Ga=d,d=A\x1b\\", "\x1b_G\x1b\\", "\x1b_title\x1b\\", "\x9fx\x9c", "\x1b^x\x1b\\", "\x1bXx\x1b\\", "\u009ex\u009c", // other strings
		"\x05", "\x1bPp\x1b\\", "\x1bPtmux;x\x1b\\", "\x1bP=3s\x1b\\", "\x1bP1$tx\x1b\\", // answers, other devices
		"\x1b[1;1;1;1;80;24*y", "\x9b1*y", "\x1b[\x051\x05*y", "\x1b[?63;1n", "\x1b[?063n", "\x1b[1*z", "\x1b[1$w", "\x1b[1x", "\x1b[1$u", "\x1b[1;2&w", "\x1b[1?m", "\x1b[ 1q", "\x1b[>1t", "\x1b[1y", // the screen, macros
		"\x1b]20;/etc/x.png\x07", "\x1b]55;/tmp/x\x07", "\x1b]440;/x.wav\x07", "\x1b]7773;x.ico\x07", "\x1b]72;x\x07", "\x1b]11;*x.png\x07", "\x1b]11;_x.png\x07", "\x1b]011;%x\x1b\\", // other files
		"\x1b]9;6;\"macro\"\x07", "\x1b]9;7;\"cmd\"\x07", "\x1b]9;08;\"PATH\"\x1b\\", "\x1b}",
		"\x1b[5i", "\x1b[?5i", "\x1b[4i", "\x1b[i", "\x1b[0i", "\x9b5i", "\u009b05i", "\x1b[?1i", "\x1b[1;5i", "\x1b[ 5i", // printing
		"\x1b[?2l", "\x1b[?25;2l", "\x1b[?02l", "\x1b[?38h", "\x1b[?1;38h", "\x1b%@", "\x1b%\x00@", "\x1b%/G", // other ways to read
		"\x1b[2h", "\x1b[4;02h", "\x9b2h", "\x1b[12l", "\x1b[20;12l", "\x1b[9999999b", "\x1b[1;10000b", "\x1b[00012345b", // the keyboard, many characters
		"\x1b]ltitle\x1b\\", "\x1b]Lname\x07", "\x1b]I/tmp/x.xpm\x1b\\", "\x9dlx\x9c", "\x1b]\x00l\x7fx\x07", "\x1b];x\x07", // without a number
		"\x1b]633;E;curl x|sh\x07", "\x1b]0633;P;Cwd=/x\x1b\\", "\x1b]7;file://h/x\x07", "\x1b]1337;CurrentDir=/x\x07", "\x1b]1337;RemoteHost=a@b\x07", "\x1b]9;9;/x\x07", // the next shell
		"\x1b]8;;file:///etc/passwd\x07", "\x1b]8;id=1;FILE:///x\x1b\\", "\x1b]08;; file:x\x07", "\x1b]8;;vscode://x\x07", "\x1b]8;;fi\x00le:x\x07", "\x1b]8;;x\x07", "\x1b]8;;longscheme:x\x07", "\x1b]8;x\x07", // links
	} {
		got := string(filterOutput(&Filter{}, []byte("a"+output+"b")))
		if !strings.HasPrefix(got, "a"+st) || !strings.HasSuffix(got, "b") || len(got) > len("a"+st+"Gb") {
			t.Errorf("%q: got %q", output, got)
		}
		for cut := range output {
			if again := string(filterOutput(&Filter{}, []byte("a"+output+"b"), cut+1)); again != got {
				t.Errorf("%q cut at %d: got %q, want %q", output, cut, again, got)
			}
		}
	}
	for _, output := range []string{
		"\x1bPq#0;2;0;0;0~-\x1b\\", "\x1bP0;1;0q~\x1b\\", "\x1bP$qm\x1b\\", "\x1bP+q544e\x1b\\", "\x1bP=1s\x1b\\",
		"\x1b]1337;File=name=eA==;inline=1:aGk=\x07", "\x1b]1337;SetMark\x07", "\x1b]1337;SetUserVar=a=eA==\x1b\\", "\x1b]1337;FilePart=aGk=\x07",
		"\x1b[1;2H\x1b[2 q\x1b[!p\x1b[?2026$p\x1b[38:2::1:2:3m\x1b[>1u\x1b[<u\x1b[?u\x1b[>0q\x1b[6n\x1b[?996n\x1b[c\x1b[#p\x1b[1;1;2;2$z",
		"\x1b]11;?\x07", "\x1b]11;#fff\x07", "\x1b]11;rgb:0/0/0\x1b\\", "\x1b]9;tests passed\x07", "\x1b]9;60 tests passed\x07",
		"\x1b]8;;https://x/\x07", "\x1b]8;id=1;HTTP://x\x1b\\", "\x1b]8;;mailto:x\x07", "\x1b]8;;\x07", "\x1b]8;;\x1b\\", "\x1b]8\x07", "\x1b]P0000000", "\x1b]R", "\x1b[2l", "\x1b[12h", "\x1b[4h", "\x1b[9999b", "\x1b[b",
		"\x1b]133;A\x07", "\x1b]9;4;1;50\x07", "\x1b]2;title\x07", "\x1b]777;notify;a;b\x07",
		"\x1b[?2h", "\x1b[?25l", "\x1b[?2004h", "\x1b[?38l", "\x1b[2l", "\x1b%G", "\x1b[3J",
	} {
		if got := string(filterOutput(&Filter{}, []byte("a"+output+"b"))); got != "a"+output+"b" {
			t.Errorf("%q: got %q", output, got)
		}
	}
}

// A reader is a terminal that recognizes every sequence that any terminal might. It is
// written independently of the filter: it reads all output at once, and whole strings.
type reader struct{ text []rune }

// readAll decodes output as UTF-8. A byte that is not part of a character counts as
// itself.
func readAll(output []byte) *reader {
	r := &reader{}
	for len(output) > 0 {
		c, size := utf8.DecodeRune(output)
		if size == 1 {
			c, size = rune(output[0]), 1
		}
		r.text = append(r.text, c)
		output = output[size:]
	}
	return r
}

func skipString(c rune) bool { return c < ' ' && !strings.ContainsRune("\x1b\x18\x1a", c) || c == 0x7f }

// refused reports whether the output has a sequence that must not pass, and whether one
// is too long.
func (r *reader) refused() (bad, long bool) {
	for i := range r.text {
		kind, at := rune(0), i+1
		switch r.text[i] {
		case 0x1b:
			for at < len(r.text) && skipString(r.text[at]) {
				at++
			}
			if at < len(r.text) && strings.ContainsRune("[]P%_^X}", r.text[at]) {
				kind = r.text[at]
			}
			at++
		case 0x9b:
			kind = '['
		case 0x9d:
			kind = ']'
		case 0x90:
			kind = 'P'
		case 0x9f, 0x9e, 0x98:
			kind = '_'
		case 0x05:
			bad = true
		}
		controls := at - i
		var body []rune
		end := at
		for end < len(r.text) && !strings.ContainsRune("\x1b\x18\x1a", r.text[end]) && (kind != ']' || r.text[end] != 7) {
			c := r.text[end]
			if c >= 0x80 {
				break
			}
			if skipString(c) {
				controls++
			} else if body = append(body, c); kind == '[' && c >= '@' || kind == '%' {
				break
			}
			end++
		}
		complete := end < len(r.text)
		text := string(body)
		switch kind {
		case 0:
			long = long || controls > longest/2
		case '[':
			long = long || controls+len(body) > longest/2
			bad = bad || complete && (title(text) || mode(text) || many.MatchString(text) || strings.HasSuffix(text, "n") && memory.MatchString(text) || text != "" && text[len(text)-1] >= '@' && !drawing.MatchString(text))
		case '}', '_', '^', 'X':
			bad = true
		case '%':
			bad = bad || text != "" && text != "G" || text == "" && complete && r.text[end] >= 0x80
			long = long || controls > longest/2
		case ']':
			long = long || controls+len(text)-len(strings.TrimLeft(text, "0123456789 +")) > longest/2 || len(text) > longest/2 && regexp.MustCompile(`^[ +]*0*(1337|8)`).MatchString(text)
			bad = bad || clip(text, complete)
		case 'P':
			head := strings.IndexFunc(text, func(r rune) bool { return r >= '@' })
			if head < 0 {
				head = len(text)
			}
			long = long || controls+head > longest/2
			bad = bad || head < len(text) && !devices.MatchString(text[:head+1])
		}
	}
	return bad, long
}

func mode(text string) bool {
	list, isPrivate := strings.CutPrefix(text, "?")
	if list == "" {
		return false
	}
	if !isPrivate {
		return regexp.MustCompile(`(^|[;:])0*(2([;:][0-9;:]*)?h|12([;:][0-9;:]*)?l)$`).MatchString(text)
	}
	for _, n := range strings.FieldsFunc(list[:len(list)-1], func(r rune) bool { return r == ';' || r == ':' }) {
		n = strings.TrimLeft(n, "0")
		if n == "2" && strings.HasSuffix(list, "l") || n == "38" && strings.HasSuffix(list, "h") {
			return true
		}
	}
	return false
}

func title(text string) bool {
	if !strings.HasSuffix(text, "t") {
		return false
	}
	digits := text[:strings.IndexAny(text, ";:t")]
	return slices.Contains([]string{"20", "21"}, strings.TrimLeft(digits, "0"))
}

// drawing matches the CSI sequences that pass, and devices the DCS sequences, to the letter.
var (
	drawing = regexp.MustCompile(`^([0-9;:]*([@A-MPSTXZ\x60a-hl-nq-u]|[ ][q@A]|!p|"[pq]|\$[prtvxz{}~|]|\*[|x]|'[}~]|#[pq{}PQR])|\?[0-9;:]*([hlJKnmSsruWc]|\$p)|>[0-9;:]*[cqmunp]|=[0-9;:]*[cu]|<[0-9;:]*u)$`)
	devices = regexp.MustCompile(`^([0-9;]*[$+]?q|=[12]s)$`)
	many    = regexp.MustCompile(`[1-9][0-9]{4,}[0-9;:]*b$`)
	memory  = regexp.MustCompile(`^\?0*6[23](;|n)`)
)

func clip(text string, complete bool) bool {
	text = strings.TrimLeft(text, " +")
	rest := strings.TrimLeft(text, "0123456789")
	what := strings.TrimLeft(text[:len(text)-len(rest)], "0")
	if rest == "" && !complete {
		return false
	}
	if what == "" && rest != "" && rest == text && !strings.ContainsRune("PR", rune(rest[0])) {
		return true
	}
	if what == "8" {
		return regexp.MustCompile(`^;`).MatchString(rest) && !regexp.MustCompile(`(?i)^;[^;]*;((https?|mailto):|$)`).MatchString(rest) &&
			(complete || regexp.MustCompile(`^;[^;]*;([^:]{7}|[^:]*:)`).MatchString(rest))
	}
	if what != "1337" {
		program := regexp.MustCompile(`^;0*[6789](;|$)`).MatchString(rest) && (complete || strings.Count(rest, ";") > 1)
		return slices.Contains(strings.Fields("3 7 20 46 50 51 52 55 72 440 633 5113 5522 7773"), what) || what == "9" && program || what == "11" && regexp.MustCompile(`^;[*_%+]`).MatchString(rest)
	}
	item := regexp.MustCompile(`^;([^=:]*)([=:]?)`).FindStringSubmatch(strings.ToLower(rest))
	switch {
	case item == nil:
		return rest != ""
	case item[2] == "" && !complete, item[0] == ";":
		return false
	case item[1] == "file" || item[1] == "multipartfile":
		args, _, ended := strings.Cut(strings.ToLower(rest)[len(item[0]):], ":")
		return (ended || complete) && !(strings.Count(args, "inline") == 1 && slices.Contains(strings.Split(args, ";"), "inline=1"))
	}
	return !slices.Contains(harmless, item[1])
}

// FuzzFilter checks three things: the split of the output does not matter, the passed
// output has no sequence that must not pass, and output without such a sequence passes
// whole.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{"\x1b]52;c;aGk=\x07", "\x1b]5\x1b]52;x\x072;y\x07", "\x9d52;", "\u009d52;", "\xe2\x9d52;x", "\x1b[2\x1b[21t1t", "\x1b\x1b]52;x\x07]52;y\x07",
		"\x1b[?1049h\x1b[21t", "\x1b]1337;Co\x00py=", "“52;”", "\x1b]0;t\x1b\\", "\x1bPq\x1b\x1b]52;\x07", "\x1bP@kitty-cmd{}\x1b\\", "\x1b]4;1;#000\x07",
		"\x1b_Gt=f;eA==\x1b\\", "\x1b_Ga=T,t=d;eA==\x1b\\", "\x9fGt=t;", "\x1bPtmux;\x1b\x1b_Gt=f;eA==\x1b\x1b\\\x1b\\", "\x1b]9;7;x\x07", "\x1b]11;*x\x07", "\x1b}is", "\x1b]8;;file:x\x07", "\x1b[2h", "\x1b[99999b", "\x1b]lx\x07"} {
		f.Add([]byte(seed), uint8(1))
	}
	f.Fuzz(func(t *testing.T, output []byte, step uint8) {
		output = output[:min(len(output), 4*longest)]
		whole := &Filter{}
		got := filterOutput(whole, output)
		var cuts []int
		for at := int(step); step > 0 && at < len(output); at += int(step) {
			cuts = append(cuts, at)
		}
		pieces := &Filter{}
		if again := filterOutput(pieces, output, cuts...); !bytes.Equal(again, got) {
			t.Fatalf("%q in pieces: %q, want %q", output, again, got)
		}
		if bad, _ := readAll(got).refused(); bad {
			t.Fatalf("%q: %q passed", output, got)
		}
		bad, long := readAll(output).refused()
		if all := append(slices.Clone(got), whole.held...); !bad && !long && !hasLongNumber(output) && !bytes.Equal(all, output) {
			t.Fatalf("%q: only %q passed", output, all)
		}
		undo := whole.Undo()
		if bad, _ := readAll(undo).refused(); bad {
			t.Fatalf("after %q, Undo writes %q", output, undo)
		}
	})
}

// hasLongNumber reports whether output has ten digits in a row, ignoring controls.
func hasLongNumber(output []byte) bool {
	n := 0
	for _, b := range output {
		switch {
		case b >= '0' && b <= '9':
			n++
		case !isControl(b):
			n = 0
		}
		if n > mostDigits {
			return true
		}
	}
	return false
}
