package gate

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// An Approver answers the calls that the rules allow only with approval.
type Approver interface {
	// Approve returns the decision about a request. Several calls may ask at once. When ctx
	// ends, the decision is to decline.
	Approve(ctx context.Context, r Request) Decision
}

// An ApproverFunc is a function as an Approver.
type ApproverFunc func(ctx context.Context, r Request) Decision

// Approve implements Approver. A nil function declines.
func (f ApproverFunc) Approve(ctx context.Context, r Request) Decision {
	if f == nil {
		return r.Decline("nobody", "there is nobody to ask")
	}
	return f(ctx, r)
}

// A Request is a call that needs approval, with its exact changes.
type Request struct {
	inner tool.Request
	id    string
	key   []byte // seals what the request makes
	keyed bool   // the key is that of the gate, and others have it, too
}

// storeKey returns the key for what is stored, nil if the gate has none.
func (r Request) storeKey() []byte {
	if !r.keyed {
		return nil
	}
	return r.key
}

// ID returns the random name of the request.
func (r Request) ID() string { return r.id }

// Digest returns the hash of the exact call with its changes. An approval is bound to it.
func (r Request) Digest() string { return r.inner.Digest }

// Tool returns the name of the tool.
func (r Request) Tool() string { return r.inner.Tool }

// Args returns the arguments of the call, with defaults.
func (r Request) Args() json.RawMessage { return slices.Clone(r.inner.Args) }

// Effects returns all effects of the call.
func (r Request) Effects() []Effect {
	var list []Effect
	for _, e := range r.inner.Effects {
		list = append(list, Effect{Verb(e.Verb), e.Target})
	}
	return list
}

// Changes returns the changes that the call would make, and the files that it reads.
func (r Request) Changes() []Change { return changesOf(r.inner.Changes) }

// Why returns which rule asks, "" if it is a default.
func (r Request) Why() string { return r.inner.Rule }

// Risks returns what to look at first.
func (r Request) Risks() []string {
	risks := slices.Clone(r.inner.Warnings)
	for _, c := range r.inner.Changes {
		for _, f := range c.Flags {
			risks = append(risks, f.At(c.Path))
		}
	}
	return risks
}

// An Item is one piece of a request: the call, a change, the content of a change. An approval
// must cover every item.
type Item struct {
	Name string // what it is, such as "the diff of /out/a.md"
	// Text is what to show, as lines without control characters. A program that shows HTML
	// must still escape it.
	Text string
	// Ack is the value for [Request.Acknowledge]. It is "" for an item that is too large or not
	// part of the request: nobody can have seen it.
	Ack string
}

// maxItem is the size in bytes of the largest item that can be acknowledged.
const maxItem = 1 << 20

// Items returns everything that an approval covers, piece by piece.
func (r Request) Items() []Item {
	rows := map[string][]string{}
	for _, row := range display.NewSheet(r.inner, math.MaxInt).All() {
		key := row.Item
		if key == "" {
			key = tool.ItemCall
		}
		rows[key] = append(rows[key], strings.TrimPrefix(row.Mark+" "+row.Text, " "))
	}
	var items []Item
	names, omitted := map[string]string{tool.ItemCall: "the call", tool.ItemWhy: "why it asks", tool.ItemArguments: "all arguments"}, map[string]bool{}
	for i, c := range r.inner.Changes {
		names[tool.ItemChange(i)] = string(c.Op) + " " + visible.Name(c.Path)
		names[tool.ItemContent(i)] = "the content of " + visible.Name(c.Path)
	}
	for _, key := range r.inner.Omitted() {
		omitted[key] = true
	}
	for _, key := range r.inner.Items() {
		item := Item{Name: cmp.Or(names[key], key), Text: strings.Join(rows[key], "\n")}
		if omitted[key] || len(rows[key]) == 0 || len(item.Text) > maxItem {
			item.Name, item.Text = "not shown: "+item.Name, visible.Cut(item.Text, 1000)
		} else {
			item.Ack = r.ack(key, item.Text)
		}
		items = append(items, item)
	}
	return items
}

// ack returns the value that acknowledges an item with its text.
func (r Request) ack(key, text string) string {
	return hex.EncodeToString(seal(r.key, "ack", r.id, r.inner.Digest, key, text))
}

// Acknowledge returns a Seen of items that a person was shown, by the Ack of each. It is an
// error if one of the items of the request is missing: [ErrUnseen].
func (r Request) Acknowledge(acks ...string) (Seen, error) {
	given := make(map[string]bool, len(acks))
	for _, ack := range acks {
		given[ack] = true
	}
	var rendered []string
	keys := r.inner.Items()
	for i, item := range r.Items() {
		if item.Ack != "" && given[item.Ack] {
			rendered = append(rendered, keys[i])
		}
	}
	return r.see(rendered, "")
}

// Unseen returns a Seen of a request that was not shown completely, because it is too large or
// binary. The person must type at least the first eight digits of the digest. The journal
// records the approval as unseen.
func (r Request) Unseen(digest string) (Seen, error) {
	if digest == "" {
		digest = "-"
	}
	return r.see(nil, digest)
}

func (r Request) see(rendered []string, digest string) (Seen, error) {
	if r.inner.Digest == "" {
		return Seen{}, &sandbox.Error{Op: "approve", Code: ErrUnseen, Hint: "there is nothing to approve"}
	}
	if _, err := r.inner.See(rendered, digest); err != nil {
		return Seen{}, err
	}
	return Seen{sealed: sealedSeen{ID: r.id, Digest: r.inner.Digest, Rendered: rendered, Prefix: digest}, key: r.storeKey()}, nil
}

// A Seen says what of a request was rendered, or that the person typed its digest. Only the
// request and its view make one. It counts for that request, once.
type Seen struct {
	sealed sealedSeen
	key    []byte
}

// sealedSeen is a Seen as it is stored.
type sealedSeen struct {
	ID       string   `json:"id"`
	Digest   string   `json:"digest"`
	Rendered []string `json:"rendered,omitempty"`
	Prefix   string   `json:"prefix,omitempty"`
}

// Approve returns the decision that the call is made. By names the person, as the program knows
// them.
func (s Seen) Approve(by string) Decision {
	return Decision{verdict: tool.Approved, id: s.sealed.ID, by: by, seen: s.sealed}
}

// Decline returns the decision that the call is not made. The note is the reason, for the
// model.
func (r Request) Decline(by, note string) Decision {
	return Decision{id: r.id, by: by, note: note}
}

// Later returns that there is no decision yet. The call is not made now: its result has a
// [Pending], with which [Gate.Resume] makes it after the decision.
func (r Request) Later() Decision { return Decision{id: r.id, verdict: tool.Undecided} }

// A Decision is the answer to a request. The zero Decision declines, and only [Seen.Approve]
// makes one that approves.
type Decision struct {
	verdict  tool.Verdict
	id       string
	by, note string
	seen     sealedSeen
}

// Wrap returns a request of package tool with a name, a random one if id is "". It is for
// package golem, as Over is.
func Wrap(inner tool.Request, id string, key []byte) Request {
	random := make([]byte, 48)
	rand.Read(random) // it never fails: see crypto/rand
	if id == "" {
		id = hex.EncodeToString(random[:8])
	}
	keyed := len(key) > 0
	if !keyed {
		key = random[16:] // good for this request only
	}
	return Request{inner: inner, id: id, key: key, keyed: keyed}
}

// Unwrap returns what a decision about a request means for package tool: the answer, the items
// that were rendered, and the digits of the digest that a person typed. An approval that does
// not cover the request is an error. It is for package golem, as Over is.
func Unwrap(d Decision, r Request) (a tool.Answer, rendered []string, digits string, err error) {
	wrong := func(why string) (tool.Answer, []string, string, error) {
		return tool.Answer{}, nil, "", &sandbox.Error{Op: "decide", Path: r.id, Code: ErrUnseen, Hint: why + "; render the request, and approve what was rendered"}
	}
	a = tool.Answer{By: d.by, Note: d.note, ID: r.id, Front: "the program"}
	switch {
	case d.verdict != tool.Declined && d.id != r.id:
		return wrong("the decision is about another request")
	case d.verdict == tool.Undecided:
		a.Verdict = tool.Undecided
	case d.verdict == tool.Approved:
		seen, err := r.inner.See(d.seen.Rendered, d.seen.Prefix)
		if err != nil || d.seen.ID != r.id || d.seen.Digest != r.inner.Digest {
			return wrong("the approval does not cover what the call does")
		}
		a.Verdict, a.Seen, a.Shown = tool.Approved, seen, r.inner.DescribeItems(d.seen.Rendered)
	}
	return a, d.seen.Rendered, d.seen.Prefix, nil
}

// seal returns the HMAC of words.
func seal(key []byte, words ...string) []byte {
	h := hmac.New(sha256.New, key)
	json.NewEncoder(h).Encode(words) // one text for one list of words
	return h.Sum(nil)
}
