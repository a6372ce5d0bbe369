package pager

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		environ string
		want    string
	}{
		{"", "less"},
		{"PAGER=more", "more"},
		{"PAGER=more GOLEM_PAGER=most", "most"},
		{"PAGER=more GOLEM_PAGER=", ""},
		{"PAGER=cat", ""},
		{"TERM=xterm", "less"},
		{"TERM=dumb", ""},
		{"TERM=dumb PAGER=less", ""},
	} {
		if got := Command(strings.Fields(c.environ)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.environ, got, c.want)
		}
	}
}

// TestPager checks which pagers count as having shown the text. The long text does not fit
// into a pipe.
func TestPager(t *testing.T) {
	const long = 1 << 20
	for _, c := range []struct {
		command string
		size    int
		want    error
	}{
		{"cat", 100, nil},
		{"cat", long, nil},
		{"head -c 10", 100, nil},
		{"head -c 10", long, nil},
		{"true", 100, ErrNone},
		{"true", long, ErrNone},
		{"false", 100, ErrNone},
		{"cat --nosuchflag", 100, ErrNone},
		{"/nonexistent", 100, ErrNone},
		{"", 100, ErrNone},
	} {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("x", c.size)
		p, err := Start(c.command, os.Environ(), out, text)
		if err == nil {
			var fed sync.WaitGroup
			fed.Go(func() { p.Feed(text) })
			err = p.Wait()
			fed.Wait()
		}
		out.Close()
		if !errors.Is(err, c.want) {
			t.Errorf("%q with %d bytes: got %v, want %v", c.command, c.size, err, c.want)
		}
	}
}

// TestDefaults checks the settings for less: those of the user stay.
func TestDefaults(t *testing.T) {
	for _, c := range []struct{ environ, want string }{
		{"", "LESS=FRX LESSCHARSET=utf-8"},
		{"LANG=C", "LANG=C LESS=FRX LESSCHARSET=utf-8"},
		{"LESS=S", "LESS=S LESSCHARSET=utf-8"},
		{"LESSCHARSET=latin1 LESS=", "LESSCHARSET=latin1 LESS="},
	} {
		if got := strings.Join(withDefaults(strings.Fields(c.environ)), " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.environ, got, c.want)
		}
	}
}
