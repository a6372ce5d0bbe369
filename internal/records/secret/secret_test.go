package secret_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/records/secret"
)

// TestIsVariable checks which names of variables look like secrets.
func TestIsVariable(t *testing.T) {
	for _, name := range strings.Fields(`API_KEY OPENAI_API_KEY GITHUB_TOKEN npm_config__auth DB_PASS DBPASSWORD PGPASSWORD MYSQL_PWD GITHUB_PAT
		AWS_SECRET_ACCESS_KEY GOOGLE_CREDENTIALS OAUTH AUTH AUTHORIZATION BASIC_AUTH_USER SESSION_COOKIE jwt MY_BEARER SENTRY_DSN TLS_PEM CARD_PIN
		OTP_SEED WALLET_MNEMONIC SLACK_WEBHOOK_URL CONNECTION_STRING AZURE_CONNECTIONSTRING PRIVATE PASSPHRASE AUTHORISATION`) {
		if !secret.IsVariable(name) {
			t.Errorf("%s: got false, want true", name)
		}
	}
	for _, name := range strings.Fields(`PATH PWD OLDPWD HOME USER LANG TERM SHELL EDITOR GOPATH MANPATH SSH_AUTH_SOCK KEY_PATH SECRETS_DIR
		AWS_SHARED_CREDENTIALS_FILE XAUTHORITY GIT_AUTHOR_NAME AUTHOR CI DISPLAY HOSTNAME TZ SPINNER PATTERN GOLEM_STATE XDG_STATE_HOME`) {
		if secret.IsVariable(name) {
			t.Errorf("%s: got true, want false", name)
		}
	}
}

// TestHideModelKeys checks that parts of keys are hidden, and other words are not.
func TestHideModelKeys(t *testing.T) {
	for text, want := range map[string]string{
		"Incorrect API key provided: sk-abcd***wxyz.": "Incorrect API key provided: [key].",
		"AIzaSyA1b2 and sk-ant-api03-x":               "[key] and [key]",
		"ask-me task-1234 sk-1":                       "ask-me task-1234 sk-1",
		"sk-ab$1":                                     "sk-ab$1",
	} {
		if got := secret.HideModelKeys(text, "[key]"); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if got := secret.HideModelKeys("sk-abcdef", "$1"); got != "$1" {
		t.Errorf("got %s, want the given mask", got)
	}
}

// TestAppendSpans checks that spans are added to those given, and hold only the secret.
func TestAppendSpans(t *testing.T) {
	const text = "curl -H 'Authorization: Bearer abcdefgh12' https://user:pa55word@host/"
	spans := secret.AppendSpans([]secret.Span{{From: 0, To: 4}}, text)
	var found []string
	for _, s := range spans {
		found = append(found, text[s.From:s.To])
	}
	all := strings.Join(found, " ")
	if found[0] != "curl" || !strings.Contains(all, "abcdefgh12") || !strings.Contains(all, "pa55word") || strings.Contains(all, "host") || strings.Contains(all, "user") {
		t.Errorf("got %q", found)
	}
	if spans := secret.AppendSpans(nil, "nothing of interest in here"); spans != nil {
		t.Errorf("got %v", spans)
	}
}
