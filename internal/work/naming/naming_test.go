package naming

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// one is something with an id and a name.
type one struct{ id, name string }

func (o one) Names() (string, string) { return o.id, o.name }

// TestFind checks which session a word means if ids and names collide.
func TestFind(t *testing.T) {
	list := []one{{"abc234", "fix-login"}, {"abd567", ""}, {"fix345", "abd567"}, {"fixabc", "abc"}, {"qqqqqq", "twice"}, {"rrrrrr", "twice"}, {"lastly", ""}}
	for word, want := range map[string]string{
		Last:         "abc234",
		"abc234":     "abc234",
		"fix-login":  "abc234",
		"@fix-login": "abc234",
		"@last":      "abc234",
		"abd567":     "abd567", // an id, which is also a name
		"abd":        "abd567", // the beginning of one id, and also of a name
		"abc":        "fixabc", // a name, which is also the beginning of an id
		"fix3":       "fix345",
		"lastl":      "lastly",
		"las":        "lastly",
		"ab":         "invalid_args: 2 sessions begin like this; type more of the id: abc234, abd567",
		"fix":        "invalid_args: 2 sessions begin like this", // the beginning of a name does not count
		"twice":      "invalid_args: 2 sessions have this name; use an id: qqqqqq, rrrrrr",
		"":           "invalid_args: an empty word names no session",
		"@":          "invalid_args: an empty word names no session",
		"fix-":       "not_found: sessions here: fix-login, abd567, abd567, abc, twice, twice, lastly; golem sessions describes them",
	} {
		got, err := Find(list, word)
		code, text, isError := strings.Cut(want, ": ")
		switch {
		case isError && (string(sandbox.CodeOf(err)) != code || !strings.Contains(err.Error(), text)):
			t.Errorf("%q: got %v, %v, want %q", word, got, err, want)
		case !isError && (err != nil || got.id != want):
			t.Errorf("%q: got %v, %v, want %s", word, got, err, want)
		}
	}
	for _, word := range []string{New, "@@last", "abc2345", "ABC234", "bc234", " abc234", "abc234 ", "*", "abc*", "a?c234", ".", "..", "/", "../abc234", "abc234/..", "abc234/", "abc234\x00",
		"-", "--", "Last", "Fix-login", "fix_login", "\u0430bc234", "fix-l\u043egin"} {
		if got, err := Find(list, word); sandbox.CodeOf(err) != sandbox.ErrNotFound {
			t.Errorf("%q: got %v, %v, want not_found", word, got, err)
		}
	}
	if _, err := Find([]one(nil), "any"); err == nil || !strings.Contains(err.Error(), "there are no sessions here") {
		t.Errorf("without sessions: got %v", err)
	}
	if got := Label(list[1]); got != "abd567" {
		t.Errorf("the label without a name: got %q", got)
	}
}

// TestCheck checks which names a session may have.
func TestCheck(t *testing.T) {
	for _, name := range []string{"fix-login", "ab", "a1", "1a", "login", "claude", "issue-4711", strings.Repeat("a", 40)} {
		if err := Check(name); err != nil {
			t.Errorf("%q: got %v", name, err)
		}
	}
	for _, name := range []string{"", "a", "12", "2026-11-18", New, Last, "-a", "a-", "a--b", "--yes", "@a", "a b", "a/b", "..", "Ab", "a_b", "a.b", "ä-b", "a\u200bb", "a\n", "a\x1b[2Jb", "о-cyrillic", strings.Repeat("a", 41)} {
		if err := Check(name); sandbox.CodeOf(err) != sandbox.ErrInvalid {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if err := Check("Fix Login!"); err == nil || !strings.HasSuffix(err.Error(), "; for example fix-login") {
		t.Errorf("got %v, want a suggestion", err)
	}
}

// TestMake checks that golem makes only names that it accepts, whatever a program is called,
// that they have a word, and that no two are the same.
func TestMake(t *testing.T) {
	for from, want := range map[string]string{
		"claude":                        "claude",
		"/usr/local/bin/Claude":         "claude",
		`C:\bin\codex.exe`:              "codex",
		"./run_me.sh":                   "run-me-sh",
		"":                              "session",
		"..":                            "session",
		"☃":                             "session",
		"\x1b[2J\u202egolem":            "2j-golem",
		"--yes":                         "yes",
		"last":                          "last",
		"@fix-login":                    "session", // as a session that exists
		"k3xq2a":                        "session",
		strings.Repeat("long-name-", 9): "long-name-long-name",
	} {
		taken := map[string]bool{"fix-login": true, "k3xq2a": true}
		for range 2 * len(strings.Fields(words)) {
			name := Make(from, func(word string) bool { return taken[word] })
			if err := Check(name); err != nil || taken[name] || !strings.HasPrefix(name, want+"-") {
				t.Fatalf("%q: got %q, %v, want %s-…", from, name, err, want)
			}
			taken[name] = true
		}
	}
}

// TestWordList checks that the words are plain, short and different.
func TestWordList(t *testing.T) {
	seen := make(map[string]bool)
	for _, word := range strings.Fields(words) {
		if seen[word] || len(word) < 3 || len(word) > 8 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%q is twice, too long, or no plain word", word)
		}
		seen[word] = true
	}
	if len(seen) < 100 {
		t.Errorf("got %d words", len(seen))
	}
}
