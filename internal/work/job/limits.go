package job

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// Limits are what jobs may use of the machine that does them. Their submitters trust their
// programs. The operator of the machine does not, so a job reaches only public hosts, and reads
// only its own files, except for what the operator names.
type Limits struct {
	// Hosts may have a private address, or be a server with repositories.
	Hosts policy.Hosts
	// Paths are files and sockets outside the program.
	Paths []string
	// Names are those of environment variables, secrets and credentials.
	Names []string
}

// ParseReach adds what a text names: a host with or without a port, an absolute path, or all
// for every host.
func (l *Limits) ParseReach(text string) error {
	switch {
	case text == "all":
		l.Hosts = policy.AllHosts()
	case filepath.IsAbs(text):
		l.Paths = append(l.Paths, filepath.Clean(text))
	default:
		r, err := policy.ParseHost(text)
		if err != nil {
			return fmt.Errorf("%w; an absolute path is a file or a socket, and all is every host", err)
		}
		if !l.Hosts.IsAll() {
			l.Hosts = policy.HostsOfRules(append(l.Hosts.Rules(), r)...)
		}
	}
	return nil
}

// MayReach reports whether the operator named a host of a URL, which has no port if it is that
// of the scheme.
func (l *Limits) MayReach(host string) bool {
	name, text, err := net.SplitHostPort(host)
	if err != nil {
		name, text = strings.Trim(host, "[]"), "443"
		if len(l.Hosts.Find(name, 80)) > 0 {
			text = "80"
		}
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && (l.Hosts.IsAll() || len(l.Hosts.Find(name, uint16(port))) > 0)
}

// mayReach reports whether the operator named all hosts and ports of a rule.
func (l *Limits) mayReach(r policy.HostRule) bool {
	return l.Hosts.IsAll() || !slices.ContainsFunc(r.Ports, func(port uint16) bool { return len(l.Hosts.Find(r.Host, port)) == 0 })
}

// check returns an error if the program of a job needs more of this machine.
func (l *Limits) check(p *program.Program) error {
	for _, check := range []func(*program.Program) error{l.checkNetwork, l.checkServices, l.checkTargets, l.checkFiles} {
		if err := check(p); err != nil {
			return err
		}
	}
	return nil
}

// refuse says what a job may not use, and which flag of the node allows it.
func (l *Limits) refuse(what, flag string) error {
	return &sandbox.Error{Op: "job", Code: "blocked", Hint: what + "; this machine does not let jobs use it: golem node " + flag + " does"}
}

func (l *Limits) checkNetwork(p *program.Program) error {
	network := p.Project
	if network.Network.IsAll() && !l.Hosts.IsAll() {
		return l.refuse("network: on reaches every host, also those in the network of the node", "--reach all")
	}
	for _, r := range slices.Concat(network.Network.Rules(), network.Fetch.Rules()) {
		_, err := netip.ParseAddr(r.Host)
		if (err == nil || network.AllowPrivate) && !l.mayReach(r) {
			at := net.JoinHostPort(r.Host, strconv.Itoa(int(r.Ports[0])))
			return l.refuse("the network of the program has "+sandbox.Shown(at)+", which may be in the network of the node", "--reach "+sandbox.Shown(at))
		}
		if c, ok := network.Credential(r.Credential); ok && len(c.Command) > 0 && !slices.Contains(l.Names, c.Name) {
			return l.refuse("the credential "+sandbox.Shown(c.Name)+" comes from a program of the node's user", "--pass "+sandbox.Shown(c.Name))
		}
	}
	if network.AllowPrivate && network.AskHosts && !l.Hosts.IsAll() {
		return l.refuse("network.allow_private with network.ask reaches every host, also those in the network of the node", "--reach all")
	}
	return nil
}

// checkServices checks the addresses that golem itself sends results to. Names are checked when
// they are resolved.
func (l *Limits) checkServices(p *program.Program) error {
	for _, e := range p.Project.Endpoints {
		u, err := url.Parse(e.URL)
		if err != nil {
			return err
		}
		if _, err := netip.ParseAddr(u.Hostname()); (err == nil || u.Hostname() == "localhost") && !l.MayReach(withPort(u)) {
			return l.refuse("the endpoint "+sandbox.Shown(e.Name)+" is at "+sandbox.Shown(u.Host)+", which may be in the network of the node", "--reach "+sandbox.Shown(withPort(u)))
		}
	}
	return nil
}

// withPort returns the host of a URL with its port.
func withPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "ssh": "22"}[u.Scheme]
	}
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// checkTargets checks the repositories that results are pushed to. git itself connects to them,
// so the operator must name their hosts.
func (l *Limits) checkTargets(p *program.Program) error {
	for _, t := range p.Targets().List() {
		about := "the target " + sandbox.Shown(t.Name)
		if t.Hooks {
			return &sandbox.Error{Op: "job", Code: "blocked", Hint: about + " runs hooks outside the jail; a job cannot have hooks: run"}
		}
		if dir := t.Dir(); dir != "" { // a job that could write there could lead git elsewhere by a symlink
			if !slices.Contains(l.Paths, filepath.Clean(dir)) {
				return l.refuse(about+" is the directory "+sandbox.Shown(dir), "--reach "+sandbox.Shown(dir))
			}
			continue
		}
		host := t.Address()
		if !l.MayReach(host) {
			return l.refuse(about+" is at "+sandbox.Shown(host)+", and git connects there outside the jail", "--reach "+sandbox.Shown(host))
		}
	}
	return nil
}

// checkFiles checks the files and sockets that golem opens outside the mounts.
func (l *Limits) checkFiles(p *program.Program) error {
	names := []sandbox.Host{}
	if socket := p.Project.Engines.Clamd; socket != "" {
		names = append(names, socket)
	}
	names = append(names, p.Project.Engines.Yara...)
	for _, name := range p.Project.Etc {
		names = append(names, sandbox.Host(filepath.Join("/etc", name)))
	}
	for _, name := range names {
		if !l.mayRead(p, string(name)) {
			return l.refuse("the program names "+sandbox.Shown(string(name))+", which is outside it", "--reach "+sandbox.Shown(string(name)))
		}
	}
	return nil
}

// mayRead reports whether the operator named a path, or it is a file of the program that no
// worker can replace.
func (l *Limits) mayRead(p *program.Program, name string) bool {
	if slices.Contains(l.Paths, filepath.Clean(name)) {
		return true
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil || !isInside(realPath(string(p.Root())), real) {
		return false
	}
	return !slices.ContainsFunc(p.Project.Mounts, func(m project.Mount) bool {
		return m.Mode == sandbox.ReadWrite.String() && isInside(m.RealHostDir(), real)
	})
}

// isInside reports whether a path is a directory or below it.
func isInside(dir, name string) bool {
	rel, err := filepath.Rel(dir, name)
	return err == nil && filepath.IsLocal(rel)
}
