package command

import (
	"fmt"
	"os"
	"testing"

	"github.com/golem-forge/golem/internal/checks/benchtable"
	"github.com/golem-forge/golem/internal/decide/policy"
)

// line200 is an ordinary line of about 200 bytes.
const line200 = `cd src && git status --short | grep -v '^??' | head -n 20; for f in $(git ls-files '*.go'); do wc -l "$f"; done 2>&1 | sort -n | tail -n 5; timeout 60 rg -n 'TODO|FIXME' --glob '*.go' . | sort -u | wc`

// BenchmarkTable prints how long judging a line takes. `make bench` runs it.
func BenchmarkTable(b *testing.B) {
	t := benchtable.Peers(os.Stdout)
	rules := twoLayers()
	for _, c := range []struct {
		what, line string
	}{{fmt.Sprintf("judge a line of %d bytes", len(line200)), line200}, {"judge git status", "git status"}} {
		took := benchtable.Turns(benchtable.ManyRounds, benchtable.Burst, benchtable.Repeat(func() { rules.Judge(c.line) }))[0].Median()
		t.Row(c.what, benchtable.Duration(took), "", "", "50 µs", t.Judge(took <= 50e-6))
	}
	fmt.Printf("\ntargets met: %d of %d\n", t.Met, t.Met+t.Missed)
	b.SkipNow() // the table is the result
}

// twoLayers returns the ready-made sets and a layer of rules.
func twoLayers() Rules {
	layer := parseRules("yes <read_only>", "yes <build>", "no git push", "ask git", "no rm", "no rm -rf", "yes npm run *", "ask curl", "no default")
	return NewRules(policy.Shell{}.With(readySets()).With(layer))
}

// BenchmarkJudge measures one ordinary line against two layers.
func BenchmarkJudge(b *testing.B) {
	rules := twoLayers()
	b.ReportAllocs()
	for b.Loop() {
		rules.Judge(line200)
	}
}
