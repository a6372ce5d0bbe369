package jail

import "os"

// An Attached is what a command has for streams of its own, and how it is reached
// while it runs.
type Attached struct {
	// The streams: pipes and files. The command gets a pipe as it is; of another file
	// it sees only what passes through it. One that is nil is Terminal where there is
	// one, and /dev/null otherwise. A terminal that somebody sits at is refused: the
	// command could read what is meant for others.
	Stdin, Stdout, Stderr *os.File

	// Terminal becomes the one that the command belongs to. At least one stream is nil.
	Terminal *Terminal

	// Signals are passed on to the processes in the foreground of the terminal, and
	// those that no key stands for to the command's own group as well. Without a terminal
	// they are for that group, and SIGTSTP stops it like SIGSTOP: the kernel would not
	// stop those that no shell can continue.
	Signals <-chan os.Signal

	// Stopped is called when the command was stopped. When it returns, the command is
	// continued. Nil leaves it stopped.
	Stopped func()
}
