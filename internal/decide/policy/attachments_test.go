package policy_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
)

func TestAttachments(t *testing.T) {
	three := policy.Attachments{Max: 3, Bytes: 1 << 20, Allowed: []string{".pdf"}}
	denies := policy.Attachments{Unlimited: true, Allowed: []string{".gz", ".exe"}, Denied: []string{".EXE", ".tar.gz"}}
	for _, test := range []struct {
		policy policy.Attachments
		name   string
		count  int
		total  int64
		why    string
	}{
		{three, "/x.pdf", 1, 1, ""},
		{three, "/x.PDF", 3, 1 << 20, ""},
		{three, "/x.pdf", 4, 1, "4 attachments, at most 3"},
		{three, "/x.pdf", 3, 1<<20 + 1, "1048577 bytes in all, at most 1048576"},
		{three, "/x.pdf", 3, 1 << 40, "1099511627776 bytes in all, at most 1048576"},
		{three, "/x.pdf.exe", 1, 1, "allowed suffixes: .pdf"},
		{three, "/x.pdf/", 1, 1, "allowed suffixes: .pdf"},
		{three, "/xpdf", 1, 1, "allowed suffixes: .pdf"},
		{three, "", 1, 1, "allowed suffixes: .pdf"},
		{three, "/x.pdf", 100, 1, "100 attachments, at most 3"},
		{policy.Attachments{Max: 1}, "/x", 1, 1, "1 byte in all, at most 0"},
		{policy.Attachments{Max: 1}, "/x", 1, 0, ""},
		{policy.Attachments{}, "/x", 1, 0, "1 attachment, at most 0"},
		{policy.Attachments{}, "/x", 0, 0, "1 attachment, at most 0"},
		{denies, "/x.gz", 99, 1 << 60, ""},
		{denies, "/x.exe", 1, 1, "denied suffixes: .EXE, .tar.gz"},
		{denies, "/x.Tar.Gz", 1, 1, "denied suffixes: .EXE, .tar.gz"},
		{denies, "/x.md", 1, 1, "allowed suffixes: .gz, .exe"},
		{policy.Attachments{Unlimited: true, Allowed: []string{".PDF"}}, "/x.pdf", 1, 1, ""},
		{policy.Attachments{Unlimited: true}, "/x", 1, 1, ""},
		{policy.Attachments{Unlimited: true, Denied: []string{""}}, "/x", 1, 1,
			"no suffix is allowed: those that the one side and the other allow have none in common"},
		{policy.Attachments{Unlimited: true, Allowed: []string{"", ".md"}}, "/x", 1, 1, "allowed suffixes: , .md"},
		{policy.Attachments{Unlimited: true, Denied: []string{".a\x1b[2J"}}, "/x.a\x1b[2j", 1, 1, `denied suffixes: ".a\x1b[2J"`},
	} {
		if got := test.policy.RefusalReason(test.name, test.count, test.total); got != test.why {
			t.Errorf("%+v, %s, %d, %d: got %q, want %q", test.policy, test.name, test.count, test.total, got, test.why)
		}
	}
}

// TestAttachmentsMeet checks that the limits of both sides hold.
func TestAttachmentsMeet(t *testing.T) {
	meet := func(a, b policy.Attachments) policy.Attachments {
		return policy.Grant{Attachments: a}.Meet(policy.Grant{Attachments: b}).Attachments
	}
	apart := meet(policy.Attachments{Unlimited: true, Allowed: []string{".pdf"}}, policy.Attachments{Unlimited: true, Allowed: []string{".md"}})
	for _, name := range []string{"/x", "/x.pdf", "/x.md", "/x.md.pdf", ""} {
		if why := apart.RefusalReason(name, 1, 1); !strings.HasPrefix(why, "no suffix is allowed") {
			t.Errorf("disjoint lists, %q: got %q", name, why)
		}
	}
	if why := meet(apart, policy.Attachments{Unlimited: true, Allowed: []string{".pdf"}}).RefusalReason("/x.pdf", 1, 1); why == "" {
		t.Error("a third list opened what two had closed")
	}
	longer := meet(policy.Attachments{Unlimited: true, Allowed: []string{".GZ", ".md"}}, policy.Attachments{Unlimited: true, Allowed: []string{".tar.gz"}})
	if longer.RefusalReason("/x.tar.gz", 1, 1) != "" || longer.RefusalReason("/x.gz", 1, 1) == "" || longer.RefusalReason("/x.md", 1, 1) == "" {
		t.Errorf("got %+v, want .tar.gz alone", longer)
	}
	numbers := meet(policy.Attachments{Max: 3, Bytes: 10}, policy.Attachments{Max: 2, Bytes: 20, Denied: []string{".exe"}})
	if numbers.Max != 2 || numbers.Bytes != 10 || numbers.RefusalReason("/x.EXE", 1, 1) == "" {
		t.Errorf("got %+v", numbers)
	}
	one := meet(policy.Attachments{Unlimited: true}, policy.Attachments{Max: 2, Bytes: 20})
	if one.Unlimited || one.Max != 2 || one.Bytes != 20 {
		t.Errorf("no policy and one: got %+v", one)
	}
}
