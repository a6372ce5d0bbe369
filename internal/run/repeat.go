package run

import "crypto/sha256"

// A model that gets nowhere makes the same calls again and again, and gets the same
// answers. The first time that is seen it is told so; later it is ended.
const (
	toldAfter  = 3 // times
	endedAfter = 6
	maxPeriod  = 4 // turns that come again together
)

// repeats are the turns of a conversation, each by what was asked and answered.
type repeats struct{ turns [][sha256.Size]byte }

// see notes a turn, and returns how often what came last has come in a row.
func (r *repeats) see(turn []byte) int {
	const most = maxPeriod * endedAfter
	r.turns = append(r.turns, sha256.Sum256(turn))
	if len(r.turns) > most {
		r.turns = r.turns[len(r.turns)-most:]
	}
	times := 1
	for period := 1; period <= maxPeriod; period++ {
		n := 1
		for end := len(r.turns) - period; end >= period && r.same(end, len(r.turns), period); end -= period {
			n++
		}
		times = max(times, n)
	}
	return times
}

// same reports whether as many turns before one place are those before another.
func (r *repeats) same(a, b, count int) bool {
	for i := 1; i <= count; i++ {
		if r.turns[a-i] != r.turns[b-i] {
			return false
		}
	}
	return true
}
