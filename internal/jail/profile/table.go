package profile

import (
	"cmp"
	"embed"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// builtInFiles are the built-in profiles, written as users write their own.
//
//go:embed builtin/*.yaml
var builtInFiles embed.FS

// builtInNames are the names of the built-in profiles, in the order in which golem lists them.
// A profile comes after the one that it extends.
var builtInNames = []string{Plain, "git", "go", "node", "python", "claude", "codex", "gemini", "opencode", "qwen", "pi", "aider", "crush", "copilot", "antigravity", "cn"}

// builtInPrograms are the further programs of built-in profiles. Their files list them too, but
// golem reads only the file of the profile that a program needs.
var builtInPrograms = map[string]string{"gofmt": "go", "npm": "node", "npx": "node", "pnpm": "node", "yarn": "node", "corepack": "node",
	"python3": "python", "pip": "python", "pip3": "python", "agy": "antigravity"}

// readBuiltIn returns a built-in profile as its file describes it, and whether there is one.
func readBuiltIn(name string) (Profile, bool) {
	if !IsBuiltIn(name) {
		return Profile{}, false
	}
	data, err := builtInFiles.ReadFile("builtin/" + name + ownEnding)
	if err != nil {
		panic(err) // a test reads all of them
	}
	p, err := parse(name, "", data, readBuiltIn)
	if err != nil {
		panic(err)
	}
	p.Alone = false
	return p, true
}

// builtIn returns a built-in profile for the user's home and variables, and whether there is
// one.
func (u User) builtIn(name string) (Profile, bool) {
	p, ok := readBuiltIn(name)
	switch name {
	case "go":
		// A read-only module cache still works as a source of modules: the program unpacks
		// what it needs in its home.
		modules := cmp.Or(u.Getenv("GOMODCACHE"), filepath.Join(cmp.Or(firstOf(u.Getenv("GOPATH")), filepath.Join(u.Home, "go")), "pkg", "mod"))
		downloads := jail.Mount{Source: sandbox.Host(filepath.Join(modules, "cache", "download")), Target: "/cache/go-mod"}
		p.Mounts = []jail.Mount{downloads}
		p.Set = slices.Concat([]string{"GOPROXY=file://" + downloads.Target + "," + cmp.Or(u.Getenv("GOPROXY"), "direct")}, p.Set)
	case "python":
		p.Set = slices.Concat(withoutPasswords(u.Getenv, "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"), p.Set)
	}
	return p, ok
}

// parse returns the profile that a file describes. builtIn finds the profile that it extends.
func parse(name, file string, data []byte, builtIn func(string) (Profile, bool)) (Profile, error) {
	root, problems := strictyaml.Parse(file, data)
	if len(problems) == 0 {
		ownSchema().Check(root, &problems)
	}
	if len(problems) > 0 {
		return Profile{}, problems
	}
	p, err := own(name, root, builtIn)
	p.File = file
	return p, err
}

// firstOf returns the first of a list of directories.
func firstOf(list string) string {
	if dirs := filepath.SplitList(list); len(dirs) > 0 {
		return dirs[0]
	}
	return ""
}
