package scan

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// processorTime returns the processor time of this process.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// hostileTexts are pieces that, repeated, make a scanner slow.
func hostileTexts() []string {
	texts := hostileBytes()
	for _, w := range []string{"auth", "key", "token", "secret", "password", "aws_secret", "mysql", "sshpass", "q~", "eyj", "xoxb", "ghp_", "sk_live", "hvs.", "authorization", "machine", "accountkey", "facebook", "sourcegraph", "api_org_"} {
		texts = append(texts, w, w+"=", w+": \"", w+"= ", w+"=aaaaaaaaaaaaaaaa;", w+"\":\"aaaaaaaa", w+" -p")
	}
	return texts
}

// hostileBytes are pieces without a keyword of a secret.
func hostileBytes() []string {
	return []string{"1,", "0x41,", "41 ", "80;", "<g>", "<", "<a:", "<svg ", " on", "onaaaa ", " onaaaa=", "javascript", "vbscript ", "attributename=", "&#", "&#65;", "&amp;", "&lt", "%41", `\x41`, `\101`, `\u0041`,
		"A", "A\n", "QUJDREVGR0hJSktM ", strings.Repeat("QUJD", 20) + "\n", strings.Repeat("41", 40) + "\n", "/", "/JS#", "/J ", "stream", "stream\nz~>endstream", "stream\n41>endstream ", "PK\x05\x06", "PK\x01\x02", "PK\x03\x04",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "BZh91AY&SY", "x\x9c", "x\x9c\x03\x00", "\xff\xfe", "a\x00", "\u200b", "a\u200b", " \t \t\n", "M" + strings.Repeat("A", 60) + "\n", "\n", "\r", " ", "\xff\xd8\xff\xe1\x00\x02", "\x21\xfe\x01a\x00",
		"7z\xbc\xaf\x27\x1c", "Rar!\x1a\x07", "-----BEGIN ", "-----BEGIN RSA PRIVATE KEY-----\n", "://a:b@", "://", "kind: secret\ndata:\n", "kind: secret data: a: ", `"kty":"RSA" `, "eval(", "😀", "é", "TargetMode=\"External\" ", "GPSLatitude"}
}

// TestKeywordsWithoutEnd checks that a file in which a secret may begin at every fifth
// byte is held after as many tries as its size allows, instead of being searched to its
// end.
func TestKeywordsWithoutEnd(t *testing.T) {
	for _, text := range []string{"auth=", "key= \"a", "mysql= "} {
		data := []byte(strings.Repeat(text, 400_000/len(text)))
		n := &tries{}
		if _, err := search(t.Context(), n, "a.txt", data); err == nil {
			t.Errorf("%q: the search reached the end, with %d tries", text, n.used)
		}
		if most := fewTries + len(data)/bytesATry + 4*triesAPart; n.used > most {
			t.Errorf("%q: %d tries, at most %d", text, n.used, most)
		}
	}
	v := newSet(t, Options{}).Scan(t.Context(), of("a.txt", []byte(strings.Repeat("auth=", 100_000))))
	if !v.Held || !strings.Contains(describeVerdict(v), "look like the start of a secret") {
		t.Errorf("got %s", describeVerdict(v))
	}
}

// TestCostGrowsWithSize checks that the time of a scan grows with the size of a file
// and no faster, whatever the file contains.
func TestCostGrowsWithSize(t *testing.T) {
	const small, factor = 16 << 10, 4
	set := newSet(t, Options{Limits: Limits{Time: time.Hour}})
	_ = set.Scan(t.Context(), of("a.txt", []byte(strings.Join(hostileTexts(), "\n")))) // compiles the expressions
	measure := func(name, head, text string, size int) time.Duration {
		data := []byte(head + strings.Repeat(text, size/len(text)+1)[:size])
		start := processorTime(t)
		set.Scan(t.Context(), of(name, data))
		return processorTime(t) - start
	}
	for i, text := range hostileTexts() {
		for _, form := range []struct{ name, head string }{{"a.txt", ""}, {"a.svg", "<svg "}, {"a.pdf", "%PDF-1.7\n"}, {"a.zip", "PK\x03\x04"}} {
			if form.head != "" && i >= len(hostileBytes()) {
				continue // the search for a keyword is the same in each form
			}
			ok := false
			var n, many time.Duration
			for range 3 {
				n = measure(form.name, form.head, text, small)
				many = measure(form.name, form.head, text, factor*small)
				if ok = many < 2*factor*n+50*time.Millisecond; ok {
					break
				}
			}
			if !ok {
				t.Errorf("%q in %s: %v for %d kB, %v for %d kB", text, form.name, n, small>>10, many, factor*small>>10)
			}
		}
	}
}

// TestScansShareTheirMemory checks that large files scanned at the same time take a
// limited amount of memory together.
func TestScansShareTheirMemory(t *testing.T) {
	if text := os.Getenv("GOLEM_TEST_SCAN"); text != "" {
		manyScans(t, text)
		return
	}
	for _, text := range []string{"1,", "<g>"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestScansShareTheirMemory$")
		cmd.Env = append(os.Environ(), "GOLEM_TEST_SCAN="+fmt.Sprintf("%x", text), "GOGC=100", "GOMEMLIMIT=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: %v\n%s", text, err, out)
			continue
		}
		const most = 400 << 20
		if took := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; took > most {
			t.Errorf("%q: took %d MB, at most %d", text, took>>20, most>>20)
		} else {
			t.Logf("%q: took %d MB", text, took>>20)
		}
	}
}

// manyScans scans a file of the maximum size three times at once.
func manyScans(t *testing.T, text string) {
	var raw []byte
	if _, err := fmt.Sscanf(text, "%x", &raw); err != nil {
		t.Fatal(err)
	}
	set := newSet(t, Options{Limits: Limits{Time: 5 * time.Second}})
	name := t.TempDir() + "/a"
	size := int64(32 << 20)
	if err := os.WriteFile(name, []byte(strings.Repeat(string(raw), int(size)/len(raw)+1)[:size]), 0o600); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			v := set.Scan(context.Background(), Content{Path: "a.svg", Size: size, Open: openFile(name)})
			if len(v.Scanners) == 0 && !v.Held {
				t.Error("no scanner examined the content, and it is not held")
			}
		})
	}
	all.Wait()
}

// TestABudgetIsShared checks that a scan waits while others have all of the memory, and
// that its content is held if its time is over.
func TestABudgetIsShared(t *testing.T) {
	b := NewBudget()
	release, err := b.take(t.Context(), budgetBytes)
	if err != nil {
		t.Fatal(err)
	}
	one, other := newSet(t, Options{Budget: b}), newSet(t, Options{Budget: b})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, s := range []*Set{one, other} {
		if v := s.Scan(ctx, of("a.txt", []byte("words"))); !v.Held || !strings.Contains(describeVerdict(v), "too long") {
			t.Errorf("without room: got %s", describeVerdict(v))
		}
	}
	done := make(chan Verdict)
	go func() { done <- one.Scan(t.Context(), of("a.txt", []byte("words"))) }()
	release()
	if v := <-done; v.Held {
		t.Errorf("with room: got %s", describeVerdict(v))
	}
	if b.room != budgetBytes || len(b.queue) != 0 {
		t.Errorf("%d bytes are free, and %d scans wait", b.room, len(b.queue))
	}
}
