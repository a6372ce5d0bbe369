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

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A Program is a program of the user, with the files that it needs to run in the jail.
// Programs of the system are already there. Any other comes only with its own directory,
// read-only, under a name that reveals nothing about the host. That is its package
// directory or tool chain, or otherwise only the file itself. Other files in the same
// directory may be anything.
type Program struct {
	// Shown is true if the program is a file in a directory that it works on.
	Shown  bool
	Mounts []jail.Mount

	path  string   // the program's path in the jail
	with  []string // its interpreter, if the program would not find it itself
	paths []string // directories in the jail to search for programs, besides those of the system
	host  Host
}

// A Host describes where to look for programs.
type Host struct {
	Path   string // directories, as in the variable PATH
	Dir    string // the current directory
	Home   string // the user's home
	Single string // a directory of the session for files that are mounted alone
}

// HasInstalled reports whether the user has installed the program, as one does with
// agents. Such a program is in their home or in an npm package, and not below the current
// directory.
func (h Host) HasInstalled(name string) bool {
	file := (&Program{host: h}).look(name)
	if file == "" || within(h.Dir, file) {
		return false
	}
	real, err := filepath.EvalSymlinks(file)
	return err == nil && (h.Home != "" && within(h.Home, file) || strings.Contains(real, "/node_modules/"))
}

// Find finds a program on the host as a shell would. If the program does not exist there,
// or a sandbox shows it, the jail looks it up inside.
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

// Argv returns the command to run, with the user's arguments.
func (p *Program) Argv(args ...string) []string {
	return slices.Concat(p.with, []string{p.path}, args)
}

// Env returns the PATH variable for the jail, nil if the default is enough.
func (p *Program) Env() []string {
	if len(p.paths) == 0 {
		return nil
	}
	return []string{"PATH=" + strings.Join(p.paths, ":") + ":" + jail.Path}
}

// look returns the file of a program on the host, "" if there is none. It skips
// directories named shims, whose programs only select a version of another program.
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
			return p.inToolchain(file, info)
		}
	}
	return ""
}

// inToolchain returns the file that rustup would start for a program, or else the file
// itself. All programs of rustup are one file, which starts the program of the same name
// in the user's default toolchain.
func (p *Program) inToolchain(file string, info fs.FileInfo) string {
	dir, name := filepath.Split(file)
	rustup, err := os.Stat(filepath.Join(dir, "rustup"))
	if err != nil || name == "rustup" || !os.SameFile(info, rustup) {
		return file
	}
	settings, err := os.ReadFile(filepath.Join(p.host.Home, ".rustup", "settings.toml"))
	if err != nil {
		return file
	}
	for line := range strings.Lines(string(settings)) {
		key, value, _ := strings.Cut(line, "=")
		toolchain := strings.Trim(strings.TrimSpace(value), `"'`)
		if strings.TrimSpace(key) != "default_toolchain" || toolchain != filepath.Base(toolchain) {
			continue
		}
		real := filepath.Join(p.host.Home, ".rustup", "toolchains", toolchain, "bin", name)
		if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return real
		}
	}
	return file
}

// shows reports whether a sandbox shows a file under this path, without resolving
// symlinks.
func shows(files *sandbox.Sandbox, file string) bool {
	for dir := filepath.Dir(file); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, ok := jail.NameOf(files, dir); ok {
			return true
		}
	}
	return false
}

// isOnPath reports whether a file is in a directory of PATH.
func (p *Program) isOnPath(file string) bool {
	return slices.ContainsFunc(filepath.SplitList(p.host.Path), func(dir string) bool {
		real, err := filepath.EvalSymlinks(dir)
		return err == nil && filepath.IsAbs(dir) && real == filepath.Dir(file)
	})
}

// place makes a file of the host visible in the jail, and returns its path there. It
// returns "" for files of the system. If led is true, a file that the sandbox shows
// refers to this one. Then this one must be in a directory of PATH, because files in the
// sandbox must not choose what else is visible.
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
	if led && !p.isOnPath(real) && (shows(files, file) || !p.isOnPath(file)) {
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

// mount mounts a directory in the jail, once. A package directory keeps its name, because
// packages find each other by it.
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

// packages is the name of package directories for Node.
const packages = "node_modules"

// wholeMarkers lists paths, relative to the directory of a program, that identify a directory
// to mount whole: a tool chain, whose programs are in bin, or a directory of pnpm.
func wholeMarkers() []string {
	return []string{"../lib/node_modules", "../pkg/tool", "../lib/python3*", "../lib/rustlib", "global/*/node_modules"}
}

// packageOf returns the directory with everything a program needs: the outermost package
// directory around it, its tool chain, or its directory in /opt; "" if there is none.
func (p *Program) packageOf(file string) string {
	if i := strings.Index(file, "/"+packages+"/"); i >= 0 {
		return file[:i+1+len(packages)]
	}
	dir := filepath.Dir(file)
	for _, mark := range wholeMarkers() {
		there, err := filepath.Glob(filepath.Join(dir, mark))
		top, up := dir, strings.HasPrefix(mark, "../")
		if up {
			top = filepath.Dir(dir)
		}
		if err == nil && len(there) > 0 && (!up || filepath.Base(dir) == "bin") && !p.isShared(top) {
			return top
		}
	}
	if name, ok := strings.CutPrefix(dir, "/opt/"); ok {
		first, _, _ := strings.Cut(name, "/")
		return "/opt/" + first
	}
	return ""
}

// isShared reports whether a directory contains more of the user's files than programs: the
// home, its parents, and .local.
func (p *Program) isShared(dir string) bool {
	return p.host.Home == "" || within(dir, p.host.Home) || dir == "/" || dir == filepath.Join(p.host.Home, ".local")
}

// alone returns a directory of the session that contains only the file, as a hard link,
// or as a copy if that is not possible.
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

// copyProgram copies a program. The name to appears only when the copy is complete.
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
	return durable.Move(out.Name(), to) // an incomplete copy would be run
}

// interpreter makes the interpreter in the first line of a script visible in the jail.
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

// shebang returns the words of the first line of a script, nil if the file is not a
// script.
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

// within reports whether a name is dir or below it.
func within(dir, name string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// plainError returns an error with the name that the user knows and the reason of the
// system.
func plainError(name string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}
