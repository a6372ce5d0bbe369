package inbox

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// Figures count what happened in a time. All texts are visible text.
type Figures struct {
	From, To time.Time
	Calls    []callCount // in equal times
	Use      []WorkerUse // by worker and model, the most expensive first
	Hosts    []HostUse   // the most bytes first
	Allowed  []Approvals // by tool, most by hand first
	Rules    []ruleUse   // the rules and modes that allowed calls, the most used first
	Waits    []Wait      // by tool, the longest first
	Problems []Problem
}

// A callCount counts the calls of a time by their outcome.
type callCount struct {
	From                          time.Time
	Done, Failed, Refused, Paused int
}

// A HostUse is what commands sent to a host and received from it.
type HostUse struct {
	Host           string
	Connections    int
	Refused        int
	Sent, Received int64
}

// Approvals counts how the calls of a tool were allowed.
type Approvals struct {
	Tool     string
	ByHand   int // a person approved
	ByRule   int // no question was necessary
	Declined int
}

// A ruleUse counts the calls that a rule or a mode allowed.
type ruleUse struct {
	Rule  string
	Calls int
}

// A Wait is how long the calls of a tool waited for a person.
type Wait struct {
	Tool           string
	Calls          int
	Total, Longest time.Duration
}

// ReadFigures counts what the journals and the logs of runs have since a time, until now.
// steps is the number of equal times that calls are counted in.
func ReadFigures(o program.Options, since time.Time, steps int) (Figures, error) {
	f := Figures{From: since, To: o.Now()}
	list, problems, err := ReadJournals(o, "", audit.Filter{Since: since}, 0)
	if err != nil {
		return f, err
	}
	f.Problems = problems
	step := max(f.To.Sub(since)/time.Duration(steps), 1)
	for i := range steps {
		f.Calls = append(f.Calls, callCount{From: since.Add(time.Duration(i) * step)})
	}
	connections := make(map[string]*audit.Connections) // by program
	allowed, rules, hosts := make(map[string]*Approvals), make(map[string]int), make(map[string]*HostUse)
	waits := newWaitCounter()
	for _, r := range list {
		if connections[r.Key] == nil {
			connections[r.Key] = &audit.Connections{}
		}
		if connections[r.Key].Add(r.Record); r.Tool == audit.ConnectTool {
			continue
		}
		at := &f.Calls[min(max(int(r.Time.Sub(since)/step), 0), steps-1)]
		at.count(r.Record)
		countApproval(allowed, rules, r)
		waits.add(r)
	}
	for _, c := range connections {
		for _, one := range c.List {
			h := find(hosts, visible.Line(one.Host, maxTitle), func(name string) *HostUse { return &HostUse{Host: name} })
			if h.Connections++; one.Decision != "preApproved" && one.Decision != "yes" {
				h.Refused++
			}
			h.Sent, h.Received = h.Sent+one.Sent, h.Received+one.Received
		}
	}
	f.Hosts = values(hosts, func(a, b HostUse) int {
		return cmp.Or(cmp.Compare(b.Sent+b.Received, a.Sent+a.Received), cmp.Compare(b.Connections, a.Connections), cmp.Compare(a.Host, b.Host))
	})
	f.Allowed = values(allowed, func(a, b Approvals) int {
		return cmp.Or(cmp.Compare(b.ByHand, a.ByHand), cmp.Compare(b.ByRule, a.ByRule), cmp.Compare(a.Tool, b.Tool))
	})
	for rule, calls := range rules {
		f.Rules = append(f.Rules, ruleUse{rule, calls})
	}
	slices.SortFunc(f.Rules, func(a, b ruleUse) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Rule, b.Rule)) })
	f.Waits = values(waits.tools, func(a, b Wait) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Tool, b.Tool)) })
	return f, f.addUse(o)
}

// find returns the value of a name, and makes it if there is none.
func find[T any](all map[string]*T, name string, make func(string) *T) *T {
	if all[name] == nil {
		all[name] = make(name)
	}
	return all[name]
}

// values returns the values of a map in an order.
func values[T any](all map[string]*T, order func(a, b T) int) (list []T) {
	for _, one := range all {
		list = append(list, *one)
	}
	slices.SortFunc(list, order)
	return list
}

// count counts a record that ends a call.
func (c *callCount) count(r audit.Record) {
	switch {
	case r.Kind == audit.Outcome && r.Code == "":
		c.Done++
	case r.Kind == audit.Outcome:
		c.Failed++
	case r.Kind == audit.Refusal && r.Decision == "pending":
		c.Paused++
	case r.Kind == audit.Refusal:
		c.Refused++
	}
}

// countApproval counts a decision about a call.
func countApproval(tools map[string]*Approvals, rules map[string]int, r JournalRecord) {
	if r.Tool == "" {
		return
	}
	one := func() *Approvals {
		return find(tools, sandbox.Shown(r.Tool), func(name string) *Approvals { return &Approvals{Tool: name} })
	}
	byUser := strings.HasPrefix(r.By, "user")
	switch {
	case r.Kind == audit.Intent && r.Decision == "preApproved", r.Kind == audit.Intent && r.Decision == "yes" && !byUser:
		one().ByRule++
		rules[cmp.Or(visible.Line(r.By, maxTitle), "no rule is necessary")]++
	case r.Kind == audit.Intent && r.Decision == "yes":
		one().ByHand++
	case r.Kind == audit.Answer && r.Decision == "yes" && IsHubKey(r.Key): // the call itself is in the journal of a node
		one().ByHand += counts(r)
	case r.Decision == "no" && r.Kind == audit.Answer:
		one().Declined += counts(r)
	case r.Decision == "no" && r.Kind == audit.Refusal:
		one().Declined++
	}
}

// counts returns 1 for an answer, and -1 for the second record of one, which says that it does
// not count.
func counts(r JournalRecord) int {
	if r.Code != "" {
		return -1
	}
	return 1
}

// A waitCounter measures the time from a request to its answer.
type waitCounter struct {
	since map[string]time.Time // by program and request
	tools map[string]*Wait
}

func newWaitCounter() waitCounter {
	return waitCounter{make(map[string]time.Time), make(map[string]*Wait)}
}

func (w waitCounter) add(r JournalRecord) {
	key := r.Key + " " + r.Request
	if r.Request == "" {
		return
	}
	began, waits := w.since[key]
	if took, ok := r.Args[storage.WaitedArg].(float64); ok && IsHubKey(r.Key) && r.Kind == audit.Answer && r.Code == "" {
		began, waits = r.Time.Add(-time.Duration(took)*time.Millisecond), true
	}
	switch {
	case r.Kind == audit.Refusal && r.Decision == "pending" && !waits:
		w.since[key] = r.Time
	case r.Kind == audit.Answer && waits:
		delete(w.since, key)
		one := find(w.tools, sandbox.Shown(r.Tool), func(name string) *Wait { return &Wait{Tool: name} })
		took := max(r.Time.Sub(began), 0)
		one.Calls, one.Total, one.Longest = one.Calls+1, one.Total+took, max(one.Longest, took)
	}
}

// addUse adds the tokens and the cost of the sessions that were used in the time.
func (f *Figures) addUse(o program.Options) error {
	known, err := inventory.Programs(o.StateBase())
	if err != nil {
		return err
	}
	use := make(map[string]*WorkerUse)
	seen := make(map[string]bool) // sessions
	for _, k := range known {
		if k.Directory == "" {
			continue
		}
		all, _, err := sessionsIn(o, string(k.Directory))
		if err != nil {
			continue // the inbox lists the problem
		}
		for _, s := range all {
			if s.LastUsed.Before(f.From) || seen[keyOf(s.Program)+" "+s.ID] {
				continue
			}
			seen[keyOf(s.Program)+" "+s.ID] = true
			about, err := s.About()
			if err != nil {
				f.Problems = append(f.Problems, Problem{"session " + s.ID, firstLine(err)})
				continue
			}
			for _, u := range about.Use {
				find(use, u.Worker+"\x00"+u.Model, func(string) *WorkerUse { return &WorkerUse{Worker: u.Worker, Model: u.Model} }).add(u)
			}
		}
	}
	f.Use = values(use, func(a, b WorkerUse) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Tokens.Input+b.Tokens.Output, a.Tokens.Input+a.Tokens.Output), cmp.Compare(a.Worker, b.Worker))
	})
	return nil
}
