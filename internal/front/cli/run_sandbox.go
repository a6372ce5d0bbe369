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
	"syscall"

	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/foreigntools"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A runSandbox is the place of a run with --sandbox: a directory, which is all that the
// run changes on the disk, or a file system in memory. A nil runSandbox is that of a run
// without --sandbox.
type runSandbox struct {
	memory bool
	size   int64  // of the memory
	dir    string // "" if the file system in memory is not mounted yet
}

const (
	inMemory     = "memory"
	memoryMount  = "GOLEM_SANDBOX_MEMORY" // names the mounted file system in the process that has it
	memorySize   = 1 << 30
	minMemory    = 16 << 20
	sandboxMark  = "golem-sandbox" // a file in a directory of --sandbox
	sandboxUsage = "it is memory, memory:SIZE such as memory:2GiB, or a new directory"
)

// readSandbox reads the value of --sandbox, and refuses flags that contradict it.
func (f *runFlags) readSandbox() error {
	if f.sandbox == "" {
		return nil
	}
	if !changes.CanCopy {
		return usageError("--sandbox needs overlays, which golem has only on Linux; run golem there, in a virtual machine or a container")
	}
	switch {
	case f.resume != "":
		return usageError("--sandbox starts a new run; to continue the run in a directory: golem run --state DIR --resume last")
	case f.goesOn:
		return usageError("--sandbox starts a new session; omit --continue")
	case f.name != "":
		return usageError("--sandbox starts a session that only its own directory has; omit --name")
	case f.sessionID() != "":
		return usageError("--sandbox starts a new session; omit --session, and unset GOLEM_SESSION")
	case f.record != "":
		return usageError("--record writes a file of yours, and --sandbox writes none; omit one of them")
	}
	kind, size, hasSize := strings.Cut(f.sandbox, ":")
	if kind != inMemory {
		dir, err := filepath.Abs(f.sandbox)
		f.apart = &runSandbox{dir: dir}
		return err
	}
	f.apart = &runSandbox{memory: true, size: memorySize, dir: os.Getenv(memoryMount)}
	if hasSize {
		n, err := strictyaml.Node{Kind: strictyaml.Scalar, Text: size}.Bytes()
		if err != nil || n < minMemory {
			return usagef("--sandbox %s: %s, at least %s", sandbox.Shown(f.sandbox), sandboxUsage, visible.Amount(minMemory))
		}
		f.apart.size = n
	}
	return nil
}

// needsMemory reports whether the file system in memory is not mounted yet.
func (s *runSandbox) needsMemory() bool { return s != nil && s.memory && s.dir == "" }

// startInMemory runs this command in a process that has the file system in memory.
func (s *runSandbox) startInMemory() error {
	code, err := jail.RunInMemory(memoryMount, s.size, os.Args, os.Environ(), [3]*os.File{os.Stdin, os.Stdout, os.Stderr})
	if err != nil || code == exitDone {
		return err
	}
	return exit(code)
}

// enterSandbox returns the program with its state in the sandbox of the run. The sandbox
// gets a copy of what the user trusts.
func (f *runFlags) enterSandbox(p *program.Program) (*program.Program, error) {
	s := f.apart
	if s.memory {
		os.Unsetenv(memoryMount)
		if _, _, ok := jail.MemoryRoom(s.dir); !ok {
			return nil, usagef("%s is set, and names no file system in memory; unset it", memoryMount)
		}
	}
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	trusted, err := p.IsTrusted()
	if err != nil {
		return nil, err
	}
	if trusted { // otherwise golem asks first
		if err := checkSandbox(p, realPath(s.dir)); err != nil {
			return nil, err
		}
	}
	if !s.memory {
		if err := s.make(); err != nil {
			return nil, err
		}
	}
	if err := copyAllTrust(p, s.dir); err != nil {
		return nil, err
	}
	f.states = append(f.states, o.StateBase())
	f.state, f.sealed = s.dir, true
	return f.open(opening{otherwise: defaultWorker})
}

// make makes the directory of the sandbox. It refuses a directory with other content.
func (s *runSandbox) make() error {
	entries, err := os.ReadDir(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return usagef("--sandbox %s: %v; %s", sandbox.Shown(s.dir), errors.Unwrap(err), sandboxUsage)
	case len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == sandboxMark }):
		return usagef("--sandbox %s: the directory has other files; %s", sandbox.Shown(s.dir), sandboxUsage)
	}
	err = os.MkdirAll(s.dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, sandboxMark), []byte("golem run --sandbox keeps its runs here: golem diff --state THIS_DIRECTORY shows their changes.\n"), 0o600)
	}
	if err != nil {
		return usagef("--sandbox %s: %v; %s", sandbox.Shown(s.dir), errors.Unwrap(err), sandboxUsage)
	}
	return nil
}

// options returns the options of a command about the run, after others.
func (s *runSandbox) options(others string) string {
	if s == nil || s.memory {
		return others
	}
	return others + " --state " + visible.CommandLine(s.dir)
}

// describe says at the end of a run what became of it.
func (s *runSandbox) describe() string {
	switch {
	case s == nil:
		return ""
	case s.memory:
		return "golem: the run was in memory and is gone; your files are as they were\n"
	}
	return "golem: your files are as they were; the run is in " + visible.Text(s.dir) + "\n"
}

// explainFull says if the memory of the run is full, in place of an error about a full disk.
func (s *runSandbox) explainFull(w io.Writer, err error) error {
	const little = 1 << 20
	if s == nil || !s.memory {
		return err
	}
	free, size, _ := jail.MemoryRoom(s.dir)
	if free >= little {
		return err
	}
	fmt.Fprintf(w, "golem: the memory of the run is full (%d MiB); --sandbox memory:%dMiB gives it more, and --sandbox DIR uses the disk\n", size>>20, 4*size>>20)
	if errors.Is(err, syscall.ENOSPC) {
		return exit(exitFailed)
	}
	return err
}

// copyAllTrust copies what the user trusts into another directory of golem's state: the
// program, its instructions, and the tools of its MCP servers. A run with that state
// changes nothing in the state of p.
func copyAllTrust(p *program.Program, to string) error {
	for _, dir := range p.Instructions().Dirs() {
		for _, name := range []string{inventory.StateName(dir), inventory.StateName(dir) + inventory.BareSuffix} {
			if err := copyTrust(filepath.Join(p.Storage.Base, name), filepath.Join(to, name), dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyTrust copies the records of what the user trusts from one state directory of a program
// into another one.
func copyTrust(from, to, root string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return visible.FileError("the state", err)
	}
	for _, e := range entries {
		if !trust.IsRecord(e.Name()) && !foreigntools.IsRecord(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return visible.FileError("the state", err)
		}
		dir, err := state.Open(to)
		if err != nil {
			return err
		}
		err = errors.Join(inventory.Describe(dir, to, root), dir.Update(e.Name(), func([]byte) ([]byte, error) { return data, nil }), dir.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSandbox returns an error if a run cannot keep everything in dir: a worker would see
// it, or golem would have to make a directory of the program first.
func checkSandbox(p *program.Program, dir string) error {
	fail := func(path, hint string) error {
		return &sandbox.Error{Op: "--sandbox", Path: path, Code: sandbox.ErrInvalid, Hint: hint}
	}
	for _, m := range p.Project.Mounts {
		host := m.RealHostDir()
		for _, pair := range [][2]string{{host, dir}, {dir, host}} {
			if rel, err := filepath.Rel(pair[0], pair[1]); err == nil && filepath.IsLocal(rel) {
				return fail(dir, "the worker would see it: "+m.Target+" is "+host+"; name a directory elsewhere, such as "+filepath.Join(os.TempDir(), "try"))
			}
		}
		if m.Access() < sandbox.ReadWrite && m.Mode != project.Overlay {
			continue
		}
		if _, err := os.Stat(host); err != nil {
			return fail(m.Target, "its directory "+strings.TrimPrefix(strings.TrimPrefix(host, string(p.Root())), string(filepath.Separator))+" does not exist, and this run makes none; make it with mkdir -p "+visible.CommandLine(host))
		}
	}
	return nil
}
