package project

import (
	"fmt"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

const (
	maxBytes    = 1 << 50 // a pebibyte: a larger number is a typing error
	maxDuration = 366 * 24 * time.Hour
)

// checkRange adds a problem if a number is zero or too large.
func (l *loader) checkRange(label string, n strictyaml.Node, above, below bool, most string) {
	what := label + ": " + sandbox.Shown(n.Text)
	switch {
	case !above:
		without := "leave the key out for none"
		switch {
		case strings.HasPrefix(label, "limits."):
			without = "leave the key out for the default; a command always has a limit"
		case label == "budget.turns", label == "budget.workers":
			without = "write a number; without the key the default applies"
		}
		l.problems.Add(n, what, "0 would be no limit; "+without)
	case !below:
		l.problems.Add(n, what, "at most "+most)
	}
}

// readWhole returns a whole number from least to most.
func (l *loader) readWhole(label string, n strictyaml.Node, least, most int64) int64 {
	v, err := n.Int()
	l.checkRange(label, n, v >= least, err == nil && v <= most, fmt.Sprint(most))
	return v
}

// readCount returns the whole number at a path of keys, 0 if it is missing.
func (l *loader) readCount(most int64, keys ...string) int64 {
	n, ok := l.valueAt(keys...)
	if !ok {
		return 0
	}
	return l.readWhole(strings.Join(keys, "."), n, 1, most)
}

// readBytes returns the size at a path of keys, 0 if it is missing.
func (l *loader) readBytes(keys ...string) int64 {
	n, ok := l.valueAt(keys...)
	if !ok {
		return 0
	}
	return l.readSize(strings.Join(keys, "."), n)
}

func (l *loader) readSize(label string, n strictyaml.Node) int64 {
	v, err := n.Bytes()
	l.checkRange(label, n, v > 0, err == nil && v <= maxBytes, fmt.Sprint(int64(maxBytes)))
	return v
}

// readDuration returns the time at a path of keys, 0 if it is missing.
func (l *loader) readDuration(keys ...string) time.Duration {
	n, ok := l.valueAt(keys...)
	if !ok {
		return 0
	}
	v, err := n.Duration()
	l.checkRange(strings.Join(keys, "."), n, v > 0, err == nil && v <= maxDuration, "8784h")
	return v
}
