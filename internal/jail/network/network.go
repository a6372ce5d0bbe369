// Package network decides what the commands of a session reach: the list of the
// configuration, the hosts of presets, credentials, and questions about other hosts. It
// opens the networks (egress) for it and writes their connections to the journal.
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/project"
)

// Options are what the networks of a gate share.
type Options struct {
	Project *project.Project
	Environ []string // the user's environment, NAME=value
	// HostEnviron returns the environment of programs outside the jail: without directories
	// in PATH that workers can write to.
	HostEnviron func() []string
	Journal     tool.Journal
	Approver    *approval.Approver                // answers questions about hosts
	Secret      func(name string) (string, error) // returns a secret of the user, or keyring.ErrNotFound
	Presets     func(ctx context.Context, names []string) []Preset
	Session     string // the session of the commands, "" for none
	Process     string // the id of this process, which begins the ids of connections
	Now         func() time.Time
	// MayBePrivate reports whether golem's own requests may reach a host, with its port, at a
	// private address. nil is for a program that the user trusts: it may name any.
	MayBePrivate func(host string) bool
	// Meter, if set, is that of egress.Options.
	Meter func(*http.Request, egress.Metered) (egress.Measure, *http.Response)
}

// Networks are the networks of a gate whose commands reach only some hosts.
type Networks struct {
	Options
	secrets credentials

	mu      sync.Mutex
	opened  int
	waiting []WaitingHost
	stopped bool                     // the user wants no more questions
	asking  map[*tool.Request]func() // ends the questions that wait, each by its request
	presets map[string]Preset        // whose clients were asked
}

// New returns the networks of a gate.
func New(o Options) *Networks {
	return &Networks{Options: o, secrets: credentials{project: o.Project, environ: o.Environ, hostEnviron: o.HostEnviron, secret: o.Secret, now: o.Now}, asking: make(map[*tool.Request]func())}
}

// Egress returns the network of commands that reach only some hosts. It is nil if they
// reach all hosts. If they reach none, golem only answers their questions about names, so
// that it knows them. Workers are those that the commands belong to. Source returns
// the untrusted path that the commands may have read, "" for none.
func (n *Networks) Egress(hosts policy.Hosts, workers []string, source func() string) *jail.Egress {
	if hosts.IsAll() {
		return nil
	}
	missed := new(counts)
	var ports []uint16
	for _, r := range hosts.Rules() {
		ports = append(ports, r.Ports...)
	}
	authority, err := egress.NewAuthority(hosts, n.Now)
	open := func(program func(net.Conn) string) (jail.Server, error) {
		if err != nil {
			return nil, err
		}
		credentials, err := n.secrets.find(hosts)
		if err != nil {
			return nil, err
		}
		log := &connectionLog{journal: n.Journal, workers: workers, prefix: n.newName()}
		return egress.New(egress.Options{Hosts: hosts, AllowPrivate: n.Project.AllowPrivate, Private: n.Project.Private, Proxy: environmentProxy, Record: log.record, Missed: missed.add, Now: n.Now, Authority: authority, Credentials: credentials, Program: program,
			Optional: n.Project.Optional, Denied: n.deny, Tainted: func() bool { return source() != "" }, ListedOnly: !n.Project.AskHosts || hosts.IsEmpty(),
			Ask:   func(ctx context.Context, q egress.Question) egress.Answer { return n.askHost(ctx, workers, q, source) },
			Meter: n.Meter})
	}
	e := &jail.Egress{Ports: slices.Compact(slices.Sorted(slices.Values(ports))), Open: open, Host: hostPorts(hosts),
		NamesOnly: hosts.IsEmpty(), Count: missed.begin, Suggest: n.suggest,
		Environment: func(env []string) []string { return n.secrets.hide(hosts, env) }}
	if pem := authority.PEM(); pem != nil {
		e.Certificates = append(systemCertificates(n.Environ), pem...)
		e.Authority = jail.File{Name: egress.AuthorityFile, Data: pem}
		e.JavaStore = sync.OnceValue(func() []byte { return javaStore(e.Certificates) })
	}
	return e
}

// deny returns the error for a host that a policy forbids, nil if none does. Workers and
// commands get the error, so it has no path of the host: golem explain names the policy.
func (n *Networks) deny(host string, port uint16) error {
	if _, denied := n.Project.Ceiling.DeniedHost(host, port); denied {
		return fmt.Errorf("%s is not allowed: a policy of this machine or user lists the hosts that may be reached", net.JoinHostPort(host, strconv.Itoa(int(port))))
	}
	return nil
}

// denyUnlisted is deny for a host that is not on a list, which is within the policy.
func (n *Networks) denyUnlisted(list policy.Hosts, host string, port uint16) error {
	if list.IsAll() || len(list.Find(host, port)) > 0 {
		return nil
	}
	return n.deny(host, port)
}

// hostPorts returns the ports of 127.0.0.1 that a list names. They are ports of the host.
func hostPorts(hosts policy.Hosts) []uint16 {
	var ports []uint16
	for _, r := range hosts.Rules() {
		if r.Host == "127.0.0.1" {
			ports = append(ports, r.Ports...)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(ports)))
}

// systemCertificates returns the certificates of the authorities that the user's programs
// trust, in PEM.
func systemCertificates(environment []string) []byte {
	var all []byte
	for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"} {
		if file, ok := project.LookupEnv(environment, name); ok && file != "" {
			if data, err := os.ReadFile(file); err == nil && len(data) < maxCertificates/2 {
				all = append(append(all, data...), '\n')
			}
		}
	}
	for _, file := range jail.SystemCertificates() {
		if data, err := os.ReadFile(file); err == nil && len(data)+len(all) < maxCertificates {
			return append(append(all, data...), '\n')
		}
	}
	return all
}

// maxCertificates is the most bytes of certificates that commands get.
const maxCertificates = 700 << 10

// A WaitingHost is a host that a command asked for, and that nobody has decided about. A
// limit that a command has reached has no host.
type WaitingHost struct {
	Host, Request string
	Listed        bool   // the list has it, but the session is tainted
	Raise         string // by how much an approval raises the limit
}

// Waiting returns the hosts that commands asked for in vain, and that golem approve can
// allow.
func (n *Networks) Waiting() []WaitingHost {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.waiting)
}

// askHost asks whether commands of workers may connect to a host. The mode approve_all
// does not answer for a host that is not on the list: it would open the network. The
// answer is in the journal before it counts.
func (n *Networks) askHost(ctx context.Context, workers []string, q egress.Question, source func() string) egress.Answer {
	if approval.Mode(n.Project.Approval) == approval.ApproveAll && !q.Listed {
		return egress.No
	}
	r, err := tool.NewConnectRequest(workers, q.Host, q.Ports, n.describe(q.Program), source())
	if err != nil {
		return egress.Later
	}
	return n.ask(ctx, r, WaitingHost{Host: q.Host, Listed: q.Listed})
}

// AskRaise asks whether an agent may go beyond a limit. The mode approve_all does not answer:
// it would end the limit.
func (n *Networks) AskRaise(ctx context.Context, key, limit, more string) egress.Answer {
	if approval.Mode(n.Project.Approval) == approval.ApproveAll {
		return egress.Later
	}
	who := "the agent"
	if n.Session != "" {
		who += " in session " + n.Session
	}
	r, err := tool.NewCommandRequest("budget", "let "+who+" use "+more+" more than its limit of "+limit+" ("+key+")", nil, nil, nil, map[string]string{"key": key, "limit": limit, "more": more, "session": n.Session})
	if err != nil {
		return egress.Later
	}
	return n.ask(ctx, r, WaitingHost{Raise: more})
}

// ask asks the user. The answer is in the journal before it counts. Without one, the request
// is among those that wait.
func (n *Networks) ask(ctx context.Context, r tool.Request, waiting WaitingHost) egress.Answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	approver := n.begin(&r, cancel)
	a := approver.Approve(ctx, r)
	n.mu.Lock()
	delete(n.asking, &r)
	n.mu.Unlock()
	if a.Stop {
		n.stop()
	}
	if a.Verdict == tool.Undecided {
		n.mu.Lock()
		defer n.mu.Unlock()
		if waiting.Request = a.ID; a.ID != "" && !slices.Contains(n.waiting, waiting) {
			n.waiting = append(n.waiting, waiting)
		}
		return egress.Later
	}
	record := audit.Record{Kind: audit.Answer, Origin: r.Origin.String(), Workers: r.Workers, Tool: r.Tool, Effects: visible.Each(r.Effects, policy.Effect.String),
		Decision: "no", By: a.By, Seen: a.Seen.String(), Front: a.Front, Shown: a.Shown, Text: a.Text, Digest: r.Digest, Request: a.ID, Note: a.Note}
	if a.Approves(r) {
		record.Decision = "yes"
	}
	if err := n.Journal.Write(record, audit.Durable); err != nil {
		return egress.Later
	}
	switch {
	case a.Keep != nil && a.Keep() != nil:
		return egress.Later
	case a.Approves(r):
		return egress.Once // a rule answers the next question
	case a.Unattended:
		return egress.Later
	}
	return egress.No
}

// describe names a program and its session.
func (n *Networks) describe(program string) string {
	if program == "" || n.Session == "" {
		return program
	}
	return program + " in session " + n.Session
}

// begin returns who answers a question: nobody here, once the user wants no more. Until the
// question is answered, stop can end it.
func (n *Networks) begin(r *tool.Request, end func()) *approval.Approver {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return n.Approver.WithAsker(nil)
	}
	n.asking[r] = end
	return n.Approver
}

// stop ends all questions, also those that wait for their turn: other hosts wait for golem
// approve.
func (n *Networks) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = true
	for _, end := range n.asking {
		end()
	}
}

// environmentProxy returns the user's own proxy for a URL, nil for none.
func environmentProxy(u *url.URL) (*url.URL, error) {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err != nil { // the error contains the address, and a password in it
		return nil, errors.New("the proxy address in the environment is invalid")
	}
	return proxy, nil
}

// newName returns a name for one more network of this process. It begins the ids of
// its connections in the journal.
func (n *Networks) newName() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opened++
	return fmt.Sprintf("%s-%d", n.Process, n.opened)
}
