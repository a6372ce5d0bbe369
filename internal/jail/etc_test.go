package jail

import (
	"os"
	"strings"
	"testing"
)

// TestEtcIsListed: docs/jail.md names all of /etc that commands see.
func TestEtcIsListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/jail.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range etcNames() {
		if !strings.Contains(string(page), "`"+name+"`") && !strings.HasSuffix(name, "-release") {
			t.Errorf("docs/jail.md does not name %s", name)
		}
	}
}
