package detached

import (
	"io"
	"os"
)

// Ends are the two ends of a terminal for a golem in the background, and of its first
// connection.
type Ends struct {
	Outer, Inner *os.File // the terminal: for the host, and for the program
	Ours, Theirs *os.File // the connection: for Attach, and for the host
}

// Close closes all ends that are open.
func (e Ends) Close() {
	for _, f := range []*os.File{e.Outer, e.Inner, e.Ours, e.Theirs} {
		if f != nil {
			f.Close()
		}
	}
}

// An Ending says why a terminal is no longer attached.
type Ending struct {
	Session string // the session, once the program runs
	Begun   bool   // the program has begun; with Options.UntilBegun the terminal left then
	Ended   bool   // golem has ended, with Code
	Code    int
	Signal  os.Signal // the signal that ended the attachment, nil for none
	Lost    bool      // the connection ended before golem did: it was killed
}

// Options say how to attach.
type Options struct {
	In, Out *os.File  // the person's terminal; if Out is nil, the output is written to Plain
	Plain   io.Writer // may be nil
	// UntilBegun leaves when the program begins.
	UntilBegun bool
}
