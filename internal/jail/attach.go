package jail

import "os"

// An Attached holds the streams of a command and the ways to control it while it runs.
type Attached struct {
	// The streams: pipes and files. If a stream is a pipe, the command gets the pipe
	// itself. For any other file the command gets a pipe, and golem copies between the
	// two. A nil stream is Terminal if that is set, and /dev/null otherwise. A terminal
	// is refused as a stream: the command could read input that is meant for others.
	Stdin, Stdout, Stderr *os.File

	// Terminal becomes the controlling terminal of the command. At least one stream must
	// be nil.
	Terminal *Terminal

	// Signals are sent to the foreground processes of the terminal. Signals that no key
	// sends also go to the command's own process group. Without a terminal all signals go
	// to that group, and SIGTSTP is sent as SIGSTOP: the kernel ignores SIGTSTP for
	// groups that no shell could continue.
	Signals <-chan os.Signal

	// Stopped is called when the command was stopped. When it returns, the command
	// continues. If Stopped is nil, the command stays stopped.
	Stopped func()
}
