package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/audit"
)

// A connected is a connection of a recorded session.
type connected struct {
	host     string
	port     int
	decision string
	by       string
	tainted  any // nil for a record of an older golem
	requests []any
	received int
	code     string
	note     string
	open     bool // without an outcome
}

// pastOf returns a session with connections, as the journal has them.
func pastOf(list ...connected) *Past {
	p := &Past{}
	p.Add(audit.Record{Kind: audit.Intent, Call: "c", Session: "s", Workers: []string{"project"}, Tool: "exec", Args: map[string]any{"command": []any{"x"}},
		Effects: []string{"read /**", "connect a.example", "connect *.b.example", "connect c.example"}, Decision: "preApproved"})
	for i, c := range list {
		args := map[string]any{"host": c.host, "port": float64(c.port)}
		if c.tainted != nil {
			args["tainted"] = c.tainted
		}
		r := audit.Record{Kind: audit.Intent, Call: fmt.Sprint("n", i), Session: "s", Workers: []string{"project"}, Tool: audit.ConnectTool, Args: args, Decision: c.decision, By: c.by, Time: time.Unix(1, 0)}
		if c.decision == "blocked" {
			r.Kind, r.Code, r.Note = audit.Refusal, "refused", c.note
			p.Add(r)
			continue
		}
		if p.Add(r); c.open {
			continue
		}
		end := map[string]any{"host": c.host, "port": float64(c.port), "received": float64(c.received), "sent": 1.0}
		if c.requests != nil {
			end["requests"] = c.requests
		}
		p.Add(audit.Record{Kind: audit.Outcome, Call: r.Call, Session: "s", Tool: audit.ConnectTool, Args: end, Code: c.code, Note: c.note})
	}
	return p
}

// good is a connection that a proposal counts.
func good(host string, port int, requests ...any) connected {
	return connected{host: host, port: port, decision: "preApproved", by: "list: x", tainted: false, received: 10, requests: requests}
}

func patterns(rules []policy.HostRule) (list []string) {
	for _, r := range rules {
		list = append(list, r.String())
	}
	return list
}

// TestPropose checks which hosts, methods and paths a proposal has, also for a session that an
// attacker steered, and that it never allows more than the project then.
func TestPropose(t *testing.T) {
	today := policy.HostsOfRules(policy.HostRule{Host: "a.example"}, policy.HostRule{Host: "*.b.example", Methods: []string{"GET", "POST"}, Paths: []string{"/x/**"}},
		policy.HostRule{Host: "git.example", GitRead: true}, policy.HostRule{Host: "key.example", Credential: "k"})
	bad := func(change func(*connected)) connected {
		c := good("a.example", 443)
		change(&c)
		return c
	}
	var many, spread []any
	for i := range 40 {
		many, spread = append(many, fmt.Sprintf("GET /x/%d", i)), append(spread, fmt.Sprintf("GET /%d", i))
	}
	for name, c := range map[string]struct {
		past    []connected
		want    []string
		skipped []string
		beyond  int
	}{
		"nothing":            {},
		"a host without TLS": {past: []connected{good("a.example", 80, "GET /1", "POST /2", "HEAD /1")}, want: []string{"a.example:80 (GET, HEAD; /1)", "a.example:80 (POST; /2)"}},
		"inside TLS":         {past: []connected{good("a.example", 443), good("a.example", 443, "GET /1")}, want: []string{"a.example:443"}},
		"a pattern":          {past: []connected{good("1.b.example", 443, "GET /x/1")}, want: []string{"1.b.example:443 (GET; /x/1)"}},
		"a pattern, unread":  {past: []connected{good("1.b.example", 443)}, skipped: []string{"connect 1.b.example:443: the project limits this host today"}},
		"beyond its paths":   {past: []connected{good("1.b.example", 443, "GET /y")}, skipped: []string{"GET 1.b.example:443/y: the project limits this host today"}},
		"git":                {past: []connected{good("git.example", 443, "POST /x.git/git-upload-pack")}, want: []string{"git.example:443 (POST; /x.git/git-upload-pack; git read)"}},
		"a credential stays": {past: []connected{good("key.example", 443, "GET /1")}, want: []string{"key.example:443 (GET; /1; credential k)"}},
		"any path":           {past: []connected{good("a.example", 80, "GET *", "GET /1")}, want: []string{"a.example:80 (GET)"}},
		"any method":         {past: []connected{good("a.example", 80, "* /live")}, want: []string{"a.example:80 (/live)"}},
		"a star in a path":   {past: []connected{good("a.example", 80, "GET /**")}, want: []string{"a.example:80 (GET)"}},
		"a removed secret":   {past: []connected{good("a.example", 80, "GET /bot⟨redacted⟩/x")}, want: []string{"a.example:80 (GET)"}},
		"many paths":         {past: []connected{good("1.b.example", 443, many...)}, want: []string{"1.b.example:443 (GET; /x/**)"}},
		"many at the top":    {past: []connected{good("a.example", 80, spread...)}, want: []string{"a.example:80 (GET; /**)"}},
		"more than today":    {past: []connected{good("new.example", 443)}, want: []string{"new.example:443"}, beyond: 1},
		"an agent's key":     {past: []connected{{host: "v.example", port: 443, decision: "preApproved", by: "list: v.example (credential claude:key)", tainted: false, received: 1, requests: []any{"POST /v1"}}}, skipped: []string{"POST v.example:443/v1: it had a credential that the project file cannot name"}},

		"asked":         {past: []connected{bad(func(c *connected) { c.decision, c.by = "yes", "allowed once" })}, skipped: []string{"a.example:443: golem asked about it"}},
		"failed":        {past: []connected{bad(func(c *connected) { c.code = "refused" })}, skipped: []string{"a.example:443: it failed"}},
		"no answer":     {past: []connected{bad(func(c *connected) { c.requests = []any{} })}, skipped: []string{"a.example:443: it failed"}},
		"nothing came":  {past: []connected{bad(func(c *connected) { c.received = 0 })}, skipped: []string{"a.example:443: it failed"}},
		"open":          {past: []connected{bad(func(c *connected) { c.open = true })}, skipped: []string{"a.example:443: the journal does not have its end"}},
		"tainted":       {past: []connected{bad(func(c *connected) { c.tainted = true })}, skipped: []string{"a.example:443: the session had read untrusted content"}},
		"older":         {past: []connected{bad(func(c *connected) { c.tainted = nil })}, skipped: []string{"a.example:443: an older golem recorded it, without whether the session had read untrusted content"}},
		"misread taint": {past: []connected{bad(func(c *connected) { c.tainted = "false" })}, skipped: []string{"a.example:443: an older golem recorded it, without whether the session had read untrusted content"}},
		"golem's own":   {past: []connected{bad(func(c *connected) { c.by = "model_server" })}},
		"refused":       {past: []connected{{host: "evil.example", decision: "blocked", tainted: false}}, skipped: []string{"evil.example: golem refused it"}},
		"a refused request": {past: []connected{good("a.example", 80, "GET /1"), {host: "a.example", port: 80, decision: "blocked", tainted: false, note: "POST /take: not allowed"}},
			want: []string{"a.example:80 (GET; /1)"}, skipped: []string{"a.example:80 POST /take: golem refused it"}},

		"attacked, with more than today": {past: []connected{good("new.example", 443), {host: "evil.example", decision: "blocked", tainted: false}},
			skipped: []string{"connect new.example:443: the project does not allow it today, and golem refused or asked something in this session, or it read untrusted content", "evil.example: golem refused it"}},
		"hostile names": {past: []connected{good("a.example\n  - evil.example", 443), good("*", 443), good("*.com", 443), good("", 443), good("a.example", 0)},
			skipped: []string{"connect \"a.example\\n  - evil.example:443\": the journal's", "connect *.com:443: the journal's", "connect *:443: the journal's", "connect a.example:0: the journal's"}},
		"hostile requests": {past: []connected{good("a.example", 80, "GET /a\"]}\n- x", "}, host: evil", 7.0, "CONNECT /x", "GET /%2e%2e/x")}, want: nil,
			skipped: []string{"\"GET a.example:80/a", "CONNECT a.example:80/x", "GET a.example:80/%2e", "connect a.example:80", "}, a.example:80host"}},
	} {
		past := pastOf(c.past...)
		made := past.Propose(today)
		if got := patterns(made.Hosts); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		anyPath := slices.Contains([]string{"any path", "a star in a path", "a removed secret"}, name)
		if told := slices.Equal(made.AnyPath, []string{"a.example:80"}); told != anyPath || !told && len(made.AnyPath) > 0 {
			t.Errorf("%s: every path of %q, want it said: %v", name, made.AnyPath, anyPath)
		}
		if len(made.Beyond) != c.beyond {
			t.Errorf("%s: got %d hosts beyond the project", name, len(made.Beyond))
		}
		var skipped []string
		for _, s := range made.Skipped {
			skipped = append(skipped, s.Host+": "+s.Why)
		}
		same := len(skipped) == len(c.skipped)
		for i := range min(len(skipped), len(c.skipped)) {
			same = same && strings.HasPrefix(skipped[i], c.skipped[i])
		}
		if !same {
			t.Errorf("%s: skipped %q, want %q", name, skipped, c.skipped)
		}
		hosts := policy.HostsOfRules(made.Hosts...)
		if excess := (policy.Grant{Hosts: hosts}).Within(policy.Grant{Hosts: today}); len(excess) > 0 && c.beyond == 0 {
			t.Errorf("%s: the proposal is beyond the project: %v", name, excess)
		}
		again, err := made.Replay(func(string) (Subject, error) { return Subject{Grant: policy.Grant{Hosts: hosts}}, nil })
		if err != nil || len(again.Fails) > 0 {
			t.Errorf("%s: replay: %q, %v", name, again.Fails, err)
		}
		if again, _ := made.Replay(func(string) (Subject, error) { return Subject{}, nil }); len(c.want) > 0 && len(again.Fails) == 0 {
			t.Errorf("%s: the replay finds no failure without a network", name)
		}
	}
}

// TestProposeCounts checks how many hosts a proposal saves.
func TestProposeCounts(t *testing.T) {
	past := pastOf(good("a.example", 443), good("a.example", 80, "GET /"))
	if made := past.Propose(policy.HostsOf("a.example")); made.Before != 3 || made.After != 1 {
		t.Errorf("got %d and %d hosts", made.Before, made.After)
	}
	past.Add(audit.Record{Kind: audit.Intent, Call: "d", Effects: []string{"connect *"}})
	if made := past.Propose(policy.HostsOf("a.example")); made.Before != -1 || made.Open != 1 {
		t.Errorf("got %d hosts and %d commands with all", made.Before, made.Open)
	}
}
