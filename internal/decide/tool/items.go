package tool

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/files/filecontent"
)

// The keys of the items that a request has at most once.
const (
	ItemCall      = "call"      // the caller, the tool and the summary
	ItemWhy       = "why"       // the reason why the rule asks
	ItemTaint     = "taint"     // which untrusted path the worker has read
	ItemArguments = "arguments" // all arguments of the call
	ItemProblem   = "problem"   // the reason why the changes are not known
	ItemMore      = "more"      // the omitted warnings
)

// ItemWarning returns the key of the warning at an index of Warnings.
func ItemWarning(i int) string { return "warning " + strconv.Itoa(i) }

// ItemDetail returns the key of the line at an index of Details.
func ItemDetail(i int) string { return "detail " + strconv.Itoa(i) }

// ItemEffect returns the key of the effect at an index of ListedEffects.
func ItemEffect(i int) string { return "effect " + strconv.Itoa(i) }

// ItemChange returns the key of the change at an index of Changes: its operation, names,
// permission bits and note, without its content.
func ItemChange(i int) string { return "change " + strconv.Itoa(i) }

// ItemContent returns the key of the content of the change at an index of Changes: its
// diff, or the names in its directory.
func ItemContent(i int) string { return "content " + strconv.Itoa(i) }

// Items returns the keys of everything that an approval of the request covers.
//
// The rule of approvals has five parts. An approval is bound to the digest of the whole
// request, so it covers all its items. A front reports the items that were on screen
// completely, as approval.Reply.Rendered, and decides nothing itself. A plain approval is
// valid only if every item was rendered. An item that the request does not carry (see
// Change.Omitted) never counts as rendered. Otherwise the person must type the digest, as
// approval.Reply.DigestPrefix, and the approval is recorded as unseen. Only
// Request.See applies the rule.
func (r Request) Items() []string {
	items := make([]string, 0, 2+len(r.Warnings)+len(r.Details)+2*len(r.Changes))
	items = append(items, ItemCall)
	if r.Why != "" {
		items = append(items, ItemWhy)
	}
	if r.Taint != "" {
		items = append(items, ItemTaint)
	}
	for i := range r.Warnings {
		items = append(items, ItemWarning(i))
	}
	if r.MoreWarnings > 0 {
		items = append(items, ItemMore)
	}
	for i := range r.Details {
		items = append(items, ItemDetail(i))
	}
	for i := range r.ListedEffects() {
		items = append(items, ItemEffect(i))
	}
	for i, c := range r.Changes {
		items = append(items, ItemChange(i))
		if c.Diff != "" || len(c.Tree) > 0 || c.Omitted != "" {
			items = append(items, ItemContent(i))
		}
	}
	if r.ShowsArguments() {
		items = append(items, ItemArguments)
	}
	if r.Problem != "" {
		items = append(items, ItemProblem)
	}
	return items
}

// maxDescribed is how many items DescribeItems names.
const maxDescribed = 50

// DescribeItems returns items of the request in words, without their content. The version
// of a content says which content it was.
func (r Request) DescribeItems(keys []string) []string {
	effects := r.ListedEffects()
	texts := map[string]string{ItemCall: "the call", ItemWhy: "why it asks", ItemTaint: "tainted by " + r.Taint, ItemArguments: "all arguments", ItemProblem: "why the changes are not known"}
	for i := range r.Warnings {
		texts[ItemWarning(i)] = "warning " + strconv.Itoa(i+1)
	}
	for i := range r.Details {
		texts[ItemDetail(i)] = "line " + strconv.Itoa(i+1)
	}
	for i, e := range effects {
		texts[ItemEffect(i)] = e.String()
	}
	for i, c := range r.Changes {
		texts[ItemChange(i)] = string(c.Op) + " " + c.Path
		if c.To != "" {
			texts[ItemChange(i)] += " to " + c.To
		}
		if c.Part != "" {
			texts[ItemChange(i)] += ", " + c.Part
		}
		texts[ItemContent(i)] = c.describeContent()
	}
	seen := make(map[string]bool, len(keys))
	for _, key := range keys {
		seen[key] = true
	}
	for _, key := range r.Omitted() {
		delete(seen, key)
	}
	var list []string
	more := 0
	for _, key := range r.Items() {
		switch {
		case !seen[key]:
		case len(list) == maxDescribed:
			more++
		default:
			list = append(list, texts[key])
		}
	}
	if more > 0 {
		list = append(list, "and "+strconv.Itoa(more)+" more")
	}
	return list
}

// describeContent says in words what a person sees of the content of a change: all lines
// of a file that is created or deleted, but only the changed ones of another. The version
// is that of the whole file after the change.
func (c Change) describeContent() string {
	text, shown := "the content of "+c.Path, []string{}
	switch {
	case len(c.Tree) > 0:
		text = "the names in " + c.Path
	case c.Diff != "" && c.Op == Update:
		text = "the diff of " + c.Path
		if c.Part != "" {
			shown = append(shown, c.Part)
		}
		added, removed := filecontent.CountDiffLines(c.Diff)
		shown = append(shown, fmt.Sprintf("+%d -%d", added, removed))
	}
	if c.Becomes != "" {
		text += ", version " + c.Becomes
	}
	if len(shown) > 0 {
		text += " (" + strings.Join(shown, ", ") + ")"
	}
	return text
}

// Omitted returns the keys of the items that the request does not carry. No front can
// render them.
func (r Request) Omitted() []string {
	var items []string
	if r.MoreWarnings > 0 {
		items = append(items, ItemMore)
	}
	if r.Unknown {
		items = append(items, ItemProblem)
	}
	for i, c := range r.Changes {
		if c.Omitted != "" {
			items = append(items, ItemContent(i))
		}
	}
	return items
}

// ListedEffects returns the effects that a front lists one by one: all of them, or none
// if the summary or the changes already show each.
func (r Request) ListedEffects() []policy.Effect {
	told := make(map[policy.Effect]bool, len(r.Changes))
	for _, c := range r.Changes {
		verb := policy.Write
		switch c.Op {
		case Delete:
			verb = policy.Delete
		case Read, Attach:
			verb = policy.Read
		}
		if c.To == "" {
			told[policy.Effect{Verb: verb, Target: c.Path}] = true
		}
	}
	only := len(r.Effects) == 1
	untold := func(e policy.Effect) bool {
		if only && (len(r.Changes) == 0 || e.Verb == policy.Use && (r.Summary != "" || e.Target == r.Tool)) {
			return false
		}
		return !told[policy.Effect{Verb: e.Verb, Target: e.Target}]
	}
	if slices.Equal(r.ToApprove, r.Effects) && !slices.ContainsFunc(r.Effects, untold) {
		return nil
	}
	all, known := slices.Clone(r.Effects), make(map[policy.Effect]bool, len(r.Effects))
	for _, e := range r.Effects {
		known[e] = true
	}
	for _, e := range r.ToApprove {
		if !known[e] {
			all, known[e] = append(all, e), true
		}
	}
	return all
}

// ShowsArguments reports whether a front shows the arguments: there are some, and neither
// a diff nor the summary shows what the call does.
func (r Request) ShowsArguments() bool {
	switch string(bytes.TrimSpace(r.Args)) {
	case "", "{}", "null":
		return false
	}
	if r.Summary != "" && len(r.Changes) > 0 {
		return false
	}
	return !slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Diff != "" && !c.isRead() })
}
