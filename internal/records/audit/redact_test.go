package audit_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/records/audit"
)

const gone = "⟨redacted⟩"

// makeToken returns a text as random as a credential. It is built from parts, so that no
// scanner reports this file as a leak.
func makeToken(n int) string { return strings.Repeat("a1B2c3D4e5F6g7H8", n/16+1)[:n] }

// TestCredentials checks that credentials are recognized by their form.
func TestCredentials(t *testing.T) {
	upper := strings.ToUpper(makeToken(16))
	for _, c := range []struct{ name, text, want string }{
		{"Anthropic", "key sk-ant-api03-" + makeToken(90) + "-x.", "key " + gone + "."},
		{"OpenAI", "sk-" + makeToken(48), gone},
		{"OpenAI project", "use sk-proj-" + makeToken(40) + " now", "use " + gone + " now"},
		{"GitHub", "ghp_" + makeToken(36) + " gho_" + makeToken(36) + " ghs_" + makeToken(36), gone + " " + gone + " " + gone},
		{"GitHub, fine", "(github_pat_" + makeToken(22) + "_" + makeToken(59) + ")", "(" + gone + ")"},
		{"GitLab", "glpat-" + makeToken(20), gone},
		{"AWS", "AKIA" + upper + "/ASIA" + upper, gone + "/" + gone},
		{"AWS secret", "aws_secret_access_key = " + makeToken(20) + "/" + makeToken(19), "aws_secret_access_key = " + gone},
		{"Google", "?key=AIza" + makeToken(35) + "&x", "?key=" + gone + "&x"},
		{"Slack", "xoxb-" + makeToken(24) + ",", gone + ","},
		{"Slack hook", "https://hooks.slack.com/services/T0/B0/" + makeToken(24), "https://hooks.slack.com/services/" + gone},
		{"Stripe", "sk_" + "live_" + makeToken(24), gone},
		{"npm", "npm_" + makeToken(36), gone},
		{"Docker", "login -p dckr_pat_" + makeToken(27), "login -p " + gone},
		{"GitLab, deploy", "gldt-" + makeToken(20), gone},
		{"Vault", "(hvs." + makeToken(90) + ")", "(" + gone + ")"},
		{"JWT", "eyJ" + makeToken(20) + "." + makeToken(30) + "." + makeToken(43) + ")", gone + ")"},
		{"PEM", "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\nabc\n-----END RSA PRIVATE KEY-----\nb", "a\n" + gone + "\nb"},
		{"PEM, cut", "-----BEGIN OPENSSH PRIVATE KEY-----\nMIIabc\ndef", gone},
		{"PEM, escaped", `-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----`, gone},
		{"URL", "clone https://me:hunter2@example.com/x", "clone https://me:" + gone + "@example.com/x"},
		{"URL, odd password", "postgres://me:a:b@c@db/x", "postgres://me:" + gone + "@db/x"},
		{"URL with a token", "https://" + makeToken(24) + "@example.com", "https://" + gone + "@example.com"},
		{"URL with a user", "ssh://git@example.com/x", "ssh://git@example.com/x"},
		{"header", "Authorization: Bearer abcdef123456", "Authorization: " + gone},
		{"header, lower case", `{"authorization":"Basic dTpw"}`, `{"authorization":"` + gone + `"}`},
		{"bearer alone", "-H 'bearer abcdef123456'", "-H 'bearer " + gone + "'"},
		{"cookie", "Cookie: a=b; c=d\nHost: x", "Cookie: " + gone + "\nHost: x"},
		{"password=", "x password=hunter2 y", "x password=" + gone + " y"},
		{"PASSWORD in the environment", "DB_PASSWORD=hunter2 make", "DB_PASSWORD=" + gone + " make"},
		{"token=", "a?token=abc&b=c", "a?token=" + gone + "&b=c"},
		{"api_key:", "api_key: abc", "api_key: " + gone},
		{"apiKey in JSON", `{"apiKey":"a b\"c","x":1}`, `{"apiKey":` + gone + `,"x":1}`},
		{"in JSON in JSON", `{\"password\":\"abc\"}`, `{\"password\":` + gone + `}`},
		{"quoted", `secret = "a b" c`, "secret = " + gone + " c"},
		{"a flag", "curl --password hunter2 x", "curl --password " + gone + " x"},
		{"a flag with =", "curl --api-key=hunter2 x", "curl --api-key=" + gone + " x"},

		{"a name", "write /out/task-list-for-the-quarterly-review.md", "write /out/task-list-for-the-quarterly-review.md"},
		{"a module", "read /src/sk-learn-tutorial-for-beginners.md", "read /src/sk-learn-tutorial-for-beginners.md"},
		{"a digest", makeToken(64), makeToken(64)},
		{"words", "the token was refused, the password is asked for", "the token was refused, the password is asked for"},
		{"tokens", "tokens: 1200 of 4000", "tokens: 1200 of 4000"},
		{"a public key", "-----BEGIN PUBLIC KEY-----\nMII", "-----BEGIN PUBLIC KEY-----\nMII"},
		{"a URL", "https://example.com:8080/a@b", "https://example.com:8080/a@b"},
		{"empty", "", ""},
	} {
		if got := audit.Kept(c.text); got != c.want {
			t.Errorf("%s: %q\n got %q\nwant %q", c.name, c.text, got, c.want)
		}
	}
}

// TestExactSecrets checks that known secrets are found in every common encoding.
func TestExactSecrets(t *testing.T) {
	const secret = `pä"s&w/rd <1>`
	quoted, err := json.Marshal(secret)
	ok(t, err)
	for name, text := range map[string]string{
		"as it is":            secret,
		"JSON":                string(quoted[1 : len(quoted)-1]),
		"JSON, plainly":       `pä\"s&w/rd <1>`,
		"query":               url.QueryEscape(secret),
		"path":                url.PathEscape(secret),
		"query, lower case":   strings.ToLower(url.QueryEscape(secret)),
		"hexadecimal":         hex.EncodeToString([]byte(secret)),
		"base64":              base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64, URL":         base64.URLEncoding.EncodeToString([]byte(secret)),
		"base64 of user:pass": base64.StdEncoding.EncodeToString([]byte("u:" + secret)),
		"base64, one before":  base64.StdEncoding.EncodeToString([]byte(":" + secret + "12345")),
		"twice":               secret + secret,
		"capitals":            `Pä"S&W/RD <1>`,
		"hexadecimal, upper":  strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"in an expression":    regexp.QuoteMeta(secret),
	} {
		if got := audit.Kept("<"+text+">", secret+"\n", "short"); got != "<"+gone+">" {
			t.Errorf("%s: %q: got %q", name, text, got)
		}
	}
	if got := audit.Kept("a short text", "short"); got != "a short text" {
		t.Errorf("a value that is too short to look for: got %q", got)
	}
	for _, c := range []struct{ name, secret, text, want string }{
		{"a path", "/run//s3cret/./token/", "read /run/s3cret/token", "read " + gone},
		{"a path, by its names", "/run//s3cret/./token/", "cat run/s3cret/token", "cat " + gone},
		{"a path without its end", "/run/s3cret/", "ls /run/s3cret now", "ls " + gone + " now"},
		{"a path as it was written", "/run//s3cret//", "cat run//s3cret now", "cat " + gone + " now"},
		{"a line of many", "first line\nsecond line\n\nthird", "has the SECOND LINE here", "has the " + gone + " here"},
		{"a line that is short", "first line\nthird", "the third one", "the third one"},
		{"a line with CRLF", "first line\r\nsecond line", "first line", gone},
		{"a key's own words", "-----BEGIN EC PARAMETERS-----\nMHcCAQEEIP\n-----END EC PARAMETERS-----", "-----BEGIN EC PARAMETERS----- MHcCAQEEIP", "-----BEGIN EC PARAMETERS----- " + gone},
		{"an expression", "a+b(c)d*", `s/a\+b\(c\)d\*/x/`, "s/" + gone + "/x/"},
		{"capitals", "correcthorse", "CorrectHorse", gone},
		{"capitals of a short one", "horses", "Horses", "Horses"},
		{"a short code", "a1b2", "code a1b2.", "code " + gone + "."},
		{"a short word", "true", "true", "true"},
		{"a short number", "8080", "port 8080", "port 8080"},
		{"shorter still", "a1b", "a1b", "a1b"},
		{"slashes alone", "///////", "a / b", "a / b"},
	} {
		if got := audit.Kept(c.text, c.secret); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := audit.Kept("xabcabcdefy", "abcabc", "abcdef"); got != "x"+gone+"y" {
		t.Errorf("values that overlap: got %q", got)
	}
}

// TestNoSecretOnDisk checks that no file of the state directory contains a secret,
// wherever in a record it was.
func TestNoSecretOnDisk(t *testing.T) {
	dir := t.TempDir()
	const secret, number = "correct horse battery", "8675309123"
	token := "ghp_" + makeToken(36)
	j := openJournal(t, dir, audit.Options{Session: "s " + secret, Secrets: []string{secret, number}})
	type named struct{ Password, Deep string }
	for _, s := range []string{secret, token, "x" + secret + token + "y", base64.StdEncoding.EncodeToString([]byte("me:" + secret)), strings.Repeat("long ", 2000) + secret + token} {
		r := audit.Record{
			Kind: audit.Intent, Call: s, Session: s, Origin: s, Workers: []string{"a", s}, Tool: s,
			Args: map[string]any{
				"text": s, s: 1, "deep": []any{map[string]any{"x": []any{s}}}, "typed": []string{s}, "struct": &named{"hunter2", s},
				"password": "hunter2", "MY_TOKEN": "hunter2", "number": 8675309123, "float": 8675309123.0, "json": json.Number(number),
				"raw": json.RawMessage(`{"a":"` + s + `"}`), "bytes": []byte(s), "error": fmt.Errorf("no: %s", s),
			},
			Effects: []string{"write /" + s}, Decision: s, By: s, Seen: s, Digest: s, Request: s, Code: s, Note: s,
		}
		ok(t, j.Write(r, audit.Durable))
		r.Kind = audit.Outcome
		ok(t, j.Write(r, audit.Queued))
	}
	ok(t, j.Close())
	checkWhole(t, dir, 10)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	ok(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		ok(t, err)
		for _, s := range []string{secret, number, "8675309123", token, "hunter2", base64.StdEncoding.EncodeToString([]byte(secret))[:20]} {
			if i := bytes.Index(data, []byte(s)); i >= 0 {
				t.Errorf("%s has %q: …%s", filepath.Base(file), s, data[max(0, i-60):i+len(s)])
			}
		}
	}
	rs, _ := readRecords(t, dir, audit.Filter{})
	if got := rs[0].Args["deep"]; fmt.Sprint(got) != "[map[x:["+gone+"]]]" {
		t.Errorf("got %v, want the text around the secret unchanged", got)
	}
}

// TestRecordSizeLimit checks that the size of a record is limited, and that the record says what
// was cut.
func TestRecordSizeLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir, audit.Options{})
	deep := any("deep")
	for range 100 {
		deep = []any{deep}
	}
	wide := map[string]any{}
	for i := range 2000 {
		wide[fmt.Sprint("member", i)] = strings.Repeat("w", 100)
	}
	for name, text := range map[string]string{
		"plain": strings.Repeat("x", 5000), "control": strings.Repeat("\x00\x1b", 5000), "invalid": strings.Repeat("\xff\xc0", 5000),
		"wide characters": strings.Repeat("検査", 1000), "separators": strings.Repeat("\u2028", 3000), "quotes": strings.Repeat(`"\`, 3000),
		"huge": strings.Repeat("x", 1<<20), "line ends": strings.Repeat("a\n", 3000),
	} {
		var texts []string
		for range 500 {
			texts = append(texts, text)
		}
		ok(t, j.Write(audit.Record{
			Kind: audit.Refusal, Call: name, Tool: text, By: text, Note: text, Code: text, Decision: text, Origin: text,
			Workers: texts, Effects: texts,
			Args: map[string]any{
				"deep": deep, "wide": wide, "text": text, text: texts, "nan": math.NaN(), "inf": float32(math.Inf(1)), "chan": make(chan int),
				"bad": json.Number("x" + text), "func": func() {}, "nil": nil, "list": make([]any, 3000),
			},
		}, audit.Written))
	}
	ok(t, j.Close())
	checkWhole(t, dir, 8)
	rs, lines := readRecords(t, dir, audit.Filter{Kind: "refusal"})
	if len(rs) != 8 {
		t.Fatalf("got %d records, want 8", len(rs))
	}
	for i, r := range rs {
		if len(lines[i]) > 64<<10 {
			t.Errorf("%s: a line of %d bytes", r.Call, len(lines[i]))
		}
		if n := len(r.Effects); n != 64 || r.Effects[63] != "⟨and 437 more⟩" {
			t.Errorf("%s: %d effects, the last %q", r.Call, n, r.Effects[n-1])
		}
		if r.Call == "plain" && (!strings.HasSuffix(r.Tool, "x⟨3976 bytes cut⟩"+strings.Repeat("x", 512)) || len(r.Tool) > 1100) {
			t.Errorf("got %q", r.Tool)
		}
		if r.Call == "huge" && r.Tool != "⟨1048576 bytes⟩" {
			t.Errorf("got %q", r.Tool)
		}
		if r.Call == "wide characters" && strings.ContainsRune(r.Tool, '\ufffd') {
			t.Errorf("cut inside a character: %q", r.Tool)
		}
	}
}

// FuzzRedact checks that a secret is removed, whatever is around it.
func FuzzRedact(f *testing.F) {
	f.Add("before ", "correct horse", " after")
	f.Add("sk-", `quo"ted\`, "=")
	f.Add("password=", "hunter2hunter2", "\x00\xff")
	f.Add(strings.Repeat("x", 1010), "across the cut", strings.Repeat("y", 600))
	f.Add("a", "aaaaaa", "aaaa")
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		if len(secret) < 6 || strings.TrimSpace(secret) == "" {
			return
		}
		// Text that the journal itself adds may contain characters of the secret.
		for _, own := range []string{gone, "⟨0123456789 bytes cut⟩", "⟨0123456789 bytes⟩"} {
			if strings.ContainsAny(secret, own) && strings.Trim(secret, own) == "" {
				return
			}
		}
		token := "ghp_" + makeToken(36)
		for _, text := range []string{before + secret + after, before + token + secret + after, before + secret + token + after} {
			got := audit.Kept(text, secret)
			if strings.Contains(got, secret) {
				t.Errorf("%q keeps %q: %q", text, secret, got)
			}
			if strings.Contains(text, token) && strings.Contains(got, token) {
				t.Errorf("%q has the token: %q", text, got)
			}
		}
		for shift := range 3 {
			coded := base64.StdEncoding.EncodeToString([]byte(before[:min(shift, len(before))] + secret + after))
			kept := audit.Kept(coded, secret)
			if plain, err := base64.StdEncoding.DecodeString(kept); err == nil && bytes.Contains(plain, []byte(secret)) {
				t.Errorf("%q keeps %q", coded, secret)
			}
		}
	})
}

// FuzzWrite checks that any record becomes one line and that the journal stays whole.
func FuzzWrite(f *testing.F) {
	f.Add("call", "note", "key", "value")
	f.Add("\",\"seal\":\"", "\n\r\u2028", ",\"prev\":\"", "\xff\x00")
	f.Add(`","kind":"mend`, `"}`, `{"n":1`, `\`)
	f.Fuzz(func(t *testing.T, call, note, name, value string) {
		dir := t.TempDir()
		j := openJournal(t, dir, audit.Options{Session: value})
		for _, kind := range []audit.Kind{audit.Intent, audit.Refusal, audit.Intent, audit.Outcome} {
			ok(t, j.Write(audit.Record{Kind: kind, Call: call, Note: note, Args: map[string]any{name: value}, Effects: []string{value}}, audit.Written))
		}
		ok(t, j.Close())
		r := checkWhole(t, dir, 4)
		if len(r.Open) > 0 || r.Repairs != nil {
			t.Errorf("got %+v", r)
		}
	})
}
