package program

import (
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/instruction"
	"github.com/golem-forge/golem/sandbox"
)

// TrustStore returns the store of the program's content that the user trusts. The submitter of
// a job has signed the hash of its content, and the policy of the submitter's machine counts.
func (p *Program) TrustStore() trust.Decisions {
	s := trust.Decisions{State: p.Storage.Sessions.State, Root: p.root, Accepted: p.options.Trust, Now: p.options.Now}
	if p.options.Job == nil {
		s.UnseenOff = p.Storage.UnseenOff
	}
	return s
}

// Instructions returns the finder of files with instructions for the workers.
func (p *Program) Instructions() instruction.Finder {
	return instruction.Finder{Project: p.Project, Workers: p.Workers, Root: p.root, Base: p.Storage.Base, Trust: p.TrustStore()}
}

// TrustRequest returns the content that the user is asked to trust.
func (p *Program) TrustRequest() trust.Request {
	return trust.Request{Root: p.root, Project: p.Project.Asked(), Workers: p.Workers, Entry: p.Entry, Tools: p.toolFiles, Profiles: p.profiles, User: p.options.User}
}

// IsTrusted reports whether the user trusts the program's content. A program without content
// needs no trust.
func (p *Program) IsTrusted() (bool, error) {
	if p.Content.Hash == "" {
		return true, nil
	}
	return p.TrustStore().IsTrusted(p.Content)
}

// CheckTrust returns an error if the user does not trust the program's content.
func (p *Program) CheckTrust() error {
	trusted, err := p.IsTrusted()
	if err != nil || trusted {
		return err
	}
	command := "golem trust"
	if p.options.Dir != "." {
		command += " -C " + sandbox.Shown(p.options.Dir)
	}
	return &sandbox.Error{Op: "trust", Code: "untrusted",
		Hint: "this program's files have no effect before you trust them; " + command + " shows what they ask for"}
}

// TrustQuestion returns the request to trust the content of a program. Its warnings are the
// risky permissions. If the user has trusted other content of the program before, it shows
// what has changed since. Otherwise it lists all permissions.
func (p *Program) TrustQuestion() (tool.Request, error) {
	list, err := p.TrustStore().Differences(p.Content)
	if err != nil {
		return tool.Request{}, err
	}
	permissions := p.TrustRequest().Permissions()
	slices.SortStableFunc(permissions, func(a, b trust.Permission) int { return int(b.Risk) - int(a.Risk) })
	var warnings, details []string
	for _, one := range permissions {
		text := one.What + " (" + one.From + ")"
		switch {
		case one.Risk > trust.Usual:
			warnings = append(warnings, text)
		case len(list) == 0:
			details = append(details, text)
		}
	}
	if len(permissions) == 0 {
		details = append(details, "it permits nothing except reading its own directory")
	}
	for _, limit := range p.Project.Ceiling.NetworkLimits(p.Project.ModelServer.URL) {
		details = append(details, "whatever it asks for, "+limit)
	}
	return tool.NewCommandRequest("trust", "trust the program in "+p.root+" as it is now", warnings, details, instruction.Changes(list), map[string]string{"content": p.Content.Hash, "program": p.root})
}

// Trust records that the user trusts the program's content.
func (p *Program) Trust() error { return p.TrustStore().Add(p.Content) }

// recordTrust writes to the journal that the user trusts the content of the program in a directory
// only for this command, by its hash.
func recordTrust(kept trust.Decisions, content trust.Content, dir string, j tool.Journal) error {
	if kept.Accepted == "" || kept.Accepted != content.Hash {
		return nil
	}
	kept.Accepted = ""
	if trusted, err := kept.IsTrusted(content); trusted || err != nil {
		return err
	}
	return j.Write(audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Tool: audit.TrustTool, Args: map[string]any{"content": content.Hash, "program": dir},
		Decision: "yes", By: "--trust", Seen: "unseen"}, audit.Written)
}
