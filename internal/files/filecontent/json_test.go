package filecontent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/files/filecontent"
)

func TestCheckJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"b"}`: "", `"\u00e9\n\"\\"`: "", `"\ud83d\ude00"`: "", `"\uD83D\uDE00"`: "", `"😀"`: "", `"\ufffd"`: "", "\"\ufffd\"": "", `"\\ud800"`: "", `"\\\\udcff"`: "", `"\\`: "", `"\u12`: "", ``: "",
		`"\udcff"`: "half", `"x\ud800y"`: "half", `"\ud800\ud800"`: "half", `"\ud800\u0041"`: "half", `"\ude00\ud83d"`: "half", `"\ud83d\ude00\ude00"`: "half", `"\\\ud800"`: "half",
		`{"\ud800":1}`: "half", `"\ud800`: "half", `"\ud800\n"`: "half", `"\uDFFF"`: "half",
		"\"\xff\"": "not UTF-8", "\"\xed\xa0\x80\"": "not UTF-8", "{\"\xc0\xaf\":1}": "not UTF-8",
	} {
		err := filecontent.CheckJSON([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// FuzzC11CheckJSON checks that decoding changes no string that CheckJSON accepts.
func FuzzC11CheckJSON(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\ud800"`, `"\ud83d\ude00"`, `"\\ud800"`, "\"\xff\"", `"\ufffd"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var decoded string
		if json.Unmarshal([]byte(text), &decoded) != nil {
			return
		}
		replaced := strings.Count(decoded, "\ufffd") != strings.Count(text, "\ufffd")+strings.Count(strings.ReplaceAll(strings.ToLower(text), `\\`, ""), `\ufffd`)
		if err := filecontent.CheckJSON([]byte(text)); (err != nil) != replaced && utf8.ValidString(text) {
			t.Errorf("%q: got %v, replaced %v", text, err, replaced)
		}
	})
}

// TestCheckKeys checks that a key that occurs twice in one object is found wherever it
// is, and no other.
func TestCheckKeys(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}`: "",
		`["a","a"]`:         "",
		`{"a":"a","b":"a"}`: "",
		`{"a":["b","b"],"b":"{\"a\":1,\"a\":2}"}`: "",
		`{"a":1,"A":2}`:                          "",
		`{"a":1,"a":2}`:                          "a appears twice",
		`{ "a" : 1 , "b" : [ ] , "a" : 2 }`:      "a appears twice",
		`{"x":[{"y":{"a":{},"b":[],"a":null}}]}`: "a appears twice",
		`{"answer":1,"\u0061nswer":2}`:           "answer appears twice",
		`{"a\"":1,"a\u0022":2}`:                  `appears twice`,
		`{"":1,"":2}`:                            "appears twice",
		`{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"A":0,"2":0}`: "2 appears twice",
		`{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"A":0,"A":0}`: "A appears twice",
	} {
		err := filecontent.CheckJSON([]byte(text))
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
