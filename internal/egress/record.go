package egress

import "time"

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
