package cli

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/secret"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/spending"
	"github.com/golem-forge/golem/sandbox"
)

// setBudget applies the values of --budget.
func (f *execFlags) setBudget() error {
	for _, item := range f.budget {
		name, value, ok := strings.Cut(item, "=")
		if !ok || value == "" || !slices.Contains([]string{"cost", "tokens", "turns", "time"}, name) {
			return usagef("--budget %s: it is cost=DOLLARS, tokens=N, turns=N or time=30m, such as --budget cost=5", sandbox.Shown(item))
		}
		number, err := strconv.ParseFloat(strings.TrimPrefix(value, "$"), 64)
		if name != "time" && (err != nil || number <= 0 || name != "cost" && number != math.Trunc(number)) {
			return usagef("--budget %s: %s is a number above 0, such as --budget %s=5", sandbox.Shown(item), name, name)
		}
		f.set = append(f.set, "budget."+name+"="+strings.TrimPrefix(value, "$"))
	}
	return nil
}

// checkBudget refuses a budget that golem cannot keep, because the agent has a key itself, in its
// settings or in a variable of --env.
func checkBudget(p *program.Program, agent network.Agent, env []string) error {
	_, readable := describeFiles(agent.ProfileFor(p.Project.Network))
	advice := "log in, or set a key, as golem exec --profile-help says"
	if p.Project.Network.IsAll() {
		advice = "leave out --net on, or name hosts: --net +HOST"
	}
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if v, is := secret.VendorOf(name, ""); is && v.Name != "github" {
			readable, advice = append(readable, "$"+visible.Text(name)), "leave out --env "+visible.Text(name)+"; golem adds the key outside for the agents of golem exec --profile-help"
		}
	}
	if !spending.HasLimits(p.Project.Limits) || p.Project.Network.IsEmpty() || len(readable) == 0 {
		return nil
	}
	return usagef("budget: %s can read %s itself, so golem does not count its requests and cannot keep the limits; %s", visible.Text(agent.Profile.Name), strings.Join(readable, ", "), advice)
}

// traceAgent sends a span of an agent with what it has asked of models, if golem counted that and
// the user's environment asks for traces.
func traceAgent(cmd *cobra.Command, p *program.Program, gate *program.OpenWorker, command string, start time.Time, code int) {
	spent, err := gate.Spent()
	if err != nil || spent.IsEmpty() {
		return
	}
	tell := func(text string) { note(cmd, text) }
	t := newTracer(p, tell)
	if t == nil {
		return
	}
	gate.Record(t.requests)
	t.begin(gate.Session.ID)
	t.AddAgent(visible.Line(filepath.Base(command), maxMark), start, time.Now(), code, spent)
	t.end(tell)
	t.requests.Close()
}

// tellCost prints what an agent has cost.
func (f *execFlags) tellCost(w io.Writer, gate *program.OpenWorker, agent network.Agent, command string) {
	name := visible.Text(filepath.Base(command))
	spent, err := gate.Spent()
	hosts := gate.Hosts()
	switch {
	case err != nil:
		fmt.Fprintf(w, "golem: %s: golem cannot read what its requests cost: %s\n", name, visible.Line(err.Error(), 300))
	case !spent.IsEmpty():
		fmt.Fprintf(w, "golem: %s  %s\n", name, spent)
	case len(agent.Profile.Outside) == 0 || hosts.IsEmpty():
	case hosts.IsAll():
		fmt.Fprintf(w, "golem: %s  not counted: with the network on golem does not see its requests to models\n", name)
	case len(agent.Logins) == 0:
		fmt.Fprintf(w, "golem: %s  not counted: golem counts only requests to which it adds a key\n", name)
	}
}
