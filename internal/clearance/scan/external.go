package scan

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"
)

// A Command is a scanner that the user configures: a program that reads the content from
// stdin. Exit code 0 means clean. Exit code 1 means that each line of its output is a
// finding. Everything else means that it cannot tell.
type Command struct {
	Name string
	Argv []string
}

type external struct {
	Command
	run Run
}

func (e external) Name() string { return e.Command.Name }

func (external) Version() string { return "" } // the program may change

func (e external) Scan(ctx context.Context, c Content) ([]Finding, error) {
	out, exit, err := given(ctx, e.run, c, e.Argv...)
	switch {
	case err != nil:
		return nil, err
	case exit != 0 && exit != 1:
		return nil, fmt.Errorf("it exited with %d; 0 means clean, 1 means findings", exit)
	case !utf8.ValidString(out):
		return nil, errors.New("its output is not text")
	case exit == 0:
		return nil, nil
	}
	found := said(out, func(l string) string { return l })
	if len(found) == 0 {
		return nil, errors.New("it exited with 1, which means findings, but printed none")
	}
	return found, nil
}
