package egress

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
)

// TestHider: golem's own clients hide a key in every form in which a server may repeat it.
func TestHider(t *testing.T) {
	const key = "sk-proj-Zq81/kPw03LmXc7Rt5Yb"
	h := NewHider([]string{key, ""})
	escaped := strings.NewReplacer("s", `\u0073`, "/", `\/`).Replace(key)
	for _, text := range []string{
		key, "a " + key + " b", key[:len(key)-1], base64.StdEncoding.EncodeToString([]byte("X: " + key)), hex.EncodeToString([]byte(key)),
	} {
		if got := h.Text(text); got == text {
			t.Errorf("%s is not hidden", text)
		}
		document, err := json.Marshal(map[string]any{"content": []any{map[string]any{"text": text}}, text: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(h.JSON(document)); strings.Contains(got, text) {
			t.Errorf("%s is not hidden in %s", text, got)
		}
	}
	var got struct{ Text string }
	if err := json.Unmarshal(h.JSON(json.RawMessage(`{"text":"`+escaped+`","n":12345678901234567890}`)), &got); err != nil || strings.Contains(got.Text, key[8:]) {
		t.Errorf("an escaped key: got %q, %v", got.Text, err)
	}
	for _, document := range []string{`{"b":1,"a":"<x>","n":12345678901234567890}`, `[]`, ``, `"sk-proj-other"`} {
		if got := string(h.JSON(json.RawMessage(document))); got != document {
			t.Errorf("got %s, want %s", got, document)
		}
	}
}

// TestSplitSecret: a key that begins with a word does not come back if it arrives in single
// bytes, or if white space splits it.
func TestSplitSecret(t *testing.T) {
	const key, fake = "sk-proj-REALKEY-aB3dE5fG7hJ9kL1mN2pQ4rS6zA2cE4", "sk-proj-0000000000000000000000000000000000000000"
	every := func(n int, separator string) string {
		return strings.TrimSuffix(regexp.MustCompile(".{1,"+string(rune('0'+n))+"}").ReplaceAllString(key, "${0}"+separator), separator)
	}
	join := func(text string) string {
		return regexp.MustCompile(`[\s\pZ\p{Cf}\x{fe0f}\x{34f}\x{3164}\x{2800}]`).ReplaceAllString(text, "")
	}
	f := newFinder(key, fake[:len(key)])
	for name, message := range map[string]string{
		"whole": key, "lines of 8": every(8, "\n"), "lines of 6": every(6, "\r\n"), "lines of 1": every(1, "\r\n"), "groups of 4": every(4, " "), "no-break spaces": every(4, "\u00a0"),
		"line separators": every(5, "\u2028"), "soft hyphens": every(1, "\u00ad"), "zero-width spaces": every(1, "\u200b"), "word joiners": every(3, "\u2060"),
		"variation selectors": every(1, "\ufe0f"), "grapheme joiners": every(1, "\u034f"), "fillers": every(2, "\u3164"), "empty braille": every(1, "\u2800"),
		"gaps of 300": every(4, strings.Repeat(" ", 300)), "gaps of many kinds": every(1, strings.Repeat(" \n\u00a0\u200b", 30)), "invisible gaps": every(3, strings.Repeat("\u200b", 300)),
	} {
		for way, body := range map[string]io.Reader{"at once": strings.NewReader("<" + message + ">"), "in bytes": iotest.OneByteReader(strings.NewReader("<" + message + ">"))} {
			got, err := io.ReadAll(&replacer{ReadCloser: io.NopCloser(body), hiding: hiding{finder: f}})
			if want := "<" + fake[:len(key)] + ">"; err != nil || way == "at once" && join(string(got)) != want {
				t.Errorf("%s %s: got %.999q, %v, want %q", name, way, got, err, want)
			}
			for i := len("sk-proj-"); i+7 <= len(key); i++ { // white space ends what golem holds back
				if strings.Contains(join(string(got)), key[i:i+7]) {
					t.Fatalf("%s %s: got %q", name, way, join(string(got)))
				}
			}
			if len(got) != len(message)+2 || strings.Count(string(got), " ") != strings.Count(message, " ") {
				t.Errorf("%s %s: got %d bytes", name, way, len(got))
			}
		}
	}
}

// TestManyBlanks checks that each byte of white space passes in its place, that golem does not
// keep it, and that a word of the key passes if nothing splits it.
func TestManyBlanks(t *testing.T) {
	const key, fake = "sk-proj-REALKEY-aB3dE5fG7hJ9kL1mN2pQ4rS6zA2cE4", "sk-proj-0000000000000000000000000000000000000000"
	f := newFinder(key, fake[:len(key)])
	h := &hiding{finder: f}
	gap := strings.Repeat(" \u00a0\n", 100)
	for _, step := range []struct{ in, out string }{
		{"a b" + gap + "c", "a b" + gap + "c"}, {gap, gap}, {"sk-pr", "sk-pr"}, {gap + "oj-", gap + "oj-"}, {gap + "REALKEY-", gap + "00000000"}, {gap, gap},
		{"aB3dE5" + gap + "f", "000000" + gap + "0"}, {"! the REALKEY- x", "! the REALKEY- x"}, {gap + "sk-proj-RE", gap + "sk-proj-"}, {"A", ""}, {gap, "REA" + gap},
		{strings.Repeat(" ", 1<<20), strings.Repeat(" ", 1<<20)}, {"LKEY-aB3dE5fG7h", strings.Repeat("0", 15)},
	} {
		if got := string(h.add([]byte(step.in), false)); got != step.out {
			t.Errorf("after %.20q: got %.99q, want %.99q", step.in, got, step.out)
		}
	}
	if len(h.seen) > f.context+100 || len(h.blanks) != 0 {
		t.Errorf("kept %d bytes, %d blanks", len(h.seen), len(h.blanks))
	}
}

// TestPlaceholderBegins checks that a placeholder differs from the secret in the first character
// that is not public.
func TestPlaceholderBegins(t *testing.T) {
	for range 2000 {
		const value, public = "ghp_AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQrr", "ghp_"
		text, err := makePlaceholder(value)
		if err != nil || len(text) != len(value) || text[:len(public)] != public || text[len(public)] == value[len(public)] {
			t.Fatalf("got %q, %v", text, err)
		}
	}
}
