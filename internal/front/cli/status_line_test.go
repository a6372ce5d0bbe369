package cli

import (
	"testing"
	"time"
)

// TestStatusText checks the text of a status line: nothing at first, then the time, and a
// bar if the total is known and the terminal is wide enough.
func TestStatusText(t *testing.T) {
	begin := time.Unix(1000, 0)
	l := &statusLine{what: "copying", since: begin, part: -1}
	for _, c := range []struct {
		columns int
		after   time.Duration
		want    string
	}{
		{80, quiet / 2, ""},
		{80, 2 * time.Second, "golem: copying, 2 s"},
		{80, 125 * time.Second, "golem: copying, 2 min 5 s"},
		{16, 2 * time.Second, "golem: copying…"},
	} {
		if got := l.text(c.columns, begin.Add(c.after)); got != c.want {
			t.Errorf("%d columns after %v: got %q, want %q", c.columns, c.after, got, c.want)
		}
	}
	l.advance(10, 40, "10 of 40 files")
	if got, want := l.text(80, begin.Add(2*time.Second)), "golem: copying, 10 of 40 files, 2 s  [#####...............] 25%"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := l.text(50, begin.Add(2*time.Second)), "golem: copying, 10 of 40 files, 2 s"; got != want {
		t.Errorf("narrow: got %q, want %q", got, want)
	}
	var none *statusLine
	none.set("x")
	none.advance(1, 2, "")
	none.end()
}
