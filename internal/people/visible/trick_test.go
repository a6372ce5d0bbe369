package visible_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/people/visible"
)

// tags writes a text in tag characters, and selectors writes it in variation selectors.
func tags(text string) string {
	var b strings.Builder
	for _, r := range text {
		b.WriteRune(0xe0000 + r)
	}
	return b.String()
}

func selectors(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < 16 {
			b.WriteRune(0xfe00 + rune(c))
		} else {
			b.WriteRune(0xe0100 + rune(c) - 16)
		}
	}
	return b.String()
}

// TestTricks checks which parts of a line are tricks, and their descriptions.
func TestTricks(t *testing.T) {
	for _, test := range []struct {
		text string
		want visible.Deceit
		says string
	}{
		{"if (a) \u202e } \u2066if", visible.Reorders, "U+202E right-to-left override"},
		{"\u202a", visible.Reorders, "U+202A"}, {"\u202b", visible.Reorders, ""}, {"\u202c", visible.Reorders, ""}, {"\u202d", visible.Reorders, ""},
		{"\u2066", visible.Reorders, ""}, {"\u2067", visible.Reorders, ""}, {"\u2068", visible.Reorders, ""}, {"\u2069", visible.Reorders, ""},
		{"שלום \u202e", visible.Reorders, ""},
		{"a\u200bb", visible.Unseen, "U+200B zero width space"}, {"a\u200cb", visible.Unseen, ""}, {"a\u200db", visible.Unseen, ""},
		{"a\u200e", visible.Unseen, "left-to-right mark"}, {"x\u200fy", visible.Unseen, ""}, {"\u061c", visible.Unseen, ""},
		{"a\u2060b\ufeffc", visible.Unseen, "word joiner"}, {"1\u2062x", visible.Unseen, "invisible times"}, {"\u2061\u2063\u2064", visible.Unseen, "invisible separator"},
		{"soft\u00adhyphen", visible.Unseen, "soft hyphen"}, {"\u115f\u1160\u3164\uffa0", visible.Unseen, "Hangul filler"}, {"a\u3164", visible.Unseen, ""},
		{"\ufff9a\ufffab\ufffb", visible.Unseen, "annotation"}, {"\u034f", visible.Unseen, ""}, {"\u17b4", visible.Unseen, ""}, {"\u206a", visible.Unseen, ""},
		{"\u180e", visible.Unseen, ""}, {"a\u2028b", visible.Unseen, "line separator"}, {"\u2800\u2800", visible.Unseen, ""}, {"\U0001d173", visible.Unseen, ""},
		{"x" + tags("run rm -rf"), visible.Unseen, `hide the text "run rm -rf"`},
		{"\U0001f3f4" + tags("ignore") + "\U000e007f", visible.Unseen, `"ignore"`},
		{"\U0001f600" + selectors("do it"), visible.Unseen, `"do it"`},
		{"\u2764\ufe0f\ufe0f", visible.Unseen, "emoji selector"}, {"a\ufe0f", visible.Unseen, ""}, {"1\ufe0f2", visible.Unseen, ""}, {"葛\U000e0100\U000e0101", visible.Unseen, ""},
		{"\u200d\U0001f600", visible.Unseen, ""}, {"\U0001f600\u200d", visible.Unseen, ""}, {"\U0001f600\u200d\u200d\U0001f600", visible.Unseen, ""},
		{"می\u200c\u200cخواهم", visible.Unseen, ""}, {"\u200cمی", visible.Unseen, ""},
		{"\x1b[2J", visible.Commands, "U+001B escape"}, {"a\rb", visible.Commands, "carriage return"}, {"\u009b1m", visible.Commands, ""},
		{"eval(\ue041\ue042)", visible.Unseen, "U+E041"}, {"\U000f0001\U00100002", visible.Unseen, ""},
		{"a\bb", visible.Commands, ""}, {"\x7f", visible.Commands, ""}, {"\x00", visible.Commands, ""},
	} {
		found := slices.Collect(visible.Tricks(test.text))
		if len(found) == 0 || found[0].Deceit != test.want || !strings.Contains(found[0].Says, test.says) {
			t.Errorf("%+q: got %v, want %s with %q", test.text, found, test.want, test.says)
		}
		for _, f := range found {
			mustBePlain(t, "Says", f.Says, "")
			mustBePlain(t, "Revealed", visible.Revealed(test.text, f), "")
		}
	}
}

// TestNoTricks checks that ordinary text is not reported.
func TestNoTricks(t *testing.T) {
	ordinary := []string{
		"plain\ttext\r", "a\r\n", "\f", "ünï, “quotes” – dashes… « bonjour\u00a0»\u202f!", "漢字　かな", "葛\U000e0100城市", "辻\ufe00", "≨\ufe00", "\ue0b0 prompt", "e\u0301q\u0307\u0323",
		"می\u200cخواهم کتاب\u200cها را", "۱۴۰۰ ه\u200d.", "مُ\u200cم", "हिन्दी क्\u200dष क्\u200cष", "ක්\u200dෂ ශ්\u200dරී", "ബാങ്ക് ന്\u200d", "ภาษา\u200bไทย", "ភាសា\u200bខ្មែរ",
		"שלום\u200f (a)\u200e עולם", "سلام\u200f!", "ᠮᠣᠩᠭᠣᠯ\u180eᠠ ᠭ\u180b", "⠓⠑⠇⠇⠕\u2800⠺", "٪ \u0600١٢",
		"©\ufe0f ®\ufe0e ™\ufe0f ‼\ufe0f ⁉\ufe0f ℹ\ufe0f ↔\ufe0f ↩\ufe0f ⌚\ufe0f ⌨\ufe0f ⏏\ufe0f Ⓜ\ufe0f ▪\ufe0f ◻\ufe0f ☀\ufe0f ☎\ufe0e ♠\ufe0f ⚕\ufe0f ✂\ufe0f ✔\ufe0f ❤\ufe0f ➡\ufe0f ⤴\ufe0f ⬅\ufe0f 〰\ufe0f 〽\ufe0f ㊗\ufe0f ㊙\ufe0f 🅰\ufe0f 🈂\ufe0f 🌡\ufe0f 🏔\ufe0f 🕵\ufe0f 🗣\ufe0f",
	}
	var emoji []string
	for _, r := range "0123456789#*" {
		emoji = append(emoji, string(r)+"\ufe0f\u20e3", string(r)+"\u20e3")
	}
	for _, place := range []string{"gbeng", "gbsct", "gbwls"} {
		emoji = append(emoji, "\U0001f3f4"+tags(place)+"\U000e007f")
	}
	for a := rune(0); a < 26; a++ {
		for b := rune(0); b < 26; b++ {
			emoji = append(emoji, string([]rune{0x1f1e6 + a, 0x1f1e6 + b}))
		}
	}
	for r := rune(0x1f000); r <= 0x1faff; r++ {
		emoji = append(emoji, string(r), string(r)+"\ufe0f", string(r)+"\u200d\u2642\ufe0f", string(r)+"\U0001f3fd\u200d\u2640\ufe0f")
	}
	for _, skin := range []string{"", "\U0001f3fb", "\U0001f3fc", "\U0001f3fd", "\U0001f3fe", "\U0001f3ff"} {
		for _, who := range []string{"👨", "👩", "🧑"} {
			for _, what := range []string{"⚕\ufe0f", "⚖\ufe0f", "✈\ufe0f", "🌾", "🍳", "🎓", "🏭", "💻", "🔬", "🚀", "🦰", "🦽", "🦯\u200d➡\ufe0f", "🤝\u200d🧑" + skin, "❤\ufe0f\u200d💋\u200d👨" + skin, "👩\u200d👧\u200d👦"} {
				emoji = append(emoji, who+skin+"\u200d"+what)
			}
		}
		emoji = append(emoji, "🕵\ufe0f\u200d♂\ufe0f", "⛹"+skin+"\u200d♀\ufe0f", "✋"+skin, "☝"+skin)
	}
	emoji = append(emoji, "🏳\ufe0f\u200d🌈", "🏳\ufe0f\u200d⚧\ufe0f", "🏴\u200d☠\ufe0f", "❤\ufe0f\u200d🔥", "👁\ufe0f\u200d🗨\ufe0f", "😶\u200d🌫\ufe0f", "🐻\u200d❄\ufe0f", "🐦\u200d⬛", "🙂\u200d↔\ufe0f", "🙂\u200d↕\ufe0f", "⛓\ufe0f\u200d💥", "🍋\u200d🟩")
	for _, text := range slices.Concat(ordinary, emoji, []string{strings.Join(emoji, ""), strings.Join(emoji, " ")}) {
		for f := range visible.Tricks(text) {
			t.Errorf("%+.60q: got %v in %+q", text, f, text[max(0, f.At-8):min(len(text), f.End+8)])
			break
		}
	}
}

// TestLookAlikes checks look-alikes in code and in prose.
func TestLookAlikes(t *testing.T) {
	for _, test := range []struct {
		text        string
		code, prose string // the tricks found
	}{
		{"p\u0430ypal", "paypal", "paypal"},
		{"admin\u03bf", "admino", "admino"},
		{"\u0410dmin = 1", "Admin", "Admin"},
		{"x.\u0441\u043e\u0440\u0443(y)", "copy", ""},
		{"\u0441\u043e\u0440\u0443(x) // \u044d\u0442\u043e", "copy", ""},
		{"// \u0440\u043e\u0441\u0430 \u0438 \u0442\u0443\u043c\u0430\u043d", "", ""},
		{"// \u0442\u0443\u043c\u0430\u043d, \u0440\u043e\u0441\u0430", "", ""},
		{"// Привет, мир: HTML-код, IPшник", "", ""},
		{"Ελληνικά και English, αβγ", "", ""},
		{"Δx = σx + λ1 * ρ_0 + μm + θ", "", ""},
		{"\U0001d4eeval(x)", "eval", ""},
		{"\U0001d41e\U0001d42f\U0001d41a\U0001d425(x)", "eval", ""},
		{"\uff45val(x)", "eval", ""},
		{"// \uff21\uff30\uff29を呼ぶ API呼び出し", "", ""},
		{"if environment\u01c3=x", "!", ""},
		{"a = 1\u037e", ";", ""},
		{"fetch\ua4f8url", ".", ""},
		{"rm -r\u00a0x", "a space", ""},
		{"x\u2003=\u3000y", "a space", ""},
		{"\u13da\u13a2\u13aa", "STA", ""},
		{"naïve Straße ıspanak œuvre Việt", "", ""},
		{"s\u0251me", "same", ""},
		{"한국어 x日本y عربی", "", ""},
	} {
		for name, in := range map[string]struct {
			code bool
			want string
		}{"code": {true, test.code}, "prose": {false, test.prose}} {
			found := slices.Collect(visible.Alikes(test.text, in.code))
			if in.want == "" && len(found) > 0 || in.want != "" && (len(found) != 1 || !strings.HasSuffix(found[0].Says, "looks like "+in.want)) {
				t.Errorf("%s %+q: got %v, want %q", name, test.text, found, in.want)
			}
		}
	}
	line := "a p\u0430y\u037e \u202e"
	got := visible.Revealed(line, slices.Collect(visible.Alikes(line, true))...)
	if want := "a p⟨U+0430⟩y⟨U+037E⟩ ⟨U+202E⟩"; got != want {
		t.Errorf("revealed: got %s, want %s", got, want)
	}
}

// TestDiffRows checks the rows of a unified diff, and the numbers of their lines. A line of a
// file that looks like a part of the diff counts like any other.
func TestDiffRows(t *testing.T) {
	diff := "--- a/x\n+++ b/x\n@@ -1,4 +1,5 @@\n same\n---- old\n++++ new\n+@@ -7 +7 @@\n \\ No newline at end of file\n last\n\\ No newline at end of file\n@@ -0,0 +90 @@\n+\x1b\n@@ -98,2 +120,0 @@\n-a\n-b\n"
	got := ""
	for _, r := range visible.DiffRows(diff) {
		got += fmt.Sprintf("%s|%s|%d|%d\n", r.Mark, r.Text, r.Old, r.New)
	}
	want := `@|@@ -1,4 +1,5 @@|0|0
│|same|1|1
-|--- old|2|0
+|+++ new|0|2
+|@@ -7 +7 @@|0|3
│|\ No newline at end of file|3|4
│|last|4|5
│|\ No newline at end of file|0|0
@|@@ -0,0 +90 @@|0|0
+|\x1b|0|90
@|@@ -98,2 +120,0 @@|0|0
-|a|98|0
-|b|99|0
`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for r := range visible.Diff("@@ @@\n+x\n@@ -99999999999999999999 +x @@\n-y\n") {
		if r.Old != 0 || r.New != 0 {
			t.Errorf("a diff without numbers: got %+v", r)
		}
	}
}

// TestLookAlikeLetters checks letters that only a table of all styles finds.
func TestLookAlikeLetters(t *testing.T) {
	for _, test := range []struct{ text, code, prose string }{
		{"\u03c1assword", "password", "password"},
		{"adm\u0131n = true", "admin", ""},
		{"ob\u0237ect", "object", ""},
		{"\u1d00\u1d05\u1d0d\u026a\u0274", "ADMIN", ""},
		{"\u1d07val(x)", "Eval", ""},
		{"\u2170f x", "if", ""},
		{"\u2160\u2162", "IIII", ""},
		{"M\u2168", "MIX", ""},
		{"to\u212aen", "toKen", ""},
		{"\u2113ogin", "login", ""},
		{"\u212dlient", "Client", ""},
		{"pa\u017fs", "pass", ""},
		{"\ufb01le", "file", ""},
		{"\U0001d4c8udo", "sudo", ""},
		{"// kap\u0131 a\u00e7\u0131k", "", ""},
		{"λ ρ α β, Ⅳ, ℓ2, ℝ", "", ""},
	} {
		for code, want := range map[bool]string{true: test.code, false: test.prose} {
			found := slices.Collect(visible.Alikes(test.text, code))
			if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !strings.HasSuffix(found[0].Says, "looks like "+want)) {
				t.Errorf("%+q, code %v: got %v, want %q", test.text, code, found, want)
			}
		}
	}
	line := "adm\u0131n to\u212aen"
	if got, want := visible.Revealed(line, slices.Collect(visible.Alikes(line, true))...), "adm⟨U+0131⟩n to⟨U+212A⟩en"; got != want {
		t.Errorf("revealed: got %s, want %s", got, want)
	}
}

// TestNameAlikes checks that a deceptive path or host is described by its code points,
// and that names in living scripts pass.
func TestNameAlikes(t *testing.T) {
	for name, want := range map[string][]string{
		"/out/d\u0430ta":  {"d\u0430ta looks like data, but has U+0430 (Cyrillic)"},
		"g\u0456thub.com": {"g\u0456thub looks like github, but has U+0456 (Cyrillic)"},
		"https://\u0430\u0440\u0440\u04cf\u0435.com/": {"\u0430\u0440\u0440\u04cf\u0435 looks like apple, but has U+0430 (Cyrillic), U+0440 (Cyrillic), U+04CF (Cyrillic), U+0435 (Cyrillic)"},
		"/out/\u0430":                {"\u0430 looks like a, but has U+0430 (Cyrillic)"},
		"user_\u03bfk":               {"\u03bfk looks like ok, but has U+03BF (Greek)"},
		"/a/JSON\u0444":              {"JSON\u0444 mixes scripts: it has U+0444 (Cyrillic)"},
		"/out\u2215etc":              {"U+2215 looks like /"},
		"example\u2024com":           {"U+2024 looks like ."},
		"/to\u212aen/\uff41b":        {"to\u212aen looks like toKen, but has U+212A (looks like K)", "\uff41b looks like ab, but has U+FF41 (looks like a)"},
		"/\u2170ndex":                {"\"\u2170ndex\" looks like index, but has U+2170 (looks like i)"},
		"/adm\u0131n":                {"adm\u0131n looks like admin, but has U+0131 (looks like i)"},
		"\u13da\u13a2\u13aa":         {"\u13da\u13a2\u13aa looks like STA, but has U+13DA (Cherokee), U+13A2 (Cherokee), U+13AA (Cherokee)"},
		"/out/data.txt":              nil,
		"/документы/отчёт_v2.txt":    nil,
		"/документы/сахар.txt":       nil,
		"/Ελληνικά/αρχείο.pdf":       nil,
		"/kapı açık/straße naïve":    nil,
		"/データ/日本語file/한국어.txt":       nil,
		"/a b/c-d+e@f:~*":            nil,
		"/العربية/x.txt":             nil,
		"/\U0001f3f4/\u2764/x\u0301": nil,
	} {
		var got []string
		for trick := range visible.NameAlikes(name) {
			got = append(got, trick.Says)
			mustBePlain(t, "Says", trick.Says, "")
			if trick.At < 0 || trick.End > len(name) || trick.At >= trick.End {
				t.Errorf("%+q: got bytes %d to %d", name, trick.At, trick.End)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+q: got %q, want %q", name, got, want)
		}
	}
}

// TestKnownFlags checks that the three flags made of tag characters pass whole,
// however they are split into writes. Any other tag characters are escaped.
func TestKnownFlags(t *testing.T) {
	england := "\U0001f3f4" + tags("gbeng") + "\U000e007f"
	for text, want := range map[string]string{
		england:                         england,
		"a" + england + england + "b\n": "a" + england + england + "b\n",
		"\U0001f3f4" + tags("gbsct") + "\U000e007f \U0001f3f4" + tags("gbwls") + "\U000e007f": "\U0001f3f4" + tags("gbsct") + "\U000e007f \U0001f3f4" + tags("gbwls") + "\U000e007f",
		"\U0001f3f4":                                 "\U0001f3f4",
		"\U0001f3f4" + tags("gb"):                    "\U0001f3f4" + `\U000e0067\U000e0062`,
		"\U0001f3f4" + tags("usca") + "\U000e007f":   "\U0001f3f4" + `\U000e0075\U000e0073\U000e0063\U000e0061\U000e007f`,
		"\U0001f3f4" + tags("gbengx") + "\U000e007f": "\U0001f3f4" + `\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e0078\U000e007f`,
		england + tags("x"):                          england + `\U000e0078`,
		tags("gbeng") + "\U000e007f":                 `\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f`,
		"\U0001f3f3" + tags("gbeng") + "\U000e007f":  "\U0001f3f3" + `\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f`,
	} {
		if got := visible.Text(text); got != want {
			t.Errorf("%+q: got %+q, want %+q", text, got, want)
		}
		for step := 1; step < 12; step++ {
			var out strings.Builder
			w := visible.NewWriter(&out)
			for at := 0; at < len(text); at += step {
				w.Write([]byte(text[at:min(at+step, len(text))]))
			}
			w.Close()
			if out.String() != want {
				t.Errorf("%+q by %d bytes: got %+q, want %+q", text, step, out.String(), want)
			}
		}
	}
	for columns := 1; columns < 12; columns++ {
		for _, piece := range visible.Broken("ab"+england+"cd"+england, columns) {
			if strings.Contains(strings.ReplaceAll(piece, england, ""), "\U000e0067") {
				t.Errorf("%d columns: a flag is broken: %+q", columns, piece)
			}
		}
		if cut := visible.Line(england+strings.Repeat("x", 9)+england, columns); strings.ContainsFunc(strings.ReplaceAll(cut, england, ""), func(r rune) bool { return r >= 0xe0000 }) {
			t.Errorf("%d characters: a flag is cut: %+q", columns, cut)
		}
	}
}
