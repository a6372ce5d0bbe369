package jail

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrNotBegun is the error of a command that could not begin because its session had
// ended. It can be run in a new session.
var ErrNotBegun = errors.New("the session ended before the command began")

// A Command is a program to run.
type Command struct {
	Path  string   // as it is in the jail
	Args  []string // with the name of the program first
	Names []int    // which of Args name files as the jail has them: the level landlock gives them the names of the host
	Env   []string // above that of the policy; a name alone takes a variable away
	Dir   string
	Time  time.Duration // less than the policy's, where set

	Tells bool   // it tells what it has left: see Telling
	Input []byte // what it reads from its standard input; of an attached one its stream is for that
}

// Shell returns the command that a shell makes of a line: bash where the host
// has it, for that is what most lines are written for. A line is never taken for
// an option, whatever it begins with.
func Shell(line string) Command {
	shell := "/bin/bash"
	if _, err := os.Stat(shell); err != nil {
		shell = "/bin/sh"
	}
	return Command{Path: shell, Args: []string{path.Base(shell), "-c", "--", line}, Dir: Work}
}

// A Result is what came of a command.
type Result struct {
	Code    int     // the exit code; 128 and the signal's number where one ended it
	Signal  string  // its name
	Late    bool    // its time was over
	Stopped bool    // the caller ended it
	Hit     []Limit // those that it ran into; it may have gone on all the same
	Stdout  Output
	Stderr  Output
	Took    time.Duration
	CPU     time.Duration
	Peak    int64 // bytes of its largest process
	Level   Level
	Loose   []Limit // those that hold only in part here

	NoSockets string // why it had no Unix sockets, "" if it had

	Limits Limits // all that were in force; of time the command may have had less

	// Record is where its changes are recorded, nil if it wrote directories of the host. The
	// caller discards it, or hands it to package transaction.
	Record Record

	Left *Left // of a command that tells; nil where it has not
}

// Output is what a command has printed: all of it, or its head and tail.
type Output struct {
	Head, Tail []byte
	Hidden     int64 // bytes between them that are not kept
}

// Text returns an output as text, and how many bytes of it are left out. It is cut
// between characters, and what is no character is replaced.
func (o Output) Text() (text string, hidden int64) {
	head, tail, hidden := o.Head, o.Tail, o.Hidden
	if hidden == 0 {
		return strings.ToValidUTF8(string(head)+string(tail), "\uFFFD"), 0
	}
	for i := 1; i < utf8.UTFMax && i <= len(head); i++ {
		if last := head[len(head)-i:]; utf8.RuneStart(last[0]) && !utf8.FullRune(last) {
			head, hidden = head[:len(head)-i], hidden+int64(i)
			break
		}
	}
	for i := 0; i < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail, hidden = tail[1:], hidden+1
	}
	text = strings.ToValidUTF8(string(head), "\uFFFD") + fmt.Sprintf("\n… %d bytes left out …\n", hidden) + strings.ToValidUTF8(string(tail), "\uFFFD")
	return text, hidden
}
