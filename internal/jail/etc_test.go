package jail

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestEtcIsListed checks that docs/jail.md lists all names in /etc that commands see.
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

// TestEtcPasswdNamesTheUser checks that the first line with the user's number has a shell
// and a home, for any user. Programs that start a shell, such as tmux, read it there.
func TestEtcPasswdNamesTheUser(t *testing.T) {
	for _, uid := range []int{0, 1000, 65534} {
		for _, s := range compile(Policy{Home: "/somewhere"}, uid, uid).Steps {
			if s.Target != "/etc/passwd" {
				continue
			}
			for line := range strings.Lines(s.Source) {
				if strings.Contains(line, fmt.Sprintf(":x:%d:", uid)) {
					if !strings.HasSuffix(line, ":"+Home+":/bin/sh\n") {
						t.Errorf("user %d: %q", uid, line)
					}
					break
				}
			}
		}
	}
}
