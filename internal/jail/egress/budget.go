package egress

import (
	"net/http"
	"sync/atomic"
)

// Limits for what golem keeps in memory for programs, whatever they send and however
// slowly they read. Programs have a memory limit of their own, and golem must not be a way
// around it.
const (
	maxUnfinished = 32 << 20 // bytes of hellos and headers
	maxRequests   = 1024     // at the same time
	maxHeader     = 64 << 10
	maxFields     = 1000      // of an answer
	maxStreams    = 100       // of an HTTP/2 connection
	maxUpload     = 256 << 10 // bytes of an HTTP/2 connection that wait for the host
	maxDownload   = 512 << 10 // bytes of an HTTP/2 answer that wait for the program
	maxDownloads  = 64 << 20  // the same for a connection: enough for all answers, so that slow ones do not stop others
)

// A budget counts the bytes of messages that are not complete or not answered yet.
type budget struct{ used atomic.Int64 }

// take adds bytes. It returns an error, and adds nothing, if there are too many.
func (b *budget) take(n int64) error {
	if b.used.Add(n) > maxUnfinished {
		b.used.Add(-n)
		return refusal("programs and hosts have sent too many unfinished messages")
	}
	return nil
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// sizeOf returns about how much memory the head of a request takes.
func sizeOf(r *http.Request) int64 {
	const each = 32 // for a name or value
	size := len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		size += len(name) + each
		for _, v := range values {
			size += len(v) + each
		}
	}
	return int64(size)
}

// A load is what a connection with HTTP requests takes from the budget.
type load struct {
	arrived atomic.Int64 // bytes of messages that golem has not read to their end
	unread  atomic.Int64 // what they take of the budget
	running atomic.Int32 // requests
}

// add counts bytes that arrived, unless they may be the body of a request. Headers can be so
// short that each byte takes about heavy bytes of memory. Usual heads are not so long that
// it matters.
func (l *load) add(b *budget, n int) error {
	const light, heavy = 2 << 10, 16
	if n == 0 || l.running.Load() > 0 {
		return nil
	}
	before := l.arrived.Add(int64(n)) - int64(n)
	weight := int64(n) + (heavy-1)*(max(before+int64(n), light)-max(before, light))
	if err := b.take(weight); err != nil {
		return err
	}
	l.unread.Add(weight)
	return nil
}

// clear gives back the bytes that arrived.
func (l *load) clear(b *budget) {
	l.arrived.Store(0)
	b.give(l.unread.Swap(0))
}

// begin counts a request that golem has read. The caller calls end when it is answered.
func (n *Network) begin(l *load, r *http.Request) (end func(), err error) {
	size := sizeOf(r)
	l.clear(&n.budget)
	if err := n.budget.take(size); err != nil {
		return nil, err
	}
	l.running.Add(1)
	end = func() {
		l.running.Add(-1)
		n.running.Add(-1)
		n.budget.give(size)
	}
	if n.running.Add(1) > maxRequests {
		end()
		return nil, refusal("programs have sent too many requests at once")
	}
	return end, nil
}
