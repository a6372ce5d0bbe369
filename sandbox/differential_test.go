package sandbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/sandbox"
	"github.com/golem-forge/golem/sandbox/sandboxtest"
)

// A caller must not notice which backend a sandbox has. The same operations on the same
// files have the same results on each backend, and leave the same files.

// differentialCalls is the number of calls of a part, each made on every backend.
const differentialCalls = 6_000

var differentialSeed = flag.Uint64("differential.seed", 1, "seed of the first part of TestDifferential, 0 for a new one")

func TestDifferential(t *testing.T) {
	const length, every = 500, 25
	parts := testutil.Rounds(2)
	var made atomic.Int64
	t.Run("parts", func(t *testing.T) {
		for part := range parts {
			seed := *differentialSeed + uint64(part)
			if *differentialSeed == 0 {
				seed = rand.Uint64()
			}
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, 0))
				for done := 0; done < differentialCalls; done += length {
					calls := make([]call, length)
					for i := range calls {
						calls[i] = randomCall(random)
					}
					if at, difference := compareCalls(t, calls, every); at >= 0 {
						calls, difference = shortenCalls(t, calls[:at+1], difference)
						t.Fatalf("seed %d: after\n%s%s", seed, script(calls), difference)
					}
					made.Add(length)
				}
			})
		}
	})
	if n, want := made.Load(), int64(parts*differentialCalls); n < want && !t.Failed() {
		t.Errorf("made %d calls, want %d", n, want)
	}
}

// script prints calls, one per line.
func script(calls []call) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "\t%v\n", c)
	}
	return b.String()
}

// shortenCalls removes calls as long as the rest still ends in a difference.
func shortenCalls(t *testing.T, calls []call, difference string) ([]call, string) {
	for part := len(calls) / 2; part > 0; {
		shorter := false
		for at := 0; at+part <= len(calls); {
			fewer := slices.Concat(calls[:at], calls[at+part:])
			if end, found := compareCalls(t, fewer, 1); end >= 0 {
				calls, difference, shorter = fewer[:end+1], found, true
			} else {
				at += part
			}
		}
		if !shorter {
			part /= 2
		}
	}
	return calls, difference
}

// A call is one operation, on one or two names, in one view.
type call struct {
	op       string
	view     int
	name, to string
	data     string
}

func (c call) String() string {
	return fmt.Sprintf("%s %q %q %q in view %d", c.op, c.name, c.to, c.data, c.view)
}

// A stage has the files on one backend, and the views of them.
type stage struct {
	backend  string
	views    []*sandbox.Sandbox
	dir      string                     // the directory on the host, "" for memory
	memories map[string]*sandbox.Memory // by the name of the directory
	kept     map[string]sandbox.Version // the versions that earlier calls read, by name
}

// stageTrees are the directories that the mounts of a stage show.
var stageTrees = map[string]map[string]sandbox.Object{
	"top": {
		"a/f.txt": {Content: "f"}, "a/b/g.md": {Content: "g\nneedle\n"}, "d/deny/x": {Content: "x"}, "d/l": lnk("../a"),
		"keep/k": {Content: "k"},
		"l1":     lnk("a/f.txt"), "l2": lnk("a"), "dang": lnk("a/new"), "out": lnk("../x"), "abs": lnk("/etc/passwd"), "loop": lnk("loop"),
		"pipe": {Mode: fs.ModeNamedPipe | 0o644}, "ro.txt": {Content: "r", Mode: 0o444}, "x.sh": {Content: "s", Mode: 0o755},
		"tomount":     lnk("m/n.md"),
		".git/config": {Content: "c"}, "a/w.worker": {Content: "w"}, "m/hidden": {Content: "h"},
		"a/up": lnk("../keep/k"), "a/b/todeny": lnk("../../d/deny/x"),
		"up/down": lnk("../a/../l2/b"), "empty": {Mode: fs.ModeDir | 0o755},
	},
	"m":  {"n.md": {Content: "needle"}, "q.env": {Content: "q"}, "l": lnk("n.md"), "s/t.md": {Content: "t"}, "s/up": lnk("../../a")},
	"ro": {"r.txt": {Content: "r"}, "rd/r2": {Content: "r"}, "l": lnk("rd")},
}

func lnk(target string) sandbox.Object {
	return sandbox.Object{Content: target, Mode: fs.ModeSymlink | 0o777}
}

func newStage(t *testing.T, backend string) *stage {
	t.Helper()
	st := &stage{backend: backend, memories: map[string]*sandbox.Memory{}, kept: map[string]sandbox.Version{}}
	if backend != "memory" {
		dir, err := os.MkdirTemp(t.TempDir(), "stage")
		if err != nil {
			t.Fatal(err)
		}
		st.dir = dir
	}
	open := func(folder string) sandbox.Backend {
		if st.dir == "" {
			st.memories[folder] = sandbox.NewMemory(stageTrees[folder])
			return st.memories[folder]
		}
		host := sandbox.Host(filepath.Join(st.dir, folder))
		sandboxtest.Plant(t, host, stageTrees[folder])
		how := map[string]func(sandbox.Host) (sandbox.Backend, error){"openat2": sandbox.Dir, "os.Root": sandbox.RootBackend}
		b, err := how[backend](host)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	whole, err := sandbox.New(sandbox.Config{Protect: []string{"/keep/*.lock"}, Mounts: []sandbox.Mount{
		{Target: "/", Backend: open("top"), Access: sandbox.ReadWrite},
		{Target: "/m", Backend: open("m"), Access: sandbox.ReadWrite, Suffixes: []string{".md", ".txt"}, MaxFileBytes: 24},
		{Target: "/ro/deep", Backend: open("ro"), Access: sandbox.ReadOnly},
	}})
	if err != nil {
		t.Fatal(err)
	}
	st.views = views(t, whole)
	return st
}

// views returns the whole sandbox and restricted ones.
func views(t *testing.T, whole *sandbox.Sandbox) []*sandbox.Sandbox {
	list := []*sandbox.Sandbox{whole}
	for _, chain := range [][][]sandbox.Limit{
		{{{Path: "/", Access: sandbox.ReadWrite}, {Path: "/d/deny"}, {Path: "/keep", Access: sandbox.ReadOnly}}},
		{{{Path: "/a", Access: sandbox.ReadWrite}, {Path: "/m", Access: sandbox.ReadWrite}, {Path: "/keep", Access: sandbox.ReadOnly}}},
		{{{Path: "/", Access: sandbox.ReadWrite}},
			{{Path: "/a", Access: sandbox.ReadWrite}, {Path: "/a/b", Access: sandbox.ReadOnly}, {Path: "/l2", Access: sandbox.ReadWrite}}},
	} {
		s := whole
		for _, limits := range chain {
			var err error
			if s, err = s.Restrict(limits...); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, s)
	}
	return list
}

// looks are the operations that only read. changes are the operations that may change
// files.
var (
	looks   = []string{"read", "keep", "stat", "exists", "list", "walk", "find", "search", "open", "lstat", "readlink", "range", "look"}
	changes = []string{"write", "write", "write", "new", "if", "if", "mkdir", "mkdir", "move", "move", "copy", "delete", "delete-all"}
)

// callNames are the names that calls use. There are few, so that calls often use the
// same.
var callNames = []string{
	"/", "/a", "/a/f.txt", "/a/b", "/a/b/g.md", "/a/b/new.md", "/a/new", "/a/new/deep/er", "/d", "/d/deny", "/d/deny/x",
	"/d/deny/new", "/d/l", "/d/l/f.txt", "/d/l/b/g.md", "/d/l/up", "/keep", "/keep/k", "/keep/x.lock", "/l1", "/l2",
	"/l2/f.txt", "/l2/b", "/l2/b/fresh", "/l2/up", "/dang", "/out", "/out/x", "/abs", "/abs/x", "/loop", "/loop/x", "/pipe",
	"/pipe/x", "/ro.txt", "/x.sh", "/tomount", "/.git", "/.git/config", "/.GIT/new", "/a/w.worker", "/a/new.worker", "/m",
	"/m/hidden", "/m/hidden.md", "/m/n.md", "/m/q.env", "/m/l", "/m/s", "/m/s/t.md", "/m/s/up", "/m/s/up/f.txt", "/m/new.md",
	"/m/new.env", "/m/new/er.txt", "/ro", "/ro/deep", "/ro/deep/r.txt", "/ro/deep/rd", "/ro/deep/l/r2", "/ro/new",
	"/ro/deep/new", "/a/up", "/a/b/todeny", "/up", "/up/down", "/up/down/g.md", "/empty", "/empty/new", "/CON", "/a/nul.txt",
	"/new", "/new2", "/new2/x", "/a/f.txt/x", "/..", "../x", "", "a/./f.txt", "/a//b/../f.txt", "m:n.md", "m:../a",
	"/a/.golem-tmp-x", "/a\x00b", "/a\xff", "/missing", "/missing/x/y", "/a/l", "/a/l/x",
}

func randomCall(r *rand.Rand) call {
	c := call{view: r.IntN(5) % 4, name: randomName(r), to: randomName(r)}
	ops := looks
	if r.IntN(5) < 3 {
		ops = changes
	}
	c.op = ops[r.IntN(len(ops))]
	c.data = strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(30)) + []string{"", "\nneedle\n", "\x00"}[r.IntN(3)]
	return c
}

func randomName(r *rand.Rand) string {
	name := callNames[r.IntN(len(callNames))]
	if r.IntN(4) == 0 {
		part, _, _ := strings.Cut(callNames[2+r.IntN(70)][1:], "/")
		name += "/" + part
	}
	return name
}

// compareCalls makes the calls on every backend. It returns the first call with a difference,
// and the difference, or -1 if there is none. It compares the result of every call, and
// all files after every so many calls.
func compareCalls(t *testing.T, calls []call, every int) (int, string) {
	stages := []*stage{newStage(t, "openat2"), newStage(t, "os.Root"), newStage(t, "memory")}
	defer func() {
		for _, st := range stages {
			if st.dir != "" {
				os.RemoveAll(st.dir)
			}
		}
	}()
	for i, c := range calls {
		first := stages[0].do(c)
		for _, st := range stages[1:] {
			if got := st.do(c); got != first {
				return i, fmt.Sprintf("%s ends with\n\t%s\n%s with\n\t%s", stages[0].backend, first, st.backend, got)
			}
		}
		if i%every != 0 && i < len(calls)-1 {
			continue
		}
		want := stages[0].files(t)
		for _, st := range stages[1:] {
			if got := st.files(t); !maps.Equal(got, want) {
				return i, fmt.Sprintf("%s has\n%s%s has\n%s", stages[0].backend, listOnly(want, got), st.backend, listOnly(got, want))
			}
		}
	}
	return -1, ""
}

// listOnly lists the entries of the first map that the second map lacks.
func listOnly(a, b map[string]string) string {
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if b[name] != a[name] {
			fmt.Fprintf(&list, "\t%s: %s\n", name, a[name])
		}
	}
	return list.String()
}

// do makes a call and returns the part of its result that must not depend on the backend.
// That excludes times, IDs, and permissions that depend on the umask.
func (st *stage) do(c call) string {
	s := st.views[c.view]
	var out []any
	var err error
	switch c.op {
	case "read", "keep":
		var data []byte
		var v sandbox.Version
		if data, v, err = s.ReadVersion(c.name); err == nil && c.op == "keep" {
			st.kept[c.name] = v
		}
		out = append(out, fmt.Sprintf("%q", data), v)
	case "range":
		var data []byte
		data, _, err = s.ReadRange(c.name, int64(len(c.data))/4, len(c.data))
		out = append(out, fmt.Sprintf("%q", data))
	case "stat", "look":
		var info sandbox.Info
		if info, err = s.Stat(c.name); err == nil && c.op == "look" {
			st.kept[c.name] = info.Version()
		}
		out = append(out, describeInfo(info))
	case "exists":
		var found bool
		found, err = s.Exists(c.name)
		out = append(out, found)
	case "list":
		var list []sandbox.Entry
		list, err = s.List(c.name)
		out = append(out, list)
	case "walk", "find", "search":
		out, err = st.walk(s, c)
	case "open", "lstat", "readlink":
		out, err = st.asFS(s, c)
	default:
		out, err = st.change(s, c)
	}
	return fmt.Sprint(out, " ", errorText(err))
}

func (st *stage) walk(s *sandbox.Sandbox, c call) (out []any, err error) {
	ctx := context.Background()
	switch c.op {
	case "walk":
		listing, err := s.Walk(ctx, c.name, nil, sandbox.Budget{})
		return []any{listing}, err
	case "find":
		listing, err := s.Find(ctx, c.name, "*.{md,txt}", sandbox.Budget{})
		return []any{listing}, err
	}
	matches, err := s.Search(ctx, c.name, sandbox.Query{Pattern: "need.e"}, sandbox.Budget{})
	return []any{matches}, err
}

func (st *stage) asFS(s *sandbox.Sandbox, c call) (out []any, err error) {
	name := strings.TrimPrefix(c.name, "/")
	switch c.op {
	case "open":
		f, err := s.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		info, err := f.Stat()
		return []any{describeInfo(info.(sandbox.Info))}, err
	case "lstat":
		info, err := s.Lstat(name)
		if err != nil {
			return nil, err
		}
		return []any{describeInfo(info.(sandbox.Info))}, nil
	}
	target, err := s.ReadLink(name)
	return []any{target}, err
}

func (st *stage) change(s *sandbox.Sandbox, c call) (out []any, err error) {
	var info sandbox.Info
	switch c.op {
	case "write":
		info, err = s.Write(c.name, []byte(c.data))
	case "new":
		info, err = s.WriteNew(c.name, []byte(c.data))
	case "if":
		// The version may belong to another name, or be old.
		v, ok := st.kept[c.name]
		if !ok {
			v = st.kept[c.to]
		}
		info, err = s.WriteIf(c.name, []byte(c.data), v)
	case "copy":
		info, err = s.Copy(c.name, c.to)
	case "mkdir":
		err = s.MakeDir(c.name)
	case "move":
		err = s.Move(c.name, c.to)
	case "delete":
		err = s.Delete(c.name)
	case "delete-all":
		err = s.DeleteAll(context.Background(), c.name)
	default:
		err = errors.New("no operation " + c.op)
	}
	out = []any{describeInfo(info), st.around(c.name)}
	if c.op == "move" || c.op == "copy" {
		out = append(out, st.around(c.to))
	}
	return out, err
}

// around describes the directory of a name, and the content of the name if it is a file.
func (st *stage) around(name string) string {
	list, err := st.views[0].List(path.Dir(name))
	var data []byte
	if slices.Contains(list, sandbox.Entry{Name: path.Base(name)}) {
		data, _ = st.views[0].Read(name)
	}
	return fmt.Sprintf("%v %q %s", list, data, sandbox.CodeOf(err))
}

func describeInfo(info sandbox.Info) string {
	size := info.Size()
	if info.IsDir() {
		size = 0
	}
	return fmt.Sprint(info.Path(), " ", size, " ", info.Mode()&(fs.ModeType|0o700))
}

// errorText returns the whole text of an error, which must not depend on the backend.
func errorText(err error) string {
	if err == nil {
		return "ok"
	}
	return fmt.Sprintf("%s: %v", sandbox.CodeOf(err), err)
}

// files returns everything that the stage holds, hidden or not.
func (st *stage) files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for folder, m := range st.memories {
		for name, o := range objects(m, ".") {
			all[path.Join(folder, name)] = o
		}
	}
	if st.dir == "" {
		return all
	}
	err := filepath.WalkDir(st.dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == st.dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch {
		case d.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(at)
			text = string(data)
		case d.Type() == fs.ModeSymlink:
			text, err = os.Readlink(at)
		}
		all[filepath.ToSlash(at[len(st.dir)+1:])] = object(info.Mode(), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func object(mode fs.FileMode, content string) string {
	if mode.Type() == fs.ModeSymlink {
		mode = fs.ModeSymlink
	}
	return fmt.Sprintf("%v %q", mode&(fs.ModeType|0o700), content)
}

// objects returns the objects of a memory at a name and below.
func objects(m *sandbox.Memory, name string) map[string]string {
	all := map[string]string{}
	attr, err := m.Lstat(name)
	if err != nil {
		return map[string]string{name: err.Error()}
	}
	content := attr.Target
	if f, err := m.Open(name); err == nil {
		if attr.Mode.IsRegular() {
			data := make([]byte, attr.Size)
			f.ReadAt(data, 0)
			content = string(data)
		} else {
			entries, _ := f.ReadDir()
			for _, e := range entries {
				maps.Copy(all, objects(m, path.Join(name, e.Name)))
			}
		}
	}
	all[name] = object(attr.Mode, content)
	return all
}
