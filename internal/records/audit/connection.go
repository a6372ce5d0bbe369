package audit

import (
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// ConnectTool stands for the tool in records of connections.
const ConnectTool = "connect"

// A Connection is a connection that a command made to a host, or tried to make. The
// journal has two records of it, its decision and its end, or one if golem refused it. A
// request that golem refused on an open connection has a record of its own.
type Connection struct {
	Call    string // the same in both records
	Time    time.Time
	Session string
	Workers []string
	Program string // the program that connected, "" if it is not known
	Host    string // a name or an address
	Port    uint16

	Decision string // as in a Record
	By       string

	Ended          bool
	Sent, Received int64 // bytes
	Took           time.Duration
	Code           string // why golem refused it, or why it failed
	Note           string
	// Tainted says whether the session had read untrusted content, nil if no record says it.
	Tainted *bool
	// Read is true if golem read the requests. Requests are the different ones that the host
	// answered, with method and path: GET /a. A star stands for any.
	Read     bool
	Requests []string
}

// Address returns the host with its port, as net.JoinHostPort does. Package net would make the
// program for browsers too large.
func (c Connection) Address() string {
	host := c.Host
	if strings.ContainsAny(host, ":%") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(c.Port))
}

// Intent returns the record of the decision to connect. It is written before the first
// byte leaves.
func (c Connection) Intent() Record { return c.record(Intent) }

// Refusal returns the record of a connection that golem refused.
func (c Connection) Refusal() Record {
	r := c.record(Refusal)
	r.Code, r.Note = c.Code, c.Note
	return r
}

// Outcome returns the record of the end of a connection.
func (c Connection) Outcome() Record {
	r := c.record(Outcome)
	r.Effects, r.Decision, r.By, r.Code, r.Note = nil, "", "", c.Code, c.Note
	r.Args["sent"], r.Args["received"], r.Args["ms"] = c.Sent, c.Received, c.Took.Milliseconds()
	if c.Read {
		r.Args["requests"] = append([]string{}, c.Requests...)
	}
	return r
}

func (c Connection) record(k Kind) Record {
	args := map[string]any{"host": c.Host, "port": c.Port}
	if c.Program != "" {
		args["program"] = c.Program
	}
	if c.Tainted != nil {
		args["tainted"] = *c.Tainted
	}
	return Record{Kind: k, Call: c.Call, Session: c.Session, Workers: c.Workers, Tool: ConnectTool, Args: args,
		Effects: []string{policy.Connect.String() + " " + c.Address()}, Decision: c.Decision, By: c.By}
}

// Connections puts the records of connections together.
type Connections struct {
	List  []Connection   // in the order of their decisions
	index map[string]int // by session and call
}

// Add adds a record. It ignores records that are not about connections, such as answers to
// questions about hosts.
func (l *Connections) Add(r Record) {
	if host, _ := r.Args["host"].(string); r.Tool != ConnectTool || host == "" {
		return
	}
	number := func(name string) int64 {
		n, _ := r.Args[name].(float64) // as JSON has it
		return int64(n)
	}
	text := func(name string) string {
		s, _ := r.Args[name].(string)
		return s
	}
	key := r.Session + "\x00" + r.Call
	i, ok := l.index[key]
	if !ok || r.Kind != Outcome {
		i = len(l.List)
		if l.index == nil {
			l.index = make(map[string]int)
		}
		if r.Kind == Intent { // golem may refuse a request of an open connection
			l.index[key] = i
		}
		l.List = append(l.List, Connection{Call: r.Call, Time: r.Time, Session: r.Session, Workers: r.Workers, Program: text("program"),
			Host: text("host"), Port: uint16(number("port")), Decision: r.Decision, By: r.By, Code: r.Code, Note: r.Note, Ended: r.Kind == Refusal})
	}
	c := &l.List[i]
	if tainted, ok := r.Args["tainted"].(bool); ok && (c.Tainted == nil || tainted) {
		c.Tainted = &tainted
	}
	if r.Kind == Outcome {
		c.Ended, c.Sent, c.Received, c.Took, c.Code, c.Note = true, number("sent"), number("received"), time.Duration(number("ms"))*time.Millisecond, r.Code, r.Note
		var list []any
		list, c.Read = r.Args["requests"].([]any)
		for _, one := range list {
			request, _ := one.(string)
			c.Requests = append(c.Requests, request)
		}
	}
}
