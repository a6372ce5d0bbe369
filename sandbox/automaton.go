package sandbox

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

const (
	maxStates       = 1000     // states of one automaton, which take about a megabyte
	maxInstructions = 5000     // instructions of an expression that gets an automaton
	maxWide         = 64 << 10 // remembered steps over characters of more than a byte
)

// An automaton finds the lines that a regular expression may match. It reads every byte
// once and is many times faster than package regexp. Each state is a set of instructions
// of the expression that a text can lead to. A step from one state to the next is
// computed when a text first needs it. The automaton does not know where in a line a
// match is. If an expression needs too many states, the automaton also reports lines that
// do not match, so the caller runs
// the expression on each reported line.
//
// It remembers steps as it runs, so every goroutine needs its own.
type automaton struct {
	prog  *syntax.Prog
	begin *state // state at the start of a line; nil if every line may match
	known map[string]*state
	wide  int // number of remembered steps over characters of more than a byte
}

// A state is what is known about a line that has not matched so far.
type state struct {
	at   []uint32 // instructions of the expression, in order
	last rune     // class of the character before: noRune, wordRune or otherRune
	next [utf8.RuneSelf]*state
	wide map[rune]*state // like next, for characters of more than a byte
}

// The classes of the character before. An expression can only ask whether there is one,
// and whether it belongs to a word.
const (
	noRune    rune = -1
	wordRune  rune = 'a'
	otherRune rune = ' '
)

func newAutomaton(prog *syntax.Prog) *automaton {
	a := &automaton{prog: prog, known: map[string]*state{}}
	if len(prog.Inst) <= maxInstructions {
		a.begin = a.state(nil, noRune)
	}
	return a
}

// find returns a position in the first line that may match, or at its end. It returns -1
// if there is no such line. pos is the start of a line.
func (a *automaton) find(data []byte, pos int) int {
	now := a.begin
	if now == nil {
		return pos
	}
	for i := pos; i < len(data); i++ {
		c := data[i]
		if c < utf8.RuneSelf {
			if next := now.next[c]; next != nil {
				now = next
				continue
			}
		}
		r, size := utf8.DecodeRune(data[i:])
		if r == '\r' && (i+1 == len(data) || data[i+1] == '\n') {
			r = '\n' // the expression does not see the carriage return at the end of a line
		}
		if now = a.step(now, r); now == nil {
			return i
		}
		i += size - 1
	}
	if now != a.begin && a.step(now, '\n') == nil {
		return len(data)
	}
	return -1
}

// step returns the state after a character, nil if the line may match.
func (a *automaton) step(s *state, r rune) *state {
	if next := s.wide[r]; next != nil {
		return next
	}
	next := a.computeStep(s, r)
	switch {
	case next == nil:
	case r < utf8.RuneSelf && r != '\r': // find must look at each carriage return
		s.next[r] = next
	default:
		if a.wide++; a.wide > maxWide {
			return next
		}
		if s.wide == nil {
			s.wide = map[rune]*state{}
		}
		s.wide[r] = next
	}
	return next
}

// computeStep computes the state after a character. From each instruction it follows
// those that need no character, and then the ones that match the character.
func (a *automaton) computeStep(s *state, r rune) *state {
	after, last := r, otherRune
	switch {
	case r == '\n':
		after = noRune
	case syntax.IsWordChar(r):
		last = wordRune
	}
	between := syntax.EmptyOpContext(s.last, after)
	var next []uint32
	seen := make([]bool, len(a.prog.Inst))
	todo := append(slices.Clone(s.at), uint32(a.prog.Start)) // a match may start anywhere
	for len(todo) > 0 {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch inst := &a.prog.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return nil
		case syntax.InstFail:
		case syntax.InstNop, syntax.InstCapture:
			todo = append(todo, inst.Out)
		case syntax.InstAlt, syntax.InstAltMatch:
			todo = append(todo, inst.Out, inst.Arg)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^between == 0 {
				todo = append(todo, inst.Out)
			}
		default:
			if inst.MatchRune(r) {
				next = append(next, inst.Out)
			}
		}
	}
	if r == '\n' {
		return a.begin
	}
	slices.Sort(next)
	return a.state(slices.Compact(next), last)
}

// state returns the state with these properties, nil if there are too many states.
func (a *automaton) state(at []uint32, last rune) *state {
	key := binary.AppendVarint(nil, int64(last))
	for _, pc := range at {
		key = binary.AppendUvarint(key, uint64(pc))
	}
	s := a.known[string(key)]
	if s == nil && len(a.known) < maxStates {
		s = &state{at: at, last: last}
		a.known[string(key)] = s
	}
	return s
}
