// Package benchtable times golem and its peers for make bench and prints a table. It runs
// both in turns, so that a disturbance of the machine affects both.
package benchtable

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// How long to measure a row. Short work is repeated in bursts; long work runs once in a
// round.
const (
	ManyRounds = 201
	FewRounds  = 11
	Burst      = time.Millisecond
	Once       = time.Nanosecond
)

// A Series holds the time of one side for one call, per round.
type Series []float64

// Turns measures sides that do the same work. In each round every side works for about
// the length of a burst. The order of the sides changes from round to round. A longer
// disturbance of the machine affects all sides, so a ratio within a round stays valid.
// The argument of a side is how often to do its work.
func Turns(rounds int, burst time.Duration, sides ...func(times int)) []Series {
	times := make([]int, len(sides))
	for i, work := range sides {
		times[i] = fitting(burst, work)
	}
	// Sides of about the same speed work equally often. Then an uneven disk treats them
	// alike, also if it was uneven when the bursts were fitted.
	least := slices.Min(times)
	for i := range times {
		if times[i] < 10*least {
			times[i] = least
		}
	}
	all := make([]Series, len(sides))
	for round := range rounds {
		for k := range sides {
			i := (k + round) % len(sides)
			took := timed(sides[i], times[i])
			all[i] = append(all[i], took.Seconds()/float64(times[i]))
		}
	}
	return all
}

// fitting returns how often the work fits into a burst, at least once. It takes the best
// of several tries, so that a disturbance does not count as slow work.
func fitting(burst time.Duration, work func(times int)) int {
	for times := 1; burst > Once; times *= 2 {
		best := timed(work, times)
		for range 4 {
			if best >= burst/2 {
				best = min(best, timed(work, times))
			}
		}
		if best >= burst/2 {
			return max(1, int(float64(times)*float64(burst)/float64(best)))
		}
	}
	return 1
}

func timed(work func(times int), times int) time.Duration {
	start := time.Now()
	work(times)
	return time.Since(start)
}

// Repeat returns a side that repeats a call.
func Repeat(call func()) func(int) {
	return func(times int) {
		for range times {
			call()
		}
	}
}

// Median returns the median of the rounds.
func (s Series) Median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)/2]
}

// Over returns the median of the ratios to another side, round by round.
func (s Series) Over(peer Series) float64 {
	ratios := make(Series, len(s))
	for i := range s {
		ratios[i] = s[i] / peer[i]
	}
	return ratios.Median()
}

// Less returns the series minus another one, round by round.
func (s Series) Less(part Series) Series {
	rest := make(Series, len(s))
	for i := range s {
		rest[i] = s[i] - part[i]
	}
	return rest
}

// Duration formats seconds with three digits and a suitable unit.
func Duration(seconds float64) string {
	value, unit := seconds*1e9, "ns"
	for _, larger := range []string{"µs", "ms", "s"} {
		if value < 999.5 {
			break
		}
		value, unit = value/1000, larger
	}
	switch {
	case value < 9.995:
		return fmt.Sprintf("%.2f %s", value, unit)
	case value < 99.95:
		return fmt.Sprintf("%.1f %s", value, unit)
	}
	return fmt.Sprintf("%.0f %s", value, unit)
}

// A Table prints each row at once, so that a long run shows its progress.
type Table struct {
	out         io.Writer
	columns     []column
	Met, Missed int // number of targets
}

// A column has a title and a width.
type column struct {
	head  string
	width int
}

// Peers starts a table that compares golem with its peers. See Against.
func Peers(out io.Writer) *Table {
	return newTable(out, column{"work", 34}, column{"ours", 16}, column{"peer", 32}, column{"ratio", 6}, column{"target", 8}, column{"ok?", 3})
}

// Growths starts a table of how times grow. See Growth.
func Growths(out io.Writer) *Table {
	return newTable(out, column{"work", 16}, column{"at", 34}, column{"time", 57}, column{"size ×", 6}, column{"time ×", 7})
}

func newTable(out io.Writer, columns ...column) *Table {
	t := &Table{out: out, columns: columns}
	var heads, lines []string
	for _, c := range columns {
		heads = append(heads, c.head)
		lines = append(lines, strings.Repeat("-", c.width))
	}
	fmt.Fprintln(out)
	t.Row(heads...)
	t.Row(lines...)
	return t
}

// Row prints one row.
func (t *Table) Row(cells ...string) {
	var b strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&b, "| %-*s ", t.columns[i].width, cell)
	}
	fmt.Fprintln(t.out, b.String()+"|")
}

// Against prints our time and the time of a peer in one row. A target of 0 means none.
func (t *Table) Against(work string, ours Series, peer string, theirs Series, target float64) {
	ratio := ours.Over(theirs)
	limit, ok := "", ""
	if target > 0 {
		limit, ok = fmt.Sprintf("%.2f×", target), t.Judge(ratio <= target)
	}
	t.Row(work, Duration(ours.Median()), Duration(theirs.Median())+" "+peer, Ratio(ratio), limit, ok)
}

// Ratio formats a ratio, with at least one digit that is not 0 if it is above a thousandth.
func Ratio(ratio float64) string {
	if ratio < 0.0995 {
		return fmt.Sprintf("%.3f×", ratio)
	}
	return fmt.Sprintf("%.2f×", ratio)
}

// Judge counts a target as met or missed, and returns the word for it.
func (t *Table) Judge(ok bool) string {
	if ok {
		t.Met++
		return "yes"
	}
	t.Missed++
	return "NO"
}

// Growth prints how a time grows from the smallest size to the largest.
func (t *Table) Growth(work string, sizes []int, unit string, times []Series) {
	at, took := make([]string, len(sizes)), make([]string, len(sizes))
	for i := range sizes {
		at[i], took[i] = Thousands(sizes[i]), Duration(times[i].Median())
	}
	last := len(sizes) - 1
	t.Row(work, strings.Join(at, " / ")+" "+unit, strings.Join(took, " / "),
		Thousands(sizes[last]/max(1, sizes[0])), fmt.Sprintf("%.2f", times[last].Over(times[0])))
}

// Thousands formats a number with commas.
func Thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", Thousands(n/1000), n%1000)
}
