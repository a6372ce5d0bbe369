package checks_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// noNetwork matches what the go command says if it cannot reach the modules of others. Anything
// else, such as a wrong hash, is a failure.
var noNetwork = regexp.MustCompile(`dial tcp|lookup .* (on|no such host)|no such host|proxyconnect|i/o timeout|TLS handshake timeout|connection (refused|reset)|network is unreachable|module lookup disabled by GOPROXY=off`)

// TestAdapters runs the tests of the adapters for agent frameworks, which are modules of their
// own. The go command keeps their results until something changes.
func TestAdapters(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"langchaingo", "eino", "genkit"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("examples", "embed", name)
			load := exec.Command("go", "list", "-deps", "-test", "./...")
			load.Dir = dir
			if out, err := load.CombinedOutput(); err != nil && noNetwork.Match(out) {
				t.Skipf("the modules of %s cannot be downloaded: %v\n%s", name, err, out)
			} else if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			test := exec.Command("go", "test", "-vet=off", "./...")
			test.Dir = dir
			if out, err := test.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
