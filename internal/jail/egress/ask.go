package egress

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A Question asks whether programs may connect to a host.
type Question struct {
	Host    string
	Ports   []uint16 // 80 and 443 together, or one other port
	Program string   // the program that connects first
	Listed  bool     // the list has the host, but the session is tainted
}

// An Answer is the answer to a question.
type Answer int

// The answers. Later is no answer: golem refuses the connection and asks again next time.
const (
	Later   Answer = iota
	No             // refuse the host as long as the network is open
	Once           // let the connections pass that wait, or else the next one
	Session        // let the host pass as long as the network is open
)

// Limits for programs that ask for many hosts.
const (
	maxPending  = 16
	maxAnswered = 4096
)

// questions are the questions that wait and the answers so far.
type questions struct {
	mu       sync.Mutex
	pending  map[string]*pending
	answered map[string]Answer // No, Session, or an unused Once
}

// A pending question is asked once, however many connections wait for it.
type pending struct {
	done    chan struct{} // closed when there is an answer
	answer  Answer
	waiting int
}

func askedPorts(port uint16) []uint16 {
	if isWeb(port) {
		return []uint16{80, 443}
	}
	return []uint16{port}
}

// ask waits for the answer to a question, as long as the network has patience. It returns
// what allows the host, or why golem refuses it.
func (n *Network) ask(ctx context.Context, q Question, watch func() (gone <-chan struct{}, stop func())) (string, error) {
	key := fmt.Sprint(q.Host, q.Ports, q.Listed)
	answer, p := n.questions.find(key)
	if p == nil && answer == Later {
		if p = n.startQuestion(key, q); p == nil {
			return "", refusal("golem asks about " + q.Host + " later: too many questions are open")
		}
	}
	if p != nil {
		var late <-chan time.Time
		if n.o.Patience > 0 {
			timer := time.NewTimer(n.o.Patience)
			defer timer.Stop()
			late = timer.C
		}
		var gone <-chan struct{}
		if watch != nil {
			closed, stop := watch()
			defer stop()
			gone = closed
		}
		select {
		case <-p.done:
		case <-late:
		case <-ctx.Done():
		case <-gone: // the program gave up, so the answer is for its next try
		}
		answer = n.questions.leave(p)
	}
	switch answer {
	case Once:
		return "allowed once", nil
	case Session:
		return "allowed for the session", nil
	case No:
		return "", refusal("you declined " + q.Host)
	}
	return "", refusal("nobody allowed " + q.Host + " in time; after an approval, the next try passes")
}

// find returns the answer to a question, or the same question if it is pending.
func (q *questions) find(key string) (Answer, *pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p := q.pending[key]; p != nil {
		p.waiting++
		return Later, p
	}
	answer := q.answered[key]
	if answer == Once {
		delete(q.answered, key)
	}
	return answer, nil
}

// leave ends the wait for a question and returns its answer so far.
func (q *questions) leave(p *pending) Answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.waiting--
	return p.answer
}

// startQuestion asks a question in the background. It returns nil if too many are open.
func (n *Network) startQuestion(key string, question Question) *pending {
	q := &n.questions
	q.mu.Lock()
	defer q.mu.Unlock()
	if p := q.pending[key]; p != nil { // another connection was faster
		p.waiting++
		return p
	}
	if len(q.pending) >= maxPending || len(q.answered) >= maxAnswered {
		return nil
	}
	p := &pending{done: make(chan struct{}), waiting: 1}
	if !n.run(func() {
		answer := n.o.Ask(n.ctx, question)
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.pending, key)
		p.answer = answer
		if answer == No || answer == Session || answer == Once && p.waiting == 0 {
			q.answered[key] = answer
		}
		close(p.done)
	}) {
		return nil
	}
	if q.pending == nil {
		q.pending, q.answered = map[string]*pending{}, map[string]Answer{}
	}
	q.pending[key] = p
	return p
}

// String returns the question as text: "example.org (ports 80, 443)".
func (q Question) String() string {
	var ports []string
	for _, p := range q.Ports {
		ports = append(ports, fmt.Sprint(p))
	}
	word := "port"
	if len(ports) > 1 {
		word = "ports"
	}
	return q.Host + " (" + word + " " + strings.Join(ports, ", ") + ")"
}
