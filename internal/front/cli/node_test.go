package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/project"
)

// TestJobSecrets checks that a job gets only the variables, secrets and keys that the user of
// the node passes.
func TestJobSecrets(t *testing.T) {
	got := jobEnvironment([]string{"PATH=/bin", "LC_ALL=C", "ANTHROPIC_API_KEY=k", "AWS_SECRET_ACCESS_KEY=s", "GOLEM_HUB=f", "CORP_KEY=c"}, []string{"CORP_KEY"})
	if want := []string{"PATH=/bin", "LC_ALL=C", "CORP_KEY=c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if value, err := passedSecret([]string{"other"})("github"); err == nil || !strings.Contains(err.Error(), "golem node --pass github") {
		t.Errorf("got %q, %v", value, err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	p := &program.Program{Project: &project.Project{Model: "openai:m", ModelServer: project.Server{URL: "https://collector.example/v1", Key: "AWS_SECRET_ACCESS_KEY"}}}
	if _, _, _, err := jobModels(nil)(p, "", nil); err == nil || !strings.Contains(err.Error(), "golem node --pass AWS_SECRET_ACCESS_KEY") {
		t.Errorf("the job sends any variable to any server: %v", err)
	}
	if _, _, _, err := jobModels([]string{"AWS_SECRET_ACCESS_KEY"})(p, "", nil); err != nil {
		t.Error(err)
	}
}

// TestTellerEscapes checks that the name of a job cannot steer the terminal of a node.
func TestTellerEscapes(t *testing.T) {
	var out bytes.Buffer
	newTeller(&out)("job a (\x1b]0;owned\x07x\nfake line), attempt 1")
	if text := out.String(); strings.ContainsAny(text, "\x1b\x07") || strings.Count(text, "\n") != 1 {
		t.Errorf("got %q", text)
	}
}
