package explain

import (
	"cmp"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// A Past is what the journal says about a session: the calls that happened, and what they used.
// Add adds the records in order.
type Past struct {
	calls       []audit.Record          // intents of calls, without connections
	outcomes    map[string]audit.Record // by call
	connections audit.Connections
	suspect     bool // golem refused something, asked, or the session read untrusted content
}

// untrustedRead begins the reason of a decision about a worker that has read untrusted content.
const untrustedRead = "untrusted: "

// Add adds the next record of the session.
func (p *Past) Add(r audit.Record) {
	p.connections.Add(r)
	isConnection := r.Tool == audit.ConnectTool
	if strings.HasPrefix(r.By, untrustedRead) || r.Kind == audit.Refusal && r.Code != noticeCode || isConnection && (r.Decision == "yes" || r.Kind == audit.Answer) {
		p.suspect = true
	}
	switch {
	case r.Kind == audit.Intent && !isConnection:
		p.calls = append(p.calls, r)
	case r.Kind == audit.Outcome && !isConnection:
		if p.outcomes == nil {
			p.outcomes = make(map[string]audit.Record)
		}
		p.outcomes[r.Call] = r
	}
	if tainted, _ := r.Args["tainted"].(bool); tainted {
		p.suspect = true
	}
}

// changed returns the paths that the session changed, in the files that workers see. known is false
// if the journal does not have all of them.
func (p *Past) changed() (paths []string, known bool) {
	known = true
	for _, r := range p.calls {
		end, ended := p.outcomes[r.Call]
		if r.Tool == "apply_changes" || r.Tool == "undo" { // of the user, outside the session
			continue
		}
		known = known && (ended || r.Command() == "")
		if end.Files != nil {
			known = known && end.Files.More == 0 && end.Files.Unlisted == ""
			for _, f := range end.Files.List {
				paths = append(paths, f.Path)
			}
		}
		for _, e := range r.Effects {
			verb, target, _ := strings.Cut(e, " ")
			if known = known && !strings.HasPrefix(e, "⟨"); (verb == policy.Write.String() || verb == policy.Delete.String()) && end.Code == "" {
				paths = append(paths, strings.TrimSuffix(target, "/**"))
			}
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	known = known && !slices.ContainsFunc(paths, func(name string) bool { return !strings.HasPrefix(name, "/") || strings.ContainsAny(name, "⟨…") })
	return paths, known
}

// noticeCode is the code of a record about a request that passed.
const noticeCode = "notice"

// listed begins what allowed a connection, if that was a list of hosts and nobody was asked.
const listed = "list: "

// A SkippedHost is a host of a session that golem does not propose to allow.
type SkippedHost struct {
	Host  string `json:"host"` // with a port, and for a request with its method and path
	Why   string `json:"why"`
	Times int    `json:"times"`
}

// skip returns why golem does not propose what a connection used, "" if it does. own is true for a
// connection of golem itself.
func skip(c audit.Connection) (why string, own bool) {
	switch {
	case c.Code == noticeCode:
		return "", true
	case c.Decision == policy.Blocked.String() || c.Decision == "no" || c.Decision == "":
		return "golem refused it", false
	case c.Decision != policy.PreApproved.String():
		return "golem asked about it", false
	case !strings.HasPrefix(c.By, listed):
		return "", true
	case c.Tainted == nil:
		return "an older golem recorded it, without whether the session had read untrusted content", false
	case *c.Tainted:
		return "the session had read untrusted content", false
	case !c.Ended:
		return "the journal does not have its end", false
	case c.Code != "" || c.Read && len(c.Requests) == 0 || !c.Read && c.Received == 0:
		return "it failed", false
	}
	return "", false
}

// A use is a connection that a session made, or a request on it.
type use struct {
	worker string
	host   string
	port   uint16
	read   bool   // golem read the request
	method string // "" if golem did not read it, or if no rule can limit it
	path   string
	odd    bool // golem writes no such record
}

// text returns the use for a person.
func (u use) text() string {
	at := net.JoinHostPort(u.host, strconv.Itoa(int(u.port)))
	if u.method == "" && u.path == "" {
		return "connect " + sandbox.Shown(at)
	}
	return sandbox.Shown(cmp.Or(u.method, "*") + " " + at + cmp.Or(u.path, "/**"))
}

// uses returns what a connection used.
func uses(c audit.Connection) (list []use) {
	worker := ""
	if len(c.Workers) > 0 {
		worker = c.Workers[len(c.Workers)-1]
	}
	u := use{worker: worker, host: c.Host, port: c.Port, read: c.Read}
	if !c.Read {
		return []use{u}
	}
	for _, text := range c.Requests {
		u.method, u.path, _ = strings.Cut(text, " ")
		u.odd = u.method == "" || u.path == ""
		if u.method == "*" {
			u.method = ""
		}
		// The journal removed a part that looks like a secret, or a rule would read a star as any text.
		if strings.ContainsAny(u.path, "⟨*") {
			u.path = ""
		}
		list = append(list, u)
	}
	return list
}

// isValid reports whether a rule can allow exactly the use.
func (u use) isValid() bool {
	isControl := strings.ContainsFunc(u.host+u.method+u.path, func(r rune) bool { return r < ' ' || r == 0x7f })
	return !isControl && !u.odd && u.port > 0 && !strings.Contains(u.host, "*") && u.narrow(policy.HostRule{}).Validate() == nil
}

// isAllowed reports whether a set of hosts allows a use.
func (u use) isAllowed(hosts policy.Hosts) bool {
	_, ok := u.rule(hosts)
	return ok
}

// gitFetch is the type of the request with which git fetches. A rule for reads lets no other POST pass.
const gitFetch = "application/x-git-upload-pack-request"

// rule returns the rule of a set of hosts that allows the use.
func (u use) rule(hosts policy.Hosts) (policy.HostRule, bool) {
	for _, r := range hosts.Find(u.host, u.port) {
		q := policy.Request{Method: u.method, Path: u.path}
		if strings.HasSuffix(u.path, "/git-upload-pack") {
			q.Type = gitFetch
		}
		limits := u.method == "" && (len(r.Methods) > 0 || r.GitRead) || u.path == "" && len(r.Paths) > 0
		if limits || !u.read && r.NeedsRequests() {
			continue
		}
		if q.Path == "" {
			q.Path = "/"
		}
		if q.Method == "" {
			q.Method = "GET"
		}
		if r.AllowsRequest(q) {
			return r, true
		}
	}
	return policy.HostRule{}, false
}

// A Proposal is a smaller policy that allows what happened in a session.
type Proposal struct {
	Hosts   []policy.HostRule
	Beyond  []policy.HostRule // those of Hosts that the project does not allow today
	Skipped []SkippedHost     // the hosts of the session that it does not propose
	AnyPath []string          // hosts of which every path stays allowed: no rule can name the path of a request
	// Before and After are how many hosts a command could reach in the session, and with the
	// proposal. Before is -1 for all hosts.
	Before, After int
	// Open is how many commands had the whole network. The journal does not have their hosts.
	Open int
	// Written are the paths that the session changed. If the journal does not have all of them,
	// WrittenKnown is false.
	Written      []string
	WrittenKnown bool
	Commands     []*CommandRules // for the shell of workers

	past     *Past
	replayed map[int]bool // which connections the proposal must allow
}

// Propose returns the smallest list of hosts that allows what happened. Today is what the project
// allows; golem proposes more only for a session in which it refused nothing, asked about no host
// and noticed no untrusted content.
func (p *Past) Propose(today policy.Hosts) Proposal {
	made := Proposal{past: p}
	made.Written, made.WrittenKnown = p.changed()
	made.Commands = p.commandRules()
	b := make(builder)
	before, after := make(map[string]bool), make(map[string]bool)
	for _, r := range p.calls {
		for _, e := range r.Effects {
			host, ok := strings.CutPrefix(e, policy.Connect.String()+" ")
			if ok && host == "*" {
				made.Open++
			} else if ok {
				before[host] = true
			}
		}
	}
	skipped := make(map[[2]string]int)
	made.replayed = make(map[int]bool)
	for i, c := range p.connections.List {
		why, own := skip(c)
		if own {
			continue
		}
		if why != "" {
			skipped[[2]string{skippedName(c), why}]++
			continue
		}
		made.replayed[i] = true
		for _, u := range uses(c) {
			rule, ok := u.rule(today)
			if !ok || !u.isValid() {
				if rule, why = p.beyond(u, c.By, today); why != "" {
					skipped[[2]string{u.text(), why}]++
					made.replayed[i] = false
					continue
				}
				made.Beyond = append(made.Beyond, u.narrow(rule))
			}
			b.add(u, rule)
			if at := net.JoinHostPort(u.host, strconv.Itoa(int(u.port))); u.read && u.path == "" && len(rule.Paths) == 0 && !slices.Contains(made.AnyPath, at) {
				made.AnyPath = append(made.AnyPath, at)
			}
		}
	}
	made.Hosts = b.rules(today)
	for _, r := range made.Hosts {
		after[r.Host] = true
	}
	made.Beyond = policy.HostsOfRules(made.Beyond...).Rules()
	for key, times := range skipped {
		made.Skipped = append(made.Skipped, SkippedHost{visible.Text(key[0]), key[1], times})
	}
	slices.SortFunc(made.Skipped, func(a, b SkippedHost) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), strings.Compare(a.Why, b.Why))
	})
	if made.Before, made.After = len(before), len(after); made.Open > 0 {
		made.Before = -1
	}
	return made
}

// skippedName returns the host of a connection, and the request if golem refused only that.
func skippedName(c audit.Connection) string {
	at := c.Address()
	if c.Port == 0 {
		at = c.Host
	}
	if request, _, ok := strings.Cut(c.Note, ": "); ok && c.Code == "refused" && strings.Contains(request, " /") {
		return at + " " + request
	}
	return at
}

// beyond returns the rule for a use that the project does not allow today, or why golem does not
// propose it.
func (p *Past) beyond(u use, by string, today policy.Hosts) (policy.HostRule, string) {
	switch {
	case !u.isValid():
		return policy.HostRule{}, "the journal's record of it is not valid"
	case len(today.Find(u.host, u.port)) > 0:
		return policy.HostRule{}, "the project limits this host today"
	case p.suspect:
		return policy.HostRule{}, "the project does not allow it today, and golem refused or asked something in this session, or it read untrusted content"
	case strings.Contains(by, "; credential ") || strings.Contains(by, "(credential "):
		return policy.HostRule{}, "it had a credential that the project file cannot name"
	}
	return policy.HostRule{Host: u.host, Ports: []uint16{u.port}, GitRead: strings.Contains(by, "git read")}, ""
}

// narrow returns a rule that allows only the use, and no more than another rule.
func (u use) narrow(r policy.HostRule) policy.HostRule {
	n := policy.HostRule{Host: u.host, Ports: []uint16{u.port}, Methods: r.Methods, Paths: r.Paths, GitRead: r.GitRead, Credential: r.Credential}
	if u.method != "" {
		n.Methods = []string{u.method}
	}
	if u.path != "" {
		n.Paths = []string{u.path}
	}
	return n
}

// A builder collects rules, and makes few of them. Its keys are rules without methods and paths.
type builder map[string]map[string][]policy.HostRule

// add adds a use that a rule allows.
func (b builder) add(u use, r policy.HostRule) {
	n := u.narrow(r)
	plain := n
	plain.Methods, plain.Paths = nil, nil
	key, methods := plain.String(), strings.Join(n.Methods, ",")
	if b[key] == nil {
		b[key] = make(map[string][]policy.HostRule)
	}
	b[key][methods] = append(b[key][methods], n)
}

// maxPaths is how many paths of one host a proposal lists. More become patterns.
const maxPaths = 16

// rules returns the rules. Those of one host with the same paths become one, and so do those with
// the same methods.
func (b builder) rules(today policy.Hosts) []policy.HostRule {
	var list []policy.HostRule
	for _, byMethods := range b {
		if i := slices.IndexFunc(byMethods[""], func(r policy.HostRule) bool { return len(r.Paths) == 0 }); i >= 0 { // a rule that limits nothing
			list = append(list, byMethods[""][i])
			continue
		}
		byPaths := make(map[string]policy.HostRule)
		for _, same := range byMethods {
			one := same[0]
			one.Paths = nil
			var paths []string
			all := false
			for _, n := range same {
				paths, all = append(paths, n.Paths...), all || len(n.Paths) == 0
			}
			if !all {
				one.Paths = foldPaths(paths, one, today)
			}
			key := strings.Join(one.Paths, "\n")
			if known, ok := byPaths[key]; ok && len(known.Methods) > 0 && len(one.Methods) > 0 {
				one.Methods = slices.Concat(known.Methods, one.Methods)
			} else if ok {
				one.Methods = nil
			}
			byPaths[key] = one
		}
		for _, one := range byPaths {
			list = append(list, one)
		}
	}
	return policy.HostsOfRules(list...).Rules()
}

// foldPaths returns paths as at most maxPaths patterns. If patterns would allow more than a rule of
// today, the paths stay as they are.
func foldPaths(paths []string, r policy.HostRule, today policy.Hosts) []string {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if len(paths) <= maxPaths {
		return paths
	}
	longest := 0
	for _, p := range paths {
		longest = max(longest, strings.Count(p, "/"))
	}
	for depth := longest - 1; depth >= 0; depth-- {
		var folded []string
		for _, p := range paths {
			parts := strings.Split(p, "/")
			if len(parts) > depth+1 {
				p = strings.Join(parts[:depth+1], "/") + "/**"
			}
			folded = append(folded, p)
		}
		slices.Sort(folded)
		if folded = slices.Compact(folded); len(folded) > maxPaths {
			continue
		}
		r.Paths = folded
		if within := (policy.Grant{Hosts: policy.HostsOfRules(r)}).Within(policy.Grant{Hosts: today}); len(today.Find(r.Host, r.Ports[0])) > 0 && len(within) > 0 {
			break
		}
		return folded
	}
	return paths
}

// A Replay is what would happen if a session happened again under another policy.
type Replay struct {
	Calls int      // calls and connections that happened
	Fails []string // those that golem would refuse
}

// Replay decides again about everything that happened in the session and that the proposal does not
// skip. Subject returns what the worker with a name may do then.
func (made Proposal) Replay(subject func(worker string) (Subject, error)) (Replay, error) {
	var again Replay
	known := make(map[string]Subject)
	of := func(worker string) (Subject, error) {
		if s, ok := known[worker]; ok {
			return s, nil
		}
		s, err := subject(worker)
		known[worker] = s
		return s, err
	}
	again.Calls = len(made.past.calls)
	for _, c := range made.Commands {
		again.Fails = append(again.Fails, c.replay()...)
	}
	for _, r := range made.past.calls {
		if failed, err := made.replayFiles(r, of); err != nil || failed != "" {
			again.Fails = append(again.Fails, failed)
			if err != nil {
				return again, err
			}
		}
	}
	for i, c := range made.past.connections.List {
		if !made.replayed[i] {
			continue
		}
		again.Calls++
		for _, u := range uses(c) {
			s, err := of(u.worker)
			if err != nil {
				return again, err
			}
			if !u.isAllowed(s.Grant.Hosts) {
				again.Fails = append(again.Fails, u.text())
				break
			}
		}
	}
	return again, nil
}

// replayFiles decides again about the files that a call changed. It returns the first that golem would
// not let it change, "" for none.
func (made Proposal) replayFiles(r audit.Record, of func(worker string) (Subject, error)) (string, error) {
	one := &Past{calls: []audit.Record{r}, outcomes: made.past.outcomes}
	paths, _ := one.changed()
	worker := ""
	if len(r.Workers) > 0 {
		worker = r.Workers[len(r.Workers)-1]
	}
	s, err := of(worker)
	for _, name := range paths {
		if d := s.Grant.Decide(policy.Effect{Verb: policy.Write, Target: name}); d.Approval == policy.Blocked {
			return "write " + sandbox.Shown(name), err
		}
	}
	return "", err
}

// Places returns where the subject can write: the writable mounts, and the directories in them.
func (s Subject) Places() (list []string, err error) {
	files, err := NewSandbox(s.Mounts, s.Protect)
	if err != nil {
		return nil, err
	}
	protected := files.Protection()
	for _, m := range s.Mounts {
		if m.Access < sandbox.ReadWrite {
			continue
		}
		list = append(list, m.Target)
		entries, err := files.List(m.Target)
		if err != nil && sandbox.CodeOf(err) != sandbox.ErrNotFound {
			return nil, err
		}
		for _, e := range entries {
			if name := path.Join(m.Target, e.Name); e.IsDir() && protected(name) == "" {
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// CountWritable counts the places of a list that files let be written.
func CountWritable(files policy.Files, places []string) (n int) {
	for _, name := range places {
		if files.Access(name) >= sandbox.ReadWrite {
			n++
		}
	}
	return n
}
