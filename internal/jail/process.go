package jail

import (
	"context"
	"os"
)

// A Process is a command that goes on while somebody talks with it, by its standard
// input and output. It has all that [Session.Attach] gives a command. Whoever opened
// it closes it; when golem ends in any other way it is ended all the same.
type Process struct {
	in, out *os.File
	stop    context.CancelFunc
	errs    func() Output // what it has written to its standard error, once it is gone
	gone    chan struct{}
	result  Result
	err     error
}

// Read reads from its standard output. The end of it is io.EOF.
func (p *Process) Read(piece []byte) (int, error) { return p.out.Read(piece) }

// Write writes to its standard input. It waits until the process has read enough; when
// that is ended, so is the wait.
func (p *Process) Write(data []byte) (int, error) { return p.in.Write(data) }

// Until ends the process when a context does. What it returns undoes that, if it has
// not happened.
func (p *Process) Until(ctx context.Context) (undo func() bool) {
	return context.AfterFunc(ctx, p.stop)
}

// Ended reports whether it is gone.
func (p *Process) Ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// Close ends it with all that it has started, and returns what came of it, with the
// head and tail of what it has written to its standard error.
func (p *Process) Close() (Result, error) {
	p.stop()
	p.in.Close()
	<-p.gone
	p.out.Close()
	r := p.result
	r.Stderr = p.errs()
	return r, p.err
}
