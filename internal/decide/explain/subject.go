package explain

import (
	"cmp"
	"context"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A Subject is the worker of a program that questions are about, or the program itself.
type Subject struct {
	Mounts       []*Mount
	Protect      []string // patterns of protected paths
	Grant        policy.Grant
	Chain        []Link // from the entry worker to this one, empty for the program itself
	Approval     string // the approval mode
	ApprovalFrom string // where the mode is written
	Trusted      bool   // the user trusts the program
	HostsFrom    string // where the hosts are written
	// HostLimit returns the policy that forbids a host and a port, "" for none.
	HostLimit func(host string, port uint16) string
}

// A Link is one worker in the chain of callers.
type Link struct {
	Worker   string
	Grant    policy.Grant
	From     string              // where its sandbox is written
	Problems strictyaml.Problems // what it asks for beyond its caller
}

// File answers whether the subject may do an operation at a path. As long as the program is
// not trusted, the answer is no, and says what trust would change.
func (s Subject) File(ctx context.Context, op, path string) (Answer, error) {
	a, err := s.file(ctx, op, path)
	if err != nil {
		return a, err
	}
	s.addTools(&a)
	s.addTrust(&a)
	return a, nil
}

// addTools refuses a file to a worker that has no tool for it.
func (s Subject) addTools(a *Answer) {
	if len(s.Chain) == 0 || !a.Allowed || !s.Grant.Tools.IsEmpty() {
		return
	}
	worker := s.Chain[len(s.Chain)-1].Worker
	a.Refuse("unknown_tool", worker+" has no tools", "write filesystem: under toolsets of "+worker+" and of the workers that call it")
}

// file answers as if the program were trusted.
func (s Subject) file(ctx context.Context, op, path string) (Answer, error) {
	files, err := NewSandbox(s.Mounts, s.Protect)
	if err != nil {
		return Answer{}, err
	}
	if files, err = s.Grant.Files.Apply(files); err != nil {
		return Answer{}, err
	}
	a := Ask(ctx, op, path, files, s.Mounts)
	s.addChain(&a)
	if _, mounted := files.MountOf(a.End); mounted { // no rule is about a directory above mounts
		s.addApproval(&a, tool.Gate{Grant: s.Grant, Files: files})
	}
	return a, nil
}

// chainText returns the names of the workers in the chain.
func (s Subject) chainText() string {
	var names []string
	for _, link := range s.Chain {
		names = append(names, link.Worker)
	}
	return strings.Join(names, " → ")
}

// addChain adds the access that each worker in the chain has to the file.
func (s Subject) addChain(a *Answer) {
	a.Worker = s.chainText()
	for _, link := range s.Chain {
		access := "—" // a.End is no valid name
		if a.End != "" {
			access = link.Grant.Files.Access(a.End).String()
		}
		a.Facts = append(a.Facts, Fact{Kind: "worker", Path: link.Worker, Is: access, From: link.From})
		for _, problem := range link.Problems {
			a.Facts = append(a.Facts, Fact{Kind: "error", Path: link.Worker, Is: problem.What, From: problem.Place.String()})
		}
	}
}

// addApproval adds whether the gate asks for approval, and what the approval mode decides.
func (s Subject) addApproval(a *Answer, gate tool.Gate) {
	verb := map[string]policy.Verb{"read": policy.Read, "write": policy.Write, "delete": policy.Delete}[a.Op]
	if !a.Allowed {
		return
	}
	d := gate.Decide(policy.Effect{Verb: verb, Target: a.End})
	a.Approval = d.Approval.String()
	from := cmp.Or(d.Rule.From, strictyaml.Default.String())
	a.Facts = append(a.Facts, Fact{Kind: "approval", Path: sandbox.Shown(a.End), Is: a.Op + " " + a.Approval, From: from})
	mode := Fact{Kind: "approval", Path: "mode", Is: s.Approval, From: s.ApprovalFrom}
	switch {
	case d.Approval == policy.Blocked:
		a.Refuse("blocked", "it is blocked", "no approval changes that; "+listOf("writable", a.Writable))
	case d.Approval == policy.Ask && s.Approval == "auto_deny":
		a.Facts = append(a.Facts, mode)
		a.Refuse("declined", "golem would ask, and auto_deny declines", "nobody is asked here; "+listOf("readable", a.Readable))
	case d.Approval == policy.Ask && s.Approval == "approve_all":
		a.Facts = append(a.Facts, mode)
		a.Approval = policy.PreApproved.String()
	}
}

func listOf(what string, names []string) string {
	if len(names) == 0 {
		return what + ": nothing"
	}
	return what + ": " + strings.Join(names, ", ")
}

// addTrust adds whether the program is trusted, and refuses what its files allow until then.
func (s Subject) addTrust(a *Answer) {
	a.Trusted = &s.Trusted
	if s.Trusted {
		return
	}
	a.Facts = append(a.Facts, Fact{Kind: "trust", Is: "not yet: until golem trust, a program may only read its own directory"})
	if a.Allowed {
		a.Refuse("untrusted", "not yet: this program is not trusted; once it is, "+a.Reason, "golem trust shows what it asks for")
	}
}
