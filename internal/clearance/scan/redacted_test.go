package scan

import (
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/records/secret"
)

// TestRedacted compares the secrets that scanners know with those that the journal leaves
// out, for all rules whose secrets have a form of their own. The journal must know each
// form, or the rule is in notRedacted. A few samples may pass: the journal wants a digit in a
// token, which nearly all real ones have.
func TestRedacted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	b := book()
	compared := 0
	for _, r := range b.Rules {
		if r.Regex == "" || r.given || r.generic() || strings.Contains(r.Regex, assignment) {
			continue
		}
		tree, err := syntax.Parse(r.Regex, syntax.Perl)
		if err != nil {
			t.Fatal(r.ID, err)
		}
		found, hidden := 0, 0
		for range 40 {
			text := makeSample(random, tree)
			try := &trial{rulebook: b, tries: &tries{}, path: "a.txt", data: []byte(text)}
			anywhere := *r
			anywhere.At, anywhere.Near, anywhere.regex = false, false, lateRegexp(r.Regex)
			try.anywhere(&anywhere, 1)
			for _, h := range try.hits {
				found++
				if slices.ContainsFunc(secret.AppendSpans(nil, text), func(s secret.Span) bool { return s.From <= h.from && s.To >= h.to }) {
					hidden++
				}
			}
		}
		if found == 0 {
			continue
		}
		compared++
		if known := slices.Contains(notRedacted, r.ID); known != (hidden*10 < found*8) {
			t.Errorf("%s: the journal hides %d of %d secrets; in notRedacted: %v", r.ID, hidden, found, known)
		}
	}
	if compared < 80 {
		t.Errorf("compared %d rules: the test checks too little", compared)
	}
	t.Logf("compared %d rules, %d are not redacted", compared, len(notRedacted))
}

// notRedacted are the rules that the journal does not follow, by the reason.
var notRedacted = []string{
	// A name or a place says that they are secrets, and the journal has no files.
	"curl-auth-user", "gitlab-session-cookie", "kubernetes-secret-yaml", "maxmind-license-key", "nuget-config-password",
	"sidekiq-sensitive-url", "assigned-password", "azure-account-key", "basic-auth-header", "command-password",
	"dockerfile-password", "filezilla-password", "jwk-private-key", "kubernetes-env-password", "netrc-password",
	"password-hash", "powershell-password", "putty-private-key", "redis-password", "short-password-name",
	"signed-url", "xml-password", "xml-setting",
	// Their form is too short or too common for a journal, in which many names occur.
	"1password-secret-key", "adobe-client-secret", "airtable-personnal-access-token", "authress-service-client-access-key", "azure-ad-client-secret",
	"clickhouse-cloud-api-secret-key", "facebook-access-token", "facebook-page-access-token", "hashicorp-tf-api-token", "octopus-deploy-api-key",
	"sourcegraph-access-token", "square-access-token", "twilio-api-key", "vault-service-token", "slack-legacy-token",
	"sentry-org-token",
	// The journal hides the secret part of the address, or does not know it.
	"microsoft-teams-webhook", "slack-webhook-url", "discord-webhook-url",
	// The journal hides the real form; the rule, and so its samples, allows more.
	"jwt", "jwt-base64", "npm-access-token", "private-key", "slack-app-token",
	"slack-config-access-token", "slack-config-refresh-token", "huggingface-organization-api-token",
}
