package approval

import (
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// MinDigestPrefix is how many hexadecimal digits of a digest a person must type.
const MinDigestPrefix = 8

// errUnseen is the code of an approval that covers more than was shown.
const errUnseen = sandbox.Code("unseen")

// errUnseenOff is the code of such an approval if a policy forbids it.
const errUnseenOff = sandbox.Code("blocked")

// UnseenDigest returns the beginning of the digest that a person types to approve a request
// without seeing all of it. It is "" if that is not possible, or if a policy forbids it.
func UnseenDigest(r tool.Request) string {
	if r.UnseenOff != "" || len(r.Digest) < MinDigestPrefix || !isDigestPrefix(r.Digest, r.Digest[:MinDigestPrefix]) {
		return ""
	}
	return r.Digest[:MinDigestPrefix]
}

// CheckSeen applies the rule of approvals to a reply: see tool.Request.Items. It returns
// an error for an approval that is not valid, with what to do instead. It reports whether
// a valid approval covers something that was not shown. Every front uses it, and none
// decides by itself.
func CheckSeen(r tool.Request, reply Reply) (unseen bool, err error) {
	if reply.Verdict != tool.Approved {
		return false, nil
	}
	missing, all := countUnseen(r, reply.Rendered)
	if reply.DigestPrefix != "" {
		if !isDigestPrefix(r.Digest, reply.DigestPrefix) {
			return false, unseenError("the digest of this call is not "+sandbox.Shown(reply.DigestPrefix)+"; look at the call again", r)
		}
		if missing > 0 && r.UnseenOff != "" {
			return false, &sandbox.Error{Op: "approve", Code: errUnseenOff, Hint: UnseenOffNote(r.UnseenOff)}
		}
		return missing > 0, nil
	}
	if missing > 0 {
		return false, unseenError(fmt.Sprintf("%d of %d items were not shown", missing, all), r)
	}
	return false, nil
}

// countUnseen counts the items of a request that were not rendered.
func countUnseen(r tool.Request, rendered []string) (n, all int) {
	seen := make(map[string]bool, len(rendered))
	for _, key := range rendered {
		seen[key] = true
	}
	for _, key := range r.Omitted() {
		delete(seen, key)
	}
	items := r.Items()
	for _, key := range items {
		if !seen[key] {
			n++
		}
	}
	return n, len(items)
}

// isDigestPrefix reports whether a text is the beginning of a digest, and long enough.
func isDigestPrefix(digest, text string) bool {
	text = strings.ToLower(text)
	return len(text) >= MinDigestPrefix && strings.HasPrefix(digest, text) && strings.Trim(digest, "0123456789abcdef") == ""
}

func unseenError(why string, r tool.Request) error {
	hint := why
	if digest := UnseenDigest(r); digest != "" {
		hint += "; view all of it, or name the digest to approve it unseen: " + digest
	} else if r.UnseenOff != "" {
		hint += "; " + UnseenOffNote(r.UnseenOff)
	}
	return &sandbox.Error{Op: "approve", Code: errUnseen, Hint: hint}
}

// toAnswer returns a person's reply as an answer. An approval records how much of the
// request was shown, and is an error if CheckSeen refuses it.
func (reply Reply) toAnswer(r tool.Request) (tool.Answer, error) {
	a := reply.Answer
	a.Unseen, a.Items, a.Shown = false, 0, r.DescribeItems(reply.Rendered)
	unseen, err := CheckSeen(r, reply)
	if err != nil || a.Verdict != tool.Approved {
		return a, err
	}
	if a.Unseen = unseen; !unseen {
		a.Items = len(r.Items())
	}
	return a, nil
}
