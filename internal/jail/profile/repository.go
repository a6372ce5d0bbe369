package profile

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// RepositoryDir is the directory of a repository's profiles, in the directory of a program.
const RepositoryDir = ".golem/profiles"

// A Repository has the profile files of a repository, by their names in its directory. golem
// uses one only if the user names it, and only if the user trusts the content.
type Repository map[string][]byte

// nameOf returns the name of the profile in a file.
func nameOf(file string) string { return strings.TrimSuffix(path.Base(file), ownEnding) }

// RepositoryFile returns the file of the profile with a name in a repository.
func RepositoryFile(name string) string { return path.Join(RepositoryDir, name+ownEnding) }

// CheckRepositoryFile returns what a file in RepositoryDir must be named, "" if its name is that
// of a profile.
func CheckRepositoryFile(file string) string {
	if path.Ext(file) != ownEnding || checkProgram(nameOf(file)) != "" {
		return "the name of a profile has letters, digits, ., _, + and -, and ends in " + ownEnding + "; rename the file"
	}
	return ""
}

// Names returns the names of the profiles.
func (r Repository) Names() (names []string) {
	for _, file := range slices.Sorted(maps.Keys(r)) {
		names = append(names, nameOf(file))
	}
	return names
}

// Profile returns the profile with a name. The error says what a profile of a repository may
// not have, or that another profile has the name.
func (r Repository) Profile(u User, name string) (Profile, error) {
	file := RepositoryFile(name)
	if err := u.isTaken(file); err != nil {
		return Profile{}, err
	}
	p, err := parse(name, file, r[file], u.builtIn)
	if err != nil {
		return Profile{}, err
	}
	root, _ := strictyaml.Parse(file, r[file])
	p.InRepository = true
	if p.About == aboutOwn {
		p.About = "a profile of this directory"
	}
	return p, checkRepository(root, u)
}

// isTaken returns an error if the name of a profile of a repository is that of a built-in one or
// of one of the user. Case does not count.
func (u User) isTaken(file string) error {
	own, err := u.ownNames()
	if err != nil {
		return err
	}
	same := func(other string) bool { return strings.EqualFold(other, nameOf(file)) }
	whose := ""
	switch {
	case slices.ContainsFunc(own, same):
		whose = "a profile of your own"
	case slices.ContainsFunc(builtInNames, same):
		whose = "a built-in profile"
	default:
		return nil
	}
	return &sandbox.Error{Op: "profile", Path: file, Code: sandbox.ErrInvalid, Hint: whose + " has this name, and a profile of a repository never replaces one; rename the file"}
}

// checkRepository returns the problems of a profile of a repository: everything that gives the
// program files, variables or keys of the user.
func checkRepository(root strictyaml.Node, u User) error {
	var problems strictyaml.Problems
	refuse := func(key, hint string) {
		if n, ok := root.At(key); ok {
			problems.Add(n, key+": not in a profile of a repository", hint)
		}
	}
	const own = "write such a profile yourself, in the directory that golem exec --profile-help names"
	refuse("programs", "golem uses a profile of a repository only with --profile")
	refuse("files", "it gets no files of your home directory; "+own)
	refuse("lines", "it gets no files of your home directory; "+own)
	refuse("credentials", "it gets no credentials; "+own)
	env, _ := root.At("env")
	for _, item := range env.Items {
		if !strings.Contains(item.Text, "=") {
			problems.Add(item, "env: "+sandbox.Shown(item.Text)+": not in a profile of a repository", "it gets no variable of yours; write NAME=value, or pass yours with golem exec --env")
		}
	}
	if n, ok := root.At("extends"); ok {
		if base, known := u.builtIn(n.Text); known && base.bringsOwn() {
			problems.Add(n, "extends: "+n.Text+": not in a profile of a repository", "that profile has credentials, files or directories of yours; extend plain or git")
		}
	}
	return problems.Err()
}

// bringsOwn reports whether a profile gives a program something of the user besides the name
// and address for git and the variables of every program.
func (p Profile) bringsOwn() bool {
	files, variables := Common()
	known := func(list []string) func(string) bool {
		return func(name string) bool { return !slices.Contains(list, name) }
	}
	return len(p.Logins)+len(p.Keys)+len(p.Outside)+len(p.Private)+len(p.Lines)+len(p.Mounts) > 0 ||
		slices.ContainsFunc(p.Copies, known(files)) || slices.ContainsFunc(p.Env, known(variables))
}

// findInRepository returns the profile of the repository with a name, and whether there is one.
func (u User) findInRepository(name string) (Profile, bool, error) {
	if _, ok := u.Repository[RepositoryFile(name)]; !ok || checkProgram(name) != "" {
		return Profile{}, false, nil
	}
	p, err := u.Repository.Profile(u, name)
	return p, true, err
}
