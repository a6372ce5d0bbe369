package policy

// Level is the strength of the jail around commands, in ascending order. The zero value
// accepts any.
type Level uint8

// The levels.
const (
	AnyLevel   Level = iota // the strongest available, and golem reports which
	Landlock                // at least a process that can open only what it is shown
	Namespaces              // its own file system tree
	Container
)

func (l Level) String() string { return word(l, "any", "landlock", "namespaces", "container") }

// ParseLevel parses the value of require_os_sandbox: a level, true for any jail at all,
// or false.
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
