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
	} {
		for way, body := range map[string]io.Reader{"at once": strings.NewReader("<" + message + ">"), "in bytes": iotest.OneByteReader(strings.NewReader("<" + message + ">"))} {
			if way == "in bytes" && name != "whole" {
				continue // white space ends what golem holds back
			}
			got, err := io.ReadAll(&replacer{ReadCloser: io.NopCloser(body), hiding: hiding{finder: f}})
			if want := "<" + fake[:len(key)] + ">"; err != nil || join(string(got)) != want {
				t.Errorf("%s %s: got %q, %v, want %q", name, way, got, err, want)
			}
			if len(got) != len(message)+2 {
				t.Errorf("%s %s: got %d bytes", name, way, len(got))
			}
		}
	}
	got, err := io.ReadAll(&replacer{ReadCloser: io.NopCloser(iotest.OneByteReader(strings.NewReader(every(1, "\r\n")))), hiding: hiding{finder: f}})
	if text := strings.Join(strings.Fields(string(got)), ""); err != nil || strings.Contains(text, key[16:]) || !strings.HasSuffix(text, fake[20:len(key)]) {
		t.Errorf("got %q, %v", text, err)
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
