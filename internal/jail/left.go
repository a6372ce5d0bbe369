package jail

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Left is the state of a command's shell at its end: its directory and its environment
// variables. The command reports it and may report anything.
type Left struct {
	Dir  string   // as commands name it; "" if not known
	Set  []string // NAME=value, exported variables that are new or have another value
	Gone []string // names of variables that it no longer exports
}

// tellFD is the descriptor on which a shell reports its state. maxTold is the most bytes
// that golem reads from it.
const (
	tellFD  = 7
	maxTold = 256 << 10
)

// A shell reports its state when it ends, except by exec or a signal. While the line
// runs, the descriptor is closed, so that no program that it starts has it. A line may
// set its own trap on EXIT. Then the shell reports only if it reaches the end of the
// line.
const (
	tells   = `{ command pwd -P; command printf "\0"; /usr/bin/env -0; command printf "\0"; } >&7`
	telling = `trap '{ [ "${__golem-}" ] || ` + tells + `; } 2>/dev/null' EXIT; REPLY=$1; shift; eval " $REPLY" 7>&-; ` +
		`{ __golem=$?; set +x; ` + tells + `; } 2>/dev/null; exit "$__golem"`
)

// Telling returns the same command as Shell, whose shell also reports its state at its
// end.
func Telling(line string) Command {
	c := Shell(line)
	c.Args, c.Tells = []string{c.Args[0], "-c", "--", telling, c.Args[0], line}, true
	return c
}

// leftOf parses the report of a shell. It returns nil if the report is not well formed.
// dir and value translate a directory and a value to the names that commands have.
// leftOf then compares the variables with those that the shell was given.
func leftOf(o Output, initial []string, dir, value func(string) string) *Left {
	fields := strings.Split(string(o.Head)+string(o.Tail), "\x00")
	n := len(fields) - 2
	if o.Hidden > 0 || n < 1 || fields[n] != "" || fields[n+1] != "" {
		return nil
	}
	l := &Left{Dir: dir(strings.TrimSuffix(fields[0], "\n"))}
	if !path.IsAbs(l.Dir) || path.Clean(l.Dir) != l.Dir || !utf8.ValidString(l.Dir) {
		l.Dir = ""
	}
	has := make(map[string]bool)
	for _, e := range fields[1:n] {
		name, text, ok := strings.Cut(e, "=")
		if !ok || name == "" || has[name] {
			return nil
		}
		has[name] = true
		if e = name + "=" + value(text); name != "__golem" && !slices.Contains(initial, e) {
			l.Set = append(l.Set, e)
		}
	}
	for _, e := range initial {
		if name, _, _ := strings.Cut(e, "="); !has[name] {
			l.Gone = append(l.Gone, name)
		}
	}
	return l
}
