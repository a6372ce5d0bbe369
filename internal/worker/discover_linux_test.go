package worker_test

import (
	"strings"
	"testing"
)

// TestDiscoverCase: a worker whose name is in another case must not be missing in silence.
func TestDiscoverCase(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		paths []string
		want  string
		err   string // a part of the error
	}{
		{"an ending in upper case", map[string]string{"main.WORKER": "name: x"}, []string{".", "workers"}, "", "main.WORKER: this worker is not read; a worker file ends in .worker, in lower case; rename it"},
		{"yaml in upper case", map[string]string{"main.YAML": "instructions: x", "mkdocs.YML": "site: x"}, []string{"."}, "", "main.YAML: this worker is not read; a worker file ends in .yaml, in lower case"},
		{"a directory in upper case", map[string]string{"Workers/a.worker": "", "main.worker": ""}, []string{".", "workers"}, "main=main.worker", "Workers: workers there are not read; write worker_paths: [Workers]"},
		{"a directory that the project names", map[string]string{"Workers/a.worker": ""}, []string{"workers", "./Workers"}, "a=Workers/a.worker", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := discover(writeProgram(t, c.files), c.paths...)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}
