package run

import "crypto/sha256"

// A model that is stuck repeats the same calls and gets the same results. The run first
// tells the model so, and later ends the conversation.
const (
	toldAfter  = 3 // repetitions
	endedAfter = 6
	maxPeriod  = 4 // length of a repeated series of turns
)

// repeats records the turns of a conversation as hashes of calls and results.
type repeats struct{ turns [][sha256.Size]byte }

// see records a turn and returns how often the last series of turns has been repeated.
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

// same reports whether the count turns before a equal those before b.
func (r *repeats) same(a, b, count int) bool {
	for i := 1; i <= count; i++ {
		if r.turns[a-i] != r.turns[b-i] {
			return false
		}
	}
	return true
}
