package terminal

// answers counts, in the input from a terminal, its answers to the question of what it
// is: ESC [ ? numbers c.
type answers struct {
	names int
	at    int
}

func (a *answers) read(input []byte) {
	const begin = "\x1b[?"
	for _, b := range input {
		switch {
		case a.at < len(begin) && b == begin[a.at]:
			a.at++
		case a.at == len(begin) && (b >= '0' && b <= '9' || b == ';'):
		case a.at == len(begin) && b == 'c':
			a.names++
			a.at = 0
		case b == esc:
			a.at = 1
		default:
			a.at = 0
		}
	}
}
