package project_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/work/project"
)

// TestBudgetCeiling checks that the lowest limit of all layers holds, that a limit of the
// policy is fixed, and that a flag cannot ask for more.
func TestBudgetCeiling(t *testing.T) {
	policy, err := project.ParsePolicy("policy.yaml", []byte("budget: {cost: 5, turns: 100}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := project.ParseConfig("config.yaml", []byte("budget: {cost: 3, tokens: 1000}\n"), "/home/someone", nil)
	if err != nil {
		t.Fatal(err)
	}
	env := project.Env{Ceiling: project.Ceiling{policy, config}}
	file := "sandbox: {root: .}\nbudget: {cost: 9, turns: 50}\n"
	p, err := project.Parse(t.TempDir(), "golem-forge.config.yaml", []byte(file), env, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l := p.Limits; l.Cost != 3 || l.Turns != 50 || l.Tokens != 1000 {
		t.Errorf("got %+v", l)
	}
	if l := p.Ceiling.FixedBudget(); l.Cost != 5 || l.Turns != 100 || l.Tokens != 0 {
		t.Errorf("fixed: got %+v", l)
	}
	for text, allowed := range map[string]bool{"budget.cost=2": true, "budget.cost=4": false, "budget.turns=100": true, "budget.turns=101": false} {
		set, err := project.ParseSet("--set", text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := project.Parse(t.TempDir(), "golem-forge.config.yaml", []byte(file), env, []project.Setting{set}); (err == nil) != allowed {
			t.Errorf("--set %s: got %v", text, err)
		}
	}
	for _, wrong := range []string{"budget: {cost: 0}", "budget: {cost: -1}", "budget: {turns: 1.5}", "budget: {time: 0s}", "budget: {costs: 5}"} {
		if _, err := project.ParsePolicy("policy.yaml", []byte(wrong+"\n"), nil); err == nil {
			t.Errorf("%s is no error in a policy", wrong)
		}
	}
}
