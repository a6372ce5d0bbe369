package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/sandbox"
)

// Two directories of the host, one to read and one to write.
func Example() {
	home := newExampleDir("papers/one.txt", "results/")
	defer os.RemoveAll(string(home))
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/in", Source: home + "/papers", Access: sandbox.ReadOnly},
		{Target: "/out", Source: home + "/results", Access: sandbox.ReadWrite},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}

	data, err := s.Read("/in/one.txt")
	fmt.Printf("%s %v\n", data, err)
	_, err = s.Write("/out/summary.md", []byte("# Summary\n"))
	fmt.Println(err)
	_, err = s.Write("/in/one.txt", []byte("changed"))
	fmt.Println(err)
	_, err = s.Read("/../../etc/passwd")
	fmt.Println(err)
	// Output:
	// text of papers/one.txt <nil>
	// <nil>
	// write /in/one.txt: read_only; writable: /out
	// read /../../etc/passwd: invalid; .. climbs above /; readable: /in, /out
}

// A sandbox with less access. Names stay the same.
func ExampleSandbox_Restrict() {
	home := newExampleDir("src/app.ts", "secrets/key")
	defer os.RemoveAll(string(home))
	all, _ := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/", Source: home, Access: sandbox.ReadWrite},
	}})
	reviewer, _ := all.Restrict(sandbox.Limit{Path: "/src", Access: sandbox.ReadOnly})

	fmt.Println(reviewer.List("/"))
	_, err := reviewer.Read("/src/app.ts")
	fmt.Println(err)
	_, err = reviewer.Read("/secrets/key")
	fmt.Println(err)
	fmt.Println(all.CanWrite("/src/app.ts"), reviewer.CanWrite("/src/app.ts"))
	// Output:
	// [{src d---------}] <nil>
	// <nil>
	// read /secrets/key: not_found; readable: /src
	// true false
}

// Restrict lowers access without an error. Within reports limits above the access.
func ExampleSandbox_Within() {
	s, _ := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/data", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadOnly},
	}})
	err := s.Within(
		sandbox.Limit{Path: "/data", Access: sandbox.ReadWrite},
		sandbox.Limit{Path: "/workspace", Access: sandbox.ReadOnly},
	)
	fmt.Println(err)
	fmt.Println(errors.Is(err, sandbox.ErrExceedsParent))
	// Output:
	// restrict /data: exceeds_parent; asks rw, the parent has ro
	// restrict /workspace: exceeds_parent; asks ro, the parent has none
	// true
}

// An edit that does not overwrite a change that somebody else made in between.
func ExampleSandbox_WriteIf() {
	s, _ := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/", Backend: sandbox.NewMemory(map[string]sandbox.Object{"n": {Content: "1"}}), Access: sandbox.ReadWrite},
	}})
	_, version, _ := s.ReadVersion("/n")
	s.Write("/n", []byte("2")) // somebody else
	_, err := s.WriteIf("/n", []byte("1+1"), version)
	fmt.Println(err)
	// Output:
	// write /n: conflict; it has changed since it was read; read it again
}

// A walk with a budget reports that it ended early.
func ExampleSandbox_Find() {
	s, _ := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/", Backend: sandbox.NewMemory(map[string]sandbox.Object{
			"a.md": {}, "docs/b.md": {}, "docs/c.txt": {},
		}), Access: sandbox.ReadOnly},
	}})
	found, err := s.Find(context.Background(), "/", "*.md", sandbox.Budget{})
	fmt.Println(found.Found, found.Cut, err)
	found, err = s.Find(context.Background(), "/", "*.md", sandbox.Budget{Results: 1})
	fmt.Println(len(found.Found), found.Cut, err)
	// Output:
	// [{/a.md ----------} {/docs/b.md ----------}]  <nil>
	// 1 results <nil>
}

// A Sandbox is an fs.FS, so it can confine any code that reads one.
func ExampleSandbox_Open() {
	s, _ := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/docs", Backend: sandbox.NewMemory(map[string]sandbox.Object{"a.md": {Content: "A"}}), Access: sandbox.ReadOnly},
	}})
	fs.WalkDir(s, ".", func(name string, _ fs.DirEntry, err error) error {
		fmt.Println(name, err)
		return nil
	})
	// Output:
	// . <nil>
	// docs <nil>
	// docs/a.md <nil>
}

// The shape of createMountSandbox: a program at /, and what it shares.
func ExampleNew_mounts() {
	home := newExampleDir("program/src/app.ts", "npm/index")
	defer os.RemoveAll(string(home))
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/", Source: home + "/program", Access: sandbox.ReadWrite},
		{Target: "/cache", Source: home + "/npm", Access: sandbox.ReadOnly},
	}})
	fmt.Println(err)
	fmt.Println(s.List("/"))
	// Output:
	// <nil>
	// [{cache d---------} {src d---------}] <nil>
}

// The shape of createSandbox in sandboxed mode: zones in one directory, each made
// when it is first written to.
func ExampleNew_sandboxed() {
	home := newExampleDir("")
	defer os.RemoveAll(string(home))
	s, _ := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/cache", Base: home, Source: ".sandbox/cache", Access: sandbox.ReadWrite},
		{Target: "/workspace", Base: home, Source: ".sandbox/workspace", Access: sandbox.ReadWrite},
	}})
	fmt.Println(s.List("/"))
	s.Write("/workspace/report.md", []byte("done"))
	data, err := os.ReadFile(string(home) + "/.sandbox/workspace/report.md")
	fmt.Println(string(data), err)
	// Output:
	// [{cache d---------} {workspace d---------}] <nil>
	// done <nil>
}

// The shape of createSandbox in direct mode: directories as they are.
func ExampleNew_direct() {
	home := newExampleDir("downloads/doc.pdf", "reports/topic.md")
	defer os.RemoveAll(string(home))
	s, _ := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/cache", Source: home + "/downloads", Access: sandbox.ReadWrite},
		{Target: "/workspace", Source: home + "/reports", Access: sandbox.ReadWrite},
	}})
	fmt.Println(s.Exists("/cache/doc.pdf"))
	fmt.Println(s.Exists("/workspace/topic.md"))
	// Output:
	// true <nil>
	// true <nil>
}

// The shape of createSandbox with a single directory: the cache is in the workspace.
func ExampleNew_singleFolder() {
	home := newExampleDir("report.md")
	defer os.RemoveAll(string(home))
	s, _ := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/workspace", Source: home, Access: sandbox.ReadWrite},
		{Target: "/cache", Base: home, Source: ".cache", Access: sandbox.ReadWrite},
	}})
	s.Write("/cache/page.html", []byte("<html>"))
	fmt.Println(s.Exists("/workspace/report.md"))
	fmt.Println(s.Exists("/workspace/.cache/page.html"))
	// Output:
	// true <nil>
	// true <nil>
}

// The shape of createSandbox with custom zones, each with its limits.
func ExampleNew_zones() {
	home := newExampleDir("input/data.json", "input/notes.txt", "output/")
	defer os.RemoveAll(string(home))
	s, _ := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/input", Source: home + "/input", Access: sandbox.ReadOnly, Suffixes: []string{".json"}},
		{Target: "/output", Source: home + "/output", Access: sandbox.ReadWrite, MaxFileBytes: 10},
	}})
	_, err := s.Read("/input/notes.txt")
	fmt.Println(err)
	_, err = s.Write("/output/result.txt", []byte("more than ten bytes"))
	fmt.Println(err)
	_, err = s.Read("input:data.json")
	fmt.Println(err)
	// Output:
	// read /input/notes.txt: suffix; allowed: .json
	// write /output/result.txt: too_large; 19 bytes, at most 10
	// <nil>
}

// newExampleDir makes a directory of the host with these files; a name that ends
// in a slash is a directory.
func newExampleDir(names ...string) sandbox.Host {
	home, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		os.MkdirAll(filepath.Dir(filepath.Join(home, name+"x")), 0o777)
		if name != "" && name[len(name)-1] != '/' {
			os.WriteFile(filepath.Join(home, name), []byte("text of "+name), 0o666)
		}
	}
	return sandbox.Host(home)
}
