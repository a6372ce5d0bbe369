package jail

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Left is where the shell of a command ended, and what had become of its variables.
// It is the command's own word, and may be anything.
type Left struct {
	Dir  string   // as commands name it; "" where it is not known
	Set  []string // NAME=value, of what it exports now and did not so before
	Gone []string // names of what it does not export any more
}

// tellFD is the descriptor on which a shell tells, and maxTold how much it may.
const (
	tellFD  = 7
	maxTold = 256 << 10
)

// A shell tells when it ends, by whatever way but exec and a signal. While the line
// runs the descriptor is not there, so that nothing it starts has it. A line that has a
// trap of its own on EXIT keeps that, and is told of where it comes to its end.
const (
	tells   = `{ command pwd -P; command printf "\0"; /usr/bin/env -0; command printf "\0"; } >&7`
	telling = `trap '{ [ "${__golem-}" ] || ` + tells + `; } 2>/dev/null' EXIT; REPLY=$1; shift; eval " $REPLY" 7>&-; ` +
		`{ __golem=$?; set +x; ` + tells + `; } 2>/dev/null; exit "$__golem"`
)

// Telling returns the command that Shell does, which tells in the end what it has left.
func Telling(line string) Command {
	c := Shell(line)
	c.Args, c.Tells = []string{c.Args[0], "-c", "--", telling, c.Args[0], line}, true
	return c
}

// leftOf reads what a shell has told, nil where that is not as it should be. Variables
// are held against those that it was given, once folders and values have the names that
// they are given by.
func leftOf(o Output, given []string, folder, value func(string) string) *Left {
	fields := strings.Split(string(o.Head)+string(o.Tail), "\x00")
	n := len(fields) - 2
	if o.Hidden > 0 || n < 1 || fields[n] != "" || fields[n+1] != "" {
		return nil
	}
	l := &Left{Dir: folder(strings.TrimSuffix(fields[0], "\n"))}
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
		if e = name + "=" + value(text); name != "__golem" && !slices.Contains(given, e) {
			l.Set = append(l.Set, e)
		}
	}
	for _, e := range given {
		if name, _, _ := strings.Cut(e, "="); !has[name] {
			l.Gone = append(l.Gone, name)
		}
	}
	return l
}
