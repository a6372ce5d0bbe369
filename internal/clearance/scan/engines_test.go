package scan

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestInstalledEngines runs the real programs, if they are installed. They get a
// signature of our own, so no download is needed.
func TestInstalledEngines(t *testing.T) {
	const mark = "a mark that only this test has"
	dir := filepath.Dir(socket(t))
	put := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	db := filepath.Dir(put("db/own.ndb", "Own.Mark:0:*:"+hex.EncodeToString([]byte(mark))+"\n"))
	rules := put("own.yar", `rule own_mark { strings: $a = "`+mark+`" condition: $a }`)
	broken := put("broken.yar", "rule {")
	try := func(t *testing.T, o Options, engine, want string) {
		s := newSet(t, o)
		for _, c := range []struct {
			content string
			held    bool
		}{{"words", false}, {"", false}, {"before " + mark + " after", true}, {strings.Repeat("words\n", 100_000) + mark, true}} {
			v := s.Scan(t.Context(), of("a.txt", []byte(c.content)))
			if got := describeVerdict(v); v.Held != c.held || c.held && !strings.Contains(got, engine+" hold=true line=0 offset=0: "+want) {
				t.Errorf("%d bytes: want held=%v, got:\n%s", len(c.content), c.held, got)
			}
		}
	}
	installed := func(t *testing.T, program string) bool {
		_, err := exec.LookPath(program)
		if err != nil {
			t.Logf("%s is not installed: only its imitation was tested", program)
		}
		return err == nil
	}
	t.Run("yara", func(t *testing.T) {
		if !installed(t, "yara") {
			return
		}
		from := func(file string) []Content {
			return []Content{{Path: file, Open: func() (io.ReadCloser, error) { return os.Open(file) }}}
		}
		try(t, Options{Run: runHere, Yara: from(rules)}, "yara", "rule own_mark\n")
		for _, wrong := range []string{broken, filepath.Join(dir, "missing.yar")} {
			v := newSet(t, Options{Run: runHere, Yara: from(wrong)}).Scan(t.Context(), of("a", []byte("words")))
			if !v.Held {
				t.Errorf("%s: not held", filepath.Base(wrong))
			}
		}
	})
	t.Run("clamscan", func(t *testing.T) {
		if !installed(t, "clamscan") {
			return
		}
		try(t, Options{Run: runHere, Clamscan: []string{"clamscan", "--database=" + db}}, "clamscan", "Own.Mark")
		v := newSet(t, Options{Run: runHere, Clamscan: []string{"clamscan", "--database=" + dir + "/missing"}}).Scan(t.Context(), of("a", []byte("words")))
		if !v.Held {
			t.Error("without signatures: not held")
		}
	})
	t.Run("clamd", func(t *testing.T) {
		if !installed(t, "clamd") {
			return
		}
		address := filepath.Join(dir, "s")
		config := put("clamd.conf", "Foreground yes\nLocalSocket "+address+"\nDatabaseDirectory "+db+"\nStreamMaxLength 1M\n")
		var out bytes.Buffer
		clamd := exec.Command("clamd", "--config-file="+config)
		clamd.Stdout, clamd.Stderr = &out, &out
		if err := clamd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = clamd.Process.Kill(); _ = clamd.Wait() }()
		dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", address) }
		for range 600 {
			if conn, err := dial(t.Context()); err == nil {
				_ = conn.Close()
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		try(t, Options{Clamd: dial}, "clamd", "Own.Mark")
		v := newSet(t, Options{Clamd: dial}).Scan(t.Context(), of("a", []byte(strings.Repeat("words\n", 400_000))))
		if got := describeVerdict(v); !strings.Contains(got, "clamd hold=true line=0 offset=0: cannot tell") {
			t.Errorf("larger than clamd takes: got %s%s", got, out.String())
		}
	})
}
