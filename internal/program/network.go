package program

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/egress"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/tool"
)

// hostNetworks are the networks of a gate whose commands reach only some hosts.
type hostNetworks struct {
	project *project.Project
	environ []string
	secrets *hostCredentials
	now     func() time.Time
	journal tool.Journal
	desk    *approval.Approver
	process string // the id of this process, which begins the ids of connections

	mu      sync.Mutex
	opened  int
	waiting []WaitingHost
}

// egress returns the network of commands that reach only some hosts. It is nil if they
// reach all hosts or none. Workers are those that the commands belong to. Source returns
// the untrusted path that the commands may have read, "" for none.
func (n *hostNetworks) egress(hosts policy.Hosts, workers []string, source func() string) *jail.Egress {
	if hosts.IsAll() || hosts.IsEmpty() {
		return nil
	}
	var ports []uint16
	for _, r := range hosts.Rules() {
		ports = append(ports, r.Ports...)
	}
	authority, err := egress.NewAuthority(hosts, n.now)
	open := func(program func(net.Conn) string) (jail.Server, error) {
		if err != nil {
			return nil, err
		}
		credentials, err := n.secrets.find(hosts)
		if err != nil {
			return nil, err
		}
		log := &connectionLog{journal: n.journal, workers: workers, prefix: n.newName()}
		return egress.New(egress.Options{Hosts: hosts, AllowPrivate: n.project.AllowPrivate, Proxy: environmentProxy, Record: log.record, Now: n.now, Authority: authority, Credentials: credentials, Program: program,
			Tainted: func() bool { return source() != "" }, ListedOnly: !n.project.AskHosts,
			Ask: func(ctx context.Context, q egress.Question) egress.Answer { return n.askHost(ctx, workers, q, source) }})
	}
	e := &jail.Egress{Ports: slices.Compact(slices.Sorted(slices.Values(ports))), Open: open,
		Environment: func(env []string) []string { return n.secrets.hide(hosts, env) }}
	if pem := authority.PEM(); pem != nil {
		e.Certificates = append(systemCertificates(n.environ), pem...)
	}
	return e
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

// A WaitingHost is a host that a command asked for, and that nobody has decided about.
type WaitingHost struct {
	Host, Request string
	Listed        bool // the list has it, but the session is tainted
}

// askHost asks whether commands of workers may connect to a host. The mode approve_all
// does not answer for a host that is not on the list: it would open the network. The
// answer is in the journal before it counts.
func (n *hostNetworks) askHost(ctx context.Context, workers []string, q egress.Question, source func() string) egress.Answer {
	if approval.Mode(n.project.Approval) == approval.ApproveAll && !q.Listed {
		return egress.No
	}
	r, err := tool.NewConnectRequest(workers, q.Host, q.Ports, q.Program, source())
	if err != nil {
		return egress.Later
	}
	a := n.desk.Approve(ctx, r)
	if a.Verdict == tool.Undecided {
		n.mu.Lock()
		defer n.mu.Unlock()
		if w := (WaitingHost{q.Host, a.ID, q.Listed}); a.ID != "" && !slices.Contains(n.waiting, w) {
			n.waiting = append(n.waiting, w)
		}
		return egress.Later
	}
	record := audit.Record{Kind: audit.Answer, Origin: r.Origin.String(), Workers: workers, Tool: r.Tool, Effects: []string{r.Effects[0].String()},
		Decision: "no", By: a.By, Seen: a.SeenText(), Front: a.Front, Shown: a.Shown, Digest: r.Digest, Request: a.ID, Note: a.Note}
	if a.Verdict == tool.Approved {
		record.Decision = "yes"
	}
	if err := n.journal.Write(record, audit.Durable); err != nil {
		return egress.Later
	}
	switch {
	case a.Verdict == tool.Approved && a.Keep != nil && a.Keep() != nil:
		return egress.Later
	case a.Verdict == tool.Approved:
		return egress.Once // a rule answers the next question
	case a.Unattended:
		return egress.Later
	}
	return egress.No
}

// environmentProxy returns the user's own proxy for a URL, nil for none.
func environmentProxy(u *url.URL) (*url.URL, error) {
	return http.ProxyFromEnvironment(&http.Request{URL: u})
}

// newName returns a name for one more network of this process. It begins the ids of
// its connections in the journal.
func (n *hostNetworks) newName() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opened++
	return fmt.Sprintf("%s-%d", n.process, n.opened)
}

// A connectionLog writes the connections of a network to the journal.
type connectionLog struct {
	journal tool.Journal
	workers []string
	prefix  string

	mu   sync.Mutex
	open map[uint64]bool // connections with an intent in the journal
}

// record writes a step of a connection. If it fails, golem must not take the step.
func (l *connectionLog) record(r egress.Record) error {
	c := audit.Connection{Call: fmt.Sprintf("%s-%d", l.prefix, r.ID), Workers: l.workers, Program: r.Program, Host: r.Host, Port: r.Port,
		Decision: policy.PreApproved.String(), By: r.Decision, Sent: r.Sent, Received: r.Received, Took: r.Duration, Note: r.Why}
	if strings.HasPrefix(r.Decision, "allowed ") { // by a person or a remembered rule
		c.Decision = "yes"
	}
	if r.Request != "" {
		c.Note = r.Request + ": " + r.Why
	}
	switch r.Step {
	case egress.Opened:
		l.begin(r.ID)
		return l.journal.Write(c.Intent(), audit.Written)
	case egress.Closed:
		l.end(r.ID)
		return l.journal.Write(c.Outcome(), audit.Written)
	case egress.Noticed:
		c.Code = "notice"
	default:
		c.Code, c.Decision, c.By = "refused", policy.Blocked.String(), ""
		if r.Step == egress.Refused && l.end(r.ID) {
			return l.journal.Write(c.Outcome(), audit.Written)
		}
	}
	return l.journal.Write(c.Refusal(), audit.Written)
}

// begin records that a connection has an intent.
func (l *connectionLog) begin(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = make(map[uint64]bool)
	}
	l.open[id] = true
}

// end reports whether a connection had an intent, and forgets it.
func (l *connectionLog) end(id uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	had := l.open[id]
	delete(l.open, id)
	return had
}
