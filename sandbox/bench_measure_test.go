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
		times[i] = 1
		for {
			took := timed(work, times[i])
			if took >= burst/2 {
				times[i] = max(1, int(float64(times[i])*float64(burst)/float64(took)))
				break
			}
			times[i] *= 2
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
	for _, unit := range []struct {
		name string
		size float64
	}{{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}} {
		if seconds >= unit.size {
			return fmt.Sprintf("%.3g %s", seconds/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.3g ns", seconds*1e9)
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
func (t *benchTable) growth(work, unit string, sizes []int, times []series) {
	names, cells := make([]string, len(sizes)), make([]string, len(sizes))
	for i := range sizes {
		names[i], cells[i] = thousands(sizes[i]), duration(times[i].median())
	}
	last := len(sizes) - 1
	t.row(work, strings.Join(names, " / ")+" "+unit, strings.Join(cells, " / "),
		fmt.Sprintf("%.3g×", float64(sizes[last])/float64(max(1, sizes[0]))),
		fmt.Sprintf("%.2f×", times[last].over(times[0])))
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
