package secret_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/records/secret"
)

func TestPublicPrefix(t *testing.T) {
	for value, want := range map[string]string{
		"sk-ant-api03-AbCdEf":       "sk-ant-api03-",
		"sk-ant-new99-AbCdEf":       "sk-ant-",
		"sk-proj-REALKEY-abc":       "sk-proj-",
		"sk-REALKEY-abc":            "sk-",
		"REALKEY-abc-def":           "",
		"github_pat_11ABC_def":      "github_pat_",
		"ghp_abc":                   "ghp_",
		"ghp_":                      "",
		"dop_v1_0123":               "dop_v1_",
		"eyJhbGciOi.eyJzdWIi.c2ln":  "eyJhbGciOi.eyJzdWIi.",
		"eyJhbGciOi.eyJzdWIi.":      "",
		"eyJhbGciOi.a.b.c":          "",
		"company-internal-key-0123": "",
	} {
		if got := secret.PublicPrefix(value); got != want {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
}
