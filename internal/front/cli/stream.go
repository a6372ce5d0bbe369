package cli

import (
	"io"

	"github.com/golem-forge/golem/internal/people/visible"
)

// A liveOutput prints the output of a command behind a gutter while the command runs.
type liveOutput struct {
	to    io.Writer
	wrote bool
	open  bool // a line has not ended
}

// newLiveOutput returns a liveOutput, or nil if w writes to no terminal.
func newLiveOutput(w io.Writer, mark string) *liveOutput {
	if to := newGutter(w, mark); to != w {
		return &liveOutput{to: to}
	}
	return nil
}

// write prints a piece of output.
func (o *liveOutput) write(data []byte) {
	if len(data) == 0 {
		return
	}
	o.wrote, o.open = true, data[len(data)-1] != '\n'
	o.to.Write(data)
}

// end ends the last line.
func (o *liveOutput) end() {
	if w, ok := o.to.(*visible.Writer); ok {
		w.Close() // a part of a character
	}
	if o.open {
		io.WriteString(o.to, "\n")
		o.open = false
	}
}
