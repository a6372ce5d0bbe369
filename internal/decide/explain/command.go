package explain

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/command"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A CommandAnswer says whether a worker may run a command line, and what decides it. All
// text in it is safe to print.
type CommandAnswer struct {
	Command  string        `json:"command"`
	Worker   string        `json:"worker,omitempty"`
	Allowed  bool          `json:"allowed"`
	Trusted  *bool         `json:"trusted,omitempty"`
	Approval string        `json:"consent,omitempty"` // the approval it needs, if it is allowed
	Reason   string        `json:"reason"`
	Parts    []CommandPart `json:"parts"`
	Writes   []CommandPart `json:"writes"` // files that redirections write
	Error    *Refusal      `json:"error,omitempty"`
}

// A CommandPart is a command of a line, or a file that it writes, with the decision about
// it.
type CommandPart struct {
	Text string `json:"text"`
	// Kind is one of command, through, plain, unknown and write. A program that only runs
	// another one is through. A part that runs nothing is plain. A part that golem does
	// not understand is unknown.
	Kind     string   `json:"kind"`
	Via      []string `json:"via,omitempty"`
	Approval string   `json:"consent,omitempty"`
	Rule     string   `json:"rule,omitempty"` // the pattern or set
	From     string   `json:"from,omitempty"` // where the rule is written
	Why      string   `json:"why,omitempty"`
}

// textWidth is how much of a text an answer shows.
const textWidth = 200

// Command answers whether the subject may run a command line.
func (s Subject) Command(ctx context.Context, line string) (CommandAnswer, error) {
	a := CommandAnswer{Command: visible.Text(line), Parts: []CommandPart{}, Writes: []CommandPart{}}
	a.Worker = s.chainText()
	grant := s.Grant
	j := command.NewRules(grant.Shell).Judge(line)
	run := policy.Effect{Verb: policy.Run, Target: line}
	_, base := grant.Approvals.Of(run)
	for i := range j.Parts {
		a.Parts = append(a.Parts, newPart(j, i, base))
	}
	if rule, ok := j.ApprovalRule(); ok {
		rule.Target = line
		grant.Approvals = grant.Approvals.With(rule)
	}
	least, err := s.addWrites(ctx, &a, grant, j)
	if err != nil {
		return a, err
	}
	d := grant.Decide(run)
	a.decide(d, j, least)
	s.decideByMode(&a, min(d.Approval, least))
	if len(s.Chain) == 0 || !grant.Tools.Has("shell") {
		a.refuse("unknown_tool", "no command is run here: the worker has no shell", "a worker has it with toolsets: {shell: }")
	}
	s.addCommandTrust(&a)
	return a, nil
}

// newPart describes the decision about a part. Base is the rule that applies if no rule
// for commands matches.
func newPart(j command.Judgement, i int, base policy.Rule) CommandPart {
	p, v := j.Parts[i], j.Verdicts[i]
	part := CommandPart{Text: visible.Line(p.Text, textWidth), Kind: "command", Via: p.Via, Why: visible.Line(v.Why, textWidth)}
	switch {
	case p.Unknown != "":
		part.Kind = "unknown"
	case p.Plain:
		part.Kind = "plain"
	case p.Runs:
		part.Kind = "through"
	}
	switch {
	case v.Said:
		part.Approval, part.From = v.Approval.String(), v.Rule.From
		part.Rule = visible.Line(cmp.Or(v.Rule.Use, v.Rule.Pattern), textWidth)
	case !p.Plain && !p.Runs:
		part.Approval, part.From = base.Approval.String(), cmp.Or(base.From, strictyaml.Default.String())
		part.Why = cmp.Or(part.Why, "no rule matches it")
	}
	return part
}

// addWrites adds the decisions about the files that redirections write, and returns the
// strictest one.
func (s Subject) addWrites(ctx context.Context, a *CommandAnswer, grant policy.Grant, j command.Judgement) (policy.Approval, error) {
	least := policy.PreApproved
	moves := slices.ContainsFunc(j.Parts, func(p command.Part) bool {
		return len(p.Words) > 0 && slices.Contains([]string{"cd", "pushd", "popd"}, p.Words[0].Text)
	})
	for _, w := range j.Writes {
		part := CommandPart{Text: visible.Line(w.Path, textWidth), Kind: "write"}
		name, stays := virtual(grant, w.Path)
		level := policy.Ask
		switch {
		case !w.Literal || moves && !path.IsAbs(w.Path):
			part.Why = "golem cannot know before it runs which file it is"
		case !stays:
			part.Why, level = "it is gone when the command ends", policy.PreApproved
		default:
			answer, err := s.file(ctx, "write", name)
			if err != nil {
				return least, err
			}
			part.Text, part.Why = answer.Path, "decided when the command has ended"
			for _, f := range answer.Facts {
				if f.Kind == "approval" {
					part.From = f.From
				}
			}
			if level, _ = policy.ParseApproval(answer.Approval); !answer.Allowed {
				part.Why, a.Error, level = answer.Reason, answer.Error, policy.Blocked
			}
		}
		part.Approval = level.String()
		a.Writes = append(a.Writes, part)
		least = min(least, level)
	}
	return least, nil
}

// virtual returns the virtual name of a file that a command writes, and whether the file
// outlives the command.
func virtual(grant policy.Grant, file string) (string, bool) {
	roots := grant.Files.Roots()
	if !path.IsAbs(file) {
		begin := "/"
		if !slices.ContainsFunc(roots, func(r sandbox.Limit) bool { return r.Path == "/" }) {
			for _, r := range slices.Backward(roots) {
				if r.Access == sandbox.ReadWrite || begin == "/" {
					begin = r.Path
				}
			}
		}
		file = path.Join(begin, file)
	}
	file = path.Clean(file)
	if rest, ok := strings.CutPrefix(file+"/", jail.Work+"/"); ok {
		file = path.Clean("/" + rest)
	}
	for _, private := range []string{"/tmp", "/dev", "/proc"} {
		if (file == private || strings.HasPrefix(file, private+"/")) && grant.Files.Access(file) < sandbox.ReadWrite {
			return file, false
		}
	}
	return file, true
}

// decide sets the answer from the decisions about the line and its writes.
func (a *CommandAnswer) decide(d policy.Decision, j command.Judgement, least policy.Approval) {
	text := visible.Line(a.Command, textWidth)
	at := j.Decides()
	if at >= 0 && a.Parts[at].Text != text {
		text = a.Parts[at].Text
	}
	why := ""
	if at >= 0 && a.Parts[at].Why != "" {
		why = ": " + a.Parts[at].Why
	}
	switch d.Approval {
	case policy.Blocked:
		a.refuse("blocked", text+" is blocked"+why, "no approval changes that")
		if d.Why != "" {
			a.refuse("blocked", d.Why, "no approval changes that")
		}
	case policy.Ask:
		a.Allowed, a.Reason = true, "golem asks about "+text+why
	default:
		a.Allowed, a.Reason = true, "it runs without a question"
		switch least {
		case policy.Ask:
			a.Reason += "; golem asks about the files that it writes"
		case policy.Blocked:
			a.Allowed, a.Reason = false, "it may not write its output files"
		}
	}
}

// decideByMode sets what the approval mode answers.
func (s Subject) decideByMode(a *CommandAnswer, level policy.Approval) {
	if !a.Allowed {
		return
	}
	a.Approval = level.String()
	switch {
	case level == policy.Ask && s.Approval == "auto_deny":
		a.refuse("declined", a.Reason+", and auto_deny declines", "nobody is asked here")
	case level == policy.Ask && s.Approval == "approve_all":
		a.Approval = policy.PreApproved.String()
		a.Reason += ", and approve_all approves it"
	}
}

// refuse turns the answer into a no.
func (a *CommandAnswer) refuse(code sandbox.Code, reason, hint string) {
	a.Allowed, a.Approval, a.Reason = false, "", reason
	e := &sandbox.Error{Op: "run", Path: visible.Line(a.Command, textWidth), Code: code, Hint: hint}
	a.Error = &Refusal{Code: code, Message: e.Error(), Hint: hint}
}

// addCommandTrust adds whether the program is trusted.
func (s Subject) addCommandTrust(a *CommandAnswer) {
	a.Trusted = &s.Trusted
	if a.Allowed {
		a.Error = nil
	}
	if !s.Trusted && a.Allowed {
		a.refuse("untrusted", "not yet: this program is not trusted; once it is, "+a.Reason, "golem trust shows what it asks for")
	}
}
