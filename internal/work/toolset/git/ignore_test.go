package git

import (
	"path"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// TestIgnore checks which names are ignored. The expected result of each row is that of
// git check-ignore.
func TestIgnore(t *testing.T) {
	memory := sandbox.NewMemory(nil)
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: memory, Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"/.gitignore":      "# dependencies\nnode_modules/\n*.log\n!keep.log\n/dist\ndocs/*.tmp\n**/cache/**\n\\#odd\nwith space\\ \n\n!\n",
		"/sub/.gitignore":  "!*.log\nlocal\n",
		"/a[b]/.gitignore": "*.x\n",
	} {
		if _, err := s.Write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	i := &ignoreFiles{files: s, top: "/", known: make(map[string][]ignoreRule)}
	for name, want := range map[string]bool{
		"/node_modules/": true, "/sub/node_modules/": true, "/node_modules": false,
		"/a.log": true, "/deep/er/a.log": true, "/keep.log": false, "/deep/keep.log": false, "/sub/a.log": false,
		"/dist/": true, "/dist": true, "/sub/dist/": false,
		"/docs/a.tmp": true, "/docs/sub/a.tmp": false, "/other/docs/a.tmp": false,
		"/x/cache/a": true, "/cache/a": true, "/#odd": true, "/with space ": true,
		"/sub/local": true, "/local": false, "/sub/deep/local/": true,
		"/a[b]/c.x": true, "/ab/c.x": false, "/main.go": false, "/.gitignore": false,
	} {
		folder := name[len(name)-1] == '/'
		clean := path.Clean(name)
		if got := i.ignores(path.Dir(clean), path.Base(clean), folder); got != want {
			t.Errorf("%s: ignored %v, want %v", name, got, want)
		}
	}
}
