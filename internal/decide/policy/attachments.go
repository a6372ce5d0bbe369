package policy

import (
	"slices"
	"strconv"
	"strings"
)

// Attachments limit which files a worker may attach for another. The zero value allows
// none.
type Attachments struct {
	Max   int
	Bytes int64
	// If Allowed is not empty, only these suffixes are allowed. Suffixes in Denied never
	// are. Case does not matter. The empty suffix in Denied denies every name. In Allowed
	// it means nothing.
	Allowed []string
	Denied  []string
	// Unlimited lifts Max and Bytes.
	Unlimited bool
}

// RefusalReason returns why a file may not be attached, "" if it may. Count and total are
// those of the call so far, including this file.
func (a Attachments) RefusalReason(name string, count int, total int64) string {
	name = strings.ToLower(name)
	switch {
	case hasSuffix("", a.Denied):
		return "no suffix is allowed: those that the one side and the other allow have none in common"
	case hasSuffix(name, a.Denied):
		return "denied suffixes: " + joinNames(a.Denied, "none")
	case len(a.Allowed) > 0 && !hasSuffix(name, a.Allowed):
		return "allowed suffixes: " + joinNames(a.Allowed, "none")
	case a.Unlimited:
		return ""
	case max(count, 1) > a.Max:
		return formatCount(int64(max(count, 1)), "attachment") + ", at most " + strconv.Itoa(a.Max)
	case total > a.Bytes:
		return formatCount(total, "byte") + " in all, at most " + strconv.FormatInt(a.Bytes, 10)
	}
	return ""
}

// hasSuffix reports whether a name in lower case ends in one of the suffixes. Only the
// empty name has the empty suffix.
func hasSuffix(name string, suffixes []string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool {
		return (s == "") == (name == "") && strings.HasSuffix(name, strings.ToLower(s))
	})
}

func (a Attachments) meet(b Attachments) Attachments {
	both := Attachments{Max: min(a.Max, b.Max), Bytes: min(a.Bytes, b.Bytes), Denied: union(a.Denied, b.Denied)}
	switch {
	case a.Unlimited && b.Unlimited:
		both.Unlimited = true
	case a.Unlimited:
		both.Max, both.Bytes = b.Max, b.Bytes
	case b.Unlimited:
		both.Max, both.Bytes = a.Max, a.Bytes
	}
	switch {
	case len(a.Allowed) == 0:
		both.Allowed = b.Allowed
	case len(b.Allowed) == 0:
		both.Allowed = a.Allowed
	default:
		both.Allowed, both.Denied = bothSuffixes(a.Allowed, b.Allowed, both.Denied)
	}
	return both
}

// bothSuffixes returns the suffixes that two lists allow: the longer of every two of
// which one ends in the other. If there is none, nothing is allowed. An empty list would
// not say so, so the empty suffix is denied.
func bothSuffixes(a, b, denied []string) (allowed, deniedToo []string) {
	a, b = union(a, nil), union(b, nil)
	for _, x := range a {
		for _, y := range b {
			switch {
			case x == "" || y == "":
			case strings.HasSuffix(x, y):
				allowed = append(allowed, x)
			case strings.HasSuffix(y, x):
				allowed = append(allowed, y)
			}
		}
	}
	if len(allowed) == 0 {
		return nil, union(denied, []string{""})
	}
	return union(allowed, nil), denied
}

// union returns the suffixes of both lists in lower case, sorted, each once.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	for i, s := range all {
		all[i] = strings.ToLower(s)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func formatCount(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.FormatInt(n, 10) + " " + word + "s"
}
