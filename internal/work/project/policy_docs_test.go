package project_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

const policyDocs = "../../../docs/configuration.md"

// TestPolicyDocs compares the table of docs/configuration.md with the schema.
func TestPolicyDocs(t *testing.T) {
	b := "\n| key | type | default | meaning | example |\n|---|---|---|---|---|\n"
	for _, k := range project.PolicySchema().Keys {
		b += row(k, k.Name)
		for _, or := range k.Or {
			k.Keys = append(k.Keys, or.Keys...)
		}
		eachKey(k, []strictyaml.Key{k}, func(path []strictyaml.Key) { b += row(path[len(path)-1], fullName(path)) })
	}
	testutil.GoldenPart(t, policyDocs, "<!-- policy keys: made from the schema by go test ./internal/work/project -run PolicyDocs -update -->\n", "<!-- end of policy keys -->\n", b+"\n")
}

// TestPolicyExamples reads the policies that docs/configuration.md shows.
func TestPolicyExamples(t *testing.T) {
	page, err := os.ReadFile(policyDocs)
	if err != nil {
		t.Fatal(err)
	}
	team, err := os.ReadFile("../../../docs/team.md")
	if err != nil {
		t.Fatal(err)
	}
	page = append(page, team...)
	examples := regexp.MustCompile("(?s)```yaml policy\n(.*?)```").FindAllSubmatch(page, -1)
	if len(examples) < 4 {
		t.Fatalf("%s: found %d examples: the test checks nothing", policyDocs, len(examples))
	}
	for _, e := range examples {
		if _, err := project.ParsePolicy("example", e[1], []string{"shell", "api_send"}); err != nil {
			t.Errorf("%v\n%s", err, e[1])
		}
	}
}
