package egress

import (
	"fmt"
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

// A Record describes a connection, or one request of it.
type Record struct {
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
func (n *Network) report(r Record) {
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
