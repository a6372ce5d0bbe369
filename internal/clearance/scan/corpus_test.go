package scan

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A sample is a file of the corpus.
type sampleFile struct {
	name    string
	content []byte
}

const (
	digits   = "0123456789"
	lowers   = "abcdefghijklmnopqrstuvwxyz"
	uppers   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters  = digits + lowers + uppers
	hexa     = "0123456789abcdef"
	base32   = uppers + "234567"
	notation = letters + "-_"
)

// tokenKinds make secrets that nobody ever issued. Their prefixes are joined here, so
// that no scanner reports this file as a leak.
var tokenKinds = []struct {
	kind string
	make func(of func(alphabet string, n int) string) string
}{
	{"aws", func(of func(string, int) string) string { return "AK" + "IA" + of(base32, 16) }},
	{"github classic", func(of func(string, int) string) string { return "gh" + "p_" + of(letters, 36) }},
	{"github oauth", func(of func(string, int) string) string { return "gh" + "o_" + of(letters, 36) }},
	{"github fine", func(of func(string, int) string) string { return "github" + "_pat_" + of(letters, 82) }},
	{"gitlab", func(of func(string, int) string) string { return "gl" + "pat-" + of(letters, 20) }},
	{"slack bot", func(of func(string, int) string) string {
		return "xo" + "xb-" + of(digits, 12) + "-" + of(digits, 12) + "-" + of(letters, 24)
	}},
	{"slack hook", func(of func(string, int) string) string {
		return "https://hooks.slack" + ".com/services/T" + of(letters, 10) + "/B" + of(letters, 10) + "/" + of(letters, 24)
	}},
	{"stripe", func(of func(string, int) string) string { return "sk" + "_live_" + of(letters, 24) }},
	{"google", func(of func(string, int) string) string { return "AI" + "za" + of(notation[:62], 35) }},
	{"sendgrid", func(of func(string, int) string) string { return "S" + "G." + of(letters, 66) }},
	{"npm", func(of func(string, int) string) string { return "np" + "m_" + of(letters, 36) }},
	{"digitalocean", func(of func(string, int) string) string { return "do" + "p_v1_" + of(hexa, 64) }},
	{"openai", func(of func(string, int) string) string {
		return "sk" + "-" + of(letters, 20) + "T3Blbk" + "FJ" + of(letters, 20)
	}},
	{"anthropic", func(of func(string, int) string) string { return "sk-" + "ant-api03-" + of(letters, 93) + "AA" }},
	{"hugging face", func(of func(string, int) string) string { return "h" + "f_" + of(lowers, 34) }},
	{"shopify", func(of func(string, int) string) string { return "shp" + "at_" + of(hexa, 32) }},
	{"databricks", func(of func(string, int) string) string { return "da" + "pi" + of(hexa, 32) }},
	{"jwt", func(of func(string, int) string) string {
		claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"` + of(digits, 12) + `","name":"x"}`))
		return "ey" + "JhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9." + claims + "." + of(letters, 43)
	}},
	{"private key", func(of func(string, int) string) string {
		return "-----BEGIN RSA PRIV" + "ATE KEY-----\n" + of(letters, 64) + "\n" + of(letters, 64) + "\n-----END RSA PRIVATE KEY-----"
	}},
	{"generic", func(of func(string, int) string) string { return of(letters, 40) }},
}

// carriers put a secret into a file.
var carriers = []struct {
	name string
	put  func(secret string) []byte
}{
	{".env", func(s string) []byte { return []byte("PORT=8080\nAPI_SECRET=" + s + "\nDEBUG=0\n") }},
	{"main.go", func(s string) []byte { return []byte("package main\n\nconst apiSecret = `" + s + "`\n") }},
	{"config.yaml", func(s string) []byte {
		return []byte("server:\n  port: 1\n  api_secret: \"" + strings.ReplaceAll(s, "\n", "\\n") + "\"\n")
	}},
	{"config.json", func(s string) []byte { return fmt.Appendf(nil, "{\n  \"port\": 1,\n  \"api_secret\": %q\n}\n", s) }},
	{"notes.md", func(s string) []byte {
		return []byte("# Notes\n\nUse this:\n\n    api_secret = " + s + "\n\nand go on.\n")
	}},
	{"deploy.sh", func(s string) []byte {
		return []byte("#!/bin/sh\nexport API_SECRET='" + s + "' # gitleaks:allow\ncurl example.com\n")
	}},
	{"encoded.txt", func(s string) []byte {
		return []byte("first line\n" + base64.StdEncoding.EncodeToString([]byte("api_secret = \""+s+"\"\n")) + "\nlast line\n")
	}},
	{"wide.txt", func(s string) []byte { return append([]byte("\xff\xfe"), wide("api_secret = \""+s+"\"\r\n")...) }},
	{"packed.txt.gz", func(s string) []byte { return gzipBytes([]byte("api_secret = \"" + s + "\"\n")) }},
	{"go.sum.txt", func(s string) []byte { return []byte("x v1.0.0 h1:abc=\r\nsecret: '" + s + "'\r\n") }},
}

func gzipBytes(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

// makeLeaks returns 100 secrets, each in 10 carriers.
func makeLeaks(random *rand.Rand) (all []sampleFile) {
	of := func(alphabet string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(b)
	}
	for i := range 5 {
		for _, kind := range tokenKinds {
			token := kind.make(of)
			for _, c := range carriers {
				all = append(all, sampleFile{fmt.Sprintf("leaks/%s/%d/%s", strings.ReplaceAll(kind.kind, " ", "-"), i, c.name), c.put(token)})
			}
		}
	}
	return all
}

// makeCleanFiles returns 1,000 files without a secret: files of the Go project, and files that
// look most like secrets.
func makeCleanFiles(t testing.TB, random *rand.Rand) (all []sampleFile) {
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || len(all) == 700 {
			return err
		}
		// The tests of crypto and net contain real keys.
		if !d.Type().IsRegular() || strings.Contains(p, "testdata") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(p)
		rel, _ := filepath.Rel(root, p)
		all = append(all, sampleFile{"clean/go/" + filepath.ToSlash(rel), content})
		return err
	})
	if err != nil || len(all) != 700 {
		t.Fatalf("got %d files of Go, %v", len(all), err)
	}
	for i := range 300 / len(lookalikes) {
		for _, l := range lookalikes {
			all = append(all, sampleFile{fmt.Sprintf("clean/%d/%s", i, l.name), []byte(l.make(random))})
		}
	}
	return all
}

// lookalikes returns files full of what looks like secrets or hidden data.
var lookalikes = []struct {
	name string
	make func(random *rand.Rand) string
}{
	{"package-lock.json", func(r *rand.Rand) string {
		var b strings.Builder
		b.WriteString("{\n  \"lockfileVersion\": 3,\n  \"packages\": {\n")
		for i := range 40 {
			fmt.Fprintf(&b, "    \"node_modules/js-tokens-%d\": {\n      \"version\": \"1.0.%d\",\n      \"integrity\": \"sha512-%s\"\n    },\n", i, i, randomHash(r))
		}
		return b.String() + "    \"\": {}\n  }\n}\n"
	}},
	{"go.sum", func(r *rand.Rand) string {
		var b strings.Builder
		for i := range 900 {
			fmt.Fprintf(&b, "github.com/some/go-auth-token v1.%d.0 h1:%s\n", i, randomHash(r)[:43]+"=")
		}
		return b.String()
	}},
	{"index.html", func(r *rand.Rand) string {
		return `<!doctype html><script src="https://cdn.example/app.js" integrity="sha384-` + randomHash(r)[:64] + `" crossorigin="anonymous"></script>` + "\n<p>Text.</p>\n"
	}},
	{"app.min.js", func(r *rand.Rand) string {
		var b strings.Builder
		for range 400 {
			fmt.Fprintf(&b, "function %c(e,t){var n=e.key||t[%d];return n&&%c(n,{token:e.token,k:%d})}", 'a'+rune(r.IntN(26)), r.IntN(99), 'a'+rune(r.IntN(26)), r.IntN(999))
		}
		return b.String()
	}},
	{"style.css", func(r *rand.Rand) string {
		return ".a{background:url(data:image/png;base64,iVBORw0KGgo" + strings.TrimRight(randomHash(r)+randomHash(r)+randomHash(r), "=") + ")}\n"
	}},
	{"SHA256SUMS", func(r *rand.Rand) string {
		var b strings.Builder
		for i := range 50 {
			fmt.Fprintf(&b, "%s  file-%d.tar.gz\n", hex.EncodeToString([]byte(randomHash(r))[:32]), i)
		}
		return b.String()
	}},
	{"ids.csv", func(r *rand.Rand) string {
		var b strings.Builder
		for range 50 {
			fmt.Fprintf(&b, "%08x-%04x-4%03x-a%03x-%012x,%d\n", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48), r.IntN(99))
		}
		return b.String()
	}},
	{"values.yaml", func(*rand.Rand) string {
		return "auth:\n  token: ${API_TOKEN}\n  password: {{ .Values.password }}\n  secretName: my-app-secret\n  keyFile: /etc/keys/service.pem\n"
	}},
	{"README.md", func(r *rand.Rand) string {
		return "# Keys\n\nSet `API_KEY=your-api-key-here` and `password: changeme`. See commit " + hex.EncodeToString([]byte(randomHash(r))[:20]) + ".\n"
	}},
	{"persian.txt", func(*rand.Rand) string {
		return strings.Repeat("می\u200cخواهم کتاب\u200cها را بخوانم 👩\u200d👩\u200d👧 🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F\n", 20)
	}},
}

// randomHash returns a hash in base64.
func randomHash(r *rand.Rand) string {
	h := sha512.Sum512(fmt.Append(nil, r.Uint64()))
	return base64.StdEncoding.EncodeToString(h[:])
}

// TestCorpus counts which secrets are found, and which clean files are held.
// GOLEM_SCAN_CORPUS names a directory that the files are written into, for other
// scanners.
func TestCorpus(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	dirty, harmless := makeLeaks(random), makeCleanFiles(t, random)
	if dir := os.Getenv("GOLEM_SCAN_CORPUS"); dir != "" {
		for _, f := range slices.Concat(dirty, harmless) {
			p := filepath.Join(dir, filepath.FromSlash(f.name))
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, f.content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	missed := map[string]int{}
	found := 0
	for _, f := range dirty {
		v := s.Scan(t.Context(), of(f.name, f.content))
		if slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Scanner == secretsName && f.Hold }) {
			found++
			continue
		}
		part := strings.Split(f.name, "/")
		missed[part[1]+" in "+part[3]]++
	}
	secrets, others := 0, 0
	for _, f := range harmless {
		v := s.Scan(t.Context(), of(f.name, f.content))
		for _, finding := range v.Findings {
			if finding.Hold {
				t.Logf("clean content is held: %s: %s %d: %s", f.name, finding.Scanner, finding.Line, finding.What)
			}
		}
		if slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Scanner == secretsName && f.Hold }) {
			secrets++
		} else if v.Held {
			others++
		}
	}
	t.Logf("found %d of %d; of %d clean files %d were held for secrets, %d for something else; missed: %v",
		found, len(dirty), len(harmless), secrets, others, missed)
	if found*1000 < len(dirty)*990 {
		t.Errorf("found %d of %d, want 99 of 100; missed: %v", found, len(dirty), missed)
	}
	if secrets > 3 || others > 5 {
		t.Errorf("of %d clean files %d were held for secrets and %d for something else, want at most 3 and 5", len(harmless), secrets, others)
	}
}
