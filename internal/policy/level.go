package policy

// Level is a boundary that the operating system draws around commands, the
// weaker the lower. The zero value asks for none in particular.
type Level uint8

// The levels.
const (
	AnyLevel   Level = iota // the best there is, and it is told
	Landlock                // at least a process that can open only what is shown
	Namespaces              // a tree of its own
	Container
)

func (l Level) String() string { return word(l, "any", "landlock", "namespaces", "container") }

// ParseLevel reads what require_os_sandbox takes: the words, true for any
// boundary at all, and false.
func ParseLevel(text string) (Level, bool) {
	switch text {
	case "false":
		return AnyLevel, true
	case "true":
		return Landlock, true
	}
	for _, l := range []Level{Landlock, Namespaces, Container} {
		if l.String() == text {
			return l, true
		}
	}
	return AnyLevel, false
}
