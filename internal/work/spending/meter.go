// Package spending counts what the requests of foreign agents to language models cost. golem
// adds the keys of agents outside the jail, so it sees each answer of a vendor, and the usage
// in it. The package keeps nothing else of an answer.
//
// With limits it reserves what a request may cost at most before the request leaves, and
// corrects that by the usage in the answer. So the sum never exceeds a limit, even if many
// requests are sent at once, or a vendor reports nothing.
package spending

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/model/prices"
)

// Options say whose requests are counted, and what they may cost.
type Options struct {
	State  *state.Dir // of the session
	Limits policy.Limits
	Fixed  policy.Limits // limits that nobody raises
	// IsAgents reports whether a credential is that of the agent itself: at its hosts each
	// request may cost something.
	IsAgents func(credential string) bool
	// Raise asks the user to raise a limit. It returns false without an answer.
	Raise func(ctx context.Context, r Raise) (approved, declined bool)
	Now   func() time.Time
}

// A Raise is a question to the user: whether to raise a limit.
type Raise struct {
	Key   string // of the configuration, such as budget.cost
	Limit string // the limit as it is: $5.00
	More  string // by how much it would be raised: $5.00
}

// A Meter counts the requests of a session's programs.
type Meter struct {
	o      Options
	asking chan struct{} // holds one value while a question is open
	bodies atomic.Int64  // bytes of requests that wait

	mu       sync.Mutex
	counted  time.Time     // until when the account has the time of the programs
	settled  chan struct{} // closed when a request has its answer; nil if nobody waits
	open     int           // requests without an answer
	declined map[string]bool
	failed   error // why the account could not be written
}

// New returns a meter.
func New(o Options) *Meter {
	return &Meter{o: o, counted: o.Now(), asking: make(chan struct{}, 1), declined: map[string]bool{}}
}

// HasLimits reports whether limits are kept for the requests of agents.
func HasLimits(l policy.Limits) bool {
	return l.Turns > 0 || l.Tokens > 0 || l.Cost > 0 || l.Budget > 0
}

// Limits of the bodies that golem keeps until it has reserved their cost.
const (
	maxBody   = 40 << 20
	maxBodies = 160 << 20
)

// Meter implements the function of that name in egress.Options.
func (m *Meter) Meter(r *http.Request, to egress.Metered) (egress.Measure, *http.Response) {
	p := findPlace(r, to.Host, to.Header)
	switch {
	case p.form == noForm && (p.free || !p.known && !m.o.IsAgents(to.Credential)):
		return nil, nil
	case p.form == noForm && HasLimits(m.o.Limits):
		return nil, refuse(p, "golem does not know what "+r.Method+" "+r.URL.EscapedPath()+" at "+to.Host+" costs, so it cannot keep the limits of the budget; turn the feature off in the agent, or start without budget")
	case p.form == noForm:
		m.change(func(a *Account) { a.Uncounted++ })
		return nil, nil
	case r.Header.Get("Upgrade") != "": // its frames would hide requests; clients fall back to plain requests
		answer := refuse(p, "golem counts plain requests and no websocket; the agent may send the same as a plain request")
		answer.StatusCode = http.StatusUpgradeRequired
		return nil, answer
	case r.Method != http.MethodPost:
		return nil, nil
	}
	d := &measure{meter: m, place: p}
	if HasLimits(m.o.Limits) {
		if refused := m.limit(r, d); refused != nil {
			return nil, refused
		}
	} else {
		m.mu.Lock()
		m.open++
		m.mu.Unlock()
	}
	d.reading = reading{form: p.form, charges: p.vendor == "openrouter"}
	d.framer = framer{skim: newSkimmer(p.form.answerShape()), take: d.reading.take}
	return d, nil
}

// limit reserves the cost of a request, or returns the answer that refuses it.
func (m *Meter) limit(r *http.Request, d *measure) *http.Response {
	body, err := m.readBody(r)
	if err != nil {
		return refuse(d.place, err.Error())
	}
	d.release = func() { m.bodies.Add(-int64(len(body))) }
	q, ok := d.place.readQuestion(body)
	switch {
	case !ok:
		err = fmt.Errorf("golem cannot read the request, so it cannot keep the limits of the budget; start without budget")
	case q.server != "":
		err = fmt.Errorf("the cost of the vendor's own tool %s has no maximum, so golem cannot keep the limits of the budget; turn it off in the agent (codex: -c web_search=disabled), or start without budget", q.server)
	default:
		d.model = d.place.vendor + ":" + q.model
		d.most = amount{Requests: 1, Tokens: sum(q.most)}
		d.mostUsage = q.most
		cost, known := prices.Cost(d.model, q.most)
		if m.o.Limits.Cost > 0 && (!known || q.dear) {
			other := "choose another model"
			if d.place.vendor == "openrouter" {
				other = "OpenRouter names the price only in its answer; use the API of the model's vendor"
			}
			err = fmt.Errorf("the price of %s is not known, so golem cannot keep budget.cost; %s, or limit budget.tokens or budget.turns", d.model, other)
			break
		}
		d.most.Cost = cost
		err = m.reserve(r.Context(), d)
	}
	if err != nil {
		d.drop()
		return refuse(d.place, err.Error())
	}
	return nil
}

// readBody reads the body of a request, and puts it back.
func (m *Meter) readBody(r *http.Request) ([]byte, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, fmt.Errorf("the agent compressed its request (%s), so golem cannot keep the limits of the budget; turn that off in the agent (codex: -c features.enable_request_compression=false)", coding)
	}
	room := maxBodies - m.bodies.Load()
	var b bytes.Buffer
	n, err := io.Copy(&b, &counted{io.LimitReader(r.Body, min(maxBody, room)+1), &m.bodies})
	if err != nil || n > min(maxBody, room) {
		m.bodies.Add(-n)
		if err == nil {
			err = fmt.Errorf("the request is too long for golem to keep the limits of the budget")
		}
		return nil, err
	}
	r.Body.Close()
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(b.Bytes())), n, nil
	r.Header.Set("Content-Length", fmt.Sprint(n))
	return b.Bytes(), nil
}

// counted adds the bytes that are read.
type counted struct {
	io.Reader
	sum *atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.sum.Add(int64(n))
	return n, err
}

// reserve reserves the possible cost of a request. It waits for other requests if their
// answers may leave enough, and asks the user at a limit.
func (m *Meter) reserve(ctx context.Context, d *measure) error {
	for {
		over, wait, err := m.tryReserve(d)
		switch {
		case err != nil:
			return fmt.Errorf("golem cannot keep the limits of the budget: %w", err)
		case wait != nil:
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case over == nil:
			return nil
		}
		if err := m.ask(ctx, d, over); err != nil {
			return err
		}
	}
}

// tryReserve reserves the cost of a request. If a limit is in the way, it returns the limit,
// or a channel that is closed when another request has its answer and leaves maybe enough.
func (m *Meter) tryReserve(d *measure) (over *limit, wait <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	passed := m.passed()
	err = update(m.o.State, func(a *Account) {
		a.Used.Seconds += passed
		least := a.Used.plus(d.most, 1) // once the answers to all others came, and cost nothing
		if over = m.exceeds(*a, a.Used.plus(a.Reserved, 1).plus(d.most, 1)); over == nil {
			a.Reserved = a.Reserved.plus(d.most, 1)
			return
		}
		if m.open > 0 && m.exceeds(*a, least) == nil {
			wait = m.nextEnd()
		}
	})
	if err == nil && over == nil {
		m.open++
		d.reserved = true
	}
	return over, wait, err
}

// passed returns the seconds that the account does not have yet. The caller holds the mutex,
// and adds them.
func (m *Meter) passed() float64 {
	now := m.o.Now()
	d := now.Sub(m.counted)
	m.counted = now
	return max(d.Seconds(), 0)
}

// nextEnd returns a channel that is closed when the next request ends. The caller holds the
// mutex.
func (m *Meter) nextEnd() <-chan struct{} {
	if m.settled == nil {
		m.settled = make(chan struct{})
	}
	return m.settled
}

// Wait waits until all requests have ended, or ctx has.
func (m *Meter) Wait(ctx context.Context) {
	for ctx.Err() == nil {
		m.mu.Lock()
		if m.open == 0 {
			m.mu.Unlock()
			return
		}
		next := m.nextEnd()
		m.mu.Unlock()
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
}

// A limit is one that a request would exceed.
type limit struct {
	Raise
	used  string
	by    amount
	fixed bool
}

// exceeds returns the limit that an amount exceeds, nil for none.
func (m *Meter) exceeds(a Account, sum amount) *limit {
	if over := exceeded(m.o.Fixed, amount{}, a, sum); over != nil {
		over.fixed = true
		return over
	}
	return exceeded(m.o.Limits, a.Raised, a, sum)
}

// exceeded returns the limit that an amount exceeds if the limits are raised, nil for none.
func exceeded(l policy.Limits, up amount, a Account, sum amount) *limit {
	switch {
	case l.Budget > 0 && a.Used.Seconds >= l.Budget.Seconds()+up.Seconds:
		return &limit{Raise{"budget.time", (l.Budget + time.Duration(up.Seconds*float64(time.Second))).String(), l.Budget.String()}, "the time is over", amount{Seconds: l.Budget.Seconds()}, false}
	case l.Turns > 0 && sum.Requests > l.Turns+up.Requests:
		return &limit{Raise{"budget.turns", count(l.Turns + up.Requests), count(l.Turns)}, count(a.Used.Requests+a.Reserved.Requests) + " are sent", amount{Requests: l.Turns}, false}
	case l.Tokens > 0 && sum.Tokens > l.Tokens+up.Tokens:
		return &limit{Raise{"budget.tokens", tokens(l.Tokens+up.Tokens) + " tokens", tokens(l.Tokens) + " tokens"}, tokens(a.Used.Tokens+a.Reserved.Tokens) + " tokens are used, and the next request may have " + tokens(sum.Tokens-a.Used.Tokens-a.Reserved.Tokens), amount{Tokens: l.Tokens}, false}
	case l.Cost > 0 && sum.Cost > l.Cost+up.Cost:
		return &limit{Raise{"budget.cost", dollars(l.Cost + up.Cost), dollars(l.Cost)}, "about " + dollars(a.Used.Cost+a.Reserved.Cost) + " are used, and the next request may cost " + dollars(sum.Cost-a.Used.Cost-a.Reserved.Cost), amount{Cost: l.Cost}, false}
	}
	return nil
}

func count(n int64) string { return fmt.Sprintf("%d requests", n) }

// ask asks the user to raise a limit, one question at a time. The error is for the agent.
func (m *Meter) ask(ctx context.Context, d *measure, over *limit) error {
	stopped := fmt.Errorf("the limit %s of %s is reached: %s", over.Key, over.Limit, over.used)
	select {
	case m.asking <- struct{}{}:
		defer func() { <-m.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var a Account
	if err := update(m.o.State, func(now *Account) { a = *now }); err != nil {
		return err
	}
	if now := m.exceeds(a, a.Used.plus(a.Reserved, 1).plus(d.most, 1)); now == nil || now.Raise != over.Raise {
		return nil // somebody has raised it meanwhile
	}
	m.mu.Lock()
	declined := m.declined[over.Key]
	m.mu.Unlock()
	switch {
	case over.fixed:
		return fmt.Errorf("%w; the administrator set it", stopped)
	case declined:
		return fmt.Errorf("%w; the user declined to raise it", stopped)
	}
	approved, no := m.o.Raise(ctx, over.Raise)
	if approved {
		return update(m.o.State, func(a *Account) { a.Raised = a.Raised.plus(over.by, 1) })
	}
	if no {
		m.mu.Lock()
		m.declined[over.Key] = true
		m.mu.Unlock()
		return fmt.Errorf("%w; the user declined to raise it", stopped)
	}
	return fmt.Errorf("%w; golem approve raises it by %s, then continue", stopped, over.More)
}

// change changes the account. If that fails, the next report says so.
func (m *Meter) change(change func(*Account)) {
	if err := update(m.o.State, change); err != nil {
		m.mu.Lock()
		m.failed = err
		m.mu.Unlock()
	}
}

// Failed returns why the account could not be written, nil if it could.
func (m *Meter) Failed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// A measure measures one request. It implements egress.Measure.
type measure struct {
	meter     *Meter
	place     place
	model     string // vendor:name, "" if only the answer has it
	most      amount
	mostUsage usage
	reserved  bool
	release   func() // gives back the memory of the request's body

	sent    bool
	code    int
	framer  framer
	reading reading
}

// drop gives back the memory of the request's body.
func (d *measure) drop() {
	if d.release != nil {
		d.release()
	}
}

// Sent implements egress.Measure.
func (d *measure) Sent() { d.sent = true }

// Answered implements egress.Measure.
func (d *measure) Answered(code int) { d.code = code }

// Write implements egress.Measure.
func (d *measure) Write(piece []byte) { d.framer.add(piece) }

// End implements egress.Measure. It corrects what was reserved.
func (d *measure) End() {
	d.drop()
	d.framer.endEvent()
	m, r := d.meter, &d.reading
	isAnswer := d.sent && (d.code == 0 || d.code < 300) // vendors charge for no error
	m.mu.Lock()
	passed := m.passed()
	m.mu.Unlock()
	m.change(func(a *Account) {
		a.Used.Seconds += passed
		if d.reserved {
			a.Reserved = a.Reserved.plus(d.most, -1)
			a.Reserved.Cost = math.Max(a.Reserved.Cost, 0)
		}
		if isAnswer {
			d.count(a, r)
		}
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
	if m.settled != nil {
		close(m.settled)
		m.settled = nil
	}
}

// count adds an answer to the account.
func (d *measure) count(a *Account, r *reading) {
	a.Requests++
	a.Used.Requests++
	a.Plan = a.Plan || d.place.plan
	u := r.usage.Clamped()
	if r.absurd {
		u = usage{}
	}
	name := d.model
	cost, known := prices.Cost(name, u)
	if other := d.place.vendor + ":" + r.model; !known && r.model != "" {
		cost, known = prices.Cost(other, u)
	}
	known = known && !(r.dear && u.Charged == 0)
	if !known {
		a.Unpriced++
		cost = 0
	}
	a.Tokens, a.Cost = a.Tokens.Add(u), a.Cost+cost
	if !r.isWhole() {
		a.Unreported++
	}
	counts := d.counted(r, u)
	if !d.reserved { // there are no limits
		a.Used.Tokens, a.Used.Cost = a.Used.Tokens+sum(u), a.Used.Cost+cost
		return
	}
	most, _ := prices.Cost(name, counts)
	if counts == d.mostUsage {
		most = d.most.Cost
	}
	a.Used.Tokens += sum(counts)
	a.Used.Cost += most
}

// counted returns the usage that counts for limits. What the answer does not say, or what
// cannot be true, counts as it was reserved.
func (d *measure) counted(r *reading, u usage) usage {
	switch {
	case r.isWhole():
		return u
	case r.absurd, u.Input+u.CacheRead+u.CacheWrite == 0:
		return d.mostUsage
	}
	u.Output, u.Charged = max(u.Output, d.mostUsage.Output), 0 // it was cut off
	return u
}
