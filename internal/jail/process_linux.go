package jail

import (
	"context"
	"os"
	"sync"
)

// Open starts a command that the caller talks to. It keeps the head and tail of its
// standard error.
func (s *Jail) Open(c Command) (p *Process, err error) {
	var files []*os.File
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Close()
			}
		}
	}()
	pipe := func() (read, write *os.File) {
		if err == nil {
			if read, write, err = os.Pipe(); err == nil {
				files = append(files, read, write)
			}
		}
		return read, write
	}
	itsIn, in := pipe()
	out, itsOut := pipe()
	if err != nil {
		return nil, err
	}
	kept, err := collect(s.policy.Limits.filled().Output, nil)
	if err != nil {
		return nil, err
	}
	itsErr := os.NewFile(uintptr(kept.end), "errors")
	ctx, stop := context.WithCancel(context.Background())
	p = &Process{in: in, out: out, stop: stop, gone: make(chan struct{}), errs: sync.OnceValue(kept.wait)}
	go func() {
		defer close(p.gone)
		p.result, p.err = s.Attach(ctx, c, Attached{Stdin: itsIn, Stdout: itsOut, Stderr: itsErr})
		stop()
		// A reader then sees the end, and a writer an error.
		itsIn.Close()
		itsOut.Close()
		itsErr.Close()
	}()
	return p, nil
}
