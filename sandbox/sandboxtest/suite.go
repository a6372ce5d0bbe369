package sandboxtest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A promise is one sentence of the contract and the test that holds a backend
// to it.
type promise struct {
	name string
	test func(t *testing.T, f Fixture)
}

// Suite holds a backend to the contract of [sandbox.Backend]. Every promise is
// a subtest; they run in parallel.
func Suite(t *testing.T, f Fixture) {
	for _, list := range [][]promise{openPromises, lstatPromises, writePromises, conditionPromises, modePromises,
		folderPromises, renamePromises, removePromises, racePromises} {
		for _, p := range list {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				p.test(t, f)
			})
		}
	}
}

// codeOf returns the code that a sandbox gives to an error of a backend: by its
// Code, by io/fs, or by the few numbers of the system that a contract speaks of.
func codeOf(err error) sandbox.Code {
	var c sandbox.Code
	switch {
	case err == nil:
		return ""
	case err == sandbox.ErrLink:
		return errLink
	case errors.As(err, &c):
		return c
	}
	for _, row := range []struct {
		err  error
		code sandbox.Code
	}{
		{syscall.ENOTDIR, sandbox.ErrNotDir}, {syscall.EISDIR, sandbox.ErrIsDir},
		{syscall.ENOTEMPTY, sandbox.ErrNotEmpty}, {syscall.EINVAL, sandbox.ErrInvalid},
		{fs.ErrNotExist, sandbox.ErrNotFound}, {fs.ErrExist, sandbox.ErrExists}, {fs.ErrInvalid, sandbox.ErrInvalid},
	} {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	return sandbox.ErrInternal
}

// errLink stands for sandbox.ErrLink, which is no code, in tables of codes.
const errLink sandbox.Code = "a link"

// wantCode fails the test unless err has one of the codes; "" is no error.
func wantCode(t testing.TB, what string, err error, codes ...sandbox.Code) {
	t.Helper()
	if got := codeOf(err); !slices.Contains(codes, got) {
		t.Errorf("%s: got %q (%v), want one of %q", what, got, err, codes)
	}
}

// slurp returns the content of a file of the backend.
func slurp(t testing.TB, b sandbox.Backend, name string) string {
	t.Helper()
	content, err := read(b, name)
	if err != nil {
		t.Fatalf("read %q: %v", name, err)
	}
	return content
}

func read(b sandbox.Backend, name string) (string, error) {
	f, err := b.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, 0, f.Attr().Size))
	return string(data), err
}

// put writes a file that must be written.
func put(t testing.TB, b sandbox.Backend, name, content string, how sandbox.How) sandbox.Attr {
	t.Helper()
	attr, err := b.Write(name, strings.NewReader(content), how)
	if err != nil {
		t.Fatalf("write %q: %v", name, err)
	}
	return attr
}

func lstat(t testing.TB, b sandbox.Backend, name string) sandbox.Attr {
	t.Helper()
	attr, err := b.Lstat(name)
	if err != nil {
		t.Fatalf("lstat %q: %v", name, err)
	}
	return attr
}

// names returns the names in a directory, in order.
func names(t testing.TB, b sandbox.Backend, dir string) []string {
	t.Helper()
	f, err := b.Open(dir)
	if err != nil {
		t.Fatalf("open %q: %v", dir, err)
	}
	defer f.Close()
	entries, err := f.ReadDir()
	if err != nil {
		t.Fatalf("read folder %q: %v", dir, err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name)
	}
	slices.Sort(list)
	return list
}

func wantNames(t testing.TB, b sandbox.Backend, dir string, want ...string) {
	t.Helper()
	if got := names(t, b, dir); !slices.Equal(got, want) {
		t.Errorf("names in %q: got %q, want %q", dir, got, want)
	}
}

func wantContent(t testing.TB, b sandbox.Backend, name, want string) {
	t.Helper()
	if got := slurp(t, b, name); got != want {
		t.Errorf("content of %q: got %q, want %q", name, got, want)
	}
}

// A counted is content that knows how often it was read from.
type counted struct {
	io.Reader
	reads int
}

func (c *counted) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

// wantUnread fails the test unless a write of name is refused with one of the
// codes, before anything was read from the content.
func wantUnread(t testing.TB, b sandbox.Backend, name string, how sandbox.How, codes ...sandbox.Code) {
	t.Helper()
	content := &counted{Reader: strings.NewReader("never")}
	_, err := b.Write(name, content, how)
	wantCode(t, "write "+name, err, codes...)
	if content.reads > 0 {
		t.Errorf("write %q read from the content before it refused", name)
	}
}

// soon fails the test if act takes longer than it ever should.
func soon(t testing.TB, what string, act func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		act()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s hangs", what)
	}
}

// patience is how long an operation may take that does not hang. A name of a thousand
// directories, each of them put on a disk that others write to as well, takes seconds.
const patience = time.Minute

// binary is content that a text mode or a decoder would change.
func binary() string {
	var b bytes.Buffer
	for i := range 256 {
		b.WriteByte(byte(i))
	}
	b.WriteString("\r\n\n\r\x1a\xff\xfe\xef\xbb\xbf\x00")
	return b.String()
}
