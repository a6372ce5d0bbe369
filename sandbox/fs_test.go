package sandbox_test

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/golem-forge/golem/sandbox"
)

// fsTree is a directory with files, directories, and names that need care. An fs.FS can
// show all of it.
var fsTree = map[string]sandbox.Object{
	"README.md":        {Content: "# read me\n"},
	"src/main.go":      {Content: "package main\n"},
	"src/deep/er/x.go": {Content: "package er\n"},
	"src/empty":        {},
	"bin/run":          {Content: "#!/bin/sh\n", Mode: 0o755},
	"none":             {Mode: fs.ModeDir | 0o755},
	".git/config":      {Content: "[core]\n"},
	"a b/ü~[x]":        {Content: "odd\n"},
}

// fsLinks are symlinks inside fsTree.
var fsLinks = map[string]sandbox.Object{
	"latest":       lnk("src/main.go"),
	"src/up":       lnk("../README.md"),
	"lib":          lnk("src/deep"),
	"src/deep/own": lnk("er/../../deep/er/x.go"),
}

func TestFS(t *testing.T) {
	rw, ro := sandbox.ReadWrite, sandbox.ReadOnly
	limit := func(p string, a sandbox.Access) sandbox.Limit { return sandbox.Limit{Path: p, Access: a} }
	for _, k := range kinds() {
		for _, c := range []struct {
			name   string
			links  bool
			mounts []string // the targets of mounts of fsTree
			limits []sandbox.Limit
			want   []string
			hidden []string
		}{
			{name: "one root", mounts: []string{"/"},
				want: []string{"README.md", "src/deep/er/x.go", "bin/run", "none", ".git/config"}},
			{name: "links", links: true, mounts: []string{"/"},
				want: []string{"README.md", "latest", "src/up", "src/deep/own"}},
			{name: "several mounts", mounts: []string{"/in", "/out/deep", "/in/src/over"},
				want: []string{"in/README.md", "out/deep/src/main.go", "in/src/over/bin/run", "in/src/main.go"}},
			{name: "mounts in a root", mounts: []string{"/", "/src/deep", "/new/m"},
				want: []string{"README.md", "src/deep/README.md", "new/m/bin/run", "src/main.go"}, hidden: []string{"src/deep/er"}},
			{name: "restricted", mounts: []string{"/"}, limits: []sandbox.Limit{limit("/src", ro), limit("/a b", rw)},
				want: []string{"src/main.go", "src/empty", "a b/ü~[x]"}, hidden: []string{"README.md", "bin"}},
			{name: "restricted with a hole", mounts: []string{"/"}, limits: []sandbox.Limit{limit("/", rw), limit("/src/deep", sandbox.None)},
				want: []string{"src/main.go", "README.md"}, hidden: []string{"src/deep/er/x.go", "src/deep"}},
			{name: "restricted mounts", mounts: []string{"/in", "/out/deep"}, limits: []sandbox.Limit{limit("/out/deep/src/deep", ro)},
				want: []string{"out/deep/src/deep/er/x.go"}, hidden: []string{"in", "out/deep/README.md"}},
			{name: "a file alone", mounts: []string{"/"}, limits: []sandbox.Limit{limit("/src/main.go", ro)},
				want: []string{"src/main.go"}, hidden: []string{"src/empty", "README.md"}},
			{name: "nothing in a mount", mounts: nil, limits: nil,
				want: []string{"empty"}},
		} {
			t.Run(k.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				var config sandbox.Config
				for _, target := range c.mounts {
					config.Mounts = append(config.Mounts, sandbox.Mount{Target: target, Backend: k.open(t, fsTree, c.links), Access: rw})
				}
				if c.mounts == nil {
					config.Mounts = []sandbox.Mount{{Target: "/empty", Backend: k.open(t, nil, false), Access: rw}}
				}
				s, err := sandbox.New(config)
				must(t, err)
				if c.limits != nil {
					s, err = s.Restrict(c.limits...)
					must(t, err)
				}
				if err := fstest.TestFS(s, c.want...); err != nil {
					t.Error(err)
				}
				for _, name := range c.hidden {
					if f, err := s.Open(name); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("open %s: got %v, %v; want fs.ErrNotExist", name, f, err)
					}
				}
			})
		}
	}
}

// open returns a backend with a tree, and with fsLinks if links is true.
func (k kind) open(t *testing.T, tree map[string]sandbox.Object, links bool) sandbox.Backend {
	t.Helper()
	all := map[string]sandbox.Object{}
	for name, o := range tree {
		all[name] = o
	}
	if links {
		for name, o := range fsLinks {
			all[name] = o
		}
	}
	host := ""
	if k.fixture.OnHost {
		host = t.TempDir()
	}
	return k.fixture.New(t, sandbox.Host(host), all)
}

// TestFSErrors checks the errors of io/fs and its helpers for symlinks that leave the
// mount, for directories and for invalid names.
func TestFSErrors(t *testing.T) {
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Access: sandbox.ReadWrite, Backend: sandbox.NewMemory(map[string]sandbox.Object{
		"d/f": {Content: "0123456789"}, "out": lnk("../x"), "abs": lnk("/x"), "to": lnk("d/f"), "tod": lnk("d"), "pipe": {Mode: fs.ModeNamedPipe},
	})}}})
	must(t, err)
	for name, want := range map[string]error{
		"no": fs.ErrNotExist, "d/no": fs.ErrNotExist, "out": fs.ErrPermission, "abs": fs.ErrPermission, "": fs.ErrInvalid, "/d": fs.ErrInvalid, "d/": fs.ErrInvalid,
		"../d": fs.ErrInvalid, "d//f": fs.ErrInvalid, "d/./f": fs.ErrInvalid, "pipe": sandbox.ErrNotRegular, "d/f/x": sandbox.ErrNotDir,
	} {
		_, err := s.Open(name)
		var pathError *fs.PathError
		if !errors.Is(err, want) || !errors.As(err, &pathError) || pathError.Path != name || pathError.Op != "open" {
			t.Errorf("open %q: got %#v, want a *fs.PathError for it that is %v", name, err, want)
		}
	}
	if target, err := s.ReadLink("to"); target != "d/f" || err != nil {
		t.Errorf("read the symlink: got %q, %v", target, err)
	}
	if target, err := s.ReadLink("out"); target != "" || !errors.Is(err, sandbox.ErrOutside) {
		t.Errorf("read a symlink that leaves the mount: got %q, %v; want ErrOutside", target, err)
	}
	if info, err := s.Lstat("out"); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("lstat of a symlink that leaves the mount: got %v, %v", info, err)
	}
	if _, err := fs.ReadFile(s, "d"); !errors.Is(err, sandbox.ErrIsDir) {
		t.Errorf("read a folder: got %v, want ErrIsDir", err)
	}
	if data, err := fs.ReadFile(s, "to"); string(data) != "0123456789" || err != nil {
		t.Errorf("read through a symlink: got %q, %v", data, err)
	}
	if names, err := fs.Glob(s, "*/f"); !slices.Equal(names, []string{"d/f", "tod/f"}) || err != nil {
		t.Errorf("glob: got %q, %v", names, err)
	}
}

// TestFSFiles: a file can be read from any offset, and a directory in parts. Both stay as
// they were when they were opened.
func TestFSFiles(t *testing.T) {
	m := sandbox.NewMemory(map[string]sandbox.Object{"d/f": {Content: "0123456789"}, "d/g": {}, "d/h": {}})
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: m, Access: sandbox.ReadWrite}}})
	must(t, err)
	f, err := s.Open("d/f")
	must(t, err)
	defer f.Close()
	folder, err := s.Open("d")
	must(t, err)
	defer folder.Close()
	_, err = s.Write("/d/f", []byte("new"))
	must(t, err)
	must(t, s.Delete("/d/h"))
	_, err = f.(io.Seeker).Seek(-3, io.SeekEnd)
	must(t, err)
	if data, err := io.ReadAll(f); string(data) != "789" || err != nil {
		t.Errorf("the end of the file: got %q, %v", data, err)
	}
	part := make([]byte, 2)
	if n, err := f.(io.ReaderAt).ReadAt(part, 4); string(part[:n]) != "45" || err != nil {
		t.Errorf("a part of the file: got %q, %v", part[:n], err)
	}
	var names []string
	for {
		list, err := folder.(fs.ReadDirFile).ReadDir(2)
		for _, e := range list {
			names = append(names, e.Name())
		}
		if err == io.EOF {
			break
		}
		must(t, err)
	}
	if got := strings.Join(names, " "); got != "f g h" {
		t.Errorf("directory: got %q, want its content when it was opened", got)
	}
}
