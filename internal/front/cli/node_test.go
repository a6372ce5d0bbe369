package cli

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
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
	if _, err := jobModels(&job.Limits{})(p, "", nil); err == nil || !strings.Contains(err.Error(), "golem node --pass AWS_SECRET_ACCESS_KEY") {
		t.Errorf("the job sends any variable to any server: %v", err)
	}
	limits := &job.Limits{Names: []string{"AWS_SECRET_ACCESS_KEY"}}
	if err := limits.ParseReach("collector.example"); err != nil {
		t.Fatal(err)
	}
	if _, err := jobModels(limits)(p, "", nil); err != nil {
		t.Error(err)
	}
}

// TestJobModelServers checks that a job uses only model servers of vendors, and those that the
// user of the node names.
func TestJobModelServers(t *testing.T) {
	for _, name := range []string{"OPENAI_BASE_URL", "OLLAMA_HOST", "ANTHROPIC_BASE_URL"} {
		t.Setenv(name, "")
	}
	t.Setenv("OPENAI_API_KEY", "k")
	t.Setenv("ANTHROPIC_API_KEY", "k")
	open := func(model, url string, reach ...string) error {
		limits := &job.Limits{}
		for _, text := range reach {
			if err := limits.ParseReach(text); err != nil {
				t.Fatal(err)
			}
		}
		_, err := jobModels(limits)(&program.Program{Project: &project.Project{Model: model, ModelServer: project.Server{URL: url}}}, "", nil)
		return err
	}
	for _, one := range []struct {
		model, url string
		reach      []string
		want       string // of the flag that would allow it
	}{
		{"openai:m", "", nil, ""},
		{"openai:m", "https://api.openai.com/v1/", nil, ""},
		{"openai:m", "https://openrouter.ai/api/v1/", nil, ""},
		{"openai:m", "http://169.254.169.254/latest/", nil, "--reach 169.254.169.254"},
		{"openai:m", "http://10.0.0.8:8080/admin/", nil, "--reach 10.0.0.8:8080"},
		{"openai:m", "http://localhost:9200/", nil, "--reach localhost:9200"},
		{"openai:m", "https://collector.example/v1", nil, "--reach collector.example"},
		{"openai:m", "https://api.openai.com.collector.example/v1", nil, "--reach api.openai.com.collector.example"},
		{"openai:m", "http://api.openai.com/v1/", nil, "--reach api.openai.com"},
		{"openai:m", "http://10.0.0.8:8080/v1/", []string{"10.0.0.8:8080"}, ""},
		{"openai:m", "http://10.0.0.8:22/v1/", []string{"10.0.0.8:8080"}, "--reach 10.0.0.8:22"},
		{"ollama:m", "", nil, "--reach localhost:11434"},
		{"ollama:m", "", []string{"localhost:11434"}, ""},
		{"ollama:m", "http://10.0.0.8:11434/v1/", []string{"all"}, ""},
	} {
		err := open(one.model, one.url, one.reach...)
		if one.want == "" && err != nil || one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
			t.Errorf("%s at %s with --reach %v: got %v, want %q", one.model, one.url, one.reach, err, one.want)
		}
	}
	t.Setenv("OLLAMA_HOST", "http://10.0.0.9:11434") // the user of the node names it
	if err := open("ollama:m", "http://10.0.0.8:11434/v1/"); err != nil {
		t.Error(err)
	}
	layer, err := project.ParsePolicy("policy.yaml", []byte(`models: ["ollama:*"]`), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &program.Program{Project: &project.Project{Model: "ollama:m", Ceiling: project.Ceiling{layer}}}
	if _, err := jobModels(&job.Limits{})(p, "", nil); sandbox.CodeOf(err) != "blocked" {
		t.Errorf("a policy lists models: %v", err)
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

// TestNodeRole checks that golem node refuses credentials of another role before it connects.
func TestNodeRole(t *testing.T) {
	seed, _, err := hub.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.CreateServer()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "creds")
	if err := (hub.Credentials{Hub: key, URLs: []string{"nats://127.0.0.1:1"}, Role: hub.Approve, Name: "reviewer", Seed: seed}).Write(file); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := runArgs([]string{"node", "--creds", file, "--dir", t.TempDir()}, &out, &errs, Fronts{})
	if code != exitUsage || !strings.Contains(errs.String(), "for the role approve; golem hub invite --role node") {
		t.Errorf("got %d, %q", code, errs.String())
	}
}
