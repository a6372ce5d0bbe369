package jail

import (
	"bytes"
	"os/exec"
	"testing"
)

// TestShellTakesAnyLine checks that every shell runs a line, whatever it begins with.
func TestShellTakesAnyLine(t *testing.T) {
	for _, name := range []string{"bash", "sh", "dash"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		for _, line := range []string{"echo hi", "-x; echo hi", "+x; echo hi", "--; echo hi", "-c 'echo no'; echo hi"} {
			var out bytes.Buffer
			cmd := exec.Cmd{Path: path, Args: append([]string{name}, Shell(line).Args[1:]...), Stdout: &out}
			if err := cmd.Run(); err != nil || out.String() != "hi\n" {
				t.Errorf("%s: %q: got %q, %v", name, line, &out, err)
			}
		}
	}
}
