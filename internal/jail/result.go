package jail

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrNotBegun is the error of a command that could not start because its jail had
// ended. A new jail can run it.
var ErrNotBegun = errors.New("the session ended before the command began")

// A Command is a program to run.
type Command struct {
	Path  string   // path in the jail
	Args  []string // the first is the name of the program
	Names []int    // indexes of Args that are paths in the jail; the level landlock replaces them with paths of the host
	Env   []string // overrides the variables of the policy; a name without a value removes the variable
	Dir   string
	Time  time.Duration // a shorter limit than the policy's, if not 0

	// Program is the index of the first of the Args that the shell at Path executes in
	// its place. The jail executes them without the shell if it can. 0 for none.
	Program int

	Tells bool   // the shell reports its state at its end: see Telling
	Input []byte // standard input; an attached command uses its stream instead

	// OnOutput, if not nil, receives all output of both streams as it arrives, also what
	// the result omits. Calls never overlap. An attached command has its own streams.
	OnOutput func(data []byte)
}

// Shell returns the command that runs a line in a shell. It uses bash if the host has it,
// because most lines are written for bash. A line that begins with - is not read as an
// option.
func Shell(line string) Command {
	shell := "/bin/bash"
	if _, err := os.Stat(shell); err != nil {
		shell = "/bin/sh"
	}
	return Command{Path: shell, Args: []string{path.Base(shell), "-c", "--", line}, Dir: Work}
}

// QuoteWord quotes a word for a shell.
func QuoteWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// A Result is the result of a command.
type Result struct {
	Code    int     // the exit code; 128 plus the number of the signal that ended it
	Signal  string  // the name of the signal that ended it
	Late    bool    // its time was over
	Stopped bool    // the caller ended it
	Hit     []Limit // limits that it reached; it may have continued
	Stdout  Output
	Stderr  Output
	Took    time.Duration
	CPU     time.Duration
	Peak    int64 // bytes of memory of its largest process
	Level   Level
	Loose   []Limit // limits that hold only in part here

	NoSockets string // why it had no Unix sockets, "" if it had
	NoNetwork string // why commands had no network although the policy has one, "" otherwise
	NoRunsc   bool   // the runsc that the user named for content from strangers does not work

	Refused Refused // hosts that the command asked for and may not reach

	Limits Limits // the limits that held; the command may have had less time

	// Record holds its changes. It is nil if the command wrote directories of the host.
	// The caller discards it, or hands it to package changes.
	Record Record

	Left *Left // the state of the shell, if Tells was set and the shell reported it
}

// Output is the output of a command: all of it, or its head and tail.
type Output struct {
	Head, Tail []byte
	Hidden     int64 // bytes between Head and Tail that were dropped
}

// Text returns an output as text, and how many bytes of it are missing. It cuts between
// characters and replaces invalid UTF-8.
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
	text = strings.ToValidUTF8(string(head), "\uFFFD") + fmt.Sprintf("\n… %d bytes omitted …\n", hidden) + strings.ToValidUTF8(string(tail), "\uFFFD")
	return text, hidden
}

// Settings returns values of the project file, KEY=VALUE, with which the command would have
// reached the hosts that it asked for, and would have had twice of each limit that it reached.
func (r Result) Settings() (list []string) {
	for _, item := range r.Refused.Add {
		if strings.ContainsAny(item, ".:") {
			item = strings.TrimPrefix(item, "+")
		}
		list = append(list, "network.allow="+item)
	}
	most := r.Limits
	for _, l := range r.Hit {
		switch l {
		case TimeLimit:
			if r.Took >= most.Time { // otherwise the call had less
				list = append(list, "limits.time="+(2*most.Time).String())
			}
		case CPULimit:
			list = append(list, "limits.cpu="+(2*most.CPU).String())
		case MemoryLimit:
			list = append(list, "limits.memory="+strings.ReplaceAll(size(2*most.Memory), " ", ""))
		case ProcessesLimit:
			list = append(list, "limits.pids="+strconv.FormatInt(2*most.Processes, 10))
		case DiskLimit:
			list = append(list, "limits.disk="+strings.ReplaceAll(size(2*most.Disk), " ", ""))
		case FileSizeLimit:
			list = append(list, "limits.file_size="+strings.ReplaceAll(size(2*most.FileSize), " ", ""))
		}
	}
	return list
}

// Describe returns how much a limit of the command allows, and the key that sets it.
func (r Result) Describe(l Limit) string {
	most := r.Limits
	switch l {
	case TimeLimit:
		if r.Took < most.Time {
			return "the timeout of the call"
		}
		return exactly(most.Time) + " (limits.time)"
	case CPULimit:
		return exactly(most.CPU) + " (limits.cpu)"
	case MemoryLimit:
		return size(most.Memory) + " (limits.memory)"
	case ProcessesLimit:
		return strconv.FormatInt(most.Processes, 10) + " with their threads (limits.pids)"
	case FilesLimit:
		return strconv.FormatInt(most.Files, 10) + " in each process (no key sets it)"
	case FileSizeLimit:
		return size(most.FileSize) + " (limits.file_size)"
	case DiskLimit:
		return size(most.Disk) + " for all changes of the session (limits.disk)"
	case OutputLimit:
		return size(most.Output) + " of each stream (limits.output)"
	case TempLimit:
		return size(most.Temp) + " (no key sets it; it is at most half of limits.memory)"
	}
	return "unknown"
}

func exactly(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s" }

// size formats a number of bytes in the largest unit that has no fraction.
func size(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1e9, "GB"}, {1 << 20, "MiB"}, {1e6, "MB"}, {1 << 10, "KiB"}, {1e3, "kB"}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
