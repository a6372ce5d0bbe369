package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/sandbox"
)

// elsewhere returns the other directories in which something waits.
func (f *programFlags) elsewhere() []inbox.WaitingPlace {
	o, err := f.options()
	if err != nil {
		return nil
	}
	return inbox.WaitingElsewhere(o)
}

// typedDir returns a directory as the user types it here: relative if it is below the
// current directory.
func typedDir(dir sandbox.Host) string {
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if below, wrong := filepath.Rel(here, string(dir)); err == nil && wrong == nil && filepath.IsLocal(below) {
		return visible.CommandLine(below)
	}
	return visible.CommandLine(string(dir))
}

// printElsewhere says in which other directories calls wait for approval.
func (f *programFlags) printElsewhere(w io.Writer) {
	const most = 3
	home, _ := os.UserHomeDir()
	list := slices.DeleteFunc(f.elsewhere(), func(p inbox.WaitingPlace) bool { return len(p.Calls) == 0 })
	for i, p := range list {
		if i == most {
			fmt.Fprintf(w, "approvals wait in %s: golem status --all\n", visible.Count(len(list)-most, "more directory"))
			return
		}
		command := "golem approvals -C " + typedDir(p.Directory)
		if len(p.Calls) == 1 {
			command = "golem approve " + p.Calls[0] + " -C " + typedDir(p.Directory)
		}
		fmt.Fprintf(w, "%s %s in %s: %s\n", visible.Count(len(p.Calls), "approval"), visible.Verb(len(p.Calls), "waits", "wait"), visible.Text(visible.HomeRelative(string(p.Directory), home)), command)
	}
}

// changedBelow returns the directories below this one whose sessions have changes.
func (f *programFlags) changedBelow() []inbox.ChangedPlace {
	o, err := f.options()
	if err != nil {
		return nil
	}
	dir, err := f.realDir()
	if err != nil {
		return nil
	}
	return inbox.ChangedBelow(o, dir)
}

// hintBelow returns a line for each directory below this one whose sessions have changes,
// with the command to type there.
func (f *programFlags) hintBelow(command string) (lines []string) {
	const most = 3
	list := f.changedBelow()
	for i, p := range list {
		if i == most {
			return append(lines, "sessions with changes are in "+visible.Count(len(list)-most, "more directory")+" below: golem status --all")
		}
		dir := typedDir(p.Directory)
		lines = append(lines, fmt.Sprintf("%s in %s %s changes: %s -C %s", visible.Count(len(p.Sessions), "session"), dir, visible.Verb(len(p.Sessions), "has", "have"), command, dir))
	}
	return lines
}

// findBelow returns err, or an error that names the directory below this one that has the
// session that a word means. command is what the user typed.
func (f *programFlags) findBelow(id, command string, err error) error {
	if sandbox.CodeOf(err) != sandbox.ErrNotFound {
		return err
	}
	for _, p := range f.changedBelow() {
		if _, wrong := naming.Find(p.Sessions, id); wrong == nil {
			dir := typedDir(p.Directory)
			return &sandbox.Error{Op: "session", Path: id, Code: sandbox.ErrNotFound, Hint: "it is in " + dir + ": " + command + " --session " + visible.CommandLine(id) + " -C " + dir}
		}
	}
	return err
}

// hintElsewhere adds to an error about a missing program in which other directories calls
// wait, in the words of golem status.
func (f *programFlags) hintElsewhere(err error) error {
	var absent usageError
	if !errors.As(err, &absent) {
		return err
	}
	var b strings.Builder
	f.printElsewhere(&b)
	return usageError(strings.TrimSuffix(string(absent)+"\n"+b.String(), "\n"))
}

// findCall returns err, or an error that names the directory in which the call with an id
// waits.
func (f *programFlags) findCall(id string, err error) error {
	if !isAbsent(err) {
		return err
	}
	home, _ := os.UserHomeDir()
	for _, p := range f.elsewhere() {
		if slices.Contains(p.Calls, id) {
			return &sandbox.Error{Op: "approve", Path: id, Code: sandbox.ErrNotFound,
				Hint: "it waits in " + visible.Text(visible.HomeRelative(string(p.Directory), home)) + ": golem approve " + id + " -C " + typedDir(p.Directory)}
		}
	}
	return err
}

// findPaused returns err, or an error that names the directory in which the run is paused
// that the user wants to resume.
func (f *runFlags) findPaused(err error) error {
	if !isAbsent(err) {
		return err
	}
	home, _ := os.UserHomeDir()
	for _, p := range f.elsewhere() {
		if _, wrong := naming.Find(p.Paused, f.resume); wrong == nil {
			return usagef("no such run here; one is paused in %s: golem run %s --resume %s", visible.Text(visible.HomeRelative(string(p.Directory), home)), typedDir(p.Directory), f.resume)
		}
	}
	return err
}

// hintPaused is like findPaused, for an error that says why golem cannot open this
// directory. It stays if a program is here.
func (f *runFlags) hintPaused(err error) error {
	p, wrong := f.open(opening{otherwise: emptyProgram})
	if f.resume == "" || wrong != nil || p.Content.Hash != "" {
		return err
	}
	none := noProgram(p)
	if found := f.findPaused(none); found != none {
		return found
	}
	return err
}

// isAbsent reports whether an error means that there is no program here, or that it does
// not have something.
func isAbsent(err error) bool {
	var usage usageError
	return errors.As(err, &usage) || sandbox.CodeOf(err) == sandbox.ErrNotFound
}
