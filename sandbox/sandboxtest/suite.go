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

// A promise is one sentence of the contract, and its test.
type promise struct {
	name string
	test func(t *testing.T, f Fixture)
}

// Suite checks that a backend keeps the contract of [sandbox.Backend]. Every promise is a
// subtest. They run in parallel.
func Suite(t *testing.T, f Fixture) {
	for _, list := range [][]promise{openPromises, lstatPromises, writePromises, conditionPromises, modePromises,
		dirPromises, renamePromises, removePromises, racePromises} {
		for _, p := range list {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				p.test(t, f)
			})
		}
	}
}

// codeOf returns the code that a sandbox would give to an error of a backend. It looks at
// the Code, the errors of io/fs, and the few errors of the system that the contract
// names.
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

// errLink stands for sandbox.ErrLink in tables of codes, because ErrLink is not a code.
const errLink sandbox.Code = "a link"

// wantCode fails the test unless err has one of the codes. "" stands for no error.
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

// put writes a file and fails the test if it cannot.
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

// names returns the names in a directory, sorted.
func names(t testing.TB, b sandbox.Backend, dir string) []string {
	t.Helper()
	f, err := b.Open(dir)
	if err != nil {
		t.Fatalf("open %q: %v", dir, err)
	}
	defer f.Close()
	entries, err := f.ReadDir()
	if err != nil {
		t.Fatalf("read directory %q: %v", dir, err)
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

// A counted is a content that counts how often it is read.
type counted struct {
	io.Reader
	reads int
}

func (c *counted) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

// wantUnread fails the test unless the backend refuses a write of name with one of the
// codes, before it reads from the content.
func wantUnread(t testing.TB, b sandbox.Backend, name string, how sandbox.How, codes ...sandbox.Code) {
	t.Helper()
	content := &counted{Reader: strings.NewReader("never")}
	_, err := b.Write(name, content, how)
	wantCode(t, "write "+name, err, codes...)
	if content.reads > 0 {
		t.Errorf("write %q read from the content before it refused", name)
	}
}

// soon fails the test if act takes too long.
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

// patience is the longest time that an operation may take. To make a name of a thousand
// directories takes seconds if others write to the same disk.
const patience = time.Minute

// binary returns content that a text mode or a decoder would change.
func binary() string {
	var b bytes.Buffer
	for i := range 256 {
		b.WriteByte(byte(i))
	}
	b.WriteString("\r\n\n\r\x1a\xff\xfe\xef\xbb\xbf\x00")
	return b.String()
}
