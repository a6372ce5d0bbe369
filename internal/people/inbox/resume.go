package inbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/sandbox"
)

// A Starter starts a process that continues the run of a session of a directory, and that
// prints to output. The process does not end with this one. wait waits for its end, and
// returns its exit code.
type Starter func(dir, session string, output *os.File) (wait func() int, err error)

// Resume continues the run of the session in another process. note says so. The caller calls
// wait, which returns when that process ends, with a problem in words, "" if there was none.
func (s ProgramSession) Resume(start Starter) (note string, wait func() (problem string), err error) {
	if !s.CanResume() {
		return "", nil, &sandbox.Error{Op: "resume", Path: s.ID, Code: sandbox.ErrConflict, Hint: "its run works now, is finished, or waits for your decision; look at it again"}
	}
	if err := s.Program.CheckTrust(); err != nil { // the process would end at once, with the exit code of a run that waits
		return "", nil, err
	}
	output, err := os.CreateTemp("", "golem-resumed-")
	if err != nil {
		return "", nil, err
	}
	end, err := start(string(s.Program.Root()), s.ID, output)
	remove := func() {
		output.Close()
		os.Remove(output.Name())
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	os.Remove(output.Name()) // it stays readable here; Windows removes it only later
	return "golem continues the run in session " + s.ID, func() string {
		defer remove()
		return describeEnd(end(), output)
	}, nil
}

// These are exit codes of golem run: see golem run --help.
const (
	exitDone    = 0
	exitWaiting = 3
)

// describeEnd describes a run that did not end well by the last lines that it printed.
func describeEnd(code int, output *os.File) string {
	if code == exitDone || code == exitWaiting {
		return ""
	}
	const most, lines = 4 << 10, 8
	info, err := output.Stat()
	if err != nil {
		return ""
	}
	data, _ := io.ReadAll(io.NewSectionReader(output, max(info.Size()-most, 0), most))
	var last []string
	for line := range strings.SplitSeq(strings.ToValidUTF8(string(data), "�"), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			last = append(last, visible.Line(line, maxTitle))
		}
	}
	last = last[max(len(last)-lines, 0):]
	return fmt.Sprintf("golem run --resume ended with exit code %d: %s", code, cmp.Or(strings.Join(last, "; "), "it printed nothing"))
}

// ItemsAndActivities returns everything that waits for the user, as Reader.Items does, and
// then what runs, and the runs that can continue.
func (w *Watcher) ItemsAndActivities(ctx context.Context) ([]Item, []Problem, error) {
	items, problems, list, err := w.ItemsWithActivities(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range list {
		isRun := func(i Item) bool { return i.Kind == KindRun && i.Session == a.ID && i.Program == a.Program }
		item := Item{Kind: KindRunning, Program: a.Program, Directory: a.Directory, ID: a.ID, Name: a.Name, Session: a.ID, Who: cmp.Or(a.Input, a.Command, a.What), Since: a.Since}
		switch {
		case a.State == storage.SessionRunning:
			item.Title = cmp.Or(a.Doing, a.Input, a.Command, "works")
			if a.Usage != nil {
				item.Title += fmt.Sprintf(" (%d MB)", a.Usage.Memory>>20)
			}
		case a.Resume && !slices.ContainsFunc(items, isRun):
			item.Kind, item.Title = KindRun, "continue the run"
		case a.Detached != nil && !a.Resume:
			item.Kind, item.Title = KindEnded, a.Detached.String()
			if a.Doing != "" {
				item.Title += ": " + a.Doing
			}
		default:
			continue
		}
		items = append(items, item)
	}
	return items, problems, err
}
