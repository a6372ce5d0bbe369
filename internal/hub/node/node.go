package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
)

// Options are the options of a node.
type Options struct {
	Client *hub.Client
	Dir    string // for jobs in work, and contents that were fetched before
	Slots  int    // how many jobs it does at once
	Labels []string
	// Version is that of golem, for lists of nodes.
	Version string
	// Hold is how long a job that waits for a decision keeps its slot.
	Hold time.Duration
	// Program is what is the same for all jobs: the environment and the user's configuration.
	// Without limits for jobs, they reach public hosts only.
	Program program.Options
	Limits  *job.Limits // of the jobs; nil for none of the machine
	// OpenModel opens the model of a job.
	OpenModel func(p *program.Program, name string, requests *network.OwnRequests) (run.Choice, error)
	Price     func(name string, u model.Usage) (dollars float64, known bool)
	Secrets   []string // values that must not get into journals
	Tell      func(text string)
	Now       func() time.Time
}

// A node does jobs.
type node struct {
	Options
	contents contents
	deadline time.Duration
	known    *knowledge
}

// Run does jobs until ctx ends. Then it stops each job after its current call, and gives it
// back.
func Run(ctx context.Context, o Options) error {
	if o.Limits == nil {
		o.Limits = &job.Limits{}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	dir, err := state.OpenNamed(o.Dir, "directory of the node", "--dir")
	if err != nil {
		return err
	}
	defer dir.Close()
	leases, err := dir.Leases()
	if err != nil {
		return err
	}
	now, cancel := context.WithTimeout(ctx, time.Second)
	release, err := leases.Take(now, "node", "a node")
	cancel()
	if err != nil {
		return fmt.Errorf("another golem node uses the directory %s; stop it, or name another one with --dir: %w", o.Dir, err)
	}
	defer release()
	greeting, err := o.Client.Hello(ctx)
	if err != nil {
		return err
	}
	if greeting.User.Role != hub.Node {
		return fmt.Errorf("these credentials are of the role %s; a node needs its own: golem hub invite --role node --name NAME", greeting.User.Role)
	}
	n := &node{Options: o, contents: contents{filepath.Join(o.Dir, "contents")}, deadline: time.Duration(max(greeting.Until, 1)) * time.Second}
	if n.known, err = openKnowledge(o.Dir, o.Client.Hub); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(o.Dir, "jobs")); err != nil { // of a node that was killed; the hub has their checkpoints
		return err
	}
	var slots sync.WaitGroup
	for slot := range o.Slots {
		slots.Go(func() { n.work(ctx, slot) })
	}
	slots.Wait()
	return nil
}

// work takes one job after the other.
func (n *node) work(ctx context.Context, slot int) {
	for ctx.Err() == nil {
		j, err := n.take(ctx)
		if ctx.Err() != nil && j == nil {
			return
		}
		if err != nil {
			n.Tell("asking for a job: " + err.Error())
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		if j != nil {
			n.do(ctx, slot, *j)
		}
	}
}

// take asks for a job.
func (n *node) take(ctx context.Context) (*hub.Job, error) {
	now, err := n.Client.Revision(ctx, n.known.newest())
	if err != nil {
		return nil, err
	}
	if err := n.known.keep(now); err != nil {
		return nil, err
	}
	return n.Client.Take(ctx, hub.Offer{Labels: n.Labels, Wait: 10 * time.Second, Slots: n.Slots, Version: n.Version, Known: n.known.newest()})
}

// do does one job, until it is over, waits for too long, or another node has it.
func (n *node) do(ctx context.Context, slot int, j hub.Job) {
	spec, err := hub.OpenSpec(j.Spec)
	if err != nil || spec.Hub != n.Client.Hub || spec.ID != j.ID { // the id names a directory here
		n.Tell("the hub gave a job that nobody has signed for it; the job is left to its deadline")
		return
	}
	n.Tell(fmt.Sprintf("job %s (%s), attempt %d: begins", j.ID, spec.Name, j.Attempt))
	dir := filepath.Join(n.Dir, "jobs", fmt.Sprintf("%d-%s", slot, spec.ID))
	defer os.RemoveAll(dir)
	a := &attempt{node: n, job: j, spec: spec, dir: dir, next: j.Events + 1}
	end, err := a.do(ctx)
	switch {
	case hub.IsCode(err, hub.CodeStale):
		n.Tell(fmt.Sprintf("job %s: another node has it now", j.ID))
		return
	case err != nil:
		end = hub.End{State: hub.Failed, Result: hub.Result{Why: fit(err.Error(), maxWhy)}}
	}
	if end.State == "" { // it waits, and the hub knows
		n.Tell(fmt.Sprintf("job %s: waits for an approval", j.ID))
		return
	}
	end.Attempt = hub.Attempt{Job: j.ID, Number: j.Attempt}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.deadline)
	defer cancel()
	err = n.Client.End(last, end)
	if hub.IsCode(err, hub.CodeInvalid) { // otherwise another node would do all of it again
		err = n.Client.End(last, hub.End{Attempt: end.Attempt, State: hub.Failed, Result: hub.Result{Why: "it ended as " + string(end.State) + ", but the hub refused its result: " + fit(err.Error(), maxWhy)}})
	}
	if err != nil {
		n.Tell(fmt.Sprintf("job %s: telling the hub how it ended: %v", j.ID, err))
		return
	}
	said := string(end.State)
	if end.Result.Why != "" {
		said += ": " + end.Result.Why
	}
	n.Tell(fmt.Sprintf("job %s: %s", j.ID, said))
}

// beats tells the hub that an attempt is in work, until ctx ends. It calls stop if the job is
// cancelled, and lost if another node has it, or the hub was away for longer than the deadline.
func (n *node) beats(ctx context.Context, a hub.Attempt, stop func(), lost func(error)) {
	last := n.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(n.deadline / 4):
		}
		try, cancel := context.WithTimeout(ctx, n.deadline/4)
		cancelled, err := n.Client.Beat(try, a)
		cancel()
		switch {
		case err == nil:
			if last = n.Now(); cancelled {
				stop()
			}
		case hub.IsCode(err, hub.CodeStale) || hub.IsCode(err, hub.CodeRefused):
			lost(err)
			return
		case ctx.Err() == nil && n.Now().Sub(last) > n.deadline:
			lost(&hub.Error{Code: hub.CodeStale, Text: "the hub was away for longer than the deadline, so another node may have the job"})
			return
		}
	}
}
