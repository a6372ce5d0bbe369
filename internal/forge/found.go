package forge

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A found is a program of the user's, with what it takes to run it inside. Programs of
// the system are there anyway; others come with their own folder alone, read-only, at a
// name that says nothing of the host.
type found struct {
	path   string // of the program inside
	mounts []jail.Mount
	search []string // folders of the host in which programs are looked for
	paths  []string // and such inside, besides those of the system
}

// toolsDir is where folders of programs stand inside.
const toolsDir = "/opt/golem"

// find finds a program as a shell would, on the host. One that is not there, or that a
// sandbox shows, is left to be found inside.
func find(name, search string, files *sandbox.Sandbox) found {
	f := found{path: name, search: filepath.SplitList(search)}
	if at, ok := f.place(f.look(name), files); ok {
		f.path = at
	}
	return f
}

// look returns the file of a program on the host, "" for none.
func (f *found) look(name string) string {
	names := []string{name}
	if !strings.Contains(name, "/") {
		names = nil
		for _, dir := range f.search {
			names = append(names, filepath.Join(dir, name))
		}
	}
	for _, file := range names {
		if info, err := os.Stat(file); filepath.IsAbs(file) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}

// place makes a file of the host one that is seen inside, and returns its name there. It
// does nothing for files of the system.
func (f *found) place(file string, files *sandbox.Sandbox) (string, bool) {
	real, err := filepath.EvalSymlinks(file)
	if file == "" || err != nil || under(real, "/usr") {
		return "", false
	}
	if name, ok := nameOf(files, real); ok {
		return jail.Inside(files, name), true
	}
	top := packageOf(real)
	rel, err := filepath.Rel(top, real)
	if err != nil {
		return "", false
	}
	f.interpreter(real, files)
	return path.Join(f.mount(top), filepath.ToSlash(rel)), true
}

// mount shows a folder inside, once.
func (f *found) mount(source string) string {
	at := slices.IndexFunc(f.mounts, func(m jail.Mount) bool { return string(m.Source) == source })
	if at < 0 {
		at = len(f.mounts)
		f.mounts = append(f.mounts, jail.Mount{Source: sandbox.Host(source), Target: fmt.Sprintf("%s/%d", toolsDir, at)})
	}
	return f.mounts[at].Target
}

// packageOf is the folder that holds what a program needs: the outermost folder of
// packages that it is in, and otherwise its own.
func packageOf(file string) string {
	const packages = "/node_modules"
	if i := strings.Index(file, packages+"/"); i >= 0 {
		return file[:i+len(packages)]
	}
	return filepath.Dir(file)
}

// interpreter places what the first line of a script names.
func (f *found) interpreter(script string, files *sandbox.Sandbox) {
	words := shebang(script)
	if len(words) > 0 && path.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
	}
	if len(words) == 0 {
		return
	}
	if at, ok := f.place(f.look(words[0]), files); ok {
		f.paths = append(f.paths, path.Dir(at))
	}
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

// env returns the variable that says where programs are looked for.
func (f found) env() []string {
	if len(f.paths) == 0 {
		return nil
	}
	return []string{"PATH=" + strings.Join(f.paths, ":") + ":" + jail.Path}
}
