package sandbox

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

const (
	maxStates       = 1000     // of one automaton: about a megabyte
	maxInstructions = 5000     // of an expression that gets one
	maxWide         = 64 << 10 // steps over wide characters that it remembers
)

// An automaton finds the lines that a regular expression may match. It looks at
// every byte once and is many times faster than package regexp: each of its
// states is a set of places in the expression that a text can lead to, and the
// way from state to state is worked out when a text first takes it. It does not
// know where in a line a match lies, and an expression that needs too many
// states makes it let lines pass: the expression itself has the last word.
//
// It learns as it goes, so every goroutine needs its own.
type automaton struct {
	prog  *syntax.Prog
	begin *state // at the beginning of a line; nil: every line passes
	known map[string]*state
	wide  int // steps over wide characters that are known
}

// A state is where a line that has not matched so far may stand.
type state struct {
	at   []uint32 // instructions of the expression, in order
	last rune     // stands for the character before
	next [utf8.RuneSelf]*state
	wide map[rune]*state // next for characters of more than a byte
}

// All that an expression can ask about the character before: whether there is
// one, and whether it belongs to a word.
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

// find returns where the first line that may match gives itself away, which is
// in it or at its end, and -1 if there is none. A line starts at pos.
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
			r = '\n' // the expression does not see it either
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

// step returns the state after a character, nil where the line may match.
func (a *automaton) step(s *state, r rune) *state {
	if next := s.wide[r]; next != nil {
		return next
	}
	next := a.computeStep(s, r)
	switch {
	case next == nil:
	case r < utf8.RuneSelf && r != '\r': // which find has to look at each time
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

// work works out a step: from each instruction on as far as no character is
// needed, then over the character.
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
	todo := append(slices.Clone(s.at), uint32(a.prog.Start)) // a match may begin anywhere
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

// state returns the state with these properties, nil where it would be one too
// many.
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
