package egress

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Step is a point in the life of a connection.
type Step string

// The steps. A connection that is refused has only that one.
const (
	Opened  Step = "opened"  // golem lets the connection pass; nothing has left yet
	Closed  Step = "closed"  // the connection has ended
	Refused Step = "refused" // the connection was refused
	// Denied is a request that golem refused on a connection that stays open.
	Denied Step = "denied"
	// Noticed is a request that passed and that the user should know about.
	Noticed Step = "noticed"
)

// An Event describes a connection, or one request of it.
type Event struct {
	ID      uint64 // the same in all records of a connection, unique in the network
	Step    Step
	Time    time.Time
	Host    string // a name, or an address if the program connected to one
	Port    uint16 // 0 if golem refused to resolve the name
	Program string
	// Decision says what allowed the connection: the rule, or the answer to a question.
	Decision string
	// Why says why golem refused the connection or request, and what would help.
	Why string
	// Request is the method and the path of a request that golem refused.
	Request string
	// Ended is true if golem ended TLS.
	Ended bool
	// Sent and Received count the bytes of the program's connection, after it has ended.
	Sent, Received int64
	Duration       time.Duration
	Requests       int64 // HTTP requests that golem read
	// Tainted is true if the session had read untrusted content by then.
	Tainted bool
	// Read is true if golem reads the requests of the connection. Passed has the different ones
	// that the host answered: see passed.
	Read   bool
	Passed []string
	// More is how many further connections like this one the record stands for. Sent,
	// Received, Requests and Passed are those of all of them.
	More int64
}

// reports counts records of refusals, so that a program that tries the same thing again
// and again does not fill the journal.
type reports struct {
	mu   sync.Mutex
	seen map[string]int
}

// Limits for records of refusals. After maxSame equal ones, only every doubling of their
// number is recorded. After maxKinds different ones, all others count as equal.
const (
	maxSame  = 8
	maxKinds = 2048
)

// report records a refusal, unless there were many of the same kind.
func (n *Network) report(r Event) {
	key := fmt.Sprint(r.Step, r.Host, r.Port, r.Why, r.Request)
	n.reports.mu.Lock()
	if n.reports.seen == nil {
		n.reports.seen = make(map[string]int)
	}
	if _, ok := n.reports.seen[key]; !ok && len(n.reports.seen) >= maxKinds {
		key = ""
	}
	n.reports.seen[key]++
	count := n.reports.seen[key]
	n.reports.mu.Unlock()
	switch {
	case count > maxSame && count&(count-1) != 0:
		return
	case count > maxSame && key == "":
		r.Why += fmt.Sprintf(" (%d further refusals so far)", count)
	case count > maxSame:
		r.Why += fmt.Sprintf(" (%d times so far)", count)
	}
	n.o.Record(r)
}

// A tally counts connections that pass, so that a program that connects again and again
// does not fill the journal.
type tally struct {
	mu    sync.Mutex
	total int
	kinds map[string]*kind
}

// A kind is the connections to one host and port that one rule or answer allows.
type kind struct {
	count int
	rest  Event // the connections without a record of their own, added up
}

// Limits for records of connections. After maxOfKind to one host, or maxRecorded in all,
// only every doubling of their number has records of its own, and the last of them stands
// for those before it.
const (
	maxOfKind   = 500
	maxRecorded = 5000
	maxTallied  = 1000
)

// find returns the kind of a connection. The caller holds the mutex.
func (t *tally) find(r Event) *kind {
	if t.kinds == nil {
		t.kinds = make(map[string]*kind)
	}
	key := fmt.Sprint(r.Host, " ", r.Port, " ", r.Decision)
	if t.kinds[key] == nil && len(t.kinds) >= maxTallied {
		key = ""
	}
	if t.kinds[key] == nil {
		t.kinds[key] = &kind{}
	}
	return t.kinds[key]
}

// begin reports whether a connection gets records of its own.
func (t *tally) begin(r Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.find(r)
	k.count++
	if k.count > maxOfKind || t.total >= maxRecorded {
		return k.count&(k.count-1) == 0
	}
	t.total++
	return true
}

// skip adds a connection that has ended without records of its own.
func (t *tally) skip(r Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.find(r)
	sum := r
	sum.More = k.rest.More + 1
	k.rest = sum.with(k.rest)
}

// end returns the record of the end of a connection, with those that were skipped.
func (t *tally) end(r Event) Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.find(r)
	r.More = k.rest.More
	r = r.with(k.rest)
	k.rest = Event{}
	return r
}

// with returns the event together with connections that have no record of their own.
func (e Event) with(rest Event) Event {
	e.Sent, e.Received, e.Requests = e.Sent+rest.Sent, e.Received+rest.Received, e.Requests+rest.Requests
	e.Read = e.Read || rest.Read
	e.Tainted = e.Tainted || rest.Tainted
	var all passed
	for _, one := range slices.Concat(e.Passed, rest.Passed) {
		all.add(one)
	}
	e.Passed = all.list
	return e
}

// recordRest records the connections that no other record stands for.
func (n *Network) recordRest() {
	n.tally.mu.Lock()
	defer n.tally.mu.Unlock()
	for _, k := range n.tally.kinds {
		if r := k.rest; r.More > 0 {
			r.ID, r.Step, r.Why = n.count.Add(1), Opened, ""
			r.More--
			if n.o.Record(r) == nil {
				r.Step = Closed
				n.o.Record(r)
			}
			k.rest = Event{}
		}
	}
}
