package program

import (
	"github.com/golem-forge/golem/internal/trust"
	"github.com/golem-forge/golem/sandbox"
)

// TrustStore returns the store of the program's content that the user trusts.
func (p *Program) TrustStore() trust.Store {
	return trust.Store{State: p.state, Root: p.root, Accepted: p.options.Trust, Now: p.options.Now}
}

// TrustRequest returns the content that the user is asked to trust.
func (p *Program) TrustRequest() trust.Request {
	return trust.Request{Root: p.root, Project: p.Project.Asked(), Workers: p.Workers, Entry: p.Entry, Tools: p.toolFiles}
}

// IsTrusted reports whether the user trusts the program's content.
func (p *Program) IsTrusted() (bool, error) { return p.TrustStore().IsTrusted(p.Content) }

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

// Trust records that the user trusts the program's content.
func (p *Program) Trust() error { return p.TrustStore().Add(p.Content) }
