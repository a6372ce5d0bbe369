package git_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
)

// TestAddresses checks that BadURL accepts addresses of repositories, and refuses those
// that git or ssh could read as a program or an option.
func TestAddresses(t *testing.T) {
	for name, check := range map[string]struct {
		bad       func(string) string
		good, not []string
	}{
		"url": {git.BadURL, []string{
			"https://example.com/a/b.git", "http://localhost:3000/a", "http://127.0.0.1/a", "http://[::1]:3000/a", "ssh://git@example.com:22/a", "ssh://[::1]:22/a", "ssh://example.com/a",
			"git@example.com:a/b.git", "example.com:a", "you@host:~/a", "https://example.com/%20", "file:///srv/a.git",
		}, []string{
			"", "-x", "--upload-pack=x", "ext::sh", "ext::https://x", "fd::17/foo", "file://host/etc", "file://", "file:///", "file://you:hunter2@/a", "file:///a?x", "git://h/x", "HTTPS://h/x", "https:///a", "https://",
			"ssh://git@-oProxyCommand=touch/x", "ssh://-oProxyCommand=x/y", "ssh://[-oProxyCommand=x]/y", "ssh://-o@h/y", "ssh://%2Do@h/y", "ssh://@h/y", "ssh://%2Dh/y",
			"git@-ofoo:y", "-ofoo@h:y", "-oProxyCommand=x:y", "h:-x", "h::a", "../a", "/srv/a",
			"https://hunter2@github.com/x/y", "https://you:hunter2@h/a", "ssh://you:hunter2@h/a", "https://hunter2 x@h/a", "https://hunter2%zz@h/a", "https://@h/a",
			"http://10.0.0.1:3000/a", "http://example.com/a", "http://localhost.example.com/a", "http://127.0.0.1.example.com/a", "http://[fe80::1]/a", "http://0.0.0.0/a",
			"https://h/a?token=x", "https://h/a#x", "https://h/a b", "git@h:a\x1b[2J", "git@h:a\x00", "https://h/\u202ea", "git@h:a\nb",
		}},
		"branch": {git.BadBranch, []string{"main", "drafts/a-b", "v1.0", "a@b", "ü", "a_b"}, []string{
			"", "-x", "a..b", "a b", "a/", "/a", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a.", "@", "a@{b", "a~1", "a^", "a:b", "+a", "a?", "a*", "a[", "a\\b",
			"HEAD", "head", "refs/heads/main", "Refs/tags/v1", "heads/main", "refs", "0123456789abcdef0123456789abcdef01234567", "a\nb", "a\x7f", "a\u200b", strings.Repeat("a", 201),
		}},
		"repo": {git.BadRepo, []string{"you/notes", "a-b/c.d_e", "you/.github"}, []string{
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

// TestPlainHTTP checks that an address without encryption is accepted only for this
// machine, however its name is spelled, and that the reason names the alternative.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://localhost/a", "http://localhost:3000/a", "http://127.0.0.1/a", "http://127.8.8.8:80/a", "http://[::1]/a"} {
		if why := git.BadURL(url); why != "" {
			t.Errorf("%s: %s", url, why)
		}
	}
	for _, url := range []string{"http://example.com/a", "http://10.0.0.1:3000/a", "http://192.168.0.1/a", "http://localhost.example.com/a", "http://127.0.0.1.example.com/a",
		"http://[fe80::1]/a", "http://0.0.0.0/a", "http://[::]/a", "http://2130706433/a", "http://0x7f.1/a", "http://127.1/a"} {
		if why := git.BadURL(url); !strings.Contains(why, "https") {
			t.Errorf("%s: %q, want a hint with https", url, why)
		}
	}
}
