package cli

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// TestDrawQR has another program read what golem draws.
func TestDrawQR(t *testing.T) {
	for _, text := range []string{"https://laptop.tail1234.ts.net/pair#ABCDEFGHIJKLMNOPQRSTUVWXYZ", "http://localhost:8138/pair#A", "https://[2001:db8::1]:8443/pair#" + strings.Repeat("7", 26),
		"https://" + strings.Repeat("name.", 30) + "example/pair#Z"} {
		for _, colours := range []bool{true, false} {
			lines, err := drawQR(text, colours)
			if err != nil {
				t.Fatal(err)
			}
			if got := testutil.ReadQR(t, lines); got != text {
				t.Errorf("colours %v: got %s, want %s", colours, got, text)
			}
			if strings.HasPrefix(text, "https://laptop") && len(lines) > 21 {
				t.Errorf("%d lines do not fit on a small terminal", len(lines))
			}
		}
	}
	if _, err := drawQR(strings.Repeat("x", 5000), true); err == nil {
		t.Error("a text that is too long has a code")
	}
}
