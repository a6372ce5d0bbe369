package jail

import (
	"context"
	"os"
)

// A Process is a running command that the caller talks to through its standard input and
// output. It has everything that [Jail.Attach] gives a command. The caller must close
// it. If golem ends without that, the process ends too.
type Process struct {
	in, out *os.File
	stop    context.CancelFunc
	errs    func() Output // returns its standard error, after it has ended
	gone    chan struct{}
	result  Result
	err     error
}

// Read reads from its standard output. It returns io.EOF at the end.
func (p *Process) Read(piece []byte) (int, error) { return p.out.Read(piece) }

// Write writes to its standard input. It blocks until the process has read enough, or has
// ended.
func (p *Process) Write(data []byte) (int, error) { return p.in.Write(data) }

// Until ends the process when a context ends. The returned function cancels that and
// reports whether it did so in time.
func (p *Process) Until(ctx context.Context) (undo func() bool) {
	return context.AfterFunc(ctx, p.stop)
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// Close ends the process with all processes that it started. It returns the result, with
// the head and tail of its standard error.
func (p *Process) Close() (Result, error) {
	p.stop()
	p.in.Close()
	<-p.gone
	p.out.Close()
	r := p.result
	r.Stderr = p.errs()
	return r, p.err
}
