package strictyaml_test

import (
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// read parses a value as it would stand in a file.
func read(t *testing.T, text string) strictyaml.Node {
	t.Helper()
	n, problems := strictyaml.ParseValue("f", text)
	if len(problems) > 0 {
		t.Fatalf("%s: %v", text, problems)
	}
	return n
}

// check compares the result of a reader method with a table. If ok is false, the value
// must be rejected.
func check[T comparable](t *testing.T, read func(strictyaml.Node) (T, error), n strictyaml.Node, text string, want T, ok bool) {
	t.Helper()
	got, err := read(n)
	if (err == nil) != ok || got != want {
		t.Errorf("%s: got %v, %v; want %v, %v", text, got, err, want, ok)
	}
}

// TestInt checks which texts are whole numbers.
func TestInt(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "1000": 1000, "1_000_000": 1_000_000, "9223372036854775807": 9223372036854775807,
	} {
		check(t, strictyaml.Node.Int, read(t, text), text, want, true)
	}
	for _, text := range []string{"", "-1", "-0", "+1", "1.0", "1e3", "0x10", "0o17", "010", "00", "1_", "_1", "1__0", "_", "1 000", "1,000",
		"9223372036854775808", "99999999999999999999", "'5'", `"5"`, "five", "true", "null", "[5]", "{a: 5}", "٣", "|\n  5"} {
		check(t, strictyaml.Node.Int, read(t, text), text, 0, false)
	}
}

// TestNumber checks which texts are numbers.
func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "2.50": 2.5, ".5": 0.5, "5.": 5, "1e3": 1000, "1e-3": 0.001, "999999999999999": 999999999999999,
	} {
		check(t, strictyaml.Node.Number, read(t, text), text, want, true)
	}
	for _, text := range []string{"", "-1", "-0", "+1", ".nan", "NaN", "nan", ".inf", "inf", "Infinity", "-.inf", "0x1p4", "0x10", "1e15", "1e400", "1_0",
		"'2.5'", "2,50", "$2", "2.5.1", ".", "null", "[1]"} {
		check(t, strictyaml.Node.Number, read(t, text), text, 0, false)
	}
}

// TestBytes checks which texts are sizes.
func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "10": 10, "10B": 10, "10KB": 10_000, "10KiB": 10 << 10, "10MB": 10_000_000, "10 MB": 10_000_000, "1_000KB": 1_000_000,
		"512MiB": 512 << 20, "2GiB": 2 << 30, "2GB": 2_000_000_000, "1TB": 1_000_000_000_000, "1TiB": 1 << 40,
		"'10MB'": 10_000_000, "'10B'": 10, "4194304TiB": 1 << 62, "0GB": 0,
	} {
		check(t, strictyaml.Node.Bytes, read(t, text), text, want, true)
	}
	for _, text := range []string{"", "-1", "-1MB", "1.5", "1.5GB", "10mb", "10M", "10kb", "MB", "B", "' MB'", "10  MB", "10MBMB", "10KiBMB", "4194305TiB",
		"9223372036854775807KiB", "99999999999999999999", "99999999999999999999GB", "010MB", "'10'", "1e3MB", "null", "[1]", "1_MB"} {
		check(t, strictyaml.Node.Bytes, read(t, text), text, 0, false)
	}
}

// TestDuration checks which texts are durations.
func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "30": 30 * time.Second, "1.5": 1500 * time.Millisecond, "30s": 30 * time.Second, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute,
		"250ms": 250 * time.Millisecond, "'30s'": 30 * time.Second, "0s": 0, "1e3": 1000 * time.Second, "999999999": 999999999 * time.Second,
		"0.1": 100 * time.Millisecond, "0.000000001": 1, "0.0000000001": 0, "1000000h": 1000000 * time.Hour,
	} {
		check(t, strictyaml.Node.Duration, read(t, text), text, want, true)
	}
	for _, text := range []string{"", "-1", "-5s", "5 m", "1d", "soon", "1e9", "1000000000", "99999999999", "10000000h", "'30'", "'0'", ".nan", "NaN", ".inf", "h", "null", "[1s]", "0x10"} {
		check(t, strictyaml.Node.Duration, read(t, text), text, 0, false)
	}
}

// TestBool checks which nodes are true.
func TestBool(t *testing.T) {
	for text, want := range map[string]bool{"true": true, "false": false, "yes": false, "[true]": false, "null": false} {
		if got := read(t, text).Bool(); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
