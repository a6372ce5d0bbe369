package sandbox_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A series is the time that one side took for one call, in each round.
type series []float64

// takeTurns measures sides that do the same work. In each round every side
// works once, for about the length of a burst, and the order turns from round
// to round: what disturbs the machine for longer than a moment disturbs all of
// them, and a ratio within a round keeps its meaning. A side is called with how
// often to do its work.
func takeTurns(rounds int, burst time.Duration, sides ...func(times int)) []series {
	times := make([]int, len(sides))
	for i, work := range sides {
		times[i] = fitting(burst, work)
	}
	// Those of about the same speed work equally often: a disk that is uneven,
	// or was when the bursts were fitted, treats them alike.
	least := slices.Min(times)
	for i := range times {
		if times[i] < 10*least {
			times[i] = least
		}
	}
	all := make([]series, len(sides))
	for round := range rounds {
		for k := range sides {
			i := (k + round) % len(sides)
			took := timed(sides[i], times[i])
			all[i] = append(all[i], took.Seconds()/float64(times[i]))
		}
	}
	return all
}

// fitting returns how often the work is done in a burst, at least once. It takes
// the best of several tries: a disturbance must not pass for slow work.
func fitting(burst time.Duration, work func(times int)) int {
	for times := 1; burst > once; times *= 2 {
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

// repeat makes a side of a call.
func repeat(call func()) func(int) {
	return func(times int) {
		for range times {
			call()
		}
	}
}

// median returns the middle of the rounds.
func (s series) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)/2]
}

// over returns the median of the ratios to another side, round by round.
func (s series) over(peer series) float64 {
	ratios := make(series, len(s))
	for i := range s {
		ratios[i] = s[i] / peer[i]
	}
	return ratios.median()
}

// less returns what is left of each round without another side's time.
func (s series) less(part series) series {
	rest := make(series, len(s))
	for i := range s {
		rest[i] = s[i] - part[i]
	}
	return rest
}

// duration prints seconds with three digits and the fitting unit.
func duration(seconds float64) string {
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

// A benchTable prints its rows as they come, so that a long run shows where it
// is.
type benchTable struct {
	columns     []column
	met, missed int
}

type column struct {
	head  string
	width int
}

func newBenchTable(columns ...column) *benchTable {
	t := &benchTable{columns: columns}
	var heads, lines []string
	for _, c := range columns {
		heads = append(heads, c.head)
		lines = append(lines, strings.Repeat("-", c.width))
	}
	fmt.Println()
	t.row(heads...)
	t.row(lines...)
	return t
}

func (t *benchTable) row(cells ...string) {
	var b strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&b, "| %-*s ", t.columns[i].width, cell)
	}
	fmt.Println(b.String() + "|")
}

// against prints ours beside a peer's. A target of 0 is none.
func (t *benchTable) against(work string, ours series, peer string, theirs series, target float64) {
	ratio := ours.over(theirs)
	limit, ok := "", ""
	if target > 0 {
		limit, ok = fmt.Sprintf("%.2f×", target), t.judge(ratio <= target)
	}
	t.row(work, duration(ours.median()), duration(theirs.median())+" "+peer, fmt.Sprintf("%.2f×", ratio), limit, ok)
}

func (t *benchTable) judge(ok bool) string {
	if ok {
		t.met++
		return "yes"
	}
	t.missed++
	return "NO"
}

// growth prints how a time grows from the first of the sizes to the last.
func (t *benchTable) growth(work string, sizes []int, unit string, times []series) {
	at, took := make([]string, len(sizes)), make([]string, len(sizes))
	for i := range sizes {
		at[i], took[i] = thousands(sizes[i]), duration(times[i].median())
	}
	last := len(sizes) - 1
	t.row(work, strings.Join(at, " / ")+" "+unit, strings.Join(took, " / "),
		thousands(sizes[last]/max(1, sizes[0])), fmt.Sprintf("%.2f", times[last].over(times[0])))
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
