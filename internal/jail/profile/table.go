package profile

import (
	"cmp"
	"embed"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	"python3": "python", "pip": "python", "pip3": "python", "agy": "antigravity",
	"claude-agent-acp": "claude", "claude-code-acp": "claude", "codex-acp": "codex"}

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
		setting := u.goSetting()
		proxy := cmp.Or(setting("GOPROXY"), "direct")
		if strings.Contains(proxy, "@") {
			proxy = "off" // it holds a password; another proxy would learn private names
		}
		p.Set = slices.Concat([]string{"GOPROXY=file://" + downloads.Target + "," + proxy},
			withoutPasswords(setting, "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB"), p.Set)
	case "python":
		p.Set = slices.Concat(withoutPasswords(u.Getenv, "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"), p.Set)
	}
	return p, ok
}

// goSetting returns a function for the user's settings of Go: variables, or else what
// go env -w wrote, or else the defaults that came with the user's Go.
func (u User) goSetting() func(name string) string {
	written := readGoEnv(cmp.Or(u.Getenv("GOENV"), filepath.Join(cmp.Or(u.Getenv("XDG_CONFIG_HOME"), filepath.Join(u.Home, ".config")), "go", "env")))
	var defaults map[string]string
	for _, dir := range filepath.SplitList(u.Getenv("PATH")) {
		if program, err := filepath.EvalSymlinks(filepath.Join(dir, "go")); err == nil {
			defaults = readGoEnv(filepath.Join(filepath.Dir(program), "..", "go.env"))
			break
		}
	}
	return func(name string) string { return cmp.Or(u.Getenv(name), written[name], defaults[name]) }
}

// readGoEnv returns the settings in a file of Go. A file that cannot be read has none, as for Go.
func readGoEnv(file string) map[string]string {
	settings := map[string]string{}
	data, _ := os.ReadFile(file)
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			settings[name] = value
		}
	}
	return settings
}

// parse returns the profile that a file describes. builtIn finds the profile that it extends.
func parse(name, file string, data []byte, builtIn func(string) (Profile, bool)) (Profile, error) {
	root, problems := strictyaml.Parse(file, data)
	if len(problems) == 0 {
		Schema().Check(root, &problems)
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
