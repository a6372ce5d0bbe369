package conf_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/conf"
)

// Addresses that git reaches a repository by are taken, and none that git or ssh
// would take for more.
func TestAddresses(t *testing.T) {
	for name, check := range map[string]struct {
		bad       func(string) string
		good, not []string
	}{
		"url": {conf.BadURL, []string{
			"https://example.com/a/b.git", "http://10.0.0.1:3000/a", "ssh://git@example.com:22/a", "ssh://[::1]:22/a", "ssh://example.com/a",
			"git@example.com:a/b.git", "example.com:a", "you@host:~/a", "https://example.com/%20",
		}, []string{
			"", "-x", "--upload-pack=x", "ext::sh", "ext::https://x", "fd::17/foo", "file:///etc", "git://h/x", "HTTPS://h/x", "https:///a", "https://",
			"ssh://git@-oProxyCommand=touch/x", "ssh://-oProxyCommand=x/y", "ssh://[-oProxyCommand=x]/y", "ssh://-o@h/y", "ssh://%2Do@h/y", "ssh://@h/y", "ssh://%2Dh/y",
			"git@-ofoo:y", "-ofoo@h:y", "-oProxyCommand=x:y", "h:-x", "h::a", "../a", "/srv/a",
			"https://hunter2@github.com/x/y", "https://you:hunter2@h/a", "ssh://you:hunter2@h/a", "https://hunter2 x@h/a", "https://hunter2%zz@h/a", "https://@h/a",
			"https://h/a?token=x", "https://h/a#x", "https://h/a b", "git@h:a\x1b[2J", "git@h:a\x00", "https://h/\u202ea", "git@h:a\nb",
		}},
		"branch": {conf.BadBranch, []string{"main", "drafts/a-b", "v1.0", "a@b", "ü", "a_b"}, []string{
			"", "-x", "a..b", "a b", "a/", "/a", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a.", "@", "a@{b", "a~1", "a^", "a:b", "+a", "a?", "a*", "a[", "a\\b",
			"HEAD", "a\nb", "a\x7f", "a\u200b", strings.Repeat("a", 201),
		}},
		"repo": {conf.BadRepo, []string{"you/notes", "a-b/c.d_e", "you/.github"}, []string{
			"", "a", "a/b/c", "-a/b", "a/-b", "a/.", "a/..", "a/", "/b", "a b/c", "a/b\n", "https://github.com/a/b",
		}},
	} {
		for _, text := range check.good {
			if why := check.bad(text); why != "" {
				t.Errorf("%s %q: %s", name, text, why)
			}
		}
		for _, text := range check.not {
			if why := check.bad(text); why == "" || strings.Contains(why, "hunter2") || strings.ContainsAny(why, "\n\x1b\x00\u202e\u200b") {
				t.Errorf("%s %q: %q", name, text, why)
			}
		}
	}
}

// The problems of one check are cut short, and the last says so, also in order.
func TestCheckCutShort(t *testing.T) {
	var text strings.Builder
	for i := range 80_000 {
		text.WriteString(strings.Repeat("k", 1+i%7) + strings.Repeat("x", i/7%13) + string(rune('a'+i%26)) + strings.Repeat("y", i/1000) + ": 1\n")
	}
	n := conf.Node{Kind: conf.Map}
	for i, line := range strings.Split(text.String(), "\n") {
		place := conf.Place{Source: "f", Line: 90_000 - i, Col: 1}
		n.Fields = append(n.Fields, conf.Field{Key: conf.Node{Place: place, Kind: conf.Scalar, Text: line}})
	}
	var problems conf.Problems
	conf.Key{Type: conf.Group, Keys: []conf.Key{{Name: "kx", Type: conf.Text}}}.Check(n, &problems)
	ordered, _ := problems.Err().(conf.Problems)
	if len(ordered) != 100 || !problems.Full() || ordered[99].What != "too many problems" {
		t.Errorf("%d problems", len(ordered))
	}
}

func TestBounded(t *testing.T) {
	list := func(n int) conf.Node { return conf.Node{Kind: conf.List, Items: make([]conf.Node, n)} }
	for _, test := range []struct {
		n    conf.Node
		want string
	}{
		{list(1000), ""},
		{list(1001), "f:1:1: a list of 1001 entries; at most 1000"},
		{conf.Node{Kind: conf.Map, Fields: []conf.Field{{Value: list(1001)}}}, "f:1:1: a list of 1001 entries; at most 1000"},
		{conf.Node{Kind: conf.Map, Fields: make([]conf.Field, 1001)}, "f:1:1: a map of 1001 entries; at most 1000"},
	} {
		var problems conf.Problems
		ok := test.n.Bounded(&problems)
		if len(problems) > 0 {
			problems[0].Place = conf.Place{Source: "f", Line: 1, Col: 1}
		}
		if got := problems.Error(); got != test.want || ok != (test.want == "") {
			t.Errorf("got %v, %q, want %q", ok, got, test.want)
		}
	}
}
