package profile

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A Program is one of the user's, with what it takes to run it inside. Programs of the
// system are there anyway; others come with their own directory alone, read-only, at a name
// that says nothing of the host. That is the directory of packages or of a tool chain, and
// otherwise the file by itself: what stands beside it may be anything.
type Program struct {
	// Shown reports that the program is a file in a directory that it works on.
	Shown  bool
	Mounts []jail.Mount

	path  string   // of the program inside
	with  []string // the interpreter that runs it, where the program does not find that itself
	paths []string // directories inside in which programs are looked for, besides those of the system
	host  Host
}

// A Host is where programs are looked for.
type Host struct {
	Path   string // directories, as in the variable of that name
	Dir    string // where the user is
	Home   string // of the user
	Single string // a directory of the session's, for files that are shown by themselves
}

// HasInstalled reports whether a program is one that the user has installed, as agents
// are: it is in their home or a package of npm, and not below the directory they are in.
func (h Host) HasInstalled(name string) bool {
	file := (&Program{host: h}).look(name)
	if file == "" || within(h.Dir, file) {
		return false
	}
	real, err := filepath.EvalSymlinks(file)
	return err == nil && (h.Home != "" && within(h.Home, file) || strings.Contains(real, "/node_modules/"))
}

// Find finds a program as a shell would, on the host. One that is not there, or that a
// sandbox shows, is left to be found inside.
func Find(name string, h Host, files *sandbox.Sandbox) (*Program, error) {
	if real, err := filepath.EvalSymlinks(h.Home); err == nil {
		h.Home = real
	}
	p := &Program{path: name, host: h}
	file := p.look(name)
	p.Shown = shows(files, file) || file == "" && strings.Contains(name, "/")
	at, err := p.place(file, files, shows(files, file))
	if err != nil || at == "" {
		return p, err
	}
	p.path = at
	if within(jail.Tools, at) {
		p.paths = append(p.paths, path.Dir(at))
	}
	return p, p.interpreter(file, files)
}

// Argv returns what is run, with the arguments that the user has given.
func (p *Program) Argv(args ...string) []string {
	return slices.Concat(p.with, []string{p.path}, args)
}

// Env returns the variable that says where programs are looked for.
func (p *Program) Env() []string {
	if len(p.paths) == 0 {
		return nil
	}
	return []string{"PATH=" + strings.Join(p.paths, ":") + ":" + jail.Path}
}

// look returns the file of a program on the host, "" for none. What stands for a
// program of many versions, and asks another which is meant, is none.
func (p *Program) look(name string) string {
	var names []string
	switch {
	case filepath.IsAbs(name):
		names = []string{name}
	case strings.Contains(name, "/"):
		names = []string{filepath.Join(p.host.Dir, name)}
	default:
		for _, dir := range filepath.SplitList(p.host.Path) {
			if filepath.IsAbs(dir) && filepath.Base(dir) != "shims" {
				names = append(names, filepath.Join(dir, name))
			}
		}
	}
	for _, file := range names {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}

// shows reports whether a sandbox shows a file by its name, wherever that leads.
func shows(files *sandbox.Sandbox, file string) bool {
	for dir := filepath.Dir(file); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, ok := jail.NameOf(files, dir); ok {
			return true
		}
	}
	return false
}

// searched reports whether a file is in a directory where programs are looked for.
func (p *Program) searched(file string) bool {
	return slices.ContainsFunc(filepath.SplitList(p.host.Path), func(dir string) bool {
		real, err := filepath.EvalSymlinks(dir)
		return err == nil && filepath.IsAbs(dir) && real == filepath.Dir(file)
	})
}

// place makes a file of the host one that is seen inside, and returns its name there:
// none for files of the system. One that is led to by what a sandbox shows must be where
// the user's programs are: whoever writes there is not to choose what else is seen.
func (p *Program) place(file string, files *sandbox.Sandbox, led bool) (string, error) {
	real, err := filepath.EvalSymlinks(file)
	if file == "" || err != nil {
		return "", nil
	}
	for _, top := range []string{"/usr", "/bin", "/sbin"} {
		if within(top, real) {
			return "", nil
		}
	}
	if name, ok := jail.NameOf(files, real); ok {
		return jail.Inside(files, name), nil
	}
	if led && !p.searched(real) && (shows(files, file) || !p.searched(file)) {
		return "", nil
	}
	top := p.packageOf(real)
	if top == "" {
		if top, err = p.alone(real); err != nil {
			return "", err
		}
		return path.Join(p.mount(top), filepath.Base(real)), nil
	}
	rel, err := filepath.Rel(top, real)
	if err != nil {
		return "", plainError(real, err)
	}
	return path.Join(p.mount(top), filepath.ToSlash(rel)), nil
}

// mount shows a directory inside, once. A directory of packages keeps its name: by that
// they find each other.
func (p *Program) mount(source string) string {
	at := slices.IndexFunc(p.Mounts, func(m jail.Mount) bool { return string(m.Source) == source })
	if at < 0 {
		at = len(p.Mounts)
		target := fmt.Sprintf("%s/%d", jail.Tools, at)
		if filepath.Base(source) == packages {
			target += "/" + packages
		}
		p.Mounts = append(p.Mounts, jail.Mount{Source: sandbox.Host(source), Target: target})
	}
	return p.Mounts[at].Target
}

// packages is what directories of packages for Node are called.
const packages = "node_modules"

// wholes tell directories that are one whole by what is in them, from the directory of a
// program: tool chains, whose programs are in bin, and what pnpm installs.
func wholes() []string {
	return []string{"../lib/node_modules", "../pkg/tool", "../lib/python3*", "../lib/rustlib", "global/*/node_modules"}
}

// packageOf is the directory that holds what a program needs: the outermost directory of
// packages that it is in, the tool chain that it is of, or its own in /opt; "" for none.
func (p *Program) packageOf(file string) string {
	if i := strings.Index(file, "/"+packages+"/"); i >= 0 {
		return file[:i+1+len(packages)]
	}
	dir := filepath.Dir(file)
	for _, mark := range wholes() {
		there, err := filepath.Glob(filepath.Join(dir, mark))
		top, up := dir, strings.HasPrefix(mark, "../")
		if up {
			top = filepath.Dir(dir)
		}
		if err == nil && len(there) > 0 && (!up || filepath.Base(dir) == "bin") && !p.shared(top) {
			return top
		}
	}
	if name, ok := strings.CutPrefix(dir, "/opt/"); ok {
		first, _, _ := strings.Cut(name, "/")
		return "/opt/" + first
	}
	return ""
}

// shared reports whether a directory holds more of the user's than programs: the home,
// what is above it, and where programs of every kind put their own.
func (p *Program) shared(dir string) bool {
	return p.host.Home == "" || within(dir, p.host.Home) || dir == "/" || dir == filepath.Join(p.host.Home, ".local")
}

// alone returns a directory of the session's with nothing but a file: a second name of
// it, or a copy where that cannot be.
func (p *Program) alone(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", plainError(file, err)
	}
	sum := sha256.Sum256(fmt.Appendln(nil, file, info.Size(), info.ModTime().UnixNano()))
	dir := filepath.Join(p.host.Single, hex.EncodeToString(sum[:8]))
	to := filepath.Join(dir, filepath.Base(file))
	if _, err := os.Lstat(to); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", plainError(file, err)
	}
	if os.Link(file, to) == nil {
		return dir, nil
	}
	if err := copyProgram(file, to); err != nil {
		return "", plainError(file, err)
	}
	return dir, nil
}

// copyProgram copies a program to a name that is not there before the copy is whole.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(filepath.Dir(to)), "copy-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o700), out.Close()); err != nil {
		return err
	}
	return durable.Move(out.Name(), to) // a torn copy would be run as it is
}

// interpreter places what the first line of a script names.
func (p *Program) interpreter(script string, files *sandbox.Sandbox) error {
	words := shebang(script)
	searched := len(words) > 0 && path.Base(words[0]) == "env"
	if searched {
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
	}
	if len(words) == 0 {
		return nil
	}
	_, led := jail.NameOf(files, script)
	at, err := p.place(p.look(words[0]), files, led)
	switch {
	case err != nil || at == "":
		return err
	case searched:
		p.paths = append(p.paths, path.Dir(at))
	default:
		p.with = append([]string{at}, words[1:]...)
	}
	return nil
}

// shebang returns the words of the first line of a script, none for what is none.
func shebang(file string) []string {
	in, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer in.Close()
	line, err := bufio.NewReaderSize(in, 4096).ReadSlice('\n')
	if err != nil || !strings.HasPrefix(string(line), "#!") {
		return nil
	}
	return strings.Fields(string(line[2:]))
}

// within reports whether a name is a directory or below it.
func within(dir, name string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// plainError names a file as the user did, and what the system says of it.
func plainError(name string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}
