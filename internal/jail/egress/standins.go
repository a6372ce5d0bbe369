package egress

import (
	"net/netip"
	"sync"
)

// standIns gives each name its own address in 198.18.0.0/15, a range that the Internet
// does not use. A name keeps its address, and an address is never given to a second name:
// a program may remember it as long as it likes.
type standIns struct {
	mu     sync.Mutex
	byName map[string]netip.Addr
	names  []string // the name of first plus its index
	asked  int      // names that no rule allows
}

// Limits for programs that ask for many names. Names that no rule allows cannot use up
// the room of those that a rule allows.
const (
	maxNames = 32 << 10
	maxAsked = 8 << 10
)

var (
	standInRange = netip.MustParsePrefix("198.18.0.0/15")
	firstStandIn = netip.MustParseAddr("198.18.1.0")
)

func newStandIns() *standIns { return &standIns{byName: map[string]netip.Addr{}} }

// find returns the address of a name, and makes one if it has none. It returns false if
// there is no room.
func (s *standIns) find(name string, listed bool) (netip.Addr, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.byName[name]; ok {
		return a, true
	}
	if len(s.names) >= maxNames || !listed && s.asked >= maxAsked {
		return netip.Addr{}, false
	}
	if !listed {
		s.asked++
	}
	first := firstStandIn.As4()
	offset := int(first[2])<<8 + int(first[3]) + len(s.names)
	a := netip.AddrFrom4([4]byte{first[0], first[1] + byte(offset>>16), byte(offset >> 8), byte(offset)})
	s.byName[name] = a
	s.names = append(s.names, name)
	return a, true
}

// name returns the name that an address stands in for.
func (s *standIns) name(a netip.Addr) (string, bool) {
	if !standInRange.Contains(a) || a.Less(firstStandIn) {
		return "", false
	}
	b, first := a.As4(), firstStandIn.As4()
	i := (int(b[1])-int(first[1]))<<16 + (int(b[2])-int(first[2]))<<8 + int(b[3]) - int(first[3])
	s.mu.Lock()
	defer s.mu.Unlock()
	if i >= len(s.names) {
		return "", false
	}
	return s.names[i], true
}
