package web

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// storesEnv makes this test binary store documents in a directory until it is killed.
const storesEnv = "GOLEM_TEST_STORES"

func TestMain(m *testing.M) {
	if code, is := changes.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
	if dir := os.Getenv(storesEnv); dir != "" {
		os.Exit(storeForever(dir))
	}
	os.Exit(m.Run())
}

// newIntake returns an intake into in, an untrusted mount, whose converter runs what the
// document says.
func newIntake(dir string) (Intake, place, error) {
	p, err := project.Parse(dir, project.File, []byte(`
sandbox: {mounts: [{source: ./in, target: /in, mode: ro, trust: untrusted}]}
intake: {run: {suffixes: [.run], command: [sh, "{}"]}}
`), project.Env{}, nil)
	if err != nil {
		return Intake{}, place{}, err
	}
	in := Intake{Project: p, Now: time.Now,
		Scanners: func() (*scan.Set, error) { return scan.New(scan.Options{}) },
		Lock:     func(context.Context) (func() error, error) { return func() error { return nil }, nil }}
	to, err := in.place("")
	return in, to, err
}

// levels returns the levels for converters that this machine has.
func levels() map[string]string {
	list := map[string]string{"namespaces": "/nowhere/runsc"}
	if runsc := testutil.FindRunsc(); runsc != "" {
		list["container"] = runsc
	}
	return list
}

// TestExploitedConverter has documents take the converter over: it runs what they say. Nothing
// outside of the stored document changes, and a document whose converter does not end well is
// not stored.
func TestExploitedConverter(t *testing.T) {
	tests := map[string]struct {
		says    string
		want    string // of text.txt, "" for a failure
		failure string
	}{
		"reads":      {`cat "$SECRET" /etc/shadow /root/.ssh/* /home/*/.ssh/* 2>/dev/null; echo done`, "done\n", ""},
		"writes":     {`for d in / /in /work /usr /etc /proc/1/root /var/tmp /dev/shm "$DIR"; do echo x >"$d/planted"; done 2>/dev/null; echo done`, "done\n", ""},
		"names":      {`echo x >CLAUDE.md; echo x >.gitattributes; ln -s /etc/passwd link; mkfifo pipe; echo x >"$(printf 'a\033]0;b\n')"; echo done`, "done\n", ""},
		"daemon":     {`(setsid sleep 1000 >/dev/null 2>&1 &); echo done`, "done\n", ""},
		"hangs":      {`trap "" TERM INT HUP; while :; do sleep 1000; done`, "", "did not end"},
		"forks":      {`f() { f | f & }; f; sleep 1000`, "", ""},
		"exits":      {`echo half; echo x >half.png; exit 1`, "", "exit code 1"},
		"dies":       {`echo half; kill -9 $$`, "", "was ended by signal 9"},
		"prints":     {`yes`, "", ""},
		"fills":      {`head -c 100000000 /dev/zero >a.png`, "", "64 MB"},
		"many":       {`i=0; while [ $i -lt 1100 ]; do echo x >$i; i=$((i+1)); done`, "", "more than 1000"},
		"nothing":    {`true`, "", "no text"},
		"own output": {`echo more >../out/../text; mkdir ../text.d; echo x >../text.d/x; rm ../in/*`, "more\n", ""},
	}
	for level, runsc := range levels() {
		for name, test := range tests {
			t.Run(level+"/"+name, func(t *testing.T) {
				dir := t.TempDir()
				secret := filepath.Join(dir, "secret")
				if err := os.WriteFile(secret, []byte("canary"), 0o644); err != nil {
					t.Fatal(err)
				}
				in, to, err := newIntake(dir)
				if err != nil {
					t.Fatal(err)
				}
				in.Jail = jail.Policy{Runsc: sandbox.Host(runsc), Limits: jail.Limits{Time: time.Minute, Processes: 300, Memory: 1 << 30, Temp: 96 << 20}, Env: []string{"SECRET=" + secret, "DIR=" + dir}}
				if name == "hangs" || name == "forks" {
					in.Jail.Limits.Time = 3 * time.Second
				}
				doc := content{name: "evil.run", data: []byte(test.says)}
				r, err := in.run(t.Context(), IntakeArgs{Source: "evil.run", Jail: level}, to, doc, "evil.run")
				if err != nil {
					t.Fatal(err)
				}
				list := tree(t, dir)
				if test.want == "" {
					if r.Err == nil || !strings.Contains(r.Err.Hint, test.failure) || len(list) != 1 {
						t.Errorf("got %v and the files %q, want an error with %q and no files", r.Err, list, test.failure)
					}
					return
				}
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				o := r.Data.(origin)
				text, err := os.ReadFile(filepath.Join(dir, o.At, "text.txt"))
				if err != nil || string(text) != test.want {
					t.Errorf("got %q, %v, want %q", text, err, test.want)
				}
				for _, name := range list {
					base := filepath.Base(name)
					known := base == "secret" || base == "text.txt" || base == "original.run" || base == OriginName || strings.HasPrefix(base, "result-") && base == safeName(base)
					if !known || base != "secret" && filepath.Dir(name) != o.At[1:] {
						t.Errorf("%q is not of the intake", name)
					}
				}
				if o.Level != level {
					t.Errorf("it ran at the level %s, want %s", o.Level, level)
				}
			})
		}
	}
}

// tree returns the regular files and others below a directory, without directories.
func tree(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, name)
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestUnpack reads archives that no converter means to write.
func TestUnpack(t *testing.T) {
	pack := func(headers ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Size = 1
			if h.Typeflag != tar.TypeReg {
				h.Size = 0
			}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				w.Write([]byte("x"))
			}
		}
		w.Close()
		return b.Bytes()
	}
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o6777} }
	tests := []struct {
		archive []byte
		want    []string
	}{
		{pack(file("text"), file("out/a.png")), []string{"text.txt", "result-a.png"}},
		{pack(file("../../../etc/passwd"), file("/etc/passwd"), file("out/../text")), []string{"result-_.._.._etc_passwd", "result-_etc_passwd", "result-text"}},
		{pack(file("text"), file("text"), file("out/A"), file("out/a")), []string{"text.txt", "text-2.txt", "result-A", "result-a-2"}},
		{pack(tar.Header{Name: "out/l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, tar.Header{Name: "out/h", Typeflag: tar.TypeLink, Linkname: "text"}, file("out/"+strings.Repeat("n", 90))), []string{"result-" + strings.Repeat("n", 80)}},
		{nil, nil},
		{[]byte("no archive, but long enough to be read as one"), nil},
		{pack(file("text"))[:512], nil},
	}
	for i, test := range tests {
		list, err := unpack(test.archive)
		var names []string
		for _, c := range list {
			names = append(names, c.name)
		}
		if (err == nil) != (test.want != nil) || err == nil && !slices.Equal(names, test.want) {
			t.Errorf("%d: got %q, %v, want %q", i, names, err, test.want)
		}
	}
}

// storeForever stores documents of 20 files each, and prints a dot before each.
func storeForever(dir string) int {
	in, to, err := newIntake(dir)
	list := slices.Repeat([]content{{data: bytes.Repeat([]byte("x"), 5000)}}, 20)
	for i := range list {
		list[i].name = "f" + string(rune('a'+i))
	}
	for err == nil {
		os.Stdout.WriteString(".")
		err = in.store(context.Background(), to.files, "/in/doc-"+time.Now().Format("150405.000000000"), list)
	}
	os.Stderr.WriteString(err.Error())
	return 1
}

// TestKilledIntake kills golem while it stores documents. Every document that has its name has
// all of its files, and the next intake removes the rest.
func TestKilledIntake(t *testing.T) {
	dir := t.TempDir()
	for round := range testutil.Rounds(8) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), storesEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 2+round%3)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Duration(round*13%40) * time.Millisecond) // to kill it at any moment
		cmd.Process.Kill()
		cmd.Wait()
	}
	in, to, err := newIntake(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.store(t.Context(), to.files, "/in/last", []content{{name: "a"}}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "in"))
	if err != nil || len(entries) < 2 {
		t.Fatalf("%d documents, %v: the test shows nothing", len(entries), err)
	}
	for _, e := range entries {
		files, err := os.ReadDir(filepath.Join(dir, "in", e.Name()))
		if err != nil || len(files) != 20 && e.Name() != "last" {
			t.Errorf("%s has %d files, %v", e.Name(), len(files), err)
		}
	}
}

// TestSafeName gives hostile names of documents a form that means nothing.
func TestSafeName(t *testing.T) {
	for name, want := range map[string]string{
		"report.pdf": "report.pdf", "../../x": "_.._x", ".git": "git", "-rf": "rf", "a\x1b[2Jb\n": "a__2Jb_", "": "document", "..": "document", "日本": "document",
		strings.Repeat("a", 300) + ".pdf": strings.Repeat("a", 76) + ".pdf",
	} {
		if got := safeName(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"a.PDF": ".pdf", "a": "", "a.tar.gz": ".gz", "a.p f": "", "a.": "", "a.;rm": "", "a." + strings.Repeat("x", 20): ""} {
		if got := suffixOf(name); got != want {
			t.Errorf("%q: got the suffix %q, want %q", name, got, want)
		}
	}
}

// TestSharedInput checks which unfinished directories an intake removes: those of its own
// golem that was killed, and not those that another golem is writing in the same mount.
func TestSharedInput(t *testing.T) {
	dir := t.TempDir()
	in, to, err := newIntake(dir)
	if err != nil {
		t.Fatal(err)
	}
	other := in
	in.Owner, other.Owner = "one", "other"
	own, others := filepath.Join(dir, "in", in.unfinished()+"a"), filepath.Join(dir, "in", other.unfinished()+"a")
	for _, name := range []string{own, others} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r, err := in.run(t.Context(), IntakeArgs{Source: "a.txt", Raw: true}, to, content{name: "a.txt", data: []byte("a")}, "a.txt")
	if err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	if info, err := os.Stat(filepath.Join(dir, r.Data.(origin).At)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the document: got %v, %v, want one for the user only", info.Mode(), err)
	}
	if _, err := os.Stat(own); !os.IsNotExist(err) {
		t.Errorf("its own unfinished directory is there: %v", err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Errorf("the directory of another golem: %v", err)
	}
}

// TestAddressesWithoutSecrets checks that the origin of a document has no key of its address.
func TestAddressesWithoutSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example/x.pdf?id=12&page=3":                     "https://a.example/x.pdf?id=12&page=3",
		"https://a.example/x.pdf?sig=0123456789abcdef0&id=12":      "https://a.example/x.pdf?sig=hidden&id=12",
		"https://a.example/x.pdf?0123456789abcdef0123456789abcdef": "https://a.example/x.pdf?hidden",
		"https://me:secret@a.example/x#token":                      "https://me:xxxxx@a.example/x",
		"https://a.example/x?a=b=0123456789abcdef":                 "https://a.example/x?a=hidden",
		"https://a.example/x?a=1;token=0123456789abcdef":           "https://a.example/x?a=hidden",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := withoutSecrets(u); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
