package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// begin takes the program or the worker from the arguments, and returns the other
// arguments. A first word names a program or a worker only if there is one. Otherwise it is
// part of the input.
func (f *runFlags) begin(args []string, errs io.Writer) ([]string, error) {
	if f.resume != "" && f.session != "" {
		return nil, usageError("--resume names the session whose run continues; omit --session")
	}
	if f.resume != "" && f.name != "" {
		return nil, usageError("--resume continues a run in its session, and --name names a new session; use one of them")
	}
	if f.resume != "" && f.goesOn {
		return nil, usageError("--resume continues a run, and --continue starts one in the same session; use one of them")
	}
	f.said = f.dir
	if len(args) == 0 {
		return nil, nil
	}
	word := args[0]
	info, err := os.Stat(word)
	isPath := looksLikePath(word)
	switch {
	case f.dir != "." && (err != nil || !isPath): // the flag names the program, so all words are the input
		return args, nil
	case f.dir != ".":
		return nil, usageError("--program and an argument name a program; use one of them")
	case err == nil && info.IsDir() && (isPath || f.resume != "" || f.hasProgram(word)):
		f.said, f.dir = word, word
		return args[1:], nil
	case err == nil && info.IsDir():
		fmt.Fprintf(errs, "golem: %s is a directory without a program, so the word is part of the input; golem run ./%s works in it\n", sandbox.Shown(word), sandbox.Shown(word))
		return args, nil
	case err == nil && worker.Stem(word) != "":
		if f.entry != "" {
			return nil, usageError("--entry and a worker file name a worker; use one of them")
		}
		f.said = word
		f.dir, f.entry = filepath.Dir(word), workerName(word)
		return args[1:], nil
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return args, nil // a file that the input is about, or a text that is no name
	case isPath:
		return nil, usagef("no program %s; the first argument may be a directory or a worker file: golem run . \"what to do\"", sandbox.Shown(word))
	case isProgramName(args):
		return nil, usagef("golem run starts workers, golem exec starts other programs: golem exec %s; to make it the input: golem run . %s", visible.CommandLine(args...), visible.CommandLine(args...))
	}
	if f.entry != "" || strings.ContainsFunc(word, func(r rune) bool { return r == ' ' || r == '\n' }) {
		return args, nil
	}
	names := f.programNames()
	if slices.Contains(names.workers, word) {
		f.said, f.entry = ".", word
		return args[1:], nil
	}
	if near := sandbox.Nearest(word, append(names.workers, names.programs...)); len(args) == 1 && len(near) > 0 {
		return nil, usagef("no program and no worker %s; did you mean %s? To make it the input: golem run . %s", sandbox.Shown(word), sandbox.Shown(near[0]), visible.CommandLine(word))
	}
	return args, nil
}

// looksLikePath reports whether a word is written as the path of a program or a worker
// file, and not as a word of a text.
func looksLikePath(word string) bool {
	if strings.ContainsAny(word, " \n\t") {
		return false
	}
	return word == "." || word == ".." || strings.ContainsRune(word, '/') || strings.ContainsRune(word, filepath.Separator) || strings.HasSuffix(word, ".worker")
}

// isProgramName reports whether the arguments look like the command line of an agent or of
// another program. Some names are also words of a text.
func isProgramName(args []string) bool {
	if len(args) > 2 && slices.Contains([]string{"make", "go", "git", "shell"}, args[0]) {
		return false
	}
	return strings.HasPrefix(sameMeaning(args[0]), "exec ")
}

// workerName returns the name of the worker in a file: the one in the file, or else that
// of the file.
func workerName(file string) string {
	full, err := filepath.Abs(file)
	if err != nil {
		full = file
	}
	if data, err := project.ReadFile(filepath.Dir(full), filepath.Base(full), strictyaml.MaxFile); err == nil {
		if w, err := worker.Parse(full, data); err == nil {
			return w.Name
		}
	}
	if stem := worker.Stem(filepath.Base(full)); stem != "worker" {
		return stem
	}
	return filepath.Base(filepath.Dir(full))
}

// hasProgram reports whether a directory has a program of its own. One that cannot be read
// counts too, so that golem says why.
func (f *runFlags) hasProgram(dir string) bool {
	there := *f.programFlags
	there.dir = dir
	p, err := there.open(opening{otherwise: emptyProgram})
	if err != nil {
		return true
	}
	real, err := there.realDir()
	return err == nil && p.Content.Hash != "" && string(p.Root()) == real
}

// programNames are the names that the first argument of golem run may have here.
type programNames struct {
	workers  []string // of the program here
	programs []string // directories with a program
}

func (f *runFlags) programNames() (names programNames) {
	p, err := f.open(opening{strict: true, otherwise: emptyProgram})
	if p == nil || err != nil && !program.IsOnlyExcess(err) {
		return names
	}
	for _, w := range p.Workers {
		names.workers = append(names.workers, w.Name)
	}
	files, _ := filepath.Glob("*/main.worker")
	for _, file := range files {
		names.programs = append(names.programs, filepath.Dir(file))
	}
	return names
}

// tellDefault prints what the default worker works on, and with which model.
func (f *runFlags) tellDefault(cmd *cobra.Command, p *program.Program, gate *program.OpenWorker, model string) {
	home, _ := os.UserHomeDir()
	errs := cmd.ErrOrStderr()
	columns, _ := newScreen(errs).size()
	fmt.Fprintln(errs, wrapClauses(fmt.Sprintf("golem: no program here, so the default worker works; %s; %s; model %s", mountedAt(gate, home), describeNetwork(p, gate.Hosts()), visible.Text(model)), columns))
	if top, root := p.RepositoryAbove(); top != "" && root {
		fmt.Fprintln(errs, "golem: this directory is part of the git repository "+visible.Text(string(top))+", and git does not work in it; golem run "+visible.CommandLine(string(top))+" … works on all of it")
	}
}
