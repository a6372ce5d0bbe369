package terminal

import (
	"testing"
	"time"
)

// TestWaitIdle checks that golem does not take the terminal while the user types, longer
// in the middle of a line, and that the end of the program ends the wait.
func TestWaitIdle(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		idle, compose time.Duration
		last          byte
		want          bool
	}{
		"after a line":        {time.Hour, 0, '\r', false},
		"in a line":           {0, time.Hour, 'a', false},
		"long after a line":   {0, time.Hour, '\n', true},
		"long after a letter": {time.Hour, 0, 'a', true},
	} {
		l := &Line{ending: make(chan struct{}), idle: test.idle, compose: test.compose}
		l.noteKeys('x')
		l.noteKeys(test.last)
		if !test.want {
			close(l.ending)
		}
		for range 2 { // a second question needs no new pause
			if got := l.waitIdle(); got != test.want {
				t.Errorf("%s: got %v, want %v", name, got, test.want)
			}
		}
	}
	if l := (&Line{ending: make(chan struct{}), idle: time.Hour, compose: time.Hour}); !l.waitIdle() {
		t.Error("golem waits although nobody has typed")
	}
}
