package egress

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
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
