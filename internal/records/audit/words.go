package audit

import (
	"cmp"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// AccountMark separates where a person answered from their account, in the front of a
// record.
const AccountMark = ", as "

// maxFront is how many characters of the front are shown.
const maxFront = 200

// TrustTool stands for the tool in records of decisions to trust a program.
const TrustTool = "golem trust"

// PairTool stands for the tool in records of decisions about the user's devices.
const PairTool = "golem desk pair"

// TrustText says which program or file of instructions a decision is about, and which content,
// by its hash. It is "" for other records.
func (r Record) TrustText() string {
	if r.Tool != TrustTool {
		return ""
	}
	what := ""
	for _, key := range []string{"program", "file"} {
		if name, _ := r.Args[key].(string); name != "" {
			what = visible.Name(name) + ", "
		}
	}
	hash, _ := r.Args["content"].(string)
	return what + "content " + visible.Line(hash, maxFront)
}

// CallText names the tool, the workers and the caller of a record.
func (r Record) CallText() string {
	var workers []string
	for _, w := range r.Workers {
		workers = append(workers, sandbox.Shown(w))
	}
	who := strings.Join(workers, " → ")
	if own := len(r.Workers) == 1 && r.Workers[0] == policy.NoWorker && r.Origin == policy.User.String(); own {
		who = "you"
	} else if r.Origin != "" && r.Kind != Answer { // the origin of an answer is the person
		who = strings.TrimPrefix(who+", called by "+originWords(r.Origin), ", ")
	}
	return strings.TrimSuffix(sandbox.Shown(r.Tool)+" by "+who, " by ")
}

// originWords names who made a call.
func originWords(origin string) string {
	if origin == "user" {
		return "you"
	}
	return "a " + sandbox.Shown(origin)
}

// KindText says what a record is about.
func (r Record) KindText() string {
	switch {
	case r.Kind == Intent && r.Decision == "yes":
		return "approved, and about to run"
	case r.Kind == Intent:
		return "allowed without a question, and about to run"
	case r.Kind == Outcome && r.Code == "":
		return "done"
	case r.Kind == Outcome:
		return "failed (" + sandbox.Shown(r.Code) + ")"
	case r.Kind == Refusal && r.Decision == "pending":
		return "waits for approval; nothing was done"
	case r.Kind == Refusal && r.Decision == "no":
		return "declined; nothing was done"
	case r.Kind == Refusal:
		return "refused (" + cmp.Or(sandbox.Shown(r.Decision), sandbox.Shown(r.Code)) + "); nothing was done"
	case r.Tool == TrustTool && r.Decision == "yes":
		return "a person trusted it"
	case r.Tool == TrustTool && r.Decision == "no":
		return "a person did not trust it"
	case r.Tool == PairTool && r.Decision == "yes":
		return "a person paired a device"
	case r.Tool == PairTool && r.Decision == "no":
		return "golem did not pair a device"
	case r.Tool == PairTool:
		return "a person removed a device"
	case r.Kind == Answer && r.Decision == "yes":
		return "a person approved the call"
	case r.Kind == Answer && r.Decision == "no":
		return "a person declined the call"
	}
	return strings.TrimSpace(sandbox.Shown(string(r.Kind)) + " " + sandbox.Shown(r.Decision))
}

// FrontText returns a front with its account as a text: "root on host, with golem desk".
func FrontText(front string) string {
	i := strings.LastIndex(front, AccountMark)
	if i < 0 {
		return visible.Line(front, maxFront)
	}
	return visible.Line(front[i+len(AccountMark):], maxFront) + ", with " + visible.Line(front[:i], maxFront)
}

// DeciderText says who decided, and where.
func (r Record) DeciderText() string {
	by := sandbox.Shown(r.By)
	switch {
	case r.Decision == "":
		return ""
	case r.By == "user":
		if strings.Contains(r.Front, AccountMark) {
			return FrontText(r.Front)
		}
		by = "the user"
	case r.By == "nobody":
		by = "nobody yet"
	case r.By == "" && r.Decision == "preApproved":
		by = "the default rules"
	}
	if r.Front != "" && r.By != "nobody" {
		by += ", with " + visible.Line(r.Front, maxFront)
	}
	return by
}

// SeenText says how much of the call the person saw.
func (r Record) SeenText() string {
	switch {
	case r.Seen == "unseen" && len(r.Shown) == 0:
		return "nothing: approved unseen"
	case r.Seen == "unseen":
		return "not everything: approved unseen, after these items were on screen"
	case r.Seen != "":
		return sandbox.Shown(r.Seen) + " of the call, completely on screen"
	}
	return ""
}
