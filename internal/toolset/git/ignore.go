package git

import (
	"path"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/golem-forge/golem/sandbox"
)

// How much of a .gitignore counts.
const (
	ignoreName = ".gitignore"
	maxIgnore  = 64 << 10
)

// An ignoring knows what the .gitignore files of a tree leave out. They are files like
// others: a worker may have written them. So they only spare who stages a directory what is
// not meant, and hold for nothing that is named, or on the branch already.
type ignoring struct {
	files *sandbox.Sandbox
	top   string // the root of the repository

	mu    sync.Mutex
	known map[string][]ignoreRule // by directory: its own, behind those of the directories above
}

// An ignoreRule is one line.
type ignoreRule struct {
	pattern string // of the whole name
	not     bool   // what matches is not left out after all
	folder  bool   // it is about directories
}

// leaves reports whether a file or directory is left out.
func (i *ignoring) leaves(dir, name string, folder bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := false
	full := path.Join(dir, name)
	for _, r := range i.rules(dir) {
		if r.folder && !folder {
			continue
		}
		if ok, err := doublestar.Match(r.pattern, full); ok && err == nil {
			out = !r.not // the last one counts
		}
	}
	return out
}

// rules returns those of a directory and of all above it.
func (i *ignoring) rules(dir string) []ignoreRule {
	if rules, ok := i.known[dir]; ok {
		return rules
	}
	var rules []ignoreRule
	if dir != i.top && dir != "/" {
		rules = append(rules, i.rules(path.Dir(dir))...)
	}
	if data, _, err := i.files.ReadRange(path.Join(dir, ignoreName), 0, maxIgnore); err == nil {
		rules = append(rules, ignoreRules(dir, string(data))...)
	}
	i.known[dir] = rules
	return rules
}

// ignoreRules reads the lines of a .gitignore, as git does.
func ignoreRules(dir, text string) []ignoreRule {
	var rules []ignoreRule
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if !strings.HasSuffix(line, `\ `) {
			line = strings.TrimRight(line, " \t")
		}
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		if line, r.not = strings.CutPrefix(line, "!"); line == "" {
			continue
		}
		line, r.folder = strings.CutSuffix(line, "/")
		switch rest, rooted := strings.CutPrefix(line, "/"); {
		case rooted:
			line = rest
		case !strings.Contains(line, "/"):
			line = "**/" + line
		}
		r.pattern = path.Join(quotedGlob(dir), line)
		rules = append(rules, r)
	}
	return rules
}

// quotedGlob writes a name as a pattern that matches it alone.
func quotedGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`).Replace(name)
}
