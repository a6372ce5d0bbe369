package scan

import (
	"bytes"
	"context"
	"encoding/ascii85"
	"encoding/base64"
	be "encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// newSet returns a Set, or fails the test.
func newSet(t testing.TB, o Options) *Set {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// describeVerdict returns everything in a verdict, one line each.
func describeVerdict(v Verdict) string {
	var b strings.Builder
	for _, f := range v.Findings {
		fmt.Fprintf(&b, "%s hold=%v line=%d offset=%d: %s\n", f.Scanner, f.Hold, f.Line, f.Offset, f.What)
	}
	return b.String()
}

// A scanCase is a content and the expected finding: a part of a line of says. With no
// expected finding it must not be held.
type scanCase struct {
	name, path string
	content    []byte
	want       string
}

func check(t *testing.T, s *Set, cases []scanCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v := s.Scan(t.Context(), of(c.path, c.content))
			got := describeVerdict(v)
			if strings.Contains(got, "0123456789abcdefghij") {
				t.Errorf("a secret is shown:\n%s", got)
			}
			if c.want == "" && v.Held {
				t.Errorf("clean content is held:\n%s", got)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("want %q, got:\n%s", c.want, got)
			}
		})
	}
}

// randomBytes returns data that cannot be compressed.
func randomBytes(n int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func wrapText(text string, width int) string {
	var b strings.Builder
	for len(text) > width {
		b.WriteString(text[:width] + "\n")
		text = text[width:]
	}
	return b.String() + text + "\n"
}

// TestMalware checks that the EICAR test file is found, also inside of archives and encodings.
func TestMalware(t *testing.T) {
	e := string(eicar())
	encoded := base64.StdEncoding.EncodeToString([]byte(e))
	bigEndian := append([]byte{0}, wide(e)...)
	const want = "malware hold=true"
	check(t, newSet(t, Options{}), []scanCase{
		{"plain", "a.com", []byte(e), want},
		{"in a text", "a.txt", []byte("before\n" + e + "\nafter\n"), "line=2 offset=7: the EICAR"},
		{"zip", "a.zip", makeZip(member{"x/a.txt", e}), "in x/a.txt: the EICAR"},
		{"tar.gz", "a.tar.gz", gzipBytes(makeTar(member{"a.txt", e})), "in a.tar, in a.txt: the EICAR"},
		{"zip in tar.gz in zip", "a.zip", makeZip(member{"b.tgz", string(gzipBytes(makeTar(member{"c.zip", string(makeZip(member{"a", e}))})))}), want},
		{"zip behind an image", "a.png", append(png(), makeZip(member{"a", e})...), want},
		{"zip without its name", "a.txt", makeZip(member{"a", e}), want},
		{"base64", "a.txt", []byte("data: " + encoded + "\n"), want},
		{"base64 in lines", "a.txt", []byte("Here:\n" + wrapText(encoded, 76)), want},
		{"base64 in lines that are indented", "a.yaml", []byte("a: |\n  " + strings.ReplaceAll(wrapText(encoded, 60), "\n", "\n  ") + "\nb: 1\n"), want},
		{"base64 twice", "a.txt", []byte(base64.StdEncoding.EncodeToString([]byte(encoded))), want},
		{"base64 of a zip", "a.txt", []byte(base64.StdEncoding.EncodeToString(makeZip(member{"a", e}))), want},
		{"hexadecimal", "a.txt", []byte(hex.EncodeToString([]byte(e))), want},
		{"percent signs", "a.txt", []byte("x = " + escapedAs("%%%02X", e) + "\n"), want},
		{"numbers of Unicode", "a.json", []byte(`{"x": "` + escapedAs(`\u%04x`, e) + `"}`), want},
		{"base64 with percent signs", "a.txt", []byte("x?y=" + strings.ReplaceAll(encoded, "=", "%3D")), want},
		{"UTF-16 with its mark", "a.txt", append([]byte("\xff\xfe"), wide(e)...), want},
		{"UTF-16 without", "a.txt", wide(e), want},
		{"UTF-16, the other order", "a.txt", bigEndian[:len(bigEndian)-1], want},
		{"stream of a PDF", "a.pdf", pdfStream(e), want},
		{"text of an image", "a.png", png("zTXt", "k\x00\x00"+deflate(e)), want},
		{"bzip2 is opened", "a.bz2", bzip2ed(t), "in a: aws-access-token"},
		{"not quite", "a.txt", []byte(e[:40]), ""},
	})
}

// escapedAs writes every letter as its number.
func escapedAs(format, text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, format, text[i])
	}
	return b.String()
}

// bzip2ed is a file with a token that nobody ever issued. Go has no bzip2 writer, so
// python3 made it.
func bzip2ed(t *testing.T) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", "-c", "import bz2,sys; sys.stdout.buffer.write(bz2.compress(sys.stdin.buffer.read()))")
	cmd.Stdin = strings.NewReader("key AK" + "IA" + "QWERTYUIOPASDFGH\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBombs checks that content which cannot be examined completely is held, and takes no
// more memory than the limits allow.
func TestBombs(t *testing.T) {
	limits := Limits{Size: 1 << 20, Expanded: 4 << 20, Entries: 200, Depth: 4}
	s := newSet(t, Options{Limits: limits})
	zeros := strings.Repeat("\x00", 8<<20)
	nested := makeZip(member{"0", zeros})
	for range 4 {
		var all []member
		for i := range 10 {
			all = append(all, member{fmt.Sprint(i, ".zip"), string(nested)})
		}
		nested = makeZip(all...)
	}
	deep := []byte("bottom")
	for range 6 {
		deep = makeZip(member{"in.zip", string(deep)})
	}
	var many []member
	for i := range 300 {
		many = append(many, member{fmt.Sprint(i), "x"})
	}
	cut := gzipBytes([]byte("some text"))
	locked := makeZip(member{"a", "text"})
	for i := bytes.Index(locked, []byte("PK\x01\x02")); i >= 0; i = -1 {
		locked[i+8] |= 1
	}
	for _, c := range []struct {
		name, path string
		content    []byte
		want       string
	}{
		{"gzip of zeros", "a.gz", gzipBytes([]byte(zeros)), "bytes"},
		{"gzip in gzip", "a.gz.gz", gzipBytes(gzipBytes([]byte(zeros))), ""},
		{"four levels of ten", "a.zip", nested, ""},
		{"deeper than the limit", "a.zip", deep, "limit of 4"},
		{"more entries than the limit", "a.zip", makeZip(many...), "more entries than the limit of 200"},
		{"more entries in a tar", "a.tar", makeTar(many...), "more entries than the limit of 200"},
		{"entries that overlap", "a.zip", makeOverlappingZip(40), "overlap"},
		{"stream of a PDF", "a.pdf", pdfStream(zeros), "bytes"},
		{"text of an image", "a.png", png("zTXt", "k\x00\x00"+deflate(zeros)), "bytes"},
		{"base64 of a bomb", "a.txt", []byte(base64.StdEncoding.EncodeToString(gzipBytes([]byte(zeros)))), ""},
		{"larger than the limit", "a.txt", []byte(zeros), "the limit is 1048576"},
		{"an entry that is in no list", "a.zip", makeUnlistedZip(2, 1), "hidden data"},
		{"a first entry that is in no list", "a.zip", makeUnlistedZip(2, 0), "hidden data"},
		{"a last entry that is in no list", "a.zip", makeUnlistedZip(2, 2), "hidden data"},
		{"a folder with data", "a.zip", bytes.ReplaceAll(makeZip(member{"ab", "text and text"}), []byte("ab"), []byte("a/")), "a directory with data"},
		{"no list", "a.zip", makeUnlistedZip(0, 0), "hidden data"},
		{"cut off", "a.gz", cut[:len(cut)-6], "gzip"},
		{"data behind", "a.gz", append(gzipBytes([]byte("text")), "more"...), "gzip"},
		{"data behind a tar", "a.tar", append(makeTar(member{"a", "b"}), "more"...), "after its end"},
		{"encrypted", "a.zip", locked, "encrypted"},
		{"7z", "a.7z", []byte("7z\xbc\xaf\x27\x1c\x00\x04"), "golem cannot read 7z"},
		{"xz in a zip", "a.zip", makeZip(member{"a.xz", "\xfd7zXZ\x00\x00\x04"}), "golem cannot read xz"},
		{"zstd", "a.zst", []byte("\x28\xb5\x2f\xfd\x24\x00"), "zstd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			v := s.Scan(t.Context(), of(c.path, c.content))
			runtime.ReadMemStats(&after)
			got := describeVerdict(v)
			if !v.Held || !strings.Contains(got, "limits hold=true") || !strings.Contains(got, c.want) {
				t.Errorf("want held by limits with %q, got:\n%s", c.want, got)
			}
			// This counts all allocations, not only the memory in use at once: reading
			// doubles its buffer, and every scanner may copy.
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 30*uint64(limits.Expanded) {
				t.Errorf("took %d bytes", taken)
			}
		})
	}
}

// makeUnlistedZip returns an archive of n files, with one more before the given one that its
// list does not name.
func makeUnlistedZip(n, at int) []byte {
	var names []member
	for i := range n + 1 {
		names = append(names, member{fmt.Sprint(i), "text"})
	}
	all := makeZip(names...)
	start, end := bytes.Index(all, []byte("PK\x01\x02")), zipEnd(all)
	size := (end - start) / (n + 1)
	entries := slices.Delete(slices.Clone(all[start:end]), at*size, (at+1)*size)
	last := slices.Clone(all[end:])
	be.LittleEndian.PutUint16(last[8:], uint16(n))
	be.LittleEndian.PutUint16(last[10:], uint16(n))
	be.LittleEndian.PutUint32(last[12:], uint32(len(entries)))
	return slices.Concat(all[:start], entries, last)
}

// makeOverlappingZip returns an archive whose entries all have the same data.
func makeOverlappingZip(n int) []byte {
	one := makeZip(member{"a", string(randomBytes(2000))})
	start := bytes.Index(one, []byte("PK\x01\x02"))
	end := zipEnd(one)
	var entries []byte
	for range n {
		entries = append(entries, one[start:end]...)
	}
	last := slices.Clone(one[end:])
	be.LittleEndian.PutUint16(last[8:], uint16(n))
	be.LittleEndian.PutUint16(last[10:], uint16(n))
	be.LittleEndian.PutUint32(last[12:], uint32(len(entries)))
	return slices.Concat(one[:start], entries, last)
}

// TestRepeatedParts checks that small content which names its parts many times, or has very many
// of them, takes neither much memory nor much time.
func TestRepeatedParts(t *testing.T) {
	s := newSet(t, Options{})
	long := strings.Repeat("x", 60_000)
	fields := be.BigEndian.AppendUint16([]byte("MM\x00*\x00\x00\x00\x08"), 60_000)
	for range 60_000 {
		fields = append(fields, "\x01\x0e\x00\x02\x00\x00\xea\x60\x00\x00\x00\x10"...)
	}
	for _, c := range []struct {
		name, path string
		content    string
	}{
		{"encoded words", "a.txt", strings.Repeat("QUJDREVGR0hJSktM ", 60_000)},
		{"encoded lines", "a.txt", strings.Repeat("QUJDREVGR0hJSktMQUJDREVGR0hJSktMQUJDREVGR0hJSktM\n", 20_000)},
		{"fields that share a text", "a.tif", string(fields)},
		{"frames", "a.mp3", "ID3\x03\x00\x00\x7f\x7f\x7f\x7f" + strings.Repeat("TXXX\x00\x00\x00\x01\x00\x00x", 90_000)},
		{"chunks", "a.png", string(png(slices.Repeat([]string{"seCr", ""}, 80_000)...))},
		{"streams", "a.pdf", "%PDF-1.7\n" + strings.Repeat("stream\nx\x9c\x03\x00\n", 60_000)},
		{"keys that do not end", "a.txt", strings.Repeat("-----BEGIN PRIVATE KEY-----\n", 300) + long},
		{"names of tokens", "a.txt", strings.Repeat("token = ", 60_000)},
		{"tokens", "a.txt", strings.Repeat("gh"+"p_0123456789abcdefghijABCDEFGHIJklmnop\n", 20_000)},
		{"letters of two bytes", "a.txt", strings.Repeat("w\x00", 500_000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			v := s.Scan(t.Context(), of(c.path, []byte(c.content)))
			runtime.ReadMemStats(&after)
			if got := describeVerdict(v); strings.Contains(got, "too long") || len(v.Findings) > 6*mostFindings {
				t.Errorf("got %d findings:\n%s", len(v.Findings), got)
			}
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 200<<20 {
				t.Errorf("allocated %d bytes for %d", taken, len(c.content))
			}
		})
	}
}

// TestLimits checks that changed limits apply.
func TestLimits(t *testing.T) {
	content := of("a.zip", makeZip(member{"a", strings.Repeat("some words ", 40_000)}))
	if v := newSet(t, Options{}).Scan(t.Context(), content); v.Held {
		t.Errorf("held by the defaults:\n%s", describeVerdict(v))
	}
	for _, l := range []Limits{{Size: 1000}, {Expanded: 1000}, {Time: 1}} {
		if v := newSet(t, Options{Limits: l}).Scan(t.Context(), content); !v.Held {
			t.Errorf("%+v: not held", l)
		}
	}
	if _, err := New(Options{Limits: Limits{Depth: -1}}); err == nil {
		t.Error("a negative limit was accepted")
	}
}

// runHere runs programs as the jail would.
func runHere(ctx context.Context, argv []string, stdin io.Reader) ([]byte, int, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin = stdin
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return out, exit.ExitCode(), nil
	}
	return out, 0, err
}

// TestExternal checks how exit codes and output of an external scanner are read.
func TestExternal(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         string // empty: clean
	}{
		{"clean", `cat >/dev/null`, ""},
		{"clean, with words", `cat >/dev/null; echo all is well`, ""},
		{"findings", `cat >/dev/null; echo one; echo two; exit 1`, "mine hold=true line=0 offset=0: two"},
		{"gets the bytes", `grep -c needle; exit 1`, ": 1\n"},
		{"escapes", `cat >/dev/null; printf 'a\033[31mb\n'; exit 1`, "a\uFFFD[31mb"},
		{"does not read", `exit 0`, ""},
		{"findings that are none", `exit 1`, "cannot tell: it exited with 1"},
		{"fails", `exit 2`, "cannot tell: it exited with 2"},
		{"is killed", `kill -9 $$`, "cannot tell"},
		{"garbage", `printf '\377\376'; exit 1`, "cannot tell: its output is not text"},
		{"a flood", `head -c 2000000 /dev/zero; exit 0`, "cannot tell: its output is larger"},
		{"hangs", `exec sleep 60`, "cannot tell: it took too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			limits := Limits{}
			if c.name == "hangs" {
				limits.Time = 300 * time.Millisecond
			}
			s := newSet(t, Options{Limits: limits, Run: runHere, External: []Command{{Name: "mine", Argv: []string{"sh", "-c", c.script}}}})
			v := s.Scan(t.Context(), of("a.txt", []byte("a needle\n")))
			got := describeVerdict(v)
			if v.Held != (c.want != "") || !strings.Contains(got, c.want) || v.Held && !strings.Contains(got, "mine hold=true") {
				t.Errorf("want %q, got held=%v:\n%s", c.want, v.Held, got)
			}
		})
	}
	missing := newSet(t, Options{Run: runHere, External: []Command{{Name: "mine", Argv: []string{"there-is-no-such-program"}}}})
	if v := missing.Scan(t.Context(), of("a", []byte("x"))); !v.Held || !strings.Contains(describeVerdict(v), "mine hold=true") {
		t.Errorf("a scanner that is missing: got %s", describeVerdict(v))
	}
	for _, o := range []Options{
		{External: []Command{{Name: "mine", Argv: []string{"true"}}}},
		{Run: runHere, External: []Command{{Name: "mine"}}},
		{Run: runHere, External: []Command{{Argv: []string{"true"}}}},
		{Run: runHere, External: []Command{{Name: "secrets", Argv: []string{"true"}}}},
		{Scanners: []string{"secret"}}, {Clamscan: []string{"clamscan"}}, {Yara: []Content{of("a.yar", nil)}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v: accepted", o)
		}
	}
}

// TestEngines uses shell scripts in the place of clamscan, and checks what yara gets.
func TestEngines(t *testing.T) {
	speak := func(script string) Run {
		return func(ctx context.Context, _ []string, stdin io.Reader) ([]byte, int, error) {
			return runHere(ctx, []string{"sh", "-c", script}, stdin)
		}
	}
	for _, c := range []struct{ name, engine, script, want string }{
		{"clean", "clamscan", `cat >/dev/null; echo 'stdin: OK'`, ""},
		{"found", "clamscan", `cat >/dev/null; echo 'stdin: Eicar-Signature FOUND'; exit 1`, "clamscan hold=true line=0 offset=0: Eicar-Signature\n"},
		{"error", "clamscan", `echo 'LibClamAV Error: no database'; exit 2`, "clamscan hold=true line=0 offset=0: cannot tell"},
		{"one without a finding", "clamscan", `exit 1`, "cannot tell"},
		{"clean", "yara", `cat >/dev/null`, ""},
		{"found", "yara", `cat >/dev/null; echo 'bad_words /tmp/x'`, "yara hold=true line=0 offset=0: rule bad_words\n"},
		{"error", "yara", `echo 'error: syntax' >&2; exit 1`, "yara hold=true line=0 offset=0: cannot tell"},
	} {
		t.Run(c.engine+" "+c.name, func(t *testing.T) {
			o := Options{Run: speak(c.script)}
			if c.engine == "yara" {
				o.Yara = []Content{of("dir/rules.yar", []byte("rule"))}
			} else {
				o.Clamscan = []string{"clamscan"}
			}
			v := newSet(t, o).Scan(t.Context(), of("a.txt", []byte("text")))
			if got := describeVerdict(v); v.Held != (c.want != "") || !strings.Contains(got, c.want) {
				t.Errorf("want %q, got held=%v:\n%s", c.want, v.Held, got)
			}
		})
	}
	// The script around yara passes the program files with the rules and the content, and
	// returns its exit code.
	var argv []string
	given := func(ctx context.Context, with []string, stdin io.Reader) ([]byte, int, error) {
		argv = slices.Clone(with)
		argv[2] = `show() { shift; for f; do echo "[${f##*/}]"; cat "$f"; done; return 7; }; ` + strings.Replace(argv[2], "yara --no", "show --no", 1)
		out, exit, err := runHere(ctx, argv, stdin)
		if exit != 7 {
			t.Errorf("exit code %d", exit)
		}
		return out, 0, err
	}
	for _, content := range []string{"bytes", ""} {
		got, err := yara{[]Content{of("/x/a b.yar", []byte("one\n")), of("/y/none.yar", nil), of("/z/a b.yar", []byte("two"))}, given}.Scan(t.Context(), of("a.txt", []byte(content)))
		if err != nil || argv[3] != "yara" {
			t.Fatal(err)
		}
		var lines string
		for _, f := range got {
			lines += strings.TrimPrefix(f.What, "rule ") + "\n"
		}
		if want := "[a\none\n[none.yar]\n[a\ntwo[content]\n" + content; strings.TrimSpace(lines) != strings.TrimSpace(want) {
			t.Errorf("%q: got %q, want %q", content, lines, want)
		}
	}
	big := yara{[]Content{of("a.yar", make([]byte, maxRules)), of("b.yar", []byte("x"))}, given}
	if _, err := big.Scan(t.Context(), of("a.txt", nil)); err == nil || !strings.Contains(err.Error(), "rules are larger than 64 MiB") {
		t.Errorf("large rules: got %v", err)
	}
}

// A failingScanner scanner does what scanners must not do.
type failingScanner struct{ what string }

func (failingScanner) Name() string    { return "failing" }
func (failingScanner) Version() string { return "1" }
func (f failingScanner) Scan(ctx context.Context, _ Content) ([]Finding, error) {
	switch f.what {
	case "panic":
		var none []int
		return nil, fmt.Errorf("%d", none[len(f.what)])
	case "time":
		<-ctx.Done()
		return nil, nil
	}
	return nil, errors.New(f.what)
}

// TestTimeLimit checks that contents are held when the time is over, with a finding that
// says so, unless a verdict is cached.
func TestTimeLimit(t *testing.T) {
	kept := memory{}
	known, other := of("a.txt", []byte("text")), of("b.txt", []byte("another"))
	known.Hash, other.Hash = "1", "2"
	s := newSet(t, Options{Cache: kept, Limits: Limits{Time: time.Nanosecond}})
	ctx, cancel := s.Together(t.Context())
	defer cancel()
	<-ctx.Done()
	want := "limits hold=true line=0 offset=0: cannot tell: it took too long: 10ns are the limit for all files together (10 times clearance.limits.scan_time)"
	if v := s.Scan(ctx, known); !v.Held || strings.TrimSpace(describeVerdict(v)) != want {
		t.Errorf("got %s, want %s", describeVerdict(v), want)
	}
	if found := Message(ctx, strings.Repeat("key ", 1000)); len(found) != 1 || !found[0].Hold || !strings.Contains(found[0].What, "took too long") {
		t.Errorf("a message: got %v", found)
	}
	for _, l := range s.looks {
		kept.Put(s.key(l, known), []byte("[]"))
	}
	if v := s.Scan(ctx, known); v.Held {
		t.Errorf("content with a cached verdict: got %s", describeVerdict(v))
	}
	if v := s.Scan(ctx, other); !v.Held {
		t.Error("content without a cached verdict passes")
	}
}

// TestAssignedValues checks that a rule is tried only where a value may be assigned.
func TestAssignedValues(t *testing.T) {
	far := strings.Repeat(" ", farthest)
	for text, want := range map[string]bool{
		"key = 0123456789": true, `key: "0123456789"`: true, "key:::= \t\"'01234567": true, "key=ſecretſecret": true, "key_of_it ||`0123456789`": true,
		"key key key key": false, "key = value": false, "key = value = other, more": false, "key": false, "key =": false, "key" + far + "= 0123456789": false,
	} {
		if got := (&trial{data: []byte(text)}).given(0); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	again := &trial{data: []byte("key = 0123456789\nkey key\nkey = 9876543210")}
	for at, want := range map[int]bool{0: true, 17: true, 25: true, 26: true, 40: false} {
		again.next = 0
		if got := again.given(at); got != want {
			t.Errorf("at %d: got %v, want %v", at, got, want)
		}
	}
}

// TestUnsureScanner checks that a scanner that cannot tell holds the content, by its name, and
// that nothing is cached.
func TestUnsureScanner(t *testing.T) {
	for what, want := range map[string]string{"panic": "it failed", "time": "it took too long", "out of order": "out of order"} {
		kept := memory{}
		limits := Limits{}
		if what == "time" {
			limits.Time = 200 * time.Millisecond
		}
		s := newSet(t, Options{Cache: kept, Limits: limits})
		s.looks = append(s.looks, look{Scanner: failingScanner{what}, depends: func(string) string { return "" }})
		c := of("a.txt", []byte("text"))
		c.Hash = "1"
		for range 2 {
			v := s.Scan(t.Context(), c)
			if got := describeVerdict(v); !v.Held || !strings.Contains(got, "failing hold=true line=0 offset=0: cannot tell: "+want) {
				t.Errorf("%s: got %s", what, got)
			}
		}
		for _, value := range kept {
			if strings.Contains(string(value), "failing") {
				t.Errorf("%s was stored: %s", what, value)
			}
		}
	}
	broken := Content{Path: "a", Size: 3, Open: func() (io.ReadCloser, error) { return nil, errors.New("the disk is gone") }}
	if v := newSet(t, Options{}).Scan(t.Context(), broken); !v.Held || !strings.Contains(describeVerdict(v), "the disk is gone") {
		t.Errorf("got %s", describeVerdict(v))
	}
	for _, size := range []int64{3, 5} {
		other := of("a", []byte("four"))
		other.data, other.Size = nil, size
		if v := newSet(t, Options{}).Scan(t.Context(), other); !v.Held {
			t.Errorf("content of 4 bytes with a declared size of %d was not held", size)
		}
	}
}

// A memory is a cache in memory.
type memory map[string][]byte

func (m memory) Get(key string) ([]byte, bool) { v, ok := m[key]; return v, ok }
func (m memory) Put(key string, value []byte)  { m[key] = value }

// TestVerdictCache checks that a cached verdict belongs to a content, a name and a version, and
// that the cache contains no secret.
func TestVerdictCache(t *testing.T) {
	token := "gh" + "p_" + "0123456789abcdefghijABCDEFGHIJklmnop"
	kept := memory{}
	s := newSet(t, Options{Cache: kept})
	opened := 0
	content := func(path, hash, text string) Content {
		return Content{Path: path, Hash: hash, Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
			opened++
			return io.NopCloser(strings.NewReader(text)), nil
		}}
	}
	first := s.Scan(t.Context(), content("a.txt", "1", "token: "+token))
	if !first.Held || opened != 1 {
		t.Fatalf("got held=%v, opened %d times", first.Held, opened)
	}
	if again := s.Scan(t.Context(), content("a.txt", "1", "token: "+token)); describeVerdict(again) != describeVerdict(first) || opened != 1 {
		t.Errorf("the second scan: opened %d times, got %s", opened, describeVerdict(again))
	}
	for key, value := range kept {
		if strings.Contains(string(value)+key, token[8:20]) {
			t.Errorf("a secret is stored: %s", value)
		}
	}
	if strings.Contains(describeVerdict(first), token[8:20]) {
		t.Errorf("a secret is shown: %s", describeVerdict(first))
	}
	for i, other := range []Content{content("a.txt", "2", "clean"), content("a.png", "1", "token: "+token), content("b.txt", "1", "token: "+token), content("a.txt", "", "clean")} {
		if before := opened; s.Scan(t.Context(), other).Path != other.Path || opened != before+1 {
			t.Errorf("%d: not examined", i)
		}
	}
	packed := string(gzipBytes([]byte("clean")))
	if s.Scan(t.Context(), content("a.txt.gz", "3", packed)).Held || !s.Scan(t.Context(), content("a.png.gz", "3", packed)).Held {
		t.Error("the verdict of what is inside under one name was taken for another")
	}
	before := maps.Clone(kept)
	if v := newSet(t, Options{Cache: kept, Limits: Limits{Size: 9 << 20}}).Scan(t.Context(), content("a.txt", "1", "clean")); v.Held {
		t.Error("with other limits an old verdict was used")
	}
	if len(kept) == len(before) {
		t.Error("with other limits no verdict was cached")
	}
	s.Scan(t.Context(), Content{Path: "a.gz", Hash: "7", Size: 3, Open: of("", []byte("\x1f\x8b\x08")).Open})
	if extra := len(kept) - len(before); extra != 5 {
		t.Errorf("a verdict was cached for a file that cannot be opened: %d", extra)
	}
}

// TestEntropy checks which hidden data in text is found.
func TestEntropy(t *testing.T) {
	data := randomBytes(150_000)
	b64 := base64.StdEncoding.EncodeToString(data)
	uu := &strings.Builder{}
	for i := 0; i+45 <= 20_000; i += 45 {
		uu.WriteString("M")
		for j := i; j < i+45; j += 3 {
			n := uint32(data[j])<<16 | uint32(data[j+1])<<8 | uint32(data[j+2])
			for shift := 18; shift >= 0; shift -= 6 {
				c := byte(n>>shift&63) + ' '
				if c == ' ' {
					c = '`'
				}
				uu.WriteByte(c)
			}
		}
		uu.WriteString("\n")
	}
	a85 := make([]byte, ascii85.MaxEncodedLen(40_000))
	a85 = a85[:ascii85.Encode(a85, data[:40_000])]
	bits, snow := &strings.Builder{}, &strings.Builder{}
	for i := range 200 {
		bits.WriteString(map[bool]string{true: "\u200b", false: "\u200c"}[data[i]&1 == 0])
		fmt.Fprintf(snow, "line %d\t%s\t%s\t \n", i, strings.Repeat(" ", int(data[i])&7), strings.Repeat(" ", int(data[i])>>3&7))
	}
	text := "# A title\n\nSome words.\n\n"
	lines := strings.Repeat("The quick brown fox jumps over the lazy dog, again and again.\n", 300)
	check(t, newSet(t, Options{}), []scanCase{
		{"base64 in one line", "a.md", []byte(text + b64 + "\n"), "size hold=true line=5 offset=24: 200000 bytes of base64"},
		{"base64 in lines", "a.md", []byte(text + wrapText(b64, 76)), "size hold=true line=5 offset=24: "},
		{"base64 for addresses", "a.md", []byte(text + base64.URLEncoding.EncodeToString(data)), "bytes of base64"},
		{"hexadecimal", "a.md", []byte(text + hex.EncodeToString(data[:9000])), "size hold=true line=5 offset=24: 18000 bytes of hexadecimal"},
		{"uuencoded", "a.md", []byte(text + "begin 644 a\n" + uu.String() + "`\nend\n"), "size hold=true line=6 offset=36: "},
		{"ascii85", "a.md", []byte(lines + string(a85)), "more entropy than language"},
		{"many short ones", "a.md", []byte(strings.Repeat("word: "+b64[:600]+" and\n", 120)), "size hold=true line=0 offset=0: 72000 bytes of data in 120 places"},
		{"a short one", "a.md", []byte("word: " + b64[:600] + " and\n"), "size hold=false line=1 offset=6: 600 bytes of base64"},
		{"letters of no width in a row", "a.md", []byte(text + "word" + bits.String() + "word\n"), "invisible characters: 200 in a row"},
		{"fillers in a row", "a.js", []byte("x = '" + strings.Repeat("\u3164\uffa0", 10) + "'\n"), "invisible characters: 20 in a row"},
		{"letters of private use in a row", "a.js", []byte("x = '" + strings.Repeat("\ue001\U000f0002", 10) + "'\n"), "invisible characters: 19 in a row"},
		{"letters of no width one by one", "a.md", []byte(strings.Repeat("wo\u200brd\n", 40)), "40 between others"},
		{"variation selectors", "a.md", []byte(text + "😀" + strings.Repeat("\U000E0121", 30)), "30 in a row"},
		{"tags", "a.md", []byte("x" + strings.Repeat("\U000E0041", 30)), "30 in a row"},
		{"white space", "a.txt", []byte(snow.String()), "lines that end in a pattern"},
		{"in an archive", "a.zip", makeZip(member{"a.md", text + b64}), "in a.md: 200000 bytes of base64"},
		{"words", "a.md", []byte(lines), ""},
		{"one letter", "a.md", []byte(strings.Repeat("a", 50_000)), ""},
		{"zeros", "a.txt", []byte(strings.Repeat("0", 50_000)), ""},
		{"digits", "a.txt", []byte(strings.Repeat("0123456789", 5_000)), ""},
		{"a mark at the beginning", "a.txt", []byte("\ufeffwords\n"), ""},
		{"an image in a page", "a.html", []byte("<img src=\"data:image/png;base64," + base64.StdEncoding.EncodeToString(append(png(), data[:20_000]...)) + "\">"), "size hold=false"},
		{"line breaks of markdown", "a.md", []byte(strings.Repeat("a line  \n", 100)), ""},
	})
}

// TestFormat checks which contents do not match their names.
func TestFormat(t *testing.T) {
	elf := append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00"), make([]byte, 64)...)
	check(t, newSet(t, Options{}), []scanCase{
		{"text", "a.md", []byte("words\n"), ""},
		{"empty", "a.png", nil, ""},
		{"image", "a.png", png(), "format hold=false line=0 offset=0: image/png, "},
		{"image with another name", "a.jpg", png(), "its name ends in .jpg, but it is image/png"},
		{"text named as an image", "a.png", []byte("words\n"), "format hold=true"},
		{"program", "tool", elf, "format hold=true line=0 offset=0: a program: "},
		{"program named as text", "a.md", elf, "its name ends in .md, but it is not text"},
		{"program named as an image", "a.png", elf, "its name ends in .png, but it is application/x-e"},
		{"program in an archive", "a.zip", makeZip(member{"tool", string(elf)}), "in tool: a program"},
		{"unknown", "a.dat", randomBytes(2000), "binary data of no known kind: application/octet-stream, 2000 bytes, 7.9"},
		{"text that goes on as data", "a.dat", []byte(strings.Repeat("words and words\n", 400) + "\x00\x01\x02"), "text followed by binary data"},
		{"a bell in a text", "a.txt", []byte("ready\a\n"), "format hold=false line=0 offset=5: text with control characters\n"},
		{"the end of a file of DOS", "a.md", []byte(strings.Repeat("words and words\n", 400) + "\x1a"), "format hold=false line=0 offset=6400: text with control characters\n"},
		{"a page of a manual", "a.txt", []byte("N\bNA\bAM\bME\bE\n\f\x1b[1mbold\x1b[0m\n"), ""},
		{"text and then data without zeros", "a.txt", []byte(strings.Repeat("words and words\n", 4000) + strings.Repeat("\x01\x02\x03", 100)), "its name ends in .txt, but it is not text"},
		{"a bell in a text that is not UTF-8", "a.dat", []byte(strings.Repeat("words and words\n", 400) + "\a\xe9"), "text followed by binary data"},
		{"data in a text", "a.go", []byte(strings.Repeat("// words and words\n", 400) + "\x00\x01\x02"), "format hold=true line=0 offset=7600: its name ends in .go"},
		{"class", "a.class", append([]byte("\xca\xfe\xba\xbe\x00\x00\x00\x34"), randomBytes(100)...), "hold=true"},
		{"pyc", "a.pyc", append([]byte("\xcb\x0d\x0d\x0a\x00\x00\x00\x00"), randomBytes(100)...), "hold=true"},
		{"wasm", "a.wasm", []byte("\x00asm\x01\x00\x00\x00"), "a program: application/wasm"},
		{"latin text", "a.txt", []byte("caf\xe9\n"), "format hold=false line=0 offset=0: text that is not in UTF-8"},
		{"UTF-16", "a.txt", append([]byte("\xff\xfe"), wide("words")...), ""},
	})
	allowed := newSet(t, Options{Allow: []string{"application/wasm"}})
	if v := allowed.Scan(t.Context(), of("a.wasm", []byte("\x00asm\x01\x00\x00\x00"))); v.Held {
		t.Errorf("a kind that is allowed was held:\n%s", describeVerdict(v))
	}
}

// TestMetadata checks which metadata and active parts are found.
func TestMetadata(t *testing.T) {
	svg := func(body string) []byte {
		return []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="9">` + body + "</svg>\n")
	}
	docx := func(members ...member) []byte {
		return makeZip(append([]member{{"[Content_Types].xml", "<Types/>"}, {"word/document.xml", "<w:document/>"}}, members...)...)
	}
	const ns = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
	ole := append([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), make([]byte, 600)...)
	check(t, newSet(t, Options{Scanners: []string{"size", "content", "secrets", "malware"}}), []scanCase{
		{"EXIF: position", "a.jpg", jpeg("\xe1", exif(0x010e, "a cat", true)), "content hold=false line=0 offset=0: a GPS position in EXIF"},
		{"EXIF: text", "a.jpg", jpeg("\xe1", exif(0x010e, "a cat on a mat", false)), "hold=false line=0 offset=0: EXIF: description, 14 bytes"},
		{"EXIF: script", "a.jpg", jpeg("\xe1", exif(0x9286, "<script>alert(1)</script>", false)), "hold=true line=0 offset=0: EXIF: comment with a script"},
		{"EXIF: address", "a.jpg", jpeg("\xe1", exif(0x013b, "https://evil.example/x", false)), "EXIF: artist with an address"},
		{"JPEG: comment", "a.jpg", jpeg("\xfe", "<?php system($x); ?>"), "hold=true line=0 offset=0: a comment with a script"},
		{"JPEG: data behind", "a.jpg", append(jpeg(), "hidden"...), "6 bytes after the end of the JPEG"},
		{"JPEG: zeros behind", "a.jpg", append(jpeg(), 0, 0, '\n'), ""},
		{"JPEG: cut off", "a.jpg", jpeg("\xfe", "words")[:12], "cannot tell: the JPEG"},
		{"JPEG: nothing more", "a.jpg", jpeg(), ""},
		{"PNG: text", "a.png", png("tEXt", "Comment\x00words"), "hold=false line=0 offset=0: tEXt text, 13 bytes"},
		{"PNG: script", "a.png", png("tEXt", "Comment\x00<script src=x>"), "hold=true line=0 offset=0: tEXt text with a script"},
		{"PNG: compressed script", "a.png", png("zTXt", "k\x00\x00"+deflate("<script>x</script>")), "content hold=true"},
		{"PNG: compressed script in iTXt", "a.png", png("iTXt", "k\x00\x01\x00\x00\x00"+deflate("<script>x</script>")), "content hold=true"},
		{"PNG: position", "a.png", png("eXIf", exif(0x010e, "a cat", true)[6:]), "a GPS position"},
		{"PNG: unknown chunk", "a.png", png("seCr", "words"), "a chunk of no known kind, 5 bytes"},
		{"PNG: data behind", "a.png", append(png(), "hidden"...), "6 bytes after the end of the PNG"},
		{"PNG: cut off", "a.png", png()[:40], "cannot tell: the PNG"},
		{"GIF: comment", "a.gif", gif("made by me"), "hold=false line=0 offset=0: a comment, 10 bytes"},
		{"GIF: data behind", "a.gif", append(gif(""), "hidden"...), "after the end of the GIF"},
		{"GIF: nothing more", "a.gif", gif(""), ""},
		{"WebP: data behind", "a.webp", []byte("RIFF\x0c\x00\x00\x00WEBPVP8 \x00\x00\x00\x00hidden"), "after the end of the WebP"},
		{"ZIP: data behind", "a.zip", append(makeZip(member{"a", "b"}), "hidden"...), "6 bytes after the end of the ZIP"},
		{"ZIP: behind an image", "a.gif", append(gif(""), makeZip(member{"a", "b"})...), "a ZIP archive that begins as something else"},
		{"PDF: JavaScript", "a.pdf", pdf("/Names << /JavaScript 2 0 R >>"), "content hold=true line=0 offset=45: PDF: JavaScript"},
		{"PDF: JavaScript in disguise", "a.pdf", pdf("/#4a#61v#61Script (x)"), "PDF: JavaScript"},
		{"PDF: JavaScript in a stream", "a.pdf", pdfStream("<< /S /JavaScript /JS (app.alert) >>"), "in stream 1: PDF: JavaScript"},
		{"PDF: at the start", "a.pdf", pdf("/OpenAction 2 0 R"), "PDF: an action when it is opened"},
		{"PDF: at the start, in a list", "a.pdf", pdf("/OpenAction [<< /S /URI >>]"), "PDF: an action when it is opened"},
		{"PDF: at the start, behind a page", "a.pdf", pdf("/OpenAction [1 0 R /XYZ null null 0 << /S /URI >>]"), "PDF: an action when it is opened"},
		{"PDF: at the start, after a page", "a.pdf", pdf("/OpenAction [1 0 R /Fit] /OpenAction << /S /URI >>"), "PDF: an action when it is opened"},
		{"PDF: the page at the start", "a.pdf", pdf("/OpenAction[1 0 R /XYZ null null 0]"), ""},
		{"PDF: program", "a.pdf", pdf("/A << /S /Launch /F (cmd.exe) >>"), "PDF: an action that starts a program"},
		{"PDF: file inside", "a.pdf", pdf("/EmbeddedFiles 2 0 R"), "PDF: a file inside"},
		{"PDF: encrypted", "a.pdf", pdf("/Encrypt 2 0 R"), "cannot be scanned"},
		{"PDF: author", "a.pdf", pdf("/Author (me)"), "hold=false line=0 offset=0: PDF: its author"},
		{"PDF: data behind", "a.pdf", append(pdf(""), "hidden"...), "after the end of the PDF"},
		{"PDF: nothing more", "a.pdf", pdf(""), ""},
		{"Office: macros", "a.docm", docx(member{"word/vbaProject.bin", "x"}), "Office: macros"},
		{"Office: remote template", "a.docx", docx(member{"word/_rels/settings.xml.rels",
			`<Relationships><Relationship Id="r1" Type="` + ns + `attachedTemplate" Target="https://evil.example/t.dotm" TargetMode="External"/></Relationships>`}), "loaded from elsewhere"},
		{"Office: remote template, turned", "a.docx", docx(member{"word/_rels/settings.xml.rels",
			`<Relationship TargetMode='External' Target="x" Type="` + ns + `attachedTemplate"/>`}), "loaded from elsewhere"},
		{"Office: link", "a.docx", docx(member{"word/_rels/document.xml.rels",
			`<Relationship Type="` + ns + `hyperlink" Target="https://example.com" TargetMode="External"/><Relationship Type="` + ns + `package" Target="a"/>`}), ""},
		{"Office: author", "a.docx", docx(member{"docProps/core.xml", "<dc:creator>me</dc:creator>"}), "names of persons"},
		{"Office: field", "a.docx", makeZip(member{"word/document.xml", "DDEAUTO c:\\\\windows\\\\cmd.exe"}), "starts a program"},
		{"Office: old macros", "a.doc", append(ole, wide("_VBA_PROJECT")...), "macros or a program"},
		{"Office: old", "a.doc", ole, "hold=false line=0 offset=0: an old Office document"},
		{"SVG: script", "a.svg", svg("<script>alert(1)</script>"), "SVG: a script"},
		{"SVG: script with a prefix", "a.svg", svg("<svg:script>alert(1)</svg:script>"), "SVG: a script"},
		{"SVG: handler", "a.svg", svg(`<rect onclick="alert(1)"/>`), "SVG: a script"},
		{"SVG: address in disguise", "a.svg", svg(`<a href="&#106;avascript:alert(1)">x</a>`), "SVG: a script"},
		{"SVG: address with a tab", "a.svg", svg("<a href=\"java&#9;script:alert(1)\">x</a>"), "SVG: a script"},
		{"SVG: handler that is set", "a.svg", svg(`<set attributeName="onclick" to="alert(1)"/>`), "SVG: a script"},
		{"RTF: object", "a.rtf", []byte(`{\rtf1 {\object\objemb{\*\objdata 0105}}}`), "RTF: an object"},
		{"RTF: nothing more", "a.rtf", []byte(`{\rtf1 words}`), ""},
		{"SVG: entity", "a.svg", []byte(`<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]><svg>&x;</svg>`), "SVG: a script"},
		{"SVG: by its content", "image", svg("<script>x</script>"), "SVG: a script"},
		{"SVG: of two bytes a letter", "a.svg", append([]byte("\xff\xfe"), wide(string(svg("<script>x</script>")))...), "SVG: a script"},
		{"SVG: nothing more", "a.svg", svg(`<path d="M0 0"/><text>one = two</text>`), ""},
		{"page with an image", "a.html", svg("<script>x</script>"), ""},
		{"ID3: text", "a.mp3", id3("TXXX", "words"), "hold=false line=0 offset=0: ID3: TXXX, 5 bytes"},
		{"ID3: script", "a.mp3", id3("COMM", "<script>x</script>"), "ID3: COMM with a script"},
		{"font: script", "a.otf", font("SVG ", string(svg("<script>x</script>")), ""), "SVG: a script"},
		{"font: data behind", "a.otf", font("name", "words", "hidden"), "after the end of the font"},
		{"font: nothing more", "a.otf", font("name", "words", "\x00\x00"), ""},
	})
}

// TestSecrets checks which secrets are found.
func TestSecrets(t *testing.T) {
	token := "gh" + "p_" + "0123456789abcdefghijABCDEFGHIJklmnop"
	key := "-----BEGIN PRIV" + "ATE KEY-----\n" + strings.Repeat("x8Kq2mVw7Zr4Tn9b", 8) + "\n-----END PRIV" + "ATE KEY-----\n"
	config := member{".gitleaks.toml", "[allowlist]\npaths = ['.*']\n"}
	check(t, newSet(t, Options{}), []scanCase{
		{"plain", "a.txt", []byte("first\ntoken: " + token + "\n"), "secrets hold=true line=2 offset=13: github-pat, 40 characters"},
		{"at the very start", "a.txt", []byte(token), "line=1 offset=0: github-pat"},
		{"with an allowing comment", "a.sh", []byte("x=" + token + " # gitleaks:allow\n"), "github-pat"},
		{"beside an allowing configuration", "a.zip", makeZip(config, member{"a.txt", token}), "in a.txt: github-pat"},
		{"in an allowing configuration", ".gitleaks.toml", []byte("# " + token), "github-pat"},
		{"in a lock file", "package-lock.json", []byte(`{"resolved": "https://x:` + token + `@github.com/a"}`), "github-pat"},
		{"where an image should be", "a.svg", []byte("<svg><text>" + token + "</text></svg>"), "github-pat"},
		{"in a binary file", "a.bin", []byte("\x00\x01\x02 " + token + " \x00"), "github-pat"},
		{"in the name of the file", "notes-" + token + ".txt", []byte("words"), "github-pat, 40 characters, in its name"},
		{"in the name of a file inside", "a.zip", makeZip(member{"notes-" + token + "/" + strings.Repeat("x", 60) + ".txt", "words"}), "in a file with a secret in its name: github-pat, 40 characters, in its name"},
		{"a file of keys", "certs/site.p12", []byte("words"), "pkcs12-file, by its name"},
		{"in a text of an image", "a.png", png("tEXt", "k\x00"+token+" "), "github-pat"},
		{"in a stream of a PDF", "a.pdf", pdfStream("(" + token + ") Tj"), "in stream 1: github-pat"},
		{"password in .env", ".env", []byte("DB_PASSWORD=x8Kq2mVw7Zr4Tn9bLp3s\n"), "generic-api-key"},
		{"password of base64 beside its name", "a.yaml", []byte("api_secret: " + base64.StdEncoding.EncodeToString([]byte("x8Kq2mVw7Zr4Tn9bLp3sQd6f")) + "\n"), "generic-api-key"},
		{"example", "a.md", []byte("password: changeme\n"), ""},
		{"variable", "a.sh", []byte("token=${GITHUB_TOKEN}\n"), ""},
		{"password where a drawing should be", "a.svg", []byte("DB_PASSWORD=x8Kq2mVw7Zr4Tn9bLp3s\n"), "generic-api-key"},
		{"password where binary data should be", "a.bin", []byte("DB_PASSWORD=x8Kq2mVw7Zr4Tn9bLp3s\n"), "generic-api-key"},
		{"with a word in it that is no secret", "a.txt", []byte("gh" + "p_" + "0FALSE6789abcdefghijABCDEFGHIJklmnop"), "github-pat"},
		{"a word that is no secret", "a.sh", []byte("curl -u admin:password https://a.example\n"), ""},
		{"beginning like a word that is no secret", "a.sh", []byte("curl -u admin:x8Kq2mVw7Zr4Tn9b https://a.example\n"), "curl-auth-user"},
		{"key with a remark", "a.pem", []byte(strings.Replace(key, "\n", "\nComment: false\n\n", 1)), "private-key"},
		{"key with the alphabet", "a.pem", []byte(strings.Replace(key, "\n", "\nComment: abcdefghijklmnopqrstuvwxyz\n\n", 1)), "private-key"},
		{"example of a token", "a.md", []byte("gh" + "p_" + "abcdefghijklmnopqrstuvwxyz0123456789"), ""},
	})
	if found := Message(t.Context(), "fix it\n\nwith "+token); len(found) != 1 || found[0].Line != 3 || !found[0].Hold || found[0].Scanner != "secrets" {
		t.Errorf("in a message: got %+v", found)
	}
	if found := Message(t.Context(), "secrets: find tokens at their keywords\n\nA key is a key."); len(found) != 0 {
		t.Errorf("in a message without secrets: got %+v", found)
	}
}

// TestOwnRules checks what our own rules find, and that placeholders in documentation are
// not held.
func TestOwnRules(t *testing.T) {
	const value = "x8Kq2mVw7Zr4Tn9bLp3s"
	long := strings.Repeat(value, 5)
	check(t, newSet(t, Options{Scanners: []string{secretsName}}), []scanCase{
		{"address of a database", ".env", []byte("DATABASE_URL=postgres://app:" + value + "@db.acme.io:5432/app\n"), "url-password, 20 characters"},
		{"address of a lock file", "package-lock.json", []byte(`{"resolved": "https://ci:` + value + `@npm.acme.io/a.tgz"}`), "url-password"},
		{"address with escaped letters", "a.yaml", []byte("redis://:x8Kq%402mVw7Zr@cache.acme.io\n"), "url-password"},
		{"address of a manual", "a.md", []byte("postgres://user:password@db.acme.io and https://user:" + value + "@example.com and http://app:" + value + "@localhost:80\n"), ""},
		{"address with variables", "a.sh", []byte("https://$USER:$PASSWORD@acme.io https://${A}:${PASSWORD_1234}@acme.io https://%s:%s@%s {{user}}:{{pass}}@acme.io\n"), ""},
		{"address with a port", "a.md", []byte("see http://acme.io:8080/a@b and https://acme.io/x:12345678@2x.png, git@acme.io:12345678/a\n"), ""},
		{"netrc", "a.txt", []byte("machine acme.io\n\tlogin me\n\tpassword " + value + "\n"), "netrc-password, 20 characters"},
		{"netrc of a manual", "a.txt", []byte("machine acme.io login me password \"{password}\"\n"), ""},
		{"netrc by its name", "home/.netrc", []byte("machine acme.io login me password swordfish\n"), "file-of-credentials, by its name"},
		{"pgpass", ".pgpass", []byte("db:5432:app:me:" + value + "\n"), "file-of-credentials, by its name"},
		{"Amazon", "a.ini", []byte("aws_secret_access_key = Jn5LhLxYXv44Nu560oYpnOMDTLoveZolNkhUkMO7\n"), "aws-secret-access-key, 40 characters"},
		{"Azure", "a.txt", []byte("AccountName=a;AccountKey=" + long[:86] + "==;EndpointSuffix=core.windows.net\n"), "azure-account-key, 88 characters"},
		{"Basic", "a.http", []byte("Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+value)) + "\n"), "basic-auth-header"},
		{"Basic of a manual", "a.http", []byte("Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\n"), ""},
		{"JSON Web Key", "a.json", []byte(`{"d": "` + long[:43] + `", "crv": "P-256", "kty": "EC", "x": "` + long[:43] + `"}`), "jwk-private-key, 43 characters"},
		{"JSON Web Key, symmetric", "a.json", []byte(`{"kty":"oct","k":"` + long[:43] + `"}`), "jwk-private-key, 43 characters"},
		{"JSON Web Key, public", "a.json", []byte(`{"kty":"EC","crv":"P-256","x":"` + long[:43] + `","y":"` + long[3:46] + `","kid":"d"}`), ""},
		{"PuTTY", "a.txt", []byte("Private-Lines: 1\r\n" + long[:48] + "\r\nPrivate-MAC: 00\r\n"), "putty-private-key, 48 characters"},
		{"Maven", "settings.xml", []byte("<server><password>" + value + "</password></server>\n"), "xml-password, 20 characters"},
		{"Maven with a variable", "settings.xml", []byte("<password>${env.PASSWORD_1234}</password><token>identifier</token>\n"), ""},
		{".NET", "web.config", []byte(`<add key="Mail.ApiKey" value="` + value + `" />`), "xml-setting, 20 characters"},
		{"Discord", "a.txt", []byte("https://discord.com/api/webhooks/123456789012345678/" + long[:68] + "\n"), "discord-webhook-url, 68 characters"},
		{"Docker", "a.txt", []byte("dckr_" + "pat_" + long[:27] + "\n"), "docker-access-token"},
		{"Google", "a.txt", []byte("GOCSPX" + "-" + long[:28] + "\n"), "google-oauth-secret"},
		{"signed address", "a.txt", []byte("https://a.blob.core.windows.net/c?sv=2022-11-02&sp=rl&sig=" + long[:43] + "%3D\n"), "signed-url, 46 characters"},
		{"second factor", "a.txt", []byte("otpauth://totp/acme:me?issuer=acme&secret=JBSWY3DPEHPK3PXPQ2MVW7ZR\n"), "otpauth-secret, 24 characters"},
		{"webhook", "a.txt", []byte("whsec" + "_" + long[:32] + "\n"), "webhook-signing-secret"},
		{"password that people make up", ".env", []byte("DB_PASSWORD=Tr0ub4dor&3xQz\n"), "assigned-password, 14 characters"},
		{"the same in quotes", "a.py", []byte("password = \"Tr0ub4dor&3(xQz\"\n"), "assigned-password, 15 characters"},
		{"the same in JSON in a text", "a.py", []byte(`x = "{\"password\": \"Tr0ub4dor&3xQz\"}"` + "\n"), "assigned-password, 14 characters"},
		{"expressions", "a.py", []byte("password = hash(a1)&mask(b2)\npassword: x[3]!=y[4]\npassword=${DB_PASSWORD_1!}\npasswd = \"%s:%d/%v!12345\"\npassword: '^[a-z0-9!]{8,}$'\n"), ""},
		{"a name with pass in it", "a.yml", []byte("ansible_become_pass: " + value + "\ndb_pass: settings.dbpass1\n"), "short-password-name, 20 characters"},
		{"Dockerfile", "Dockerfile", []byte("ENV DB_PASSWORD " + value + "\n"), "dockerfile-password, 20 characters"},
		{"Dockerfile with a file", "Dockerfile", []byte("ENV DB_PASSWORD /run/secrets/db_1\nENV TOKEN $TOKEN\n"), ""},
		{"Kubernetes", "a.yaml", []byte("env:\n- name: DB_PASSWORD\n  value: " + value + "\n"), "kubernetes-env-password, 20 characters"},
		{"Kubernetes with a reference", "a.yaml", []byte("env:\n- name: DB_PASSWORD\n  valueFrom: {secretKeyRef: {name: db-1, key: password-1}}\n"), ""},
		{"mysql", "a.sh", []byte("mysqldump -u root -p" + value + " shop\n"), "command-password, 20 characters"},
		{"mysql that asks", "a.sh", []byte("mysql -u root -p shop_2024_backup\nmysql -p\"$PASSWORD_1\"\n"), ""},
		{"sshpass", "a.sh", []byte("sshpass -p '" + value + "' ssh root@acme.io\n"), "command-password, 20 characters"},
		{"Redis", "redis.conf", []byte("requirepass " + value + "\n"), "redis-password, 20 characters"},
		{"PowerShell", "a.ps1", []byte("$p = ConvertTo-SecureString \"" + value + "\" -AsPlainText -Force\n"), "powershell-password, 20 characters"},
		{"FileZilla", "sites.xml", []byte("<Pass encoding=\"base64\">" + base64.StdEncoding.EncodeToString([]byte(value)) + "</Pass>\n"), "filezilla-password, 28 characters"},
		{"hash of a password", "users", []byte("root:$6$x8Kq2mVw7Zr4Tn9b$" + long[:86] + ":19000:0:99999:7:::\n"), "password-hash"},
		{"hash in a manual", "a.md", []byte("a hash is $2b$12$ and then 53 letters; `user:$6$salt$hash`\n"), ""},
	})
}

// TestConcurrentScans checks that many goroutines may use a Set from the first use on.
func TestConcurrentScans(t *testing.T) {
	s := newSet(t, Options{})
	contents := []Content{of("a.zip", makeZip(member{"a", string(eicar())})), of("a.pdf", pdfStream("/JS (x)")), of("a.png", png("tEXt", "k\x00words")),
		of("a.env", []byte("DB_PASSWORD=x8Kq2mVw7Zr4Tn9bLp3s\n")), of("a.svg", []byte("<svg onload='x'/>"))}
	var all sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		all.Go(func() {
			for _, c := range contents {
				got[i] += describeVerdict(s.Scan(t.Context(), c))
			}
		})
	}
	all.Wait()
	for _, g := range got {
		if g != got[0] || strings.Count(g, "hold=true") < len(contents)-1 {
			t.Errorf("got\n%s\nand\n%s", g, got[0])
		}
	}
}

// TestEncodedDataInBinary checks that bytes which are not text, and letters beyond ASCII,
// do not hide encoded data near them. It also checks that zlib data is opened.
func TestEncodedDataInBinary(t *testing.T) {
	token := "token = gh" + "p_" + "0123456789abcdefghijABCDEFGHIJklmnop\n"
	s := newSet(t, Options{Scanners: []string{secretsName}})
	for name, data := range map[string]string{
		"é in base64":    base64.StdEncoding.EncodeToString([]byte(token + "é")),
		"é before it":    base64.StdEncoding.EncodeToString([]byte("clé é " + token)),
		"an escape":      base64.StdEncoding.EncodeToString([]byte("\x1b" + token)),
		"zero bytes":     base64.StdEncoding.EncodeToString([]byte("\x00\x01\x02" + token)),
		"hexadecimal":    hex.EncodeToString([]byte(token + "é\x00")),
		"zlib":           deflate(token),
		"zlib in base64": base64.StdEncoding.EncodeToString([]byte(deflate(token))),
	} {
		if v := s.Scan(t.Context(), of("a.txt", []byte(data))); !v.Held || !strings.Contains(describeVerdict(v), "github-pat") {
			t.Errorf("%s: got %s", name, describeVerdict(v))
		}
	}
	for name, data := range map[string]string{"after its end": deflate(token) + "more", "cut off": deflate(strings.Repeat(token, 99))[:60]} {
		if v := s.Scan(t.Context(), of("a.z", []byte(data))); !v.Held || !strings.Contains(describeVerdict(v), "zlib") {
			t.Errorf("%s: got %s", name, describeVerdict(v))
		}
	}
	for _, text := range []string{"x^2 + y^2 = z^2 is what he wrote, and more than once.\n", "hC is no unit, and XG is none either; HK is a city.\n"} {
		if v := s.Scan(t.Context(), of("a.txt", []byte(text))); v.Held {
			t.Errorf("%q: got %s", text, describeVerdict(v))
		}
	}
}

// TestKeywords compares the search with a plain one.
func TestKeywords(t *testing.T) {
	b := book()
	text := []byte(strings.Repeat("The API-Key and sK-ant, AKIA; gHp_ xoxb hooks.slack.com -----BEGIN password\n", 3))
	var got, want []string
	b.keywords.find(text, func(word, at int) bool {
		got = append(got, fmt.Sprint(b.keywords.words[word], " ", at))
		return true
	})
	low := bytes.ToLower(text)
	for _, w := range b.keywords.words {
		for at := range low {
			if bytes.HasPrefix(low[at:], []byte(w)) {
				want = append(want, fmt.Sprint(w, " ", at))
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(want) < 20 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestAbout checks the description of the scanners.
func TestAbout(t *testing.T) {
	about := strings.Join(newSet(t, Options{Scanners: []string{"format", "secrets", "malware"}}).About(), "\n")
	for _, want := range []string{"secrets ok (", "size off", "malware not scanned (no engine: clearance.malware sets one"} {
		if !strings.Contains(about, want) {
			t.Errorf("no %q in:\n%s", want, about)
		}
	}
	v := newSet(t, Options{Scanners: []string{"format"}}).Scan(t.Context(), of("a", []byte("x")))
	if slices.Contains(v.Scanners, "secrets") || !slices.Contains(v.Scanners, "format") {
		t.Errorf("got scanners %v", v.Scanners)
	}
	// A scanner that has not examined everything is not listed.
	for _, c := range []struct {
		name string
		o    Options
		file Content
		want []string
	}{
		{"too large", Options{Scanners: []string{"format", "secrets"}, Limits: Limits{Size: 10}}, of("a.txt", []byte("more than ten")), []string{}},
		{"too deep", Options{Scanners: []string{"format"}, Limits: Limits{Depth: 1}, Run: runHere, External: []Command{{Name: "mine", Argv: []string{"true"}}}},
			of("a.zip", makeZip(member{"b.zip", string(makeZip(member{"c.zip", string(makeZip(member{"d", "words"}))}))})), []string{"mine"}},
		{"one fails", Options{Scanners: []string{"format"}, Run: runHere, External: []Command{{Name: "mine", Argv: []string{"sh", "-c", "exit 9"}}}}, of("a.txt", []byte("words")), []string{"format"}},
	} {
		if v := newSet(t, c.o).Scan(t.Context(), c.file); !slices.Equal(v.Scanners, c.want) || !v.Held {
			t.Errorf("%s: got %v, held %v; want %v", c.name, v.Scanners, v.Held, c.want)
		}
	}
}

func openFile(name string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return os.Open(name) }
}
