package tool

import (
	"fmt"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// MinDigestPrefix is how many hexadecimal digits of a digest a person must type.
const MinDigestPrefix = 8

// ErrUnseen is the code of an approval that covers more than was shown.
const ErrUnseen = sandbox.Code("unseen")

// A Seen says what an approval of a request rests on: what a person was shown, the digest that
// they typed, or a rule. It counts for that request only. Only See, SeeNothing and FollowRule
// make one, so an approval cannot claim more than was rendered. The zero Seen covers nothing.
type Seen struct {
	digest string // of the request
	items  int    // how many items the person was shown; 0 unless it was all of them
	unseen bool   // the approval covers something that was not shown
}

// See applies the rule of approvals: see Items. Rendered are the items that were on screen
// completely. DigestPrefix is the beginning of the digest that the person typed, "" for none.
// See returns an error for an approval that is not valid, with what to do instead.
func (r Request) See(rendered []string, digestPrefix string) (Seen, error) {
	seen := Seen{digest: r.Digest}
	missing, all := r.countUnseen(rendered)
	switch {
	case digestPrefix != "" && !isDigestPrefix(r.Digest, digestPrefix):
		return Seen{}, r.unseenError("the digest of this call is not " + sandbox.Shown(digestPrefix) + "; look at the call again")
	case missing == 0:
		seen.items = all
	case digestPrefix == "":
		return Seen{}, r.unseenError(fmt.Sprintf("%d of %d items were not shown", missing, all))
	case r.UnseenOff != "":
		return Seen{}, &sandbox.Error{Op: "approve", Code: errBlocked, Hint: UnseenOffNote(r.UnseenOff)}
	default:
		seen.unseen = true
	}
	return seen, nil
}

// SeeNothing returns what an approval rests on that a mode gave: nobody was shown anything.
func (r Request) SeeNothing() Seen { return Seen{digest: r.Digest, unseen: true} }

// FollowRule returns what an approval rests on that a rule of the user gave.
func (r Request) FollowRule() Seen { return Seen{digest: r.Digest} }

// Approves reports whether an answer approves a request. An approval that does not say what it
// rests on, or that was given to another request, does not.
func (a Answer) Approves(r Request) bool {
	return a.Verdict == Approved && r.Digest != "" && a.Seen.digest == r.Digest
}

// IsUnseen reports whether the approval covers something that was not shown.
func (s Seen) IsUnseen() bool { return s.unseen }

// IsComplete reports whether a person was shown everything that the approval covers.
func (s Seen) IsComplete() bool { return s.items > 0 }

// String returns how much of the request was shown, as the journal records it: "" if a rule
// approved it.
func (s Seen) String() string {
	switch {
	case s.unseen:
		return "unseen"
	case s.items == 1:
		return "1 item"
	case s.items > 1:
		return fmt.Sprintf("all %d items", s.items)
	}
	return ""
}

// A StoredSeen is a Seen as a store keeps it with the answer. The store names the request by
// its digest.
type StoredSeen struct {
	Unseen bool `json:"unseen,omitempty"`
	Items  int  `json:"items,omitempty"`
}

// Stored returns the Seen without its digest.
func (s Seen) Stored() StoredSeen { return StoredSeen{s.unseen, s.items} }

// For returns the Seen that was stored with the answer to a request.
func (s StoredSeen) For(digest string) Seen { return Seen{digest, s.Items, s.Unseen} }

// UnseenDigest returns the beginning of the digest that a person types to approve a request
// without seeing all of it. It is "" if that is not possible, or if a policy forbids it.
func (r Request) UnseenDigest() string {
	if r.UnseenOff != "" || len(r.Digest) < MinDigestPrefix || !isDigestPrefix(r.Digest, r.Digest[:MinDigestPrefix]) {
		return ""
	}
	return r.Digest[:MinDigestPrefix]
}

// UnseenOffNote says that a policy does not allow approving changes that golem did not show.
func UnseenOffNote(place string) string {
	return place + " does not allow approving changes that golem did not show; run golem approve at a terminal and look at it"
}

// countUnseen counts the items of a request that were not rendered.
func (r Request) countUnseen(rendered []string) (n, all int) {
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

func (r Request) unseenError(why string) error {
	hint := why
	if digest := r.UnseenDigest(); digest != "" {
		hint += "; view all of it, or name the digest to approve it unseen: " + digest
	} else if r.UnseenOff != "" {
		hint += "; " + UnseenOffNote(r.UnseenOff)
	}
	return &sandbox.Error{Op: "approve", Code: ErrUnseen, Hint: hint}
}
