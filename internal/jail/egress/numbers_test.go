package egress

import (
	"encoding/base32"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestForms checks that golem finds a secret in the forms in which programs print bytes and
// characters, at any place, also if the answer comes in pieces.
func TestForms(t *testing.T) {
	const key, public, few = "sk-proj-Zq81kPw03/mXc7Rt5YbZq", len("sk-proj-"), 8
	each := func(format string) func(string) string {
		return func(text string) string {
			var b strings.Builder
			for i := range len(text) {
				fmt.Fprintf(&b, format, text[i])
			}
			return b.String()
		}
	}
	join := func(size int, separator string) func(string) string {
		return func(text string) string {
			var parts []string
			for part := range slices.Chunk([]byte(each("%02x")(text)), size) {
				parts = append(parts, string(part))
			}
			return strings.Join(parts, separator)
		}
	}
	f := newFinder(key, key[:public]+strings.Repeat("*", len(key)-public))
	for name, encode := range map[string]func(string) string{
		"decimal": each("%d, "), "decimal without blanks": each("%d,"), "decimal in lines": each("      %d,\r\n"), "decimal of Go": each("%d "),
		"0x": each("0x%02x, "), "0X": each("0X%02X,"), "octal": each(`\%03o`), "short octal": each(`\%o`), "octal dump": each("%03o "),
		"braces": each(`\u{%x}`), "wide": each(`\U%08x`), "code points": each("U+%04X "), "JSON": each(`\u%04X`), "percent": each("%%%02x"),
		"entities": each("&#%d;"), "entities without end": each("&#%d"), "entities with zeros": each("&#%05d;"), "hex entities with zeros": each("&#x%04x;"),
		"hex": each("%02x"), "hex with dashes": each("%02X-"), "words of hex": join(4, " "), "lines of hex": join(16, "\n"),
		"upper case": strings.ToUpper, "lower case": strings.ToLower, "swapped case": swapCase,
		"UTF-16": each("%c\x00"), "UTF-32": each("%c\x00\x00\x00"),
		"base32": func(text string) string { return base32.StdEncoding.EncodeToString([]byte(text)) }, "base32 in lower case": func(text string) string { return strings.ToLower(base32.StdEncoding.EncodeToString([]byte(text))) },
	} {
		check := func(got string) {
			t.Helper()
			isPlain := strings.HasPrefix(name, "base32")
			if isPlain {
				b, err := base32.StdEncoding.DecodeString(strings.ToUpper(got))
				if err != nil {
					t.Fatalf("%s: %v in %s", name, err, got)
				}
				got = string(b)
			}
			for i := public; i+few <= len(key); i++ {
				piece := key[i : i+few]
				if !isPlain {
					piece = encode(piece)
				}
				if strings.Contains(got, piece) {
					t.Fatalf("%s: got %q, which has %q", name, got, piece)
				}
			}
		}
		for _, before := range []string{"", "X", "Ke", "key", "Key: ", strings.Repeat("lorem ipsum ", 9)} {
			message := encode(before + key + "\n}" + strings.Repeat(" dolor sit", 6))
			got := f.hideText(message)
			if len(got) != len(message) {
				t.Fatalf("%s: got %d bytes, want %d", name, len(got), len(message))
			}
			check(got)
			for _, size := range []int{1, 50} {
				parts := make(chan []byte, len(message))
				for part := range slices.Chunk([]byte(message), size) {
					parts <- part
				}
				close(parts)
				got, err := io.ReadAll(&replacer{ReadCloser: io.NopCloser(pieces(parts)), hiding: hiding{finder: f}})
				if err != nil || len(got) != len(message) {
					t.Fatalf("%s in pieces of %d: got %d bytes, want %d, %v", name, size, len(got), len(message), err)
				}
				check(string(got))
			}
		}
	}
	for _, text := range []string{
		`{"year": 2026, "ids": [115, 107, 45, 112, 114, 111, 106, 45], "mac": "73:6b:2d:70:72:6f", "pi": 3.14159}`, "0x73 0x6b", "115", strings.Repeat("107 ", 1000), "STAGING PROJ Zq81kP",
	} {
		if got := f.hideText(text); got != text {
			t.Errorf("got %s, want %s", got, text)
		}
	}

	list, err := json.Marshal(map[string]any{"data": []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	list = []byte(strings.Replace(string(list), "[0]", "["+strings.TrimSuffix(each("%d, ")(key), ", ")+"]", 1))
	got := NewHider([]string{key}).JSON(list)
	var numbers struct{ Data []int }
	if json.Unmarshal(got, &numbers) != nil || len(numbers.Data) != len(key) {
		t.Fatalf("got %s", got)
	}
	for i, n := range numbers.Data[public:] {
		if n == int(key[public+i]) && n != '*' {
			t.Errorf("number %d: got %d of the key in %s", public+i, n, got)
		}
	}
}

// pieces is a reader that returns one piece at a time.
type pieces chan []byte

func (p pieces) Read(b []byte) (int, error) {
	part, ok := <-p
	if !ok {
		return 0, io.EOF
	}
	return copy(b, part), nil
}
