package inbox

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
)

// A ProgramSession is a session with the program that it belongs to.
type ProgramSession struct {
	*session.Session
	Program *program.Program
}

// maxWhat is how many characters of a command or an input What returns.
const maxWhat = 30

// What returns the program that started a session, or the input of its first run.
func (s ProgramSession) What() string {
	if s.Command != "" {
		return visible.Line(filepath.Base(s.Command), maxWhat)
	}
	return visible.Line(s.Program.Storage.Runs().FirstInput(s.Session), maxWhat)
}

// ProgramSessions returns the sessions of a program.
func ProgramSessions(p *program.Program) (all []ProgramSession, err error) {
	list, err := p.Storage.Sessions.List()
	for _, s := range list {
		all = append(all, ProgramSession{s, p})
	}
	return all, err
}

// BareSessions returns the sessions that golem exec started without a program in the
// directory of the options. If that directory is above dir, it returns only those that
// show dir.
func BareSessions(o program.Options, dir string) ([]ProgramSession, error) {
	none, err := program.LoadMounts(o, nil)
	if err != nil {
		return nil, err
	}
	list, err := none.Storage.Sessions.List()
	if err != nil {
		return nil, err
	}
	var all []ProgramSession
	programs := make(map[string]*program.Program) // by mounts
	for _, s := range list {
		shows := func(d session.Mount) bool { return IsBelow(realSource(d.Source), dir) }
		if len(s.Mounts) == 0 || o.Dir != dir && !slices.ContainsFunc(s.Mounts, shows) {
			continue
		}
		key := fmt.Sprintf("%q", s.Mounts)
		if programs[key] == nil {
			p, err := program.LoadMounts(o, s.Mounts)
			if err != nil { // a directory is gone or may not be mounted any more, but the session can still be listed and removed
				p = none
			}
			programs[key] = p
		}
		all = append(all, ProgramSession{s, programs[key]})
	}
	return all, nil
}

// bareProgram returns the state of golem exec without a program in a directory, nil if there is none. A call
// can wait in it after its sessions are gone.
func bareProgram(o program.Options, dir string) *program.Program {
	o.Dir = dir
	p, err := program.LoadMounts(o, nil)
	if err != nil || !p.Storage.Exists() {
		return nil
	}
	return p
}

// realSource resolves the symlinks in a path except in its last part.
func realSource(dir string) string {
	parent, base := filepath.Split(filepath.Clean(dir))
	if real, err := filepath.EvalSymlinks(parent); err == nil {
		return filepath.Join(real, base)
	}
	return dir
}

// IsBelow reports whether dir is top or below it.
func IsBelow(top, dir string) bool {
	below, err := filepath.Rel(top, dir)
	return err == nil && filepath.IsLocal(below)
}

// sessionsIn returns the sessions of a directory, without those of directories above it,
// and the program in it. The program is nil if there is none.
func sessionsIn(o program.Options, dir string) (all []ProgramSession, p *program.Program, err error) {
	o.Dir = dir
	if p, err = program.Load(o); err != nil && (p == nil || p.Project == nil || !program.IsOnlyExcess(err)) {
		return nil, nil, err
	}
	if p.Content.Hash == "" || string(p.Root()) != dir {
		p = nil
	} else if all, err = ProgramSessions(p); err != nil {
		return nil, nil, err
	}
	bare, err := BareSessions(o, dir)
	return append(all, bare...), p, err
}

// firstLine returns the first line of an error.
func firstLine(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return visible.Line(first, maxProblem)
}

// maxProblem is how many characters of a problem are shown.
const maxProblem = 200

// A PublishedPort is a port of this machine that leads to a server in the jail, in the form
// of golem ports --json.
type PublishedPort struct {
	Session string `json:"session"`
	Name    string `json:"name,omitempty"` // of the session
	What    string `json:"what,omitempty"` // the program or the input that started the session
	Host    uint16 `json:"host"`
	Inside  uint16 `json:"inside"`
}

// Port returns the port as package jail knows it.
func (p PublishedPort) Port() jail.Port { return jail.Port{Host: p.Host, Inside: p.Inside} }

// PublishedPorts returns the ports that are published now for some sessions.
func PublishedPorts(all []ProgramSession) []PublishedPort {
	list := []PublishedPort{}
	for _, s := range all {
		ports, _ := s.Ports()
		for _, p := range ports {
			list = append(list, PublishedPort{s.ID, s.Name, s.What(), p.Host, p.Inside})
		}
	}
	return list
}

// Holder returns the golem that works on the session now. ok is false if there is none.
func (s ProgramSession) Holder() (h changes.Holder, ok bool) {
	if h, ok = s.Program.Storage.Sessions.Holder(s.Session); ok {
		h.Command = cmp.Or(visible.Line(filepath.Base(cmp.Or(h.Command, s.Command, "golem")), maxWhat), "golem")
	}
	return h, ok
}
