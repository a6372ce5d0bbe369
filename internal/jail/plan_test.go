package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	tests "github.com/golem-forge/golem/internal/checks/testutil"
)

// formatPlan returns a plan as text, a step a line.
func formatPlan(p plan) string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%-8s %s", s.Do, s.Target)
		switch s.Do {
		case file, link:
			b.WriteString(" says " + strconv.Quote(s.Source))
		default:
			if s.Source != "" {
				b.WriteString(" from " + s.Source)
			}
		}
		if s.Size != 0 {
			fmt.Fprintf(&b, " of %d bytes", s.Size)
		}
		if s.Write {
			b.WriteString(", writable")
		}
		if s.Maybe {
			b.WriteString(", if there")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestPlan compares the plans of some policies with their text.
func TestPlan(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy Policy
		uid    int
		gid    int
	}{
		{"none", Policy{}, 0, 0},
		{"user", Policy{}, 1000, 100},
		{"read", Policy{Mounts: []Mount{{Source: "/host/project", Target: Work}}}, 0, 0},
		{"parts", Policy{Mounts: []Mount{
			{Source: "/host/project", Target: Work, Write: true},
			{Source: "/host/project/fixed", Target: Work + "/fixed"},
			{Source: "/host/project/fixed/free", Target: Work + "/fixed/free", Write: true},
			{Target: Work + "/kept/deep/secret"},
			{Source: "/host/project/kept/deep/still", Target: Work + "/kept/deep/still"},
			{Target: Work + "/secret"},
		}}, 1000, 1000},
		{"mounts", Policy{Mounts: []Mount{
			{Source: "/host/in", Target: "/in"},
			{Source: "/host/elsewhere", Target: "/in/deep/er", Write: true},
			{Target: "/missing"},
			{Source: "/host/out", Target: "/out", Write: true},
			{Source: "/host/project", Target: Work, Write: true},
			{Source: "/host/in", Target: Work + "/in"},
			{Source: "/host/elsewhere", Target: Work + "/in/deep/er", Write: true},
		}, Limits: Limits{Temp: 1 << 20}}, 0, 0},
		{"network", Policy{Network: true, Env: []string{"A=b"}}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			tests.Golden(t, filepath.Join("testdata", "plan", test.name+".txt"), formatPlan(compile(test.policy, test.uid, test.gid)))
		})
	}
}

// TestVariablesAreListed checks that the guide lists every variable that all commands have,
// with its value.
func TestVariablesAreListed(t *testing.T) {
	guide, err := os.ReadFile("../../docs/jail.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(guide), "## Variables and caches")
	list, _, _ = strings.Cut(list, "\n## ")
	for _, e := range environment(Policy{}) {
		name, value, _ := strings.Cut(e, "=")
		if !strings.Contains(list, "`"+name+"`") || !strings.Contains(list, "`"+value+"`") {
			t.Errorf("the guide does not mention %s", e)
		}
	}
}
