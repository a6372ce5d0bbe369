package audit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestEncodeRecord checks that a record is encoded as encoding/json does.
func TestEncodeRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, list := rapid.String(), rapid.SliceOfN(rapid.String(), 0, 3)
		r := Record{
			Time: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(), Kind: Intent,
			Call: text.Draw(t, "call"), Session: text.Draw(t, "session"), Origin: text.Draw(t, "origin"), Workers: list.Draw(t, "workers"), Tool: text.Draw(t, "tool"),
			Effects: list.Draw(t, "effects"), Decision: text.Draw(t, "decision"), By: text.Draw(t, "by"), Seen: text.Draw(t, "seen"), Digest: text.Draw(t, "digest"),
			Request: text.Draw(t, "request"), Code: text.Draw(t, "code"), Note: text.Draw(t, "note"),
		}
		if rapid.Bool().Draw(t, "with args") {
			r.Args = map[string]any{text.Draw(t, "key"): text.Draw(t, "value")}
		}
		if rapid.Bool().Draw(t, "with files") {
			r.Files = &Files{List: []File{{Path: text.Draw(t, "path"), Op: "change", Size: 3, Digest: text.Draw(t, "content"), Added: 1}}, More: rapid.IntRange(0, 3).Draw(t, "more")}
		}
		got, err := middle(r)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		want := whole[len(numberText+"0") : len(whole)-len(prevText+`"`+sealText+endText)]
		if string(got) != string(want) {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}
