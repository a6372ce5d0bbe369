package profile

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A Profile is what a program needs besides the directories it works on. golem shows it
// before the program starts.
type Profile struct {
	Name     string
	About    string
	Programs []string     // programs it is for, besides the one with its name
	Mounts   []jail.Mount // read-only directories of the host
	Copies   []string     // files and directories of the user's home; golem copies them when the jail's home is new
	Logins   []string     // like Copies, but they contain or may contain credentials, such as settings with keys of MCP servers
	Private  []Private    // the directories of the home that contain Logins
	Env      []string     // names of environment variables that are passed on
	Keys     []string     // names of such variables that are credentials
	Set      []string     // NAME=value
	Lines    []Line       // settings in files of the home
	Net      bool         // the program needs the network
	Hosts    []string     // hosts that it needs, besides those of Outside
	Outside  []Key        // the credentials that golem adds to its requests if its network is limited, in the order of preference
	Reads    []string     // hosts from which it only reads
	Optional []string     // hosts that it asks for and does not need, such as those for statistics and updates
	Alone    bool         // it reaches no host that it does not name, such as those of git
	Quiet    []string     // NAME=value, for a limited network: it then asks for fewer hosts
	Dropped  []string     // those of Keys that it gets only with an unlimited network, because they may contain anything
	HasLogin bool         // golem adds a credential to its requests
	Hidden   []string     // those of Logins that have only placeholders

	replaced []Replacement

	Home string // the user's home, "" if it is not known
	File string // the file of an own profile, "" for a built-in one

	InRepository bool // File is one of the repository that the program works on
}

// A User is the person who runs the programs.
type User struct {
	Home     string // "" if it is not known
	Getenv   func(string) string
	Profiles string // directory of the user's own profiles, "" for none
	// Repository has the profiles of the directory that the programs work on. The caller checks
	// that the user trusts the content of the one that it uses.
	Repository Repository
}

// A Private is a directory of the home that contains credentials. It exists only in
// memory and ends with the program. So no credential reaches a home that is kept, whether
// golem copies it or the program writes it.
type Private struct {
	Dir   string
	Keeps []string // directories in it without credentials, such as conversations; these are kept
}

// A Line is a setting that a file of the home always has, whatever the user's own file
// says.
type Line struct{ File, Section, Key, Value string }

// Common returns the files with the user's git identity and the variables for proxies and
// certificates. Every built-in profile has the identity, so that commits have an author,
// and every one except plain has the variables.
func Common() (files, variables []string) { return common() }

var common = sync.OnceValues(func() (files, variables []string) {
	git, _ := readBuiltIn("git")
	return git.Copies, git.Env
})

// ProfileFor returns the profile with a name. Without a name it returns that of the
// program, or plain if the program has none. An own profile of the user wins over a
// built-in one. A profile of the repository has to be named, and wins over none.
func (u User) ProfileFor(name, program string) (Profile, error) {
	if name != "" {
		return u.findNamed(name)
	}
	program = filepath.Base(program)
	own, err := u.allOwn()
	if err != nil {
		return Profile{}, err
	}
	isOwn := func(name string) bool { return slices.Contains(namesOf(own), name) }
	if isOwn(program) || IsBuiltIn(program) {
		return u.findNamed(program)
	}
	for _, p := range own {
		if slices.Contains(p.Programs, program) {
			return p.withoutMissing(u.Home), nil
		}
	}
	if name := builtInPrograms[program]; name != "" && !isOwn(name) {
		return u.findNamed(name)
	}
	return u.findNamed(Plain)
}

// findNamed returns the profile with a name.
func (u User) findNamed(name string) (Profile, error) {
	if u.Profiles != "" && checkProgram(name) == "" {
		if p, ok, err := u.readOwn(name); ok || err != nil {
			return p.withoutMissing(u.Home), err
		}
	}
	if p, ok := u.builtIn(name); ok {
		return p.withoutMissing(u.Home), nil
	}
	if p, ok, err := u.findInRepository(name); ok || err != nil {
		return p.withoutMissing(u.Home), err
	}
	own, err := u.ownNames()
	if err != nil {
		return Profile{}, err
	}
	names := slices.Concat(own, slices.DeleteFunc(slices.Clone(builtInNames), func(name string) bool { return slices.Contains(own, name) }), u.Repository.Names())
	hint := "there are " + strings.Join(names, ", ") + "; golem exec --profile-help shows them"
	if near := sandbox.Nearest(name, names); len(near) > 0 {
		hint = "did you mean " + near[0] + "? " + hint
	}
	return Profile{}, &sandbox.Error{Op: "--profile", Path: name, Code: sandbox.ErrNotFound, Hint: hint}
}

// All returns all profiles: first the user's own, then the built-in ones that no own
// profile replaces.
func (u User) All() ([]Profile, error) {
	list, err := u.allOwn()
	if err != nil {
		return nil, err
	}
	own := namesOf(list)
	for _, name := range builtInNames {
		if p, ok := u.builtIn(name); ok && !slices.Contains(own, name) {
			list = append(list, p)
		}
	}
	return list, nil
}

// allOwn returns the user's own profiles.
func (u User) allOwn() ([]Profile, error) {
	names, err := u.ownNames()
	if err != nil {
		return nil, err
	}
	var list []Profile
	for _, name := range names {
		p, ok, err := u.readOwn(name)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, p)
		}
	}
	return list, nil
}

// IsBuiltIn reports whether golem has a built-in profile with this name.
func IsBuiltIn(name string) bool { return slices.Contains(builtInNames, name) }

// HasOnlyName reports whether the profile adds the user's name and address for git, and
// nothing else.
func (p Profile) HasOnlyName() bool {
	git, _ := Common()
	return len(p.Copies) > 0 && len(p.Mounts)+len(p.Logins)+len(p.Lines)+len(p.Env)+len(p.Keys)+len(p.Set) == 0 &&
		!slices.ContainsFunc(p.Copies, func(name string) bool { return !slices.Contains(git, name) })
}

// Plain is the profile of programs without a profile of their own.
const Plain = "plain"

func namesOf(list []Profile) []string {
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names
}

// withoutMissing returns the profile without the files and mounts that a home does not
// have, and without git configurations that name nobody. It also drops relative paths, which would be in the directory that the program works on.
func (p Profile) withoutMissing(home string) Profile {
	if !filepath.IsAbs(home) {
		home = ""
	}
	missing := func(name string) bool {
		info, err := os.Stat(filepath.Join(home, name))
		if home == "" || err != nil || !info.Mode().IsRegular() && !info.IsDir() {
			return true
		}
		if git, _ := Common(); slices.Contains(git, name) {
			config, err := os.ReadFile(filepath.Join(home, name))
			return err == nil && len(gitUser(home, filepath.Join(home, name), config)) == 0
		}
		return false
	}
	p.Copies = slices.DeleteFunc(slices.Clone(p.Copies), missing)
	p.Logins = slices.DeleteFunc(slices.Clone(p.Logins), missing)
	p.Mounts = slices.DeleteFunc(slices.Clone(p.Mounts), func(m jail.Mount) bool {
		_, err := os.Stat(string(m.Source))
		return err != nil || !filepath.IsAbs(string(m.Source))
	})
	p.Home = home
	return p
}

// Brings reports whether a file of a program's home may come from the profile.
func (p Profile) Brings(name string) bool {
	for _, copied := range slices.Concat(p.Copies, p.Logins) {
		if within(copied, name) {
			return true
		}
	}
	return slices.ContainsFunc(p.Lines, func(l Line) bool { return l.File == name })
}

// Fill copies the files of the profile that are missing in a home. It returns the private
// directories, whose files are new each time. Their kept directories are in kept. An
// earlier program may have left anything in the home, so Fill does not write through
// symlinks.
func (p Profile) Fill(home, kept string) ([]jail.Private, error) {
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, plainError("the home of programs", err)
	}
	defer root.Close()
	store, err := os.OpenRoot(kept)
	if err != nil {
		return nil, plainError("the home of programs", err)
	}
	defer store.Close()
	names := slices.Concat(p.Copies, p.Logins)
	for _, l := range p.Lines {
		if !slices.Contains(names, l.File) {
			names = append(names, l.File)
		}
	}
	var list []jail.Private
	for _, d := range p.Private {
		if err := free(root, d.Dir); err != nil {
			return nil, plainError(d.Dir, err)
		}
		list = append(list, jail.Private{Target: path.Join(jail.Home, d.Dir)})
		for _, name := range d.Keeps {
			if err := keep(&list[len(list)-1], store, path.Join(d.Dir, name)); err != nil {
				return nil, plainError(name, err)
			}
		}
	}
	// inMemory adds a file to the private directory that contains it, if there is one.
	inMemory := func(name string, data []byte) bool {
		at := slices.IndexFunc(p.Private, func(d Private) bool { return within(d.Dir, target(name)) })
		if at < 0 {
			return false
		}
		d := p.Private[at]
		rel := strings.TrimPrefix(target(name), d.Dir+"/")
		kept := slices.ContainsFunc(d.Keeps, func(dir string) bool { return within(dir, rel) })
		known := slices.ContainsFunc(list[at].Files, func(f jail.File) bool { return f.Name == rel })
		if !kept && !known {
			list[at].Files = append(list[at].Files, jail.File{Name: rel, Data: data})
		}
		return true
	}
	for _, name := range names {
		at := slices.IndexFunc(p.Private, func(d Private) bool { return within(d.Dir, target(name)) })
		fresh := at < 0 && !exists(root, name)
		holds := slices.ContainsFunc(p.Private, func(d Private) bool { return within(name, d.Dir) })
		switch {
		case at < 0 && (fresh || holds):
			err = p.copy(name, func(name string, data []byte) error {
				if inMemory(name, data) || !fresh {
					return nil
				}
				return writeIn(root, name, data)
			})
		case at >= 0 && name != p.Private[at].Dir && p.isDir(name) && slices.Contains(p.Copies, name):
			// A directory of settings contains no credential.
			if !exists(store, name) {
				err = p.copy(name, func(name string, data []byte) error { return writeIn(store, name, data) })
			}
			if err == nil {
				err = keep(&list[at], store, name)
			}
		case at >= 0:
			err = p.copy(name, func(name string, data []byte) error {
				inMemory(name, data)
				return nil
			})
		}
		if err != nil {
			return nil, plainError(name, err)
		}
	}
	return list, nil
}

// target returns the name in the program's home of a file of the user's home.
func target(name string) string {
	if name == ".claude.json" {
		return ".claude/.claude.json" // CLAUDE_CONFIG_DIR puts it there
	}
	return name
}

// isDir reports whether a name in the user's home is a directory.
func (p Profile) isDir(name string) bool {
	info, err := os.Stat(filepath.Join(p.Home, name))
	return p.Home != "" && err == nil && info.IsDir()
}

// keep marks a subdirectory of a private directory as kept.
func keep(d *jail.Private, store *os.Root, name string) error {
	if err := store.MkdirAll(name, 0o700); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(store.Name())
	d.Keeps = append(d.Keeps, jail.Mount{Source: sandbox.Host(filepath.Join(real, name)), Target: path.Join(jail.Home, name), Write: true, Kept: true})
	return err
}

// free removes anything at the place of a private directory.
func free(home *os.Root, name string) error {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		if info, err := home.Lstat(name[:i]); err == nil && !info.IsDir() {
			if err := home.Remove(name[:i]); err != nil {
				return err
			}
		}
	}
	return removeAll(home, name)
}

// removeAll removes everything at a name, also directories without write permission.
func removeAll(home *os.Root, name string) error {
	if home.RemoveAll(name) == nil {
		return nil
	}
	fs.WalkDir(home.FS(), name, func(at string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			home.Chmod(at, 0o700)
		}
		return nil
	})
	return home.RemoveAll(name)
}

// exists reports whether a name of a home exists, or a parent of it is not a directory.
func exists(home *os.Root, name string) bool {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		if info, err := home.Lstat(name[:i]); err == nil && !info.IsDir() {
			return true
		}
	}
	_, err := home.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// isLogin reports whether a file of the host is a credential of the profile, under any
// name. A copied directory may contain it, or a symlink or hard link may refer to it.
func (p Profile) isLogin(file string) bool {
	info, err := os.Stat(file)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(p.Logins, func(login string) bool {
		real, err := filepath.EvalSymlinks(filepath.Join(p.Home, login))
		if err != nil {
			return false
		}
		known, err := os.Stat(real)
		return err == nil && os.SameFile(info, known) || strings.HasPrefix(file, real+string(filepath.Separator))
	})
}

// copy reads a file, or the regular files of a directory, and passes the program's part
// of each to write. It passes a credential only under its own name.
func (p Profile) copy(name string, write func(name string, data []byte) error) error {
	from, err := filepath.EvalSymlinks(filepath.Join(p.Home, name))
	if p.Home == "" || errors.Is(err, fs.ErrNotExist) {
		return write(name, p.filter(name, nil)) // there are only lines
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		if !slices.Contains(p.Logins, name) && p.isLogin(file) {
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		to := path.Join(name, filepath.ToSlash(rel))
		return write(to, p.filter(to, data))
	})
}

// filter returns the part of a file that the program gets.
func (p Profile) filter(name string, data []byte) []byte {
	if git, _ := Common(); slices.Contains(git, name) {
		data = gitUser(p.Home, filepath.Join(p.Home, name), data)
	} else if f, ok := filters()[name]; ok {
		data = f.keep(data)
	}
	for _, l := range slices.Backward(p.Lines) {
		if l.File == name {
			data = l.in(data)
		}
	}
	return p.hide(data)
}

// writeIn writes a file in a directory. It syncs the file, because Fill does not write a
// file again that is there.
func writeIn(root *os.Root, name string, data []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// Roomy sets the limits that are not set to values for a long-running program that builds
// and tests with many others. Such a program should notice the limits of the machine
// first.
func Roomy(l jail.Limits) jail.Limits {
	l.Memory = cmp.Or(l.Memory, 16<<30)
	l.Processes = cmp.Or(l.Processes, 8192)
	l.Files = cmp.Or(l.Files, 65536)
	l.FileSize = cmp.Or(l.FileSize, 64<<30)
	l.Temp = cmp.Or(l.Temp, 2<<30)
	return l
}
